"""Fitted models as files without executable code: `save_model` and `load_model` are in `model.py`."""
