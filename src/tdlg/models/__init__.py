"""Estimators on the line graph, one a file; import them from `tdlg`."""
