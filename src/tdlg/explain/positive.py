"""The class that scores, reasons and figures are about."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tdlg.exceptions import ParameterError

__all__ = ["code_of"]


def code_of(label: Any, classes: NDArray[Any]) -> int:
    """The position of a label among the classes; refuses what is not one of them."""
    found = [code for code, known in enumerate(classes.tolist()) if known == label]
    if not found:
        raise ParameterError(f"The 'label' must be one of the classes {classes.tolist()}. Got {label!r} instead.")
    return found[0]
