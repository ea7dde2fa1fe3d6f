"""A core predicts a million new edges a second against a fitted model."""

from time import perf_counter

import numpy as np
from _bench import Claim, hide_labels, wikielect

from tdlg import LineGraphClassifier, TemporalEdges

edges = wikielect()
labels, _ = hide_labels(edges)
model = LineGraphClassifier(class_weight="balanced", n_threads=1).fit(edges, labels)
rng = np.random.default_rng(0)
claim = Claim(f"{__doc__} wikielect, one thread, from ids and times to probabilities.")
seconds = []
for _ in range(4):
    rows = rng.integers(0, len(edges), (3, 1_000_000))
    start = perf_counter()
    new = TemporalEdges(edges.src[rows[0]], edges.dst[rows[1]], edges.time[rows[2]])
    model.predict_proba(new)
    seconds.append(perf_counter() - start)
claim.check("million edges a second", 1 / sorted(seconds[1:])[1], 1, at_least=True)
claim.exit()
