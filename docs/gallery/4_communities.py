"""Communities that change with time.

Two communities whose members meet among themselves first and across later. Without time, the two periods cancel out.
"""

import matplotlib.pyplot as plt

from tdlg import EdgeEmbedding, Gaussian, NoDecay
from tdlg.embed import node_embeddings
from tdlg_paper.blocks import make_tsbm

sample = make_tsbm(random_state=0)

figure, panels = plt.subplots(1, 2, figsize=(8, 3.6))
for ax, decay in zip(panels, (Gaussian(0.5), NoDecay()), strict=True):
    vectors = EdgeEmbedding(3, decay=decay, random_state=0).fit(sample.edges).embedding_[:, 1:]
    nodes = node_embeddings(sample.edges, vectors)
    ax.scatter(*nodes.T, c=sample.community, cmap="coolwarm", s=18)
    ax.set(title=str(decay), xticks=[], yticks=[])
