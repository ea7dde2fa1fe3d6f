"""The demo: communities, labels and outliers of synthetic networks, in less than a minute."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_generator
from tdlg.datasets.blocks import BlockSample, make_tsbm
from tdlg.edges import TemporalEdges
from tdlg.embed.eigenvectors import EdgeEmbedding
from tdlg.embed.nodes import node_embeddings
from tdlg.judge.references import LabelRates
from tdlg.judge.run import evaluate
from tdlg.judge.trials import EdgeClassification
from tdlg.linegraph.decay import Decay, Gaussian, NoDecay
from tdlg.models.outliers import EdgeOutlierDetector
from tdlg.models.propagation import PropagationClassifier
from tdlg.report import write_report

BANDWIDTH = 0.5  # the value that the paper uses for this network
HIDDEN = 0.3  # share of the labels that are hidden
TURNED = 10  # number of nodes that turn bad
NOISE = 0.02  # share of the labels that are wrong
PLANTED = 40  # number of outliers
SHIFTS = ([[1, 0], [0, 0]], [[0, 0], [0, 1]])  # one community early, the other late


def run_demo(page: str | os.PathLike[str], *, random_state: int = 0, say: Callable[[str], object] = print) -> None:
    """Find communities, fill in labels, find outliers, and write the report to `page`; `say` gets each result as text."""
    sample = make_tsbm(random_state=random_state)
    say(
        f"A synthetic network: {len(sample.edges):,} interactions between {sample.edges.n_nodes} nodes of two communities."
    )
    say(
        "Early interactions are within a community, late ones between the two: without times there is nothing to see.\n"
    )
    in_time, blind = (find_communities(sample, decay) for decay in (Gaussian(BANDWIDTH), NoDecay()))
    say("1. Communities, found without labels")
    say(f"   with times     {in_time:4.0%} of the nodes are assigned to the right one")
    say(f"   without times  {blind:4.0%}, where guessing gives 50%\n")
    model, edges, right, majority, ours, rates = fill_in_labels(sample, random_state)
    say(f"2. Labels: {TURNED} nodes turn bad halfway, and {np.count_nonzero(~edges.labelled):,} labels are hidden")
    say(f"   {right:4.0%} of the hidden labels are predicted correctly, where 'not bad' for all gives {majority:.0%}")
    say(f"   average precision {ours:.2f} on held-out labels; {rates:.2f} from the rates of bad labels per node\n")
    found, auc = find_outliers(random_state)
    say(f"3. Outliers: {PLANTED} interactions out of their time, planted among 4,000 of two shifts")
    say(f"   {found} of them are among the {PLANTED} strongest outliers (AUC {auc:.3f})\n")
    write_report(page, model, edges, title="tdlg demo", command="tdlg demo", seed=random_state)
    say(f"The report on the labels: {os.fspath(page)}")


def find_communities(sample: BlockSample, decay: Decay) -> float:
    """Cluster the nodes into two communities; returns the share of nodes in the right community."""
    from sklearn.cluster import KMeans

    vectors = EdgeEmbedding(3, decay=decay, random_state=0).fit(sample.edges).embedding_[:, 1:]
    nodes = np.asarray(node_embeddings(sample.edges, vectors))
    found = KMeans(2, n_init=10, random_state=0).fit_predict(nodes)
    same = float(np.mean(found == sample.community))
    return max(same, 1 - same)


def labels_that_turn(edges: TemporalEdges, random_state: Any = None) -> NDArray[np.int64]:
    """Labels: 1 (bad) for the interactions of some nodes in the second half of the time, else 0; a few are wrong."""
    rng = as_generator(random_state)
    bad = rng.choice(edges.n_nodes, TURNED, replace=False)
    touched = np.isin(edges.src_code, bad) | np.isin(edges.dst_code, bad)
    is_bad = touched & (edges.time > np.median(edges.time))
    return (is_bad ^ (rng.random(len(edges)) < NOISE)).astype(np.int64)


def fill_in_labels(
    sample: BlockSample, random_state: int = 0
) -> tuple[PropagationClassifier, TemporalEdges, float, float, float, float]:
    """Hide labels and fill them in.

    Returns the fitted model; the edges without the hidden labels; the shares of hidden labels that are predicted correctly
    and that are 0, the majority class; and the average precision on held-out labels of this model and of label rates.
    """
    labels = labels_that_turn(sample.edges, random_state)
    hidden = as_generator(random_state).random(len(labels)) < HIDDEN
    edges = sample.edges.with_label(np.where(hidden, np.nan, labels))
    model = PropagationClassifier(random_state=random_state).fit(edges)
    right = float(np.mean(model.predict(edges[hidden]) == labels[hidden]))
    majority = float(np.mean(labels[hidden] == 0))
    task = EdgeClassification(sample.edges.with_label(labels))
    ours, rates = (
        float(evaluate(method, task, trials=1, random_state=random_state)["average_precision"][0])
        for method in ("propagation", LabelRates(random_state=random_state))
    )
    return model, edges, right, majority, ours, rates


def find_outliers(random_state: int = 0) -> tuple[int, float]:
    """Plant interactions of one shift at times of the other shift, and detect them as outliers.

    Returns the number of planted edges among the `PLANTED` strongest outliers, and the AUC for planted against other edges.
    """
    from sklearn.metrics import roc_auc_score

    shifts = make_tsbm(intra=SHIFTS, random_state=random_state)
    early, late = (np.flatnonzero(shifts.period == period) for period in (0, 1))
    rng = as_generator(random_state)
    who, when = (rng.choice(edges, PLANTED, replace=False) for edges in (early, late))
    edges = shifts.edges
    src, dst, time = ((column, column[at]) for column, at in ((edges.src, who), (edges.dst, who), (edges.time, when)))
    mixed = TemporalEdges(*map(np.concatenate, (src, dst, time)))
    planted = np.arange(len(mixed)) >= len(edges)
    outlier_score = -EdgeOutlierDetector(random_state=random_state).fit(mixed).scores_
    found = int(planted[np.argsort(-outlier_score, kind="stable")[:PLANTED]].sum())
    return found, float(roc_auc_score(planted, outlier_score))
