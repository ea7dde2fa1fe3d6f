"""Why a live event was scored as it was, in the words of `tdlg.explain`, and what is known of events and nodes."""

from __future__ import annotations

from copy import copy
from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import DST, SRC
from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.explain.outliers import explain_surprises
from tdlg.explain.reasons import explain_bursts, strongest_reasons
from tdlg.explain.sentences import Reason
from tdlg.live.cases import StoredEvent
from tdlg.live.scorer import UnknownEventError
from tdlg.live.state import LiveState
from tdlg.models.propagation import labelled_edges, with_evidence
from tdlg.models.surprise import SurpriseDetector
from tdlg.propagate.bursts import Surprises
from tdlg.propagate.columns import Evidence, Network, Query, table_columns
from tdlg.propagate.features import PropagationFeatures
from tdlg.propagate.plan import category_codes, category_numbers, own_values
from tdlg.sampling.index import feature_values
from tdlg.tables.ids import id_key

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LiveExplainer", "edges_of_contents"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

LATEST_OF_NODE = 100  # interactions of a node that are looked at, of the fitted ones and of the recent ones
LABELLED = 50  # labelled interactions of a node that are looked at, if the latest ones are not labelled
PARTNERS = 20  # partners of a node whose labelled interactions are looked at
FEW = 5  # times as many reasons are looked at, of which those that raise the score are shown
LONGEST_WALK = 2000  # recent events of a node in which labelled ones are looked for


class LiveExplainer:
    """Explains events by what is still known of their nodes: fitted edges and recent events."""

    def __init__(self, state: LiveState) -> None:
        self._state, self._history = state, _History(state)
        self._is_burst = state.outcome.kind == "outlier_detector"

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
        labels = [event["label"] for event in events if event["label"] is not None]
        n_positive = sum(map(self._state.outcome.is_positive, labels))
        counts = {"n_live": n_live, "n_fitted": n_fitted, "labelled": len(labels), "positive": n_positive}
        return {"id": id, "events": events, **counts}

    def explain(self, id: Any, top: int) -> dict[str, Any]:
        """The reasons for the score of an event; see `LiveModel.explain`."""
        stored, alert = self._state.recent.get(id), self._state.alerts.get(id)
        event = self.event(id)
        if event is None:
            raise UnknownEventError(f"There is no recent event and no alert with the id {id!r}.")
        number = None if stored is None else stored.number
        known = self._history.neighbourhood(event, number, as_numbers=not self._is_burst)
        exact = [one.columns for one in (alert, stored) if one is not None and one.columns is not None]
        is_blind = bool(alert and alert.status == "open" and self._state.settings.explore)
        n = FEW * top if is_blind else top
        strongest = self._reasons(known, exact[0] if exact else None, n)
        if is_blind:  # what lowers a score would tell the drawn events from alerts
            strongest = [one for one in strongest if one[1] > 0][:top] or sorted(strongest, key=lambda one: -one[1])[:1]
        reasons = [
            {
                "what": what,
                "effect": effect,
                "reason": reason,
                "events": [self._behind(known, event, k) for k in places],
            }
            for what, effect, (reason, places) in strongest
        ]
        return {"id": event["id"], "score": event["score"], "reasons": reasons}

    def main_reason(self, id: Any) -> str:
        """The strongest reason in words; empty if no reason stands out."""
        reasons = self.explain(id, 3)["reasons"]
        raised = [found["reason"] for found in reasons if found["effect"] > 0]
        return (raised or [found["reason"] for found in reasons] or [""])[0]

    def _reasons(self, known: _Neighbourhood, exact: Floats | None, top: int) -> list[tuple[str, float, Reason]]:
        """What moved the score, with effects and reasons: a copy of the model knows the neighbourhood of the event.

        Its columns are those that it was scored with, if they are kept, else they are made from the neighbourhood.
        """
        local, n = copy(self._state.model), len(known.edges) - 1
        local.edges_ = known.edges[:n]
        if self._is_burst:
            table = self._of_outlier(local, known.edges[n:], exact, top)
            return [(row["what"], row["effect"], (row["reason"], row["neighbours"])) for row in table.to_dicts()]
        fitted = self._state.model.features_
        local.features_, query = with_evidence(fitted, local.edges_), _query(fitted, known.edges)
        columns = table_columns(fitted.plan_, query, n_threads=1) if exact is None else exact[np.newaxis]
        scored = Scored(known.asked, local.values_of(columns), query, columns)
        two_classes = len(self._state.outcome.classes) == 2
        return strongest_reasons(local, scored, top, self._state.outcome.positive if two_classes else None)

    def _of_outlier(self, local: Any, event: TemporalEdges, exact: Floats | None, top: int) -> pl.DataFrame:
        """Reasons of a detector; where it was seen how unusual an event is, that counts."""
        detector = copy(getattr(local, "detector_", local))
        detector.edges_, is_new = local.edges_, np.array([-1])
        if not isinstance(detector, SurpriseDetector):
            return explain_bursts(detector, event, is_new, top)
        found = detector.judged(event)
        if exact is not None:
            seen = Surprises.of_columns(exact[np.newaxis], len(detector.plan_.kinds))
            for mine, one in zip(found, seen, strict=True):
                mine[-1] = one[0]
        return explain_surprises(detector, event, is_new, top, found=found)

    def _behind(self, known: _Neighbourhood, event: dict[str, Any], place: int) -> dict[str, Any]:
        """An interaction behind a reason, by its position in the neighbourhood; it may be the event itself."""
        n_fitted = len(known.fitted)
        if place < n_fitted:
            return self._history.fitted_event(int(known.fitted[place]))
        return self._shown(known.live[place - n_fitted]) if place < n_fitted + len(known.live) else event

    def _shown(self, stored: StoredEvent) -> dict[str, Any]:
        event = stored.content()
        event.pop("label_time", None)
        time, alert = self._state.outcome.time(stored.ticks), self._state.alerts.get(stored.id)
        score = stored.score if alert is None else alert.score
        return {**event, "time": time, "label": stored.label, "score": score}


