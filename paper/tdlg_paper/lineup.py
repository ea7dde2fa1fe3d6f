"""What is compared: the paper's data sets, its methods in the order of its tables, and our references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ABLATED", "DATASETS", "EDGE", "EXTRAPOLATIVE", "INTERPOLATIVE", "LINEUP", "Entry", "entries"]

DATASETS = ("bitcoinalpha", "bitcoinotc", "escorts", "wikielect", "epinions")
ABLATED = DATASETS[:4]  # means are over these too: the deep methods do not run on Epinions

EDGE = "edge classification"
INTERPOLATIVE = "link prediction, interpolative"
EXTRAPOLATIVE = "link prediction, extrapolative"

Kind = Literal["TDLG", "prior method", "further method", "reference"]


@dataclass(frozen=True)
class Entry:
    """One method of the comparison.

    Attributes
    ----------
    key
        Its name in `tdlg.judge.methods.METHODS`, whether this version has it or not.
    name
        Its name in the paper's tables.
    kind
        "TDLG" for the paper's own methods, "prior method" for those it compares with; what we add is a "further method" if
        it is published, else a "reference".
    deep
        Whether it is left out on Epinions, where the deep methods needed too much memory for the paper to run them.
    selected
        Whether the paper also runs it on link prediction and shows it in its figures of single data sets.
    trials
        The largest number of trials, for a method that takes long; by default as many as in the paper.
    rows
        Its name in result rows and its settings there, if not the name above without settings.
    """

    key: str
    name: str
    kind: Kind
    deep: bool = False
    selected: bool = False
    trials: int = 10
    rows: tuple[str, str] | None = None

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
    """Give the methods that have a line in the table of a task."""
    if task == EDGE:
        kept = [entry for entry in LINEUP if entry.key != "edgebank"]
    else:
        kept = [entry for entry in LINEUP if entry.selected or entry.kind == "reference"]
    return tuple(entry for entry in kept if not selected or entry.selected or entry.kind == "reference")
