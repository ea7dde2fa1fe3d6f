"""ColumnPlan: what the propagated columns are, in what order, and from which sums they are made.

It is the one description that tables, buckets of a file, streams, models and explanations read. What is summed over the
edges around: a count, then for each feature that is compared its `n_sums` values, then the number of known labels and the
targets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import ALL, BACK_SUM, FAR, LABELLED, Y_BY_BACK, Y_BY_TRUST, Y_LESS_RESIDUAL
from tdlg.clock import durations_in_words, short_duration, ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph.decay import Decay, Laplace, time_spread
from tdlg.linegraph.match import MATCHES, SAME_ENDS
from tdlg.tables.ids import id_key
from tdlg.tables.rows import kept_nodes

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
TwoEnds = Literal["all", "partners", "none"]

ANY_CLASS = -1
CATEGORY_ENDS = {"": "", "src": "src+", "dst": "dst+"}  # the end that edges of a category share too, and its prefix
ACROSS = ("src-dst", "dst-src")  # matches of what a node sends with what it received, and the other way round
SMOOTHING_ACROSS = (
    0.05  # of `smoothing`, for amounts across: what is sent on is compared with a single payment that came
)
COMPARISONS = ("mean", "deviation", "score", "ratio", "share", "share of all", "lately")  # codes of `_kernels.columns`
TWO_ENDS = (0.03, 1.0)  # bandwidths of the columns about both ends, in standard deviations of the times
BOTH_MATCHES = ("src", "dst", "src-dst", "dst-src")  # whose sums the columns about both ends read, in this order
BOTH_MEANS = (  # their means: name, the count, the sum, and whether nodes must be of one type
    ("partners", ALL, FAR, False),
    ("partners-residual", LABELLED, Y_LESS_RESIDUAL, False),
    ("partners-trusted", LABELLED, Y_BY_TRUST, False),
    ("partners-reputation", ALL, BACK_SUM, True),
    ("partners-reputed", LABELLED, Y_BY_BACK, True),
)
SINCE = ("recency", "since")  # how recent the last known label of the rarest class is, and how many edges came since
AGREEMENTS = ("agreement", "agreement-sum", "agreement-common")
LARGEST_SINGLE = 1e38  # number that single precision holds


class Column(NamedTuple):
    """What a propagated column is about.

    about : "rate" or "mean" (labels), "known" (how many labels), "count", "gaps", "feature" (beside the neighbours'
    features), "usual" (the neighbours' features themselves), "lately" (how unusual those were), "since" (the last known
    label of the rarest class), "own"; "partners",
    "agreement" (of nodes that are alike) or "common" (how many such nodes there are), see `two_ends`.
    """

    name: str  # such as "src:rate@1"
    match: str  # the neighbours that it describes, "" for an edge's own feature
    about: str
    feature: str = ""
    of_class: int = ANY_CLASS  # position of the class
    scale: int = -1  # position of the time scale


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """All that determines the columns. Plain data."""

    matches: tuple[str, ...]  # of nodes; `all_matches` has those of categories too
    decays: tuple[Decay, ...]  # Laplace decays of the time scales, then the two of both ends; empty if nothing decays
    scale_names: tuple[str, ...]
    two_end_scale_names: tuple[str, ...]
    own: tuple[OwnColumn, ...]  # the features of the edges
    classes: NDArray[Any] | None  # the distinct labels, sorted; None for numbers, and without labels
    prior: tuple[float, ...]  # subtracted from each target: the share of each class with a rate, or the mean of numbers
    target_spread: float  # what targets are divided by
    past_only: bool  # this and the next two as for `PropagationFeatures`
    smoothing: float
    two_ends: TwoEnds
    bipartite: bool  # whether no node was at both ends of the fitted edges, so that nothing matches across

    # ---- time

    def widths(self, time_unit: str | None) -> Floats:
        """Bandwidths of the time scales in ticks."""
        return self._all_widths(time_unit)[: -len(TWO_ENDS)] if self.decays else np.array([np.inf])

    def two_end_widths(self, time_unit: str | None) -> Floats:
        """The short and the long bandwidth of the columns about both ends, in ticks; the long one is the times' spread."""
        return self._all_widths(time_unit)[-len(TWO_ENDS) :] if self.decays else np.array([np.inf, np.inf])

    @cached_property
    def _widths_by_unit(self) -> dict[str | None, Floats]:
        return {}

    def _all_widths(self, time_unit: str | None) -> Floats:
        found = self._widths_by_unit
        if time_unit not in found:
            found[time_unit] = np.array([decay.parts(time_unit)[0].bandwidth for decay in self.decays])
        return found[time_unit]

    def scales_in_words(self, time_unit: str | None) -> str:
        """The time scales, for instance "53 days, 13 days"; empty if all times are equal."""
        return durations_in_words(self.widths(time_unit).tolist() if self.decays else [], time_unit)

    def spread(self, time_unit: str | None) -> float:
        """The standard deviation of the times in ticks; 1 if all times are equal."""
        spread = float(self.two_end_widths(time_unit)[1])
        return spread if np.isfinite(spread) else 1.0

    # ---- labels

    @property
    def n_targets(self) -> int:
        """The number of targets: one for two classes and for numbers, else one per class."""
        return len(self.prior)

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 for numbers."""
        return 0 if self.classes is None else len(self.classes)

    @cached_property
    def class_targets(self) -> Floats:
        """The targets of each class, (n_classes, n_targets)."""
        n_classes = self.n_classes
        return (np.eye(n_classes)[:, n_classes - self.n_targets :] - self.prior) / self.target_spread

    @cached_property
    def rarest(self) -> int | None:
        """The position of the rarest class, of equally rare ones the last; None for numbers, and where the future counts."""
        if self.classes is None or not self.past_only or not self.n_targets:
            return None
        shares = self.prior if self.n_targets > 1 else (1.0 - self.prior[0], self.prior[0])
        return len(shares) - 1 - int(np.argmin(shares[::-1]))

    @cached_property
    def rare_sign(self) -> tuple[int, float]:
        """Which target is above 0 only for the rarest class, once it is multiplied by a sign; the sign is 0 without such."""
        if self.rarest is None:
            return 0, 0.0
        return (self.rarest, 1.0) if self.n_targets > 1 else (0, 1.0 if self.rarest == 1 else -1.0)

    def is_rare(self, targets: Floats) -> NDArray[np.bool_]:
        """Whether each of known labels, as `targets_of`, is of the rarest class."""
        target, sign = self.rare_sign
        return sign * targets[:, target] > 0.0 if sign else np.zeros(len(targets), bool)

    def targets_of(self, labels: NDArray[Any] | None, known: NDArray[np.bool_]) -> Floats:
        """Labels as numbers minus their prior, (n_edges, n_targets); 0 where unknown."""
        targets = np.zeros((len(known), self.n_targets))
        if labels is None or not self.n_targets:
            return targets
        if self.classes is None:
            targets[known] = (labels[known].astype(np.float64)[:, np.newaxis] - self.prior) / self.target_spread
        else:
            is_class = labels[known][:, np.newaxis] == self.classes[self.n_classes - self.n_targets :]
            targets[known] = (is_class - np.array(self.prior)) / self.target_spread
        return targets

    # ---- matches and what is summed

    @cached_property
    def category_matches(self) -> dict[str, tuple[int, str]]:
        """Matches of edges of the same category, for features with many: number of the feature, and the end shared too."""
        return {
            f"{prefix}category[{name}]": (k, end)
            for k, name in enumerate(self.many)
            for end, prefix in CATEGORY_ENDS.items()
        }

    @property
    def many(self) -> list[str]:
        """Names of the features that have too many categories for an indicator each."""
        return [column.name for column in self.own if column.has_more]

    @property
    def all_matches(self) -> tuple[str, ...]:
        """The matches of nodes, then those of categories."""
        return *self.matches, *self.category_matches

    def kinds(self, match: str) -> tuple[str, str]:
        """By which keys the rows and the columns of a match are filed."""
        if match in self.category_matches:
            return match, match
        row, col = MATCHES[match].row, MATCHES[match].col
        return row.removeprefix("reversed "), col

    @property
    def all_kinds(self) -> tuple[str, ...]:
        """The keys by which edges are filed for the rows of all matches."""
        return tuple(dict.fromkeys(self.kinds(match)[0] for match in self.all_matches))

    def compared(self, match: str) -> list[tuple[OwnColumn, str]]:
        """Which of an edge's own features are compared with those of its neighbours, and how.

        Across, where what a node sends meets what it received, only numbers are, each in one way.
        """
        if match in SAME_ENDS:
            return [(own, kind) for own in self.own for kind in own.beside]
        if match in ACROSS:
            return [(own, "ratio" if "ratio" in own.beside else "deviation") for own in self.own if own.is_scaled]
        return []

    def compares(self, match: str) -> bool:
        """Whether an edge's own features are compared with those of its neighbours."""
        return bool(self.compared(match))

    @cached_property
    def n_edge_values(self) -> int:
        """The number of values that are summed over edges, labelled or not: a count, and features."""
        return 1 + sum(column.n_sums for column in self.own)

    @property
    def numbers(self) -> list[str]:
        """Names of the features that are scaled numbers: how unusual they are is carried along."""
        return [column.name for column in self.own if column.is_scaled]

    @cached_property
    def excesses(self) -> Positions:
        """Positions, among the values that are summed over edges, of the excess of each of the `numbers`."""
        ends = np.cumsum([1, *(column.n_sums for column in self.own)])[1:]
        return np.array([end - 1 for end, column in zip(ends, self.own, strict=True) if column.is_scaled], np.int64)

    @property
    def n_label_values(self) -> int:
        """The number of values that are summed over labels: a count, and the targets."""
        return 1 + self.n_targets

    @cached_property
    def is_scaled(self) -> NDArray[np.bool_]:
        """Whether each of the own features is an amount that is scaled."""
        return np.array([column.is_scaled for column in self.own for _ in range(column.width)], np.bool_)

    def compressed(self, own: Floats) -> Floats:
        """An edge's own features as columns: the arsinh of scaled amounts, 0 where missing; all others as they are."""
        return np.where(self.is_scaled, np.arcsinh(np.where(np.isnan(own), 0.0, own)), own) if self.own else own

    def comparisons(self, match: str) -> tuple[Positions, Floats]:
        """What is compared: kind, first feature, their number and first sum, (n, 4); smallest amounts, smoothing, (n, 3)."""
        smoothing = self.smoothing * (SMOOTHING_ACROSS if match in ACROSS else 1.0)
        compared, amounts = [], []
        first, start, chosen = 0, 1, self.compared(match)
        for column in self.own:
            for kind in (how for one, how in chosen if one is column):
                kind = "share of all" if kind == "share" and not column.has_more else kind
                compared.append((COMPARISONS.index(kind), first, column.width, start))
                amounts.append((*smallest_amounts(column), smoothing))
            first, start = first + column.width, start + column.n_sums
        return np.array(compared, np.int64).reshape(-1, 4), np.array(amounts, np.float64).reshape(-1, 3)

    # ---- columns

    @property
    def n_gaps(self) -> int:
        """The number of columns for the time to the previous, and to the next edge."""
        return 1 if self.past_only else 2

    @cached_property
    def columns(self) -> list[Column]:
        """All columns: those of each match, of both ends together, then the edge's own features."""
        blocks = [*map(self.of_match, self.all_matches), self.two_end_columns, self.own_columns]
        return [column for block in blocks for column in block]

    @cached_property
    def starts(self) -> Positions:
        """Where the columns of each match begin, then those about both ends, then the own features; and their number."""
        sizes = [len(self.of_match(match)) for match in self.all_matches]
        return np.cumsum([0, *sizes, len(self.two_end_columns), len(self.own_columns)])

    def names(self) -> list[str]:
        """Names that any library takes: letters, digits and _.+=- only, each name once."""
        names: dict[str, None] = {}
        for column in self.columns:
            name = re.sub(r"[^\w.+=-]+", "_", column.name).strip("_")
            again = (f"{name}_{k}" for k in range(2, len(names) + 3))  # two features may differ in other characters
            names[name if name not in names else next(one for one in again if one not in names)] = None
        return list(names)

    def of_match(self, match: str) -> list[Column]:
        """The columns of one match: those of each time scale, then the gaps."""
        of_labels = "mean" if self.classes is None else "rate"
        per_scale = [Column(name, match, of_labels, of_class=of) for name, of in self._targets]
        per_scale += [Column("known", match, "known")] * bool(self._targets)
        per_scale.append(Column("count", match, "count"))
        for own, what in self.compared(match):
            about = {"mean": "usual", "lately": "lately"}.get(what, "feature")
            per_scale.append(Column(f"{what}[{own.name}]", match, about, own.name))
        columns = [
            column._replace(name=f"{match}:{column.name}@{name}", scale=k)
            for k, name in enumerate(self.scale_names)
            for column in per_scale
        ]
        columns += [Column(f"{match}:{gap}", match, "gaps") for gap in ("before", "after")[: self.n_gaps]]
        if match in SAME_ENDS:
            columns += [Column(f"{match}:unusual[{name}]", match, "feature", name) for name in self.numbers]
        if match in SAME_ENDS and self.classes is not None and self.rarest is not None:
            of = f"[{self.classes[self.rarest]}]" if self.n_targets > 1 else ""
            columns += [Column(f"{match}:{what}{of}", match, "since") for what in SINCE]
        if match not in self.category_matches:
            return columns
        feature = self.many[self.category_matches[match][0]]
        return [column._replace(about="own", feature=feature) for column in columns]

    @property
    def _targets(self) -> list[tuple[str, int]]:
        """Name and class of each target."""
        if self.n_targets == 1:
            return [("mean" if self.classes is None else "rate", ANY_CLASS)]
        return [(f"rate[{label}]", k) for k, label in enumerate([] if self.classes is None else self.classes)]

    @property
    def own_columns(self) -> list[Column]:
        """An edge's own features: numbers, and indicators of categories."""
        return [
            Column(name, "", "own", own.name)
            for own in self.own
            for name in ([f"{own.name}={category}" for category in own.categories] or [own.name])
        ]

    def columns_of_classes(self) -> list[Positions]:
        """For each class, positions of the columns that are about it or about no class."""
        of_class = np.array([column.of_class for column in self.columns])
        return [np.flatnonzero((of_class == k) | (of_class == ANY_CLASS)) for k in range(self.n_classes)]

    # ---- both ends together

    @property
    def has_two_ends(self) -> bool:
        """Whether there are columns about both ends together."""
        return self.two_ends != "none" and self.n_targets > 0

    @cached_property
    def _two_end_means(self) -> list[tuple[str, str, int, int]]:
        """The means of step 2: match, name, count and sum."""
        kinds = [kind for kind in BOTH_MEANS if not (kind[3] and self.bipartite)]
        kinds = kinds[:1] if self.two_ends == "partners" else kinds
        means = [(match, *kind[:3]) for match in ("dst", "src") for kind in kinds]
        if self.two_ends == "all" and not self.bipartite:
            means += [(match, *BOTH_MEANS[0][:3]) for match in ("src-dst", "dst-src")]
        return means

    @cached_property
    def two_end_means(self) -> Positions:
        """Step 2 as the kernels take it: position in `BOTH_MATCHES`, count and sum of each mean, (n_means, 3)."""
        means = [(BOTH_MATCHES.index(match), count, total) for match, _, count, total in self._two_end_means]
        return np.array(means, np.int64).reshape(-1, 3)

    @cached_property
    def two_end_columns(self) -> list[Column]:
        """The columns about both ends: for each class means, trust and agreement; then how many nodes are common."""
        if not self.has_two_ends:
            return []
        of_labels, columns = "mean" if self.classes is None else "rate", []
        for name, of_class in self._targets:
            of = name[name.index("[") :] if "[" in name else ""
            for match, what, _, _ in self._two_end_means:
                about = "partners" if what in ("partners", "partners-reputation") else of_labels
                for k, scale in enumerate(self.two_end_scale_names):
                    columns.append(Column(f"{match}:{what}{of}@{scale}", match, about, "", of_class, k))
            if self.two_ends == "all":
                ends = ("src", "dst")
                columns += [Column(f"{end}:trust{of}", end, of_labels, "", of_class) for end in ends]
                columns += [
                    Column(f"{end}:{k}{of}", end, "agreement", "", of_class) for end in ends for k in AGREEMENTS
                ]
        if self.two_ends == "all":
            columns += [Column(f"{end}:common", end, "common") for end in ("src", "dst")]
        return columns


