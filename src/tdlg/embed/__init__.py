"""Embeddings and features from the line graph, one method per file; import them from `tdlg`."""
