"""Which columns of a table are used as features where the user names none, and why the others are not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import EdgesError, warn
from tdlg.tables.column import as_column, nulls
from tdlg.tables.features import as_features
from tdlg.tables.labels import as_labels, known
from tdlg.tables.times import as_times

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ID_NAME", "MANY_WORDS", "Choice", "choose_features", "revealing"]

MANY_WORDS = 100  # different words of a column; with more, it is an id or free text rather than a category
ID_NAME = re.compile(r"(?i:(.*[ _.-])?(id|uuid|guid|key|reference|number))|\w+(Id|ID)")
FEWEST_OF_CLASS = 20  # labels of each class, with fewer of which a column may separate them by chance
REVEALING_AUC = 0.999  # of a single column


class Choice(NamedTuple):
    """features : positions of the columns to use; left_out : for each other column, by its position, why it is not used."""

    features: list[int]
    left_out: dict[int, str]


def choose_features(columns: Mapping[int, Any], names: Sequence[str], label: Any = None) -> Choice:
    """Take columns of numbers, of truth values and of few different words; no ids, dates, constants and free text.

    columns : the columns that have no other role, by position; names : those of all columns of the table; label : the column
    of labels, by which columns that give it away are left out, with a warning.

    Examples
    --------
    >>> columns = {2: [5.0, 7.5, 9.0], 3: ["cash", "card", "card"], 4: ["2020-01-01", "2020-01-02", None]}
    >>> choose_features(columns, ["src", "dst", "amount", "kind", "booked"])
    Choice(features=[2, 3], left_out={4: 'dates'})
    """
    found = {at: _why_not(column, names[at]) for at, column in columns.items()}
    if label is not None:
        try:
            labels = as_labels(label)
        except EdgesError:  # which the caller finds and explains
            return Choice([], {})
        is_known = known(labels)
        for at in [at for at, why in found.items() if why is None]:
            features = as_features({names[at]: columns[at]})
            assert features is not None
            found[at] = revealing(features.matrix[:, 0], labels, is_known)
            if found[at] is not None:
                warn(
                    f"The column {names[at]!r} is not used as a feature: {found[at]}, so it is probably not known when a "
                    "row is scored.",
                    "Pass features= with the names of all features to use it.",
                )
    return Choice([at for at, why in found.items() if why is None], {at: why for at, why in found.items() if why})


def _why_not(values: Any, name: str) -> str | None:
    """Why a column is not a feature; None if it is one."""
    try:
        column = as_column(values, name)
    except EdgesError:
        return "neither numbers nor text"
    if not isinstance(column, np.ndarray):
        return _why_not_words(column.drop_nulls())
    column = column[~nulls(column)]
    if not len(column):
        return "empty"
    if column.dtype.kind in "mM":
        return "dates"
    if column.dtype.kind not in "iufb":
        return "neither numbers nor text"
    if (column == column[0]).all():
        return "the same in every row"
    is_counter = column.dtype.kind in "iu" and len(column) >= MANY_WORDS and bool((np.diff(column) > 0).all())
    if is_counter or (column.dtype.kind in "iu" and ID_NAME.fullmatch(name) is not None):
        return "an id"
    return None


def _why_not_words(words: pl.Series) -> str | None:
    distinct = words.unique()
    if len(distinct) <= 1:
        return "the same in every row" if len(distinct) else "empty"
    if _are_dates(distinct):
        return "dates"
    if len(distinct) == len(words) and len(words) > MANY_WORDS:
        return "different in every row"
    return f"text with {len(distinct):,} different values" if len(distinct) > MANY_WORDS else None


def _are_dates(words: pl.Series) -> bool:
    try:
        return as_times(words.head(1000).to_list())[1] is not None
    except EdgesError:
        return False


def revealing(values: NDArray[np.floating[Any]], label: NDArray[Any], is_known: NDArray[np.bool_]) -> str | None:
    """Why a feature gives the label away; None if it does not. Only rows with a known label are looked at for its values.

    values : numbers, or codes of categories; label : labels, of which those that `is_known` marks count.
    """
    is_there = np.isfinite(values)
    if not is_known.all() and is_known.any() and np.array_equal(is_there, is_known):
        return "it is known only where the label is"
    classes, code, count = np.unique(label[is_known & is_there], return_inverse=True, return_counts=True)
    if len(classes) < 2 or count.min() < FEWEST_OF_CLASS:
        return None
    from scipy.stats import rankdata

    rank = rankdata(values[is_known & is_there])
    for k, n in enumerate(count if len(classes) > 2 else count[:1]):
        area = (rank[code == k].sum() - n * (n + 1) / 2) / (n * (len(code) - n))
        if max(area, 1.0 - area) > REVEALING_AUC:
            return f"it tells {classes[k]!s} from all other labels by itself"
    return None
