"""Public data sets by name: `load_dataset` reads the edges, `DATASETS` describes each data set. Synthetic edges.

A file is searched in the folder that the environment variable TDLG_DATA names and then in the user's cache. If it is in
neither, it is downloaded into the cache. In all cases its sha256 must be the known one. `make_payments` samples card
payments with frauds.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
