"""Saved states: arrays by name, of which those of a part begin with its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

__all__ = ["Part", "SavedArrays"]

SavedArrays = Mapping[str, NDArray[Any]]


class Part(Mapping[str, NDArray[Any]]):
    """The arrays whose names have a prefix, by the rest of their names. They are looked up when they are needed.

    Parameters
    ----------
    whole
        Arrays by name, for example a file that is read array by array: one large array after the other is in memory.
    prefix
        What the names begin with.

    Examples
    --------
    >>> dict(Part({"rows.ticks": [1, 2], "clock": [3]}, "rows."))
    {'ticks': [1, 2]}
    """

    def __init__(self, whole: SavedArrays, prefix: str) -> None:
        self._whole, self._prefix = whole, prefix

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._whole[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._whole if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)
