"""TemporalEdges: the source, destination and time of each interaction, with its label, weight and features."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from html import escape
from itertools import chain, count
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import read_only
from tdlg.clock import times_of
from tdlg.exceptions import EdgesError
from tdlg.tables.column import Column
from tdlg.tables.edge_table import EdgeTable, Rows, as_slice, row_key
from tdlg.tables.features import Features, as_features
from tdlg.tables.ids import as_ids, id_key
from tdlg.tables.labels import as_labels, as_weights, filled_label_ticks, known, label_ticks
from tdlg.tables.text import count as counted
from tdlg.tables.times import as_times

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

HTML_BARS, HTML_HEIGHT = 60, 40  # of the picture in a notebook; the height is in pixels


class TemporalEdges:
    """Edges (src, dst, time) of a temporal network, with optional label, weight and features.

    The edges are rows of an immutable table, in the caller's order: they need not be sorted by time. A slice is
    a view of some rows of the same table and records which rows (`rows`), so that the edges of a training part and
    of a test part of one table are never confused. Writable arrays are copied, so that changing them later does not
    change the edges; integer ids, times, labels and float features that are memory-mapped or read-only
    (`array.flags.writeable = False`) are not copied. Every array that the attributes return is read-only.

    Parameters
    ----------
    src, dst
        Ids of the source and of the destination node, one value per edge: integers, strings or any hashable
        objects except truth values. No id may be missing. 7, 7.0 and "7" are the same node, "007" is another one. Lists,
        numpy arrays, and pandas, polars and pyarrow columns are accepted.
    time
        Times, one value per edge: finite numbers in any unit, or datetimes or dates, also as text. Datetimes with
        a time zone are converted to UTC; datetimes without one are kept as they are.
    label
        The values to learn and predict, one value per edge: integers, booleans, floats (NaN = unknown) or strings
        (None = unknown). By default the edges have no labels. Integer labels become floats if some are unknown;
        integers beyond 2**53 are then refused.
    label_time
        When each label became known, one value per edge: numbers or datetimes, like the times of the edges. By default
        each label counts as known at the time of its edge. The time of a missing label may be missing. Infinity, or a
        time after all edges such as the year 9999, means that the label is not yet known.
    label_delay
        Instead of `label_time`, the time from each edge to its label: a duration such as "7d" if the times are
        datetimes, else a number.
    weight
        Finite numbers, one value per edge. By default the edges have no weights.
    features
        A 2-D array, a dict of columns or a dataframe, one row per edge. By default the edges have no features.
        Columns of strings and pandas categories are stored as codes, see `feature_categories`; NaN is a missing
        value.
    bipartite
        Whether `src` and `dst` are nodes of two types, so that user 1 and item 1 are two different nodes. False by
        default: equal ids are the same node.

    Raises
    ------
    EdgesError
        If the columns differ in length or contain a value that is not allowed; the message shows the row.

    Examples
    --------
    >>> edges = TemporalEdges(["ann", "bob", "ann"], ["bob", "cat", "cat"], [0, 5, 9], label=[1, 0, 1])
    >>> edges
    TemporalEdges(3 edges, 3 nodes, time 0 to 9, label: 2 values)
    >>> edges.node_ids.tolist(), edges.src_code.tolist()
    (['ann', 'bob', 'cat'], [0, 1, 0])

    A part of the edges keeps the nodes of the whole table:

    >>> late = edges[edges.time > 4]
    >>> late.rows.tolist(), late.n_nodes
    ([1, 2], 3)

    Labels that become known 7 days after their edges:

    >>> late = TemporalEdges(["ann"], ["bob"], ["2025-01-31"], label=[1], label_delay="7d")
    >>> late.label_time
    array(['2025-02-07T00:00:00'], dtype='datetime64[s]')
    """

    __slots__ = ("__weakref__", "_building", "_cache", "_label", "_label_ticks", "_lock", "_rows", "_table")

    _table: EdgeTable
    _rows: Rows
    _label: NDArray[Any] | None
    _label_ticks: NDArray[Any] | None

    def __init__(
        self,
        src: Any,
        dst: Any,
        time: Any,
        *,
        label: Any = None,
        label_time: Any = None,
        label_delay: Any = None,
        weight: Any = None,
        features: Any = None,
        bipartite: bool = False,
    ) -> None:
        ids = as_ids(src, "src"), as_ids(dst, "dst")
        ticks, unit = as_times(time)
        labels = None if label is None else as_labels(label)
        weights = None if weight is None else as_weights(weight)
        matrix = None if features is None else as_features(features)
        _check_same_length(src=ids[0], dst=ids[1], time=ticks, label=labels, weight=weights, features=matrix)
        table = EdgeTable(*ids, ticks, unit, weights, matrix, bool(bipartite))
        self._set(table, range(len(ticks)), labels, _ticks_of_labels(labels, ticks, unit, label_time, label_delay))
        self._check_label_times()

    def _set(self, table: EdgeTable, rows: Rows, label: NDArray[Any] | None, ticks: NDArray[Any] | None) -> None:
        self._table = table
        self._rows = rows
        self._label = None if label is None else read_only(label)
        self._label_ticks = None if ticks is None else read_only(ticks)
        self._cache: dict[Hashable, Any] = {}
        self._building: dict[Hashable, threading.RLock] = {}
        self._lock = threading.Lock()

    @classmethod
    def _view(cls, table: EdgeTable, rows: Rows, label: Any, label_ticks: Any) -> TemporalEdges:
        edges = cls.__new__(cls)
        edges._set(table, rows, label, label_ticks)
        return edges

    # ---- columns

    @property
    def src(self) -> NDArray[Any]:
        """Ids of the source nodes as the caller passed them, shape (n_edges,)."""
        return self._ends("src", self._table.src, lambda: self.src_code)

    @property
    def dst(self) -> NDArray[Any]:
        """Ids of the destination nodes as the caller passed them, shape (n_edges,)."""
        return self._ends("dst", self._table.dst, lambda: self.dst_code)

    @property
    def time(self) -> NDArray[Any]:
        """Times as int64, float64 or datetime64 in UTC, shape (n_edges,)."""
        return times_of(self.ticks, self.time_unit)

    @property
    def ticks(self) -> NDArray[Any]:
        """Times as int64 or float64, shape (n_edges,); for datetimes the number of `time_unit`s since 1970."""
        return self._taken("ticks", lambda: self._table.ticks)

    @property
    def time_unit(self) -> str | None:
        """Unit of `ticks` if the times are datetimes ("s", "ms", "us" or "ns"); None if they are numbers."""
        return self._table.unit

    @property
    def label(self) -> NDArray[Any] | None:
        """Labels, shape (n_edges,), or None. Unknown labels are NaN in a float array and None in an object array."""
        return self._label

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Mask of the edges whose label is known, shape (n_edges,); all False without labels."""
        label = np.empty(len(self), object) if self._label is None else self._label  # None: unknown
        return self.cached("labelled", lambda: read_only(known(label)))

    @property
    def label_time(self) -> NDArray[Any] | None:
        """Times at which the labels became known, shape (n_edges,), like `time`; None if each is known at its edge's time.

        The time of a missing label may be far ahead: if no time was given for it.
        """
        ticks = self.label_ticks
        return None if ticks is None else times_of(ticks, self.time_unit)

    @property
    def label_ticks(self) -> NDArray[Any] | None:
        """`label_time` as int64 or float64, shape (n_edges,), on the clock of `ticks`; or None."""
        ticks = self._label_ticks
        if ticks is None:
            return None
        return self.cached("label_ticks", lambda: read_only(filled_label_ticks(ticks, self.labelled)))

    def _check_label_times(self) -> None:
        """Refuse a known label without a time."""
        _ = self.label_ticks

    @property
    def known_at(self) -> NDArray[Any]:
        """When each label counts as known, in ticks, shape (n_edges,): at its `label_time`, never before its edge."""
        late = self.label_ticks
        return self.ticks if late is None else np.maximum(late, self.ticks)

    @property
    def weight(self) -> NDArray[np.float64] | None:
        """Weights, shape (n_edges,), or None."""
        weight = self._table.weight
        return None if weight is None else self._taken("weight", lambda: weight)

    @property
    def features(self) -> NDArray[np.floating[Any]] | None:
        """Features, shape (n_edges, n_features), or None. NaN is a missing value."""
        features = self._table.features
        return None if features is None else self._taken("features", lambda: features.matrix)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of `features`; "feature_0", ... if the columns came without names."""
        return () if self._table.features is None else self._table.features.names

    @property
    def feature_categories(self) -> dict[str, tuple[Hashable, ...]]:
        """Sorted categories of each categorical column: a code k in `features` stands for the k-th category."""
        return {} if self._table.features is None else dict(self._table.features.categories)

    # ---- nodes: always those of the whole table, also for a slice

    @property
    def bipartite(self) -> bool:
        """Whether `src` and `dst` are nodes of two types."""
        return self._table.bipartite

    @property
    def shares_nodes(self) -> bool:
        """Whether some node is the source of one of these edges and the destination of one of them."""
        if self.bipartite:
            return False
        is_source = np.zeros(self.n_nodes, bool)
        is_source[self.src_code] = True
        return bool(is_source[self.dst_code].any())

    @property
    def node_ids(self) -> NDArray[Any]:
        """Distinct ids of the whole table, shape (n_nodes,). Slices of one table share them.

        The ids are in ascending order if they can be ordered, else in order of first appearance. If `bipartite`, the
        ids of `src` come first, then the ids of `dst`.
        """
        return self.cached("node_ids", lambda: self._table.node_ids)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the whole table."""
        return sum(len(space[0]) for space in self._table.spaces)

    @property
    def n_src_nodes(self) -> int | None:
        """Number of distinct `src` ids of the whole table if `bipartite`, else None."""
        return len(self._table.spaces[0][0]) if self.bipartite else None

    @property
    def src_code(self) -> NDArray[np.int32]:
        """Position of each src in `node_ids`, shape (n_edges,)."""
        return self._taken("src_code", lambda: self._table.codes[0])

    @property
    def dst_code(self) -> NDArray[np.int32]:
        """Position of each dst in `node_ids`, shape (n_edges,); at least `n_src_nodes` if `bipartite`."""
        return self._taken("dst_code", lambda: self._table.codes[1])

    def codes_of(self, other: TemporalEdges) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Look up the nodes of other edges in the `node_ids` of these edges.

        Parameters
        ----------
        other
            Edges of the same or of another table.

        Returns
        -------
        src_code, dst_code
            Positions in `node_ids`, -1 for a node that these edges do not have. Shape (other.n_edges,) each.

        Examples
        --------
        >>> edges = TemporalEdges([10, 20], [20, 30], [0, 1])
        >>> edges.codes_of(TemporalEdges([30], [40], [2]))
        (array([2], dtype=int32), array([-1], dtype=int32))
        """
        if self.same_table(other) or self._table.spaces is other._table.spaces:
            return other.src_code, other.dst_code
        self._check_same_kind(other)
        found = read_only(self._table.positions_of(other._table))
        return read_only(found[other.src_code]), read_only(found[other.dst_code])

    def _check_same_kind(self, other: TemporalEdges) -> None:
        if self.bipartite != other.bipartite:
            raise EdgesError(
                f"{'These' if self.bipartite else 'The other'} edges are bipartite, and "
                f"{'the other' if self.bipartite else 'these'} edges are not.",
                "Create both with the same value of bipartite=.",
            )

    def knows_nodes_of(self, other: TemporalEdges) -> NDArray[np.bool_]:
        """Whether each of the `node_ids` of other edges is a node of these edges, shape (other.n_nodes,)."""
        self._check_same_kind(other)
        return self._table.positions_of(other._table) >= 0

    def with_ids_of(self, other: TemporalEdges) -> TemporalEdges:
        """Write ids and categories as other edges write them: 17 for "17" if those are numbers, and so on.

        17, "17", 17.0 and b"17" are the same id. Text is compared as it is written: "017" is another one. Ids that the other
        edges do not have stay as they are. Categories of features are converted in the same way.

        Parameters
        ----------
        other
            Edges of any table.

        Returns
        -------
        TemporalEdges
            These edges if nothing changes, else edges of a new table.

        Examples
        --------
        >>> new = TemporalEdges(["17", "NEW-1"], ["003", "3"], [0, 1])
        >>> new.with_ids_of(TemporalEdges([17], [3], [0])).node_ids.tolist()
        [17, '003', 'NEW-1', 3]
        """
        if self.same_table(other) or self.bipartite != other.bipartite:
            return self
        table = self._table.written_like(other._table)
        return self if table is self._table else self._view(table, self._rows, self._label, self._label_ticks)

    # ---- rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_edges, 3 + n_features): the shape of a 2-D array with the columns src, dst, time and the features."""
        return len(self), 3 + len(self.feature_names)

    @property
    def ndim(self) -> int:
        """Always 2, so that scikit-learn slices edges like a matrix."""
        return 2

    @property
    def rows(self) -> NDArray[np.int64]:
        """Positions of these edges in their table, shape (n_edges,)."""
        return self.cached("rows", lambda: read_only(np.asarray(self._rows, np.int64)))

    def __getitem__(self, key: Any) -> TemporalEdges:
        key = row_key(key, len(self))
        of_labels = (None if column is None else column[key] for column in (self._label, self._label_ticks))
        rows = self._rows[key] if isinstance(key, slice) else self.rows[key]
        return self._view(self._table, rows, *of_labels)

    def same_table(self, other: TemporalEdges) -> bool:
        """Whether both are rows of one table, so that equal `rows` mean the same edges. Pickling keeps this.

        Examples
        --------
        >>> edges = TemporalEdges([1, 2], [2, 3], [0, 1])
        >>> edges.same_table(edges[1:]), edges.same_table(TemporalEdges([1, 2], [2, 3], [0, 1]))
        (True, False)
        """
        return self._table.token == other._table.token

    def with_label(self, label: Any, label_time: Any = None, label_delay: Any = None) -> TemporalEdges:
        """Return the same rows of the same table with other labels; None removes the labels and their times.

        Parameters
        ----------
        label
            The labels, one value per edge.
        label_time, label_delay
            When the labels became known, as in the constructor. By default the times of these edges' labels stay.

        Examples
        --------
        >>> edges = TemporalEdges([1, 2], [2, 3], [0, 1], label=[0, 1])
        >>> edges.with_label([0, None]).labelled.tolist()
        [True, False]
        >>> edges.with_label([0, 1], label_delay=5).label_time
        array([5, 6])
        """
        edges = self.unchecked_labels(label, label_time, label_delay)
        edges._check_label_times()
        return edges

    def unchecked_labels(self, label: Any, label_time: Any = None, label_delay: Any = None) -> TemporalEdges:
        """Like `with_label`, but a known label without a time is refused only when `label_ticks` is first needed.

        For internal use: the words for a missing label may not be known yet.
        """
        labels = None if label is None else as_labels(label)
        _check_same_length(edges=self._rows, label=labels)
        ticks = _ticks_of_labels(labels, self.ticks, self.time_unit, label_time, label_delay)
        return self._view(
            self._table, self._rows, labels, self._label_ticks if ticks is None and label is not None else ticks
        )

    def at_ticks(self, ticks: NDArray[Any]) -> TemporalEdges:
        """The same interactions at other times, in ticks, as edges of a new table with the same nodes.

        For internal use: labels count from the time when they became known.
        """
        rows = slice(None) if isinstance(self._rows, range) and len(self) == len(self._table.ticks) else self.rows
        return self._view(self._table.at_ticks(rows, ticks), self._rows, self._label, None)

    def cached(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return what `build()` returned when it was first called for this key and these edges. It is not pickled.

        For internal use: it keeps derived data together with the edges.
        """
        if key not in self._cache:
            with self._lock:
                lock = self._building.setdefault(key, threading.RLock())
            with lock:  # one lock per key, so that other keys can be built at the same time
                if key not in self._cache:
                    self._cache[key] = build()
        return cast(T, self._cache[key])

    def _taken(self, name: str, column: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """A column of the table at these rows, without a copy if the rows are evenly spaced."""
        return self.cached(name, lambda: read_only(column()[as_slice(self._rows)]))

    def _ends(self, name: str, ids: Column | None, codes: Callable[[], NDArray[np.int32]]) -> NDArray[Any]:
        if ids is None:
            return self.cached(name, lambda: read_only(self.node_ids[codes()]))
        return self._taken(name, lambda: np.asarray(ids))

    # ---- as a table

    def to_frame(self) -> pl.DataFrame:
        """These edges as a polars dataframe: src, dst, time and, if there are some, label, label_time, weight and features.

        `from_frame` reads it back. Times in seconds become milliseconds, which polars has; codes of categories become
        categories; ids of several types become text; a feature with the name of another column gets a number.

        Returns
        -------
        polars.DataFrame
            One row per edge, in their order.

        Examples
        --------
        >>> edges = TemporalEdges(["ann", "bob"], ["bob", "cat"], [0, 5], label=[1, None])
        >>> edges.to_frame().rows()
        [('ann', 'bob', 0, 1.0), ('bob', 'cat', 5, None)]
        """
        import polars as pl

        of_labels = {"label": self.label, "label_time": self.label_time, "weight": self.weight}
        columns = {"src": self.src, "dst": self.dst, "time": self.time}
        columns |= {name: values for name, values in of_labels.items() if values is not None}
        series = {name: _as_series(values) for name, values in columns.items()}
        for k, name in enumerate(self.feature_names):
            values = pl.Series(cast("NDArray[Any]", self.features)[:, k]).fill_nan(None)
            if name in self.feature_categories:
                written = pl.Series([str(category) for category in self.feature_categories[name]], dtype=pl.String)
                values = written.gather(values.cast(pl.UInt32))
            names = chain([name], (f"{name}_{number}" for number in count(2)))
            series[next(free for free in names if free not in series)] = values
        return pl.DataFrame(series)

    def to_arrow(self) -> Any:
        """These edges as a pyarrow table, with the columns of `to_frame`; needs pyarrow.

        Returns
        -------
        pyarrow.Table
            One row per edge, in their order.
        """
        return self.to_frame().to_arrow()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_frame().__arrow_c_stream__(requested_schema)

    # ---- as an object

    def __getstate__(self) -> tuple[Any, ...]:
        return self._table, self._rows, self._label, self._label_ticks

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._set(*state)

    def __deepcopy__(self, memo: dict[int, Any]) -> TemporalEdges:
        return self  # frozen

    def __repr__(self) -> str:
        parts = [counted(len(self), "edge"), counted(self.n_nodes, "node"), *self._described()]
        return f"TemporalEdges({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """What `repr` says, and how many edges there were over time, for notebooks."""
        text = f"<code>{escape(repr(self))}</code>"
        if len(self) == 0:
            return text
        counts, _ = np.histogram(self.ticks.astype(np.float64), HTML_BARS)  # of floats: the span may not fit int64
        heights = np.ceil(HTML_HEIGHT * counts / counts.max()).astype(int).tolist()
        bars = "".join(f"M{4 * k} {HTML_HEIGHT}v-{height}h3v{height}z" for k, height in enumerate(heights) if height)
        size = f'width="{4 * HTML_BARS}" height="{HTML_HEIGHT}"'
        return f'{text}<br/><svg {size} role="img" aria-label="edges over time" fill="currentColor"><path d="{bars}"/></svg>'

    def _described(self) -> list[str]:
        """What the edges have in addition to their nodes, for the repr."""
        parts = [span_in_words(self.time)] if len(self) else []
        if self._label is not None:
            values = self._label[self.labelled]
            n_values = len(set(values)) if values.dtype == object else len(np.unique(values))
            n_unknown = len(self) - len(values)
            parts.append(f"label: {counted(n_values, 'value')}" + (f" ({n_unknown:,} unknown)" if n_unknown else ""))
        if self._label_ticks is not None:
            parts.append("label_time")
        if self._table.weight is not None:
            parts.append("weight")
        if self.feature_names:
            parts.append(counted(len(self.feature_names), "feature"))
        return [*parts, "bipartite"] if self.bipartite else parts


def _as_series(values: NDArray[Any]) -> pl.Series:
    """A column of the edges for polars, null where a value is missing."""
    import polars as pl

    if values.dtype.kind == "M":
        ticks, unit = values.view(np.int64), np.datetime_data(values.dtype)[0]
        if unit == "s":
            most = np.iinfo(np.int64).max // 1000
            ticks, unit = np.clip(ticks, -most, most) * 1000, "ms"
        return pl.Series(ticks).cast(pl.Datetime(cast(Any, unit)))
    if values.dtype.kind != "O":
        return pl.Series(values).fill_nan(None) if values.dtype.kind == "f" else pl.Series(values)
    listed = values.tolist()
    types = set(map(type, listed)) - {type(None)}
    return pl.Series(listed if len(types) <= 1 else [None if one is None else str(id_key(one)) for one in listed])


def _ticks_of_labels(
    label: NDArray[Any] | None, ticks: NDArray[Any], unit: str | None, label_time: Any, label_delay: Any
) -> NDArray[Any] | None:
    if label is None and (label_time is not None or label_delay is not None):
        name = "label_delay" if label_time is None else "label_time"
        raise EdgesError(f"The '{name}' is given without labels.", f"Pass label= too, or leave out {name}=.")
    return label_ticks(ticks, unit, label_time, label_delay)


def _check_same_length(**columns: Any) -> None:
    given = {name: column for name, column in columns.items() if column is not None}
    lengths = {name: len(c.matrix) if isinstance(c, Features) else len(c) for name, c in given.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise EdgesError(f"The columns differ in length: {shown}. Pass one value per edge in each column.")


def span_in_words(time: NDArray[Any]) -> str:
    """The first and the last of some times; days of dates."""
    first, last = time.min(), time.max()
    if time.dtype.kind == "M":
        return f"{first.astype('datetime64[D]')} to {last.astype('datetime64[D]')}"
    return f"time {first:.10g} to {last:.10g}" if time.dtype.kind == "f" else f"time {first} to {last}"


def check_alike(parts: tuple[TemporalEdges, ...]) -> None:
    """Refuse sets of edges of which some, but not all, are bipartite or have datetimes."""
    if len({part.bipartite for part in parts}) > 1:
        raise EdgesError("Some of these edges are bipartite and others are not. Use one kind.")
    if len({part.time_unit is None for part in parts}) > 1:
        raise EdgesError("Some of these edges have datetimes and others have plain numbers. Use one kind.")
