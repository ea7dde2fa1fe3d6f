"""The protocol of the Fraud Detection Handbook: weeks of card payments, three metrics, the book's columns, and methods.

A method is a function that takes a `Week` and gives one score per test row. `METHODS` names them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from time import process_time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from tdlg.edges import TemporalEdges
from tdlg.models.propagation import PropagationClassifier
from tdlg.models.training import boosting_settings, fit_trees
from tdlg.propagate.features import PropagationFeatures

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Times = NDArray[np.datetime64]
Columns: TypeAlias = Callable[[TemporalEdges], Floats]

DAY = np.timedelta64(1, "D")
TRAIN, DELAY, TEST = 7, 7, 7  # days
STARTS = tuple(np.datetime64("2018-07-25") + shift * DAY for shift in (0, 7, 14, 21))  # of the book's training days
FOLDS = range(len(STARTS))
DAYS = (37, 60, 90, None)  # of payments, those of the delay and the test included; None: all
WINDOWS = (1, 7, 30)  # days
WEEKEND = 5  # Saturday, counted from Monday = 0
NIGHT = 6  # last hour of the night
CARDS = 100  # customers that are looked at per day
BATCH = 128  # payments that are given at once, since the preprocessor sees the whole batch of a payment
OFF = ("degree", "scatter-gather", "temp-cycle", "lc-cycle")  # which say nothing in a network of two kinds of nodes


@dataclass(frozen=True)
class Week:
    """One fold as a method sees it: payments up to the end of the test days, by time; without the labels of these days.

    A model is trained on labels known at the start of the test days; columns of a test row may use labels that become known
    before that row.
    """

    edges: TemporalEdges
    label_time: Times  # when each label becomes known: seven days after the payment
    start: np.datetime64  # of the test days
    test: Positions  # of the rows to score

    def known(self, days: int | None = None) -> Positions:
        """Positions of the payments whose label is known at the start, by default all, or of the last `days` days."""
        end = self.start - DELAY * DAY
        first = self.edges.time.min() if days is None else end - days * DAY
        return np.flatnonzero((self.edges.time >= first) & (self.edges.time < end))


@dataclass(frozen=True)
class Method:
    """A method of the comparison."""

    score: Callable[
        [Week], tuple[Floats, float]
    ]  # of test rows, and the CPU seconds of making the columns, NaN if unknown
    choices: str  # what was chosen by looking at this data set
    needs: str | None = None  # a package that must be installed

    @property
    def is_possible(self) -> bool:
        """Whether the package that it needs is installed."""
        return self.needs is None or find_spec(self.needs) is not None


# ---- folds


def week(edges: TemporalEdges, fold: int, days: int | None = None) -> tuple[Week, NDArray[np.int64]]:
    """Give a fold of the book's protocol, and the labels of its test rows, which are the same for any number of days."""
    start = STARTS[fold] + (TRAIN + DELAY) * DAY
    end = start + TEST * DAY
    before = edges[: int(np.searchsorted(edges.time, end))]
    test = _test_rows(before, STARTS[fold])
    label: NDArray[Any] = np.asarray(before.label)
    known = before.with_label(np.where(before.time < start, label, np.nan))
    label_time: Times = (before.time + DELAY * DAY).astype("datetime64[s]")
    first = 0 if days is None else int(np.searchsorted(edges.time, end - days * DAY))
    return Week(known[first:], label_time[first:], start, test - first), label[test]


