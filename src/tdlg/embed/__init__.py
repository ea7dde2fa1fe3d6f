"""Columns made of the line graph, one way a file; import them from `tdlg`."""
