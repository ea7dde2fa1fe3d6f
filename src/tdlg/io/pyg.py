"""Conversion from and to `TemporalData` of PyTorch Geometric. Only `to_pyg` imports torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import check_unit, times_of
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ReadError
from tdlg.tables.labels import known
from tdlg.tables.times import as_times


def from_pyg(
    data: Any,
    *,
    label: str | None = "y",
    weight: str | None = None,
    features: str | None = "msg",
    bipartite: bool = False,
    time_unit: str | None = None,
) -> TemporalEdges:
    """Read temporal edges from a `TemporalData` of PyTorch Geometric: src, dst, t and further tensors.

    Parameters
    ----------
    data
        The events, with tensors on any device.
    label
        Name of the tensor with the labels. By default "y", if there is one; None for no labels.
    weight
        Name of the tensor with the weights. By default the edges have no weights.
    features
        Name of the tensor with the features, one row per event. By default "msg", if there is one; None for no features.
    bipartite
        Whether `src` and `dst` are nodes of two types, see `TemporalEdges`. False by default: the data sets of PyTorch
        Geometric number the destinations after the sources and do not need it.
    time_unit
        Unit of the times since 1970 ("s", "ms", "us" or "ns"), to convert them to datetimes. By default they stay numbers.

    Returns
    -------
    TemporalEdges
        The edges in the order of the events.

    Raises
    ------
    ReadError
        If src, dst, t or a named tensor is missing, or an event is not a valid edge.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> data = SimpleNamespace(src=[0, 1], dst=[2, 2], t=[10, 20], y=[0, 1])  # or TemporalData(...)
    >>> from_pyg(data)
    TemporalEdges(2 edges, 3 nodes, time 10 to 20, label: 2 values)
    """
    check_unit("from_pyg", time_unit)
    columns = [_tensor(data, name) for name in ("src", "dst", "t")]
    if any(column is None for column in columns):
        raise ReadError(
            f"The 'data' must be a TemporalData of PyTorch Geometric, with src, dst and t. "
            f"Got {type(data).__name__} with {_keys(data)} instead.",
            "Create one, or use `TemporalEdges(src, dst, time)`.",
        )
    src, dst, ticks = columns
    matrix = _named(data, "features", features, usual="msg")
    try:
        return TemporalEdges(
            src,
            dst,
            times_of(*as_times(ticks, time_unit=time_unit)),
            label=_named(data, "label", label, usual="y"),
            weight=_named(data, "weight", weight),
            features=matrix if matrix is not None and matrix.size else None,
            bipartite=bipartite,
        )
    except EdgesError as error:
        raise error.as_kind(ReadError, f"The data: {error.problem}") from None


def to_pyg(edges: TemporalEdges) -> Any:
    """Convert temporal edges to a `TemporalData` of PyTorch Geometric, sorted by time as its tools expect.

    - `src` and `dst` are positions in `edges.node_ids`; `edges.node_ids[data.src]` gives your ids back. If
      `edges.bipartite`, the positions of `dst` follow those of `src`.
    - `t` is int64 if the times are integers or datetimes; for datetimes it is `edges.ticks`, counted in `edges.time_unit`
      since 1970. Times with decimals stay float64, unrounded; scale them first for tools that need integers, such as
      `TGNMemory`.
    - `msg` has the features as float32 and `weight` the weights, if there are any.
    - `y` has the labels, if there are any; for strings their positions in `numpy.unique(edges.label[edges.labelled])`. It
      is int64, or float32 if the labels are floats or some are unknown (NaN).
    - `row` has the positions in `edges`, to map predictions back.

    Parameters
    ----------
    edges
        The edges.

    Returns
    -------
    torch_geometric.data.TemporalData
        The data, whose tensors are copies. It needs PyTorch Geometric; from a clone: `pip install ".[pyg]"`.
    """
    try:
        import torch
        from torch_geometric.data import TemporalData
    except ImportError:
        raise ImportError(
            'TemporalData needs PyTorch Geometric. From a clone of tdlg, run: pip install ".[pyg]".'
        ) from None
    columns = {
        "src": edges.src_code.astype(np.int64),
        "dst": edges.dst_code.astype(np.int64),
        "t": edges.ticks,
        "msg": None if edges.features is None else edges.features.astype(np.float32),
        "weight": None if edges.weight is None else edges.weight.astype(np.float32),
        "y": None if edges.label is None else _classes(edges.label),
        "row": np.arange(len(edges)),
    }
    order = np.argsort(edges.ticks, kind="stable")
    return TemporalData(**{name: torch.from_numpy(c[order]) for name, c in columns.items() if c is not None})


def _named(data: Any, role: str, name: str | None, usual: str | None = None) -> NDArray[Any] | None:
    """The named tensor, or None if there is none; only the tensor of the default name may be missing."""
    array = None if name is None else _tensor(data, name)
    if array is None and name is not None and name != usual:
        raise ReadError(
            f"The data has no {name!r} for '{role}'. It has {_keys(data)}.",
            f"Pass one of these, or {role}=None.",
            parameter=role,
        )
    return array


def _tensor(data: Any, name: str) -> NDArray[Any] | None:
    """The tensor as an array; a matrix of one column, which some data sets have, as that column."""
    values = getattr(data, name, None)
    if values is None:
        return None
    tensor = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        array = np.asarray(tensor)
    except TypeError:  # numpy has no bfloat16; float32 holds it exactly
        array = np.asarray(tensor.float())
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _keys(data: Any) -> list[str]:
    return sorted(data.keys()) if hasattr(data, "keys") else sorted(getattr(data, "__dict__", {}))


def _classes(label: NDArray[Any]) -> NDArray[Any]:
    """Labels as numbers that torch holds: NaN where unknown, integers if none is."""
    is_known, numbers = known(label), label
    if label.dtype == object:
        numbers = np.zeros(len(label), np.int64)
        numbers[is_known] = np.unique(label[is_known], return_inverse=True)[1]
    if label.dtype.kind == "f" or not is_known.all():
        return np.where(is_known, numbers, np.nan).astype(np.float32)
    return numbers.astype(np.int64)
