"""What a stream of edges tells about the next destination of a source: the running state, and columns of candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels.ranking import EDGES, FOUND, NODE, NONE, PAIR, PAIRS, STEP, STEPS, RankingArrays, Scratch
from tdlg._kernels.running import hash_table
from tdlg.propagate.state import FIRST_SIZE, GROWTH, grown

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

SCALES = (0.0005, 0.005, 0.03, 0.1, 1.0)  # bandwidths of decayed counts, in standard deviations of the times
COLUMNS = tuple(
    f"{group}:{name}"
    for group, names in (
        ("pair", ("gap", "rank", "count", "share", "runs", "pace", "own edges since", "edges of dst since", "follows")),
        ("pair", ("not answered", *(f"sum@{scale:g}" for scale in SCALES))),
        ("back", ("gap", "rank", "count", "to answer", *(f"sum@{scale:g}" for scale in SCALES))),
        ("dst", ("gap", "edges since", "gap before", "count", "sources", "gap of new", "pace", "last was src")),
        ("dst", ("gap sent", "count sent", *(f"sum@{scale:g}" for scale in SCALES))),
        ("dst", tuple(f"new@{scale:g}" for scale in SCALES)),
        ("walk", ("two", "three", "step", "step share")),
        (
            "src",
            ("gap", "count", "partners", "run", "gap of switch", "gap received", "count received", "switches", "age"),
        ),
    )
    for name in names
)


class RankingState:
    """Counts, times and lists of nodes and pairs, carried along a stream of edges; a node that is not known has code -1.

    The widths are bandwidths of the decayed counts, one for each of `SCALES`, in the unit of the times; `one_type` says
    whether sources and destinations are nodes of one type.
    """

    def __init__(self, widths: Floats, one_type: bool) -> None:
        self.rates = 1.0 / np.asarray(widths, np.float64)
        self.one_type = one_type
        no_sums, no_keys = np.zeros((0, len(self.rates))), np.zeros(0, np.int64)
        index = no_keys, hash_table(0, no_keys)
        of_nodes, of_pairs = (_new_nodes(0), no_sums, no_sums), (np.zeros(0, PAIR), no_sums)
        self._state = RankingArrays(np.array([0, 0, 0, NONE]), *of_nodes, *of_pairs, *index, np.zeros(0, STEP), *index)
        self._scratch = _new_scratch(0)

    @property
    def n_edges(self) -> int:
        """The number of edges so far."""
        return int(self._state.counters[EDGES])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self._state, *self._scratch))

    def absorb(self, src: Codes, dst: Codes, when: Floats) -> None:
        """Add edges, in the order of time."""
        from tdlg._kernels.ranking import absorb_edges

        self._make_room(1 + max(int(src.max(initial=-1)), int(dst.max(initial=-1))), len(src))
        absorb_edges(self._state, src, dst, when, self.rates)

    def columns(self, src: int, when: float, candidates: Codes) -> Floats:
        """The columns of candidates for the next destination of a source, (n_candidates, n_columns)."""
        return self.run((np.array([src]), np.array([when])), np.array([0, len(candidates)]), candidates)

    def candidates(self, src: int) -> Codes:
        """The destinations that a source may turn to, those with the latest edges first.

        These are all destinations so far, without the source itself unless it was its own destination; and then, if all
        nodes are of one type, those that turned to the source and were never a destination.
        """
        from tdlg._kernels.ranking import find_pair, sources_of

        nodes = self._state.nodes
        found = np.flatnonzero(nodes["in_count"] > 0)
        found = found[np.argsort(-nodes["in_at"][found])]
        if not 0 <= src < len(nodes):
            return found
        if find_pair(self._state, src, src) < 0:
            found = found[found != src]
        if not self.one_type:
            return found
        sources = np.empty(nodes["in_partners"][src], np.int64)
        sources_of(self._state, src, sources)
        return np.concatenate([found, sources[nodes["in_count"][sources] == 0]])

    def run(
        self,
        queries: tuple[Codes, Floats],
        starts: Codes,
        candidates: Codes,
        edges: tuple[Codes, Codes, Floats] | None = None,
        upto: Codes | None = None,
    ) -> Floats:
        """The columns of the candidates of several queries, in the order of time, absorbing edges in between.

        The candidates of query k are those from `starts[k]` to `starts[k + 1]`, and it knows the first `upto[k]` edges.
        """
        from tdlg._kernels.ranking import run_queries

        src, dst, when = edges or (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        upto = np.zeros(len(queries[0]), np.int64) if upto is None else upto
        self._make_room(1 + max(int(codes.max(initial=-1)) for codes in (queries[0], candidates, src, dst)), len(src))
        rows = np.empty((len(candidates), len(COLUMNS)))
        scratch = self.one_type, self.rates, self._scratch
        run_queries(self._state, (src, dst, when), upto, queries, starts, candidates, *scratch, rows)
        return rows

    def sample(
        self,
        edges: tuple[Codes, Codes, Floats],
        upto: Codes,
        chosen: Codes,
        limits: Codes,
        everyone: Codes,
        picks: Codes,
    ) -> tuple[Floats, Codes]:
        """Columns of the destinations of chosen edges and of other candidates, and where those of each edge begin.

        The chosen edges are given by their positions, ascending; each knows the first `upto` of the edges. `limits` are the
        numbers of candidates of each kind (see `tdlg._kernels.ranking._gather`), `picks` positions in `everyone` of random
        ones, (n_chosen, n_random).
        """
        from tdlg._kernels.ranking import sample

        self._make_room(int(max(edges[0].max(), edges[1].max(), everyone.max())) + 1, int(upto[-1]))
        most = len(chosen) * (1 + int(limits.sum()) + picks.shape[1])
        rows, candidates = np.empty((most, len(COLUMNS))), np.empty(most, np.int64)
        starts = np.empty(len(chosen) + 1, np.int64)
        scratch = self.one_type, self.rates, self._scratch
        n = sample(self._state, edges, upto, chosen, limits, everyone, picks, *scratch, starts, candidates, rows)
        return rows[:n], starts

    def _make_room(self, n_codes: int, n_edges: int) -> None:
        """Be ready for nodes with codes below a number, and for more edges."""
        state = self._state
        if n_codes > len(state.nodes):
            size = max(n_codes, int(GROWTH * len(state.nodes)))
            nodes = np.concatenate([state.nodes, _new_nodes(size - len(state.nodes))])
            sums = {name: grown(getattr(state, name), size) for name in ("node_sums", "fresh_sums")}
            state = state._replace(nodes=nodes, **sums)
            self._scratch = _new_scratch(size)
        for kind, names in ((PAIRS, ("pairs", "pair_sums", "pair_keys")), (STEPS, ("steps", "step_keys"))):
            n_used = int(state.counters[kind])
            if n_used + n_edges > len(getattr(state, names[-1])):
                size = max(FIRST_SIZE, int(GROWTH * (n_used + n_edges)))
                larger = {name: grown(getattr(state, name), size) for name in names}
                table = names[-1].replace("keys", "table")
                state = state._replace(**larger, **{table: hash_table(n_used, larger[names[-1]])})
        self._state = state


def _new_nodes(n: int) -> NDArray[Any]:
    nodes = np.zeros(n, NODE)
    for name in ("head", "newer", "older"):
        nodes[name] = NONE
    return nodes


def _new_scratch(n_nodes: int) -> Scratch:
    numbers, seen = np.zeros(2, np.int64), np.zeros((n_nodes, 2), np.int64)
    return Scratch(numbers, seen, np.zeros(n_nodes, np.int64), np.zeros((n_nodes, FOUND)))
