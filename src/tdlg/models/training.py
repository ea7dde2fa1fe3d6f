"""How a propagation model learns: the setting, windows of time, the sample of rows, and the settings of the trees.

The same in memory and from a file. The setting and the windows depend on the times and classes of all rows, or of the kept
ones (`tdlg.tables.rows`), and each row is then chosen by its own time, class and number.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import _check_sample_weight, has_fit_parameter
from threadpoolctl import threadpool_limits

from tdlg.checks import as_generator, as_seed, check_choice
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, warn
from tdlg.memory import FEW_CELLS
from tdlg.tables.rows import Sample, quotas

Floats = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]
Setting = Literal["auto", "interpolate", "forecast", "stream"]

AFTER = 0.1  # "forecast" if at most this share of the known labels is later than the median unlabelled edge
LATEST = 0.05  # share of the latest known labels that are looked at for a missing class
UNLIKELY = 1e-4  # probability below which the latest labels do not lack a class by chance
COPIES, FEWEST_COPIES = 0.3, 100  # share and number of copies from which on a table was probably read twice
LOOKED_AT = 100_000  # edges that are looked at for copies

CUTS = (2 / 7, 3 / 7, 4 / 7, 5 / 7)  # "forecast" trains at these shares of the labelled edges, by time
HORIZON = 1 / 3  # rows to train on after a cut, as a share of the labelled edges: whatever the edges to score are
BURN_IN = 1 / 7  # share of the earliest labelled edges that "stream" does not train on: little happened before them

ROWS_TO_COMPARE = 60_000  # most rows that models which are compared learn from
INNER = 0.25  # share of the rows on which they are compared
ENOUGH_ROWS, ENOUGH_OF_CLASS = 1_000, 50  # in the inner part, for a comparison


# ---- the setting


def choose_setting(
    owner: str, setting: str, ticks: NDArray[Any], known: NDArray[np.bool_], late: bool
) -> tuple[str, str | None]:
    """The setting to use, and the reason for it; None if it was given.

    owner : the class that is fitted, for messages; ticks, known : the times of edges, and which have a known label;
    late : whether it is given when the labels became known.
    """
    check_choice(owner, "setting", setting, get_args(Setting))
    if late and setting == "interpolate":
        raise ParameterError(
            "The times at which labels became known are given, and the setting 'interpolate' does not use them.",
            "Use setting='stream' or 'forecast', or leave out label_time=.",
            parameter="setting",
        )
    if setting != "auto":
        return setting, None
    if late:
        return "stream", "the times at which labels became known are given"
    if known.all():
        return "forecast", "all edges are labelled, so the edges to score come later"
    times, missing = ticks[known], ticks[~known]
    first, last = times.min(), times.max()
    if missing.min() >= last > first:
        return "forecast", "all missing labels are after the known ones"
    if last > first and (times > np.median(missing)).mean() <= AFTER:
        return "forecast", "the missing labels are the latest"
    return "interpolate", "labels are missing here and there"


def check_two_classes(model: Any) -> None:
    """Refuse labels of a single class."""
    if len(model.classes_) < 2:
        raise EdgesError(
            f"The known labels have only 1 class, {model.classes_[0]!s}: {type(model).__name__} needs at least two."
        )


def warn_of_late_classes(ticks: NDArray[Any], codes: Codes, classes: NDArray[Any]) -> None:
    """Warn if the latest known labels lack a class that is too frequent for that to be chance: its labels may come later.

    ticks, codes : the times of edges, and their classes by position among all classes, below 0 where the label is missing.
    """
    ticks, codes = ticks[codes >= 0], codes[codes >= 0]
    n_latest = int(LATEST * len(ticks))
    if n_latest == 0:
        return
    is_latest = ticks >= np.partition(ticks, len(ticks) - n_latest)[len(ticks) - n_latest]  # with all at that time
    n_latest = int(is_latest.sum())
    shares = np.bincount(codes, minlength=len(classes)) / len(codes)
    counts = np.bincount(codes[is_latest], minlength=len(classes))
    for value, share, n in zip(classes, shares, counts, strict=True):
        if n == 0 and (1.0 - share) ** n_latest < UNLIKELY:
            warn(
                f"None of the latest {n_latest:,} known labels is {value}, although {share:.1%} of all known labels are: "
                "these labels probably become known later than others.",
                "Pass label_time= or label_delay=,",
                "or set labels that are not final to missing (NaN or None).",
            )
            return


def warn_of_copies(edges: TemporalEdges) -> None:
    """Warn if many edges equal another one in all but their label: a table may have been read twice."""
    every = max(len(edges) // LOOKED_AT, 1)
    some = edges if every == 1 else edges[edges.src_code % every == 0]  # copies have the same source
    values = [some.src_code, some.dst_code, some.ticks, *([] if some.features is None else some.features.T)]
    order = np.lexsort(values[::-1])
    same = [np.isclose(v[order][1:], v[order][:-1], rtol=0, atol=0, equal_nan=v.dtype.kind == "f") for v in values]
    n_copies = int(np.logical_and.reduce(same).sum())
    if n_copies >= FEWEST_COPIES and n_copies > COPIES * len(some):
        warn(
            f"{n_copies / len(some):.0%} of the edges are exact copies of others. If rows were read twice, drop the copies: "
            "they count as further interactions."
        )


# ---- windows and samples


class TrainingWindows(NamedTuple):
    """TrainingWindows of time whose labelled rows are learnt from, and the number of rows of each class in them.

    windows : samples of everything; counts : (n_windows, n_classes), estimated if they are those of the kept rows.
    """

    windows: tuple[Sample, ...]
    counts: Floats

    def samples(self, most: float) -> tuple[Sample, ...]:
        """The rows to learn from, about this number at most: of each window as many, and rare classes first.

        >>> TrainingWindows((Sample(),), np.array([[98.0, 2.0]])).samples(10)[0].shares
        (0.08163265306122448, 1.0)
        """
        each = most if self.counts.sum() <= most else most / len(self.windows)
        shares = [np.where(n > 0, quotas(n, each) / np.maximum(n, 1.0), 1.0) for n in self.counts]
        return tuple(w._replace(shares=tuple(s.tolist())) for w, s in zip(self.windows, shares, strict=True))


def training_windows(setting: str, ticks: NDArray[Any], codes: Codes, counts: NDArray[np.int64]) -> TrainingWindows:
    """From which times rows are learnt, and before which time the labels around them had to be known.

    ticks, codes : times of edges, all or the kept ones, and their classes, below 0 where the label is missing; counts : how
    many edges have a label of each class. If no window has a class, there is a window of all edges too.
    """
    ticks, codes = ticks[codes >= 0], codes[codes >= 0]
    by_time, n_known = np.sort(ticks), len(ticks)
    windows = [Sample()]
    if setting == "stream":
        windows = [Sample(by_time[int(BURN_IN * n_known)].item())]
    elif setting == "forecast":
        starts = [by_time[int(cut * n_known)].item() for cut in CUTS]
        stops = [by_time[min(int((cut + HORIZON) * n_known), n_known - 1)].item() for cut in CUTS]
        windows = [Sample(start, stop, start) for start, stop in zip(starts, stops, strict=True)]
    found = [np.bincount(codes[window.inside(ticks, codes)], minlength=len(counts)) for window in windows]
    of_class = np.bincount(codes, minlength=len(counts))
    if (np.sum(found, axis=0) == 0).any():
        others, counted = (windows, found) if setting == "forecast" else ([], [])
        windows, found = [*others, Sample()], [*counted, of_class]
    return TrainingWindows(tuple(windows), np.rint(np.array(found) * (counts / np.maximum(of_class, 1))))


def sampling_seed(random_state: Any) -> int:
    """A whole number for any random state: a seed is its own, and None is another one each time."""
    seed = as_seed(random_state)
    rng = as_generator(seed)  # refuses what is none
    return int(seed if isinstance(seed, int | np.integer) else rng.integers(2**31))


# ---- trees


FEWEST_TREES, MOST_TREES = 30, 200
ROWS_PER_TREE = 2  # of other classes than the commonest one, where they are few


def boosting_settings(n_rows: int, n_columns: int = 0, target: NDArray[Any] | None = None) -> dict[str, Any]:
    """Settings that suit noisy columns; with few rows, a leaf has at least a twentieth of them.

    There are 200 trees, or fewer where few rows have another class than the commonest one (`target`, if it has classes): 200
    trees learn 50 frauds by heart, and then give to new ones a fifth of the probability that they have.
    Each split chooses among 30 % of the columns; of more than 67 columns among 20, but among at least 10 %.
    """
    n_others = n_rows if target is None else n_rows - int(np.unique(target, return_counts=True)[1].max(initial=0))
    return {
        "max_iter": int(np.clip(n_others // ROWS_PER_TREE, FEWEST_TREES, MOST_TREES)),
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "min_samples_leaf": max(1, min(40, n_rows // 20)),
        "l2_regularization": 1.0,
        "max_features": float(np.clip(20 / max(n_columns, 1), 0.1, 0.3)),
        "early_stopping": False,
    }


def fit_trees(columns: NDArray[np.float64], target: NDArray[Any], seed: Any) -> Any:
    """The boosted trees of `PropagationClassifier`, with its bins and settings, on any columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from tdlg.models.trees import bin_columns, fit_boosting

    binned = bin_columns(columns, target, as_generator(seed), classes=True)
    settings = boosting_settings(len(target), 0, target) | {"random_state": seed}
    return fit_boosting(HistGradientBoostingClassifier, settings, binned, target)


