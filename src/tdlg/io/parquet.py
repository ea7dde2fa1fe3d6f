"""Check of a parquet file before it is read: where sizes in it are damaged, polars ends the whole process.

Every number of values and bytes that a reader trusts is compared with the others and with the size of the file. The values
themselves are not read: where those are damaged, polars raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tdlg.exceptions import ReadError
from tdlg.io.columns import Source

if TYPE_CHECKING:
    import polars as pl

MAGIC = b"PAR1"
HEADER = 1 << 12  # bytes in which the header of a page usually fits: long texts may be in it
DEEPEST = 16  # levels of structures in each other
DATA, DICTIONARY, DATA_2 = 0, 2, 3  # kinds of pages
COUNTS_OF = {DATA: 5, DICTIONARY: 7, DATA_2: 8}  # the field of a page's header with the numbers of its values


def parquet_source(path: Path | str) -> Source:
    """A parquet file as a table; see `tdlg.io.read_edges`."""
    import polars as pl

    with damage_named(path):
        check_parquet(path)
        names = list(pl.read_parquet_schema(path))
    columns: dict[int, pl.Series] = {}  # those that are read already

    def read(positions: list[int], _alike: set[int], _text: set[int]) -> dict[int, Any]:
        new = [position for position in positions if position not in columns]
        if new:
            with damage_named(path):
                frame = pl.read_parquet(path, columns=[names[position] for position in new])
            columns.update({position: frame[names[position]] for position in new})
        return {position: columns[position] for position in positions}

    return Source(str(path), names, True, [], read)


@contextmanager
def damage_named(path: Path | str) -> Iterator[None]:
    """Turn errors of polars about a damaged file into our own."""
    import polars as pl

    try:
        yield
    except ReadError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        why = f" ({error})" if isinstance(error, Exception) else ""  # what a panic says does not help
        raise ReadError(
            f"{path}: this is not a parquet file, or it is damaged{why}. "
            f"If it is text, rename it to .csv; else download or write it again."
        ) from None


def check_parquet(path: Path | str) -> None:
    """Raise ValueError if the numbers in a parquet file do not fit together; takes some microseconds per page."""
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        _check(end[4:] == MAGIC and length <= size - 12, "no footer")
        file.seek(size - 8 - length)
        try:
            footer = _Thrift(file.read(length)).struct()
            n_rows = 0
            for group in footer[4]:
                n_rows += group[3]
                for chunk in group[1]:
                    _check_chunk(file, chunk[3], size - 8 - length)
                    is_nested = len(chunk[3][3]) > 1
                    _check(is_nested or chunk[3][5] == group[3], "columns of different lengths")
            _check(n_rows == footer[3], "a wrong number of rows")
        except (LookupError, TypeError, AttributeError):
            raise ValueError("its footer or a page lacks a number") from None


def _check_chunk(file: BinaryIO, column: dict[int, Any], size: int) -> None:
    """Compare the pages of a column in a row group with what the footer says of them."""
    n_values, n_bytes, start = column[5], column[7], column[9]
    start = min(start, column.get(11) or start)
    if n_values == n_bytes == 0:
        return
    _check(n_values >= 0 and len(MAGIC) <= start <= start + n_bytes <= size, "a column outside the file")
    at, seen = start, 0
    while at < start + n_bytes:
        header, length = _page_header(file, at)
        kind, packed = header[1], header[3]
        counts = header[COUNTS_OF[kind]] if kind in COUNTS_OF else {}
        numbers = [header[2], packed, *(value for value in counts.values() if type(value) is int)]
        _check(all(0 <= value < 2**31 for value in numbers), "a page of a negative size")
        seen += counts[1] if kind in (DATA, DATA_2) else 0
        at += length + packed
        _check(at <= size and seen <= n_values, "a page that is too large")
    _check(seen == n_values, "a wrong number of values")


def _page_header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """The header of a page, and its number of bytes."""
    n_bytes = HEADER
    while True:
        file.seek(at)
        thrift = _Thrift(file.read(n_bytes))
        try:
            return thrift.struct(), thrift.at
        except IndexError:
            if len(thrift.data) < n_bytes:
                raise
            n_bytes *= 16


class _Thrift:
    """Values in the compact form of thrift, the form of all numbers of parquet."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Values by the numbers of their fields."""
        fields: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            fields[field] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        _check(depth < DEEPEST, "structures in each other that never end")
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                return self._bytes(8)
            case 8:
                return self._bytes(self._varint())
            case 9 | 10:
                head = self._byte()
                n_values = self._varint() if head >> 4 == 15 else head >> 4
                _check(n_values <= len(self.data), "a list that is too long")
                return [self._item(head & 15, depth) for _ in range(n_values)]
            case 12:
                return self.struct(depth + 1)
        raise ValueError("it holds a value of an unknown kind")

    def _item(self, kind: int, depth: int) -> Any:
        return self._byte() if kind in (1, 2) else self._value(kind, depth + 1)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, n: int) -> bytes:
        self.at += n
        if self.at > len(self.data):
            raise IndexError
        return self.data[self.at - n : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            _check(shift < 70, "a number that never ends")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _check(is_right: bool, complaint: str) -> None:
    if not is_right:
        raise ValueError(f"it holds {complaint}")
