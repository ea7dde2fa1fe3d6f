"""Labels: the words for missing labels, and the condition that turns values into two classes."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tdlg.cli.terminal import note
from tdlg.exceptions import EdgesError, ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tdlg.edges import TemporalEdges

__all__ = [
    "MOST_CLASSES",
    "as_two_numbers",
    "label_in_words",
    "labelled_edges",
    "labels_to_learn",
    "note_known_at_once",
    "plain_classes",
]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
EQUAL = ("==", "=", "!=")
MOST_CLASSES = 100
TRUTH = {"true": True, "false": False}


def labels_to_learn(
    edges: TemporalEdges, column: str, positive: str | None, missing: str | None
) -> tuple[TemporalEdges, Any]:
    """The edges with labels to fit, and the positive class; None without a condition.

    Parameters
    ----------
    edges, column, positive, missing
        See `labelled_edges`.
    """
    import numpy as np

    labelled, looked_for = _labelled(edges, column, positive, missing, True, None)
    known = plain_classes(np.asarray(labelled.label)[labelled.labelled])
    if len(set(known.tolist())) == 1:
        raise ParameterError(
            f"The known labels in the column {column!r} have only 1 class, {_few(known)}: there is nothing to classify. "
            "Give labels of at least two classes.",
            parameter="label",
        )
    return labelled, looked_for


def labelled_edges(
    edges: TemporalEdges,
    column: str,
    positive: str | None,
    missing: str | None,
    *,
    to_learn: bool = True,
    classes: tuple[Any, Any] | None = None,
) -> TemporalEdges:
    """The edges with the labels that --positive and --missing define.

    Parameters
    ----------
    edges
        The edges with the values of the label column as labels.
    column
        The name of the label column, for messages.
    positive
        A condition such as "> 0" or "fraud", which turns the values into two classes. Words and two different numbers
        keep their values; more numbers become 1 if the condition holds and 0 otherwise. By default the values are the
        classes.
    missing
        Additional words for a missing label, separated by commas.
    to_learn
        Whether the labels are for fitting, which requires known labels of at least two classes. True by default.
    classes
        The two classes of a fitted model: first the class where the condition does not hold, then the positive class.
    """
    return _labelled(edges, column, positive, missing, to_learn, classes)[0]


def _labelled(
    edges: TemporalEdges,
    column: str,
    positive: str | None,
    missing: str | None,
    to_learn: bool,
    classes: tuple[Any, Any] | None,
) -> tuple[TemporalEdges, Any]:
    import numpy as np

    from tdlg.tables.labels import without_words

    labels = without_words(np.asarray(edges.label), None if missing is None else missing.split(","))
    known = _with_label(edges, labels).labelled
    if not known.any():
        if not to_learn:
            return edges.with_label(None), None
        raise ParameterError(
            f"All labels in the column {column!r} are missing: there is nothing to learn from.",
            parameter="label",
        )
    if positive is None:
        if to_learn:
            _check_classes(labels[known], column)
        return edges.with_label(labels), None
    holds = np.asarray(_holds(labels[known], positive, column, to_learn), bool)
    if to_learn and (holds.all() or not holds.any()):
        which = "every" if holds.all() else "no"
        raise ParameterError(
            f"The condition {positive!r} holds for {which} known label of {column!r}: {_few(labels[known])}.",
            parameter="positive",
        )
    if classes is None:
        classes = _two_classes(labels[known], holds, positive)
    elif isinstance(classes[1], str):
        _check_same_condition(classes, positive)
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in classes)
    turned = np.full(len(edges), np.nan if are_numbers else None, float if are_numbers else object)
    turned[known] = np.array(classes, turned.dtype)[holds.astype(int)]
    return edges.with_label(turned), classes[1]


def _with_label(edges: TemporalEdges, labels: NDArray[Any]) -> TemporalEdges:
    """The edges with these labels; an error counts rows from 1, as the shell does."""
    from tdlg.tables.column import row_name

    try:
        return edges.with_label(labels)
    except EdgesError as error:
        if error.row is None:
            raise
        raise error.as_kind(
            ParameterError, error.problem.replace(row_name(error.row), f"row {error.row + 1}")
        ) from None


def note_known_at_once(edges: TemporalEdges) -> None:
    """Say that labels are taken as known at once, if it is not given when they became known.

    Parameters
    ----------
    edges
        Edges with labels.
    """
    if edges.label_ticks is None:
        note(
            "labels are taken as known at the time of their interaction; use --label-time or --label-delay if they arrive "
            "later"
        )


def _two_classes(known: NDArray[Any], holds: NDArray[np.bool_], positive: str) -> tuple[Any, Any]:
    """The names of the two classes, from the user's labels: condition does not hold, condition holds."""
    import numpy as np

    sign, text = _parsed(positive)
    if sign not in EQUAL:
        return 0, 1
    sides = [plain_classes(np.unique(known[mask])).tolist() for mask in (~holds, holds)]
    are_plain = all(len(values) == 1 and not isinstance(values[0], float) for values in sides)
    if not are_plain and not isinstance(known[0], str):
        return 0, 1
    without, with_it = (values[0] if len(values) == 1 else f"not {text}" for values in sides)
    return without, with_it


