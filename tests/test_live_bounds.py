"""What clients can send leaves bounded memory behind."""

import numpy as np
import pytest

from live_payments import CUT, EDGES, N_FITTED, classifier, event, events, id_of
from tdlg.live.model import LiveModel

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture
def live(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit(events(range(N_FITTED, N_FITTED + 20)))
        yield live


def sizes(live):
    """Everything that grows with what is kept: nodes, keys, rows, labels that wait, recent events, aliases."""
    state, running = live._state, live._state.scorer._running
    counts = state.scorer.nodes.n_codes, running.n_keys, running.rows.n_used, len(running._waiting._heap)
    return *counts, len(state.recent), len(state.aliases), len(state.scorer.pending)


@pytest.mark.parametrize(
    "wrong",
    [
        {"time": "2999-01-01"},
        {"time": "1999-01-01"},
        {"amount": "much"},
        {"label": "nonsense"},
        {"id": [1]},
        {"dst": None},
    ],
)
def test_refused_events(live, wrong):
    before = sizes(live)
    found = live.submit([{**event(N_FITTED + 25, id=f"x{k}", src=f"new {k}"), **wrong} for k in range(50)])
    assert all(answer.error is not None for answer in found)
    assert live.check([event(N_FITTED + 25, id="y", src="newer")]) == []
    assert sizes(live) == before


def test_labels_of_the_far_future(live):
    before = len(live._state.scorer._running._waiting)
    far = {"label": 1, "label_time": "2999-01-01T00:00:00"}
    assert live.submit([event(N_FITTED + 30, **far)])[0].error is None
    ((_, error),) = [
        (one.id, one.error) for one in live.label([{"id": id_of(N_FITTED), "label": 1, "time": "2999-01-01"}])
    ]
    assert error.parameter == "time"
    assert live.n_labels == 0
    assert len(live._state.scorer._running._waiting) <= before + 1  # the event itself


def test_a_label_that_changes_again_and_again(live):
    soon = str(EDGES.time[-1])
    for k in range(300):
        live.label([{"id": id_of(N_FITTED), "label": k % 2, "time": soon}])
    assert live.n_labels == 300
    assert len(live._state.scorer._running._waiting._heap) < 20


def test_ids_of_a_fitted_edge_are_forgotten_with_it(live):
    last = event(N_FITTED - 1)
    live.submit([{**last, "id": f"again {k}"} for k in range(30)])
    live.snapshot()
    assert len(live._state.aliases) == 30
    later = CUT + np.timedelta64(int(3 * live._state.scorer._horizon), "us")
    live.submit([event(N_FITTED + 40, time=str(later))])
    live.snapshot()
    assert not live._state.aliases
