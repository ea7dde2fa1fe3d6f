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


claim = Claim(f"{__doc__} Synthetic, 10 % of the labels missing, past only, all cores.")
few = payments(3000)
PropagationFeatures(past_only=True).fit(few).transform(few)  # compiled
edges = payments(N)
start = perf_counter()
columns = PropagationFeatures(past_only=True).fit(edges).transform(edges)
claim.check("seconds for the columns", perf_counter() - start, 10, note=f"{columns.shape[1]} columns")
del columns
edges = payments(N)
start = perf_counter()
PropagationClassifier(setting="stream", random_state=0).fit(edges)
claim.check("seconds for the fit", perf_counter() - start, 60)
claim.exit()
