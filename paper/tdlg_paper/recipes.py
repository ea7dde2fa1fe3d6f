"""RECIPES: what is run for each table and figure of the paper, on which data sets, with which methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tdlg.judge.methods import METHODS, make_method
from tdlg.linegraph.decay import Gaussian, Laplace

Protocol = Literal["paper", "notebook"]
Kind = Literal["TDLG", "prior method", "further method", "reference"]
Variants = Mapping[str, Mapping[str, Any]]

DATASETS = ("bitcoinalpha", "bitcoinotc", "escorts", "wikielect", "epinions")
ABLATED = DATASETS[:4]  # means are over these too: the deep methods do not run on Epinions

EDGE = "edge classification"
INTERPOLATIVE = "link prediction, interpolative"
EXTRAPOLATIVE = "link prediction, extrapolative"


@dataclass(frozen=True)
class Entry:
    """One method of the comparison, in the order of the paper's tables.

    "TDLG" are the paper's own methods, and a "prior method" is one that it compares with; what we add is a "further method"
    if it is published, else a "reference".
    """

    key: str  # its name in METHODS, whether this version has it or not
    name: str  # in the paper's tables
    kind: Kind
    deep: bool = False  # left out on Epinions, where the deep methods needed too much memory for the paper to run them
    selected: bool = (
        False  # whether the paper also runs it on link prediction, and shows it in figures of single data sets
    )
    trials: int = 10  # at most, for a method that takes long
    rows: tuple[str, str] | None = None  # its name and settings in result rows, if not the name without settings

    @property
    def row_key(self) -> tuple[str, str]:
        """The method and its settings in result rows."""
        return self.rows or (self.name, "")


LINEUP = (
    Entry("tdlg", "TDLG", "TDLG", selected=True),
    Entry("tdlg-dense", "TDLG (Dense)", "TDLG"),
    Entry("ctdne", "CTDNE", "prior method", selected=True),
    Entry("timers", "TIMERS", "prior method", selected=True),
    Entry("evolvegcn", "EvolveGCN", "prior method", deep=True, selected=True, trials=1),
    Entry("dyngem", "DynGEM", "prior method", deep=True, selected=True, trials=1),
    Entry("gcrn", "GCRN", "prior method", deep=True, trials=1),
    Entry("vgrnn", "VGRNN", "prior method", deep=True, trials=1),
    Entry("evolvegcn-o", "EvolveGCN-O", "further method", deep=True, trials=1, rows=("EvolveGCN", "variant='O'")),
    Entry("dylink2vec", "DyLink2Vec", "further method", deep=True, trials=3),
    Entry("dyrep", "DyRep", "further method", deep=True, trials=1),
    Entry("label-rates", "label rates", "reference"),
    Entry("edgebank", "EdgeBank", "reference"),
)


def entries(task: str, *, selected: bool = False) -> tuple[Entry, ...]:
    """The methods that have a line in the table of a task."""
    kept = [entry for entry in LINEUP if (entry.key != "edgebank" if task == EDGE else is_shown(entry))]
    return tuple(entry for entry in kept if not selected or is_shown(entry))


def is_shown(entry: Entry) -> bool:
    """Whether a method is in the figures of single data sets, and in link prediction."""
    return entry.selected or entry.kind == "reference"


BANDWIDTHS = (0.001, 0.003162, 0.01, 0.03162, 0.1, 0.3162, 1.0, 3.162, 10.0)  # of the times' standard deviation
NORMALISATIONS = ("none", "spectral", "edge")
DECAYS = ("Gaussian", "Laplace")
TRIALS = {("edge", "paper"): 10, ("edge", "notebook"): 5, ("link", "paper"): 5, ("link", "notebook"): 3}
ABLATION_TRIALS, WALK_TRIALS, RUNTIME_TRIALS = 5, 3, 3
WALKS: dict[str, dict[str, Any]] = {  # how the walks of CTDNE may be sampled otherwise
    "as above": {},
    "50 walks a node": {"n_walks": 50},
    "5 epochs": {"epochs": 5},
    "exponential bias": {"walk_bias": "exponential"},
    "short walks too": {"min_length": 2},
    "undirected": {"directed": False},
}


@dataclass(frozen=True)
class Run:
    """One method on one task of one data set."""

    method: str  # its name in METHODS
    task: Literal["edge", "link"]
    dataset: str
    trials: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    value: str = ""  # that an ablation varies

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
    """A table or figure of the paper; its rows are in a file of its name, and it may show the rows of other recipes."""

    name: str
    title: str
    runs: Callable[[Protocol], list[Run]] = field(default=lambda protocol: [])
    needs: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = ("paper",)


def _table(task: Literal["edge", "link"], of_task: str) -> Callable[[Protocol], list[Run]]:
    """Every method of a table on every data set; for the notebook's protocol, only TDLG."""

    def runs(protocol: Protocol) -> list[Run]:
        trials = TRIALS[task, protocol]
        if protocol == "notebook":
            return [Run("tdlg", task, name, trials, {"protocol": "notebook"}) for name in ABLATED]
        return [
            Run(entry.key, task, name, min(trials, entry.trials))
            for name in DATASETS
            for entry in entries(of_task)
            if not (entry.deep and name == "epinions")
        ]

    return runs


