"""The errors and warnings of this package. Each message says what is wrong, shows the value and says what to do.

All errors are subclasses of `ValueError`, so that code which does not know this package can catch them.
"""

import sys
import warnings

__all__ = ["EdgesError", "ParameterError", "ReadError", "TdlgError", "TdlgWarning", "TooLargeError", "warn"]


class TdlgError(ValueError):
    """Base class of every error that this package raises deliberately."""


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


class TdlgWarning(UserWarning):
    """The result is probably not what the user wants."""


def warn(message: str, category: type[Warning] = TdlgWarning) -> None:
    """Warn with the line of the user's code that called this package, however deep the call is inside the package."""
    inside = {__name__.partition(".")[0], "sklearn"}  # which wraps methods of estimators
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