def plan_decays(
    scales: Sequence[float | str], deviation: float, time_unit: str | None, *, as_durations: bool
) -> tuple[tuple[Decay, ...], tuple[str, ...], tuple[str, ...]]:
    """The decays of time scales and of both ends, and the names of both.

    scales : numbers in standard deviations of the times, or durations; deviation : that standard deviation, in ticks; if it
    is 0, nothing decays. as_durations : whether the names are durations where times are datetimes.
    """
    if deviation == 0.0:
        return (), ("all",), tuple(f"{scale:g}" for scale in TWO_ENDS)
    every = [*scales, *TWO_ENDS]
    laplace = [Laplace(scale) if isinstance(scale, str) else Laplace(relative=float(scale)) for scale in every]
    decays = tuple(decay.at_spread(deviation, time_unit) for decay in laplace)
    names = [scale if isinstance(scale, str) else f"{float(scale):.3g}" for scale in every]
    if as_durations and time_unit is not None:
        durations = [short_duration(decay.parts(time_unit)[0].bandwidth, time_unit) for decay in decays]
        if len(set(durations[: len(scales)])) == len(scales):
            names = durations
    return decays, tuple(names[: len(scales)]), tuple(names[len(scales) :])


def single(columns: Floats) -> NDArray[np.float32]:
    """Columns in single precision, the largest numbers being cut.

    Estimators see all columns so rounded: those made in memory, from files and of a stream are then the same numbers, though
    they are summed in another order, and a last bit could change the shape of trees.
    """
    found = np.empty_like(columns, np.float32)
    columns.clip(-LARGEST_SINGLE, LARGEST_SINGLE, out=found, casting="unsafe")  # np.clip takes longer for one event
    return found


