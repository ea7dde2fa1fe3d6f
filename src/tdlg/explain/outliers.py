"""Reasons of outliers in words: what came too often, what was never seen before, which value or which edge is unusual."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_count
from tdlg.clock import common_clock, duration_in_words, round_duration
from tdlg.edges import TemporalEdges
from tdlg.explain.reasons import burst_counts, chosen_rows, reasons_table
from tdlg.explain.sentences import NAMED, Reason, burst, category_in_words, node_in_words
from tdlg.propagate.bursts import ENDS, HOUR, KEYS, Surprises, feature_of
from tdlg.propagate.plan import raw_values

if TYPE_CHECKING:
    import polars as pl

Positions = NDArray[np.int64]

END_NAMES = "source", "destination"
MISPLACED = "misplaced"
FEW_VALUES = 4  # earlier values, with fewer of which they are not shown
WORTH_SAYING = 0.5  # digits from which on there is more than one reason
MIDDLE = 0.05, 0.95  # between which quantiles values are called usual


class _Because(NamedTuple):
    digits: float
    what: str
    tell: Callable[[], Reason]  # only of the reasons that are given: to count takes long


def explain_surprises(
    model: Any,
    edges: TemporalEdges,
    places: Positions,
    top: int = 3,
    *,
    rows: Any = None,
    found: Surprises | None = None,
) -> pl.DataFrame:
    """What makes each edge unusual, see `SurpriseDetector.explain`; places : among the fitted edges, -1 for new ones.

    found : how unusual the fitted and the new edges are, where the model knows only the neighbourhood of an edge; counts of
    all edges are not told then.
    """
    check_count("explain", "top", top, 1)
    which, new = chosen_rows(rows, len(edges)), np.flatnonzero(places < 0)
    at = places.copy()
    at[new] = len(model.edges_) + np.arange(len(new))
    told = _Told(model, edges[new] if len(new) else None, found, at[which])
    scores = -model.combined(told.digits)
    reasons = [(i, at[i], told.reasons(at[i])[:top]) for i in which]
    lines = [(i, place, rank, because) for i, place, some in reasons for rank, because in enumerate(some)]
    return reasons_table(
        edges,
        np.array([i for i, *_ in lines], np.int64),
        None,
        scores=[scores[place] for _, place, *_ in lines],
        rank=np.array([rank + 1 for *_, rank, _ in lines], np.int64),
        what=[because.what for *_, because in lines],
        effects=[because.digits for *_, because in lines],
        reasons=[because.tell() for *_, because in lines],
    )


class _Told:
    """The fitted edges and new ones after them, and what there is to say of each."""

    def __init__(self, model: Any, more: TemporalEdges | None, found: Surprises | None, asked: Positions) -> None:
        self._model, self._plan, self._parts = model, model.plan_, [model.edges_, *([] if more is None else [more])]
        self._knows_all = found is None
        self._found = model.judged(more) if found is None else found
        self.digits = model.digits_of(self._found, more)
        self._arrivals, self._keys = self._plan.keyed(model.edges_, more)
        self._widths = [d.parts(self._arrivals.time_unit)[0].bandwidth for d in (model.fast_, model.slow_)]
        self._window, self._in_words = round_duration(self._widths[0], self._arrivals.time_unit)
        n = len(self._arrivals.order)
        self._place = np.empty(n, np.int64)
        self._place[self._arrivals.order] = np.arange(n)
        self._counted = np.flatnonzero(self._plan.counted).tolist()
        every = [self._keys[k] for k in self._counted]
        of_asked = burst_counts(self._arrivals, every, asked, *self._widths) if "burst" in model.notions else ((), ())
        self._burst_counts = dict(
            zip(asked.tolist(), zip(*of_asked, strict=True), strict=False)
        )  # surprises, and usual
        self._raw = cache(self._raw_of)
        self._sorted = cache(self._sorted_by)
        self._firsts = cache(self._first_ticks)

    def reasons(self, edge: int) -> list[_Because]:
        """What makes an edge unusual, the most surprising first."""
        of_notion = {"burst": self._bursts, "rare": self._rare, "value": self._odd, MISPLACED: self._misplaced}
        found = [because for notion in self._model.names for because in of_notion[notion](edge)]
        if self._model.weights_ is not None:
            weights = dict(zip(self._model.names, self._model.weights_.tolist(), strict=True))
            found = [because._replace(digits=because.digits * weights[because.what.split()[0]]) for because in found]
        found.sort(key=lambda because: -because.digits)
        return [because for because in found if because.digits >= WORTH_SAYING] or found[: found[0].digits > 0]

    # ---- bursts

    def _bursts(self, edge: int) -> list[_Because]:
        surprise, usual = self._burst_counts[edge]
        digits = float(self.digits[edge, self._model.notions.index("burst")])
        k, kinds = int(surprise.argmax()), [self._plan.kinds[kind] for kind in self._counted]
        if not self._knows_all and len(kinds) > len(KEYS) and self._found.bursts[edge] > 1.01 * surprise.max():
            words = " or ".join(self._category(feature_of(kind), edge) for kind in kinds[len(KEYS) :])
            said = f"far more interactions with {words} than usual"
            return [_Because(digits, f"burst {kinds[len(KEYS)]}", lambda: (said, []))]

        def tell() -> Reason:
            there, expected = self._within(self._counted[k], edge), usual[k] * self._window / self._widths[0]
            return burst(*self._whose(edge), kinds[k], len(there), expected, self._in_words), there[-NAMED:][::-1]

        return [_Because(digits if surprise[k] > 0 else 0.0, f"burst {kinds[k]}", tell)]

    # ---- new and rare

    def _rare(self, edge: int) -> list[_Because]:
        digits = self._model.rare_digits(self._found, edge)
        is_new = [not len(self._before(k, edge)) for k in range(ENDS)]
        found = [
            _Because(float(value), f"rare {kind}", partial(self._how_often, k, kind, edge))
            for k, (kind, value) in enumerate(zip(self._plan.kinds, digits, strict=True))
            if not (kind == "pair" and any(is_new)) and not (kind.startswith("src+") and is_new[0])  # nothing more
        ]
        rush = self._model.rush_digits(self._found, edge)
        return found + [
            _Because(float(rush[k]), f"rare new {END_NAMES[k]}s", partial(self._rush, k, edge)) for k in range(ENDS)
        ]

    def _how_often(self, k: int, kind: str, edge: int) -> Reason:
        before, of_source = self._before(k, edge), self._before(0, edge)
        n, all_before, behind = len(before), int(self._place[edge]), before[-NAMED:][::-1].tolist()
        edges, i = self._whose(edge)
        src, dst = node_in_words(edges.src[i]), node_in_words(edges.dst[i])
        times = "never" if not n else "once" if n == 1 else f"{n:,} times"
        if kind.startswith("src+"):
            word = self._category(feature_of(kind), edge)
            among = (
                f"the {len(of_source):,} earlier interactions" if len(of_source) > 1 else "the one earlier interaction"
            )
            return f"{n or 'none'} of {among} from {src} had {word}".replace("had between", "came between"), behind
        whole = f"among {all_before:,} earlier interactions" if self._knows_all else "before"
        if kind == "pair":
            return (
                f"{src} and {dst} were {'never seen together' if not n else f'seen together {times}'} {whole}",
                behind,
            )
        what = {"src": f"source {src}", "dst": f"destination {dst}"}.get(kind)
        if what is None and not self._knows_all:
            return f"{self._category(feature_of(kind), edge)} is rare", behind
        what = what or self._category(feature_of(kind), edge)
        return f"{what} was {'never seen' if not n else f'seen {times}'} {whole}", behind

    def _rush(self, k: int, edge: int) -> Reason:
        if not self._knows_all:
            return f"far more new {END_NAMES[k]}s of late than usual", []
        now, ticks = self._arrivals.ticks[edge], self._arrivals.ticks[self._arrivals.order]
        (new, all_new), (n, everything) = (
            (int(np.searchsorted(of, now, "right")) - first, first)
            for of in (self._firsts(k), ticks)
            for first in [int(np.searchsorted(of, now - self._window))]
        )
        usual = all_new / everything * n if everything else 0.0
        shown = f"{usual:,.0f}" if usual >= 10 else f"{usual:.2g}"
        many = f"{new:,} new {END_NAMES[k]}s" if new > 1 else f"1 new {END_NAMES[k]}"
        among = f"{n:,} interactions within {self._in_words}"
        return f"{many} among {among}, where {shown} {'is' if shown == '1' else 'are'} usual", []

    # ---- values

    def _odd(self, edge: int) -> list[_Because]:
        digits, names = self._model.odd_digits(self._found, edge), self._plan.numbers
        places = [(k, name) for k in range(ENDS) for name in names]
        return [
            _Because(float(value), f"value {name}", partial(self._beside, k, name, edge))
            for (k, name), value in zip(places, digits, strict=True)
        ]

    def _beside(self, k: int, name: str, edge: int) -> Reason:
        before = self._before(k, edge)
        values = self._raw(name)
        earlier, preposition = values[before], ("from", "to")[k]
        earlier = earlier[np.isfinite(earlier)]
        edges, i = self._whose(edge)
        node = node_in_words((edges.src, edges.dst)[k][i])
        behind = before[-NAMED:][::-1].tolist()
        if len(earlier) < FEW_VALUES:
            low, high = np.nanquantile(values, MIDDLE)
            return f"{name} of {values[edge]:,.6g}, where {low:,.6g} to {high:,.6g} is usual for all", behind
        low, high = np.quantile(earlier, MIDDLE)
        usual = f"{low:,.6g} to {high:,.6g}" if low < high else f"{low:,.6g}"
        return f"{name} of {values[edge]:,.6g}, where {usual} is usual {preposition} {node}", behind

    # ---- what does not belong

    @cached_property
    def _elsewhere(self) -> list[Elsewhere]:
        return [Elsewhere(self._model.misplaced_, part) for part in self._parts]

    def _misplaced(self, edge: int) -> list[_Because]:
        edges, i = self._whose(edge)
        digits = float(self.digits[edge, self._model.names.index(MISPLACED)])
        is_new = edges is not self._parts[0]
        what, sentence, behind = self._elsewhere[is_new].facts(i, -1 if is_new else i)[0]
        return [_Because(digits, f"{MISPLACED} {what}", lambda: (sentence, behind))]

    # ---- what they share

    def _whose(self, edge: int) -> tuple[TemporalEdges, int]:
        """The table that an edge is in, and its row there."""
        n = len(self._parts[0])
        return (self._parts[0], edge) if edge < n else (self._parts[1], edge - n)

    def _raw_of(self, name: str) -> NDArray[Any]:
        return np.concatenate([raw_values(part, name) for part in self._parts])

    def _category(self, name: str, edge: int) -> str:
        """A category of an edge in words."""
        edges, i = self._whose(edge)
        if name == HOUR:
            hour = int(self._plan.hours(self._arrivals.ticks[edge : edge + 1], self._arrivals.time_unit)[0, 0])
            return f"between {hour}:00 and {hour + 1}:00"
        return category_in_words(edges, i, name)

    def _sorted_by(self, k: int) -> tuple[Positions, NDArray[Any]]:
        order = np.lexsort((self._place, self._keys[k]))
        return order, self._keys[k][order]

    def _before(self, k: int, edge: int) -> Positions:
        """The edges with the same key that came before, in their order."""
        order, codes = self._sorted(k)
        start, stop = np.searchsorted(codes, [self._keys[k][edge], self._keys[k][edge] + 1])
        same: Positions = order[start:stop]
        return same[: np.searchsorted(self._place[same], self._place[edge])]

    def _within(self, k: int, edge: int) -> list[int]:
        """The edges with the same key within the window, this one last."""
        before, ticks = self._before(k, edge), self._arrivals.ticks
        return [*before[ticks[edge] - ticks[before] <= self._window].tolist(), edge]

    def _first_ticks(self, k: int) -> NDArray[Any]:
        """When each source or destination came first, sorted."""
        order, codes = self._sorted(k)
        return np.sort(self._arrivals.ticks[order[np.append(True, codes[1:] != codes[:-1])]])


# ---- edges that do not fit their nodes


def explain_misplaced(
    model: Any, edges: TemporalEdges, places: Positions, scores: Any, top: int = 3, *, rows: Any = None
) -> pl.DataFrame:
    """What speaks against each edge, see `MisplacedDetector.explain`; places : among the fitted edges, -1 for new ones."""
    check_count("explain", "top", top, 1)
    which, elsewhere = chosen_rows(rows, len(edges)), Elsewhere(model, edges)
    facts = [(i, rank, fact) for i in which for rank, fact in enumerate(elsewhere.facts(i, places[i])[:top])]
    at = np.array([i for i, *_ in facts], np.int64)
    return reasons_table(
        edges,
        at,
        None,
        scores=-scores[at],
        rank=np.array([rank + 1 for _, rank, _ in facts], np.int64),
        what=[what for *_, (what, _, _) in facts],
        effects=[None] * len(facts),
        reasons=[(sentence, behind) for *_, (_, sentence, behind) in facts],
    )


class Elsewhere:
    """What else the two nodes of some edges and their pair do among the fitted edges of a `MisplacedDetector`, and when."""

    def __init__(self, model: Any, asked: TemporalEdges) -> None:
        fitted = model.edges_
        self._asked, self._by_ends = asked, model.method == "linegraph"
        self._codes = fitted.codes_of(asked)
        self._ticks, self._now, self._unit = common_clock(fitted.ticks, fitted.time_unit, asked.ticks, asked.time_unit)
        ends = fitted.src_code, fitted.dst_code
        self._sorted = []
        for k in range(ENDS):
            codes = ends[k] if fitted.bipartite else np.concatenate(ends)  # a node of one type may be either
            order = np.argsort(codes, kind="stable")
            self._sorted.append((order % len(fitted), codes[order]))

    def facts(self, edge: int, own: int) -> list[tuple[str, str, list[int]]]:
        """What is said of an edge, the least usual first: of which end or the pair, in words, and the nearest edges.

        own : its position among the fitted edges, -1 for none. A score of the line graph does not know of pairs.
        """
        src, dst = node_in_words(self._asked.src[edge]), node_in_words(self._asked.dst[edge])
        of_ends = [self._of(k, edge, own) for k in range(ENDS)]
        found = []
        for what, who, rows in (
            ("src", f"source {src}", of_ends[0]),
            ("dst", f"destination {dst}", of_ends[1]),
            ("pair", f"{src} and {dst}", np.intersect1d(of_ends[0], of_ends[1])),
        ):
            gaps = np.abs(self._ticks[rows].astype(np.float64) - float(self._now[edge]))
            nearest = rows[np.argsort(gaps, kind="stable")[:NAMED]].tolist()
            together, gap = " together" * (what == "pair"), float(gaps.min(initial=np.inf))
            words = f"{who} had no other interaction{together}"
            if nearest:
                many = f"{len(rows):,} other interactions" if len(rows) > 1 else "one other interaction"
                side = "before" if self._ticks[nearest[0]] <= self._now[edge] else "after"
                at = f"{duration_in_words(gap, self._unit)} {side}" if gap > 0 else "at the same time"
                words = f"{who} had {many}{together}, the nearest {at}"
            found.append((self._by_ends and what == "pair", -gap, (what, words, nearest)))
        return [fact for *_, fact in sorted(found, key=lambda one: one[:2])]

    def _of(self, k: int, edge: int, own: int) -> Positions:
        """The fitted edges with a node of an edge, other than this one."""
        rows, codes = self._sorted[k]
        code = self._codes[k][edge]
        some = np.unique(rows[np.searchsorted(codes, code) : np.searchsorted(codes, code, "right")])
        return some[some != own]