def _test_rows(edges: TemporalEdges, start: np.datetime64) -> Positions:
    """The rows of the test days without customers known as defrauded: in training, or on a day of the delay so far."""
    day = ((edges.time - start) // DAY).astype(np.int64)
    fraud = np.asarray(edges.label) > 0
    kept = []
    for k in range(TEST):
        known = np.unique(edges.src[fraud & (day >= 0) & (day < TRAIN + k)])  # up to day TRAIN + k - 1
        today = np.flatnonzero(day == TRAIN + DELAY + k)
        kept.append(today[~np.isin(edges.src[today], known)])
    return np.concatenate(kept)


# ---- metrics


def measures(week: Week, label: NDArray[Any], score: Floats) -> dict[str, float]:
    """AUC, average precision and card precision of the scores of the test rows."""
    day = ((week.edges.time[week.test] - week.start) // DAY).astype(np.int64)
    return {
        "auc": float(roc_auc_score(label, score)),
        "average_precision": float(average_precision_score(label, score)),
        "card_precision": card_precision(week.edges.src[week.test], day, label, score),
    }


def card_precision(customer: NDArray[Any], day: Positions, label: NDArray[Any], score: Floats, k: int = CARDS) -> float:
    """Compute the share of defrauded customers among the k with the highest score of a day, as a mean over the days.

    A customer found on a day leaves the later days.

    Examples
    --------
    >>> import numpy as np
    >>> customer, day, label = np.array(["a", "a", "b", "c"]), np.array([0, 1, 1, 1]), np.array([1, 1, 1, 0])
    >>> card_precision(customer, day, label, score=np.array([0.9, 0.9, 0.1, 0.2]), k=1)  # finds a, then c instead of b
    0.5
    """
    found: list[Any] = []
    shares = []
    for today in np.unique(day):
        rows = np.flatnonzero((day == today) & ~np.isin(customer, found))
        names, code = np.unique(customer[rows], return_inverse=True)
        highest, defrauded = np.full(len(names), -np.inf), np.zeros(len(names), bool)
        np.maximum.at(highest, code, score[rows])
        np.logical_or.at(defrauded, code, label[rows] > 0)
        top = np.argsort(-highest, kind="stable")[:k]
        caught = names[top][defrauded[top]]
        shares.append(len(caught) / k)
        found.extend(caught)
    return float(np.mean(shares))


# ---- the book's columns


def book_columns(edges: TemporalEdges) -> Floats:
    """Make the book's 15 columns: of the payment, of its customer, and of its terminal.

    These are the amount, weekend, night; number and mean amount of the customer's payments in the last 1, 7 and 30 days,
    with the payment itself; and number and fraud rate of the terminal's payments in the 1, 7 and 30 days that ended seven
    days ago.
    """
    seconds = edges.time.astype("datetime64[s]").astype(np.int64)
    amount = np.asarray(edges.features, float)[:, edges.feature_names.index("amount")]
    weekday, hour = (seconds // 86400 + 3) % 7, seconds // 3600 % 24  # 1970-01-01 was a Thursday
    columns = [amount, weekday >= WEEKEND, hour <= NIGHT]
    customer = _Windows(edges.src_code, seconds)
    for days in WINDOWS:
        count, total = customer.sums(amount, days, 0)
        columns += [count, total / np.maximum(count, 1)]
    terminal, fraud = _Windows(edges.dst_code, seconds), np.nan_to_num(np.asarray(edges.label, float))
    for days in WINDOWS:
        count, frauds = terminal.sums(fraud, DELAY + days, DELAY)
        columns += [count, frauds / np.maximum(count, 1)]
    return np.column_stack(columns).astype(np.float64)


def pandas_columns(edges: TemporalEdges) -> Floats:
    """Make the same columns with the rolling windows of pandas."""
    import pandas as pd

    amount = np.asarray(edges.features)[:, edges.feature_names.index("amount")]
    fraud = np.nan_to_num(np.asarray(edges.label, float))
    time = edges.time.astype("datetime64[ns]")
    table = pd.DataFrame({"src": edges.src, "dst": edges.dst, "time": time, "amount": amount, "fraud": fraud})
    columns = [amount, table.time.dt.day_of_week >= WEEKEND, table.time.dt.hour <= NIGHT]
    for days in WINDOWS:
        count, total = _rolled(table, "src", "amount", days)
        columns += [count, total / np.maximum(count, 1)]
    early, early_frauds = _rolled(table, "dst", "fraud", DELAY)
    for days in WINDOWS:
        count, frauds = _rolled(table, "dst", "fraud", DELAY + days)
        columns += [count - early, (frauds - early_frauds) / np.maximum(count - early, 1)]
    return np.column_stack(columns).astype(np.float64)


def _rolled(table: Any, key: str, value: str, days: int) -> tuple[Floats, Floats]:
    """Number and sum of the values of a key's last days, the row itself included, in the order of the rows."""
    windows = table.groupby(key).rolling(f"{days}D", on="time")[value]  # in the order of the keys
    count, total = np.empty((2, len(table)))
    order = np.argsort(table[key].to_numpy(), kind="stable")
    count[order], total[order] = windows.count().to_numpy(), windows.sum().to_numpy()
    return count, total


class _Windows:
    """Sums over the earlier payments of the same key, within windows of days."""

    def __init__(self, key: NDArray[Any], seconds: NDArray[np.int64]) -> None:
        self.order = np.argsort(key, kind="stable")  # and by time, since the payments are
        self.since = seconds[self.order] - seconds.min() + 1
        self.base = key[self.order].astype(np.int64) * (4 * int(self.since.max()))  # keys do not overlap
        self.moments = self.base + self.since

    def sums(self, value: Floats, first: int, last: int) -> tuple[Floats, Floats]:
        """Number of payments, and sum of their values, more than `last` and less than `first` days ago.

        If `last` is 0, the payment itself is included.
        """
        total = np.concatenate([[0.0], np.cumsum(value[self.order])])
        begin = self._first_after(first)
        end = self._first_after(last) if last else np.arange(1, len(self.order) + 1)
        count, sums = np.empty((2, len(self.order)))
        count[self.order], sums[self.order] = end - begin, total[end] - total[begin]
        return count, sums

    def _first_after(self, days: int) -> Positions:
        ago = np.maximum(self.since - days * 86400, 0)
        return np.searchsorted(self.moments, self.base + ago, side="right")


# ---- the columns of snapml's GraphFeaturePreprocessor


def graph_columns(edges: TemporalEdges) -> NDArray[np.float64]:
    """Statistics of the amounts, times and neighbours of both ends, and fans, in windows of 1, 7 and 30 days."""
    table = graph_table(edges)
    batches = [np.ascontiguousarray(table[first : first + BATCH]) for first in range(0, len(table), BATCH)]
    windows = []
    for days in WINDOWS:
        preprocessor = graph_preprocessor(days * 86_400)
        windows.append(np.vstack([preprocessor.transform(batch)[:, 4:] for batch in batches]))
    return np.hstack(windows)


def graph_table(edges: TemporalEdges) -> NDArray[np.float64]:
    """Payments as the preprocessor takes them: number, source, destination, seconds and amount."""
    time = edges.time.astype("datetime64[s]").astype(float)
    ends = edges.src_code, edges.dst_code + (edges.n_src_nodes or 0)
    amount: NDArray[Any] = np.asarray(edges.features, float)[:, edges.feature_names.index("amount")]
    return np.column_stack([np.arange(len(edges)), *ends, time - time[0], amount]).astype(float)


def graph_preprocessor(seconds: int) -> Any:
    """The preprocessor with one window of this many seconds, on one thread."""
    with warnings.catch_warnings():  # it warns of a newer numpy
        warnings.simplefilter("ignore")
        from snapml import GraphFeaturePreprocessor

        preprocessor = GraphFeaturePreprocessor()
    windows = dict.fromkeys(("time_window", "vertex_stats_tw", "fan_tw"), seconds)
    settings = {**preprocessor.get_params(), **dict.fromkeys(OFF, False), **windows}
    preprocessor.set_params({**settings, "vertex_stats_cols": [3, 4], "num_threads": 1})
    return preprocessor


# ---- methods


def on_columns(
    days: int | None, learner: Callable[[Floats, NDArray[Any]], Any], make: Columns
) -> Callable[[Week], tuple[Floats, float]]:
    """Columns of the last days before the delay, under a learner."""

    def score(week: Week) -> tuple[Floats, float]:
        clock = process_time()
        columns = make(week.edges)
        seconds = process_time() - clock
        rows = week.known(days)
        model = learner(columns[rows], np.asarray(week.edges.label)[rows].astype(int))
        return model.predict_proba(columns[week.test])[:, 1], seconds

    return score


def our_boosting(columns: Floats, target: NDArray[Any]) -> Any:
    """The boosted trees of `PropagationClassifier`, with its bins."""
    return fit_trees(columns, target, 0)


def lightgbm(columns: Floats, target: NDArray[Any]) -> Any:
    """LightGBM with the same number, size and regularisation of the trees as `our_boosting`."""
    from lightgbm import LGBMClassifier

    ours = boosting_settings(len(columns))
    model = LGBMClassifier(
        n_estimators=ours["max_iter"],
        learning_rate=ours["learning_rate"],
        num_leaves=ours["max_leaf_nodes"],
        min_child_samples=ours["min_samples_leaf"],
        reg_lambda=ours["l2_regularization"],
        feature_fraction_bynode=ours["max_features"],
        random_state=0,
        verbose=-1,
    )
    return model.fit(columns, target)


def stream(week: Week) -> tuple[Floats, float]:
    """`PropagationClassifier` as a stream: all labels known at the start train it, later ones count when they come."""
    score, clock = _streamed(week), process_time()
    PropagationFeatures(past_only=True).fit(week.edges).transform(week.edges)
    return score, process_time() - clock


def _streamed(week: Week) -> Floats:
    rows, later = week.known(), np.flatnonzero(week.edges.time >= week.start - DELAY * DAY)
    model = PropagationClassifier(calendar=True, random_state=0)
    model.fit(week.edges[rows], label_delay=f"{DELAY}d")
    return np.asarray(model.predict_proba(week.edges[later])[:, 1])[week.test - later[0]]


PANDAS = "columns in pandas"
OURS = "ours: PropagationClassifier, stream, all days"
BOTH = "none; 7 and 30 days are both shown"
METHODS = {
    "the book's columns, our boosting, 7 days": Method(on_columns(7, our_boosting, book_columns), "none"),
    "the book's columns, our boosting, 30 days": Method(on_columns(30, our_boosting, book_columns), BOTH),
    "the book's columns, LightGBM, 7 days": Method(on_columns(7, lightgbm, book_columns), "none", "lightgbm"),
    "the book's columns, LightGBM, 30 days": Method(on_columns(30, lightgbm, book_columns), BOTH, "lightgbm"),
    "snapml's graph features, our boosting, 30 days": Method(
        on_columns(30, our_boosting, graph_columns), "none", "snapml"
    ),
    OURS: Method(
        stream,
        "which columns compare amounts and how late labels decay, looking at the first fold; bins of trees and columns "
        "of the unusual, looking at the first and the third fold",
    ),
}
BY_DAYS = {  # methods that all see the same days
    "the book's columns, our boosting": Method(on_columns(None, our_boosting, book_columns), "none"),
    "the book's columns, LightGBM": Method(on_columns(None, lightgbm, book_columns), "none", "lightgbm"),
    "ours: PropagationClassifier, stream": Method(lambda week: (_streamed(week), np.nan), "as above"),
}


def last_days(days: int | None) -> str:
    """A number of days in words."""
    return "all days" if days is None else f"last {days} days"
