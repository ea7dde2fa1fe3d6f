"""`load_dataset`: a public data set as TemporalEdges; `dataset_table`: the figures of data sets, counted again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import ticks_per_second
from tdlg.datasets.fetch import dataset_file, is_available
from tdlg.datasets.registry import DATASETS, Dataset, named
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, ReadError
from tdlg.io import read_edges

__all__ = ["dataset_table", "describe", "load_dataset"]

DAY = 86400  # seconds
LABELS = ("positive", "rating")


def load_dataset(
    name: str,
    *,
    label: str = "positive",
    bipartite: bool | None = None,
    dates: bool = False,
    random_state: Any = None,
    check: bool = True,
) -> TemporalEdges:
    """Load a public data set by name: edges in the order of its file, with times in seconds or as datetimes.

    The file is searched in the folder that the environment variable TDLG_DATA names, then in the user's cache; if it is in
    neither, it is downloaded. Its sha256 is checked every time. Times are numbers: seconds since 1970, or for "wikipedia"
    and "wikipedia-bans" seconds since the first edit. A bandwidth is then in seconds too, unless `dates` is set.

    Parameters
    ----------
    name
        One of `tdlg.datasets.DATASETS`, which also has the licence, the citation and the meaning of a label:
        "bitcoinalpha", "bitcoinotc", "escorts", "wikielect" and "epinions" have ratings; "handbook" (card payments),
        "darpa" (network connections) and "wikipedia-bans" have labels 1 and 0; "collegemsg", "fb-forum" and "wikipedia"
        have no labels.
    label
        For data sets with ratings, "positive": 1 if the rating is above 0, else 0; "rating": the rating itself, a whole
        number. The rating is never used as the weight too, because models that use weights would then see the label.
    bipartite
        Whether src and dst are nodes of two types. By default as in the published results ("escorts" is not bipartite:
        equal numbers of a buyer and an escort are one node), and True for "fb-forum", "wikipedia", "wikipedia-bans" and
        "handbook".
    dates
        Whether times are datetimes, in UTC; a bandwidth is then a duration such as "7d". Not for "wikipedia",
        "wikipedia-bans" and "epinions-topology", whose dates are not known. ("handbook" and "darpa" have local times.)
    random_state
        Seed for the times of "epinions-topology" only: its file has no times, so they are SYNTHETIC, sampled uniformly
        over 943 days. Use this data set to measure speed only; for results about Epinions use "epinions".
    check
        Whether an unpacked file must have the known sha256; see `dataset_file`.

    Returns
    -------
    TemporalEdges
        The edges, with labels if the data set has ratings or labels; "handbook" has the feature "amount".

    Raises
    ------
    ParameterError
        If the data set is unknown, or does not support an argument.
    ReadError
        If the file is not available or is not the right one; the message says which file to put where.

    Examples
    --------
    >>> from tdlg.datasets import DATASETS
    >>> DATASETS["bitcoinalpha"].n_edges, DATASETS["bitcoinalpha"].label
    (24186, 'the rater trusts the rated trader: a rating above 0, of -10 to 10')
    >>> load_dataset("bitcoin-alpha")
    Traceback (most recent call last):
    tdlg.exceptions.ParameterError: There is no data set 'bitcoin-alpha'. Did you mean 'bitcoinalpha'? ...
    """
    dataset = named(name)
    _check_label(dataset, label)
    _check_random_state(dataset, random_state)
    _check_dates(dataset, dates)
    path = dataset_file(name, check=check)
    two_kinds = dataset.bipartite if bipartite is None else bool(bipartite)
    if name == "darpa":
        return _read_darpa(path, two_kinds, dates)
    if "time" in dataset.columns:
        edges = _read(path, dataset, two_kinds, dates)
    else:
        edges = _read_with_synthetic_times(path, dataset, two_kinds, random_state)
    return edges if edges.label is None else edges.with_label(_labels(edges.label, label, path))


def _check_label(dataset: Dataset, label: Any) -> None:
    if label not in LABELS:
        raise ParameterError(f"The 'label' must be one of {LABELS}. Got {label!r} instead.", parameter="label")
    if label == "rating" and "rating" not in dataset.columns:
        rated = [name for name, other in DATASETS.items() if "rating" in other.columns]
        raise ParameterError(
            f"The data set {dataset.name!r} has no ratings, but {rated} have.",
            "Leave out label=, or load one of these.",
            parameter="label",
        )


def _check_random_state(dataset: Dataset, random_state: Any) -> None:
    if "time" in dataset.columns and random_state is not None:
        raise ParameterError(
            f"The 'random_state' is only for synthetic times, but {dataset.name!r} has real times. Got {random_state!r}.",
            "Leave out random_state=.",
            parameter="random_state",
        )
    if "time" not in dataset.columns and random_state is None:
        raise ParameterError(
            f"The file of {dataset.name!r} has no times: they are synthetic, for measuring speed only.",
            "Pass random_state=0, or another seed, to sample them.",
            parameter="random_state",
        )


def _check_dates(dataset: Dataset, dates: bool) -> None:
    if dates and not dataset.dated:
        raise ParameterError(
            f"The times of {dataset.name!r} are not dates: they count from an unknown start.",
            "Leave out dates=True.",
            parameter="dates",
        )


def _read(path: Path, dataset: Dataset, bipartite: bool, dates: bool) -> TemporalEdges:
    at = {role: position for position, role in enumerate(dataset.columns)}
    edges = read_edges(
        path,
        src=at["src"],
        dst=at["dst"],
        time=at["time"],
        label=at.get("rating", at.get("label")),
        features=[at[name] for name in dataset.features],
        bipartite=bipartite,
        time_unit="s" if dates and path.suffix != ".parquet" else None,
    )
    return edges if dates or edges.time_unit is None else _in_seconds(edges)


def _in_seconds(edges: TemporalEdges) -> TemporalEdges:
    """The same edges with times in seconds since 1970 instead of datetimes."""
    seconds = edges.time.astype("datetime64[s]").astype(np.int64)
    features = None if edges.features is None else dict(zip(edges.feature_names, edges.features.T, strict=True))
    return TemporalEdges(edges.src, edges.dst, seconds, label=edges.label, features=features, bipartite=edges.bipartite)


def _read_darpa(path: Path, bipartite: bool, dates: bool) -> TemporalEdges:
    """Lines "source, destination, month/day/year-hour:minute, attack"; the attack is "-" for an ordinary connection."""
    import polars as pl

    try:
        table = pl.read_csv(path, has_header=False, new_columns=["src", "dst", "time", "attack"])
        text = table["time"].str.replace("07/32/1998", "08/01/1998", literal=True)  # ten rows: the day after 07/31
        times = text.str.to_datetime("%m/%d/%Y-%H:%M", time_unit="ms")
        attack = table["attack"] != "-"
    except pl.exceptions.PolarsError as error:
        raise ReadError(
            f"{path}: the file must have the columns source, destination, minute (such as 06/01/1998-07:55) and attack, and "
            f"no header ({str(error)[:200]}). Get the right file."
        ) from None
    time = times.to_numpy().astype("datetime64[s]")
    label = attack.to_numpy().astype(np.int64)
    return TemporalEdges(
        table["src"], table["dst"], time if dates else time.astype(np.int64), label=label, bipartite=bipartite
    )


def _read_with_synthetic_times(path: Path, dataset: Dataset, bipartite: bool, random_state: Any) -> TemporalEdges:
    at = {role: position for position, role in enumerate(dataset.columns)}
    read = read_edges(path, src=at["src"], dst=at["dst"], time=at["rating"], features=())  # reads the ratings as times
    times = np.random.default_rng(random_state).integers(0, 943 * DAY, len(read))
    return TemporalEdges(read.src, read.dst, times, label=read.ticks, bipartite=bipartite)


def _labels(values: NDArray[Any], label: str, path: Path) -> NDArray[Any]:
    if values.dtype.kind not in "iu":
        raise ReadError(f"{path}: the ratings must be whole numbers, one in every row. Get the right file.")
    return values if label == "rating" else (values > 0).astype(np.int64)


# ---- figures of data sets


def describe(edges: TemporalEdges) -> dict[str, int | float | None]:
    """Nodes, edges, days from the first edge to the last (rounded), and the per cent of labels above 0; None if unknown.

    Examples
    --------
    >>> describe(TemporalEdges([1, 2, 1], [2, 3, 3], [0, 86400, 200000], label=[1, 0, 1]))
    {'n_nodes': 3, 'n_edges': 3, 'days': 2, 'positive': 66.67}
    """
    span = float(edges.ticks.max() - edges.ticks.min()) if len(edges) else None
    days = None if span is None else round(span / (DAY * ticks_per_second(edges.time_unit or "s")))
    return {"n_nodes": edges.n_nodes, "n_edges": len(edges), "days": days, "positive": _positive(edges)}


def _positive(edges: TemporalEdges) -> float | None:
    if edges.label is None or edges.label.dtype.kind not in "biuf" or not edges.labelled.any():
        return None
    return round(100 * float(np.mean(edges.label[edges.labelled] > 0)), 2)


def dataset_table(names: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Recompute the figures of data sets, by default of all; those that are not on this machine are "not run: data".

    Nothing is downloaded. Synthetic times have no days. The published figures are in `DATASETS`.

    Examples
    --------
    >>> from tdlg.datasets import dataset_table
    >>> for row in dataset_table(["bitcoinalpha"]):  # doctest: +SKIP
    ...     print(row["name"], row["n_nodes"], row["n_edges"], row["days"], row["positive"])
    bitcoinalpha 3783 24186 1901 93.65
    """
    return [_row(name) for name in (DATASETS if names is None else names)]


def _row(name: str) -> dict[str, Any]:
    has_times = "time" in named(name).columns
    if not is_available(name):
        nothing = dict.fromkeys(("n_nodes", "n_edges", "days", "positive"))
        return {"name": name, **nothing, "status": "not run: data"}
    row = {"name": name, **describe(load_dataset(name, random_state=None if has_times else 0)), "status": "measured"}
    return row if has_times else {**row, "days": None}
