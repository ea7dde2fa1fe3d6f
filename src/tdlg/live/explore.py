"""Random review: events below the threshold that are drawn with a known chance, and what they tell of all others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tdlg.live.cases import Alert

__all__ = ["Explorer", "quality_of", "review_weights", "share"]

Floats = NDArray[np.float64]

LEVEL = 0.9  # of intervals
N_DRAWS = 4000  # behind an interval


class Explorer:
    """Draws events by a seed and their ids, about as many a day as are wanted."""

    def __init__(self, per_day: float, seed: int) -> None:
        self._per_day, self._hash = per_day, hashlib.blake2b(str(seed).encode() + b":", digest_size=16)

    def chance(self, events_per_day: float) -> float:
        """The probability with which an event is drawn at this rate of the stream."""
        return min(1.0, self._per_day / events_per_day) if events_per_day > 0 else 1.0

    def uniforms(self, key: Any) -> tuple[float, float]:
        """Two independent uniform numbers for the key of an id: it is drawn if the first one is below its chance."""
        hashed = self._hash.copy()
        hashed.update(str(key).encode(errors="surrogatepass"))
        digest = hashed.digest()
        return int.from_bytes(digest[:8], "big") / 2.0**64, int.from_bytes(digest[8:], "big") / 2.0**64


# ---- precision and recall


def quality_of(alerts: Iterable[Alert]) -> dict[str, Any]:
    """Precision and recall of the alerts, each with its 90 % interval; see `tdlg.live.cases.statistics_of`.

    Recall is that of the alerts raised while events were drawn: a positive event among those that were drawn stands for one
    over its chance. Open ones count as decided ones do.
    """
    listed = list(alerts)
    drawn, raised = ([one for one in listed if (one.blind is None) == is_alert] for is_alert in (False, True))
    since = [alert for alert in raised if alert.chance is not None]
    decided = [alert for alert in raised if alert.status != "open"]
    n_confirmed = sum(alert.status == "confirmed" for alert in decided)
    looked_at = [alert for alert in drawn if alert.status != "open"]
    found = {
        "drawn": len(drawn),
        "reviewed": len(looked_at),
        "confirmed": sum(alert.status == "confirmed" for alert in looked_at),
    }
    precision = share([1.0] * n_confirmed, [1.0] * (len(decided) - n_confirmed), 1.0, 1.0)
    return {"precision": precision, "recall": _recall(since, drawn, looked_at), "random": found}


def _recall(raised: Sequence[Alert], drawn: Sequence[Alert], looked_at: Sequence[Alert]) -> dict[str, float] | None:
    decided = [alert for alert in raised if alert.status != "open"]
    if not decided or not looked_at:
        return None
    each, of_drawn = len(raised) / len(decided), len(drawn) / len(looked_at)
    n_confirmed = sum(alert.status == "confirmed" for alert in decided)
    missed = [of_drawn / (alert.chance or 1.0) for alert in looked_at if alert.status == "confirmed"]
    usual = float(np.mean([of_drawn / (alert.chance or 1.0) for alert in drawn]))
    return share([each] * n_confirmed, missed, each, usual)


def share(
    found: Sequence[float], missed: Sequence[float], next_found: float, next_missed: float
) -> dict[str, float] | None:
    """The share of the first of two weighted counts, with its 90 % interval; None if both are empty.

    For weights of 1 this is the mid-P version of Clopper and Pearson's interval, which covers the truth about as often as it
    says also with few events; the gamma distributions of Fay and Feuer (1997) extend it to weights. The last two arguments
    are the weights that one more event would have.
    """
    total = sum(found) + sum(missed)
    if not total:
        return None
    rng = np.random.default_rng(0)
    a, b = _sums(found, next_found, rng), _sums(missed, next_missed, rng)
    low, high = np.quantile(a / np.maximum(a + b, 1e-300), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {"value": sum(found) / total, "low": low, "high": high}


def _sums(weights: Sequence[float], next_weight: float, rng: np.random.Generator) -> Floats:
    """What the expected weighted count may be: a gamma distribution with one event more in half of the draws."""
    more = np.where(rng.random(N_DRAWS) < 0.5, next_weight, 0.0)
    mean, variance = sum(weights) + more, np.sum(np.square(weights)) + more**2
    scale = variance / np.maximum(mean, 1e-300)
    return rng.gamma(mean / np.maximum(scale, 1e-300), scale)


# ---- what a row stands for when a model is fitted


def review_weights(chances: Sequence[float | None], n_unlabelled: int) -> Floats:
    """How many events each labelled row stands for, from the chance with which it was drawn; None if it was not drawn.

    n_unlabelled : how many events have no label, for which the drawn ones stand besides themselves. Where most labels come
    by themselves, these are few, and the weights are smaller.
    """
    weights = np.array([1.0 if chance is None else 1.0 / chance for chance in chances])
    drawn = np.array([chance is not None for chance in chances], bool)
    total, most = weights[drawn].sum(), n_unlabelled + np.count_nonzero(drawn)
    weights[drawn] *= min(1.0, most / total) if total else 1.0
    return weights
