"""What an edge has around it, in words: from the evidence that a propagation model makes its columns of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import round_duration, time_in_words
from tdlg.edges import TemporalEdges
from tdlg.linegraph.events import MATCHES
from tdlg.propagate.columns import OWN_MATCHES
from tdlg.propagate.evidence import Evidence
from tdlg.propagate.features import PropagationFeatures
from tdlg.propagate.own_features import CALENDAR, OwnColumn, raw_values, scaled

__all__ = ["Words", "label_in_words", "node_in_words"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Reason = tuple[str, list[int]]  # a sentence, and the positions of the edges behind it

RECENT = 10  # most neighbours that a sentence counts, the nearest in time
NAMED = 5  # the most neighbours given with a reason
ABOVE, FAR_ABOVE = 0.5, 2.0  # from which difference of two tamed amounts on one is above, or far above, the other
SEVERAL_TIMES = 2.0  # from which ratio of two positive amounts on it is shown

WHERE = {  # interactions that match, seen from the edge that is explained
    "src": "from {src}",
    "dst": "to {dst}",
    "src-dst": "to {src}",
    "dst-src": "from {dst}",
    "pair": "from {src} to {dst}",
    "reversed": "from {dst} back to {src}",
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WHO = {"src": "{src} made", "dst": "{dst} received", "src-dst": "{src} received", "dst-src": "{dst} made"}


class Words:
    """Sentences about the edges to explain, and the neighbours that each sentence is about.

    Parameters
    ----------
    features
        The fitted maker of columns.
    edges
        The edges to explain.
    evidence, at
        What is known when they are scored, and their positions in it.
    """

    def __init__(self, features: PropagationFeatures, edges: TemporalEdges, evidence: Evidence, at: Positions) -> None:
        self._features, self._edges, self._evidence, self._at = features, edges, evidence, at
        self._ticks, self._unit = evidence.edges.ticks, evidence.edges.time_unit
        self._past_only = features.past_only
        self._last = "last" if self._past_only else "nearest"
        self._other = "earlier" if self._past_only else "other"
        self._side = "before" if self._past_only else "before or after"
        self._widths = features.widths(self._unit)[0]
        self._n_fitted = len(features.edges_)
        self._new = np.flatnonzero(at >= self._n_fitted)
        self._own = {column.name: column for column in features.own_}
        self._sorted: dict[str, tuple[Positions, Positions, Positions]] = {}
        self._values: dict[str, NDArray[Any]] = {}
        self._own_values: dict[str, NDArray[Any]] = {}

    # ---- sentences

    def labels(self, i: int, match: str, code: int) -> Reason:
        """How many of the labelled neighbours are of a class, or what they have on average."""
        where = self._said(WHERE[match], i)
        known = self._labelled(i, self._around(i, match))
        if not len(known):
            return f"no labelled interaction {where}" + " yet" * self._past_only, []
        recent = self._nearest(i, known, RECENT)
        targets = self._evidence.targets[recent]
        column = 0 if targets.shape[1] == 1 else code
        fitted = np.flatnonzero(self._features.labelled_)
        target, usual = targets[:, column], self._evidence.targets[fitted, column].mean()
        telling = self._nearness(i, recent) * np.abs(target - usual)  # a rare label tells more
        behind = self._behind(recent[np.argsort(-telling, kind="stable")])
        sentence = self._of_labels(where, target, code, self._many(recent, known))
        return f"{sentence}, {self._latest(i, recent)}", behind

    def _of_labels(self, where: str, target: Floats, code: int, many: str) -> str:
        classes, prior = self._features.classes_, self._features.prior_
        if classes is None:
            had = f"had {_number(float(target.mean()) * self._features.target_spread_ + prior[0])}"
            among = f"(all: {_number(prior[0])})"
            if len(target) == 1:
                return f"the only labelled interaction {where} {had} {among}"
            return f"{many} labelled interactions {where} {had} on average {among}"
        is_class = target > 0 if len(prior) > 1 or code == 1 else target <= 0  # two classes have the rate of the second
        name = label_in_words(classes[code])
        if len(target) == 1:
            was, was_not = ("was", "was not") if isinstance(classes[code], str) else ("had label", "did not have label")
            return f"the only labelled interaction {where} {was if is_class[0] else was_not} {name}"
        were = "were" if isinstance(classes[code], str) else "had label"
        return f"{is_class.sum() or 'none'} of {many} labelled interactions {where} {were} {name}"

    def count(self, i: int, match: str, scale: int) -> Reason:
        """How many neighbours there are: of a node within the width of a decay, of a pair ever."""
        around = self._around(i, match)
        if not len(around):
            first = "first" if self._past_only else "the only"
            return (
                f"{first if match in OWN_MATCHES else f'no {self._other}'} interaction {self._said(WHERE[match], i)}",
                [],
            )
        if match not in WHO:
            many = f"{_several(len(around), f'{self._other} interaction')} {self._said(WHERE[match], i)}"
            nearest = self._nearest(i, around, NAMED)
            return f"{many}, {self._latest(i, nearest)}", self._behind(nearest)
        longest, within = self._window(float(self._widths[scale]))
        inside = around[self._distance(i, around) <= longest]
        many = _several(len(inside), "interaction" if self._past_only else "other interaction")
        sentence = f"{self._said(WHO[match], i)} {many} {within}{self._side}"
        return sentence, self._behind(self._nearest(i, inside, NAMED))

    def gaps(self, i: int, match: str) -> Reason:
        """How far away in time the nearest neighbours are."""
        around, where, mine = self._around(i, match), self._said(WHERE[match], i), self._ticks[self._at[i]]
        if not len(around):
            return f"nothing {where} {self._side}", []
        nearest = self._nearest(i, around, 1)
        if self._past_only:
            return f"the last interaction {where} was {self._when(i, nearest[0])}", self._behind(nearest)
        if self._ticks[nearest[0]] == mine:
            return f"another interaction {where} is at the same time", self._behind(nearest)
        sides = around[self._ticks[around] < mine], around[self._ticks[around] > mine]
        if not (len(sides[0]) and len(sides[1])):
            none = "none is before" if len(sides[1]) else "none is after"
            sentence = f"the nearest interaction {where} is {self._when(i, nearest[0])}, {none}"
            return sentence, self._behind(nearest)
        before, after = (self._nearest(i, side, 1) for side in sides)
        when = f"{self._when(i, before[0])} and {self._when(i, after[0])}"
        both = self._nearest(i, np.concatenate([before, after]), 2)
        return f"the interactions {where} nearest in time are {when}", self._behind(both)

    def feature(self, i: int, match: str, name: str) -> Reason:
        """A feature of the edge beside that of its neighbours."""
        where, values = self._said(WHERE[match], i), self._values_of(name)
        mine, around = self._given(name)[i], self._around(i, match)
        around = around[_present(values[around])]
        recent = self._nearest(i, around, RECENT)
        known = bool(_present(self._given(name)[i : i + 1])[0])
        if not len(recent):
            return f"no {self._other} {name} {where}" + f" to compare {_value(mine)} with" * known, []
        if not known:
            return f"{name} is missing, unlike {where}", self._behind(recent)
        if self._own[name].categories:
            alike = (values[recent] == mine).sum()
            same = f"{alike} of {self._many(recent, around)} {'interaction' if len(recent) == 1 else 'interactions'} {where}"
            return f"{same} had {name} {_value(mine)}, as this one", self._behind(recent)
        usual = float(np.median(values[recent]))
        how, centre = _compared(mine, usual, self._own[name]), self._own[name].centre
        sentence = f"{name} is {how} what is usual {where} ({_value(mine)} against about {_number(usual)})"
        if how is None:  # then the neighbours' amounts may be what counts, so show how these are beside all
            amounts = f"{name} is {_value(mine)}, where about {_number(usual)} is usual {where}"
            sentence = f"{amounts} (the median of all is {_number(centre)})"
        return sentence, self._behind(recent)

    def own(self, i: int, name: str) -> Reason:
        """A feature of the edge itself."""
        given, column = self._given(name)[i : i + 1], self._own[name]
        if not _present(given)[0]:
            return f"{name} is missing", []
        if name in CALENDAR:
            return f"it happened {_in_calendar(name, float(given[0]))}", []
        typical = f" (the median is {_number(column.centre)})" if column.beside and not column.categories else ""
        return f"{name} is {_value(given[0])}{typical}", []

    def category(self, i: int, name: str) -> Any:
        """The category that the edge has; None of a number."""
        return self._given(name)[i] if self._own[name].categories else None

    # ---- neighbours, as places in the evidence

    def _around(self, i: int, match: str) -> Positions:
        """All that the edge sees in this match, by time."""
        if match not in self._sorted:
            self._sorted[match] = _by_key(self._evidence.edges, match)
        order, keys, wanted = self._sorted[match]
        mine = self._at[i]
        found = order[slice(*np.searchsorted(keys, [wanted[mine], wanted[mine] + 1]))]
        if self._past_only:
            return found[: np.searchsorted(self._ticks[found], self._ticks[mine])]
        rows = self._evidence.edges.rows  # a copy of the edge is not a neighbour
        return found[rows[found] != rows[mine]]

    def _labelled(self, i: int, around: Positions) -> Positions:
        """Those whose label is known when the edge is judged."""
        known = around[self._evidence.labelled[around]]
        if self._evidence.label_ticks is None:
            return known
        known_at = np.maximum(self._evidence.label_ticks[known], self._ticks[known])
        return known[known_at < self._ticks[self._at[i]]]

    def _nearest(self, i: int, others: Positions, n: int) -> Positions:
        """The n nearest in time, those as near in their own order."""
        distance = self._distance(i, others)
        if len(others) > n:
            near = distance <= np.partition(distance, n - 1)[n - 1]
            others, distance = others[near], distance[near]
        return others[np.lexsort((others, distance))][:n]

    def _distance(self, i: int, others: Positions) -> NDArray[Any]:
        return np.abs(self._ticks[others] - self._ticks[self._at[i]])

    def _nearness(self, i: int, others: Positions) -> Floats:
        """How much each counts, over all decays."""
        return np.exp(-self._distance(i, others)[:, np.newaxis] / self._widths).sum(axis=1)

    def _behind(self, places: Positions) -> list[int]:
        """The first of these places as positions among the fitted edges, followed by the edges to explain."""
        n = self._n_fitted
        return [place if place < n else n + int(self._new[place - n]) for place in places[:NAMED].tolist()]

    # ---- parts of sentences

    def _said(self, words: str, i: int) -> str:
        return words.format(src=node_in_words(self._edges.src[i]), dst=node_in_words(self._edges.dst[i]))

    def _many(self, named: Positions, known: Positions) -> str:
        return f"the {len(named)}" if len(named) == len(known) else f"the {self._last} {len(named)}"

    def _latest(self, i: int, nearest: Positions) -> str:
        when = self._when(i, nearest[0])
        return when if len(nearest) == 1 else f"the {self._last} {when}"

    def _when(self, i: int, other: Any) -> str:
        return time_in_words((self._ticks[other] - self._ticks[self._at[i]]).item(), self._unit)

    def _window(self, width: float) -> tuple[float, str]:
        """A round time near the width of a decay: in ticks, and in words."""
        if np.isinf(width):
            return np.inf, ""
        longest, words = round_duration(width, self._unit)
        return longest, f"in the {words} " if self._past_only else f"within {words} "

    def _values_of(self, name: str) -> NDArray[Any]:
        """A feature of all edges of the evidence, as the caller gave it."""
        if name not in self._values:
            both = self._features.edges_, self._edges[self._new]
            self._values[name] = np.concatenate([_as_given(edges, self._own[name]) for edges in both])
        return self._values[name]

    def _given(self, name: str) -> NDArray[Any]:
        """A feature of the edges to score, as the caller gave it; it may differ from that of the same edge in `fit`."""
        if name not in self._own_values:
            self._own_values[name] = _as_given(self._edges, self._own[name])
        return self._own_values[name]


def _by_key(edges: TemporalEdges, match: str) -> tuple[Positions, Positions, Positions]:
    """The edges by what they are found by, then by time; their keys in that order; and the key each of them looks for."""
    src, dst = edges.src_code.astype(np.int64), edges.dst_code.astype(np.int64)
    keys = {"src": src, "dst": dst, "pair": src * edges.n_nodes + dst, "pair backwards": dst * edges.n_nodes + src}
    wanted, found_by = (keys[kind] for kind in MATCHES[match])
    order = np.lexsort((edges.ticks, found_by))
    return order, found_by[order], wanted


def _as_given(edges: TemporalEdges, column: OwnColumn) -> NDArray[Any]:
    """A feature or the weight: numbers, NaN where missing, or categories, None where missing."""
    numbers = raw_values(edges, column.name)
    if not column.categories:
        return numbers
    categories = edges.feature_categories.get(column.name)
    values = np.full(len(numbers), None, object)
    for row in np.flatnonzero(np.isfinite(numbers)):
        values[row] = float(numbers[row]) if categories is None else categories[int(numbers[row])]
    return values


def _present(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.array([value is not None for value in values], bool) if values.dtype == object else np.isfinite(values)


def _compared(mine: float, usual: float, column: OwnColumn) -> str | None:
    """How an amount is beside another, both scaled as the model sees them; None where they are close."""
    tamed = np.arcsinh(scaled(np.array([mine, usual]), column))
    more = tamed[0] - tamed[1]
    if "ratio" in column.beside and min(mine, usual) > 0 and max(mine / usual, usual / mine) >= SEVERAL_TIMES:
        ratio = mine / usual
        return f"{_number(float(f'{ratio:.2g}'))} times" if ratio > 1 else f"only {_percent(ratio)} of"
    if abs(more) < ABOVE:
        return None
    return "far " * bool(abs(more) >= FAR_ABOVE) + ("above" if more > 0 else "below")


# ---- single words


def node_in_words(node: Any) -> str:
    """An id as it stands in a sentence."""
    value = node.item() if isinstance(node, np.generic) else node
    return f"node {value}" if isinstance(value, int | float) else repr(value)


def label_in_words(label: Any) -> str:
    """A label as it stands in a sentence; whole numbers without a fraction."""
    value = label.item() if isinstance(label, np.generic) else label
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(value: Any) -> str:
    return _number(float(value)) if isinstance(value, float) else repr(value)


def _number(x: float) -> str:
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e15 else f"{x:.4g}"


def _in_calendar(name: str, value: float) -> str:
    """An hour of the day, or a day of the week."""
    return f"at {int(value):02d}:{int(value % 1 * 60):02d} UTC" if name == CALENDAR[0] else f"on a {DAYS[int(value)]}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}" if share >= 0.001 else "a tiny part"


def _several(n: int, noun: str) -> str:
    return f"{n:,} {noun}s" if n > 1 else f"{'1' if n else 'no'} {noun}"
