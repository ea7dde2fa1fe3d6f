"""Quality of predictions, measured on held-out labels and printed as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdlg.cli.labels import as_two_numbers, plain_classes
from tdlg.cli.terminal import aligned, count, note, working
from tdlg.exceptions import EdgesError, ParameterError

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges
    from tdlg.methods.base import Method

__all__ = ["print_quality", "sampled_trial"]

HOW = {"random": "at random", "time": "the latest ones"}
TOP_SHARE, TOP_MOST = 10, 100  # precision is reported for a tenth of the held-out edges, but at most for 100


def print_quality(edges: TemporalEdges, method: str, setting: Any, kind: str, seed: int, positive_class: Any) -> None:
    """Hold out labels, and print how well this method and label rates predict them."""
    from tdlg.methods.ours import TDLG, Propagation
    from tdlg.methods.references import LabelRates

    edges, positive = as_two_numbers(edges, positive_class)
    mine = TDLG(class_weight=None) if method == "rows" else Propagation(setting, random_state=seed)
    trial = sampled_trial(_task(edges, setting, kind), kind, seed, "Give more labels, or leave out --evaluate.")
    (test,) = trial.tests.values()
    with working("evaluating on held-out labels"):
        lines = [
            (name, *_quality(one, trial, test))
            for name, one in {method: mine, "label rates": LabelRates(random_state=seed)}.items()
        ]
    rarest, rate, k = _alerts(trial, test)
    note(f"held out {count(len(test), 'label')}, {HOW[kind]}; fitted to {len(trial.train):,}")
    positive_class = rarest if positive is None else positive
    rates = _rates(trial, test)
    of_all = "" if positive is not None else f" (mean of {count(len(rates), 'class', 'classes')})"
    precise = "average precision" + (of_all or f" for {positive!r}")
    head = ("", f"AUC{of_all}", precise, f"precision in the top {k} for {positive_class!r}")
    chance = ("chance", "0.500", f"{sum(rates) / len(rates) if rates else float('nan'):.3f}", f"{rate:.3f}")
    note(aligned([head, *((name, *(f"{value:.3f}" for value in values)) for name, *values in lines), chance]))


def _task(edges: TemporalEdges, setting: Any, kind: str) -> Any:
    from tdlg.judge.tasks import ChronologicalClassification, EdgeClassification

    if kind == "time":
        return ChronologicalClassification(edges, prequential=setting == "stream")
    return EdgeClassification(edges)


def sampled_trial(task: Any, kind: str, seed: int, way_out: str) -> Any:
    """A trial whose labels to fit and held-out labels both have more than one class.

    Parameters
    ----------
    task
        The task to sample a trial from.
    kind
        How labels are held out, for messages: "random" or "time".
    seed
        Seed for sampling.
    way_out
        Advice for the error message if there are too few labels.
    """
    import numpy as np

    known = count(int(task.edges.labelled.sum()), "known label")
    try:
        trial = task.draw(seed)
        (test,) = trial.tests.values()
    except EdgesError:
        why = "are all at the same time" if kind == "time" else "are too few"
        raise ParameterError(f"The {known} {why}: no labels can be held out ({HOW[kind]}). {way_out}") from None
    for part, what in ((trial.train, "labels to fit"), (test, "held-out labels")):
        if len(np.unique(trial.y[part])) < 2:
            raise ParameterError(
                f"The {known} are too few to hold some out ({HOW[kind]}): all {len(part):,} {what} have the same "
                f"class. {way_out}"
            )
    return trial


def _quality(method: Method, trial: Any, test: Any) -> tuple[float, float, float]:
    """Area under the curve, average precision, and precision in the top k for the positive class."""
    import numpy as np

    from tdlg.judge.evaluate import class_metrics, precision_recall_at

    to_score = trial.edges[test]
    if trial.reveals:
        method, to_score = method.streaming() or method, trial.labelled(test)[test]
    seen = trial.seen()
    method.embed(seen)
    method.fit(seen)
    scores = method.score(to_score)
    auc, average_precision = class_metrics(trial.y, trial.train, test, scores)[:2]
    positive, _, k = _alerts(trial, test)
    place = int(np.flatnonzero(np.unique(trial.y[trial.train]) == positive)[0])
    of_positive = scores[:, place] if scores.ndim == 2 else scores
    return auc, average_precision, precision_recall_at(trial.y[test] == positive, of_positive, k)[0]


def _alerts(trial: Any, test: Any) -> tuple[Any, float, int]:
    """The positive class, its share of the held-out edges, and the number of edges in the top."""
    import numpy as np

    from tdlg.explain.positive import positive_class

    classes = np.unique(trial.y[trial.train])
    positive = plain_classes(classes).tolist()[positive_class(classes, trial.y)]
    return positive, float(np.mean(trial.y[test] == positive)), max(1, min(TOP_MOST, len(test) // TOP_SHARE))


def _rates(trial: Any, test: Any) -> list[float]:
    """The share of each evaluated class among the held-out edges: its average precision by chance."""
    import numpy as np

    classes = np.unique(trial.y[trial.train])
    rates = [float(np.mean(trial.y[test] == label)) for label in classes[int(len(classes) == 2) :]]
    return [rate for rate in rates if 0 < rate < 1]
