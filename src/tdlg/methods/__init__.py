"""Everything that can be judged: our methods and the references."""
