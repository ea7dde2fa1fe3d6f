"""One running state: a stream in pieces, all edges at once and the obvious walk over the past give the same ranking."""

import copy
import pickle

import numpy as np
import pytest

from tdlg import LinkRanker, TemporalEdges, load_model
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.rank.history import COLUMNS, History
from tdlg.rank.ranker import StreamRanker
from test_ranking_columns import WIDTHS, expected, latest, stream

START = np.datetime64("2024-01-01", "s")
MIX = np.random.default_rng(0).normal(size=len(COLUMNS))


def mixed(rows):
    """A score to which all columns contribute."""
    return np.log1p(np.minimum(rows, 1e3)) @ MIX


class Past:
    """Edges as they came, and what an obvious walk over them says."""

    def __init__(self, src, dst, when, bipartite):
        self.edges = list(zip(src.tolist(), dst.tolist(), when.tolist(), strict=True))
        self.bipartite = bipartite

    def before(self, n_edges, time):
        """Those of the first ones that are before a time; a time between two whole ones counts as the next one."""
        known = [(u, v, float(np.ceil(t))) for u, v, t in self.edges[:n_edges]]
        return [edge for edge in sorted(known, key=lambda edge: edge[2]) if edge[2] < time]

    def ranking(self, n_edges, u, time):
        past = self.before(n_edges, time)
        candidates = latest([v for _, v, _ in past])
        if (u, u) not in [(a, b) for a, b, _ in past]:
            candidates = [v for v in candidates if v != u]
        if not self.bipartite:
            candidates += [a for a in latest([a for a, b, _ in past if b == u]) if a not in [b for _, b, _ in past]]
        scores = mixed(expected(past, u, candidates, time, not self.bipartite))
        return dict(zip(candidates, scores, strict=True))


def fitted(src, dst, time, bipartite, monkeypatch):
    ranker = LinkRanker("recency").fit(TemporalEdges(src, dst, time, bipartite=bipartite))
    ranker.widths_ = WIDTHS
    del ranker._running
    monkeypatch.setattr(LinkRanker, "_next_scores", lambda self, rows: mixed(rows))
    return ranker


def name(code):
    return f"n{code:02d}"


