"""Machine learning on temporal networks: the time-decayed line graph as something you multiply by.

Names load when first used, so that `import tdlg` stays light.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tdlg.datasets.blocks import TemporalBlockModel, make_tsbm
    from tdlg.datasets.load import load_dataset
    from tdlg.datasets.payment_file import write_payments
    from tdlg.datasets.payments import make_payments
    from tdlg.edges import TemporalEdges
    from tdlg.embed.eigenvectors import EdgeEmbedding
    from tdlg.embed.lowrank import LowRankFeatures
    from tdlg.embed.nodes import node_embeddings
    from tdlg.engines.table import scan_edges
    from tdlg.exceptions import (
        ClusterError,
        EdgesError,
        ParameterError,
        ReadError,
        TdlgError,
        TdlgWarning,
        TooLargeError,
    )
    from tdlg.explain.nodes import node_scores
    from tdlg.io.networkx import from_networkx, to_networkx
    from tdlg.io.pyg import from_pyg, to_pyg
    from tdlg.io.tables import from_frame, read_edges
    from tdlg.io.tgb import from_tgb, read_tgb
    from tdlg.linegraph.decay import Gaussian, Laplace, Mixture, NoDecay
    from tdlg.linegraph.operator import LineGraph
    from tdlg.live.model import LiveModel
    from tdlg.live.scorer import StreamScorer
    from tdlg.models.bursts import BurstDetector
    from tdlg.models.linegraph import LineGraphClassifier
    from tdlg.models.links import LinkPredictor
    from tdlg.models.misplaced import MisplacedDetector
    from tdlg.models.outliers import EdgeOutlierDetector
    from tdlg.models.propagation_classifier import PropagationClassifier
    from tdlg.models.propagation_regressor import PropagationRegressor
    from tdlg.persist.model import load_model
    from tdlg.propagate.features import PropagationFeatures
    from tdlg.rank.ranker import LinkRanker
    from tdlg.report import write_report
    from tdlg.sampling.negatives import shuffled_edges

__version__ = "0.1.0"

__all__ = [
    "BurstDetector",
    "ClusterError",
    "EdgeEmbedding",
    "EdgeOutlierDetector",
    "EdgesError",
    "Gaussian",
    "Laplace",
    "LineGraph",
    "LineGraphClassifier",
    "LinkPredictor",
    "LinkRanker",
    "LiveModel",
    "LowRankFeatures",
    "MisplacedDetector",
    "Mixture",
    "NoDecay",
    "ParameterError",
    "PropagationClassifier",
    "PropagationFeatures",
    "PropagationRegressor",
    "ReadError",
    "StreamScorer",
    "TdlgError",
    "TdlgWarning",
    "TemporalBlockModel",
    "TemporalEdges",
    "TooLargeError",
    "from_frame",
    "from_networkx",
    "from_pyg",
    "from_tgb",
    "load_dataset",
    "load_model",
    "make_payments",
    "make_tsbm",
    "node_embeddings",
    "node_scores",
    "read_edges",
    "read_tgb",
    "scan_edges",
    "shuffled_edges",
    "to_networkx",
    "to_pyg",
    "write_payments",
    "write_report",
]

_MODULE_OF = {
    "ClusterError": "exceptions",
    "EdgeEmbedding": "embed.eigenvectors",
    "BurstDetector": "models.bursts",
    "EdgeOutlierDetector": "models.outliers",
    "MisplacedDetector": "models.misplaced",
    "EdgesError": "exceptions",
    "Gaussian": "linegraph.decay",
    "Laplace": "linegraph.decay",
    "LineGraph": "linegraph.operator",
    "LineGraphClassifier": "models.linegraph",
    "LinkPredictor": "models.links",
    "LinkRanker": "rank.ranker",
    "LiveModel": "live.model",
    "LowRankFeatures": "embed.lowrank",
    "Mixture": "linegraph.decay",
    "NoDecay": "linegraph.decay",
    "ParameterError": "exceptions",
    "PropagationClassifier": "models.propagation_classifier",
    "PropagationFeatures": "propagate.features",
    "PropagationRegressor": "models.propagation_regressor",
    "ReadError": "exceptions",
    "StreamScorer": "live.scorer",
    "TdlgError": "exceptions",
    "TdlgWarning": "exceptions",
    "TemporalBlockModel": "datasets.blocks",
    "TemporalEdges": "edges",
    "TooLargeError": "exceptions",
    "from_frame": "io.tables",
    "from_networkx": "io.networkx",
    "from_pyg": "io.pyg",
    "from_tgb": "io.tgb",
    "load_dataset": "datasets.load",
    "load_model": "persist.model",
    "make_payments": "datasets.payments",
    "make_tsbm": "datasets.blocks",
    "node_embeddings": "embed.nodes",
    "node_scores": "explain.nodes",
    "read_edges": "io.tables",
    "read_tgb": "io.tgb",
    "scan_edges": "engines.table",
    "shuffled_edges": "sampling.negatives",
    "to_networkx": "io.networkx",
    "to_pyg": "io.pyg",
    "write_payments": "datasets.payment_file",
    "write_report": "report",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
