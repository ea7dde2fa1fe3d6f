"""Data of the Temporal Graph Benchmark (TGB): its dictionaries of arrays, and the csv files of its link data sets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, Hint, ParameterError, ReadError

__all__ = ["from_tgb", "read_tgb"]

COLUMNS = ("sources", "destinations", "timestamps")
OF_USERS = ("wiki", "subreddit", "uci", "enron", "lastfm")  # files with the columns user, item, time, ...
TIME_FIRST = ("review", "coin", "comment", "flight")  # files with the columns time, source, destination, ...


def from_tgb(data: Mapping[str, Any], *, features: bool = False) -> TemporalEdges:
    """Make edges of a dictionary such as `LinkPropPredDataset(...).full_data` of the package py-tgb.

    Parameters
    ----------
    data
        Arrays "sources", "destinations" and "timestamps"; for features also "edge_feat".
    features
        Whether "edge_feat" become features. False by default: ranking does not use them.

    Returns
    -------
    TemporalEdges
        The edges in the same order. TGB numbers destinations after the sources, so that the edges need not be bipartite.

    Raises
    ------
    ReadError
        If an array is missing, or the arrays are not valid edges.

    Examples
    --------
    >>> import numpy as np
    >>> from_tgb({"sources": np.array([0, 1]), "destinations": np.array([2, 2]), "timestamps": np.array([5, 6])})
    TemporalEdges(2 edges, 3 nodes, time 5 to 6)
    """
    wanted = (*COLUMNS, "edge_feat") if features else COLUMNS
    missing = [name for name in wanted if not isinstance(data, Mapping) or name not in data]
    if missing:
        found = sorted(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
        raise ReadError(f"The data of TGB must have {', '.join(map(repr, wanted))}. Got {found} instead.")
    src, dst, time = (np.asarray(data[name]) for name in COLUMNS)
    try:
        return TemporalEdges(src, dst, time, features=np.asarray(data["edge_feat"]) if features else None)
    except EdgesError as error:
        raise error.as_kind(ReadError, f"The data of TGB: {error.problem}") from None


def read_tgb(path: str | os.PathLike[str], name: str | None = None) -> TemporalEdges:
    """Read the csv file of a link data set of TGB, with the nodes numbered as TGB numbers them.

    Parameters
    ----------
    path
        The file, for example tgbl-review_edgelist_v2.csv.
    name
        The data set: "wiki", "subreddit", "uci", "enron", "lastfm" (columns user, item, time), or "review", "coin",
        "comment", "flight" (columns time, source, destination). By default it is read from the name of the file.

    Returns
    -------
    TemporalEdges
        The edges in the order of the file, with times in seconds; further columns are not read. Negatives of TGB, a
        dictionary by (source, destination, time), fit to them, see `tdlg.judge.ranking.RankingTask`.

    Raises
    ------
    ReadError
        If the file cannot be read.
    ParameterError
        If the data set is unknown.

    Notes
    -----
    TGB keeps negatives as pickles. A pickle can run any code when it is read, so none is read here: load those that you
    trust with `pickle.load`, and pass the dictionary.
    """
    path = Path(path)
    kind = _kind(path, name)
    at = (0, 1, 2) if kind in OF_USERS else (1, 2, 0)
    src, dst, time = _columns(path, at)
    if kind in OF_USERS:
        return TemporalEdges(src, dst + (int(src.max()) + 1 if len(src) else 0), time)
    both = _numbers(np.stack([src, dst], axis=1).ravel()).reshape(-1, 2)
    return TemporalEdges(both[:, 0], both[:, 1], time)


def _kind(path: Path, name: str | None) -> str:
    known = (*OF_USERS, *TIME_FIRST)
    found = re.search(r"tgbl-([a-z]+)", path.name)
    kind = name.removeprefix("tgbl-") if name is not None else found[1] if found else ""
    if kind not in known:
        raise ParameterError(
            f"{path.name!r} does not name a data set of TGB."
            if name is None
            else f"There is no data set {name!r} of TGB's.",
            Hint("Pass {name}, one of " + ", ".join(known) + ".", name=...),
            parameter="name",
            value=name,
        )
    return kind


def _columns(path: Path, at: tuple[int, int, int]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Sources, destinations and times of a file with a header, whose rows may be longer than the header."""
    import polars as pl

    if not path.is_file():
        raise ReadError(f"There is no file {str(path)!r}. Give the path of a csv file of TGB.")
    try:
        table = pl.read_csv(path, has_header=False, skip_rows=1, columns=sorted(at), infer_schema_length=10_000)
    except pl.exceptions.PolarsError as error:
        raise ReadError(f"{path}: this is not a csv file of TGB ({str(error)[:200]}). Get the right file.") from None
    src, dst, time = (table.to_series(k) for k in at)
    if not time.dtype.is_numeric() or time.null_count() or src.null_count() or dst.null_count():
        raise ReadError(f"{path}: the column {at[2] + 1} must have times as numbers, and no cell may be empty.")
    if time.dtype.is_float() and (time % 1 == 0).all():
        time = time.cast(pl.Int64)
    return src.to_numpy(), dst.to_numpy(), time.to_numpy()


def _numbers(ids: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers in the order of first appearance."""
    _, first, code = np.unique(ids, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[code]
