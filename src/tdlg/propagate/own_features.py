"""An edge's own features and weight as numbers that can be averaged: scaled amounts, and indicators of categories."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.tables.ids import id_key

Floats = NDArray[np.float64]

MOST_CATEGORIES = 16  # maximum number of indicators per column
LARGEST = 1e140  # larger scaled amounts are clipped, so that sums of their squares are finite
LEAST_AMOUNT = 1e-3  # smaller amounts are taken as this share of the median in ratios
WEIGHT = "weight"
QUARTILES = (0.25, 0.5, 0.75)
CALENDAR = ("hour of day", "day of week")


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


def fit_own(
    edges: TemporalEdges, calendar: bool = False, as_is: Sequence[str] = (), rows: Any = slice(None)
) -> list[OwnColumn]:
    """Determine centres, spreads and categories from the features and weights of edges.

    calendar : whether the time of day and the day of the week are features too; as_is : names of numeric features that are
    neither scaled nor compared with those around; rows : the positions of the edges that count, by default all.
    """
    if calendar and edges.time_unit is None:
        raise ParameterError(
            "The 'calendar' parameter needs times that are datetimes, and these are numbers.",
            "Pass datetimes, or leave out calendar=.",
            parameter="calendar",
        )
    unknown = [name for name in as_is if name not in edges.feature_names or name in edges.feature_categories]
    if unknown:
        raise ParameterError(
            f"The 'as_is' parameter must name numeric features of the edges. Got {unknown[0]!r} instead; "
            f"the features are {list(edges.feature_names)}.",
            parameter="as_is",
        )
    columns = [OwnColumn(name, ()) if name in as_is else _fit_column(edges, name, rows) for name in _names(edges)]
    return columns + [OwnColumn(name, ()) for name in (CALENDAR if calendar else ())]


def own_values(edges: TemporalEdges, columns: Sequence[OwnColumn]) -> Floats:
    """The numbers, (n_edges, sum of widths); NaN where an amount is missing."""
    there = {*_names(edges), *CALENDAR}
    missing = [column.name for column in columns if column.name not in there]
    if missing:
        features = [column.name for column in columns if column.name != WEIGHT]
        raise EdgesError(
            f"The edges lack {', '.join(map(repr, missing))}, which the fitted edges have.",
            "Pass weight=." if missing == [WEIGHT] else f"Pass features={features!r}.",
        )
    return np.hstack([np.empty((len(edges), 0)), *(_values(edges, column) for column in columns)])


class CategoryNumbers(dict[Hashable, int]):
    """The codes of categories by `tdlg.tables.ids.id_key`. A new category gets one when it is looked up; free ones first.

    >>> numbers = CategoryNumbers({"a": 0, "b": 1})
    >>> numbers["c"], numbers["a"]
    (2, 0)
    >>> numbers.forget(np.array([True, False, True]))
    >>> numbers["d"]
    1
    """

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
    found, first = [np.empty((len(own), 0))], 0
    for column in columns:
        if column.is_scaled:
            x = np.minimum(own[:, first], column.highest)
            if "ratio" in column.beside:
                zero, least = smallest_amounts(column)
                x = np.log(np.maximum(x - zero, least) / -zero)
            else:
                x = np.arcsinh(x)
            found.append(x[:, np.newaxis])
        first += column.width
    return np.hstack(found)


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


def _names(edges: TemporalEdges) -> list[str]:
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


def _values(edges: TemporalEdges, column: OwnColumn) -> Floats:
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
