"""The public names, by the modules that define them. `__init__.py` loads a name when it is first used."""

from .datasets.payments import make_payments as make_payments
from .datasets.payments import write_payments as write_payments
from .edges import TemporalEdges as TemporalEdges
from .embed.eigenvectors import EdgeEmbedding as EdgeEmbedding
from .embed.eigenvectors import LowRankFeatures as LowRankFeatures
from .engines.table import scan_edges as scan_edges
from .io.read import from_frame as from_frame
from .io.read import read_edges as read_edges
from .linegraph.decay import Gaussian as Gaussian
from .linegraph.decay import Laplace as Laplace
from .linegraph.decay import Mixture as Mixture
from .linegraph.decay import NoDecay as NoDecay
from .linegraph.operator import LineGraph as LineGraph
from .live.model import LiveModel as LiveModel
from .live.scorer import StreamScorer as StreamScorer
from .models.bursts import BurstDetector as BurstDetector
from .models.linegraph import LineGraphClassifier as LineGraphClassifier
from .models.links import LinkPredictor as LinkPredictor
from .models.outliers import EdgeOutlierDetector as EdgeOutlierDetector
from .models.outliers import MisplacedDetector as MisplacedDetector
from .models.propagation import PropagationClassifier as PropagationClassifier
from .models.propagation import PropagationRegressor as PropagationRegressor
from .models.surprise import RarityDetector as RarityDetector
from .models.surprise import SurpriseDetector as SurpriseDetector
from .persist.model import load_model as load_model
from .propagate.features import PropagationFeatures as PropagationFeatures
from .rank.ranker import LinkRanker as LinkRanker
from .report.page import write_report as write_report

__version__: str