# ---- time scales that suit the data


FACTOR = 4.0  # between two neighbouring scales
FEWEST, MOST = 4, 6  # numbers of scales


def choose_scales(edges: TemporalEdges, spread: float | None = None, n_rows: int | None = None) -> list[float]:
    """Time scales in standard deviations of the times: 1, 1/4, 1/16 and so on, down to the usual gap of a node.

    spread : the standard deviation of the times, in ticks; by default that of these edges. Not all times may be equal.
    n_rows : the number of rows of the table whose edges these are; of a large one, some nodes decide (`kept_nodes`).
    """
    spread = time_spread(edges.ticks) if spread is None else spread
    return scales_between(spread, usual_gap_of_edges(edges, n_rows or len(edges)))


def scales_between(spread: float, gap: float) -> list[float]:
    """Time scales from the standard deviation of the times down to the usual gap of a node, both in ticks."""
    if not math.isfinite(spread):
        raise EdgesError("The times are too far apart: their spread overflows. Count them in a coarser unit.")
    if spread == 0.0:
        return [FACTOR**-k for k in range(FEWEST)]
    gap = spread if math.isinf(gap) else max(gap, spread / FACTOR**MOST)
    steps = math.ceil(math.log(max(spread / gap, 1.0), FACTOR))
    return [FACTOR**-k for k in range(min(max(steps + 1, FEWEST), MOST))]


