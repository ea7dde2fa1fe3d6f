from .candidates import candidate_pairs as candidate_pairs
from .index import edge_folds as edge_folds
from .negatives import historical_edges as historical_edges
from .negatives import inductive_edges as inductive_edges
from .negatives import shuffled_edges as shuffled_edges
from .negatives import time_kept_edges as time_kept_edges
