"""A second model on the same log, the challenger: it scores and learns what the model in place does, and answers nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import TdlgError
from tdlg.judge.metrics import RESAMPLES, rank
from tdlg.live.drift import Quantity
from tdlg.live.event import decode, encode, stored_contents
from tdlg.live.outcome import Outcome, Start, Threshold, saved_start
from tdlg.live.scorer import StreamScorer
from tdlg.propagate.state import PrefixedArrays, SavedArrays
from tdlg.tables.ids import id_key

__all__ = ["Challenger", "Evidence", "Refits", "Seen"]

Floats = NDArray[np.float64]

MOST_COMPARED = 20_000  # events that are kept to compare: the latest alerts of either model and labelled events
LEAST_OF_CLASS = 10  # least number of labelled events of each class
INTERVAL = (0.025, 0.975)  # quantiles: a challenger is looked at every day, so that less would be chance too often
RETRY = 7  # a fit that failed is tried again after this part of the time between two fits
CHILD = (
    "import os, sys; getattr(os, 'nice', int)(10); from tdlg.live.refit import refit; refit(sys.argv[1], shadow=True)"
)


class Seen(NamedTuple):
    """What the model in place made of an event."""

    key: Any
    ticks: Any
    score: float
    may_alert: bool  # it has no label yet, and is not snoozed
    alert: bool  # by the score; rules do not count
    label: Any


class Challenger:
    """The model, its scorer and threshold, and both scores of the events that tell the two models apart.

    rows : by key of the id: ticks, score and alert of the model in place, score and alert of the challenger, and the label
    as a number (NaN without one). since : the clock when it began. fitted : the latest time of its fitted edges.
    """

    def __init__(
        self, model: Any, scorer: StreamScorer, start: Start, generation: str, settings: Any, since: Any
    ) -> None:
        self.model, self.scorer, self.start, self.generation, self.since = model, scorer, start, generation, since
        self.outcome = Outcome(model)
        self.reasons: Any = None  # that explain its scores, prepared
        self.fitted = self.outcome.on_clock(model.edges_.ticks, model.edges_.time_unit).max().item()
        self.threshold = self._threshold(settings)
        self.rows: dict[Any, list[float]] = {}
        self.n_events, self.n_alerts = 0, [0, 0]

    def _threshold(self, settings: Any) -> Threshold:
        return Threshold(self.outcome, settings.threshold, settings.alerts_per_day, self.start)

    def use(self, settings: Any) -> None:
        """Use other settings from now on."""
        before, self.threshold = self.threshold, self._threshold(settings)
        self.threshold.follow(before)

    def process(self, stored: Sequence[Any], seen: Sequence[Seen]) -> None:
        """Score and learn the events that the model in place has just scored."""
        read = self.scorer.read(stored_contents(stored))[0]
        scores = self.outcome.scores(self.scorer.process(read).values).tolist()
        for position, score in zip(read.positions, scores, strict=True):
            one = seen[position]
            alert = one.may_alert and score >= self.threshold.value
            self.n_events += 1
            self.n_alerts[0] += one.alert
            self.n_alerts[1] += alert
            if one.alert or alert or one.label is not None:
                self._add(one.key, [one.ticks, one.score, one.alert, score, alert, self._number(one.label)])
            self.threshold.add(one.ticks, score)

    def _number(self, label: Any) -> float:
        if label is None:
            return np.nan
        return float(self.outcome.is_positive(label) if self.outcome.classes else label)

    def _add(self, key: Any, row: list[float]) -> None:
        self.rows[key] = row
        if len(self.rows) > MOST_COMPARED:
            del self.rows[next(iter(self.rows))]

    def label(self, id: Any, label: Any, time: Any, values: Floats | None, ticks: Any) -> None:
        """Learn a label. values, ticks : what the model in place said of the event, None if it never did, and its time."""
        with suppress(TdlgError):  # it was refused for a model that was fitted on other edges
            self.scorer.label(id, label, time)
        key = id_key(id)
        if key in self.rows:
            self.rows[key][5] = self._number(label)
            if label is None and not (self.rows[key][2] or self.rows[key][4]):
                del self.rows[key]
        elif label is not None and values is not None and (mine := self.scorer.answered(id)) is not None:
            old, new = self.outcome.scores(np.array([values, mine[0]])).tolist()
            self._add(key, [ticks, old, False, new, False, self._number(label)])

    def withdraw(self, id: Any) -> None:
        """Take an event back."""
        self.rows.pop(id_key(id), None)
        if self.scorer.knows(id):
            self.scorer.withdraw(id)

    def evidence(self) -> Evidence:
        """What both models said, as it is now."""
        counts = self.n_events, self.n_alerts[0], self.n_alerts[1]
        times = self.outcome.time(self.since), self.outcome.time(self.scorer.tick)
        rows = np.array([*self.rows.values()], np.float64).reshape(-1, 6)
        return Evidence(self.generation, rows, counts, times, self.outcome.day, bool(self.outcome.classes))

    # ---- snapshots

    def arrays(self) -> dict[str, Any]:
        """All that `restored` needs, besides the model."""
        content = {"generation": self.generation, "since": self.since, "n": [self.n_events, *self.n_alerts]}
        content["quantities"] = None if self.start.quantities is None else [*map(asdict, self.start.quantities)]
        parts = {"scorer": self.scorer.saved(), "threshold": self.threshold.arrays()}
        return {
            "content": np.frombuffer(encode({**content, "keys": [*self.rows]}).encode(), np.uint8),
            "rows": np.array([*self.rows.values()], np.float64).reshape(-1, 6),
            **{f"{part}/{name}": array for part, of in parts.items() for name, array in of.items()},
        }

    @classmethod
    def restored(cls, model: Any, arrays: SavedArrays, settings: Any) -> Challenger:
        """The challenger with these arrays."""
        content, threshold = decode([arrays["content"].tobytes()])[0], PrefixedArrays(arrays, "threshold/")
        scorer = StreamScorer.restore(model, PrefixedArrays(arrays, "scorer/"))
        quantities = content.get("quantities")
        start = saved_start(threshold)._replace(
            quantities=None if quantities is None else [Quantity(**one) for one in quantities]
        )
        found = cls(model, scorer, start, content["generation"], settings, content["since"])
        found.threshold.restore(threshold)
        found.rows = dict(zip(content["keys"], arrays["rows"].tolist(), strict=True))
        found.n_events, *found.n_alerts = content["n"]
        return found


def generation_in(arrays: SavedArrays) -> str | None:
    """The generation of the challenger in a snapshot, if there is one."""
    return str(decode([arrays["content"].tobytes()])[0]["generation"]) if "content" in arrays else None


# ---- the comparison


class Evidence(NamedTuple):
    """Both scores of events, of which the interval of the difference is made; see `Challenger` for the rows."""

    generation: str
    rows: Floats
    counts: tuple[int, int, int]
    times: tuple[Any, Any]
    day: float
    has_classes: bool

    def compared(self) -> dict[str, Any]:
        """The comparison.

        Returns
        -------
        dict
            "generation", "since", "clock", "n_events"; "old" and "new", each with "alerts", "reviewed" and "confirmed" of
            these, "precision" and "quality": the average precision on all labelled events, for numbers the error;
            "n_labelled", "n_positive" and "n_of_alerts", of the model in place, among them; "precision_gain" and "gain",
            the difference of precision and of quality with the ends of its 95 % interval, by a bootstrap over the days;
            "verdict", one of "better", "worse", "no clear difference", "too few labels" and "too few other labels" (more
            than half are of alerts, which the model in place chose by its score), and "reason".
        """
        ticks, *scores, label = self.rows.T
        by_model, labelled = (scores[:2], scores[2:]), ~np.isnan(label)
        since, clock = self.times
        day = np.unique(np.floor_divide(ticks, self.day), return_inverse=True)[1]
        weights = np.random.default_rng(0).poisson(1.0, (RESAMPLES, int(day.max(initial=-1)) + 1)).astype(np.float64)
        told: dict[str, dict[str, Any]] = {}
        precisions = []
        for name, (_, alert), n in zip(("old", "new"), by_model, self.counts[1:], strict=True):
            of = (alert > 0) & labelled
            sums = np.array([np.bincount(day[of], x[of], weights.shape[1]) for x in (label > 0, np.ones(len(label)))])
            reviewed, confirmed = int(of.sum()), int((label[of] > 0).sum())
            told[name] = {"alerts": n, "reviewed": reviewed, "confirmed": confirmed}
            told[name]["precision"] = confirmed / reviewed if reviewed else None
            with np.errstate(invalid="ignore"):
                precisions.append((weights @ sums[0]) / (weights @ sums[1]))
        both = [told[name]["precision"] for name in ("old", "new")]
        precision_gain = None if None in both else _gain(both[1] - both[0], precisions[1] - precisions[0])
        truth, day = label[labelled], day[labelled]
        gain, qualities = self._quality(truth, [score[labelled] for score, _ in by_model], day, weights)
        for one, quality in zip(told.values(), qualities, strict=True):
            one["quality"] = quality
        n_of_alerts = int((scores[1][labelled] > 0).sum())
        verdict, reason = self._verdict(gain, len(truth), n_of_alerts)
        return {
            "generation": self.generation,
            "since": since,
            "clock": clock,
            "n_events": self.counts[0],
            **told,
            "n_labelled": len(truth),
            "n_positive": int((truth > 0).sum()) if self.has_classes else None,
            "n_of_alerts": n_of_alerts,
            "precision_gain": precision_gain,
            "gain": gain,
            "verdict": verdict,
            "reason": reason,
        }

    def _quality(self, truth: Floats, scores: Sequence[Floats], day: Any, weights: Floats) -> tuple[Any, list[Any]]:
        """The difference with its interval, and the quality of each model; None if there are too few labels."""
        n_positive = int((truth > 0).sum())
        if (min(n_positive, len(truth) - n_positive) < LEAST_OF_CLASS and self.has_classes) or len(
            truth
        ) < LEAST_OF_CLASS:
            return None, [None, None]
        if self.has_classes:
            ranked = [found for each in scores if (found := rank(truth > 0, each, blocks=day)) is not None]
            (old, of_old), (new, of_new) = ((one.average_precision[0], one.resampled[:, 1]) for one in ranked)
            return _gain(new - old, of_new - of_old), [old, new]
        squares = [(truth - each) ** 2 for each in scores]
        n = weights @ np.bincount(day, minlength=weights.shape[1])
        with np.errstate(invalid="ignore"):
            resampled = [np.sqrt(weights @ np.bincount(day, x, weights.shape[1]) / n) for x in squares]
        old, new = (float(np.sqrt(x.mean())) for x in squares)
        return _gain(old - new, resampled[0] - resampled[1]), [old, new]

    def _verdict(self, gain: dict[str, float] | None, n: int, n_of_alerts: int) -> tuple[str, str]:
        if gain is None:
            least = f"at least {LEAST_OF_CLASS} of each class" if self.has_classes else f"at least {LEAST_OF_CLASS}"
            return "too few labels", f"{least} are needed of what both models scored"
        if 2 * n_of_alerts > n and gain["low"] > 0:
            return "too few other labels", "most labels are of alerts, which the model in place chose by its score"
        if gain["low"] > 0:
            return "better", "the whole interval of the difference is above 0"
        if gain["high"] < 0:
            return "worse", "the whole interval of the difference is below 0"
        return "no clear difference", "the interval of the difference includes 0"


def _gain(value: float, resampled: Floats) -> dict[str, float]:
    """A difference with its interval; days of one class alone tell nothing."""
    kept = resampled[np.isfinite(resampled)]
    low, high = np.quantile(kept, INTERVAL).tolist() if len(kept) else (-np.inf, np.inf)
    return {"value": float(value), "low": low, "high": high}


# ---- a new challenger now and then


class Refits:
    """Fits a challenger in a child process every so often, on the clock of the events, and says which is clearly better."""

    def __init__(self, folder: Path, every: float) -> None:
        self._folder, self._every = folder, every
        self._child: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, which is closed by `stop`
        self._tried = self._compared = -np.inf
        self._thread: threading.Thread | None = None
        self._found: dict[str, Any] | None = None
        self.failure = ""

    def better(self, clock: Any, fitted: Any, challenger: Challenger | None, is_waiting: bool) -> str | None:
        """The generation of a challenger that is clearly better; begins what is due. Called now and then.

        fitted : the latest time of the edges that the model in place was fitted on. is_waiting : whether a new model waits
        to be taken over.
        """
        if self._child is not None and self._child.poll() is not None:
            self.failure = "" if self._child.returncode == 0 else self._last_line()
            self._tried = clock if not self.failure else clock - self._every * (1 - 1 / RETRY)
            self._child = None
        latest = max(fitted, self._tried, -np.inf if challenger is None else challenger.fitted)
        if self._child is None and not is_waiting and clock - latest >= self._every:
            self._errors.seek(0)
            self._errors.truncate()
            command = [sys.executable, "-c", CHILD, str(self._folder)]
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors
            )
        if challenger is None:
            return None
        if self._thread is None and clock - self._compared >= challenger.outcome.day:
            self._compared, evidence = clock, challenger.evidence()

            def compare() -> None:
                self._found = evidence.compared()

            self._thread = threading.Thread(target=compare, name="tdlg-compare", daemon=True)
            self._thread.start()
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread, found, self._found = None, self._found, None
        is_better = found is not None and found["verdict"] == "better" and found["generation"] == challenger.generation
        return challenger.generation if is_better else None

    def _last_line(self) -> str:
        self._errors.seek(0)
        return (self._errors.read().decode(errors="replace").strip().splitlines() or ["it ended without a word"])[-1]

    def stop(self) -> None:
        """End the child process."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            self._child.wait()
        self._errors.close()
