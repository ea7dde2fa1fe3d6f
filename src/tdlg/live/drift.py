"""Drift: how far the last week is from what a model was fitted on, with one number and one threshold for each quantity.

A number is a population stability index. Its threshold is what chance alone reaches in one week of a thousand for all
quantities together: that of as many independent events, times how much more than that the weeks of the fitted edges differ.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f as f_distribution

from tdlg.live.event import decode, encode
from tdlg.propagate.plan import CALENDAR, OwnColumn, own_values
from tdlg.propagate.state import SavedArrays

if TYPE_CHECKING:
    from tdlg.live.outcome import Outcome
    from tdlg.live.state import LiveState

__all__ = ["Drift", "Quantity", "drift_of", "quantities_of"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

WEEK, FIRST = 7, 14  # days: those that are compared, and the first ones of a model, with which its scores are
MOST_WEEKS, FEWEST_BLOCKS = 12, 4  # of the fitted edges; in a shorter time, this number of parts
PARTS = np.arange(1, 10) / 10
FALSE_ALARMS = 0.001  # per week, of all quantities together
LEAST_OF_TWO, LEAST = 0.01, 0.1  # a smaller index of two, or more, parts is no reason for a new model, however sure
SMOOTHING, LEAST_EVENTS = 5.0, 100  # events added to each part; events without which nothing is said
AT_ONCE = 512  # events that are counted together
PRIOR = 10.0  # reviewed alerts that the model's own probabilities count as
FLAGS = {"alerts": 4, "new nodes": 1, "new categories": 2}  # what is noted of each event


@dataclass
class Quantity:
    """What is compared: how often its values are in each of some parts.

    borders : between the parts of a number, or None; parts : their names. counts : of the fitted edges, None where the
    first weeks of the stream take their place. spread : how much more than independent events their weeks differ.
    """

    name: str
    parts: list[str]
    borders: list[float] | None = None
    counts: list[int] | None = None
    spread: float = 1.0
    n_blocks: int = FEWEST_BLOCKS

    def compared_with(self, before: Counts, blocks: list[Counts]) -> Quantity:
        """With the counts of the fitted edges, and those of parts of their time."""
        self.counts, self.n_blocks, df = before.tolist(), max(2, len(blocks)), len(before) - 1
        ratios = [_index(one, before - one) / _variance(one, before - one) / df for one in blocks if one.any()]
        self.spread = max(1.0, float(np.mean(ratios))) if ratios and df else 1.0
        return self


def _index(now: Counts, before: Counts) -> float:
    """The population stability index of counts, of which a few more in each part make no difference."""
    n, parts = now.sum(), len(now)
    share = (now + SMOOTHING) / (n + SMOOTHING * parts)
    expected = (before * (n / max(before.sum(), 1)) + SMOOTHING) / (n + SMOOTHING * parts)
    return float(((share - expected) * np.log(share / expected)).sum())


def _variance(now: Counts, before: Counts) -> float:
    return float(1.0 / max(now.sum(), 1) + 1.0 / max(before.sum(), 1))


# ---- what a model was fitted on


def quantities_of(
    model: Any, outcome: Outcome, own: Sequence[OwnColumn], ticks: Floats, scores: Floats
) -> list[Quantity]:
    """What is compared of a model; ticks, scores : of the latest fitted edges."""
    edges, day = model.edges_, outcome.day
    at = outcome.on_clock(edges.ticks, edges.time_unit).astype(np.float64)
    start = max(at.max() - MOST_WEEKS * WEEK * day, at.min() + (at.max() - at.min()) / 3)
    latest, blocks = np.flatnonzero(at >= start), _blocks(at[at >= start], WEEK * day)
    found = [_of_numbers("scores", scores, _blocks(ticks, WEEK * day))]
    found[0].counts = None  # those of the fitted edges, from which the model has learnt, are other ones
    found.append(Quantity("alerts", ["no alerts", "alerts"]))
    order = np.argsort(at, kind="stable")
    ends = np.column_stack([edges.src_code, edges.dst_code])[order]  # codes of two types differ
    n_new = np.empty(len(edges), np.int64)
    n_new[order] = _is_first(ends.ravel()).reshape(-1, 2).sum(axis=1)
    found.append(_of_codes("new nodes", ["known nodes", "new nodes"], np.minimum(n_new[latest], 1), blocks))
    values, place, unseen = own_values(edges[latest], own), 0, np.zeros(len(latest), bool)
    for column in own:
        mine = values[:, place : place + column.width]
        place += column.width
        if column.name in CALENDAR:  # the time of an event is none of its features
            continue
        if column.categories:
            names = [*map(str, column.categories), "others"]
            if column.name in edges.feature_names and edges.features is not None:
                codes = edges.features[:, edges.feature_names.index(column.name)]
                unseen |= ~np.isnan(codes[latest]) & ~np.isin(codes[latest], codes[at < start])
            found.append(_of_codes(column.name, names, _codes(mine), blocks))
        else:
            found.append(_of_numbers(column.name, mine[:, 0], blocks))
    if any(column.categories for column in own):
        found.append(_of_codes("new categories", ["known categories", "new"], unseen.astype(int), blocks))
    known = None if not outcome.takes_labels else model.label_ticks_
    if known is not None:
        known = outcome.on_clock(known, edges.time_unit).astype(np.float64)
        labelled = edges.with_label(model.labels_).labelled & (known >= start) & (known <= at.max())
        delays = (known - at)[labelled]
        if len(delays):
            found.append(_of_numbers("label delay", delays, _blocks(known[labelled], WEEK * day)))
    return found


def _blocks(ticks: Floats, week: float) -> NDArray[np.int64]:
    """The number of the part of time that each of these is in: about a week each."""
    span = float(np.ptp(ticks)) if len(ticks) else 0.0
    n = max(FEWEST_BLOCKS, round(span / week))
    return np.minimum((ticks - ticks.min(initial=np.inf)) / (span or 1.0) * n, n - 1).astype(np.int64)


def _is_first(codes: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of these are the first with their value."""
    first = np.zeros(len(codes), bool)
    first[np.unique(codes, return_index=True)[1]] = True
    return first


