"""The line graph as an operator: decays, sorted events and products."""
