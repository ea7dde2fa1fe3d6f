"""The line graph as an operator: decays, sorted events, products."""
