"""Trials that would take too long have fewer epochs, and their rows say so."""

from typing import ClassVar

import numpy as np
import pytest

from tdlg import TemporalEdges
from tdlg.judge.methods import METHODS
from tdlg.judge.run import read_results
from tdlg_paper import budget, run
from tdlg_paper.baselines.vectors import NodeVectorMethod
from tdlg_paper.budget import as_measured, in_epochs, with_epochs, within_budget
from tdlg_paper.recipes import EDGE, LINEUP
from tdlg_paper.results import Results
from tdlg_paper.run import reproduce

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
        assert with_epochs(Slow(), 1).epochs == 1


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
