"""Why a live event was scored as it was, in the words of `tdlg.explain`, and what is known of events and nodes."""

from __future__ import annotations

import os
import pickle
import sys
from copy import copy
from heapq import nlargest
from itertools import islice
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
from tdlg.live.event import encode, stored_content
from tdlg.live.outcome import Outcome
from tdlg.live.scorer import UnknownEventError
from tdlg.models.propagation import labelled_edges, with_evidence
from tdlg.models.surprise import SurpriseDetector
from tdlg.persist.model import load_model
from tdlg.propagate.bursts import Surprises
from tdlg.propagate.features import Evidence, Network, PropagationFeatures, Query, table_columns
from tdlg.propagate.plan import category_codes, category_numbers, own_values
from tdlg.propagate.state import NodeCodes
from tdlg.sampling.index import feature_values
from tdlg.tables.ids import id_key

if TYPE_CHECKING:
    import polars as pl

    from tdlg.live.state import LiveState

__all__ = ["LiveExplainer", "Question", "Reasons", "answer_questions", "edges_of_contents", "main_reason"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

LATEST_OF_NODE = 100  # interactions of a node that are looked at, of the fitted ones and of the recent ones
LABELLED = 50  # labelled interactions of a node that are looked at, if the latest ones are not labelled
PARTNERS = 20  # partners of a node whose labelled interactions are looked at
FEW = 5  # times as many reasons are looked at, of which those that raise the score are shown
LATE_ONES = 500  # recent events of a node that are looked through for the latest ones


class Interaction(NamedTuple):
    """A recent event, as a question about another one has it."""

    src: Any
    dst: Any
    ticks: Any
    stored: Any
    score: float
    label: Any
    label_ticks: Any

    def content(self) -> dict[str, Any]:
        """The event as it was passed."""
        return stored_content(self.stored)


class Question(NamedTuple):
    """Why an event has its score, and what is known around it: with the model alone, it can be answered anywhere."""

    event: dict[str, Any]
    ticks: Any
    columns: Floats | None  # those that it was scored with, if they are kept
    live: list[Interaction]  # recent events of its nodes and of their partners, in the order in which they came
    partners: list[Any]
    top: int
    is_blind: bool  # what lowers the score is not told: it would tell events drawn for review from alerts


class LiveExplainer:
    """Says what is known of events and nodes: fitted edges and recent events."""

    def __init__(self, state: LiveState, reasons: Reasons | None = None) -> None:
        self._state, self.reasons = state, reasons or Reasons(state.model)

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
        recent, fitted = self._state.recent, self.reasons.fitted
        latest = nlargest(limit, islice(recent.of_node(id), limit + LATE_ONES), key=lambda stored: stored.ticks)[::-1]
        rows, n_fitted = fitted.of_node(id, max(0, limit - len(latest)))
        events = [*map(self.reasons.fitted_event, rows), *map(self._shown, latest)]
        labels = [event["label"] for event in events if event["label"] is not None]
        n_positive = sum(map(self._state.outcome.is_positive, labels))
        counts = {"n_live": recent.n_of_node(id), "n_fitted": n_fitted, "labelled": len(labels), "positive": n_positive}
        return {"id": id, "events": events, **counts}

    def question(self, id: Any, top: int) -> Question:
        """Why an event has its score, for `Reasons.answer`. This takes a millisecond or two, however busy its nodes are."""
        recent, stored, alert = self._state.recent, self._state.recent.get(id), self._state.alerts.get(id)
        event = self.event(id)
        if event is None:
            raise UnknownEventError(f"There is no recent event and no alert with the id {id!r}.")
        before = None if stored is None else stored.number
        live: dict[int, StoredEvent] = {}
        partners: list[Any] = []
        for node in (event["src"], event["dst"]):
            latest = [*islice(recent.of_node(node, before), LATEST_OF_NODE)]
            for one in (*latest, *recent.labelled_of(node, LABELLED, before)):
                live[one.number] = one
            pairs = [*((one.src, one.dst) for one in latest), *self.reasons.fitted.pairs_of(node)]
            others = {id_key(end): end for pair in pairs for end in pair if id_key(end) != id_key(node)}
            partners += [*others.values()][:PARTNERS]
        for partner in partners:
            live |= {one.number: one for one in recent.labelled_of(partner, LABELLED, before)}
        columns = [one.columns for one in (alert, stored) if one is not None and one.columns is not None]
        listed = [self._interaction(live[number]) for number in sorted(live)]
        ticks = self._state.scorer.reader.tick_of(event["time"])
        is_blind = bool(alert and alert.status == "open" and (self._state.settings.explore or alert.blind))
        return Question(event, ticks, columns[0] if columns else None, listed, partners, top, is_blind)

    def explain(self, id: Any, top: int) -> dict[str, Any]:
        """The reasons for the score of an event; see `LiveModel.explain`."""
        return self.reasons.answer(self.question(id, top))

    def _shown(self, stored: StoredEvent) -> dict[str, Any]:
        return self.reasons.shown(self._interaction(stored))

    def _interaction(self, one: StoredEvent) -> Interaction:
        alert = self._state.alerts.get(one.id)
        stored = one.stored if isinstance(one.stored, bytes) else encode(one.content()).encode()
        score = one.score if alert is None else alert.score
        return Interaction(one.src, one.dst, one.ticks, stored, score, one.label, one.label_ticks)


def main_reason(found: dict[str, Any]) -> str:
    """The strongest of the reasons that `explain` gave, in words; empty if none stands out."""
    raised = [one["reason"] for one in found["reasons"] if one["effect"] > 0]
    return (raised or [one["reason"] for one in found["reasons"]] or [""])[0]


def answer_questions() -> None:
    """Answer what comes through stdin, until it ends: each time the file of a model, and a question or several."""
    answers, file, reasons = os.fdopen(os.dup(1), "wb"), None, None
    os.dup2(2, 1)  # what is printed is no answer
    if hasattr(os, "nice"):
        os.nice(19)  # scores go first
    while head := sys.stdin.buffer.read(8):
        wanted, question = pickle.loads(sys.stdin.buffer.read(int.from_bytes(head, "big")))
        answer: Any
        try:
            if wanted != file or reasons is None:
                file, reasons = wanted, Reasons(load_model(wanted))
                reasons.fitted.prepare()
            answer = None if question is None else reasons.answer(question)
        except Exception as error:
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        data = pickle.dumps(answer)
        answers.write(len(data).to_bytes(8, "big") + data)
        answers.flush()


class Reasons:
    """Finds the reasons for scores, from a model and what is known around an event; it knows no state."""

    def __init__(self, model: Any) -> None:
        self._model, self._outcome = model, Outcome(model)
        self.fitted = _Fitted(model, self._outcome)
        self._is_burst = self._outcome.kind == "outlier_detector"

    def answer(self, asked: Question) -> dict[str, Any]:
        """The reasons for the score of an event; see `LiveModel.explain`."""
        rows, event = self.fitted.around(asked), asked.event
        one = {**event, **{end: self.fitted.written(event[end]) for end in ("src", "dst")}}
        edges = edges_of_contents([one], self._times([asked.ticks]), self.fitted.edges[:0])
        known = self._joined(rows, asked)
        strongest = self._reasons(edges, known, asked)
        if asked.is_blind:
            raising = [one for one in strongest if one[1] > 0][: asked.top]
            strongest = raising or sorted(strongest, key=lambda one: -one[1])[:1]
        reasons = [
            {
                "what": what,
                "effect": effect,
                "reason": reason,
                "events": [self._behind(rows, asked, place) for place in places],
            }
            for what, effect, (reason, places) in strongest
        ]
        return {"id": event["id"], "score": event["score"], "reasons": reasons}

    def _reasons(self, one: TemporalEdges, known: TemporalEdges, asked: Question) -> list[tuple[str, float, Reason]]:
        """What moved the score, with effects and reasons: a copy of the model knows the neighbourhood of the event.

        Its columns are those that it was scored with, if they are kept, else they are made from the neighbourhood.
        """
        local, n, exact = copy(self._model), len(known) - 1, asked.columns
        top = FEW * asked.top if asked.is_blind else asked.top
        local.edges_ = known[:n]
        if self._is_burst:
            table = self._of_outlier(local, known[n:], exact, top)
            return [(row["what"], row["effect"], (row["reason"], row["neighbours"])) for row in table.to_dicts()]
        fitted = self._model.features_
        local.features_, query = with_evidence(fitted, local.edges_), _query(fitted, known)
        columns = table_columns(fitted.plan_, query, n_threads=1) if exact is None else exact[np.newaxis]
        scored = Scored(one, local.values_of(columns), query, columns)
        two_classes = len(self._outcome.classes) == 2
        return strongest_reasons(local, scored, top, self._outcome.positive if two_classes else None)

    def _of_outlier(self, local: Any, event: TemporalEdges, exact: Floats | None, top: int) -> pl.DataFrame:
        """Reasons of a detector; where it was seen how unusual an event is, that counts."""
        detector = copy(getattr(local, "detector_", local))
        detector.edges_, is_new = local.edges_, np.array([-1])
        if not isinstance(detector, SurpriseDetector):
            return explain_bursts(detector, event, is_new, top)
        found = detector.judged(event)
        if exact is not None:
            seen = Surprises.of_columns(exact[np.newaxis], len(detector.plan_.kinds))
            for mine, its in zip(found, seen, strict=True):
                mine[-1] = its[0]
        return explain_surprises(detector, event, is_new, top, found=found)

    def _behind(self, rows: Positions, asked: Question, place: int) -> dict[str, Any]:
        """An interaction behind a reason, by its place in the neighbourhood; it may be the event itself."""
        if place < len(rows):
            return self.fitted_event(int(rows[place]))
        place -= len(rows)
        return self.shown(asked.live[place]) if place < len(asked.live) else asked.event

    def shown(self, stored: Interaction) -> dict[str, Any]:
        """A recent event with its score and label."""
        event = stored.content()
        event.pop("label_time", None)
        time = self._outcome.time(stored.ticks)
        return {**event, "time": time, "label": stored.label, "score": stored.score}

    def fitted_event(self, row: int) -> dict[str, Any]:
        """A fitted edge as an event without an id."""
        edges = self.fitted.edges
        values = () if edges.features is None else edges.features[row].tolist()
        names = dict(zip(edges.feature_names, values, strict=True))
        for name, categories in edges.feature_categories.items():
            names[name] = categories[int(names[name])] if np.isfinite(names[name]) else None
        label = edges.label[row] if edges.label is not None and edges.labelled[row] else None
        src, dst = edges.node_ids[[edges.src_code[row], edges.dst_code[row]]].tolist()
        event = {"src": src, "dst": dst, "time": self._outcome.time(self.fitted.ticks[row]), **names, "label": label}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in event.items()}

    def _times(self, ticks: list[Any]) -> NDArray[Any]:
        return times_of(np.array(ticks, self.fitted.ticks.dtype), self._outcome.unit)

    def _joined(self, rows: Positions, asked: Question) -> TemporalEdges:
        """Fitted edges, recent events and the event itself; numbers stand for the nodes where words need none."""
        fitted, event, live = self.fitted.edges[rows], asked.event, asked.live
        contents = [*(one.content() for one in live), event]
        codes, places = np.unique([fitted.src_code, fitted.dst_code], return_inverse=True)
        ids = self.fitted.edges.node_ids[codes].tolist()
        keys = [*map(id_key, ids)]
        written: dict[Any, Any] = {}  # each node as it is first written, or its number
        ends = []
        for name, side in zip(("src", "dst"), places.reshape(2, -1).tolist(), strict=True):
            later = [*(getattr(one, name) for one in live), event[name]]
            pairs = [*((keys[k], ids[k]) for k in side), *((id_key(id), id) for id in later)]
            for key, id in pairs:
                if key not in written:
                    written[key] = id if self._is_burst else len(written)
            ends.append([written[key] for key, _ in pairs])
        src, dst = ends if self._is_burst else map(np.array, ends)
        times = self._times([*self.fitted.ticks[rows].tolist(), *(one.ticks for one in live), asked.ticks])
        edges = edges_of_contents(contents, times, fitted, src, dst)
        known_at = self._outcome.on_clock(fitted.known_at, fitted.time_unit).tolist()
        known_at += [one.ticks if one.label_ticks is None else one.label_ticks for one in live]
        given = fitted.labelled.tolist() if fitted.label is None else fitted.label.tolist()
        labels = [label if known else None for label, known in zip(given, fitted.labelled, strict=True)]
        labels += [*(one.label for one in live), None]
        if all(label is None for label in labels):
            return edges
        return edges.with_label(_typed(labels, self.fitted.edges.label), self._times([*known_at, asked.ticks]))


