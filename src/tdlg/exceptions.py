"""The errors and warnings of this package. Each message says what is wrong, shows the value and says what to do.

All errors are subclasses of `ValueError`, so that code which does not know this package can catch them. What to do is a
`Hint`: it names parameters without the syntax of a language, so that the command line can write them as options.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

__all__ = [
    "ClusterError",
    "EdgesError",
    "Hint",
    "ParameterError",
    "ReadError",
    "TdlgError",
    "TdlgWarning",
    "TooLargeError",
    "warn",
]

Wording: TypeAlias = Callable[[str, Any], str | None]  # name and value of a parameter -> text; None: no such parameter
Kind = TypeVar("Kind", bound="TdlgError")


class Hint:
    """Advice that names parameters; each front end chooses how they are written.

    Parameters
    ----------
    text
        The advice, with the name of a parameter in braces for each place where the parameter is written; empty braces take
        the parameters in their order. It is a constant: values of the user's data are passed as `arguments`.
    arguments
        The value of each parameter, `...` if the user has to find it. The name `code` is for Python code, which other front
        ends leave out.

    Examples
    --------
    >>> str(Hint("Pass {src}, or another.", src="a")), str(Hint("Correct {separator}.", separator=...))
    ("Pass src='a', or another.", 'Correct separator=.')
    >>> Hint("Pass {src}, or another.", src="a").worded(lambda name, value: f"--{name} {value}")
    'Pass --src a, or another.'
    """

    def __init__(self, text: str, **arguments: Any) -> None:
        self.text = text
        self.arguments = arguments

    def worded(self, wording: Wording) -> str | None:
        """The advice with each parameter in the words of a front end; None if it lacks one of them."""
        words = {name: wording(name, value) for name, value in self.arguments.items()}
        return None if None in words.values() else self.text.format(*words.values(), **words)

    def __str__(self) -> str:
        return str(self.worded(_in_python))

    def __repr__(self) -> str:
        return f"Hint({str(self)!r})"


def _in_python(name: str, value: Any) -> str:
    return str(value) if name == "code" else f"{name}=" if value is ... else f"{name}={value!r}"


class _Message:
    """What errors and warnings share: the problem and what to do about it."""

    args: tuple[Any, ...]

    @property
    def problem(self) -> str:
        """What is wrong, without advice."""
        return str(self.args[0]) if self.args else ""

    @property
    def hint(self) -> str:
        """What to do, with parameters written as in Python; empty if there is no advice apart from the problem."""
        return " ".join(map(str, self.args[1:]))

    def worded(self, wording: Wording) -> str:
        """The message with parameters in the words of a front end, without hints on parameters that it lacks."""
        hints = (hint.worded(wording) if isinstance(hint, Hint) else hint for hint in self.args[1:])
        return " ".join([self.problem, *filter(None, hints)])

    def __str__(self) -> str:
        return self.worded(_in_python)


class TdlgError(_Message, ValueError):
    """Base class of every error that this package raises deliberately.

    Parameters
    ----------
    problem
        What is wrong, with the value, in words that do not depend on the front end.
    hints
        What to do: plain sentences, or a `Hint` if they name parameters or Python code.
    parameter
        Name of the invalid parameter. None by default: the error is not about one parameter.
    value
        The invalid value of that parameter.

    Attributes
    ----------
    problem
        What is wrong.
    hint
        What to do, with parameters written as in Python.
    parameter
        Name of the invalid parameter, or None.
    value
        Its value. An error that comes from another process has the text of a value that cannot be pickled.

    Examples
    --------
    >>> error = TdlgError("There is no column 'x'.", Hint("Pass {src}.", src="a"), parameter="src", value="x")
    >>> print(error)
    There is no column 'x'. Pass src='a'.
    >>> error.parameter, error.value, error.hint
    ('src', 'x', "Pass src='a'.")
    """

    parameter: str | None = None
    value: Any = None

    def __init__(self, problem: str = "", *hints: str | Hint, parameter: str | None = None, value: Any = None) -> None:
        super().__init__(problem, *hints)
        if parameter is not None:
            self.parameter, self.value = parameter, value

    def as_kind(self, kind: type[Kind], problem: str) -> Kind:
        """The same parameter, value and hints as another kind of error, with another description of the problem."""
        return kind(problem, *self.args[1:], parameter=self.parameter, value=self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(vars(self))
        try:
            pickle.dumps(self.value)
        except Exception:  # each type raises its own error
            state["value"] = repr(self.value)
        return type(self), self.args, state


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


def warn(problem: str, *hints: str | Hint, category: type[Warning] = TdlgWarning) -> None:
    """Warn with the line of the user's code that called this package, however deep the call is inside the package."""
    inside = {__name__.partition(".")[0], "sklearn"}  # which wraps methods of estimators
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    message = (
        category(problem, *hints) if issubclass(category, TdlgWarning) else category(str(TdlgWarning(problem, *hints)))
    )
    warnings.warn(message, stacklevel=level)
