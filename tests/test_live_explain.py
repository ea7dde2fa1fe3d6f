"""Reasons for live events. The oracle is the explanation of the model itself, which sees the whole table."""

import numpy as np
import pytest

from live_payments import (
    CUT,
    EDGES,
    LABEL_TIME,
    N_FITTED,
    N,
    acts,
    classifier,
    detector,
    event,
    events,
    id_of,
    play,
    regressor,
)
from tdlg import PropagationClassifier, TemporalEdges
from tdlg.live.model import LiveModel
from tdlg.live.scorer import UnknownEventError

pytestmark = pytest.mark.usefixtures("few_trees")
THRESHOLD = 0.05


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    with LiveModel.open(tmp_path_factory.mktemp("live") / "live", classifier(), threshold=THRESHOLD) as live:
        play(live, acts())
        yield live


def whole():
    """The events with the labels that became known while they came."""
    labels = np.where(EDGES.time[-1] >= LABEL_TIME, EDGES.label, np.nan)
    return EDGES[N_FITTED:].with_label(labels[N_FITTED:], LABEL_TIME[N_FITTED:])


def test_reasons_are_those_of_the_whole_table(played):
    alerts = {alert.id for alert in played.alerts("all", 1000)}
    rows = np.arange(0, N - N_FITTED, 17)
    assert 5 < sum(id_of(N_FITTED + row) in alerts for row in range(N - N_FITTED)) < N - N_FITTED
    table = classifier().explain(whole(), 3, rows=rows)
    for row in rows.tolist():
        found = played.explain(id_of(N_FITTED + row), 3)
        want = table.filter(table["edge"] == row)
        assert [reason["what"] for reason in found["reasons"]] == want["what"].to_list()
        np.testing.assert_allclose([reason["effect"] for reason in found["reasons"]], want["effect"], rtol=0, atol=1e-6)
        for reason, sentence, neighbours in zip(found["reasons"], want["reason"], want["neighbours"], strict=True):
            assert all(behind["time"] < str(EDGES.time[N_FITTED + row]) for behind in reason["events"])
            if not reason["what"].endswith("agreement"):  # which looks at more edges than are around an event
                assert reason["reason"] == sentence
                assert len(reason["events"]) == len(neighbours)


def test_reasons_are_much_the_same_without_the_columns(played):
    """Columns that are not kept are made again from what is around an event, which has not all of the past."""
    rows = np.arange(N_FITTED, N, 9)
    kept = [played.explain(id_of(row))["reasons"][0] for row in rows]
    recent, alerts = played._state.recent, played._state.alerts
    held = {row: recent.get(id_of(row)).columns for row in rows}
    for row in rows:
        recent.get(id_of(row)).columns = None
        if alerts.get(id_of(row)):
            alerts.get(id_of(row)).columns = None
    again = [played.explain(id_of(row))["reasons"][0] for row in rows]
    for row in rows:
        recent.get(id_of(row)).columns = held[row]
    assert np.mean([a["reason"] == b["reason"] for a, b in zip(kept, again, strict=True)]) > 0.9


def test_an_alert_has_its_main_reason(played):
    alert = played.alerts("all", 1)[0]
    raised = [reason["reason"] for reason in played.explain(alert.id)["reasons"] if reason["effect"] > 0]
    assert alert.reason == raised[0]


def test_the_events_behind_a_reason_are_events(played):
    reasons = [reason for row in range(N_FITTED, N, 20) for reason in played.explain(id_of(row))["reasons"]]
    behind = [one for reason in reasons for one in reason["events"]]
    fitted = [one for one in behind if "id" not in one]
    live = [one for one in behind if "id" in one]
    assert fitted
    assert live
    assert set(fitted[0]) == {"src", "dst", "time", "amount", "label"}
    assert set(live[0]) == {"id", "src", "dst", "time", "amount", "label", "score"}
    row = int(live[0]["id"][1:])
    assert (live[0]["src"], live[0]["dst"], live[0]["amount"]) == (
        EDGES.src[row],
        EDGES.dst[row],
        EDGES.features[row, 0],
    )