def _query(features: PropagationFeatures, edges: TemporalEdges) -> Query:
    """What is known when the last of these edges is scored, from the others and their labels."""
    known, last = edges.labelled, np.array([len(edges) - 1])
    plan = features.plan_
    own, categories = own_values(edges, plan.own), category_codes(edges, category_numbers(edges, plan.many))
    targets = plan.targets_of(edges.label, known)
    return Query.of(Evidence(Network.of(edges), own, targets, known, categories, edges.label_ticks), last)


class _Fitted:
    """The fitted edges by node; `edges` have the labels that the model learnt, `ticks` are on the clock of the stream."""

    def __init__(self, model: Any, outcome: Outcome) -> None:
        self.edges = labelled_edges(model.features_) if hasattr(model, "features_") else model.edges_
        self.ticks = outcome.on_clock(self.edges.ticks, self.edges.time_unit)
        self._first = int(np.argmin(self.edges.ticks)) if len(self.edges) else 0
        self._sorted: dict[Any, tuple[Positions, Positions]] = {}
        self._nodes: NodeCodes | None = None

    def prepare(self) -> None:
        """Look through all edges now, and not when the first question comes."""
        self._codes_of(None)
        for end in ("src", "dst"):
            self._slice(0, end)
            self._slice(0, end, labelled=True)

    def around(self, asked: Question) -> Positions:
        """The edges that tell of an event: those of its nodes, and labelled ones of their partners."""
        ends = [code for end in ("src", "dst") for code in self._codes_of(asked.event[end])]
        found = {row for code in ends for row in self._latest(code, LATEST_OF_NODE)}
        for code in [*ends, *(code for partner in asked.partners for code in self._codes_of(partner))]:
            found.update(self._latest(code, LABELLED, labelled=True))
        return np.array(sorted(found | {self._first}), np.int64)

    def of_node(self, node: Any, limit: int) -> tuple[list[int], int]:
        """The latest edges of a node, in the order of time, and how many it has."""
        codes = self._codes_of(node)
        found = {row for code in codes for row in self._latest(code, limit)}
        rows = sorted(found, key=lambda row: self.edges.ticks[row])
        return rows[len(rows) - min(limit, len(rows)) :], sum(map(self._count, codes))

    def pairs_of(self, node: Any) -> list[tuple[Any, Any]]:
        """Sources and destinations of the latest edges of a node, the latest first."""
        rows = [row for code in self._codes_of(node) for row in self._latest(code, LATEST_OF_NODE)[::-1]]
        ids = self.edges.node_ids
        return [*zip(ids[self.edges.src_code[rows]].tolist(), ids[self.edges.dst_code[rows]].tolist(), strict=True)]

    def _codes_of(self, node: Any) -> list[int]:
        """The codes of a node: none, one, or two if it is a source and a destination of two types."""
        if self._nodes is None:
            self._nodes = NodeCodes(self.edges)
        found = {self._nodes.find(node, end) for end in (SRC, DST)}
        return sorted(code for code in found if code is not None)

    def written(self, node: Any) -> Any:
        """A node as the fitted edges write it, if they have it."""
        codes = self._codes_of(node)
        return self.edges.node_ids[codes[:1]].tolist()[0] if codes else node

    def _slice(self, code: int, end: str, labelled: bool = False) -> Positions:
        """The fitted edges with a node at one end, by time; those of all nodes are sorted once."""
        if (end, labelled) not in self._sorted:
            rows = np.flatnonzero(self.edges.labelled) if labelled else np.arange(len(self.edges))
            codes = getattr(self.edges, f"{end}_code")[rows]
            order = np.lexsort((self.edges.ticks[rows], codes))
            starts = np.searchsorted(codes[order], np.arange(len(self.edges.node_ids) + 1))
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
        rows = rows[np.argsort(self.edges.ticks[rows], kind="stable")]
        return rows[len(rows) - min(n, len(rows)) :].tolist()

    def _count(self, code: int) -> int:
        sources, destinations = self._slice(code, "src"), self._slice(code, "dst")
        loops = 0 if self.edges.bipartite else np.count_nonzero(self.edges.dst_code[sources] == code)
        return len(sources) + len(destinations) - int(loops)


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