def _runtimes(protocol: Protocol) -> list[Run]:
    """The quick methods; seconds of the deep ones are those of their rows of edge classification."""
    quick = [entry.key for entry in entries(EDGE) if not entry.deep]
    return [Run(key, "edge", name, RUNTIME_TRIALS) for name in DATASETS for key in quick]


def _varied(
    variants: Variants, method: str = "tdlg", trials: int = ABLATION_TRIALS, datasets: Sequence[str] = ABLATED
) -> Callable[[Protocol], list[Run]]:
    """Edge classification of a method with each of these settings."""
    return lambda protocol: [
        Run(method, "edge", name, trials, settings, value) for name in datasets for value, settings in variants.items()
    ]


_walks = _varied(WALKS, "ctdne", WALK_TRIALS, ABLATED[:3])
_BY_BANDWIDTH = {f"{value:g}": {"decay": Gaussian(relative=value)} for value in BANDWIDTHS}
_BY_NORMALISATION = {name: {"normalization": None if name == "none" else name} for name in NORMALISATIONS}
_BY_DECAY: Variants = {"Gaussian": {"decay": Gaussian(relative=0.1)}, "Laplace": {"decay": Laplace(relative=0.1)}}
_BOTH: tuple[Protocol, ...] = ("paper", "notebook")
_TABLES = ("edge-classification", "link-prediction")
_ALL = (
    Recipe("datasets", "Table of data sets"),
    Recipe("synthetic-network", "Figure of the synthetic network: early and late edges, their union, their times"),
    Recipe("synthetic-method", "Figure of the method on the synthetic network: line graph, edge and node embeddings"),
    Recipe("edge-classification", "Table of edge classification", _table("edge", EDGE), protocols=_BOTH),
    Recipe(
        "link-prediction", "Tables of link prediction, both settings", _table("link", INTERPOLATIVE), protocols=_BOTH
    ),
    Recipe("edge-classification-figure", "Figure of edge classification", needs=_TABLES[:1]),
    Recipe("means", "Figure of means over data sets", needs=_TABLES),
    Recipe("runtime", "Figure of runtimes", _runtimes),
    Recipe("ctdne", "Table of CTDNE with walks that are sampled in other ways", _walks),
    Recipe("link-prediction-figure", "Figure of link prediction, both settings", needs=_TABLES[1:]),
    Recipe("bandwidth", "Figure of the bandwidth's influence", _varied(_BY_BANDWIDTH)),
    Recipe("normalisation", "Figure of the normalisation's influence", _varied(_BY_NORMALISATION)),
    Recipe("decay", "Table of Laplace decay beside Gaussian, which the paper only names", _varied(_BY_DECAY)),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}
