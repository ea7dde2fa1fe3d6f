"""What waits for its time: replaced labels leave, and labels of the far future hold no memory. Oracle: a plain list."""

import numpy as np
import pytest

from live_payments import EDGES, LABEL_TIME, N_FITTED, classifier, event, id_of, known_at
from tdlg import PropagationClassifier
from tdlg.live.model import LiveModel
from tdlg.live.scorer import StreamScorer
from tdlg.propagate.running import Waiting

FAR = "2999-01-01T00:00:00"


def listed(absorptions):
    return list(zip(*(column.tolist() for column in absorptions), strict=True))


def test_labels_are_removed_as_from_a_list():
    rng, waiting, oracle = np.random.default_rng(0), Waiting(np.dtype(np.int64)), []
    for _ in range(3000):
        row, tick, act = int(rng.integers(40)), int(rng.integers(1000)), rng.choice(["edge", "label", "remove", "take"])
        has_label = any(entry[3] == row and entry[4] for entry in oracle)
        if act == "remove":
            assert waiting.remove_label(row) == has_label
            oracle = [entry for entry in oracle if not (entry[3] == row and entry[4])]
        elif act == "take" and tick < 300:
            assert listed(waiting.take(tick)) == sorted(entry for entry in oracle if entry[0] < tick)
            oracle = [entry for entry in oracle if entry[0] >= tick]
        elif act == "edge" or not has_label:
            at = np.array([tick])
            new = waiting.new(np.array([row]), at, at if act == "label" else None)
            waiting.push(new)
            oracle += listed(new)
        assert len(waiting) == len(oracle)
        assert listed(waiting.all()) == sorted(oracle)
        assert len(waiting._heap) <= 2 * len(oracle) + 1, "what was removed does not pile up"
        if tick == 0:
            state = waiting.state()
            waiting = Waiting(np.dtype(np.int64))
            waiting.restore(state)
    assert len(oracle) > 10


@pytest.mark.usefixtures("few_trees_here")
class TestFarAhead:
    def test_fitted_edges_are_not_held(self):
        model = PropagationClassifier(setting="stream", random_state=0, n_threads=1)
        far = np.where(np.arange(N_FITTED) % 3 == 0, np.datetime64(FAR), LABEL_TIME[:N_FITTED])
        model.fit(known_at(EDGES.time[-1])[:N_FITTED].with_label(EDGES.label[:N_FITTED], far))
        scorer = StreamScorer(model)
        scorer.score_update(EDGES[N_FITTED:].with_label(None))
        waits = scorer._running._waiting.all()
        assert waits.tick.max() < np.datetime64(FAR, "us").astype(int)

    def test_an_event_with_such_a_label_has_none(self, tmp_path):
        with LiveModel.open(tmp_path / "live", classifier(), threshold=0.0) as live:
            given = event(N_FITTED, label=1, label_time=FAR)
            assert live.submit([given])[0].alert, "nobody knows its label yet"
            assert live.event(id_of(N_FITTED))["label"] is None
            again = live.submit([given])[0]
            assert (again.repeated, again.label_error) == (True, None), "as in a table that comes every night"
            assert live.label([{"id": id_of(N_FITTED), "label": 1}])[0].error is None
            assert live.event(id_of(N_FITTED))["label"] == 1

    def test_a_label_alone_is_refused_and_not_logged(self, tmp_path):
        with LiveModel.open(tmp_path / "live", classifier()) as live:
            live.submit([event(N_FITTED)])
            before = live.health()["last_sequence"]
            (answer,) = live.label([{"id": id_of(N_FITTED), "label": 1, "time": FAR}])
            assert "too long after" in str(answer.error)
            assert live.health()["last_sequence"] == before

    def test_a_table(self):
        scorer = StreamScorer(classifier())
        new = EDGES[N_FITTED : N_FITTED + 50]
        scorer.score_update(new.with_label(new.label, np.full(50, np.datetime64(FAR))))
        assert not scorer._running._waiting.all().is_label.any()
