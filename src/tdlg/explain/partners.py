"""Why a node may be the next partner of another, in words: what happened between and around them before."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import common_clock, duration_in_words
from tdlg.edges import TemporalEdges
from tdlg.explain.sentences import node_in_words
from tdlg.tables.text import count

Codes = NDArray[Any]
Floats = NDArray[np.float64]

LATELY = 1000  # the latest interactions, among whose sources those of a popular destination are counted


class Past(NamedTuple):
    """Interactions in the order of time: codes of nodes, and times in ticks of a unit."""

    src: Codes
    dst: Codes
    ticks: NDArray[Any]
    unit: str | None
    bipartite: bool

    def when(self, k: int) -> float:
        """The time of an interaction, from the first one on."""
        return float(self.ticks[k] - self.ticks[0])


class Asked(NamedTuple):
    """Pairs: codes of their nodes, -1 where unknown, and their ids; their times; and how many interactions they know."""

    src: Codes
    dst: Codes
    when: Floats  # in ticks from the first interaction on
    upto: Codes
    src_ids: Any
    dst_ids: Any


def pair_reasons(known: TemporalEdges, pairs: TemporalEdges) -> list[str]:
    """The reason of each pair, which knows the edges until its time."""
    order = np.argsort(known.ticks, kind="stable")
    ticks, at, unit = common_clock(known.ticks[order], known.time_unit, pairs.ticks, pairs.time_unit)
    upto = np.searchsorted(ticks, at, "right")
    past = Past(known.src_code[order], known.dst_code[order], ticks, unit, known.bipartite)
    at = (at - ticks[0]).astype(np.float64)
    return partner_reasons(past, Asked(*known.codes_of(pairs), at, upto, pairs.src, pairs.dst))


def partner_reasons(past: Past, asked: Asked) -> list[str]:
    """The strongest fact about each pair: they met, or turned to each other; have common partners; or one is popular."""
    reasons = [""] * len(asked.src)
    groups: dict[tuple[int, int], list[int]] = {}
    for k, group in enumerate(zip(asked.src.tolist(), asked.upto.tolist(), strict=True)):
        groups.setdefault(group, []).append(k)
    lately = {upto: _Lately.of(past, upto) for upto in set(asked.upto.tolist())}
    for (src, upto), places in groups.items():
        around = _Around(past, src, upto, lately[upto])
        for k in places:
            names = node_in_words(asked.src_ids[k]), node_in_words(asked.dst_ids[k])
            reasons[k] = around.reason(int(asked.dst[k]), *names, float(asked.when[k]))
    return reasons


class _Lately(NamedTuple):
    """The latest interactions: how many sources each destination has among them, and the numbers of sources and of all."""

    popular: Counter[int]
    n_sources: int
    n: int

    @classmethod
    def of(cls, past: Past, upto: int) -> Self:
        some = slice(max(0, upto - LATELY), upto)
        pairs = set(zip(past.dst[some].tolist(), past.src[some].tolist(), strict=True))
        return cls(Counter(dst for dst, _ in pairs), len({src for _, src in pairs}), len(past.src[some]))


class _Around:
    """What a source and all others did among the first interactions."""

    def __init__(self, past: Past, node: int, upto: int, lately: _Lately) -> None:
        self._past, self._node, self._lately = past, node, lately
        self._src, self._dst = past.src[:upto], past.dst[:upto]
        out, back = np.flatnonzero(self._src == node), np.flatnonzero(self._dst == node)
        to, come = self._dst[out].tolist(), self._src[back].tolist()
        self._met, self._turned = Counter(to), Counter(come)  # by the other node
        self._last_met = dict(zip(to, out.tolist(), strict=True))  # the last of equal ones remains
        self._last_turned = dict(zip(come, back.tolist(), strict=True))

    @cached_property
    def _common(self) -> Counter[int]:
        """Partners in common with a node that is none; between two types, the sources that met it and what this one met."""
        partner = np.zeros(1 + max(int(self._src.max(initial=0)), int(self._dst.max(initial=0)), self._node), bool)
        partner[[*self._met, *self._turned]] = True
        if self._past.bipartite:
            sources = self._src[partner[self._dst]]
            partner[:] = False
            partner[sources] = True
        forth, back = np.flatnonzero(partner[self._src]), np.flatnonzero(partner[self._dst])
        ends = [(self._src[forth], self._dst[forth]), (self._dst[back], self._src[back])]
        pairs = np.unique(np.concatenate([other.astype(np.int64) * len(partner) + of for of, other in ends]))
        return Counter((pairs // len(partner)).tolist())

    @cached_property
    def _last_to(self) -> dict[int, int]:
        """The last interaction to each destination."""
        nodes, first = np.unique(self._dst[::-1], return_index=True)
        return dict(zip(nodes.tolist(), (len(self._dst) - 1 - first).tolist(), strict=True))

    def reason(self, k: int, src: str, dst: str, when: float) -> str:
        """Why the node with code k may be next at a time; src, dst : the two nodes in words."""

        def before(last: int) -> str:
            gap = when - self._past.when(last)
            return f"{duration_in_words(gap, self._past.unit)} before" if gap > 0 else "at this time"

        def often(n: int, last: int) -> str:
            return f"once, {before(last)}" if n == 1 else f"{n:,} times, last {before(last)}"

        met, turned = self._last_met.get(k), self._last_turned.get(k)
        if met is not None:
            sentence = f"met {often(self._met[k], met)}"
            if turned is not None and self._past.when(turned) > self._past.when(met):
                return f"{dst} answered the last interaction {before(turned)}; {sentence}"
            return sentence
        if turned is not None:
            return f"{dst} turned to {src} {often(self._turned[k], turned)}, without an answer"
        new = "new pair" if self._met or self._turned else f"{src} is new"
        n = self._common[k]
        if n and not self._past.bipartite:
            return f"{new}; {count(n, 'common partner')}"
        if n:
            return f"{new}; met by {count(n, 'source')} that met the same as {src}"
        n = self._lately.popular[k]
        if n:
            sources = f"{n:,} of the {count(self._lately.n_sources, 'source')}"
            return f"{new}; {dst} was met by {sources} of the last {count(self._lately.n, 'interaction')}"
        last = self._last_to.get(k)
        return f"{new}; {dst} was never met" if last is None else f"{new}; {dst} was last met {before(last)}"
