"""Column: what one column of propagated values is about."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Column"]


class Column(NamedTuple):
    """What one column is about.

    Attributes
    ----------
    name
        Its name, such as "src:rate@0.03" or "dst:partners@1".
    match
        Which nodes the edges behind it share with the edge to score, such as "src"; empty if it is the edge's own.
    about
        What it measures, such as "rate", "count" or "partners".
    feature
        The feature that it is about; empty if it is about none.
    of_class
        Position of the class that it is about among the classes; -1 if it is about no single class.
    scale
        Position of its time scale; -1 if it has none.
    """

    name: str
    match: str
    about: str
    feature: str = ""
    of_class: int = -1
    scale: int = -1
