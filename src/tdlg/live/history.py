"""What is known of a node and its partners: its fitted edges, and its recent events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import rounded_up, times_of
from tdlg.edges import TemporalEdges
from tdlg.live.recent import StoredEvent
from tdlg.live.state import NOT_FEATURES, LiveState
from tdlg.models.update import joined_edges

__all__ = ["Around", "History"]

Positions = NDArray[np.int64]

LATEST = 100  # interactions of a node that are looked at, of the fitted ones and of the recent ones
LABELLED = 50  # labelled interactions of a node that are looked at, if the latest ones are not labelled
PARTNERS = 20  # partners of a node whose labelled interactions are looked at
LONGEST_WALK = 2000  # recent events of a node in which labelled ones are looked for


class Around(NamedTuple):
    """What happened around an event, as edges.

    Attributes
    ----------
    asked
        The event, as one edge with ids as the fitted edges have them.
    edges
        Fitted edges, then recent events, all of the two nodes of the event and of their partners, with labels.
    fitted
        Positions of the fitted ones in the edges of the model.
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

    def around(self, event: dict[str, Any], number: int | None) -> Around:
        """What happened around an event, before it arrived.

        Parameters
        ----------
        event
            The event, with id, src, dst, time and features.
        number
            Its number among the recent events; None if it is not recent any more.
        """
        asked = self._as_edges([event], [event["time"]]).with_label(None).with_ids_of(self._edges)
        nodes = [event["src"], event["dst"]]
        live = {stored.number: stored for node in nodes for stored in self._live(node, number)}
        codes = [code for ends in self._edges.codes_of(asked) for code in ends.tolist() if code >= 0]
        fitted = {row for code in codes for row in self._fitted(code)}
        for code in self._partners(codes, sorted(fitted)):
            fitted |= set(self._labelled_of(code, LABELLED))
        for node in _partners_of(nodes, live.values()):
            live |= {stored.number: stored for stored in self._live(node, number) if stored.label is not None}
        rows = np.array(sorted(fitted | {self._first}), np.int64)
        listed = [live[key] for key in sorted(live)]
        return Around(asked, self._joined(rows, listed), rows, listed)

    def of_node(self, node: Any, limit: int) -> tuple[list[int], list[StoredEvent], int, int]:
        """The latest fitted edges and recent events of a node, in the order of time, and how many there are of each."""
        live = list(self._state.recent.of_node(node))
        code = self._code(node)
        fitted = [row for k in code for row in self._rows_of(k).tolist()]
        ticks = self._edges.ticks
        fitted.sort(key=lambda row: ticks[row])
        newest = sorted(live, key=lambda stored: stored.ticks)[-limit:]
        n_fitted = max(0, limit - len(newest))
        return (fitted[-n_fitted:] if n_fitted else []), newest, len(fitted), len(live)

    def written(self, node: Any) -> Any:
        """A node as the events write it: the text of a number stands for the number, if only that is known."""
        for written in (node, *_as_number(node)):
            if next(self._state.recent.of_node(written), None) is not None or self._code(written):
                return written
        return node

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
            "time": self._time(row),
            **names,
            "label": label,
        }
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in event.items()}

    def _time(self, row: int) -> Any:
        meaning, ticks = self._state.meaning, self._edges.ticks[row : row + 1]
        return meaning.time(rounded_up(ticks, self._edges.time_unit, meaning.unit, ticks.dtype)[0])

    # ---- fitted edges

    def _code(self, node: Any) -> list[int]:
        """The codes of a node in the fitted edges: none, one, or two if it is a source and a destination of two types."""
        asked = TemporalEdges([node], [node], [0], bipartite=self._edges.bipartite)
        return sorted({code for ends in self._edges.codes_of(asked) for code in ends.tolist() if code >= 0})

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
        return [*self._rows_of(code)[-LATEST:].tolist(), *self._labelled_of(code, LABELLED)]

    def _labelled_of(self, code: int, n: int) -> list[int]:
        rows = self._rows_of(code)
        return rows[self._edges.labelled[rows]][-n:].tolist()

    def _partners(self, codes: list[int], rows: list[int]) -> list[int]:
        """The latest other nodes of these edges."""
        ends = np.stack([self._edges.src_code[rows], self._edges.dst_code[rows]], axis=1)[::-1] if rows else ()
        others = dict.fromkeys(code for pair in ends for code in pair.tolist() if code not in codes)
        return [*others][:PARTNERS]

    # ---- recent events

    def _live(self, node: Any, number: int | None) -> list[StoredEvent]:
        """The latest recent events of a node, and the latest labelled ones."""
        walked = self._state.recent.of_node(node, number)
        found: list[StoredEvent] = []
        n_labelled = 0
        for k, stored in zip(range(LONGEST_WALK), walked, strict=False):
            if k < LATEST or (stored.label is not None and n_labelled < LABELLED):
                found.append(stored)
            n_labelled += stored.label is not None
        return found

    def _joined(self, rows: Positions, live: list[StoredEvent]) -> TemporalEdges:
        fitted = self._edges[rows]
        if not live:
            return joined_edges(fitted, fitted[:0])
        unit = self._state.meaning.unit
        times = times_of(np.array([stored.ticks for stored in live]), unit)
        edges = self._as_edges([stored.content() for stored in live], times)
        labels = np.array([stored.label for stored in live], object)
        known_at = [stored.ticks if stored.label_ticks is None else stored.label_ticks for stored in live]
        edges = edges.with_label(_typed(labels, fitted.label), times_of(np.array(known_at), unit))
        return joined_edges(fitted, edges.with_ids_of(self._edges))

    def _as_edges(self, events: list[dict[str, Any]], times: Any) -> TemporalEdges:
        fitted = self._edges
        features = {name: [_value(event.get(name), name, fitted) for event in events] for name in fitted.feature_names}
        weight = None if fitted.weight is None else [event.get("weight", 1.0) for event in events]
        src, dst = ([event[end] for event in events] for end in ("src", "dst"))
        return TemporalEdges(src, dst, times, weight=weight, features=features or None, bipartite=fitted.bipartite)


def _value(value: Any, name: str, fitted: TemporalEdges) -> Any:
    """A feature as its column has it: text for categories, a number else."""
    if name in fitted.feature_categories:
        return None if value is None else str(value) if isinstance(fitted.feature_categories[name][0], str) else value
    return float("nan") if value is None else float(value)


def _typed(labels: NDArray[Any], fitted: NDArray[Any] | None) -> NDArray[Any]:
    """Labels of the type that the fitted ones have."""
    if fitted is None or fitted.dtype.kind not in "iuf":
        return labels
    return np.array([np.nan if label is None else label for label in labels], np.float64)


def _partners_of(nodes: list[Any], live: Iterable[StoredEvent]) -> list[Any]:
    newest = sorted(live, key=lambda stored: -stored.number)
    others = dict.fromkeys(end for stored in newest for end in (stored.src, stored.dst) if end not in nodes)
    return [*others][:PARTNERS]


def _as_number(node: Any) -> list[Any]:
    try:
        return [int(node)] if isinstance(node, str) else [str(node)]
    except ValueError:
        return []
