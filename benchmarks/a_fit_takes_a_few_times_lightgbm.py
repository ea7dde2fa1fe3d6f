"""A fit with its columns takes at most 5 times the processor time of LightGBM's 200 trees on 40 ready columns."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # both with one thread

import statistics
from time import process_time

import numpy as np
from _bench import NOT_RUN, Claim

from tdlg import PropagationClassifier, PropagationFeatures, TemporalEdges
from tdlg.datasets import make_payments

try:
    from lightgbm import LGBMClassifier
except ImportError:
    raise SystemExit(NOT_RUN) from None

SIZES = ((20_000, 3), (50_000, 6))  # rows, and features
N_COLUMNS, N_TREES, REPEATS = 40, 200, 3


def payments(n: int, n_features: int) -> TemporalEdges:
    """Payments with their amount and other numbers; all labels are known."""
    made, rng = make_payments(n, random_state=0).edges, np.random.default_rng(0)
    features = {f"number {k}": rng.lognormal(size=n) for k in range(1, n_features)}
    features["amount"] = np.asarray(made.features)[:, 0]
    return TemporalEdges(made.src, made.dst, made.time, label=made.label, features=features, bipartite=True)


def seconds(work) -> float:
    start = process_time()
    work()
    return process_time() - start


claim = Claim(f"{__doc__} Synthetic payments, as a stream, one thread, in turns.")
for n, n_features in SIZES:
    edges = payments(n, n_features)
    ready = PropagationFeatures(past_only=True, n_threads=1).fit_transform(edges)[:, :N_COLUMNS]
    model = PropagationClassifier(setting="stream", n_threads=1, random_state=0)
    trees = LGBMClassifier(n_estimators=N_TREES, num_leaves=15, learning_rate=0.05, n_jobs=1, verbose=-1)
    turns = [
        (seconds(lambda: model.fit(edges)), seconds(lambda: trees.fit(ready, edges.label))) for _ in range(REPEATS + 1)
    ]
    ours, theirs = (statistics.median(times) for times in zip(*turns[1:], strict=True))  # the first turn compiles
    words = f"{ours:.2f} s against {theirs:.2f} s"
    claim.check(f"times LightGBM's, {n:,} rows with {n_features} features", ours / theirs, 5.0, note=words)
claim.exit()
