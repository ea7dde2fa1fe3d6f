"""Tables and edges to arrays, in the codes of a stream."""

from __future__ import annotations

from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import DST, SRC
from tdlg.clock import rounded_up
from tdlg.edges import TemporalEdges
from tdlg.estimator import edges_of_table
from tdlg.exceptions import EdgesError
from tdlg.live.engines import Engine
from tdlg.live.events import EventReader, Events
from tdlg.propagate.state import NodeCodes, StreamEvents

__all__ = ["TableReader"]


class TableReader:
    """Reads edges and tables as a stream needs them.

    Parameters
    ----------
    model, engine
        The model, and what scores its events.
    nodes, reader
        The nodes of the stream, and the reader of its events, which has the codes of categories.
    """

    def __init__(self, model: Any, engine: Engine, nodes: NodeCodes, reader: EventReader) -> None:
        self._model, self._engine, self._nodes, self._reader = model, engine, nodes, reader

    def edges(self, X: Any, y: Any = None, label_time: Any = None) -> TemporalEdges:
        """Edges, or a table as edges, with their labels; see `StreamScorer.update`."""
        edges: TemporalEdges = X if isinstance(X, TemporalEdges) else edges_of_table(self._model, X, reset=False)
        if edges.bipartite != self._engine.edges.bipartite:
            raise EdgesError(
                "These edges and the fitted edges must both be bipartite, or neither.",
                f"Create them with bipartite={self._engine.edges.bipartite!r}.",
            )
        if y is not None or label_time is not None:
            edges = edges.with_label(edges.label if y is None else y, label_time)
        delay = getattr(self._model, "label_delay_", None)
        if edges.label is not None and edges.label_ticks is None and delay is not None:
            edges = edges.with_label(edges.label, label_delay=delay)
        return edges

    def arrived(self, edges: TemporalEdges, *, keep: bool = True) -> StreamEvents:
        """Edges in the codes of the stream; see `EventReader.categories_of` for `keep`."""
        ticks = self._engine.ticks_of(edges.ticks, edges.time_unit)
        edges = edges.with_ids_of(self._engine.edges) if edges.feature_names else edges
        own, categories = self._engine.own_of(edges), self._reader.categories_of(edges, keep=keep)
        sides = []
        for end, code in ((SRC, edges.src_code), (DST, edges.dst_code)):
            used, place = np.unique(code, return_inverse=True)
            sides.append(self._nodes.codes(edges.node_ids[used].tolist(), end)[place])
        return StreamEvents(sides[0], sides[1], ticks, own, categories)

    def events(self, events: Events, new: NDArray[np.bool_]) -> StreamEvents:
        """Events in the codes of the stream; only `new` ones get codes, since nothing is kept of the others."""
        sides = np.zeros((2, len(new)), np.int64)
        for end, ids in ((SRC, events.src), (DST, events.dst)):
            sides[end, new] = self._nodes.codes(compress(ids, new.tolist()), end)
        return StreamEvents(sides[0], sides[1], events.ticks, events.own, self._reader.codes_of(events, new))

    def fitted(self, edges: TemporalEdges) -> StreamEvents:
        """The fitted edges, whose codes are those of the stream."""
        ticks = self._engine.ticks_of(edges.ticks, edges.time_unit)
        codes = edges.src_code.astype(np.int64), edges.dst_code.astype(np.int64)
        return StreamEvents(*codes, ticks, self._engine.own_of(edges), self._reader.categories_of(edges))

    def labels(self, edges: TemporalEdges) -> tuple[list[tuple[int, Any]], list[Any]]:
        """Position and label of the labelled edges, and when the labels became known."""
        if edges.label is None or not self._engine.takes_labels:
            return [], []
        at = np.flatnonzero(edges.labelled)
        known = rounded_up(edges.known_at[at], edges.time_unit, self._engine.unit, self._engine.dtype)
        return list(zip(at.tolist(), edges.label[at].tolist(), strict=True)), known.tolist()

    def fitted_labels(self, edges: TemporalEdges) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Which fitted edges have a label, and when the labels became known."""
        if not self._engine.takes_labels:
            return np.zeros(len(edges), bool), edges.ticks
        late = self._model.label_ticks_
        ticks = edges.ticks if late is None else np.maximum(late, edges.ticks)
        known = rounded_up(ticks, edges.time_unit, self._engine.unit, self._engine.dtype)
        return edges.with_label(self._model.labels_).labelled, known
