"""The columns of a ranking, against an obvious walk over the past; and the candidates that trees learn from."""

import numpy as np
import pytest

from tdlg import TemporalEdges
from tdlg._kernels.ranking import LISTED, NEAR, NEVER, SHORT
from tdlg.rank.history import COLUMNS, SCALES, History, RankingState

WIDTHS = np.array([0.5, 2.0, 5.0, 20.0, 100.0])


def stream(n_edges=150, n_nodes=8, seed=0, bipartite=False):
    """Edges in the order of time, with ties, self-loops and pairs that come again."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges)) ** 2 // n_nodes
    return src, dst + (n_nodes if bipartite else 0), np.sort(rng.integers(0, 60, n_edges)).astype(float)


def columns_of(state, u, now, candidates):
    nothing = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    return state.run(
        (np.array([u]), np.array([now])), np.array([0, len(candidates)]), candidates, nothing, np.zeros(1, int)
    )


def latest(values):
    """Each value once, the latest first."""
    return list(dict.fromkeys(reversed(values)))


def decayed(times, now):
    return [sum(np.exp(-(now - t) / width) for t in times) for width in WIDTHS]


def pace(times, now):
    if len(times) < 2 or times[-1] == times[0]:
        return NEVER
    return (now - times[-1]) * (len(times) - 1) / (times[-1] - times[0])


def gap(times, now, which=-1):
    return now - times[which] if len(times) >= abs(which) else NEVER


def plain_columns(past, u, v, now, one_type):
    """The columns of one candidate, by name; `past` has all edges so far as (src, dst, time)."""
    own = [(b, t) for a, b, t in past if a == u]
    incoming = [(a, t) for a, b, t in past if b == v]
    received = [(a, t) for a, b, t in past if b == u]
    pair = [k for k, (a, b, _) in enumerate(past) if (a, b) == (u, v)]
    back = [k for k, (a, b, _) in enumerate(past) if (a, b) == (v, u)]
    times, back_times = [past[k][2] for k in pair], [past[k][2] for k in back]
    in_times, sent_times = [t for _, t in incoming], [t for a, _, t in past if a == v]
    partners, sources = latest([b for b, _ in own]), latest([a for a, _ in received])
    turns = [k for k, (b, _) in enumerate(own) if k == 0 or own[k - 1][0] != b]  # where a source turns to another
    new = [t for k, (a, t) in enumerate(incoming) if a not in [other for other, _ in incoming[:k]]]
    steps = steps_of(past)
    last = own[-1][0] if own else None
    from_last = [t for a, b, t in steps if (a, b) == (last, v)]
    followers = [own[k + 1][0] for k in range(len(own) - 1) if own[k][0] == last != own[k + 1][0]]
    answered = max(back, default=-1) if u != v else -1
    asked = max(pair, default=-1) if u != v else -1
    seen = bool(pair)
    last_own = max((k for k, (b, _) in enumerate(own) if b == v), default=None)
    last_in = max((k for k, (a, _) in enumerate(incoming) if a == u), default=None)
    open_, waiting = sum(k > answered for k in pair), sum(k > asked for k in back)
    return {
        "pair:gap": gap(times, now),
        "pair:rank": rank(partners, v, seen),
        "pair:count": len(pair),
        "pair:share": len(pair) / len(own) if seen else 0,
        "pair:runs": sum(own[k][0] == v for k in turns),
        "pair:pace": pace(times, now),
        "pair:own edges since": len(own) - 1 - last_own if seen else NEVER,
        "pair:edges of dst since": len(incoming) - 1 - last_in if seen else NEVER,
        "pair:follows": bool(followers) and followers[-1] == v,
        "pair:not answered": (1 if u == v else open_) if seen else 0,
        **{f"pair:sum@{s:g}": value for s, value in zip(SCALES, decayed(times, now), strict=True)},
        "back:gap": gap(back_times, now),
        "back:rank": rank(sources if one_type else [], v, bool(back)),
        "back:count": len(back),
        "back:to answer": (1 if u == v else waiting) if back else 0,
        **{f"back:sum@{s:g}": value for s, value in zip(SCALES, decayed(back_times, now), strict=True)},
        "dst:gap": gap(in_times, now),
        "dst:edges since": len(past) - 1 - max(k for k, e in enumerate(past) if e[1] == v) if incoming else NEVER,
        "dst:gap before": gap(in_times, now, -2),
        "dst:count": len(incoming),
        "dst:sources": len({a for a, _ in incoming}),
        "dst:gap of new": gap(new, now),
        "dst:pace": pace(in_times, now),
        "dst:last was src": bool(incoming) and incoming[-1][0] == u,
        "dst:gap sent": gap(sent_times, now),
        "dst:count sent": len(sent_times),
        **{f"dst:sum@{s:g}": value for s, value in zip(SCALES, decayed(in_times, now), strict=True)},
        **{f"dst:new@{s:g}": value for s, value in zip(SCALES, decayed(new, now), strict=True)},
        "walk:two": walks_of_two(past, u).get(v, 0) if one_type else 0,
        "walk:three": walks_of_three(past, u).get(v, 0),
        "walk:step": decayed(from_last, now)[-2],
        "walk:step share": len(from_last) / max(sum(b == last for _, b, _ in past), 1),
        "src:gap": gap([t for _, t in own], now),
        "src:count": len(own),
        "src:partners": len(partners),
        "src:run": len(own) - turns[-1] if own else 0,
        "src:gap of switch": now - own[turns[-1]][1] if own else NEVER,
        "src:gap received": gap([t for _, t in received], now),
        "src:count received": len(received),
        "src:switches": (len(turns) - 1) / len(own) if own else 0,
        "src:age": gap([t for _, t in own], now, -len(own)) if own else NEVER,
    }


def rank(listed, v, is_there):
    if not is_there:
        return NEVER
    return listed.index(v) + 1 if v in listed[:LISTED] else LISTED + 1


def steps_of(past):
    """From each destination of a source to the next other one."""
    before, steps = {}, []
    for a, b, t in past:
        if before.get(a, b) != b:
            steps.append((before[a], b, t))
        before[a] = b
    return steps


def walks_of_two(past, u):
    found = {}
    for partners in (latest([b for a, b, _ in past if a == u]), latest([a for a, b, _ in past if b == u])):
        for i, q in enumerate(partners[:NEAR]):
            for others in (latest([b for a, b, _ in past if a == q]), latest([a for a, b, _ in past if b == q])):
                for k, p in enumerate(others[:NEAR]):
                    if p != u:
                        found[p] = found.get(p, 0) + 1 / ((1 + i) * (1 + k))
    return found


def walks_of_three(past, u):
    found = {}
    for i, q in enumerate(latest([b for a, b, _ in past if a == u])[:NEAR]):
        for j, w in enumerate(latest([a for a, b, _ in past if b == q])[:NEAR]):
            for k, p in enumerate(latest([b for a, b, _ in past if a == w])[:SHORT] if w != u else []):
                found[p] = found.get(p, 0) + 1 / ((1 + i) * (1 + j) * (1 + k))
    return found


def expected(past, u, candidates, now, one_type):
    rows = [plain_columns(past, u, v, now, one_type) for v in candidates]
    assert list(rows[0]) == list(COLUMNS)
    return np.array([list(row.values()) for row in rows], float)


@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_columns_are_what_the_past_says(bipartite, seed):
    src, dst, when = stream(seed=seed, bipartite=bipartite)
    past = list(zip(src.tolist(), dst.tolist(), when.tolist(), strict=True))
    candidates, state, done = np.arange(18), RankingState(WIDTHS, not bipartite), 0
    for upto, now in ((0, 0.0), (1, 3.0), (40, when[40]), (41, when[41] + 0.5), (149, 61.0), (150, 500.0)):
        state.absorb(src[done:upto], dst[done:upto], when[done:upto])
        done = upto
        for u in (0, 3, 7, 17):  # 17 never occurs
            rows = columns_of(state, u, now, candidates)
            np.testing.assert_allclose(
                rows, expected(past[:upto], u, candidates, now, not bipartite), rtol=1e-9, atol=1e-12
            )


def test_unknown_nodes():
    src, dst, when = stream()
    state = RankingState(WIDTHS, True)
    state.absorb(src, dst, when)
    nobody = columns_of(state, -1, 61.0, np.array([-1, 0, 99]))
    past = list(zip(src.tolist(), dst.tolist(), when.tolist(), strict=True))
    np.testing.assert_allclose(nobody, expected(past, -1, [-1, 0, 99], 61.0, True), rtol=1e-9)


def test_long_lists_end():
    """The position in a list of more than a hundred is not searched."""
    state = RankingState(WIDTHS, True)
    state.absorb(np.zeros(120, int), np.arange(1, 121), np.arange(120.0))
    ranks = columns_of(state, 0, 120.0, np.arange(1, 121))[:, COLUMNS.index("pair:rank")]
    assert ranks[::-1][:100].tolist() == list(range(1, 101))
    assert set(ranks[::-1][100:]) == {LISTED + 1}


def test_queries_between_edges_see_the_strict_past_in_blocks(monkeypatch):
    monkeypatch.setattr("tdlg.rank.history.ROWS_AT_ONCE", 20)
    history = History(TemporalEdges(*stream()), WIDTHS)
    src, dst, when = history.edges()
    upto = np.searchsorted(when, when)
    asked = src, when, upto, np.arange(len(src) + 1) * 8, np.tile(np.arange(8), len(src))
    rows = np.concatenate(list(history.blocks(*asked)))
    again = np.concatenate(list(history.blocks(*asked)))  # from the start once more
    np.testing.assert_array_equal(rows, again)
    past = list(zip(src.tolist(), dst.tolist(), when.tolist(), strict=True))
    for k in range(0, len(src), 7):
        right = expected(past[: upto[k]], src[k], range(8), when[k], True)
        np.testing.assert_allclose(rows[8 * k : 8 * k + 8], right, rtol=1e-9, atol=1e-12)


def test_nothing_later_is_known():
    src, dst, when = stream()
    history = History(TemporalEdges(src, dst, when), WIDTHS)
    one = np.array([3]), np.array([20.0]), np.array([60]), np.array([0, 8]), np.arange(8)
    before = next(history.blocks(*one))
    other = History(TemporalEdges(np.append(src[:60], src[60:][::-1]), np.append(dst[:60], src[60:]), when), WIDTHS)
    np.testing.assert_array_equal(next(other.blocks(*one)), before)


class TestSample:
    def sampled(self, limits, n_random=3, bipartite=False, **options):
        src, dst, when = stream(400, 12, **options, bipartite=bipartite)
        history = History(TemporalEdges(src, dst, when, bipartite=bipartite), WIDTHS)
        chosen = np.arange(50, 400, 9)
        upto = np.searchsorted(history.ticks, history.ticks[chosen])
        everyone = np.unique(history.edges()[1])
        picks = np.random.default_rng(0).integers(0, len(everyone), (len(chosen), n_random))
        return history, chosen, upto, history.sample(chosen, upto, np.array(limits), everyone, picks)

    def test_the_true_destination_comes_first(self, monkeypatch):
        monkeypatch.setattr("tdlg.rank.history.ROWS_AT_ONCE", 100)
        history, chosen, upto, (rows, starts) = self.sampled([4, 3, 2, 2, 5])
        assert rows.dtype == np.float32
        assert (np.diff(starts) <= 1 + 16 + 3).all()
        past = list(zip(*(column.tolist() for column in history.edges()), strict=True))
        for k in range(0, len(chosen), 5):
            u, v, now = past[chosen[k]]
            right = expected(past[: upto[k]], u, [v], now, True)[0]
            np.testing.assert_allclose(rows[starts[k]], right, rtol=1e-6, atol=1e-9)

    def test_each_candidate_once_and_of_its_kind(self):
        _, _, _, (rows, starts) = self.sampled([2, 0, 0, 0, 0], 0)
        ranks = rows[:, COLUMNS.index("pair:rank")]
        for k in range(len(starts) - 1):
            others = ranks[starts[k] + 1 : starts[k + 1]]
            assert set(others) <= {1.0, 2.0}
            assert len(set(others)) == len(others)
            assert len(others) >= 1  # the true one is not taken twice
        _, _, _, (rows, starts) = self.sampled([0, 0, 0, 0, 4], 0)
        since = rows[:, COLUMNS.index("dst:edges since")]
        for k in range(len(starts) - 1):
            assert (since[starts[k] + 1 : starts[k + 1]] < 400).all()
            assert starts[k + 1] - starts[k] in (4, 5)

    @pytest.mark.parametrize(("kind", "column"), [(1, "back:gap"), (2, "walk:two"), (3, "walk:three")])
    def test_other_kinds(self, kind, column):
        limits = [0] * 5
        limits[kind] = 2
        _, _, _, (rows, starts) = self.sampled(limits, 0)
        values = rows[:, COLUMNS.index(column)]
        others = np.delete(values, starts[:-1])
        assert len(others) > len(starts)
        assert (others < NEVER).all() if kind == 1 else (others > 0).all()

    def test_sources_are_no_destinations_of_a_bipartite_network(self):
        _, _, _, (rows, _) = self.sampled([0, 5, 5, 0, 0], 0, bipartite=True)
        assert len(rows) == 39  # the true ones alone
