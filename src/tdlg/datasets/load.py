"""`load_dataset`: a public data set as TemporalEdges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.datasets.files import dataset_file
from tdlg.datasets.registry import DATASETS, Dataset, named
from tdlg.edges import TemporalEdges
from tdlg.exceptions import Hint, ParameterError, ReadError
from tdlg.io import read_edges

__all__ = ["load_dataset"]

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
    seconds since the first edit. A bandwidth is then in seconds too, unless `dates` is set.

    Parameters
    ----------
    name
        One of `tdlg.datasets.DATASETS`, which also has the licence, the citation and the meaning of a label:
        "bitcoinalpha", "bitcoinotc", "escorts", "wikielect" and "epinions" have labels; "collegemsg",
        "fb-forum" and "wikipedia" have none.
    label
        "positive": 1 if the rating is above 0, else 0; "rating": the rating itself, a whole number. The rating is never
        used as the weight too, because models that use weights would then see the label.
    bipartite
        Whether src and dst are nodes of two types. By default as in the published results ("escorts" is not bipartite:
        equal numbers of a buyer and an escort are one node), and True for "fb-forum" and "wikipedia".
    dates
        Whether times are datetimes, in UTC; a bandwidth is then a duration such as "7d". Not for "wikipedia" and
        "epinions-topology", whose dates are not known.
    random_state
        Seed for the times of "epinions-topology" only: its file has no times, so they are SYNTHETIC, sampled uniformly
        over 943 days. Use this data set to measure speed only; for results about Epinions use "epinions".
    check
        Whether an unpacked file must have the known sha256; see `dataset_file`.

    Returns
    -------
    TemporalEdges
        The edges, with labels if the data set has ratings.

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
    if "time" in dataset.columns:
        edges = _read(path, dataset, two_kinds, "s" if dates else None)
    else:
        edges = _read_with_times_made_up(path, dataset, two_kinds, random_state)
    return edges if edges.label is None else edges.with_label(_labels(edges.label, label, path))


def _check_label(dataset: Dataset, label: Any) -> None:
    if label not in LABELS:
        raise ParameterError(f"The 'label' must be one of {LABELS}. Got {label!r} instead.")
    if label == "rating" and "rating" not in dataset.columns:
        rated = [name for name, other in DATASETS.items() if "rating" in other.columns]
        raise ParameterError(
            f"The data set {dataset.name!r} has no ratings, but {rated} have.",
            Hint("Leave out {label}, or load one of these.", label=...),
            parameter="label",
            value=label,
        )


def _check_random_state(dataset: Dataset, random_state: Any) -> None:
    if "time" in dataset.columns and random_state is not None:
        raise ParameterError(
            f"The 'random_state' is only for synthetic times, but {dataset.name!r} has real times. Got {random_state!r}. "
            f"Leave it out."
        )
    if "time" not in dataset.columns and random_state is None:
        raise ParameterError(
            f"The file of {dataset.name!r} has no times: they are synthetic, for measuring speed only.",
            Hint("Pass {random_state}, or another seed, to sample them.", random_state=0),
            parameter="random_state",
        )


def _check_dates(dataset: Dataset, dates: bool) -> None:
    if dates and not dataset.dated:
        raise ParameterError(
            f"The times of {dataset.name!r} are not dates: they count from an unknown start.",
            Hint("Leave out {dates}.", dates=True),
            parameter="dates",
            value=dates,
        )


def _read(path: Path, dataset: Dataset, bipartite: bool, time_unit: str | None) -> TemporalEdges:
    at = {role: position for position, role in enumerate(dataset.columns)}
    return read_edges(
        path,
        src=at["src"],
        dst=at["dst"],
        time=at["time"],
        label=at.get("rating"),
        bipartite=bipartite,
        time_unit=time_unit,
    )


def _read_with_times_made_up(path: Path, dataset: Dataset, bipartite: bool, random_state: Any) -> TemporalEdges:
    at = {role: position for position, role in enumerate(dataset.columns)}
    read = read_edges(path, src=at["src"], dst=at["dst"], time=at["rating"])  # reads the ratings as times
    times = np.random.default_rng(random_state).integers(0, 943 * DAY, len(read))
    return TemporalEdges(read.src, read.dst, times, label=read.ticks, bipartite=bipartite)


def _labels(rating: NDArray[Any], label: str, path: Path) -> NDArray[Any]:
    if rating.dtype.kind not in "iu":
        raise ReadError(f"{path}: the ratings must be whole numbers, one in every row. Get the right file.")
    return rating if label == "rating" else (rating > 0).astype(np.int64)
