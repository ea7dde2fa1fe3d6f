"""Trials that would take too long have fewer epochs, quick ones come first, and the rest is estimated."""

import csv
from typing import ClassVar

import numpy as np
import pytest

from tdlg import TemporalEdges
from tdlg.judge.methods import METHODS
from tdlg.judge.run import read_results
from tdlg_paper import budget, run
from tdlg_paper.__main__ import _described
from tdlg_paper.baselines.vectors import NodeVectorMethod
from tdlg_paper.budget import as_measured, in_epochs, quick, seconds_per_trial, trial_seconds, within_budget
from tdlg_paper.lineup import EDGE, LINEUP
from tdlg_paper.recipes import Run
from tdlg_paper.results import Results
from tdlg_paper.run import Step, reproduce

ENTRY = next(entry for entry in LINEUP if entry.key == "vgrnn")


class Slow(NodeVectorMethod):
    """Each epoch takes ten seconds of a clock that does not run by itself."""

    name: ClassVar[str] = "VGRNN"
    n_snapshots = 1
    operator = "hadamard"
    clock = 0.0
    embedded: ClassVar[list] = []

    def __init__(self, *, epochs=50, class_weight="balanced", random_state=None):
        self.epochs = epochs
        self.class_weight = class_weight
        self.random_state = random_state

    def _embed(self, snapshots, callback):
        Slow.embedded.append(self.epochs)
        for epoch in range(self.epochs):
            Slow.clock += 10.0
            if callback(epoch + 1, self.epochs):
                break
        return np.random.default_rng(0).normal(size=(1, snapshots.n_nodes, 2))


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(budget, "perf_counter", lambda: Slow.clock)
    Slow.embedded.clear()


@pytest.fixture
def edges():
    rng = np.random.default_rng(0)
    return TemporalEdges(*rng.integers(0, 20, (2, 200)), rng.uniform(0, 1e6, 200), label=rng.integers(0, 2, 200))


@pytest.fixture
def alone(monkeypatch, edges):
    """No other methods than the slow one."""
    monkeypatch.setattr(run, "load_dataset", lambda name: edges)
    run._edges.cache_clear()
    for key in list(METHODS):
        monkeypatch.delitem(METHODS, key)
    monkeypatch.setitem(METHODS, "vgrnn", Slow)
    yield
    run._edges.cache_clear()


class TestEpochs:
    @pytest.mark.parametrize(("seconds", "epochs"), [(1e9, 50), (500, 50), (499, 49), (120, 12), (1, 1)])
    def test_as_many_as_fit(self, edges, seconds, epochs):
        method = Slow(random_state=3)
        fitting = within_budget(method, edges, seconds)
        assert fitting.get_params() == method.get_params() | {"epochs": epochs}
        assert Slow.embedded == [50]

    def test_one_epoch_is_not_tried(self, edges):
        method = Slow(epochs=1)
        assert within_budget(method, edges, 1.0) is method
        assert not Slow.embedded

    def test_the_rows_say_with_how_many(self):
        method = Slow(class_weight=None)
        assert as_measured(method, []) is None
        assert as_measured(method, ["", "epochs=3", "class_weight=None, epochs=60"]) is None
        assert as_measured(method, ["class_weight=None, epochs=3"]).epochs == 3
        assert as_measured(method, ["class_weight=None, epochs=3", "class_weight=None"]).epochs == 50

    def test_in_words(self):
        assert [in_epochs(1), in_epochs(7)] == ["1 epoch", "7 epochs"]

    def test_quick(self):
        assert quick(Slow()).epochs == 1


class TestReproduce:
    def test_fewer_epochs_are_kept_and_told(self, alone, tmp_path):
        asked = {"folder": tmp_path, "datasets": ["escorts"], "minutes": 70 / 60}
        page = reproduce("edge-classification", trials=1, **asked)
        assert Slow.embedded == [1, 50, 7]  # to compile, to estimate, to measure
        assert read_results(tmp_path / "edge-classification.csv")["settings"].to_list() == ["epochs=7"]
        assert "(7 epochs)" in page.read_text()
        assert Results(tmp_path).auc(EDGE, ENTRY, "escorts").epochs == 7
        reproduce("edge-classification", trials=1, **asked)
        assert Slow.embedded == [1, 50, 7]  # nothing is repeated
        reproduce("edge-classification", trials=2, **asked)
        assert Slow.embedded == [1, 50, 7, 1, 7]  # and nothing estimated again
        reproduce("edge-classification", trials=1, again=True, **asked)
        assert read_results(tmp_path / "edge-classification.csv").height == 1

    def test_the_rest_is_told(self, alone, tmp_path):
        steps, asked = [], {"folder": tmp_path, "datasets": ["escorts", "wikielect"]}
        reproduce("edge-classification", trials=2, **asked, callback=steps.append)
        left = [step.left for step in steps]
        assert left[0] > left[-2] > left[-1] == 0
        assert "left)" in _described(steps[0])
        assert _described(Step(1, 2, "text")) == "text"

    def test_quick_trials_come_first(self, alone, tmp_path):
        steps, asked = [], {"folder": tmp_path, "datasets": ["escorts", "wikielect"]}
        reproduce("edge-classification", trials=1, **asked, callback=steps.append)
        assert [text.split(",")[0] for text in dict.fromkeys(step.text for step in steps)] == [
            "edge-classification: escorts",
            "edge-classification: wikielect",
        ]
        with (tmp_path / "edge-classification.csv").open() as file:
            rows = list(csv.DictReader(file))
        with (tmp_path / "edge-classification.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row | {"fit_seconds": {"escorts": 9, "wikielect": 1}[row["dataset"]]} for row in rows)
        steps.clear()
        reproduce("edge-classification", trials=2, **asked, callback=steps.append)
        assert "wikielect" in steps[0].text


def test_seconds_are_estimated_from_the_nearest_rows(alone, tmp_path):
    asked, path = Run("vgrnn", "edge", "wikielect", 1), tmp_path / "edge-classification.csv"
    assert seconds_per_trial(asked, path) == trial_seconds("vgrnn", 107_071)
    reproduce("edge-classification", folder=tmp_path, trials=1, datasets=["escorts"])
    took = seconds_per_trial(Run("vgrnn", "edge", "escorts", 1), path)
    assert seconds_per_trial(asked, path) == pytest.approx(took * 107_071 / 50_632)
