"""Reading and converting edges: files and dataframes, networkx, PyTorch Geometric, TGB; one format per file."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
