"""Tasks, and the evaluation of methods on them."""
