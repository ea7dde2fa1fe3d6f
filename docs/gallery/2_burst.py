"""A burst: somebody acts far more often than usual.

A login each hour or so for a month, and sixty within ten minutes. `BurstDetector` needs no labels.
"""

import matplotlib.pyplot as plt
import numpy as np

from tdlg import BurstDetector, TemporalEdges

rng = np.random.default_rng(0)
usual, attack = rng.integers(0, 30 * 24 * 60, 700), 17 * 24 * 60 + rng.integers(0, 10, 60)
minutes = np.sort(np.concatenate([usual, attack]))
time = np.datetime64("2025-03-01", "s") + minutes * np.timedelta64(60, "s")
logins = TemporalEdges(["ann"] * len(time), ["server"] * len(time), time)

surprise = -BurstDetector(fast="30min", slow="5d").fit(logins).scores_

figure, ax = plt.subplots(figsize=(8, 3))
ax.vlines(time, 0, surprise, color="tab:red", linewidth=1)
ax.set(ylabel="surprise, in digits", xlabel="login")
figure.autofmt_xdate()
