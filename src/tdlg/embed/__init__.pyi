from .eigenvectors import EdgeEmbedding as EdgeEmbedding
from .eigenvectors import LowRankFeatures as LowRankFeatures
from .nodes import node_embeddings as node_embeddings
