"""Reasons of proposed partners against plain loops over the edges, and in words that can be read here."""

import numpy as np
import pytest

from tdlg import LinkPredictor, LinkRanker, TemporalEdges
from tdlg.explain import partners


def told(edges, a, b, now, *, with_equal):
    """The reason by loops; `edges` are tuples of numbers, sources and destinations of two types if negative ids occur."""
    past = [e for e in edges if e[2] < now or (with_equal and e[2] == now)]
    forth, back = [t for u, v, t in past if (u, v) == (a, b)], [t for u, v, t in past if (v, u) == (a, b)]
    two_types = min(e[1] for e in edges) < 0

    def before(t):
        value = float(f"{now - t:.4g}")
        return f"{value:,.15g} time unit{'s' * (value != 1)} before" if t < now else "at this time"

    def often(times):
        return f"once, {before(times[0])}" if len(times) == 1 else f"{len(times)} times, last {before(max(times))}"

    if forth:
        answer = (
            f"node {b} answered the last interaction {before(max(back))}; " if back and max(back) > max(forth) else ""
        )
        return f"{answer}met {often(forth)}"
    if back:
        return f"node {b} turned to node {a} {often(back)}, without an answer"
    new = "new pair" if any(a in e[:2] for e in past) else f"node {a} is new"
    if two_types:
        mine = {v for u, v, _ in past if u == a}
        common = {w for w, v, _ in past if v in mine and w != a} & {w for w, v, _ in past if v == b}
        if common:
            sources = "1 source" if len(common) == 1 else f"{len(common)} sources"
            return f"{new}; met by {sources} that met the same as node {a}"
    else:

        def partners_of(x):
            return {v for u, v, _ in past if u == x} | {u for u, v, _ in past if v == x}

        common = (partners_of(a) & partners_of(b)) - {a, b}
        if common:
            return f"{new}; {len(common)} common partner{'s' * (len(common) > 1)}"
    late = past[-partners.LATELY :]
    n, sources = len({u for u, v, _ in late if v == b}), len({u for u, *_ in late})
    if n:
        of = f"{sources} source{'s' * (sources > 1)} of the last {len(late)} interaction{'s' * (len(late) > 1)}"
        return f"{new}; node {b} was met by {n} of the {of}"
    last = max((t for _, v, t in past if v == b), default=None)
    return f"{new}; node {b} was {'never met' if last is None else f'last met {before(last)}'}"


KINDS = ["answered", "met once", "met 2 times", "turned to", "common partner", "of the last", "last met", "never met"]


@pytest.mark.parametrize("bipartite", [False, True])
def test_like_loops(bipartite, monkeypatch):
    monkeypatch.setattr(partners, "LATELY", 6)
    rng, seen = np.random.default_rng(1), ""
    src, dst, time = rng.integers(0, 14, 40), rng.integers(0, 14, 40), np.sort(rng.integers(0, 25, 40)) * 1.5
    dst = -1 - dst if bipartite else dst
    edges = list(zip(src.tolist(), dst.tolist(), time.tolist(), strict=True))
    mixed = rng.permutation(40)
    known = TemporalEdges(src[mixed], dst[mixed], time[mixed], bipartite=bipartite)
    order = np.argsort(time[mixed], kind="stable")  # equal times in the order of the rows
    edges = [edges[mixed[k]] for k in order]
    ranker = LinkRanker("recency").fit(known)
    nodes = list(range(-16, -1)) if bipartite else list(range(16))
    for now in (3.0, 7.5, 20.0, 36.0, 40.0):
        for a in range(16):  # nodes 14 and 15 never occur
            found = ranker.rank(a, now, candidates=nodes)
            for b, reason in zip(found["dst"], found["reason"], strict=True):
                assert reason == told(edges, a, b, now, with_equal=False), (a, b, now)
                seen += reason
        pairs = [(a, b) for a in range(14) for b in nodes]
        for model in (ranker, LinkPredictor(random_state=0).fit(known)):
            found = model.top(len(pairs), at=now, candidates=pairs)
            for a, b, reason in found.select("src", "dst", "reason").rows():
                assert reason == told(edges, a, b, now, with_equal=True), (a, b, now)
    for kind in KINDS if not bipartite else ["met once", "met the same", "of the last", "never met", "is new"]:
        assert kind in seen


def test_without_a_time_all_edges_are_known():
    ranker = LinkRanker("recency").fit(TemporalEdges([1, 1], [2, 3], [5, 9]))
    ranker.update(TemporalEdges([4, 2], [2, 1], [9, 11]))
    reasons = dict(ranker.rank(1).select("dst", "reason").rows())
    assert reasons[2] == "node 2 answered the last interaction at this time; met once, 6 time units before"
    assert reasons[3] == "met once, 2 time units before"


def test_dates_and_names():
    days = np.array(["2024-01-01", "2024-01-03", "2024-01-04T12:00"], "datetime64[s]")
    ranker = LinkRanker("recency").fit(TemporalEdges(["ann", "ann", "bob"], ["bob", "bob", "cat"], days))
    reasons = dict(ranker.rank("ann", "2024-01-05", candidates=["bob", "cat"]).select("dst", "reason").rows())
    assert reasons == {"bob": "met 2 times, last 2 days before", "cat": "new pair; 1 common partner"}
