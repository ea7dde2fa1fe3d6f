"""Node ids: the distinct ids, their order, and the code of each endpoint."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import read_only
from tdlg.tables.column import Column, as_column, bad_row, check_unicode, converted, first_null, frozen, polars_works

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
Codes: TypeAlias = NDArray[np.int32]
Factors: TypeAlias = tuple[NDArray[Any], Codes, Codes]

WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,29}")  # as Python writes it


def as_ids(values: Any, name: str) -> Column:
    """Check that no id is missing or a truth value; convert whole floats to integers, which a 2-D float array needs.

    Integers are frozen; all other ids are converted to codes later.

    >>> as_ids([1.0, 2.0], "src")
    array([1, 2])
    """
    column = as_column(values, name)
    row = first_null(column)
    if row is not None:
        raise bad_row(
            f"The '{name}' has a missing id in {{row}}. Drop that row, or give the node an id.",
            row,
        )
    if not isinstance(column, np.ndarray):
        return column
    if column.dtype.kind in "bO":
        _check_no_truth(column, name)
    if column.dtype.kind == "f":
        return _whole(column, name)
    if column.dtype.kind == "u":
        return _signed(column)
    if column.dtype.kind == "i":
        return frozen(column)
    if column.dtype.kind == "O":
        check_unicode(column, name)
    return np.array(list(column), object) if column.dtype.kind in "mM" else column


def is_integers(column: Column) -> bool:
    """Whether the ids are integers that the kernels can use directly."""
    return isinstance(column, np.ndarray) and column.dtype.kind == "i"


def factorise(src: Column, dst: Column) -> Factors:
    """Find the distinct ids of both columns, ascending if they can be ordered, and the codes of both.

    >>> factorise(as_ids(["b", "a"], "src"), as_ids(["c", "a"], "dst"))[0].tolist()
    ['a', 'b', 'c']
    """
    if not isinstance(src, np.ndarray) and not isinstance(dst, np.ndarray) and polars_works():
        return _factorise_strings(src, dst)
    if is_integers(src) and is_integers(dst):
        return _factorise_integers(np.asarray(src), np.asarray(dst))
    return _factorise_hashables(listed(src), listed(dst))


def concatenate_ids(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays of ids without turning numbers into strings."""
    parts = list(parts)
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def id_key(value: Any) -> Any:
    """What an id is compared by: text as it is written, and a number as the text that spells it.

    The one rule for nodes, events and categories, in memory, on disk and live.

    >>> id_key(7) == id_key(7.0) == id_key("7") == id_key(b"7"), id_key("007"), id_key("7.0"), id_key(1.5)
    (True, '007', '7.0', '1.5')
    """
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, str):
        return int(value) if WHOLE_NUMBER.fullmatch(value) else value
    if isinstance(value, float | np.floating):
        return int(value) if value.is_integer() else repr(float(value))
    if isinstance(value, np.integer):
        return int(value)
    return ("bool", value) if isinstance(value, bool | np.bool_) else value


def alike(index: Mapping[Hashable, T], value: Any) -> T | None:
    """What an index by ids has for an id, however it is written; None if nothing.

    >>> alike({"7": "seven"}, 7.0), alike({7: "seven"}, "7"), alike({7: "seven"}, "007")
    ('seven', 'seven', None)
    """
    found = index.get(value)
    return found if found is not None else next((index[form] for form in _spellings(value) if form in index), None)


def _spellings(value: Any) -> Iterator[Any]:
    """An id as number, as text and as bytes; 7 and 7.0 are equal in Python."""
    key = id_key(value)
    yield key
    if isinstance(key, int):
        yield str(key)
    if isinstance(key, int | str):
        yield str(key).encode(errors="replace")
    if isinstance(key, str):
        with suppress(ValueError):
            if repr(float(key)) == key:
                yield float(key)


def _check_no_truth(column: NDArray[Any], name: str) -> None:
    """Refuse true and false, which Python takes for 1 and 0."""
    for row, value in enumerate(column):
        if isinstance(value, bool | np.bool_):
            raise bad_row(
                f"The '{name}' has the id {bool(value)} in {{row}}, a truth value. Pass ids as integers or text.", row
            )


