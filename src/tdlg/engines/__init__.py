"""Columns of more edges than memory holds: bucket files by key, and tasks over them that any engine can run."""