def _query(features: PropagationFeatures, edges: TemporalEdges) -> Query:
    """What is known when the last of these edges is scored, from the others and their labels."""
    known, last = edges.labelled, np.array([len(edges) - 1])
    plan = features.plan_
    own, categories = own_values(edges, plan.own), category_codes(edges, category_numbers(edges, plan.many))
    targets = plan.targets_of(edges.label, known)
    return Query.of(Evidence(Network.of(edges), own, targets, known, categories, edges.label_ticks), last)


class _Neighbourhood(NamedTuple):
    """What happened at the nodes of an event and at their partners, before it."""

    asked: TemporalEdges  # the event, as one edge
    edges: TemporalEdges  # fitted edges, then recent events, with labels; then the event itself
    fitted: Positions  # of the fitted ones among the edges of the model
    live: list[StoredEvent]  # the recent ones


class _History:
    """Finds the interactions of nodes among the fitted edges and the recent events."""

    def __init__(self, state: LiveState) -> None:
        self._state, model = state, state.model
        self._edges = labelled_edges(model.features_) if hasattr(model, "features_") else model.edges_
        self._first = int(np.argmin(self._edges.ticks)) if len(self._edges) else 0
        self._sorted: dict[Any, tuple[Positions, Positions]] = {}
        self._ticks = state.outcome.on_clock(self._edges.ticks, self._edges.time_unit)

    def neighbourhood(self, event: dict[str, Any], number: int | None, *, as_numbers: bool) -> _Neighbourhood:
        """What happened before an event.

        number : that among the recent events, None if it is not recent any more; as_numbers : whether numbers stand for the
        nodes, which takes less time.
        """
        nodes = [event["src"], event["dst"]]
        live = {stored.number: stored for node in nodes for stored in self._live(node, number)}
        fitted = {row for node in nodes for code in self._codes_of(node) for row in self._fitted(code)}
        for partner in [id for node in nodes for id in self._partners(node, number)]:
            fitted |= {row for code in self._codes_of(partner) for row in self._latest(code, LABELLED, labelled=True)}
            live |= {stored.number: stored for stored in self._live(partner, number) if stored.label is not None}
        rows = np.array(sorted(fitted | {self._first}), np.int64)
        listed = [live[key] for key in sorted(live)]
        asked = {**event, **{end: self._written(event[end]) for end in ("src", "dst")}}
        edges = edges_of_contents([asked], self._times([self._ticks_of(event)]), self._edges[:0])
        return _Neighbourhood(edges, self._joined(rows, listed, event, as_numbers), rows, listed)

    def of_node(self, node: Any, limit: int) -> tuple[list[int], list[StoredEvent], int, int]:
        """The latest fitted edges and recent events of a node, in the order of time, and how many there are of each."""
        recent = [
            stored for _, stored in zip(range(limit + LONGEST_WALK), self._state.recent.of_node(node), strict=False)
        ]
        newest = nlargest(limit, recent, key=lambda stored: stored.ticks)[::-1]
        codes, n_shown = self._codes_of(node), max(0, limit - len(newest))
        rows = sorted(
            {row for code in codes for row in self._latest(code, n_shown)}, key=lambda row: self._edges.ticks[row]
        )
        n_fitted = sum(self._count(code) for code in codes)
        return rows[len(rows) - min(n_shown, len(rows)) :], newest, n_fitted, self._state.recent.n_of_node(node)

    def fitted_event(self, row: int) -> dict[str, Any]:
        """A fitted edge as an event without an id."""
        edges = self._edges
        values = () if edges.features is None else edges.features[row].tolist()
        names = dict(zip(edges.feature_names, values, strict=True))
        for name, categories in edges.feature_categories.items():
            names[name] = categories[int(names[name])] if np.isfinite(names[name]) else None
        label = edges.label[row] if edges.label is not None and edges.labelled[row] else None
        ends = {"src": edges.src[row], "dst": edges.dst[row], "time": self._state.outcome.time(self._ticks[row])}
        event = {**ends, **names, "label": label}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in event.items()}

    # ---- fitted edges

    def _codes_of(self, node: Any) -> list[int]:
        """The codes of a node in the fitted edges: none, one, or two if it is a source and a destination of two types."""
        ids, key = self._edges.node_ids, id_key(node)
        found = {self._state.scorer.nodes.find(node, end) for end in (SRC, DST)}
        codes = sorted(code for code in found if code is not None and code < len(ids))
        codes = [code for code in codes if id_key(ids[code]) == key]
        if codes:
            return codes
        is_node = np.any([ids == form for form in {key, str(key)}], axis=0)  # a node that the stream has forgotten
        return np.flatnonzero(is_node).tolist()

    def _written(self, node: Any) -> Any:
        """A node as the fitted edges write it, if they have it."""
        codes = self._codes_of(node)
        return self._edges.node_ids[codes[:1]].tolist()[0] if codes else node

    def _slice(self, code: int, end: str, labelled: bool = False) -> Positions:
        """The fitted edges with a node at one end, by time; those of all nodes are sorted once."""
        if (end, labelled) not in self._sorted:
            rows = np.flatnonzero(self._edges.labelled) if labelled else np.arange(len(self._edges))
            codes = getattr(self._edges, f"{end}_code")[rows]
            order = np.lexsort((self._edges.ticks[rows], codes))
            starts = np.searchsorted(codes[order], np.arange(len(self._edges.node_ids) + 1))
            self._sorted[end, labelled] = rows[order], starts
        rows, starts = self._sorted[end, labelled]
        return rows[starts[code] : starts[code + 1]]

    def _latest(self, code: int, n: int, *, labelled: bool = False) -> list[int]:
        """The latest fitted edges of a node, by time."""
        parts = [self._slice(code, end, labelled) for end in ("src", "dst")]
        parts = [part[len(part) - min(n, len(part)) :] for part in parts if len(part)]
        if len(parts) < 2:  # as in two types of nodes
            return parts[0].tolist() if parts else []
        rows = np.unique(np.concatenate(parts))
        rows = rows[np.argsort(self._edges.ticks[rows], kind="stable")]
        return rows[len(rows) - min(n, len(rows)) :].tolist()

    def _count(self, code: int) -> int:
        sources, destinations = self._slice(code, "src"), self._slice(code, "dst")
        loops = 0 if self._edges.bipartite else np.count_nonzero(self._edges.dst_code[sources] == code)
        return len(sources) + len(destinations) - int(loops)

    def _fitted(self, code: int) -> list[int]:
        """The latest fitted edges of a node, and the latest labelled ones."""
        return [*self._latest(code, LATEST_OF_NODE), *self._latest(code, LABELLED, labelled=True)]

    def _partners(self, node: Any, number: int | None) -> list[Any]:
        """The latest other nodes that a node had to do with: in recent events, then in fitted edges."""
        rows = [row for code in self._codes_of(node) for row in self._latest(code, LATEST_OF_NODE)[::-1]]
        live = [(stored.src, stored.dst) for stored in self._live(node, number)]
        fitted = zip(self._edges.src[rows].tolist(), self._edges.dst[rows].tolist(), strict=True)
        others = {id_key(id): id for pair in [*live, *fitted] for id in pair if id_key(id) != id_key(node)}
        return [*others.values()][:PARTNERS]

    # ---- recent events

    def _live(self, node: Any, number: int | None) -> list[StoredEvent]:
        """The latest recent events of a node, and the latest labelled ones."""
        found: list[StoredEvent] = []
        n_labelled = 0
        for k, stored in zip(range(LONGEST_WALK), self._state.recent.of_node(node, number), strict=False):
            if k < LATEST_OF_NODE or (stored.label is not None and n_labelled < LABELLED):
                found.append(stored)
            n_labelled += stored.label is not None
        return found

    # ---- edges

    def _ticks_of(self, event: dict[str, Any]) -> Any:
        return self._state.scorer.reader.tick_of(event["time"])

    def _times(self, ticks: list[Any]) -> NDArray[Any]:
        return times_of(np.array(ticks, self._ticks.dtype), self._state.outcome.unit)

    def _joined(
        self, rows: Positions, live: list[StoredEvent], event: dict[str, Any], as_numbers: bool
    ) -> TemporalEdges:
        """Fitted edges, recent events and the event itself in one table."""
        fitted, contents = self._edges[rows], [*(stored.content() for stored in live), event]
        codes, places = np.unique([fitted.src_code, fitted.dst_code], return_inverse=True)
        known = [(id_key(id), id) for id in self._edges.node_ids[codes].tolist()]
        ends = [[known[k] for k in side] for side in places.reshape(2, -1).tolist()]
        for at, end in enumerate(("src", "dst")):
            ends[at] += [(stored.keys[1 + at], getattr(stored, end)) for stored in live if stored.keys is not None]
            ends[at].append((id_key(event[end]), event[end]))
        written: dict[Any, Any] = {}  # each node as it is first written, or its number
        for key, id in (pair for side in ends for pair in side):
            written.setdefault(key, len(written) if as_numbers else id)
        given = [[written[key] for key, _ in side] for side in ends]
        src, dst = map(np.array, given) if as_numbers else given
        asked = self._ticks_of(event)
        times = self._times([*self._ticks[rows].tolist(), *(stored.ticks for stored in live), asked])
        edges = edges_of_contents(contents, times, fitted, src, dst)
        known_at = self._state.outcome.on_clock(fitted.known_at, fitted.time_unit).tolist()
        known_at += [stored.ticks if stored.label_ticks is None else stored.label_ticks for stored in live]
        given = fitted.labelled.tolist() if fitted.label is None else fitted.label.tolist()
        labels = [label if known else None for label, known in zip(given, fitted.labelled, strict=True)]
        labels += [*(stored.label for stored in live), None]
        if all(label is None for label in labels):
            return edges
        return edges.with_label(_typed(labels, self._edges.label), self._times([*known_at, asked]))


