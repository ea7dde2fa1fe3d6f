"""The quality of a model on held-out labels, as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdlg.cli.labels import plain_classes
from tdlg.cli.terminal import aligned, count, note, working
from tdlg.exceptions import TdlgError

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges
    from tdlg.judge.holdout import HeldOut, Judged

__all__ = ["HELD_OUT", "evaluated"]

HELD_OUT = {"random": "random split", "time": "the latest ones"}


def evaluated(
    model: Any, edges: TemporalEdges, how: Any, seed: int, positive_class: Any, *, goes_on: bool
) -> HeldOut | None:
    """Hold out labels and report the quality; with too few labels, print a note instead if the command has more to do."""
    import numpy as np

    from tdlg.explain.positive import positive_class as positive_place
    from tdlg.judge.holdout import hold_out, judge

    held = None
    try:
        with working("evaluating on held-out labels"):
            held = hold_out(model, edges, how, seed)
            judged = judge(held, positive_place(held.classes, np.asarray(edges.label), positive_class))
        _print_quality(judged, getattr(model, "setting", None))
    except TdlgError as error:
        if not goes_on:
            raise
        note(f"not evaluated: {error.problem}")
    return held


def _print_quality(judged: Judged, setting: str | None) -> None:
    """The figures that the report shows, as a table."""
    from tdlg.report.text import figure

    held, k = judged.held, judged.top
    used = getattr(held.model, "setting_", None)
    other = f" with the setting {used}, which suits these labels" if setting not in (None, "auto", used) else ""
    trained, tested = count(held.n_train, "label"), count(judged.n, "label")
    note(f"trained on {trained}{other}, tested on {tested} ({HELD_OUT[held.how]})")
    positive = plain_classes(held.classes).tolist()[judged.positive]
    precise = judged.titled("average precision") + ("" if judged.is_mean else f" for {positive!r}")
    rows: list[tuple[str, ...]] = [("", judged.titled("AUC"), precise, f"precision in the top {k} for {positive!r}")]
    for name, ranking in judged.by_class[judged.positive].items():
        auc, precision = judged.headline[name]
        shown = name if name != "model" else "rows" if used is None else "propagation"
        rows.append((shown, *(figure(value) for value in (auc[0], precision[0], ranking.at(k)[0]))))
    note(aligned([*rows, ("chance", "0.500", figure(judged.chance), figure(judged.prevalence))]))
