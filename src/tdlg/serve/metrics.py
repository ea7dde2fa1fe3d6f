"""Counts and times of the service for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 10_000)
GAUGES = {
    "up": "1 if events can be scored, 0 if the log cannot be written.",
    "queue_events": "Events and labels that wait.",
    "nodes": "Nodes in the state.",
    "pending_events": "Events that still wait for a label.",
    "disk_bytes": "Bytes of the log, the snapshots and the models on the disk.",
    "unseen_categories": "Events with a category that no fitted edge has, since the model was fitted.",
    "differing_repetitions": "Repeated events whose content is not that of the first one with their id, since the start.",
    "records_set_aside": "Records of the log that could not be learnt and are left out.",
    "refit_due": "1 if the last week drifts from the fit.",
    "expected_precision": "Share of the last week's alerts that the scores expect to be confirmed.",
}


class Metrics:
    """What one service counts, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry, namespace="tdlg")
        histogram = partial(Histogram, registry=self._registry, namespace="tdlg")
        self.events = counter(
            "events", "Events by outcome: scored, repeated, or refused for an error in them.", ["outcome"]
        )
        self.late = counter("late_events", "Scored events that are older than the latest one.")
        self.alerts = counter("alerts", "Events whose score reached the threshold.")
        self.labels = counter("labels", "Labels by outcome: learnt or refused.", ["outcome"])
        self.requests = counter("requests", "Requests by path and status.", ["path", "status"])
        self.log_failures = counter("log_failures", "Requests that were refused because the log could not be written.")
        self.seconds = histogram(
            "request_seconds", "Time from the first byte of a request to its answer.", buckets=SECONDS
        )
        self.turns = histogram("turn_events", "Events and labels written with one sync of the log.", buckets=SIZES)
        self._drift = Gauge(
            "drift",
            "How far the last week is from the fit, in times of the threshold.",
            ["of"],
            registry=self._registry,
            namespace="tdlg",
        )
        self._gauges = {
            name: Gauge(name, text, registry=self._registry, namespace="tdlg") for name, text in GAUGES.items()
        }

    def text(self, gauges: Mapping[str, float], drifts: Mapping[str, float] = {}) -> bytes:
        """All of them in the text format, and gauges with the values of this moment; `drifts` has those of `drift`."""
        self._drift.clear()
        for of, value in drifts.items():
            self._drift.labels(of).set(value)
        for name, value in gauges.items():
            self._gauges[name].set(value)
        return generate_latest(self._registry)
