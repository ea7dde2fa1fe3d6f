"""Node ids: the distinct ids, their order, and the code of each endpoint."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import read_only
from tdlg.tables.column import Column, as_column, bad_row, check_unicode, converted, frozen, nulls, polars_works, refuse

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
Codes: TypeAlias = NDArray[np.int32]
Factors: TypeAlias = tuple[NDArray[Any], Codes, Codes]

FEW = 1_000  # ids up to which a dictionary is faster than a frame
FIRST_OF_NUMBERS = frozenset("-0123456789")
WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,29}")  # as Python writes it


def as_ids(values: Any, name: str) -> Column:
    """Check that no id is missing or a truth value; convert whole floats to integers, which a 2-D float array needs.

    Integers are frozen; all other ids are converted to codes later.
    """
    column = as_column(values, name)
    refuse(nulls(column), column, f"The '{name}' has a missing id in {{row}}. Drop that row, or give the node an id.")
    if not isinstance(column, np.ndarray):
        return column
    kind = column.dtype.kind
    if kind in "bO":  # Python takes true and false for 1 and 0
        truth = np.fromiter((isinstance(value, bool | np.bool_) for value in column), bool, len(column))
        problem = f"The '{name}' has the id {{value}} in {{row}}, a truth value. Pass ids as integers or text."
        refuse(truth, column, problem)
        check_unicode(column, name)
    if kind == "f":
        large = np.abs(column) >= 2.0 ** (np.finfo(column.dtype).nmant + 1)
        refuse(
            large,
            column,
            f"The '{name}' has the id {{value}} in {{row}}, which {column.dtype} cannot hold exactly: distinct ids may have "
            "become one. Pass ids as integers or strings.",
        )
        return converted(column, np.int64) if (column == np.floor(column)).all() else column
    if kind == "u":  # integers beyond int64 are kept as Python integers
        is_small = not len(column) or column.max() <= np.iinfo(np.int64).max
        return converted(column, np.int64) if is_small else column.astype(object)
    if kind == "i":
        return frozen(column)
    return np.array(list(column), object) if kind in "mM" else column


def is_integers(column: Column) -> bool:
    """Whether the ids are integers that the kernels can use directly."""
    return isinstance(column, np.ndarray) and column.dtype.kind == "i"


def factorise(src: Column, dst: Column) -> Factors:
    """Find the distinct ids of both columns, ascending if they can be ordered, and the codes of both."""
    are_many = len(src) + len(dst) > FEW
    if not isinstance(src, np.ndarray) and not isinstance(dst, np.ndarray) and are_many and polars_works():
        return _factorise_strings(src, dst)
    if not is_integers(src) or not is_integers(dst):
        return _factorise_hashables(listed(src), listed(dst))
    from tdlg._kernels.layout import factorise_integers

    shared = np.int32 if src.dtype == dst.dtype == np.int32 else np.int64
    # one memory layout, read-only and contiguous, so that each kernel is compiled once per dtype
    columns = [read_only(np.ascontiguousarray(column, shared)) for column in (src, dst)]
    return cast(Factors, factorise_integers(*columns))


def listed(column: Column) -> list[Any]:
    """A column as a list of plain values."""
    return cast("list[Any]", column.tolist() if isinstance(column, np.ndarray) else column.to_list())


def concatenate_ids(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays of ids without turning numbers into strings."""
    parts = list(parts)
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def id_key(value: Any) -> Any:
    """What an id is compared by: text as it is written, and a number as the text that spells it.

    The one rule for nodes, events and categories, in memory, on disk and live.
    """
    if type(value) is str and value[:1] not in FIRST_OF_NUMBERS:
        return value
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
    """What an index by ids has for an id, however it is written; None if nothing."""
    found = index.get(value)
    if found is not None:
        return found
    key = id_key(value)
    forms: list[Any] = [key]  # 7 and 7.0 are equal in Python
    if isinstance(key, int | str):
        forms += [str(key), str(key).encode(errors="replace")]
    with suppress(ValueError):
        if isinstance(key, str) and repr(float(key)) == key:
            forms.append(float(key))
    return next((index[form] for form in forms if form in index), None)


def _factorise_strings(src: pl.Series, dst: pl.Series) -> Factors:
    import polars as pl

    ids = pl.concat([src.rename("id").unique(), dst.rename("id").unique()]).unique().sort()
    codes = pl.DataFrame({"id": ids, "code": np.arange(len(ids), dtype=np.int32)})

    def encode(column: pl.Series) -> Codes:
        found = column.rename("id").to_frame().join(codes, on="id", how="left", maintain_order="left")
        return cast(Codes, found["code"].to_numpy())

    return ids.to_numpy(), encode(src), encode(dst)


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
    src_code, dst_code = (
        np.fromiter((code_of_key[keys[value]] for value in values), np.int32, len(values)) for values in (src, dst)
    )
    return ids, src_code, dst_code


def _first_appearances(src: list[Any], dst: list[Any]) -> dict[Hashable, None]:
    """The distinct ids in order of first appearance, src before dst, row by row."""
    index: dict[Hashable, None] = {}
    for row in range(max(len(src), len(dst))):
        for name, column in (("src", src), ("dst", dst)):
            try:
                if row < len(column):
                    index.setdefault(column[row])
            except TypeError:
                raise bad_row(
                    f"The '{name}' has an id that cannot be hashed in {{row}}: {column[row]!r}. "
                    f"Pass ids such as numbers, strings or tuples.",
                    row,
                ) from None
    return index
