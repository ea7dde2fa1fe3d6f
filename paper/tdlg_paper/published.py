"""The numbers that the paper prints, and those of its authors' notebook, from the csv files in published_numbers/."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean over trials with the half width of its 95 % interval, as shares of 1; NaN if unknown.

    `epochs` is set if trials would have taken too long with all epochs, and had fewer.
    """

    mean: float
    half_width: float
    trials: int
    seconds: float = float("nan")
    epochs: int | None = None


@cache
def paper_auc() -> dict[tuple[str, str, str], Estimate]:
    """The paper's AUCs by (task, method, data set); those that it could not measure are missing.

    Examples
    --------
    >>> paper_auc()["edge classification", "TDLG", "bitcoinalpha"].mean
    0.9216
    """
    return {
        (row["task"], row["method"], row["dataset"]): Estimate(_share(row["mean"]), _share(row["half_width"]), trials)
        for name, trials in (("edge-classification", 10), ("link-prediction", 5))
        for row in _rows(name)
        if row["mean"]
    }


@cache
def notebook_auc() -> dict[tuple[str, str], float]:
    """The AUCs of TDLG that the authors' notebook shows, by (task, data set)."""
    return {(row["task"], row["dataset"]): _share(row["mean"]) for row in _rows("notebook")}


@cache
def paper_datasets() -> dict[str, dict[str, int]]:
    """The paper's counts of nodes, edges and days, by data set."""
    return {row.pop("dataset"): {name: int(count) for name, count in row.items()} for row in _rows("datasets")}


def _rows(name: str) -> list[dict[str, str]]:
    text = (Path(__file__).parent / "published_numbers" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _share(per_cent: str) -> float:
    return round(float(per_cent) / 100, 6) if per_cent else float("nan")