def edges_of_contents(
    contents: list[dict[str, Any]],
    times: NDArray[Any],
    fitted: TemporalEdges,
    src: Any = None,
    dst: Any = None,
) -> TemporalEdges:
    """Fitted edges and then events as edges, with their features; src, dst and times are those of all."""
    if src is None:
        src, dst = ([one[end] for one in contents] for end in ("src", "dst"))
    features: dict[str, Any] = {}
    for name in fitted.feature_names:
        mine = [_feature_value(one.get(name), name, fitted) for one in contents]
        values = [*feature_values(fitted, name).tolist(), *mine]
        features[name] = values if name in fitted.feature_categories else np.array(values, np.float64)
    weight = None
    if fitted.weight is not None:
        weight = [*fitted.weight.tolist(), *(1.0 if one.get("weight") is None else one["weight"] for one in contents)]
    return TemporalEdges(src, dst, times, weight=weight, features=features or None, bipartite=fitted.bipartite)


def _feature_value(value: Any, name: str, fitted: TemporalEdges) -> Any:
    """A feature as its column has it: text for categories, a number else."""
    if name not in fitted.feature_categories:
        return float("nan") if value is None else float(value)
    if value is None or not isinstance(fitted.feature_categories[name][0], str):
        return value
    return str(value) if isinstance(value, bool) else str(id_key(value))


def _typed(labels: list[Any], fitted: NDArray[Any] | None) -> NDArray[Any]:
    """Labels of the type that the fitted ones have."""
    if fitted is None or fitted.dtype.kind not in "iuf":
        return np.array(labels, object)
    return np.array([np.nan if label is None else label for label in labels], np.float64)