class TrainingRows(NamedTuple):
    """Rows to learn from: columns, (n_rows, n_columns), labels, how much each counts (None: all the same), and times."""

    columns: NDArray[np.floating[Any]]  # single precision suffices
    target: NDArray[Any]
    weight: Floats | None
    ticks: NDArray[Any]

    def some(self, which: NDArray[Any]) -> TrainingRows:
        """Some of the rows."""
        columns, target, weight, ticks = self
        return TrainingRows(columns[which], target[which], None if weight is None else weight[which], ticks[which])


def medians(columns: NDArray[np.floating[Any]]) -> Floats:
    """The median of each column; NaN if a value is missing."""
    n = len(columns)
    places = [(n - 1) // 2, n // 2, n - 1]  # missing values come last
    low, high, last = np.array([np.partition(column, places)[places] for column in columns.T], np.float64).T
    return np.where(np.isnan(last), last, (low + high) / 2.0)


def is_clear(gain: Floats, weight: Floats | None) -> bool:
    """Whether the mean gain is more than two standard errors above 0."""
    weight = np.ones(len(gain)) if weight is None else weight
    mean = np.average(gain, weights=weight)
    error = np.sqrt((weight**2 * (gain - mean) ** 2).sum()) / weight.sum()
    return bool(mean > 2.0 * error)


def latest(ticks: NDArray[Any]) -> NDArray[np.bool_]:
    """The latest rows, on which what was learnt from the others is compared."""
    return np.asarray(ticks >= np.quantile(ticks, 1 - INNER))


def are_comparable(inner: NDArray[Any], outer: NDArray[Any]) -> bool:
    """Whether there are enough rows of each class to compare models by."""
    of_inner, of_outer = (np.unique(part, return_counts=True)[1] for part in (inner, outer))
    smallest = min(of_inner.min(initial=len(inner)), of_outer.min(initial=len(outer)))
    return len(of_inner) == len(of_outer) and len(inner) >= ENOUGH_ROWS and smallest >= ENOUGH_OF_CLASS


def fit_linear(
    estimator: Any, columns: NDArray[np.floating[Any]], target: NDArray[Any], weight: Floats | None = None
) -> Any:
    """Fit a linear model to scaled columns, each clipped to its range in training.

    Without clipping, a column that was nearly constant in training could outweigh all others.
    """
    member = make_pipeline(MinMaxScaler(clip=True), StandardScaler(), clone(estimator))
    with threadpool_limits(1 if columns.size <= FEW_CELLS else None, user_api="blas"):
        return member.fit(columns.astype(np.float64), target, **weights_for(member, weight))


def checked_weight(sample_weight: Any, rows: Any) -> Floats:
    """One weight per row, none below 0."""
    weight: Floats = _check_sample_weight(sample_weight, rows, dtype=np.float64)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ParameterError(
            f"The 'sample_weight' must not be negative. Got {weight[row]} in row {row} (counted from 0). Use 0 for an edge "
            "to ignore in training.",
            parameter="sample_weight",
        )
    return weight


def weights_for(member: Any, weight: Floats | None) -> dict[str, Floats]:
    """Sample weights as keyword arguments for the member's `fit`."""
    if weight is None:
        return {}
    name, last = member.steps[-1] if hasattr(member, "steps") else ("", member)
    if not has_fit_parameter(last, "sample_weight"):
        raise ParameterError(
            f"The estimator {type(last).__name__} does not support 'sample_weight'. Leave it out, or use another estimator.",
            parameter="sample_weight",
        )
    return {f"{name}__sample_weight" if name else "sample_weight": weight}
