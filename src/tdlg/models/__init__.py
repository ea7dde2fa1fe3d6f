"""Estimators on the line graph, one per file; import them from `tdlg`."""
