"""The positive class: the class that probabilities, reasons and figures are about. One rule for the whole package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import ParameterError


def positive_class(classes: NDArray[Any], labels: NDArray[Any], given: Any = None) -> int:
    """The position of the positive class among the classes.

    It is the class that the caller gives. By default it is, of two numbers or booleans, the larger one (1, True); of two
    words the rarer one; and of more than two classes the rarest one. Of equally rare classes it is the last.

    Parameters
    ----------
    classes
        The classes, sorted.
    labels
        The labels of all edges, to count how rare each class is. Missing labels may be among them.
    given
        The positive class, where the caller chooses it. The text of a number stands for the number.

    Raises
    ------
    ParameterError
        If the given class is not one of the classes.

    Examples
    --------
    >>> labels = np.array([1, 1, 1, 0])
    >>> positive_class(np.array([0, 1]), labels), positive_class(np.array([0, 1]), labels, given=0)
    (1, 0)
    >>> positive_class(np.array(["fraud", "ok"]), np.array(["ok", "fraud", "ok"]))
    0
    """
    return positive_by_counts(classes, [int(np.count_nonzero(labels == value)) for value in classes.tolist()], given)


def positive_by_counts(classes: NDArray[Any], counts: Sequence[int], given: Any = None) -> int:
    """`positive_class`, given how often each class occurs."""
    listed = classes.tolist()
    if given is not None:
        return _place(listed, given)
    if len(listed) == 2 and not isinstance(listed[0], str):
        return 1
    return len(counts) - 1 - int(np.argmin(counts[::-1]))


def positive_of(model: Any, given: Any = None) -> int:
    """The position of a fitted classifier's positive class: the one given, its `positive_`, or by `positive_class`."""
    kept = getattr(model, "positive_", None)
    if given is None and kept in model.classes_.tolist():
        given = kept
    return positive_class(model.classes_, model.labels_, given)


def label_in_words(label: Any) -> str:
    """A label as it stands in a sentence; whole numbers without a fraction."""
    value = label.item() if isinstance(label, np.generic) else label
    return f"{value:g}" if isinstance(value, float) else str(value)


def refuse_positive(given: Any) -> None:
    """Refuse a class where the model predicts numbers."""
    if given is not None:
        raise ParameterError(
            f"The 'positive' class is for classifiers, and this is a regressor. Got {given!r}.",
            "Leave out positive=.",
            parameter="positive",
        )


def _place(listed: list[Any], given: Any) -> int:
    same = [k for k, value in enumerate(listed) if value == given]
    same += [k for k, value in enumerate(listed) if label_in_words(value) == label_in_words(given)]
    if not same:
        raise ParameterError(
            f"The 'positive' class must be one of the classes {listed}. Got {given!r} instead.", parameter="positive"
        )
    return same[0]


def probability_in_words(classes: Sequence[Any], positive: Any, label: str | None = None) -> str:
    """What the column "probability" is about; label : the name of the label, or a condition in brackets."""
    what = "the predicted class" if len(classes) != 2 else f"class {positive!r}"
    if label is not None and len(classes) == 2:
        what = label[1:-1] if label.startswith("(") else f"{label} = {positive}"
    return f'"probability" is the probability of {what}'
