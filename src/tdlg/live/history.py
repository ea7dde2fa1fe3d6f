"""What is known of a node and its partners: its fitted edges, and its recent events."""

from __future__ import annotations

from heapq import nlargest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import DST, SRC
from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.live.recent import StoredEvent
from tdlg.live.state import LiveState
from tdlg.models.propagation import feature_values
from tdlg.tables.ids import id_key

__all__ = ["Around", "History", "feature_value", "weight_of"]

Positions = NDArray[np.int64]

LATEST_OF_NODE = 100  # interactions of a node that are looked at, of the fitted ones and of the recent ones
LABELLED = 50  # labelled interactions of a node that are looked at, if the latest ones are not labelled
PARTNERS = 20  # partners of a node whose labelled interactions are looked at
LONGEST_WALK = 2000  # recent events of a node in which labelled ones are looked for


class Around(NamedTuple):
    """What happened around an event.

    Attributes
    ----------
    asked
        The event, as one edge.
    edges
        Fitted edges, then recent events, all of the two nodes of the event and of their partners, with labels; then the
        event itself. The ids are those of the model, or numbers that stand for them.
    fitted
        Positions of the fitted ones among the edges of the model.
    live
        The recent events.
    """

    asked: TemporalEdges
    edges: TemporalEdges
    fitted: Positions
    live: list[StoredEvent]


