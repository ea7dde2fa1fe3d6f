"""Features of edges: a matrix of numbers, with codes for categories."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import sealed
from tdlg.exceptions import EdgesError
from tdlg.tables.column import as_column, bad_row, converted, eager_frame, frozen, nulls, refuse
from tdlg.tables.ids import alike, id_key
from tdlg.tables.labels import as_numbers, first_value

ROWS_CHECKED = 1 << 16  # rows of a matrix that are checked at a time, so that a memmap is never loaded as a whole


class Features(NamedTuple):
    """A matrix of features, the names of its columns, and the categories of columns with codes."""

    matrix: NDArray[np.floating[Any]]
    names: tuple[str, ...]
    categories: dict[str, tuple[Hashable, ...]]

    def like(self, other: Features) -> Features:
        """The same features with categories, which may be numbers here, as others write them; itself if nothing changes."""
        matrix, categories = self.matrix, dict(self.categories)
        for name in other.categories:
            if name in self.names and name not in categories:
                at = self.names.index(name)
                codes, categories[name] = _codes_of_numbers(matrix[:, at], other.categories[name])
                matrix = matrix.astype(np.float64)
                matrix[:, at] = codes
        written = {}
        for name, mine in categories.items():
            theirs = {category: category for category in other.categories.get(name, ())}
            found = [alike(theirs, category) for category in mine]
            written[name] = tuple(own if same is None else same for own, same in zip(mine, found, strict=True))
        return self if written == self.categories else Features(frozen(matrix), self.names, written)


def as_features(values: Any, name: str = "features") -> Features | None:
    """Convert a 2-D array, a mapping of columns, a dataframe or one column to a matrix of features.

    Columns of strings and pandas categories become codes, which are positions in the sorted categories; NaN is a missing
    value. A mapping or a dataframe without columns gives None.
    """
    if isinstance(values, Mapping):
        return _from_columns(dict(values), name)
    if hasattr(values, "toarray"):
        raise EdgesError(
            f"The '{name}' must be dense. Got {type(values).__name__} of shape {values.shape} instead.",
            f"Pass `{name}.toarray()`.",
        )
    if hasattr(type(values), "columns"):  # of the class: on a lazy frame the property would compute them
        frame = eager_frame(values, name)
        return _from_columns({str(column): frame.get_column(column).to_native() for column in frame.columns}, name)
    if isinstance(values, list | tuple) and len(values) and np.ndim(values[0]) == 1:
        values = _stacked(values, name)
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return _from_columns({"feature_0": values}, name)
    if values.ndim != 2:
        raise EdgesError(
            f"The '{name}' must have two dimensions. Got an array of shape {values.shape} instead.",
            "Pass `features.reshape(n_edges, -1)`.",
        )
    array = np.asarray(values)
    names = tuple(f"feature_{k}" for k in range(array.shape[1]))
    if array.dtype.kind not in "iufb":
        return _from_columns(dict(zip(names, array.T, strict=True)), name)
    return Features(_checked_matrix(array, names, name), names, {})


def as_categories(values: Any, name: str) -> Any:
    """Convert a column of codes to text, so that it becomes categories; whole numbers have no decimal point."""
    column = values if _is_categorical(values) else as_column(values, name)
    if not isinstance(column, np.ndarray):
        return column
    truth = np.fromiter((isinstance(value, bool | np.bool_) for value in column), bool, len(column))
    problem = f"The category {name!r} has the truth value {{value}} in {{row}}."
    refuse(truth, column, f"{problem} Pass it as a feature, which is 0 or 1, or as text.")
    gaps = nulls(column).tolist()
    return as_column([None if gap else str(id_key(v)) for v, gap in zip(column.tolist(), gaps, strict=True)], name)


def _is_categorical(values: Any) -> bool:
    """Whether it is a column of pandas with categories."""
    return type(getattr(values, "dtype", None)).__name__ == "CategoricalDtype"


def _stacked(rows: Sequence[Any], name: str) -> NDArray[Any]:
    try:
        return sealed(np.array(rows))
    except ValueError:
        wanted = len(rows[0])
        wrong = next((k for k, row in enumerate(rows) if np.ndim(row) != 1 or len(row) != wanted), 0)
    raise bad_row(
        f"The '{name}' must have {wanted} values in each row, as in the first. Got {rows[wrong]!r} in {{row}}. "
        f"Correct that row.",
        wrong,
    )


def _checked_matrix(array: NDArray[Any], names: tuple[str, ...], name: str) -> NDArray[np.floating[Any]]:
    if array.dtype not in (np.float32, np.float64):
        array = converted(array, np.float64)
    for start in range(0, len(array), ROWS_CHECKED):
        infinite = np.isinf(array[start : start + ROWS_CHECKED])
        if infinite.any():
            row, column = (int(k) for k in np.argwhere(infinite)[0])
            raise bad_row(
                f"The '{name}' must be finite, or NaN where missing. Got {array[start + row, column]} "
                f"in column {names[column]!r}, {{row}}. Replace it by a number, or by NaN.",
                start + row,
            )
    return frozen(array)


def _from_columns(columns: dict[Any, Any], name: str) -> Features | None:
    names = tuple(str(column) for column in columns)
    if not names:
        return None
    if len(set(names)) < len(names):
        raise EdgesError(f"The columns of '{name}' must differ in name. Got {list(columns)} instead. Rename them.")
    categories: dict[str, tuple[Hashable, ...]] = {}
    parts = []
    for column, values in zip(names, columns.values(), strict=True):
        numbers, found = _feature(values, column, name)
        parts.append(numbers)
        if found is not None:
            categories[column] = found
    lengths = dict(zip(names, map(len, parts), strict=True))
    if len(set(lengths.values())) > 1:
        raise EdgesError(f"The columns of '{name}' differ in length: {lengths}. Pass one value per edge in each.")
    return Features(_checked_matrix(sealed(np.column_stack(parts)), names, name), names, categories)


def _feature(values: Any, column_name: str, name: str) -> tuple[NDArray[Any], tuple[Hashable, ...] | None]:
    """The column as floats, and its categories if it has strings or a categorical type."""
    if _is_categorical(values):
        return _codes_of_categories(values)
    column = as_numbers(as_column(values, column_name))
    if not isinstance(column, np.ndarray):
        import polars as pl

        words = pl.Series(sorted(column.drop_nulls().unique().to_list()), dtype=pl.String)  # polars sorts in threads
        codes = column.cast(pl.Enum(words)).to_physical().cast(pl.Float64).to_numpy()
        return codes, tuple(words.to_list())
    if column.dtype.kind in "iufb":
        return converted(column, np.float64), None
    raise EdgesError(
        f"The column {column_name!r} of '{name}' must hold numbers or strings. Got {first_value(column)} "
        f"({column.dtype}) instead. Turn it into numbers (datetimes into seconds), or leave it out."
    )


def _codes_of_categories(values: Any) -> tuple[NDArray[np.float64], tuple[Hashable, ...]]:
    """The categories of a pandas column, of any type."""
    held = getattr(values, "cat", values)
    own_codes, own = np.asarray(held.codes), held.categories.tolist()
    used = sorted(set(own_codes.tolist()) - {-1})
    with suppress(TypeError):  # categories of types without a common order keep the order of pandas
        used.sort(key=lambda code: own[code])
    code_of = np.full(len(own) + 1, np.nan)  # a missing value has the code -1, the last entry
    written: dict[Any, Hashable] = {}  # the first category with each key
    for code in used:
        written.setdefault(id_key(own[code]), own[code])
    places = {key: place for place, key in enumerate(written)}
    for code in used:
        code_of[code] = places[id_key(own[code])]
    return code_of[own_codes], tuple(written.values())


def _codes_of_numbers(
    column: NDArray[np.floating[Any]], like: Sequence[Hashable]
) -> tuple[NDArray[np.float64], tuple[Hashable, ...]]:
    """Numbers as categories: as text, unless the others are not."""
    found, codes = np.unique(column, return_inverse=True)  # NaN is the last
    numbers = found[~np.isnan(found)].tolist()
    is_text = all(isinstance(category, str) for category in like)
    return np.where(np.isnan(column), np.nan, codes), tuple(str(id_key(n)) if is_text else n for n in numbers)
