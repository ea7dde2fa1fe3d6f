"""How well labels that are known would have been found, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdlg.cli.labels import as_two_numbers, plain_classes
from tdlg.cli.terminal import aligned, count, note, working

if TYPE_CHECKING:
    from tdlg.baselines.method import Method
    from tdlg.edges import TemporalEdges

__all__ = ["print_quality"]

TOP_SHARE, TOP_MOST = 10, 100  # precision is told of a tenth of the edges held out, and at most a hundred


def print_quality(edges: TemporalEdges, method: str, setting: Any, kind: str, seed: int) -> None:
    """Hold out labels, and tell how well this method and label rates find them."""
    from tdlg.baselines.references import LabelRates
    from tdlg.methods import TDLG, Propagation
    from tdlg.tasks import ChronologicalClassification, EdgeClassification

    edges, positive = as_two_numbers(edges)
    task: Any = EdgeClassification(edges)
    if kind == "time":
        task = ChronologicalClassification(edges, prequential=setting == "stream")
    mine = TDLG(class_weight=None) if method == "rows" else Propagation(setting, random_state=seed)
    trial = task.draw(seed)
    (test,) = trial.tests.values()
    with working("holding out labels"):
        lines = [
            (name, *_quality(one, trial, test))
            for name, one in {method: mine, "label rates": LabelRates(random_state=seed)}.items()
        ]
    rarest, rate, k = _rarest(trial, test)
    how = "at random" if kind == "random" else "the last in time"
    note(f"held out {count(len(test), 'label')}, {how}; learnt from {len(trial.train):,}")
    rarest = positive if positive is not None and rarest == 1 else rarest
    precise = "average precision" if positive is None else f"average precision for {positive!r}"
    head = ("", "AUC", precise, f"precision in the top {k} for {rarest!r}")
    chance = ("chance", "0.500", f"{_chance(trial, test):.3f}", f"{rate:.3f}")
    note(aligned([head, *((name, *(f"{value:.3f}" for value in values)) for name, *values in lines), chance]))


def _quality(method: Method, trial: Any, test: Any) -> tuple[float, float, float]:
    """Area under the curve, average precision, and precision in the top k for the rarest class."""
    import numpy as np

    from tdlg.evaluate import class_metrics, precision_recall_at

    asked = trial.edges[test]
    if trial.reveals:
        method, asked = method.streaming() or method, trial.labelled(test)[test]
    seen = trial.seen()
    method.embed(seen)
    method.fit(seen)
    scores = method.score(asked)
    auc, average_precision = class_metrics(trial.y, trial.train, test, scores)[:2]
    rarest, _, k = _rarest(trial, test)
    place = int(np.flatnonzero(np.unique(trial.y[trial.train]) == rarest)[0])
    of_rarest = scores[:, place] if scores.ndim == 2 else scores if place else -scores
    return auc, average_precision, precision_recall_at(trial.y[test] == rarest, of_rarest, k)[0]


def _rarest(trial: Any, test: Any) -> tuple[Any, float, int]:
    """The rarest class, its share of the edges held out, and how many of these are looked at."""
    import numpy as np

    classes, counts = np.unique(trial.y[trial.train], return_counts=True)
    rarest = plain_classes(classes).tolist()[int(np.argmin(counts))]
    return rarest, float(np.mean(trial.y[test] == rarest)), max(1, min(TOP_MOST, len(test) // TOP_SHARE))


def _chance(trial: Any, test: Any) -> float:
    """Average precision of scores that say nothing."""
    import numpy as np

    classes = np.unique(trial.y[trial.train])
    rates = [float(np.mean(trial.y[test] == label)) for label in classes[int(len(classes) == 2) :]]
    return float(np.mean([rate for rate in rates if 0 < rate < 1] or [float("nan")]))
