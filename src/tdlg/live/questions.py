"""What can be asked of a live model: events, reasons, alerts, nodes and numbers, none of which changes its state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

from tdlg.checks import check_count
from tdlg.live.alerts import Alert, Status, status_of
from tdlg.live.explain import LiveExplainer
from tdlg.live.state import Answer, LiveState, Settings
from tdlg.live.statistics import Rate, statistics_of

__all__ = ["Questions", "locked"]

Method = TypeVar("Method", bound=Callable[..., Any])


def locked(method: Method) -> Method:
    """Let one thread at a time use a live model."""

    @wraps(method)
    def alone(self: Questions, *args: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *args, **options)

    return cast(Method, alone)


class Questions:
    """The part of a live model that answers questions.

    Parameters
    ----------
    state
        The state of the live model.
    """

    def __init__(self, state: LiveState) -> None:
        self._state = state
        self._lock = threading.RLock()
        self._rate = Rate()
        self._explainer = LiveExplainer(state)

    @property
    def classes(self) -> list[Any]:
        """The classes of the model, with whole numbers as integers; empty if it has none."""
        return self._state.meaning.classes

    @property
    def positive(self) -> Any:
        """The class that scores are about; None if the model has no classes."""
        return self._state.meaning.positive

    @property
    def negative(self) -> Any:
        """The label of a dismissed alert: the other one of two classes; None if there is no such class."""
        return self._state.meaning.other

    def is_positive(self, label: Any) -> bool:
        """Whether a label is the positive class; any label above 0 for a model without classes."""
        return self._state.meaning.is_positive(label)

    @property
    def threshold(self) -> float:
        """The score from which on an event is an alert."""
        return self._state.threshold

    @property
    def position(self) -> Any:
        """The position of the source that came with the latest events; None if none did."""
        return self._state.position

    @property
    def n_labels(self) -> int:
        """How many labels were set or withdrawn."""
        return self._state.n_labels

    @property
    def time_unit(self) -> str | None:
        """The unit of the stream's clock; None if times are numbers."""
        return self._state.meaning.unit

    def values_of(self, answer: Answer) -> Any:
        """The values that the model gave in an answer: probabilities, a number, or the score of a burst."""
        return self._state.meaning.values(answer.score, answer.probabilities)

    @property
    def settings(self) -> Settings:
        """What was chosen for the directory."""
        return self._state.settings

    @property
    def sequence(self) -> int:
        """Number of changes so far; see `changes`."""
        return self._state.alerts.sequence

    @locked
    def event(self, id: Any) -> dict[str, Any] | None:
        """An event with its score and label; None if it is neither recent nor an alert."""
        return self._explainer.event(id)

    @locked
    def explain(self, id: Any, top: int = 3) -> dict[str, Any]:
        """The reasons for the score of an event, in words.

        Parameters
        ----------
        id
            The id of a recent event or of an alert.
        top
            The most reasons to give, those of the largest effect first.

        Returns
        -------
        dict
            "id", "score", and "reasons": a list of {"what", "effect", "reason", "events"}, see
            `PropagationClassifier.explain`; "events" are the interactions behind a reason. Interactions that are no
            longer recent are missing in the words, though they count in the score.

        Raises
        ------
        UnknownEventError
            If the event is not kept any more, or never was.
        """
        check_count("explain", "top", top, 1)
        return self._explainer.explain(id, top)

    @locked
    def alerts(
        self, status: Status = "open", limit: int = 50, before: int | None = None, *, explained: bool = True
    ) -> list[Alert]:
        """The alerts of a status, the newest first, each with its main reason.

        Parameters
        ----------
        status
            "open", "confirmed", "dismissed", "expired" (not decided, and too long ago for a label) or "all".
        limit
            The most alerts to give.
        before
            The `sequence` of an alert, to continue with older ones. By default the newest alerts.
        explained
            Whether reasons that nobody asked for yet are found, which takes some milliseconds each. See `reason`.
        """
        oldest = self._state.oldest
        listed = self._state.alerts.listed(status, limit, before, oldest)
        if explained:
            for alert in listed:
                self.reason(alert.id)
        return [replace(alert, status=status_of(alert, oldest)) for alert in listed]

    @locked
    def reason(self, id: Any) -> str:
        """The main reason for an alert in words; empty if none stands out, or if the alert is not kept any more."""
        alert = self._state.alerts.get(id)
        if alert is None:
            return ""
        if alert.reason is None:
            alert.reason = self._explainer.main_reason(id)
        return alert.reason

    @locked
    def node(self, id: Any, limit: int = 100) -> dict[str, Any]:
        """The latest interactions of a node, fitted and live.

        Parameters
        ----------
        id
            The node. The text of a number stands for the number.
        limit
            The most interactions to give.

        Returns
        -------
        dict
            "id"; "events", in the order of time, the latest last; "n_live" and "n_fitted", the numbers of its
            interactions among the recent and the fitted ones; "labelled" and "positive", how many of the listed ones have
            a label, and the positive one.
        """
        return self._explainer.node(id, limit)

    @locked
    def statistics(self) -> dict[str, Any]:
        """Numbers for a page; see `tdlg.live.statistics.statistics_of`."""
        return statistics_of(self._state, self._rate)

    @locked
    def changes(self, since: int = 0) -> list[dict[str, Any]]:
        """What happened to alerts after change number `since`, the oldest first.

        Each change has "sequence", "kind" ("alert" or "decision"), "id" and "status". The latest 10,000 are kept: if the
        first sequence is above `since` + 1, those between are not kept any more.
        """
        return self._state.alerts.changes(since)
