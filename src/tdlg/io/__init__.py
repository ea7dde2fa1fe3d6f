"""Reading and converting edges: files and dataframes, networkx, PyTorch Geometric; one format per file."""

from tdlg.io.networkx import from_networkx, to_networkx
from tdlg.io.pyg import from_pyg, to_pyg
from tdlg.io.tables import from_frame, read_edges

__all__ = ["from_frame", "from_networkx", "from_pyg", "read_edges", "to_networkx", "to_pyg"]
