"""refit: a new model from the log, in place only if it is better. The oracles are the live answers and batch models."""

from types import SimpleNamespace

import numpy as np
import pytest

from live_payments import (
    CUT,
    EDGES,
    LABEL_TIME,
    N_FITTED,
    OPTIONS,
    N,
    acts,
    classifier,
    detector,
    event,
    events,
    id_of,
    label,
    play,
    regressor,
)
from tdlg import PropagationClassifier
from tdlg.exceptions import EdgesError, ParameterError, TdlgWarning
from tdlg.judge.metrics import auc_and_precision
from tdlg.live import refit as refits
from tdlg.live.log import StateError
from tdlg.live.model import LiveModel
from tdlg.live.refit import go_back, refit

pytestmark = pytest.mark.usefixtures("few_trees")

LAST = EDGES.time[-1]


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch):
    monkeypatch.setattr(refits, "LEAST_OF_CLASS", 5)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A state directory in which all payments have come, and the answers."""
    folder = tmp_path_factory.mktemp("live") / "live"
    with LiveModel.open(folder, classifier()) as live:
        return folder, play(live, acts())


@pytest.fixture
def folder(played, tmp_path):
    import shutil

    return shutil.copytree(played[0], tmp_path / "live")


def window_of(found):
    """The labelled payments of the window that two models were compared on."""
    rows = np.flatnonzero((EDGES.time >= np.datetime64(found.start)) & (EDGES.time <= np.datetime64(found.stop)))
    return rows[LABEL_TIME[rows] <= LAST]


def test_both_figures_are_those_of_live_scores(played, folder):
    found = refit(folder)
    assert found.generation == "generation-0002", "large amounts are new"
    rows = window_of(found)
    assert found.n_events == len(rows) >= 20
    assert found.n_positive == EDGES.label[rows].sum()
    assert found.n_alerts == sum(played[1][row].alert for row in rows)
    assert found.gain.value == pytest.approx(found.new.average_precision - found.old.average_precision)
    assert 0 < found.gain.low < found.gain.value < found.gain.high
    assert "better, by more than chance" in found.reason
    is_positive = EDGES.label[rows] > 0
    live = np.array([played[1][row].score for row in rows])
    assert found.old[:2] == pytest.approx(auc_and_precision(is_positive, live), abs=1e-9)
    scores = scores_of_new_model(rows[0])
    assert found.new[:2] == pytest.approx(auc_and_precision(is_positive, scores[rows - rows[0]]), abs=1e-6)


def scores_of_new_model(start):
    """Scores of the payments from a row on, by a model that is fitted on what was known when the row before it came."""
    labels = np.where(LABEL_TIME <= LAST, EDGES.label, np.nan)
    labels[:N_FITTED][LABEL_TIME[:N_FITTED] > CUT] = np.nan  # nobody told these
    known = np.where(EDGES.time[start - 1] >= LABEL_TIME, labels, np.nan)
    model = PropagationClassifier(**OPTIONS).fit(EDGES[:start].with_label(known[:start], LABEL_TIME[:start]))
    model.update(EDGES[:start].with_label(labels[:start], LABEL_TIME[:start]))
    return model.predict_proba(EDGES[start:].with_label(labels[start:], LABEL_TIME[start:]))[:, 1]


@pytest.mark.parametrize("force", [False, True])
def test_a_model_that_is_worse_is_not_used(folder, monkeypatch, force):
    real = refits._LoggedHistory.fitted

    def useless(self, record):
        """In the comparison, a model that learnt the opposite of all labels."""
        if record == refits.LAST:
            return real(self, record)
        edges, ids = self.edges_before(record)
        labels = edges.label.copy()
        labels[edges.labelled] = 1 - labels[edges.labelled]
        return PropagationClassifier(**OPTIONS).fit(edges.with_label(None).with_label(labels, edges.time)), ids

    monkeypatch.setattr(refits._LoggedHistory, "fitted", useless)
    found = refit(folder, force=force)
    assert found.gain.high < 0
    assert "worse, by more than chance" in found.reason
    assert (found.generation is None) is not force
    with LiveModel.open(folder) as live:
        assert live.health()["generation"] == ("generation-0002" if force else "generation-0001")


def test_a_tie_gives_the_model_with_the_newer_labels(folder, monkeypatch):
    def newly_fitted(self, state, record):
        return self.scorer_of(*self.fitted(record), record)

    monkeypatch.setattr(refits._LoggedHistory, "scorer_before", newly_fitted)
    found = refit(folder)
    assert found.gain == (0.0, 0.0, 0.0), "the same model twice"
    assert "no clear difference" in found.reason
    assert found.generation == "generation-0002"


def test_few_labels_prove_nothing():
    """The same two models, compared on more and more labels."""
    rng = np.random.default_rng(0)
    outcome = type("Meaning", (), {"classes": [0, 1], "is_positive": bool, "time": int})
    widths = []
    for n in (40, 400, 4000):
        labels = (rng.random(n) < 0.5).astype(int).tolist()
        events = {k: refits._Event(k, {}, k) for k in range(n)}
        window = refits._EvaluationWindow(
            SimpleNamespace(
                outcome=outcome, events=events, chances_before=lambda record: {}, label_before=lambda id, record: 0
            ),
            list(events),
            labels,
        )
        good, bad = (np.array(labels) + rng.normal(0, noise, n) for noise in (0.9, 1.1))
        assert window.gain(good, good) == (0, 0, 0)
        gain = window.gain(bad, good)
        assert gain.low < gain.value < gain.high
        assert window.gain(good, bad) == pytest.approx((-gain.value, -gain.high, -gain.low))
        widths.append(gain.high - gain.low)
        if n == 40:
            assert gain.low < 0, "chance alone could do this"
    assert gain.low > 0
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("force", [False, True])
def test_labels_of_alerts_alone_decide_nothing(tmp_path, force):
    with LiveModel.open(tmp_path / "live", classifier(), alerts_per_day=10.0) as live:
        live.submit(events())
        alerts = [alert.id for alert in live.alerts("all", 10_000)]
        live.label([{"id": id, "label": int(EDGES.label[int(id[1:])])} for id in alerts])
    found = refit(tmp_path / "live", force=force)
    assert found.n_alerts == found.n_events >= 20
    assert "are of alerts, which the old model chose" in found.reason
    assert (found.generation is None) is not force


def new_event(k):
    return {**event(N - 1), "id": f"new {k}", "time": str(LAST + np.timedelta64(k + 1, "h")), "dst": EDGES.dst[k]}


def test_the_new_model_goes_on_with_all_that_was_known(folder):
    before = LiveModel.open(folder)
    alerts = [(alert.id, alert.status) for alert in before.alerts("all", 1000)]
    changes = before.changes()
    before.close()
    refit(folder, force=True)
    with LiveModel.open(folder) as live:
        assert [(alert.id, alert.status) for alert in live.alerts("all", 1000)] == alerts
        assert live.changes() == changes
        assert live.submit([event(N - 1)])[0].repeated
        waiting = [row for row in range(N_FITTED, N) if LABEL_TIME[row] > LAST]
        assert live.label([label(waiting[0])])[0].error is None, "labels of events before the refit are accepted"
        model, found = live.model, live.submit([new_event(k) for k in range(50)])
        assert live.explain("new 3")["reasons"]
    assert len(model.edges_) == N
    assert model.features_.labelled_.sum() == (LABEL_TIME[:N_FITTED] <= CUT).sum() + sum(
        LABEL_TIME[row] <= LAST for row in range(N_FITTED, N)
    )
    edges = [new_event(k) for k in range(50)]
    table = type(EDGES)(
        [one["src"] for one in edges], [one["dst"] for one in edges], [one["time"] for one in edges],
        features={"amount": [one["amount"] for one in edges]}, bipartite=True,
    )  # fmt: skip
    row = waiting[0]
    model.update(EDGES[row : row + 1].with_label(EDGES.label[[row]], LABEL_TIME[row : row + 1]))
    np.testing.assert_allclose([one.score for one in found], model.predict_proba(table)[:, 1], rtol=0, atol=1e-10)


def test_going_back_and_refitting_again(folder):
    with LiveModel.open(folder) as live:
        want = [answer.score for answer in live.submit([new_event(k) for k in range(10)])]
    refit(folder, force=True)
    with LiveModel.open(folder) as live:
        live.submit([new_event(k) for k in range(10, 20)])
        live.label([{"id": "new 3", "label": 1}])
    assert go_back(folder) == "generation-0001"
    with LiveModel.open(folder) as live:
        assert [answer.score for answer in live.submit([new_event(k) for k in range(10)])] == want
        assert live.event("new 3")["label"] == 1
        assert live.submit([new_event(15)])[0].repeated, "the log went on"
    with pytest.raises(StateError, match="go back"):
        go_back(folder)
    refit(folder, force=True)
    with LiveModel.open(folder) as live:
        assert live.health()["generation"] == "generation-0003"
        assert len(live.model.edges_) == N + 20
    assert go_back(folder) == "generation-0001", "which was active before, not the one that was left"
    refit(folder, force=True)
    with LiveModel.open(folder) as live:
        assert len(live.model.edges_) == N + 20, "what was learnt is not learnt twice"


def test_labels_of_fitted_edges_are_learnt(folder):
    row = int(np.flatnonzero(LABEL_TIME[:N_FITTED] > CUT)[0])
    id = f"{EDGES.src[row]}>{EDGES.dst[row]}@{EDGES.time[row]}"
    with LiveModel.open(folder) as live:
        assert live.label([{"id": id, "label": 1, "time": str(LABEL_TIME[row])}])[0].error is None
    refit(folder, force=True)
    with LiveModel.open(folder) as live:
        assert live.model.labels_[row] == 1
        assert live.model.label_ticks_[row] == LABEL_TIME[row].astype("datetime64[us]").astype(int)


def test_labels_that_are_not_known_yet_wait(tmp_path):
    """A label that comes with its event, but becomes known later, is no part of what the new model learns."""
    rows = range(N_FITTED, N)
    given = [event(row, label=int(EDGES.label[row]), label_time=str(LABEL_TIME[row])) for row in rows]
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        for k in range(0, len(given), 10):
            live.submit(given[k : k + 10])
    refit(tmp_path / "live", force=True)
    with LiveModel.open(tmp_path / "live") as live:
        known = live.model.features_.labelled_[N_FITTED:]
        np.testing.assert_array_equal(known, LABEL_TIME[N_FITTED:] <= LAST)


def test_a_regressor(tmp_path):
    with LiveModel.open(tmp_path / "live", regressor()) as live:
        live.submit(events())
        live.label([{"id": id_of(row), "label": EDGES.features[row, 0]} for row in range(N_FITTED, N - 100)])
    found = refit(tmp_path / "live")
    assert found.n_positive is None
    assert found.old.error > 0
    assert found.gain.value == pytest.approx(found.old.error - found.new.error)
    assert found.gain.low <= found.gain.value <= found.gain.high
    assert found.old.auc is None


def test_too_few_labels_and_bursts(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit(events())
    with pytest.raises(EdgesError, match="0 labelled events"):
        refit(tmp_path / "live")
    found = refit(tmp_path / "live", force=True)
    assert (found.old, found.new, found.generation) == (None, None, "generation-0002")
    LiveModel.open(tmp_path / "bursts", detector()).close()
    with pytest.raises(ParameterError, match="EdgeOutlierDetector"):
        refit(tmp_path / "bursts")


def test_a_pruned_log_leaves_a_hole(folder, monkeypatch):
    from tdlg.live import model as models

    now = models.time.time()
    monkeypatch.setattr(models.time, "time", lambda: now + 10**9)
    with LiveModel.open(folder, keep="1d", snapshot_every=5) as live:
        for k in range(20):
            live.submit([new_event(k)])
        assert live.health()["first_sequence"] > 1
    with pytest.raises(StateError, match=r"records of the log .* have been removed.* hole in its past, after 2025-04"):
        refit(folder)
    with pytest.warns(TdlgWarning, match="hole in its past"):
        found = refit(folder, force=True)
    assert (found.old, found.generation) == (None, "generation-0002")
