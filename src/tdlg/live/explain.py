"""Why a live event was scored as it was, in the words of `tdlg.explain`, and events and nodes as a page shows them."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.explain.propagation import explain_propagation
from tdlg.explain.reasons import explain_bursts
from tdlg.live.history import Around, History
from tdlg.live.recent import StoredEvent
from tdlg.live.scorer import UnknownEventError
from tdlg.live.state import LiveState
from tdlg.models.propagation import with_evidence
from tdlg.propagate.columns import Evidence, Network, Query, table_columns
from tdlg.propagate.features import PropagationFeatures
from tdlg.propagate.plan import category_codes, category_numbers, own_values

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LiveExplainer"]

Floats = NDArray[np.float64]


class LiveExplainer:
    """Explains events by what is still known of their nodes: fitted edges and recent events.

    Parameters
    ----------
    state
        The state of a live model.
    """

    def __init__(self, state: LiveState) -> None:
        self._state = state
        self._history = History(state)
        self._is_burst = state.meaning.kind == "outlier_detector"

    def event(self, id: Any) -> dict[str, Any] | None:
        """An event with its score and label; None if it is neither recent nor an alert."""
        stored = self._state.recent.get(id)
        if stored is not None:
            return self._shown(stored)
        alert = self._state.alerts.get(id)
        if alert is None:
            return None
        ends = {"id": alert.id, "src": alert.src, "dst": alert.dst, "time": alert.time}
        return {**ends, **alert.features, "label": alert.label, "score": alert.score}

    def node(self, id: Any, limit: int) -> dict[str, Any]:
        """The latest interactions of a node; see `LiveModel.node`."""
        fitted, live, n_fitted, n_live = self._history.of_node(id, limit)
        events = [*map(self._history.fitted_event, fitted), *map(self._shown, live)]
        known = [event["label"] for event in events if event["label"] is not None]
        n_positive = sum(map(self._state.meaning.is_positive, known))
        counts = {"n_live": n_live, "n_fitted": n_fitted, "labelled": len(known), "positive": n_positive}
        return {"id": id, "events": events, **counts}

    def explain(self, id: Any, top: int) -> dict[str, Any]:
        """The reasons for the score of an event; see `LiveModel.explain`."""
        stored, alert = self._state.recent.get(id), self._state.alerts.get(id)
        event = self.event(id)
        if event is None:
            raise UnknownEventError(f"There is no recent event and no alert with the id {id!r}.")
        number = None if stored is None else stored.number
        around = self._history.around(event, number, as_numbers=not self._is_burst)
        exact = next(
            (known.columns for known in (alert, stored) if known is not None and known.columns is not None), None
        )
        table = self._reasons(around, exact, top)
        reasons = [
            {
                "what": row["what"],
                "effect": row["effect"],
                "reason": row["reason"],
                "events": [self._behind(around, event, place) for place in row["neighbours"]],
            }
            for row in table.select("what", "effect", "reason", "neighbours").iter_rows(named=True)
        ]
        return {"id": event["id"], "score": event["score"], "reasons": reasons}

    def main_reason(self, id: Any) -> str:
        """The strongest reason in words; empty if no reason stands out."""
        reasons = self.explain(id, 3)["reasons"]
        raised = [found["reason"] for found in reasons if found["effect"] > 0]
        return (raised or [found["reason"] for found in reasons] or [""])[0]

    def _reasons(self, around: Around, exact: Floats | None, top: int) -> pl.DataFrame:
        """The table of reasons, from a copy of the model that knows what is around the event.

        Its columns are those that it was scored with, if they are kept, else they are made from what is around.
        """
        local, n = copy(self._state.model), len(around.edges) - 1
        local.edges_ = around.edges[:n]
        if self._is_burst:
            return explain_bursts(local, around.edges[n:], np.array([-1]), top)
        fitted = self._state.model.features_
        local.features_, query = with_evidence(fitted, local.edges_), _query(fitted, around.edges)
        columns = table_columns(fitted.plan_, query, n_threads=fitted.n_threads) if exact is None else exact[np.newaxis]
        scored = Scored(around.asked, local.values_of(columns), query, columns)
        two_classes = len(self._state.meaning.classes) == 2
        return explain_propagation(local, scored, top, positive=self._state.meaning.positive if two_classes else None)

    def _behind(self, around: Around, event: dict[str, Any], place: int) -> dict[str, Any]:
        """An interaction behind a reason, by its position in the edges around the event; it may be the event itself."""
        n_fitted = len(around.fitted)
        if place < n_fitted:
            return self._history.fitted_event(int(around.fitted[place]))
        return self._shown(around.live[place - n_fitted]) if place < n_fitted + len(around.live) else event

    def _shown(self, stored: StoredEvent) -> dict[str, Any]:
        event = stored.content()
        event.pop("label_time", None)
        time = self._state.meaning.time(stored.ticks)
        return {**event, "time": time, "label": stored.label, "score": stored.score}


def _query(features: PropagationFeatures, edges: TemporalEdges) -> Query:
    """What is known when the last of these edges is scored, from the others and their labels."""
    known, last = edges.labelled, np.array([len(edges) - 1])
    plan = features.plan_
    own, categories = own_values(edges, plan.own), category_codes(edges, category_numbers(edges, plan.many))
    targets = plan.targets_of(edges.label, known)
    return Query.of(Evidence(Network.of(edges), own, targets, known, categories, edges.label_ticks), last)
