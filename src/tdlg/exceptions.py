"""The errors and warnings of this package. Each message says what is wrong, shows the value and says what to do.

All errors are subclasses of `ValueError`, so that code which does not know this package can catch them. Hints say what to
do. They write a parameter as name='value', or name= where the user has to find the value, and Python code in backticks: the
command line rewrites the former as its options and leaves out hints with the latter.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound="TdlgError")


class _Message:
    """What errors and warnings share: the problem and what to do about it."""

    args: tuple[Any, ...]

    @property
    def problem(self) -> str:
        """What is wrong, without advice."""
        return str(self.args[0]) if self.args else ""

    @property
    def hint(self) -> str:
        """What to do, as far as it is not part of the problem."""
        return " ".join(map(str, self.args[1:]))

    def __str__(self) -> str:
        return " ".join(map(str, self.args))


class TdlgError(_Message, ValueError):
    """Base class of every error that this package raises deliberately.

    The attributes `problem`, `hint` (all hints in one text) and `parameter` have the same.

    Parameters
    ----------
    problem
        What is wrong, with the value, in words that do not depend on the front end.
    hints
        What to do, in sentences.
    parameter
        Name of the invalid parameter. None by default: the error is not about one parameter.

    Examples
    --------
    >>> error = TdlgError("There is no column 'x'.", "Pass src='a'.", parameter="src")
    >>> print(error)
    There is no column 'x'. Pass src='a'.
    >>> error.parameter, error.hint
    ('src', "Pass src='a'.")
    """

    parameter: str | None = None

    def __init__(self, problem: str = "", *hints: str, parameter: str | None = None) -> None:
        super().__init__(problem, *hints)
        if parameter is not None:
            self.parameter = parameter

    def as_kind(self, kind: type[Kind], problem: str) -> Kind:
        """The same parameter and hints as another kind of error, with another description of the problem."""
        return kind(problem, *self.args[1:], parameter=self.parameter)


class EdgesError(TdlgError):
    """The values are not valid temporal edges: wrong lengths, ids, times, labels or features.

    Attributes
    ----------
    row
        Position of the invalid row, counted from 0; None if the error is not about a single row.
    """

    row: int | None = None


class ReadError(TdlgError):
    """A file or table cannot be read as temporal edges: it is missing or damaged, or lacks the columns."""


class ParameterError(TdlgError):
    """A parameter has an invalid value."""


class TooLargeError(TdlgError):
    """The result would not fit in memory."""


class ClusterError(TdlgError):
    """A cluster was lost, or cannot be used: its scheduler is gone, it has no workers, or they have other versions."""


class TdlgWarning(_Message, UserWarning):
    """The result is probably not what the user wants. Like errors, a warning has a `problem` and a `hint`."""


def warn(problem: str, *hints: str, category: type[Warning] = TdlgWarning) -> None:
    """Warn with the line of the user's code that called this package, however deep the call is inside the package."""
    inside = {__name__.partition(".")[0], "sklearn"}  # which wraps methods of estimators
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    message = (
        category(problem, *hints) if issubclass(category, TdlgWarning) else category(str(TdlgWarning(problem, *hints)))
    )
    warnings.warn(message, stacklevel=level)