def usual_gap_of_edges(edges: TemporalEdges, n_rows: int) -> float:
    """The smaller one of the usual gaps of sources and of destinations, in ticks."""
    kept, gaps = kept_nodes(edges, n_rows), []
    for code in (edges.src_code, edges.dst_code):
        some = kept[code]
        gaps.append(usual_gap(gaps_of_nodes(edges.ticks[some], code[some])))
    return min(gaps)


def gaps_of_nodes(ticks: NDArray[Any], code: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """The times between two consecutive edges of a node, in ticks; `code` says which node an edge has."""
    order = np.lexsort((ticks, code))
    code = code[order]
    return np.diff(ticks[order])[code[1:] == code[:-1]].astype(
        np.float64
    )  # differences are exact, also on a fine clock


def usual_gap(gaps: NDArray[np.float64]) -> float:
    """The lower quartile of gaps; infinite if there are none."""
    return float(np.quantile(gaps, 0.25)) if gaps.size else math.inf


# ---- an edge's own features and weight as numbers that can be averaged


MOST_CATEGORIES = 16  # maximum number of indicators per column
LARGEST = 1e140  # larger scaled amounts are clipped, so that sums of their squares are finite
LEAST_AMOUNT = 1e-3  # smaller amounts are taken as this share of the median in ratios
WEIGHT = "weight"
QUARTILES = (0.25, 0.5, 0.75)
CALENDAR = ("hour of day", "day of week")
CALENDAR_DAYS = 14  # by default the calendar is used where times span this long, so that each weekday was there twice


class OwnColumn(NamedTuple):
    """How a column becomes numbers: (x - centre) / spread, or indicators of its most common categories."""

    name: str
    categories: tuple[Hashable, ...]  # empty for a number
    centre: float = 0.0
    spread: float = 1.0
    has_more: bool = False  # whether there are further categories
    beside: tuple[str, ...] = ()  # how an edge's value is compared with those around it
    highest: float = np.inf  # the largest scaled number that was fitted

    @property
    def width(self) -> int:
        """The number of columns that it becomes."""
        return len(self.categories) or 1

    @property
    def n_sums(self) -> int:
        """The number of values that are summed: whether there is one, the values; of a number also its square and excess."""
        return (1 + self.width if self.categories else 4) if self.beside else 0

    @property
    def is_scaled(self) -> bool:
        """Whether it is a number that is scaled and compared with those around."""
        return bool(self.beside) and not self.categories

    def numbers(self, values: NDArray[Any]) -> Floats:
        """Amounts as scaled numbers, or positions among the categories, below 0 for none, as indicators, (n, width)."""
        if self.categories:
            return (values[:, np.newaxis] == np.arange(self.width)).astype(np.float64)
        return (scaled(values, self) if self.beside else values)[:, np.newaxis]


def fit_own(edges: TemporalEdges, calendar: bool | str = False, rows: Any = slice(None)) -> list[OwnColumn]:
    """Determine centres, spreads and categories from the features and weights of edges, by default of all `rows`.

    calendar : whether the time of day and the day of the week are features too, which are not compared with those around;
    "auto": where times span two weeks.
    """
    if calendar == "auto":
        calendar = _spans_weeks(edges.ticks[rows], edges.time_unit)
    if calendar and edges.time_unit is None:
        raise ParameterError(
            "The 'calendar' parameter needs times that are datetimes, and these are numbers.",
            "Pass datetimes, or leave out calendar=.",
            parameter="calendar",
        )
    columns = [_fit_column(edges, name, rows) for name in _own_names(edges)]
    return columns + [OwnColumn(name, ()) for name in (CALENDAR if calendar else ())]


def _spans_weeks(ticks: NDArray[Any], unit: str | None) -> bool:
    """Whether times are datetimes, and each day of the week was there twice."""
    return unit is not None and len(ticks) > 0 and np.ptp(ticks) >= CALENDAR_DAYS * 86_400 * ticks_per_second(unit)


def own_values(edges: TemporalEdges, columns: Sequence[OwnColumn]) -> Floats:
    """The numbers, (n_edges, sum of widths); NaN where an amount is missing."""
    there = {*_own_names(edges), *CALENDAR}
    missing = [column.name for column in columns if column.name not in there]
    if missing:
        features = [column.name for column in columns if column.name != WEIGHT]
        raise EdgesError(
            f"The edges lack {', '.join(map(repr, missing))}, which the fitted edges have.",
            "Pass weight=." if missing == [WEIGHT] else f"Pass features={features!r}.",
        )
    return np.hstack([np.empty((len(edges), 0)), *(_numbers_of(edges, column) for column in columns)])


class CategoryNumbers(dict[Hashable, int]):
    """The codes of categories by `tdlg.tables.ids.id_key`. A new category gets one when it is looked up, free ones first."""

    def __init__(self, codes: Mapping[Hashable, int] | Iterable[Any], free: Iterable[int] = ()) -> None:
        super().__init__(codes)
        self.free = list(free)

    def copy(self) -> CategoryNumbers:
        """A copy that gives its own codes to new categories."""
        return CategoryNumbers(self, self.free)

    def __missing__(self, category: Hashable) -> int:
        self[category] = code = self.free.pop() if self.free else len(self)
        return code

    @property
    def n_codes(self) -> int:
        """The number of codes, used or free."""
        return len(self) + len(self.free)

    def forget(self, used: NDArray[np.bool_]) -> None:
        """Forget all categories but those whose codes are used, (n_codes,)."""
        for category in [category for category, code in self.items() if not used[code]]:
            self.free.append(self.pop(category))


def category_numbers(edges: TemporalEdges, names: Sequence[str]) -> dict[str, CategoryNumbers]:
    """The code of each category of some features of the fitted edges."""
    keys = {name: dict.fromkeys(map(id_key, edges.feature_categories.get(name, ()))) for name in names}
    return {name: CategoryNumbers({key: code for code, key in enumerate(found)}) for name, found in keys.items()}


def category_codes(edges: TemporalEdges, numbers: dict[str, CategoryNumbers]) -> NDArray[np.int64]:
    """Integer codes of categorical features, (n_edges, n_names); -1 for missing.

    A category that is not in `numbers` gets a new code, which is added there.
    """
    codes = np.full((len(edges), len(numbers)), -1, np.int64)
    for k, (name, number) in enumerate(numbers.items()):
        named = [number[id_key(category)] for category in edges.feature_categories.get(name, ())]
        x = raw_values(edges, name)
        present = np.isfinite(x)
        codes[present, k] = np.array(named, np.int64)[x[present].astype(np.int64)]
    return codes


def scaled(x: NDArray[Any], column: OwnColumn) -> Floats:
    """Scale amounts for the model: (x - centre) / spread, finite for all finite x."""
    with np.errstate(over="ignore"):
        moved = x / column.spread - column.centre / column.spread
    return np.minimum(np.maximum(moved, -LARGEST), LARGEST)  # np.clip takes much longer for one event


def to_sum(own: Floats, columns: Sequence[OwnColumn]) -> Floats:
    """What is summed over the edges around: for each column that is compared, its `n_sums` values."""
    found = np.empty((len(own), sum(column.n_sums for column in columns)))
    first = start = 0
    for column in columns:
        values = own[:, first : first + column.width]
        first += column.width
        if not column.n_sums:
            continue
        sums = found[:, start : start + column.n_sums]
        start += column.n_sums
        is_known = np.isfinite(values[:, 0])
        sums[:, 0] = is_known
        sums[:, 1 : 1 + column.width] = np.where(is_known[:, np.newaxis], values, 0.0)
        if not column.categories:
            sums[:, 2], sums[:, 3] = sums[:, 1] ** 2, 0.0  # the excess depends on the match
    return found


def levels(own: Floats, columns: Sequence[OwnColumn]) -> Floats:
    """How high each scaled number is, (n, n_numbers): the log of an amount over the median, else the arsinh; NaN if missing.

    Numbers above all that were fitted count as the largest of those, so that an absurd one does not change what is usual.
    """
    found, first, place = np.empty((len(own), sum(column.is_scaled for column in columns))), 0, 0
    for column in columns:
        if column.is_scaled:
            x = np.minimum(own[:, first], column.highest)
            if "ratio" in column.beside:
                zero, least = smallest_amounts(column)
                x = np.log(np.maximum(x - zero, least) / -zero)
            else:
                x = np.arcsinh(x)
            found[:, place] = x
            place += 1
        first += column.width
    return found


def smallest_amounts(column: OwnColumn) -> tuple[float, float]:
    """The scaled amount of 0, and the smallest difference from it that ratios distinguish."""
    return -column.centre / column.spread, LEAST_AMOUNT * column.centre / column.spread


def raw_values(edges: TemporalEdges, name: str) -> Floats:
    """A feature, the weight, the time of day in hours, or the day of the week, 0 for Monday; NaN where missing."""
    if name in edges.feature_names and edges.features is not None:
        return edges.features[:, edges.feature_names.index(name)].astype(np.float64)
    if name not in CALENDAR or edges.time_unit is None:
        return np.asarray(edges.weight, np.float64)
    return calendar_values(edges.ticks, edges.time_unit, name)


def calendar_values(ticks: NDArray[Any], unit: str, name: str) -> Floats:
    """The time of day in hours, or the day of the week, 0 for Monday, in UTC; `name` is one of `CALENDAR`."""
    day, rest = np.divmod(ticks, 86_400 * ticks_per_second(unit))
    return rest / (3_600.0 * ticks_per_second(unit)) if name == CALENDAR[0] else (day + 3.0) % 7.0


def _own_names(edges: TemporalEdges) -> list[str]:
    names = list(edges.feature_names)
    return names if edges.weight is None or WEIGHT in names else [*names, WEIGHT]


def _fit_column(edges: TemporalEdges, name: str, rows: Any) -> OwnColumn:
    x = raw_values(edges, name)[rows]
    x = x[np.isfinite(x)]
    if name in edges.feature_categories:
        every = edges.feature_categories[name]
        codes, counts = np.unique(x.astype(np.int64), return_counts=True)
        common = codes[sorted(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])].tolist()
        named = tuple(every[code] for code in common) or every[:MOST_CATEGORIES] or (None,)
        return OwnColumn(name, named, has_more=len(codes) > MOST_CATEGORIES, beside=("share",))
    if not x.size:
        return OwnColumn(name, (), beside=("mean", "deviation", "lately"))
    x = np.clip(x, -LARGEST, LARGEST)  # so that no difference overflows
    low, centre, high = np.quantile(x, QUARTILES).tolist()
    largest = np.abs(x).max() or 1.0
    spread = high - low or largest * (x / largest).std() or 1.0
    is_positive = x.min() >= 0.0 < low  # so that ratios have a meaning
    beside = ("mean", "deviation", "score", *(("ratio",) if is_positive else ()), "lately")
    return OwnColumn(name, (), centre, float(spread), beside=beside, highest=float((x.max() - centre) / spread))


def _numbers_of(edges: TemporalEdges, column: OwnColumn) -> Floats:
    x = raw_values(edges, column.name)
    if bool(column.categories) != (column.name in edges.feature_categories) and np.isfinite(x).any():
        kinds = ("numbers", "categories")[:: -1 if column.categories else 1]
        raise EdgesError(
            f"The feature {column.name!r} has {kinds[1]} here and had {kinds[0]} in the fitted edges. "
            "Pass it with the same type."
        )
    return column.numbers(category_places(edges, column) if column.categories else x)


def category_places(edges: TemporalEdges, column: OwnColumn) -> NDArray[np.int64]:
    """The position of each edge's category among those of a column; -1 if it is missing or not among them."""
    place = {id_key(category): k for k, category in enumerate(column.categories)}
    of_code = [place.get(id_key(category), -1) for category in edges.feature_categories.get(column.name, ())]
    x = raw_values(edges, column.name)
    return np.array([*of_code, -1], np.int64)[np.where(np.isfinite(x), x, len(of_code)).astype(np.int64)]
