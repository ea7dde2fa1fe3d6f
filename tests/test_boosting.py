"""The rows and settings of the boosted trees."""

import numpy as np
import pytest

from tdlg import PropagationClassifier, TemporalEdges
from tdlg.models import training
from tdlg.models.training import TrainingRows, TrainingWindows, training_windows
from tdlg.tables.rows import Sample


class TestSample:
    @pytest.mark.parametrize("sizes", [[10_000, 500], [5000, 5000], [3000, 300, 50_000], [100_000]])
    def test_keeps_small_classes_and_totals(self, sizes):
        codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
        (sample,) = TrainingWindows((Sample(),), np.array([sizes], float)).samples(6000)
        rows = sample.rows(codes, codes, seed=1)
        assert len(rows) == pytest.approx(6000, rel=0.05)
        assert (np.diff(rows) > 0).all()
        for k, size in enumerate(sizes):
            least = 6000 / len(sizes)
            assert (codes[rows] == k).sum() == size if size <= least else (codes[rows] == k).sum() > 0.9 * least

    def test_of_few_rows_is_all(self):
        (sample,) = TrainingWindows((Sample(),), np.array([[10.0]])).samples(10)
        assert sample.shares == (1.0,)

    def test_windows_share_the_rows(self):
        windows = training_windows("forecast", np.arange(7000), np.arange(7000) % 2, np.array([3500, 3500]))
        starts = [2000, 3000, 4000, 5000]
        assert [window[:3] for window in windows.windows] == [
            (start, stop, start) for start, stop in zip(starts, [4333, 5333, 6333, 6999], strict=True)
        ]
        assert {sample.shares for sample in windows.samples(10_000)} == {(1.0, 1.0)}
        assert windows.samples(800)[0].shares == pytest.approx((100 / 1167, 100 / 1167))

    def test_a_class_that_no_window_has(self):
        codes = np.where(np.arange(700) == 3, 1, 0)
        for setting, first in (("forecast", 200), ("stream", None)):
            windows = training_windows(setting, np.arange(700), codes, np.array([699, 1]))
            assert windows.windows[0].first == first
            assert windows.windows[-1] == Sample()
            assert windows.counts[-1].tolist() == [699, 1]

    def test_counts_are_those_of_all_rows(self):
        """TrainingWindows found in every tenth row."""
        windows = training_windows("stream", np.arange(0, 7000, 10), np.zeros(700, int), np.array([7000]))
        assert windows.counts.tolist() == [[6000]]

    def test_probabilities_stay_calibrated(self, monkeypatch):
        monkeypatch.setattr("tdlg.memory.MOST_LEARNT", 6000)
        rng = np.random.default_rng(0)
        n = 24_000
        risk = np.where(rng.integers(0, 10, n) == 0, 0.2, 0.01)
        label = (rng.random(n) < risk).astype(float)
        edges = TemporalEdges(
            rng.integers(0, 500, n), rng.integers(0, 500, n), np.arange(n), label=label, features={"risky": risk > 0.1}
        )
        hidden = np.arange(n) >= 16_000
        model = PropagationClassifier(setting="stream", random_state=0)
        scores = model.fit(edges[~hidden]).predict_proba(edges[hidden].with_label(None))[:, 1]
        assert scores.mean() == pytest.approx(label[hidden].mean(), rel=0.25)
        risky = risk[hidden] > 0.1
        assert scores[risky].mean() == pytest.approx(0.2, abs=0.06)
        assert scores[~risky].mean() == pytest.approx(0.01, abs=0.01)


@pytest.mark.parametrize("n", [1, 6, 7])
def test_medians_of_single_precision_are_those_of_double(n):
    columns = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    columns[0, 3] = np.nan
    np.testing.assert_array_equal(training.medians(columns), np.median(columns.astype(np.float64), axis=0))


class TestLinearMember:
    """A forecast averages trees with a linear model, unless the trees alone predict the latest rows better."""

    @staticmethod
    def rows(n=5000, *, bent=False, n_classes=2):
        """Rows whose class follows ten weak columns, or is bent along one of them."""
        rng = np.random.default_rng(0)
        columns = rng.normal(size=(n, 10))
        score = 4 * np.abs(columns[:, 0]) - 3 if bent else columns.sum(axis=1) / 3
        target = np.digitize(score + rng.logistic(size=n), np.linspace(-1, 1, n_classes + 1)[1:-1])
        return TrainingRows(columns, target, None, np.arange(n))

    @staticmethod
    def members(rows):
        model = PropagationClassifier(setting="forecast", random_state=0)
        model.setting_, model.classes_ = "forecast", np.unique(rows.target)
        return model.fitted_members(rows)

    @pytest.mark.usefixtures("few_trees_here")
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_stays_where_it_helps(self, monkeypatch, n_classes):
        monkeypatch.setattr(training, "ENOUGH_ROWS", 500)
        assert len(self.members(self.rows(n_classes=n_classes))) == 2

    @pytest.mark.usefixtures("few_trees_here")
    def test_is_the_same_beside_the_trees_and_after_them(self, monkeypatch):
        rows, found = self.rows(2000), []
        for most in (np.inf, 0):  # of few rows, both are fitted at once
            monkeypatch.setattr("tdlg.memory.FEW_CELLS", most)
            found.append([member.predict_proba(rows.columns[:50]) for member in self.members(rows)])
        np.testing.assert_array_equal(*found)

    @pytest.mark.usefixtures("few_trees_here")
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("most", [60_000, 2000])
    def test_goes_where_trees_alone_are_clearly_better(self, monkeypatch, weighted, most):
        monkeypatch.setattr(training, "ENOUGH_ROWS", 500)
        monkeypatch.setattr(training, "ROWS_TO_COMPARE", most)
        rows = self.rows(bent=True)
        rows = rows._replace(weight=np.where(np.arange(5000) % 5, 1.0, 0.0)) if weighted else rows
        assert len(self.members(rows)) == 1

    def test_stays_where_there_are_few_rows(self):
        assert len(self.members(self.rows(300, bent=True))) == 2
