"""What little there is to learn from must not make probabilities absurd."""

import numpy as np
import pytest
from scipy.special import expit

from tdlg import PropagationClassifier, TemporalEdges
from tdlg.models.training import boosting_settings

N_POSITIVE, N_TABLES = 50, 4


def payments(seed, n=12_000):
    """Payments of which about 1.5 % are frauds: more often large ones, of some cards, at some shops."""
    rng = np.random.default_rng(seed)
    card, shop, amount = rng.integers(150, size=n), rng.integers(60, size=n), rng.lognormal(size=n)
    risk = expit(-5.5 + 0.8 * np.log(amount) + rng.normal(size=150)[card] + rng.normal(size=60)[shop])
    label = (rng.random(n) < risk).astype(float)
    return TemporalEdges(card, shop, np.arange(n), label=label, features={"amount": amount}, bipartite=True)


@pytest.mark.parametrize(("setting", "factor"), [("interpolate", 1.4), ("forecast", 2.0), ("stream", 1.4)])
def test_calibrated_with_fifty_positives(setting, factor):
    """Expected over true number of positives, on average of some tables and of each; 200 trees would give .1 to .3."""
    ratios = []
    for seed in range(N_TABLES):
        edges = payments(seed)
        n = 1 + int(np.flatnonzero(edges.label == 1)[N_POSITIVE - 1])
        known = np.arange(len(edges)) < n
        if setting == "interpolate":
            known = np.random.default_rng(seed).permutation(known)
        model = PropagationClassifier(setting=setting, random_state=0, n_threads=1)
        asked = edges.with_label(np.where(known, edges.label, np.nan))
        scored = model.fit(asked).predict_proba(asked)[~known, 1]
        true = edges.label[~known]
        assert scored.max() < 0.98
        ratios.append(np.log(scored.sum() / true.sum()))
    assert abs(np.mean(ratios)) < np.log(factor), np.exp(ratios)
    assert np.abs(ratios).max() < np.log(1.6 * factor), np.exp(ratios)


def test_the_number_of_trees_follows_the_rows_of_other_classes():
    def n_trees(*counts):
        return boosting_settings(sum(counts), 0, np.repeat(np.arange(len(counts)), counts))["max_iter"]

    assert [n_trees(5000, n) for n in (3, 60, 100, 300, 400, 4000)] == [30, 30, 50, 150, 200, 200]
    assert n_trees(4000, 1000, 2) == 200, "one rare class of several does not take trees from the others"
    assert boosting_settings(100)["max_iter"] == 50
    assert boosting_settings(5000)["max_iter"] == 200
