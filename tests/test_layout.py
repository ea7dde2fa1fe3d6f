import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdlg import TemporalEdges
from tdlg._kernels.layout import chunk_end, stable_argsort
from tdlg.linegraph.events import MATCHES, build_layout


@pytest.mark.parametrize("high", [1, 5, 2**11, 2**33 - 1, 2**33, 2**40, 2**62])
def test_argsort_of_integers(high):
    values = np.random.default_rng(0).integers(-high, high, 3000, endpoint=True)
    assert np.array_equal(stable_argsort(values), np.argsort(values, kind="stable"))
    assert np.array_equal(stable_argsort(np.sort(values)), np.arange(3000))


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e9, 1e300])
def test_argsort_of_fractions(scale):
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=3000), rng.pareto(0.2, 3000), np.repeat(rng.normal(size=30), 100)):
        values = values / np.abs(values).max() * scale
        assert np.array_equal(stable_argsort(values), np.argsort(values, kind="stable"))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e150, max_value=1e150)))
def test_argsort_of_anything(values):
    values = np.array(values, float)
    assert np.array_equal(stable_argsort(values), np.argsort(values, kind="stable"))


@given(st.lists(st.integers(-(2**61), 2**61)))
def test_argsort_of_any_integers(values):
    values = np.array(values, np.int64)
    assert np.array_equal(stable_argsort(values), np.argsort(values, kind="stable"))


@pytest.mark.parametrize("n_nodes", [1, 2, 3, 50, 3000, 100_000])
@pytest.mark.parametrize("match", MATCHES)
def test_events_lie_by_key_and_time(match, n_nodes):
    rng = np.random.default_rng(0)
    n = 4000
    edges = TemporalEdges(*rng.integers(0, n_nodes, (2, n)), rng.integers(0, 1000, n))
    layout = build_layout(edges, edges, match)
    assert np.isinf(layout.gap[[0, -1]]).all()
    assert not (layout.gap < 0).any()
    for slots, owner in ((layout.row_slots, layout.target), (layout.col_slots, layout.source)):
        for end in range(slots.shape[1]):
            there = slots[:, end] < layout.n_events
            assert np.array_equal(owner[slots[there, end]], np.flatnonzero(there))
    here = (layout.source < n) & np.isfinite(layout.gap[:-1])  # a column that follows another event of its key
    both = np.flatnonzero(here[1:] & (layout.source[:-1] < n)) + 1
    since = edges.ticks[layout.source[both]] - edges.ticks[layout.source[both - 1]]
    assert np.array_equal(since, layout.gap[both])


def test_chunks_are_whole_keys():
    gap = np.array([np.inf, 1, 1, np.inf, 1, np.inf, 1, 1, 1, 1, 1, np.inf, np.inf])
    ends = [chunk_end(gap, low, 12, 4) for low in (0, 3, 5, 11)]
    assert ends == [3, 5, 11, 12]  # the third key has more than 4 events
