"""How well labels that are known would have been found, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdlg.cli.labels import as_two_numbers, plain_classes
from tdlg.cli.terminal import aligned, count, note, working
from tdlg.exceptions import EdgesError, ParameterError

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges
    from tdlg.methods.base import Method

__all__ = ["drawn", "print_quality"]

HOW = {"random": "at random", "time": "the last in time"}
TOP_SHARE, TOP_MOST = 10, 100  # precision is reported for a tenth of the edges held out, and at most a hundred


def print_quality(edges: TemporalEdges, method: str, setting: Any, kind: str, seed: int, looked_for: Any) -> None:
    """Hold out labels, and tell how well this method and label rates find them."""
    from tdlg.methods.ours import TDLG, Propagation
    from tdlg.methods.references import LabelRates

    edges, positive = as_two_numbers(edges, looked_for)
    mine = TDLG(class_weight=None) if method == "rows" else Propagation(setting, random_state=seed)
    trial = drawn(_task(edges, setting, kind), kind, seed, "Give more labels, or leave out --evaluate.")
    (test,) = trial.tests.values()
    with working("holding out labels"):
        lines = [
            (name, *_quality(one, trial, test))
            for name, one in {method: mine, "label rates": LabelRates(random_state=seed)}.items()
        ]
    rarest, rate, k = _alerts(trial, test)
    note(f"held out {count(len(test), 'label')}, {HOW[kind]}; learnt from {len(trial.train):,}")
    looked_for = rarest if positive is None else positive
    rates = _rates(trial, test)
    of_all = "" if positive is not None else f" (mean of {count(len(rates), 'class', 'classes')})"
    precise = "average precision" + (of_all or f" for {positive!r}")
    head = ("", f"AUC{of_all}", precise, f"precision in the top {k} for {looked_for!r}")
    chance = ("chance", "0.500", f"{sum(rates) / len(rates) if rates else float('nan'):.3f}", f"{rate:.3f}")
    note(aligned([head, *((name, *(f"{value:.3f}" for value in values)) for name, *values in lines), chance]))


def _task(edges: TemporalEdges, setting: Any, kind: str) -> Any:
    from tdlg.judge.tasks import ChronologicalClassification, EdgeClassification

    if kind == "time":
        return ChronologicalClassification(edges, prequential=setting == "stream")
    return EdgeClassification(edges)


def drawn(task: Any, kind: str, seed: int, way_out: str) -> Any:
    """Labels to learn from and others to find, both of more than one class.

    Parameters
    ----------
    task
        What to hold out.
    kind
        How: "random" or "time".
    seed
        Seed of the draw.
    way_out
        What to do where there are too few labels.
    """
    import numpy as np

    known = count(int(task.edges.labelled.sum()), "known label")
    try:
        trial = task.draw(seed)
        (test,) = trial.tests.values()
    except EdgesError:
        why = "happened at one time" if kind == "time" else "are too few"
        raise ParameterError(f"The {known} {why}: none can be held out, {HOW[kind]}. {way_out}") from None
    for part, what in ((trial.train, "to learn from"), (test, "to be found")):
        if len(np.unique(trial.y[part])) < 2:
            raise ParameterError(
                f"The {known} are too few to hold some out, {HOW[kind]}: of the {len(part):,} {what}, all are of "
                f"one class. {way_out}"
            )
    return trial


def _quality(method: Method, trial: Any, test: Any) -> tuple[float, float, float]:
    """Area under the curve, average precision, and precision in the top k for the positive class."""
    import numpy as np

    from tdlg.judge.evaluate import class_metrics, precision_recall_at

    asked = trial.edges[test]
    if trial.reveals:
        method, asked = method.streaming() or method, trial.labelled(test)[test]
    seen = trial.seen()
    method.embed(seen)
    method.fit(seen)
    scores = method.score(asked)
    auc, average_precision = class_metrics(trial.y, trial.train, test, scores)[:2]
    positive, _, k = _alerts(trial, test)
    place = int(np.flatnonzero(np.unique(trial.y[trial.train]) == positive)[0])
    of_positive = scores[:, place] if scores.ndim == 2 else scores
    return auc, average_precision, precision_recall_at(trial.y[test] == positive, of_positive, k)[0]


def _alerts(trial: Any, test: Any) -> tuple[Any, float, int]:
    """The positive class; its share of the edges held out, and how many of these count as the top."""
    import numpy as np

    from tdlg.explain.positive import positive_class

    classes = np.unique(trial.y[trial.train])
    positive = plain_classes(classes).tolist()[positive_class(classes, trial.y)]
    return positive, float(np.mean(trial.y[test] == positive)), max(1, min(TOP_MOST, len(test) // TOP_SHARE))


def _rates(trial: Any, test: Any) -> list[float]:
    """The shares of the classes that areas are told of among the edges held out: average precision by chance."""
    import numpy as np

    classes = np.unique(trial.y[trial.train])
    rates = [float(np.mean(trial.y[test] == label)) for label in classes[int(len(classes) == 2) :]]
    return [rate for rate in rates if 0 < rate < 1]
