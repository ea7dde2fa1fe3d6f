"""What stands behind the columns about the two ends of an edge together, in words."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import COMMON_NODES, RECENT
from tdlg.explain.sentences import MANY, Reason, Words, _agrees, _by_key, _capped
from tdlg.linegraph.match import MATCHES
from tdlg.propagate.two_ends import residuals

__all__ = ["TwoEndWords"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

PARTNERS = 10  # number of edges around whose partners a sentence is about, the nearest in time

ALIKE = {
    "src": "to {{dst}} from sources that {} with {{src}} about other destinations",
    "dst": "from {{src}} to destinations that other sources label {} {{dst}}",
}
HOW = {"src": {1: "agree", -1: "disagree"}, "dst": {1: "like", -1: "unlike"}}  # by the sign of the similarity
COMMON = {
    "src": "of other sources of {dst} to destinations of {src}",
    "dst": "of other destinations of {src} from sources of {dst}",
}
OF_PARTNERS = {
    "dst": "from other sources of {dst} to other destinations",
    "src": "to other destinations of {src} from other sources",
    "src-dst": "from sources of {src} to other destinations",
    "dst-src": "to destinations of {dst} from other sources",
}


class TwoEndWords(Words):
    """Sentences about the edges to score that are about both ends together. The parameters are those of `Words`."""

    def agreement(self, i: int, match: str, code: int, raises: bool) -> Reason:
        """Which labels the nodes most similar to one end have with the other end.

        With the match "src" these are sources that agree with the source about other destinations; with "dst", destinations
        that other sources label like the destination. If none does, the sentence counts those that disagree.
        """
        others, similarity, _ = self._similar(i, match, code)
        sign = 1 if (similarity > 0).any() or not (similarity < 0).any() else -1
        chosen = np.flatnonzero(similarity * sign > 0)
        places, where = (
            others[chosen[np.argsort(-np.abs(similarity[chosen]), kind="stable")]],
            self._where_alike(i, match, sign),
        )
        if sign > 0 and len(places) and _agrees(self._above_usual(places, code).mean(), raises):
            many = f"the {len(places)}" if len(places) > 1 else "the only"
            return self._of_labels(where, places, code, many), self._behind(places)
        none_yet = " yet" * (self._past_only and not len(places))
        return f"{_capped(len(places), 'labelled interaction')} {where}{none_yet}", self._behind(places)

    def common(self, i: int, match: str, code: int) -> Reason:
        """How many nodes of one end are known to others of the other end."""
        others, _, common = self._similar(i, match, code)
        many = _capped(int(common.sum()), "labelled interaction")
        return f"{many} {self._with_nodes(COMMON[match], i)}", self._behind(others[common > 0])

    def partners(self, i: int, match: str, code: int, raises: bool) -> Reason:
        """Which labels the partners of an end have elsewhere."""
        where = self._with_nodes(OF_PARTNERS[match], i)
        known = self._of_partners(i, match)
        if not len(known):
            return f"no labelled interaction {where}" + " yet" * self._past_only, []
        recent = self._nearest(i, known, MANY)
        above = self._above_usual(recent, code)
        behind = self._telling(i, recent, above)
        if _agrees(above.mean(), raises):
            return self._of_labels(where, recent, code, self._many(recent, known)), behind
        return f"{_capped(len(known), 'labelled interaction')} {where}", behind

    def _where_alike(self, i: int, match: str, sign: int) -> str:
        return self._with_nodes(ALIKE[match].format(HOW[match][sign]), i)

    # ---- neighbours of neighbours, as positions in the evidence

    def _similar(self, i: int, match: str, code: int) -> tuple[Positions, Floats, Positions]:
        """The labelled edges of other nodes at the far end, how similar these are to the near end, how much they share."""
        far = "dst" if match == "src" else "src"
        near_codes, far_codes = self._codes[match], self._codes[far]
        u, v, left = near_codes[self._at[i]], far_codes[self._at[i]], self._left[match][:, self._column(code)]
        marks: dict[int, list[float]] = {}
        for other in self._compared(i, match, u):
            if far_codes[other] != v:
                marks.setdefault(int(far_codes[other]), []).append(left[other])
        means = {node: float(np.mean(values)) for node, values in marks.items()}
        others = [other for other in self._compared(i, far, v) if near_codes[other] != u]
        similarity, common = [], []
        for other in others:
            listed = self._compared(i, match, near_codes[other])
            both = [edge for edge in listed if int(far_codes[edge]) in means]
            agreed = sum(left[edge] * means[int(far_codes[edge])] for edge in both)
            similarity.append(agreed / (len(both) + COMMON_NODES))
            common.append(len(both))
        return np.array(others, np.int64), np.array(similarity), np.array(common, np.int64)

    def _compared(self, i: int, match: str, node: int) -> Positions:
        """The labelled edges of a node nearest to the edge in time, or the last ones known before it."""
        known = self._known_of(i, match, node)
        if not self._past_only:
            return self._nearest(i, known, RECENT)
        return known[np.lexsort((known, self._ticks[known], self._known_at[known]))][-RECENT:]

    def _known_of(self, i: int, match: str, node: int) -> Positions:
        """All labelled edges of a node, each once, without self-loops, that the edge may know."""
        order, keys, _ = self._by_match(match)
        found = order[slice(*np.searchsorted(keys, [node, node + 1]))]
        found = found[self._evidence.labelled[found] & (self._codes["src"][found] != self._codes["dst"][found])]
        if self._past_only:
            found = found[self._known_at[found] < self._ticks[self._at[i]]]
        rows = self._evidence.edges.at[found]
        first = np.sort(np.unique(rows, return_index=True)[1])
        return found[first][rows[first] != self._evidence.edges.at[self._at[i]]]

    def _of_partners(self, i: int, match: str) -> Positions:
        """The labelled edges of the partners with other nodes; the partners are those of the edges nearest in time."""
        mine, theirs = MATCHES[match].row, MATCHES[match].col
        far = "src" if theirs == "dst" else "dst"  # where the partners are
        here = self._codes[mine][self._at[i]]
        opposite = self._codes["src" if mine == "dst" else "dst"][self._at[i]]
        around = self._around(i, match)
        around = around[(self._codes[far][around] != opposite) & (self._codes[far][around] != here)]
        partners = np.unique(self._codes[far][self._nearest(i, around, PARTNERS)])
        found = [self._known_of(i, far, partner) for partner in partners]
        known = np.concatenate([np.empty(0, np.int64), *found])
        return known[self._codes[theirs][known] != here]

    @cached_property
    def _codes(self) -> dict[str, NDArray[np.int32]]:
        return {"src": self._evidence.edges.src, "dst": self._evidence.edges.dst}

    @cached_property
    def _left(self) -> dict[str, Floats]:
        """Labels minus what the other end has otherwise, for the edges of a source and of a destination."""
        src, dst = residuals(self._features.plan_, self._evidence)
        return {"src": dst, "dst": src}

    def _by_match(self, match: str) -> tuple[Positions, Positions, Positions]:
        if match not in self._sorted:
            self._sorted[match] = _by_key(self._evidence.edges, match)
        return self._sorted[match]