@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("dates", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_stream_in_pieces_is_the_walk_over_the_past(bipartite, dates, seed, monkeypatch):
    """With ties, self-loops, new nodes, and times that are finer than those of the first edges."""
    rng = np.random.default_rng(seed)
    src, dst, when = stream(120, 9, seed, bipartite)
    src[0], dst[0], when[0] = 0, 0 if not bipartite else 10, 0.0
    when[40:] += np.sort(rng.integers(0, 3, 80)) * 0.5
    time = START + (when * 1000).astype("timedelta64[ms]") if dates else when
    past, n = Past(src, dst, when, bipartite), 40
    if not dates:
        past.before = lambda n_edges, time: [edge for edge in past.edges[:n_edges] if edge[2] < time]
    names = [np.array([name(code) for code in codes]) for codes in (src, dst)]
    first = time[:40].astype("datetime64[s]") if dates else time[:40].astype(int)
    ranker = fitted(*(ids[:40] for ids in names), first, bipartite, monkeypatch)
    streamed = StreamRanker(ranker)
    while n < 120:
        more = min(int(rng.integers(1, 12)), 120 - n)
        ranker.update(TemporalEdges(*(ids[n : n + more] for ids in names), time[n : n + more], bipartite=bipartite))
        for k in range(n, n + more):
            streamed.add(names[0][k], names[1][k], time[k])
        n += more
        for later in rng.choice([0.0, 0.25, 1.0], 2):
            u, at = int(rng.integers(9)), when[n - 1] + later
            asked = START + np.timedelta64(int(1000 * at), "ms") if dates else at
            right = past.ranking(n, u, at)
            found, table = streamed.rank(name(u), asked), ranker.rank(name(u), asked)
            assert found == list(zip(table["dst"], table["score"], strict=True))
            assert {name(v) for v in right} == set(dict(found))
            np.testing.assert_allclose([dict(found)[name(v)] for v in right], list(right.values()), rtol=1e-9)
    early = float(when[70])
    table = ranker.rank(name(1), START + np.timedelta64(int(1000 * early), "ms") if dates else early)
    right = {name(v): score for v, score in past.ranking(120, 1, early).items()}
    assert dict(zip(table["dst"], table["score"], strict=True)) == pytest.approx(right)


def test_late_edges_are_as_if_they_had_come_in_time(monkeypatch):
    src, dst, when = stream(150, 9)
    ranker = fitted(src[:100], dst[:100], when[:100], False, monkeypatch)
    ranker.rank(1, 60.0)
    late, rest = np.arange(100, 120), np.arange(120, 150)
    shifted = when.copy()
    shifted[late] = np.linspace(-3.0, 40.0, 20)
    for part in (rest, late):
        ranker.update(TemporalEdges(src[part], dst[part], shifted[part]))
    order = np.concatenate([np.arange(100), rest, late])
    whole = fitted(src[order], dst[order], shifted[order], False, monkeypatch)
    for u, at in ((1, 60.0), (0, 61.0), (2, 17.0), (3, None)):
        assert ranker.rank(u, at).equals(whole.rank(u, at))
    assert ranker.edges_.n_edges == 150
    assert ranker.edges_.time.min() == -3.0


def test_an_update_is_absorbed_and_nothing_else(monkeypatch):
    absorbed = []
    src, dst, when = stream(150, 9)
    ranker = fitted(src[:100], dst[:100], when[:100], False, monkeypatch)
    ranker.rank(1)
    run = History.edges
    monkeypatch.setattr(History, "edges", lambda self, part: absorbed.append(part) or run(self, part))
    for k in range(100, 150):
        ranker.update(TemporalEdges(src[k : k + 1], dst[k : k + 1], when[k : k + 1]))
        ranker.rank(1)
    assert sorted({k for part in absorbed for k in range(part.start, part.stop)}) == list(range(100, 150))
    assert sum(part.stop - part.start for part in absorbed) == 50


def test_a_question_about_later_does_not_stop_an_earlier_edge():
    stream = StreamRanker(LinkRanker("recency").fit(TemporalEdges(["a", "b"], ["x", "y"], [1, 2])))
    assert stream.rank("a", 100)[0][0] == "x"
    stream.add("a", "y", 2)
    assert dict(stream.rank("a", 2)).keys() == {"x"}  # what happened at 2 is not known at 2
    assert stream.rank("a", 3)[0][0] == "y"
    stream.add("a", "z", 50)
    assert stream.n_edges == 4


class TestCopies:
    def test_copies_go_their_own_way(self, tmp_path):
        ranker = LinkRanker("recency").fit(TemporalEdges(["a", "b"], ["x", "y"], [1, 2]))
        ranker.rank("a", 3)
        ranker.update([["a", "y", 3]])
        ranker.save(tmp_path / "m")
        others = [
            copy.deepcopy(ranker),
            copy.copy(ranker),
            pickle.loads(pickle.dumps(ranker)),
            load_model(tmp_path / "m"),
        ]
        ranker.update([["a", "z", 4]])
        assert ranker.rank("a", 5)["dst"].to_list() == ["z", "y", "x"]
        for other in others:
            assert other.rank("a", 5)["dst"].to_list() == ["y", "x"]
            assert other.edges_.n_edges == 3
        assert ranker.edges_.src.tolist() == ["a", "b", "a", "a"]

    def test_the_same_edges_fitted_twice(self):
        edges = TemporalEdges(["a", "b"], ["x", "y"], [1, 2])
        first, second = LinkRanker("recency").fit(edges), LinkRanker("recency").fit(edges)
        first.update([["a", "y", 3]])
        assert second.rank("a", 5)["seen"].to_list() == [True, False]
        assert first.fit(edges).rank("a", 5)["seen"].to_list() == [True, False]


class TestArguments:
    @pytest.mark.parametrize("candidates", [5, "bob", [["a"]], [None]])
    def test_strange_candidates(self, candidates):
        ranker = LinkRanker("recency").fit(TemporalEdges(["a", "b"], ["x", "y"], [1, 2]))
        with pytest.raises((ParameterError, EdgesError), match="'candidates'"):
            ranker.rank("a", 3, candidates)

    @pytest.mark.parametrize("src", [["a"], None, {}])
    def test_strange_sources(self, src):
        ranker = LinkRanker("recency").fit(TemporalEdges(["a", "b"], ["x", "y"], [1, 2]))
        with pytest.raises((ParameterError, EdgesError), match="'src'"):
            ranker.rank(src, 3)

    def test_each_candidate_once(self):
        ranker = LinkRanker("recency").fit(TemporalEdges([1, 2], [3, 4], [1, 2]))
        assert ranker.rank(1, 3, [3, 4, "3", "new", 3, "new"])["dst"].to_list() == [3, 4, "new"]

    @pytest.mark.parametrize(("time", "finer"), [([1, 2], 2.5), ([0.5, 1.5], 2)])
    def test_whole_and_fractional_times(self, time, finer):
        ranker = LinkRanker("recency").fit(TemporalEdges(["a", "b"], ["x", "y"], time))
        ranker.update([["a", "y", finer]])
        assert ranker.rank("a", finer)["seen"].to_list() == [True, False]
        assert ranker.rank("a", finer + 0.25)["dst"][0] == "y"
        assert ranker.rank("a", 1e300)["dst"][0] == "y"
        assert ranker.edges_.time.tolist() == [*time, finer]

    def test_other_edges_are_refused_and_change_nothing(self):
        ranker = LinkRanker("recency").fit(TemporalEdges(["a", "b"], ["x", "y"], [1, 2]))
        for strange in (
            TemporalEdges(["a"], ["n"], ["2024-01-01"]),
            TemporalEdges(["a"], ["n"], [3], bipartite=True),
        ):
            with pytest.raises(EdgesError, match="Use one kind"):
                ranker.update(strange)
        assert ranker.edges_.n_edges == 2
        assert ranker.rank("a", 5).height == 2
