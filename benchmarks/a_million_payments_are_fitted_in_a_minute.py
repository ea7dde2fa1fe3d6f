"""A million payments with two amounts: their columns are made in 10 seconds, and a model is fitted in a minute."""

from time import perf_counter

import numpy as np
from _bench import Claim

from tdlg import PropagationClassifier, PropagationFeatures, TemporalEdges
from tdlg.datasets import make_payments

N = 1_000_000


def payments(n: int) -> TemporalEdges:
    """Payments with two numeric features; the labels of the last tenth are missing."""
    made = make_payments(n, random_state=0).edges
    tip = np.random.default_rng(0).lognormal(size=n)
    label = np.where(np.arange(n) < 0.9 * n, np.asarray(made.label, float), np.nan)
    features = {"amount": np.asarray(made.features)[:, 0], "tip": tip}
    return TemporalEdges(made.src, made.dst, made.time, label=label, features=features, bipartite=True)


def seconds(work) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


claim = Claim(f"{__doc__} Synthetic, 10 % of the labels missing, past only, all cores.")
edges = payments(N)
features = PropagationFeatures(past_only=True).fit(edges)
n_columns = features.transform(edges).shape[1]  # compiled; and the memory is the process's: new pages can cost seconds
edges = payments(N)  # without what was kept for the columns
claim.check(
    "seconds for the columns",
    seconds(lambda: PropagationFeatures(past_only=True).fit(edges).transform(edges)),
    10,
    note=f"{n_columns} columns",
)
edges = payments(N)
claim.check(
    "seconds for the fit", seconds(lambda: PropagationClassifier(setting="stream", random_state=0).fit(edges)), 60
)
claim.exit()
