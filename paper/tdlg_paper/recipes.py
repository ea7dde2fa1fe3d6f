"""RECIPES: what is run for each table and figure of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tdlg.judge.methods import METHODS, make_method
from tdlg.linegraph.decay import Gaussian, Laplace
from tdlg_paper.lineup import ABLATED, DATASETS, EDGE, INTERPOLATIVE, LINEUP, entries

__all__ = ["BANDWIDTHS", "DECAYS", "NORMALISATIONS", "RECIPES", "WALKS", "Protocol", "Recipe", "Run"]

Protocol = Literal["paper", "notebook"]

BANDWIDTHS = (0.001, 0.003162, 0.01, 0.03162, 0.1, 0.3162, 1.0, 3.162, 10.0)  # of the times' standard deviation
NORMALISATIONS = ("none", "spectral", "edge")
DECAYS = ("Gaussian", "Laplace")
TRIALS = {("edge", "paper"): 10, ("edge", "notebook"): 5, ("link", "paper"): 5, ("link", "notebook"): 3}
ABLATION_TRIALS = 5
WALK_TRIALS = 3
WALKS: dict[str, dict[str, Any]] = {  # how the walks of CTDNE may be sampled otherwise
    "as above": {},
    "50 walks a node": {"n_walks": 50},
    "5 epochs": {"epochs": 5},
    "exponential bias": {"walk_bias": "exponential"},
    "short walks too": {"min_length": 2},
    "undirected": {"directed": False},
}
RUNTIME_TRIALS = 3


@dataclass(frozen=True)
class Run:
    """One method on one task of one data set.

    Attributes
    ----------
    method
        Its name in `tdlg.judge.methods.METHODS`.
    task
        "edge" or "link".
    dataset
        A name of `tdlg.datasets.DATASETS`.
    trials
        Number of trials.
    settings
        Parameters of the method.
    value
        The value that an ablation varies.
    """

    method: str
    task: Literal["edge", "link"]
    dataset: str
    trials: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    value: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether this version has the method."""
        return self.method in METHODS

    def build(self) -> Any:
        """Make the method. In link prediction, classes have equal weight unless the settings name a protocol."""
        method = make_method(self.method, **self.settings)
        if self.task == "link" and "protocol" not in self.settings and method.get_params().get("class_weight"):
            method.set_params(class_weight=None)
        return method


@dataclass(frozen=True)
class Recipe:
    """A table or figure of the paper.

    Attributes
    ----------
    name
        The name that `reproduce` takes; the rows are kept in a file of this name.
    title
        What it shows.
    runs
        Returns the runs under a protocol; none for a recipe that only shows rows of others, or has no trials.
    needs
        Recipes whose rows it shows.
    protocols
        The protocols that it can follow.
    """

    name: str
    title: str
    runs: Callable[[Protocol], list[Run]] = field(default=lambda protocol: [])
    needs: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = ("paper",)


def _edge_runs(protocol: Protocol) -> list[Run]:
    """All methods of the paper's large table."""
    return _table_runs("edge", EDGE, protocol)


def _link_runs(protocol: Protocol) -> list[Run]:
    """The selected methods; each trial is evaluated in both settings."""
    return _table_runs("link", INTERPOLATIVE, protocol)


def _table_runs(task: Literal["edge", "link"], table: str, protocol: Protocol) -> list[Run]:
    """Every method of a table on every data set; for the notebook's protocol, only TDLG."""
    trials = TRIALS[task, protocol]
    if protocol == "notebook":
        return [Run("tdlg", task, name, trials, {"protocol": "notebook"}) for name in ABLATED]
    return [
        Run(entry.key, task, name, min(trials, entry.trials))
        for name in DATASETS
        for entry in entries(table)
        if not (entry.deep and name == "epinions")
    ]


def _runtime_runs(protocol: Protocol) -> list[Run]:
    """The quick methods; seconds of the deep ones are those of their rows of edge classification."""
    return [
        Run(entry.key, "edge", name, RUNTIME_TRIALS)
        for name in DATASETS
        for entry in LINEUP
        if (entry.selected or entry.key in ("tdlg-dense", "label-rates")) and not entry.deep
    ]


def _walk_runs(protocol: Protocol) -> list[Run]:
    return [
        Run("ctdne", "edge", name, WALK_TRIALS, settings, value)
        for name in ABLATED
        for value, settings in WALKS.items()
    ]


def _varied(variants: Mapping[str, Mapping[str, Any]]) -> Callable[[Protocol], list[Run]]:
    """TDLG's edge classification with each of these settings."""

    def runs(protocol: Protocol) -> list[Run]:
        return [
            Run("tdlg", "edge", name, ABLATION_TRIALS, settings, value)
            for name in ABLATED
            for value, settings in variants.items()
        ]

    return runs


_ALL = (
    Recipe("datasets", "Table of data sets"),
    Recipe("synthetic-network", "Figure of the synthetic network: early and late edges, their union, their times"),
    Recipe("synthetic-method", "Figure of the method on the synthetic network: line graph, edge and node embeddings"),
    Recipe("edge-classification", "Table of edge classification", _edge_runs, protocols=("paper", "notebook")),
    Recipe("link-prediction", "Tables of link prediction, both settings", _link_runs, protocols=("paper", "notebook")),
    Recipe("edge-classification-figure", "Figure of edge classification", needs=("edge-classification",)),
    Recipe("means", "Figure of means over data sets", needs=("edge-classification", "link-prediction")),
    Recipe("runtime", "Figure of runtimes", _runtime_runs),
    Recipe("ctdne", "Table of CTDNE with walks that are sampled in other ways", _walk_runs),
    Recipe("link-prediction-figure", "Figure of link prediction, both settings", needs=("link-prediction",)),
    Recipe(
        "bandwidth",
        "Figure of the bandwidth's influence",
        _varied({f"{value:g}": {"decay": Gaussian(relative=value)} for value in BANDWIDTHS}),
    ),
    Recipe(
        "normalisation",
        "Figure of the normalisation's influence",
        _varied({name: {"normalization": None if name == "none" else name} for name in NORMALISATIONS}),
    ),
    Recipe(
        "decay",
        "Table of Laplace decay beside Gaussian, which the paper only names",
        _varied({"Gaussian": {"decay": Gaussian(relative=0.1)}, "Laplace": {"decay": Laplace(relative=0.1)}}),
    ),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}
