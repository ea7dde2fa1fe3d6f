"""Data of the Temporal Graph Benchmark (TGB): its dictionaries of arrays, and the csv files of its link data sets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg.atomic import as_path
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, ReadError

if TYPE_CHECKING:
    import polars as pl

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
    if not isinstance(data, Mapping) or not set(wanted) <= set(data):
        found = sorted(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
        raise ReadError(f"The data of TGB must have {', '.join(map(repr, wanted))}. Got {found} instead.")
    src, dst, time, *more = (np.asarray(data[name]) for name in wanted)
    try:
        return TemporalEdges(src, dst, time, features=more[0] if more else None)
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
        The edges in the order of the file, with times in seconds; further columns are not read. A day, as in flight, is
        its start in UTC, where TGB takes the time zone of the machine. Negatives of TGB, a dictionary by (source,
        destination, time), fit to them, see `tdlg.judge.ranking.RankingTask`.

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
    import polars as pl

    path = as_path(path)
    found = re.search(r"tgbl-([a-z]+)", path.name)
    kind = name.removeprefix("tgbl-") if name is not None else found[1] if found else ""
    if kind not in (*OF_USERS, *TIME_FIRST):
        problem = (
            f"{path.name!r} does not name a data set of TGB." if name is None else f"TGB has no data set {name!r}."
        )
        hint = f"Pass name=, one of {', '.join((*OF_USERS, *TIME_FIRST))}."
        raise ParameterError(problem, hint, parameter="name")
    if not path.is_file():
        raise ReadError(f"There is no file {str(path)!r}. Give the path of a csv file of TGB.")
    at = (0, 1, 2) if kind in OF_USERS else (1, 2, 0)
    try:  # all cells as text: their types are not those of the first rows, which may be longer than the header
        table = pl.read_csv(path, has_header=False, skip_rows=1, columns=[0, 1, 2], infer_schema_length=0)
    except pl.exceptions.PolarsError as error:
        raise ReadError(f"{path}: this is not a csv file of TGB ({str(error)[:200]}). Get the right file.") from None
    src, dst, time = (table.to_series(k) for k in at)
    days = time.str.strip_chars().str.to_date("%Y-%m-%d", strict=False).dt.epoch("s")
    time = time.str.strip_chars().cast(pl.Float64, strict=False).fill_null(days.cast(pl.Float64))
    if kind in OF_USERS:
        src, dst = (ids.str.strip_chars().cast(pl.Int64, strict=False) for ids in (src, dst))
    for k, column in zip(at, (src, dst, time), strict=True):
        if column.null_count():
            wanted = "text" if column.dtype == pl.String else "numbers or dates" if column is time else "numbers"
            raise ReadError(
                f"{path}: all cells of the column {k + 1} must be {wanted}. Row {1 + (column.is_null().arg_max() or 0):,} "
                "after the header is not. Get the right file."
            )
    when = (time.cast(pl.Int64) if (time % 1 == 0).all() else time).to_numpy()
    if kind in OF_USERS:
        return TemporalEdges(src.to_numpy(), dst.to_numpy() + (int(src.max()) + 1 if len(src) else 0), when)  # type: ignore[arg-type]
    sources, destinations = _numbered(src, dst)
    return TemporalEdges(sources, destinations, when)


def _numbered(src: pl.Series, dst: pl.Series) -> list[NDArray[np.int64]]:
    """Numbers in the order of first appearance, row by row."""
    import polars as pl

    both = pl.DataFrame({"src": src, "dst": dst}).select(id=pl.concat_list("src", "dst")).explode("id")
    ids = both.unique(maintain_order=True).with_row_index("number")
    numbers = both.join(ids, on="id", how="left", maintain_order="left")["number"].cast(pl.Int64).to_numpy()
    return [numbers[::2], numbers[1::2]]
