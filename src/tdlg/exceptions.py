"""The errors and warnings of this package: each names what is wrong, shows the value and gives the way out.

All errors are `ValueError`s, so that code which knows nothing of this package still catches them.
"""

import sys
import warnings

__all__ = ["EdgesError", "ParameterError", "ReadError", "TdlgError", "TdlgWarning", "TooLargeError", "warn"]


class TdlgError(ValueError):
    """The root of every error that this package raises on purpose."""


class EdgesError(TdlgError):
    """The values given do not make temporal edges: lengths, ids, times, labels, features.

    Attributes
    ----------
    row
        Position of the row that is wrong, counted from 0; None where it is not one row.
    """

    row: int | None = None


class ReadError(TdlgError):
    """A file or table cannot be read as temporal edges: missing, damaged, without the columns."""


class ParameterError(TdlgError):
    """A parameter has a value that it cannot have."""


class TooLargeError(TdlgError):
    """The result would not fit in memory."""


class TdlgWarning(UserWarning):
    """The answer is probably not what the user wants to know."""


def warn(message: str, category: type[Warning] = TdlgWarning) -> None:
    """Warn at the line of the user's code that called this package, however deep the call is inside the package."""
    package = __name__.partition(".")[0]
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