def _codes(indicators: Floats) -> NDArray[np.int64]:
    """Which of some indicators is set; their number if none is."""
    return np.where(indicators.any(axis=1), indicators.argmax(axis=1), indicators.shape[1])


def _of_codes(name: str, parts: list[str], codes: NDArray[Any], blocks: NDArray[np.int64]) -> Quantity:
    n = len(parts)
    whole = np.bincount(codes, minlength=n)
    each = [np.bincount(codes[blocks == block], minlength=n) for block in np.unique(blocks)]
    return Quantity(name, parts).compared_with(whole, each)


def _of_numbers(name: str, values: Floats, blocks: NDArray[np.int64]) -> Quantity:
    there = values[~np.isnan(values)]
    borders = np.unique(np.quantile(there, PARTS)) if len(there) else np.zeros(0)
    n = len(borders) + 1
    parts = [*(f"part {k + 1} of {n}, by size" for k in range(n)), "missing"]
    found = _of_codes(name, parts, _parts(values, borders), blocks)
    found.borders = borders.tolist()
    return found


def _parts(values: Floats, borders: Sequence[float] | Floats) -> NDArray[np.int64]:
    return np.where(np.isnan(values), len(borders) + 1, np.searchsorted(borders, values, "right"))


# ---- the stream


@dataclass
class Drift:
    """The counts of the last days, and of the first ones; memory is bounded."""

    quantities: list[Quantity]
    own: Sequence[OwnColumn]
    day: float  # in ticks
    first: int | None = None  # day of the stream
    days: dict[int, list[Counts]] = field(default_factory=dict)  # for each quantity
    waiting: tuple[list[Any], list[float], list[Floats], list[int]] = field(default_factory=lambda: ([], [], [], []))

    def add(self, ticks: list[Any], scores: list[float], own: Floats, flags: list[int]) -> None:
        """Note events; see `FLAGS`."""
        if self.first is None and ticks:
            self.first = int(ticks[0] // self.day)
        mine = self.waiting
        mine[0].extend(ticks)
        mine[1].extend(scores)
        mine[2].append(own)
        mine[3].extend(flags)
        if len(mine[0]) >= AT_ONCE:
            self.count()

    def count(self) -> None:
        """Count the events that wait."""
        if not self.waiting[0] or self.first is None:
            return
        ticks, scores, own, noted = self.waiting
        self.waiting = [], [], [], []
        flags, values = np.array(noted), np.concatenate(own)
        columns, place = {}, 0
        for column in self.own:
            columns[column.name] = values[:, place : place + column.width]
            place += column.width
        placed = []
        for one in self.quantities:
            if one.name == "scores" and one.borders is not None:
                placed.append(_parts(np.array(scores), one.borders))
            elif one.name in columns:
                mine = columns[one.name]
                placed.append(_codes(mine) if one.borders is None else _parts(mine[:, 0], one.borders))
            else:
                placed.append((flags & FLAGS.get(one.name, 0) > 0).astype(np.int64))
        days = np.floor_divide(np.array(ticks, np.float64), self.day).astype(np.int64)
        for day in np.unique(days[days >= self.first]).tolist():
            for one, codes, counts in zip(self.quantities, placed, self._of_day(day), strict=True):
                if one.name != "label delay":
                    counts += np.bincount(codes[days == day], minlength=len(counts))
        last = max(self.days, default=0)
        for day in [day for day in self.days if self.first + FIRST <= day <= last - WEEK]:
            del self.days[day]

    def add_label(self, ticks: Any, known: Any, clock: Any) -> None:
        """Note the label of an event, unless it becomes known after the latest one."""
        one = self.quantities[-1]
        day = int(known // self.day)
        if one.name == "label delay" and one.borders is not None and self.first is not None and known <= clock:
            if day < self.first:
                return
            self._of_day(day)[-1][bisect_right(one.borders, known - ticks)] += 1

    def _of_day(self, day: int) -> list[Counts]:
        if day not in self.days:
            self.days[day] = [np.zeros(len(one.parts), np.int64) for one in self.quantities]
        return self.days[day]

    def compared(self) -> list[dict[str, Any]]:
        """The numbers of now; those of which too little is known are None."""
        self.count()
        if not self.days or self.first is None:
            return []
        first, last = self.first, max(self.days)
        week = [counts for day, counts in self.days.items() if day > last - WEEK]
        early = [counts for day, counts in self.days.items() if day < first + FIRST]
        fresh = [counts for day, counts in self.days.items() if day > max(last - WEEK, first + FIRST - 1)]
        found = []
        for k, one in enumerate(self.quantities):
            is_live, n = one.counts is None, len(one.parts)
            now = np.sum([counts[k] for counts in (fresh if is_live else week)], axis=0, dtype=np.int64) + np.zeros(
                n, int
            )
            daily = [counts[k] for counts in early]
            before = np.sum(daily, axis=0) if is_live else np.array(one.counts)
            of_model = one
            if is_live:
                of_model = Quantity(one.name, one.parts).compared_with(before, daily)
                of_model.spread = max(one.spread, of_model.spread)
            if one.name == "label delay" and one.borders is not None:  # those that can have come by now
                n = bisect_right(one.borders, (last - WEEK + 1 - first) * self.day)
                now, before = now[:n], before[:n]
            found.append(_told(of_model, now, before, FALSE_ALARMS / len(self.quantities)))
        return found

    # ---- snapshots

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that `restored` needs."""
        self.count()
        content = {"quantities": [asdict(one) for one in self.quantities], "day": self.day, "first": self.first}
        content["days"] = [[day, [counts.tolist() for counts in of]] for day, of in self.days.items()]
        return {"content": np.frombuffer(encode(content).encode(), np.uint8)}

    @classmethod
    def restored(cls, arrays: SavedArrays, own: Sequence[OwnColumn]) -> Drift:
        """What these arrays say."""
        content = decode([arrays["content"].tobytes()])[0]
        days = {day: [np.array(counts, np.int64) for counts in of] for day, of in content["days"]}
        return cls([Quantity(**one) for one in content["quantities"]], own, content["day"], content["first"], days)


def _told(one: Quantity, now: Counts, before: Counts, false_alarms: float) -> dict[str, Any]:
    """One number with its threshold, and in which part most has changed."""
    told = {"of": one.name, "value": None, "threshold": None, "drifts": False, "words": "too few yet"}
    if len(now) < 2 or now.sum() < LEAST_EVENTS or before.sum() < LEAST_EVENTS:
        return told
    df = len(now) - 1
    quantile = float(f_distribution.isf(false_alarms, df, df * (one.n_blocks - 1)))
    least, chance = LEAST if df > 1 else LEAST_OF_TWO, one.spread * df * quantile * _variance(now, before)
    value, threshold = _index(now, before), max(least, chance)
    shares = now / now.sum(), before / before.sum()
    part = int(np.argmax(np.abs(shares[0] - shares[1]))) if df > 1 else 1
    words = f"{one.parts[part]}: {shares[0][part]:.1%} of the last week, {shares[1][part]:.1%} before"
    return {**told, "value": value, "threshold": threshold, "drifts": value > threshold, "words": words}


def drift_of(state: LiveState) -> dict[str, Any]:
    """How far the last week is from the fit.

    Returns
    -------
    dict
        "refit": whether something drifts; "quantities": a list of {"of", "value", "threshold", "drifts", "words"}; the
        "expected_precision" of the last week's alerts by the scores, corrected by those that were reviewed, and how many
        "alerts" these are.
    """
    found = state.drift.compared()
    since, alerts = state.clock - WEEK * state.outcome.day, [one for one in state.alerts if one.blind is None]
    latest = np.array([one.score for one in alerts if one.ticks > since])
    expected = None
    if state.outcome.classes and len(latest):
        decided = [one for one in alerts if one.status != "open" and one.model == state.generation]
        shift = _shift(
            np.array([one.score for one in decided]), np.array([one.status == "confirmed" for one in decided])
        )
        expected = float(_probability(latest, shift).mean())
    return {
        "refit": any(one["drifts"] for one in found),
        "quantities": found,
        "expected_precision": expected,
        "alerts": len(latest),
    }


def _probability(scores: Floats, shift: float) -> Floats:
    """Probabilities whose log-odds are higher by a number."""
    odds = np.clip(scores, 1e-6, 1 - 1e-6)
    odds = odds / (1 - odds) * np.exp(shift)
    return np.asarray(odds / (1 + odds))


def _shift(scores: Floats, confirmed: NDArray[Any]) -> float:
    """What the log-odds of reviewed alerts lack; few of them change little."""
    low, high = -20.0, 20.0
    for _ in range(50):
        shift = (low + high) / 2
        excess = float(_probability(scores, shift).sum()) - float(confirmed.sum()) + PRIOR / 4 * shift
        low, high = (low, shift) if excess > 0 else (shift, high)
    return low
