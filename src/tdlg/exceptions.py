"""The errors of this package: each names what is wrong, shows the value and gives the way out.

All are `ValueError`s, so that code which knows nothing of this package still catches them.
"""

__all__ = ["EdgesError", "ParameterError", "ReadError", "TdlgError", "TooLargeError"]


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
