import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdlg import TemporalEdges
from tdlg._kernels import layout as kernels
from tdlg._kernels.layout import chunk_end, place_rectangular, place_symmetric, stable_argsort
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


@pytest.mark.parametrize("n", [0, 1, 2, 47, 48, 49, 95, 96, 97, 144, 145, 1000, 4096])
def test_merging_is_stable(n):
    values = np.random.default_rng(n).integers(0, max(n // 4, 1), n).astype(float)
    carried, order = np.arange(n, dtype=np.int32), np.argsort(values, kind="stable")
    expected = values[order]
    kernels._merge_sort(values, carried)
    assert np.array_equal(carried, order)
    assert np.array_equal(values, expected)


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


@pytest.fixture(params=["one part", "many parts and rounds", "keys numbered anew"])
def way(request, monkeypatch):
    """How events are sorted; the last two need few events here."""
    if request.param == "many parts and rounds":
        monkeypatch.setattr(kernels, "PART", 16)
        monkeypatch.setattr(kernels, "MOST_AT_ONCE", 64)
    if request.param == "keys numbered anew":
        monkeypatch.setattr(kernels, "PART", 1)
        monkeypatch.setattr(kernels, "SPARSE", 0)


def some_keys(rng, n, n_keys, n_ends=2):
    keys = rng.integers(-1, n_keys, (n, n_ends)).astype(np.int32)
    keys[rng.random(n) < 0.3, 0] = min(3, n_keys - 1)  # a hub
    return keys


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n_keys", [1, 7, 500, 100_000])
@pytest.mark.parametrize("kind", ["integers", "floats", "sorted", "equal"])
def test_symmetric_events_are_those_of_lexsort(n_keys, kind):
    rng = np.random.default_rng(n_keys)
    n = 3000
    ticks = {"floats": rng.normal(size=n), "equal": np.zeros(n, np.int64)}.get(kind, rng.integers(-50, 50, n))
    ticks = np.sort(ticks) if kind == "sorted" else ticks
    keys = some_keys(rng, n, n_keys)
    source, gap, slots = place_symmetric(keys, n_keys, ticks)
    ends = np.flatnonzero(keys.ravel() >= 0)
    order = ends[np.lexsort((ends, ticks[ends // 2], keys.ravel()[ends]))]
    assert np.array_equal(source, order // 2)
    assert np.array_equal(gap, gaps_of(keys.ravel()[order], ticks[order // 2]))
    assert np.array_equal(slots.ravel()[order], np.arange(len(order)))
    assert (np.delete(slots.ravel(), order) == len(order)).all()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n_keys", [1, 7, 500, 100_000])
def test_rectangular_events_are_those_of_lexsort(n_keys):
    """Columns come before rows at the same time; a row that is also a column has no event of its own."""
    rng = np.random.default_rng(n_keys)
    n_rows, n_cols = 900, 1500
    col_keys, row_keys = some_keys(rng, n_cols, n_keys, 1), some_keys(rng, n_rows, n_keys, 1)
    col_ticks, row_ticks = rng.integers(0, 40, n_cols), rng.integers(0, 40, n_rows)
    own = np.where(rng.random(n_rows) < 0.4, rng.permutation(n_cols)[:n_rows], -1)
    row_keys[own >= 0], row_ticks[own >= 0] = col_keys[own[own >= 0]], col_ticks[own[own >= 0]]
    source, target, gap, row_slots, col_slots = place_rectangular(row_keys, col_keys, n_keys, row_ticks, col_ticks, own)
    alone = np.flatnonzero((own < 0) & (row_keys[:, 0] >= 0))
    cols = np.flatnonzero(col_keys[:, 0] >= 0)
    keys = np.concatenate([col_keys[cols, 0], row_keys[alone, 0]])
    ticks = np.concatenate([col_ticks[cols], row_ticks[alone]])
    order = np.lexsort((ticks, keys))
    row_of = np.full(n_cols + 1, n_rows)
    row_of[own[own >= 0]] = np.flatnonzero(own >= 0)
    assert np.array_equal(source, np.concatenate([cols, np.full(len(alone), n_cols)])[order])
    assert np.array_equal(target, np.concatenate([row_of[cols], alone])[order])
    assert np.array_equal(gap, gaps_of(keys[order], ticks[order]))
    assert np.array_equal(source[col_slots[cols, 0]], cols)
    rows = np.flatnonzero(row_keys[:, 0] >= 0)
    assert np.array_equal(target[row_slots[rows, 0]], rows)


def gaps_of(keys, ticks):
    inside = keys[1:] == keys[:-1]
    return np.concatenate([[np.inf], np.where(inside, np.diff(ticks), np.inf), [np.inf]])


def test_no_events():
    nothing, none = np.empty((0, 2), np.int32), np.empty(0, np.int64)
    source, gap, slots = place_symmetric(nothing, 0, none)
    assert (source.size, gap.tolist(), slots.shape) == (0, [np.inf], (0, 2))


def test_chunks_are_whole_keys():
    gap = np.array([np.inf, 1, 1, np.inf, 1, np.inf, 1, 1, 1, 1, 1, np.inf, np.inf])
    ends = [chunk_end(gap, low, 12, 4) for low in (0, 3, 5, 11)]
    assert ends == [3, 5, 11, 12]  # the third key has more than 4 events
