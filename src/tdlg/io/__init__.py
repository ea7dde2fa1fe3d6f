"""Reading and converting edges: files and dataframes, networkx, PyTorch Geometric, TGB; one format per file."""

from tdlg.io.networkx import from_networkx, to_networkx
from tdlg.io.pyg import from_pyg, to_pyg
from tdlg.io.tables import from_frame, read_edges
from tdlg.io.tgb import from_tgb, read_tgb

__all__ = ["from_frame", "from_networkx", "from_pyg", "from_tgb", "read_edges", "read_tgb", "to_networkx", "to_pyg"]
