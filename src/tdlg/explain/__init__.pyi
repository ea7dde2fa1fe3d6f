from .nodes import node_scores as node_scores
from .positive import positive_class as positive_class
from .reasons import contributions_of_rows as contributions_of_rows
from .reasons import explain_propagation as explain_propagation
from .reasons import explain_rows as explain_rows