def _whole(column: NDArray[Any], name: str) -> NDArray[Any]:
    """Whole floats as integers; floats too large to be exact are refused."""
    large = np.abs(column) >= 2.0 ** (np.finfo(column.dtype).nmant + 1)
    if large.any():
        row = int(np.argmax(large))
        raise bad_row(
            f"The '{name}' has the id {column[row]!s} in {{row}}, which {column.dtype} cannot hold exactly: distinct ids "
            f"may have become one. Pass ids as integers or strings.",
            row,
        )
    return converted(column, np.int64) if (column == np.floor(column)).all() else column


def _signed(column: NDArray[Any]) -> NDArray[Any]:
    """Unsigned integers as int64; larger ids are kept as Python integers."""
    if column.dtype.itemsize < 8 or not len(column) or column.max() <= np.iinfo(np.int64).max:
        return converted(column, np.int64)
    return column.astype(object)


def _factorise_integers(src: NDArray[Any], dst: NDArray[Any]) -> Factors:
    from tdlg._kernels.layout import factorise_integers

    shared = np.int32 if src.dtype == dst.dtype == np.int32 else np.int64
    # one memory layout, read-only and contiguous, so that each kernel is compiled once per dtype
    columns = [read_only(np.ascontiguousarray(column, shared)) for column in (src, dst)]
    return cast(Factors, factorise_integers(*columns))


def _factorise_strings(src: pl.Series, dst: pl.Series) -> Factors:
    import polars as pl

    ids = pl.concat([src.rename("id").unique(), dst.rename("id").unique()]).unique().sort()
    codes = pl.DataFrame({"id": ids, "code": np.arange(len(ids), dtype=np.int32)})

    def encode(column: pl.Series) -> Codes:
        found = column.rename("id").to_frame().join(codes, on="id", how="left", maintain_order="left")
        return cast(Codes, found["code"].to_numpy())

    return ids.to_numpy(), encode(src), encode(dst)


def listed(column: Column) -> list[Any]:
    """A column as a list of plain values."""
    return cast("list[Any]", column.tolist() if isinstance(column, np.ndarray) else column.to_list())


def _factorise_hashables(src: list[Any], dst: list[Any]) -> Factors:
    keys = {value: id_key(value) for value in _first_appearances(src, dst)}
    written = dict(zip(reversed(keys.values()), reversed(keys), strict=True))  # each key as it was written first
    distinct = list(dict.fromkeys(keys.values()))
    with suppress(TypeError):  # ids of types without a common order stay in order of appearance
        distinct.sort(key=written.__getitem__)
    ids = np.empty(len(distinct), object)
    for code, key in enumerate(distinct):
        ids[code] = written[key]
    if set(map(type, ids)) == {float}:
        ids = ids.astype(np.float64)
    code_of_key = {key: code for code, key in enumerate(distinct)}
    index = {value: code_of_key[key] for value, key in keys.items()}
    return ids, _encoded(src, index), _encoded(dst, index)


def _encoded(values: list[Any], index: dict[Hashable, int]) -> Codes:
    return np.fromiter((index[value] for value in values), np.int32, len(values))


def _first_appearances(src: list[Any], dst: list[Any]) -> dict[Hashable, None]:
    """The distinct ids in order of first appearance, src before dst, row by row."""
    index: dict[Hashable, None] = {}
    for name, row, value in _row_by_row(src, dst):
        try:
            index.setdefault(value)
        except TypeError:
            raise bad_row(
                f"The '{name}' has an id that cannot be hashed in {{row}}: {value!r}. "
                f"Pass ids such as numbers, strings or tuples.",
                row,
            ) from None
    return index


def _row_by_row(src: list[Any], dst: list[Any]) -> Iterable[tuple[str, int, Any]]:
    for row in range(max(len(src), len(dst))):
        if row < len(src):
            yield "src", row, src[row]
        if row < len(dst):
            yield "dst", row, dst[row]
