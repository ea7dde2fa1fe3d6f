"""`load_dataset`: a public data set as TemporalEdges; `describe`: the figures of edges, as in the registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tdlg.clock import ticks_per_second
from tdlg.datasets.fetch import DATASETS, Dataset, dataset_file, named
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, ReadError
from tdlg.io import read_edges

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
    _check_options(dataset, label, dates, random_state)
    path = dataset_file(name, check=check)
    two_kinds = dataset.bipartite if bipartite is None else bool(bipartite)
    if name == "darpa":
        return TemporalEdges(**_columns_of_darpa(path, dates), bipartite=two_kinds)
    at = {role: position for position, role in enumerate(dataset.columns)}
    edges = read_edges(
        path,
        src=at["src"],
        dst=at["dst"],
        time=at.get("time", at.get("rating")),  # without times, the ratings are read in their place
        label=at.get("rating", at.get("label")) if "time" in at else None,
        features=[at[name] for name in dataset.features],
        bipartite=two_kinds,
        time_unit="s" if dates and path.suffix != ".parquet" else None,
    )
    labels, ticks = edges.label, edges.ticks
    if "time" not in at:
        labels, ticks = ticks, np.random.default_rng(random_state).integers(0, 943 * DAY, len(edges))
    if labels is not None and labels.dtype.kind not in "iu":
        raise ReadError(f"{path}: the ratings must be whole numbers, one in every row. Get the right file.")
    if labels is not None and label == "positive":
        labels = (labels > 0).astype(np.int64)
    if "time" in at and (dates or edges.time_unit is None):
        return edges if labels is None else edges.with_label(labels)
    if edges.time_unit is not None:
        ticks = edges.time.astype("datetime64[s]").astype(np.int64)
    features = None if edges.features is None else dict(zip(edges.feature_names, edges.features.T, strict=True))
    return TemporalEdges(edges.src, edges.dst, ticks, label=labels, features=features, bipartite=two_kinds)


def _check_options(dataset: Dataset, label: Any, dates: bool, random_state: Any) -> None:
    if label not in LABELS:
        raise ParameterError(f"The 'label' must be one of {LABELS}. Got {label!r} instead.", parameter="label")
    if label == "rating" and "rating" not in dataset.columns:
        rated = [name for name, other in DATASETS.items() if "rating" in other.columns]
        raise ParameterError(
            f"The data set {dataset.name!r} has no ratings, but {rated} have.",
            "Leave out label=, or load one of these.",
            parameter="label",
        )
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
    if dates and not dataset.dated:
        raise ParameterError(
            f"The times of {dataset.name!r} are not dates: they count from an unknown start.",
            "Leave out dates=True.",
            parameter="dates",
        )


def _columns_of_darpa(path: Path, dates: bool) -> dict[str, Any]:
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
    return {"src": table["src"], "dst": table["dst"], "time": time if dates else time.astype(np.int64), "label": label}


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
    positive = None
    if edges.label is not None and edges.label.dtype.kind in "biuf" and edges.labelled.any():
        positive = round(100 * float(np.mean(edges.label[edges.labelled] > 0)), 2)
    return {"n_nodes": edges.n_nodes, "n_edges": len(edges), "days": days, "positive": positive}