def _check_same_condition(classes: tuple[Any, Any], positive: str) -> None:
    """Refuse a condition on words that differs from the condition of the model."""
    sign, text = _parsed(positive)
    if sign not in EQUAL or [OPERATORS[sign](word, text) for word in classes] != [False, True]:
        raise ParameterError(
            f"The positive class of the model is {classes[1]!r}, but --positive {positive!r} is another condition. "
            "Pass the same --positive as to classify, or leave it out.",
            parameter="positive",
        )


def label_in_words(column: str, positive: str | None, looked_for: Any = None) -> str:
    """The name of the label for display: the column, or the condition if labels are 1 where it holds.

    Examples
    --------
    >>> label_in_words("is_fraud", None), label_in_words("kind", "fraud", "fraud"), label_in_words("stars", ">3", 1)
    ('is_fraud', 'kind', '(stars > 3)')
    """
    if positive is None:
        return column
    sign, text = _parsed(positive)
    is_value = sign in EQUAL and (isinstance(looked_for, str) or str(looked_for) == text)
    return column if is_value else f"({column} {sign} {text})"


def as_two_numbers(edges: TemporalEdges, looked_for: Any = None) -> tuple[TemporalEdges, Any]:
    """Two classes as 0 and 1, and the positive class; more classes unchanged, and None.

    Parameters
    ----------
    edges
        Edges with labels.
    looked_for
        The positive class given by --positive; chosen by default.
    """
    import numpy as np

    from tdlg.explain.positive import positive_class

    labels = np.asarray(edges.label)
    classes = np.unique(labels[edges.labelled])
    if len(classes) != 2:
        return edges, None
    place = positive_class(classes, labels, looked_for)
    is_positive = np.where(edges.labelled, labels == classes[place], np.nan)
    return edges.with_label(is_positive), plain_classes(classes).tolist()[place]


def plain_classes(values: NDArray[Any]) -> NDArray[Any]:
    """Floats that are whole numbers as integers; they are floats only because of missing labels."""
    from tdlg.tables.labels import plain_classes  # which loads numpy

    return plain_classes(values)


def _check_classes(known: NDArray[Any], column: str) -> None:
    import numpy as np

    way_out = "Give the positive class, for example --positive '> 0'."
    if known.dtype.kind == "f" and (known % 1 != 0).any():
        raise ParameterError(
            f"The column {column!r} has numbers that are not classes: {_few(known)}. {way_out}",
            parameter="label",
        )
    n_classes = len(np.unique(known.astype(str)))
    if n_classes > MOST_CLASSES:
        raise ParameterError(
            f"The column {column!r} has {n_classes:,} different values: {_few(known)}. {way_out}",
            parameter="label",
        )


def _holds(known: NDArray[Any], positive: str, column: str, to_learn: bool) -> Any:
    """Whether the condition holds for each known label."""
    sign, text = _parsed(positive)
    if known.dtype.kind == "O" and all(isinstance(value, bool) for value in known):
        known = known.astype(bool)  # objects, because some labels are missing
    if known.dtype.kind == "b":
        if text.lower() not in TRUTH or sign not in EQUAL:
            raise ParameterError(
                f"The labels of {column!r} are true or false. Give --positive true or false. Got {positive!r} instead.",
                parameter="positive",
            )
        return OPERATORS[sign](known, TRUTH[text.lower()])
    if known.dtype.kind in "iuf":
        if not _is_number(text):
            raise ParameterError(
                f"The labels of {column!r} are numbers: {_few(known)}. {text!r} in --positive is not a number.",
                parameter="positive",
            )
        return OPERATORS[sign](known, float(text))
    if sign not in EQUAL:
        raise ParameterError(
            f"The labels of {column!r} are words: {_few(known)}. {positive!r} compares numbers. Give one of the words, "
            f"such as --positive {_shown(known[0])}.",
            parameter="positive",
        )
    if to_learn and not (known == text).any():
        raise ParameterError(f"No known label of {column!r} is {text!r}. They are {_few(known)}.", parameter="positive")
    return OPERATORS[sign](known, text)


def _parsed(positive: str) -> tuple[str, str]:
    """The operator and the value of a condition.

    Examples
    --------
    >>> _parsed(">= 0.5"), _parsed("fraud")
    (('>=', '0.5'), ('==', 'fraud'))
    """
    found = re.fullmatch(r"\s*(>=|<=|==|!=|>|<|=)?\s*(.*?)\s*", positive, re.DOTALL)
    if found is None or not found[2]:
        raise ParameterError(
            f"--positive must be a value or a condition such as '> 0'. Got {positive!r} instead.",
            parameter="positive",
        )
    return found[1] or "==", found[2]


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _few(known: NDArray[Any]) -> str:
    """Some of the values, for example "'fair', 'fraud'" or "-10, -9, ... 10"."""
    import numpy as np

    values = [_shown(value) for value in np.unique(known).tolist()]
    return ", ".join(values if len(values) <= 6 else [*values[:4], "...", values[-1]])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)