class History:
    """Finds the interactions of nodes among the fitted edges and the recent events.

    Parameters
    ----------
    state
        The state of a live model.
    """

    def __init__(self, state: LiveState) -> None:
        self._state = state
        self._edges: TemporalEdges = state.model.edges_
        features = getattr(state.model, "features_", None)
        if features is not None:
            late = features.label_ticks_
            times = None if late is None else times_of(late, self._edges.time_unit)
            self._edges = self._edges.with_label(None).with_label(features.labels_, times)
        self._first = int(np.argmin(self._edges.ticks)) if len(self._edges) else 0
        self._sorted: dict[str, tuple[Positions, NDArray[Any]]] = {}
        self._ticks = state.meaning.on_clock(self._edges.ticks, self._edges.time_unit)

    def around(self, event: dict[str, Any], number: int | None, *, as_numbers: bool) -> Around:
        """What happened around an event, before it arrived.

        Parameters
        ----------
        event
            The event, with id, src, dst, time and features.
        number
            Its number among the recent events; None if it is not recent any more.
        as_numbers
            Whether numbers stand for the nodes in `edges`, which takes less time.
        """
        nodes = [event["src"], event["dst"]]
        live = {stored.number: stored for node in nodes for stored in self._live(node, number)}
        codes = [code for node in nodes for code in self._codes_of(node)]
        fitted = {row for code in codes for row in self._fitted(code)}
        for partner in [id for node in nodes for id in self._partners(node, number)]:
            fitted |= {row for code in self._codes_of(partner) for row in self._labelled_of(code, LABELLED)}
            live |= {stored.number: stored for stored in self._live(partner, number) if stored.label is not None}
        rows = np.array(sorted(fitted | {self._first}), np.int64)
        listed = [live[key] for key in sorted(live)]
        return Around(self._asked(event), self._joined(rows, listed, event, as_numbers), rows, listed)

    def of_node(self, node: Any, limit: int) -> tuple[list[int], list[StoredEvent], int, int]:
        """The latest fitted edges and recent events of a node, in the order of time, and how many there are of each."""
        live = list(self._state.recent.of_node(node))
        parts = [self._rows_of(code) for code in self._codes_of(node)]
        fitted = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        fitted = fitted[np.argsort(self._edges.ticks[fitted], kind="stable")] if len(parts) > 1 else fitted
        newest = nlargest(limit, live, key=lambda stored: stored.ticks)[::-1]
        n_shown = max(0, limit - len(newest))
        return fitted[len(fitted) - min(n_shown, len(fitted)) :].tolist(), newest, len(fitted), len(live)

    def fitted_event(self, row: int) -> dict[str, Any]:
        """A fitted edge as an event without an id."""
        edges = self._edges
        values = () if edges.features is None else edges.features[row].tolist()
        names = dict(zip(edges.feature_names, values, strict=True))
        for name, categories in edges.feature_categories.items():
            names[name] = categories[int(names[name])] if np.isfinite(names[name]) else None
        label = edges.label[row] if edges.label is not None and edges.labelled[row] else None
        event = {
            "src": edges.src[row],
            "dst": edges.dst[row],
            "time": self._state.meaning.time(self._ticks[row]),
            **names,
            "label": label,
        }
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in event.items()}

    # ---- fitted edges

    def _codes_of(self, node: Any) -> list[int]:
        """The codes of a node in the fitted edges: none, one, or two if it is a source and a destination of two types."""
        ids, key = self._edges.node_ids, id_key(node)
        found = {self._state.scorer.code_of(node, end) for end in (SRC, DST)}
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

    def _rows_of(self, code: int) -> Positions:
        """The fitted edges of a node, by time."""
        found = []
        for end in ("src", "dst"):
            order, codes = self._by(end)
            found.append(order[slice(*np.searchsorted(codes, [code, code + 1]))])
        rows = np.unique(np.concatenate(found))
        return rows[np.argsort(self._edges.ticks[rows], kind="stable")]

    def _by(self, end: str) -> tuple[Positions, NDArray[Any]]:
        if end not in self._sorted:
            codes = getattr(self._edges, f"{end}_code")
            order = np.argsort(codes, kind="stable")
            self._sorted[end] = order, codes[order]
        return self._sorted[end]

    def _fitted(self, code: int) -> list[int]:
        """The latest fitted edges of a node, and the latest labelled ones."""
        return [*self._rows_of(code)[-LATEST_OF_NODE:].tolist(), *self._labelled_of(code, LABELLED)]

    def _labelled_of(self, code: int, n: int) -> list[int]:
        rows = self._rows_of(code)
        return rows[self._edges.labelled[rows]][-n:].tolist()

    def _partners(self, node: Any, number: int | None) -> list[Any]:
        """The latest other nodes that a node had to do with: in recent events, then in fitted edges."""
        rows = [
            row for code in self._codes_of(node) for row in self._rows_of(code)[: -LATEST_OF_NODE - 1 : -1].tolist()
        ]
        live = [(stored.src, stored.dst) for stored in self._live(node, number)]
        fitted = zip(self._edges.src[rows].tolist(), self._edges.dst[rows].tolist(), strict=True)
        others = {id_key(id): id for pair in [*live, *fitted] for id in pair if id_key(id) != id_key(node)}
        return [*others.values()][:PARTNERS]

    # ---- recent events

    def _live(self, node: Any, number: int | None) -> list[StoredEvent]:
        """The latest recent events of a node, and the latest labelled ones."""
        walked = self._state.recent.of_node(node, number)
        found: list[StoredEvent] = []
        n_labelled = 0
        for k, stored in zip(range(LONGEST_WALK), walked, strict=False):
            if k < LATEST_OF_NODE or (stored.label is not None and n_labelled < LABELLED):
                found.append(stored)
            n_labelled += stored.label is not None
        return found

    # ---- edges

    def _asked(self, event: dict[str, Any]) -> TemporalEdges:
        times = self._times([self._state.ticks_of(event["time"])])
        src, dst = (self._written(event[end]) for end in ("src", "dst"))
        return self._with_features([src], [dst], times, [event], self._edges[:0])

    def _joined(
        self, rows: Positions, live: list[StoredEvent], event: dict[str, Any], as_numbers: bool
    ) -> TemporalEdges:
        """Fitted edges, recent events and the event itself in one table."""
        fitted, contents = self._edges[rows], [stored.content() for stored in live]
        ends = [
            [*getattr(fitted, end).tolist(), *(content[end] for content in contents), event[end]]
            for end in ("src", "dst")
        ]
        written: dict[Any, Any] = {}  # each node as it is first written, or its number
        for id in (id for ids in ends for id in ids):
            written.setdefault(id_key(id), len(written) if as_numbers else id)
        src, dst = ([written[id_key(id)] for id in ids] for ids in ends)
        asked = self._state.ticks_of(event["time"])
        times = self._times([*self._ticks[rows].tolist(), *(stored.ticks for stored in live), asked])
        edges = self._with_features(src, dst, times, [*contents, event], fitted)
        known_at = self._state.meaning.on_clock(fitted.known_at, fitted.time_unit).tolist()
        known_at += [stored.ticks if stored.label_ticks is None else stored.label_ticks for stored in live]
        given = fitted.labelled.tolist() if fitted.label is None else fitted.label.tolist()
        labels = [label if known else None for label, known in zip(given, fitted.labelled, strict=True)]
        labels += [*(stored.label for stored in live), None]
        if all(label is None for label in labels):
            return edges
        return edges.with_label(_typed(labels, self._edges.label), self._times([*known_at, asked]))

    def _times(self, ticks: list[Any]) -> NDArray[Any]:
        unit = self._state.meaning.unit
        return times_of(np.array(ticks, self._ticks.dtype), unit)

    def _with_features(
        self, src: list[Any], dst: list[Any], times: Any, events: list[dict[str, Any]], fitted: TemporalEdges
    ) -> TemporalEdges:
        """Edges with the features of fitted edges, then of events."""
        features = {
            name: [
                *feature_values(fitted, name).tolist(),
                *(feature_value(event.get(name), name, fitted) for event in events),
            ]
            for name in fitted.feature_names
        }
        weight = None
        if fitted.weight is not None:
            weight = [*fitted.weight.tolist(), *(weight_of(event) for event in events)]
        return TemporalEdges(src, dst, times, weight=weight, features=features or None, bipartite=fitted.bipartite)


def feature_value(value: Any, name: str, fitted: TemporalEdges) -> Any:
    """A feature as its column has it: text for categories, a number else."""
    if name not in fitted.feature_categories:
        return float("nan") if value is None else float(value)
    if value is None or not isinstance(fitted.feature_categories[name][0], str):
        return value
    return str(value) if isinstance(value, bool) else str(id_key(value))


def weight_of(event: dict[str, Any]) -> Any:
    """The weight of an event; 1 if it is missing."""
    return 1.0 if event.get("weight") is None else event["weight"]


def _typed(labels: list[Any], fitted: NDArray[Any] | None) -> NDArray[Any]:
    """Labels of the type that the fitted ones have."""
    if fitted is None or fitted.dtype.kind not in "iuf":
        return np.array(labels, object)
    return np.array([np.nan if label is None else label for label in labels], np.float64)
