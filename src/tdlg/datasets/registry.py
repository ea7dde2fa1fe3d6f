"""Description of each data set: its file and sha256, where it is published, its columns, terms and figures."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from tdlg.exceptions import ParameterError

ROLES = {"src", "dst", "time", "rating", "label"}


@dataclass(frozen=True)
class Dataset:
    """One public data set: a file with a known sha256, and what is in it."""

    name: str
    files: tuple[str, ...]  # names that the unpacked file may have; the first is its original name
    sha256: str  # of the unpacked file
    # in order: "src", "dst", "time", "rating" (a number whose sign is the label), "label", and the names of features;
    # further columns of the file are not read
    columns: tuple[str, ...]
    page: str  # where it is described
    address: str | None  # of the file, an archive with it, or a table that it is made from; None: get it by hand
    licence: str
    citation: str
    n_nodes: int  # as `load_dataset` counts them by default
    n_edges: int
    days: int | None  # from the first edge to the last, rounded; None if the file has no times
    positive: float | None = None  # per cent of the labels that are 1, to two decimals; None without labels
    label: str | None = None  # the meaning of a label of 1
    bipartite: bool = False  # whether src and dst are nodes of two types by default
    dated: bool = True  # whether times are seconds since 1970, so that their dates are known
    note: str = ""  # what to know before using it
    by_hand: str = ""  # how to make the file, if it is not offered for download as it is

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of the file that are features of the edges."""
        return tuple(column for column in self.columns if column not in ROLES)

    @property
    def packed_files(self) -> tuple[str, ...]:
        """Names that the packed file may have: as downloaded, or as .gz or .zip."""
        packed = [] if self.address is None else [PurePosixPath(self.address).name]
        for file in self.files:
            packed += [f"{file}.gz", f"{PurePosixPath(file).stem}.zip"]
        return tuple(dict.fromkeys(packed))


def named(name: Any) -> Dataset:
    """The data set of this name."""
    if isinstance(name, str) and name in DATASETS:
        return DATASETS[name]
    close = difflib.get_close_matches(str(name), DATASETS, 1, 0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise ParameterError(
        f"There is no data set {name!r}. {hint}The names are: {', '.join(DATASETS)}.", parameter="name"
    )


def _read_registry() -> dict[str, Dataset]:
    found = tomllib.loads(files("tdlg.datasets").joinpath("registry.toml").read_text(encoding="utf-8"))
    papers, terms = found["papers"], found["terms"]
    return {
        name: Dataset(
            name,
            **given
            | {
                "files": tuple(given["files"]),
                "columns": tuple(given["columns"]),
                "address": given.get("address"),
                "days": given.get("days"),
                "licence": terms.get(given["licence"], given["licence"]),
                "citation": " ".join(papers.get(paper, paper) for paper in given["citation"]),
            },
        )
        for name, given in found["datasets"].items()
    }


DATASETS: dict[str, Dataset] = _read_registry()
