"""Tables by `submit_table`, events that are withdrawn."""

import numpy as np
import pytest

from live_payments import EDGES, LABEL_TIME, N_FITTED, acts, classifier, detector, event, events, id_of, label, play
from tdlg.live.event import TABLE
from tdlg.live.model import LiveModel
from tdlg.live.refit import refit
from tdlg.live.scorer import UnknownEventError

pytestmark = pytest.mark.usefixtures("few_trees")
ROWS = range(N_FITTED, 700)
LATER = range(700, 760)


def table(rows, **more):
    return {"X": EDGES[list(rows)].with_label(None), "ids": [id_of(row) for row in rows], **more}


def figures(live):
    statistics = {name: value for name, value in live.statistics().items() if name != "events_per_second"}
    alerts = [(alert.id, alert.score, alert.status, alert.features) for alert in live.alerts("all", 1000)]
    return statistics, alerts, live.changes(), live.node(EDGES.src[N_FITTED])["n_live"]


def crash(live):
    live._failure = RuntimeError("killed")
    live._directory.close()


# ---- tables


def test_a_table_is_its_rows_as_events(tmp_path):
    known = LABEL_TIME[ROWS] <= EDGES.time[700]
    labels = np.where(known, EDGES.label[ROWS], np.nan)
    with LiveModel.open(tmp_path / "table", classifier(), threshold=0.3) as live:
        rows = EDGES[list(ROWS)].with_label(labels, LABEL_TIME[ROWS])
        answers = live.submit_table(rows, ids=[id_of(row) for row in ROWS], position="here")
        assert live.position == "here"
        assert [record.kind for record in live._directory.log.replay()][-1] == TABLE
        found, more = figures(live), live.submit(events(LATER))
        crash(live)
    with LiveModel.open(tmp_path / "events", classifier(), threshold=0.3) as live:
        given = [
            event(row, **({"label": int(value), "label_time": str(LABEL_TIME[row])} if value == value else {}))
            for row, value in zip(ROWS, labels, strict=True)
        ]
        assert live.submit(given) == answers
        assert figures(live) == found
        assert live.submit(events(LATER)) == more
        assert live.event(id_of(510)) == (same := live.event(id_of(510)))
    with LiveModel.open(tmp_path / "table") as live:  # from the log
        assert all(again.repeated for again in live.submit(events(LATER)))
        assert live.event(id_of(510)) == same
        live.snapshot()
    with LiveModel.open(tmp_path / "table") as live:  # from a snapshot
        assert live.event(id_of(510)) == same


def test_rows_in_any_order_and_again(tmp_path):
    rows = np.random.default_rng(0).permutation(ROWS).tolist()
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        shown = []
        answers = live.submit_table(**table(rows), progress=lambda done, n: shown.append((done, n)))
        assert shown == [(200, 200)]
        assert [answer.id for answer in answers] == [id_of(row) for row in rows]
        again = live.submit_table(**table(rows), y=EDGES.label[rows])
        assert all(one.repeated and one.score == other.score for one, other in zip(again, answers, strict=True))
        assert live.n_labels == 200, "the labels that came with them are learnt"
        assert live.submit_table(EDGES[[]]) == []
    with LiveModel.open(tmp_path / "alone", classifier()) as live:
        assert {a.id: a.score for a in live.submit(events(ROWS))} == {a.id: a.score for a in answers}


