from .networkx import from_networkx as from_networkx
from .networkx import to_networkx as to_networkx
from .pyg import from_pyg as from_pyg
from .pyg import to_pyg as to_pyg
from .read import from_frame as from_frame
from .read import read_edges as read_edges
from .tgb import from_tgb as from_tgb
from .tgb import read_tgb as read_tgb