def test_an_unknown_event_has_no_reasons(played):
    with pytest.raises(UnknownEventError, match="'x'"):
        played.explain("x")
    assert played.event("x") is None


def test_events_and_nodes(played):
    shown = played.event(id_of(N_FITTED + 3))
    assert {name: shown[name] for name in event(N_FITTED + 3)} == event(N_FITTED + 3)
    node = EDGES.dst[N_FITTED]
    mine = np.flatnonzero(EDGES.dst == node)
    found = played.node(node, 7)
    assert [one["time"] for one in found["events"]] == [str(time) for time in EDGES.time[mine[-7:]]]
    assert (found["n_fitted"], found["n_live"]) == ((mine < N_FITTED).sum(), (mine >= N_FITTED).sum())
    everything = played.node(node, 1000)
    told = np.where(np.arange(N) < N_FITTED, CUT, EDGES.time[-1])
    labels = np.where(told >= LABEL_TIME, EDGES.label, np.nan)[mine]
    assert everything["labelled"] == np.isfinite(labels).sum()
    assert everything["positive"] == np.nansum(labels)
    assert played.node("nobody")["events"] == []


def test_an_alert_is_explained_when_it_is_not_recent_any_more(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=THRESHOLD, n_recent=20) as live:
        live.submit(events())
        first = live.alerts("all", 1000)[-1]
        assert live._state.recent.get(first.id) is None
        assert live.explain(first.id)["reasons"]
        assert live.event(first.id)["score"] == first.score


def test_reasons_of_numbers_and_bursts(tmp_path):
    with LiveModel.open(tmp_path / "numbers", regressor()) as live:
        live.submit(events())
        table = regressor().explain(EDGES[N_FITTED:].with_label(None), 2, rows=[50])
        assert [reason["reason"] for reason in live.explain(id_of(N_FITTED + 50), 2)["reasons"]] == table[
            "reason"
        ].to_list()
    with LiveModel.open(tmp_path / "bursts", detector(), threshold=0.5) as live:
        live.submit(events())
        alert = live.alerts("all", 1)[0]
        row = int(alert.id[1:]) - N_FITTED
        table = detector().explain(EDGES[N_FITTED:], 3, rows=[row])
        found = live.explain(alert.id)["reasons"]
        assert [reason["reason"] for reason in found] == table["reason"].to_list()
        np.testing.assert_allclose([reason["effect"] for reason in found], table["effect"], rtol=0, atol=1e-6)
        assert alert.reason == found[0]["reason"]


def test_numbers_as_ids_and_several_classes_and_categories(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    src, dst, kind = rng.integers(0, 9, n), rng.integers(0, 9, n), rng.integers(0, 3, n)
    edges = TemporalEdges(
        src, dst, np.arange(n), label=np.array(["a", "b", "c"])[dst % 3], features={"kind": [f"k{k}" for k in kind]}
    )
    model = PropagationClassifier(setting="stream", random_state=0).fit(edges[:300])
    with LiveModel.open(tmp_path / "live", model) as live:
        given = [
            {"id": k, "src": str(src[k]), "dst": int(dst[k]), "time": k, "kind": f"k{kind[k]}", "label": edges.label[k]}
            for k in range(300, n)
        ]
        answers = live.submit(given)
        want = model.predict_proba(edges[300:])
        np.testing.assert_allclose([answer.probabilities for answer in answers], want, rtol=0, atol=1e-10)
        table = model.explain(edges[300:], 3, rows=[77])
        found = live.explain(377)["reasons"]
        assert [reason["reason"] for reason in found] == table["reason"].to_list()
        node = live.node("3", 1000)
        assert node["n_live"] == ((src[300:] == 3) | (dst[300:] == 3)).sum()
        assert node["n_fitted"] == ((src[:300] == 3) | (dst[:300] == 3)).sum()
