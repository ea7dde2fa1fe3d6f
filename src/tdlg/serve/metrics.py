"""Counts and times of the service, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["Metrics"]

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 10_000)


class Family(NamedTuple):
    """The type of a metric, what it says, and the upper bounds of a histogram."""

    kind: str
    help: str
    bounds: tuple[float, ...] = ()


FAMILIES = {
    "tdlg_events_total": Family("counter", "Events by outcome: scored, repeated, or refused for an error in them."),
    "tdlg_late_events_total": Family("counter", "Scored events that are older than the latest one."),
    "tdlg_alerts_total": Family("counter", "Events whose score reached the threshold."),
    "tdlg_labels_total": Family("counter", "Labels by outcome: learnt or refused."),
    "tdlg_requests_total": Family("counter", "Requests by path and status."),
    "tdlg_log_failures_total": Family("counter", "Requests that were refused because the log could not be written."),
    "tdlg_request_seconds": Family("histogram", "Time from the first byte of a request to its answer.", SECONDS),
    "tdlg_turn_events": Family("histogram", "Events and labels that were written with one sync of the log.", SIZES),
    "tdlg_queue_events": Family("gauge", "Events and labels that wait."),
    "tdlg_up": Family("gauge", "1 if events can be scored, 0 if the log cannot be written."),
    "tdlg_nodes": Family("gauge", "Nodes in the state."),
    "tdlg_pending_events": Family("gauge", "Events that still wait for a label."),
    "tdlg_unseen_categories": Family(
        "gauge", "Events with a category that no fitted edge has, since the model was fitted."
    ),
    "tdlg_differing_repetitions": Family(
        "gauge", "Repeated events whose content is not that of the first one with their id, since the start."
    ),
    "tdlg_records_set_aside": Family("gauge", "Records of the log that could not be learnt and are left out."),
    "tdlg_disk_bytes": Family("gauge", "Bytes of the log, the snapshots and the models on the disk."),
}


class Histogram:
    """How many values were at most each bound, their sum and their number."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        """The lines of the text format."""
        total = 0
        for bound, n in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += n
            yield f'{name}_bucket{{le="{_number(bound)}"}} {total}'
        yield f"{name}_sum {self._sum:.9g}"
        yield f"{name}_count {total}"


class Metrics:
    """Counters and histograms; all calls are on the event loop.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("tdlg_labels_total", outcome="learnt")
    >>> print(metrics.text({"tdlg_up": 1}), end="")  # doctest: +ELLIPSIS
    # HELP ...
    # TYPE tdlg_labels_total counter
    tdlg_labels_total{outcome="learnt"} 1
    ...
    # TYPE tdlg_up gauge
    tdlg_up 1
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[tuple[tuple[str, str], ...], int]] = defaultdict(lambda: defaultdict(int))
        self._histograms = {name: Histogram(family.bounds) for name, family in FAMILIES.items() if family.bounds}

    def count(self, name: str, n: int = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counts[name][tuple(labels.items())] += n

    def observe(self, name: str, value: float) -> None:
        """Count a value in a histogram."""
        self._histograms[name].observe(value)

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of them, and gauges with the values of this moment."""
        lines: list[str] = []
        for name, family in FAMILIES.items():
            values = list(self._values(name, gauges))
            if values:
                lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *values]
        return "\n".join(lines) + "\n"

    def _values(self, name: str, gauges: Mapping[str, float]) -> Iterator[str]:
        if name in self._histograms:
            yield from self._histograms[name].lines(name)
        elif name in gauges:
            yield f"{name} {_number(gauges[name])}"
        for labels, n in self._counts.get(name, {}).items():
            written = ",".join(f'{key}="{_quoted(value)}"' for key, value in labels)
            yield f"{name}{{{written}}} {n}" if written else f"{name} {n}"


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else f"{value:.15g}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