def test_rows_without_ids_are_known_by_their_content(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit_table(EDGES[list(ROWS)].with_label(None))
        again = live.submit([{name: value for name, value in event(row).items() if name != "id"} for row in ROWS])
        assert all(answer.repeated for answer in again)
        fitted = live.submit_table(EDGES[480:520].with_label(None))
        assert [answer.score is None for answer in fitted] == [True] * 20 + [False] * 20


def test_a_bad_row_is_refused_and_the_others_are_scored(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        ids = [id_of(row) for row in ROWS]
        ids[3] = True
        large = EDGES[list(ROWS)].with_label(None)
        features = {"amount": np.where(np.arange(200) == 5, 1e300, large.features[:, 0])}
        bad = type(large)(large.src, large.dst, large.time, features=features, bipartite=large.bipartite)
        answers = live.submit_table(bad, ids=ids)
        assert [(k, a.error.field) for k, a in enumerate(answers) if a.error] == [(3, "id"), (5, "amount")]
        with pytest.raises(ValueError, match=r"'ids' must have one value per row: 200\. Got 2"):
            live.submit_table(bad, ids=["a", "b"])


def test_a_refit_learns_from_tables(tmp_path):
    for name in ("table", "events"):
        with LiveModel.open(tmp_path / name, classifier()) as live:
            if name == "table":
                live.submit_table(**table(range(N_FITTED, 900)))
            else:
                live.submit(events())
            live.label([label(row, time=str(EDGES.time[-1])) for row in range(N_FITTED, 900)])
    found = [refit(tmp_path / name) for name in ("table", "events")]
    assert found[0].new == found[1].new
    assert found[0].old == found[1].old


# ---- events that are withdrawn


@pytest.mark.parametrize("how", ["live", "log", "snapshot"])
def test_a_withdrawn_event_is_as_if_it_had_not_been(tmp_path, how):
    gone = [id_of(row) for row in (550, 575, 699)]
    with LiveModel.open(tmp_path / "live", classifier(), threshold=0.1) as live:
        live.submit(events(ROWS))
        live.label([{"id": gone[0], "label": 1}, {"id": id_of(551), "label": 1}])
        answers = live.withdraw([*gone, "nobody", gone[0]])
        assert [type(answer.error) for answer in answers] == [type(None)] * 3 + [UnknownEventError] * 2
        assert live.event(gone[0]) is None
        assert not {alert.id for alert in live.alerts("all", 1000)} & set(gone)
        assert not any(one["id"] in gone for one in live.node(EDGES.src[550])["events"] if "id" in one)
        if how == "snapshot":
            live.snapshot()
        if how != "live":
            crash(live)
    with LiveModel.open(tmp_path / "live") as live:
        assert live.event(gone[1]) is None
        scores = [answer.score for answer in live.submit(events(LATER))]
        again = live.submit([event(550)])[0]
        assert not again.repeated, "it may come again"
    with LiveModel.open(tmp_path / "without", classifier(), threshold=0.1) as live:
        live.submit([event(row) for row in ROWS if id_of(row) not in gone])
        live.label([{"id": id_of(551), "label": 1}])
        assert scores == pytest.approx([answer.score for answer in live.submit(events(LATER))], abs=0.2)


def test_sums_of_a_withdrawn_event_are_gone(tmp_path):
    sums = []
    for with_it in (True, False):
        with LiveModel.open(tmp_path / str(with_it), classifier()) as live:
            live.submit([event(row) for row in ROWS if with_it or row != 690])
            if with_it:
                live.label([{"id": id_of(690), "label": 1, "time": str(EDGES.time[695])}])
                live.withdraw([id_of(690)])
            live.submit([event(700)])
            running = live._state.scorer._running
            around, now = running._around, running.clock
            passed = np.exp(-around.rates * (now - around.time[: around.n])[:, np.newaxis])
            faded = around.sums[: around.n, :, 0] * passed  # the number of edges
            sums.append({int(key): row for key, row in zip(around.keys[: around.n], faded, strict=True)})
    for key, row in sums[1].items():
        np.testing.assert_allclose(sums[0][key], row, rtol=1e-9, atol=1e-12)


def test_a_refit_leaves_out_what_was_withdrawn(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        play(live, acts())
        live.withdraw([id_of(600)])
    refit(tmp_path / "live", force=True)
    with LiveModel.open(tmp_path / "live") as live:
        assert len(live.model.edges_) == 899
        assert not live.submit([event(600)])[0].repeated


def test_bursts_can_be_withdrawn(tmp_path):
    with LiveModel.open(tmp_path / "live", detector()) as live:
        live.submit(events(ROWS))
        assert live.withdraw([id_of(600)])[0].error is None
        assert live.event(id_of(600)) is None


# ---- nodes with many events


def test_a_hub_is_not_scanned(tmp_path, monkeypatch):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        hub = [
            {**event(N_FITTED), "id": f"h{k}", "time": str(EDGES.time[-1] + np.timedelta64(k, "s"))}
            for k in range(5000)
        ]
        live.submit(hub)
        seen = []
        real = type(live._state.recent).at
        monkeypatch.setattr(type(live._state.recent), "at", lambda self, k: seen.append(k) or real(self, k))
        found = live.node(EDGES.src[N_FITTED], limit=10)
        assert found["n_live"] == 5000
        assert [one["id"] for one in found["events"]] == [f"h{k}" for k in range(4990, 5000)]
        assert len(seen) < 3000
