"""Add new edges and labels to a fitted model without retraining it."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import rounded_up, times_of
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.linegraph.events import Copies
from tdlg.propagate.evidence import check_classes, find_fitted
from tdlg.propagate.features import PropagationFeatures
from tdlg.propagate.own_features import own_values
from tdlg.sampling.index import concatenate_edges, without_repeats


def add_edges(model: Any, X: Any, y: Any, label_time: Any) -> None:
    """Let a fitted propagation model know more edges and labels; see `PropagationClassifier.update`."""
    if model.setting_ != "stream":
        raise ParameterError(
            f"Only a model with the setting 'stream' can be updated. This model has the setting {model.setting_!r}.",
            "Fit with setting='stream', or fit again with all edges.",
            parameter="setting",
        )
    edges = model._edges(X, reset=False)
    if y is not None or label_time is not None:
        edges = edges.with_label(edges.label if y is None else y, label_time)
    if edges.label is not None and edges.label_ticks is None and model.label_delay_ is not None:
        edges = edges.with_label(edges.label, label_delay=model.label_delay_)
    features = model.features_
    check_classes(features.plan_, edges)
    own_values(edges, features.plan_.own)  # refuses edges that lack features
    at = _places(features, edges)
    features = with_evidence(features, _labelled(features, edges[at >= 0], at[at >= 0]))
    new = edges[at < 0]
    known = _with_labels(features)
    features = with_evidence(features, joined_edges(known, new) if len(new) else known)
    model.features_, model.edges_, model.labels_ = features, features.edges_, features.labels_


def with_evidence(features: PropagationFeatures, edges: TemporalEdges) -> PropagationFeatures:
    """A copy of fitted columns whose evidence is these edges with their labels; scales, medians and priors stay."""
    changed = copy(features)
    changed.edges_, changed.labels_ = edges, edges.label
    changed.labelled_, changed.label_ticks_ = edges.labelled, edges.label_ticks
    return changed


def joined_edges(first: TemporalEdges, more: TemporalEdges) -> TemporalEdges:
    """The edges of two tables in one new table, with labels, their times, weights and features.

    Both have the same features, and either both or neither have weights and datetimes.
    """
    copies = Copies(first)
    once = copies.distinct, more
    bare = concatenate_edges(*once)
    weights = [np.ones(len(edges)) if edges.weight is None else edges.weight for edges in once]
    weight = None if first.weight is None else np.concatenate(weights)
    features = {name: np.concatenate([feature_values(edges, name) for edges in once]) for name in first.feature_names}
    table = TemporalEdges(
        bare.src, bare.dst, bare.time, weight=weight, features=features or None, bipartite=first.bipartite
    )
    places = np.append(copies.place, len(copies.distinct) + np.arange(len(more)))
    edges = table if copies.none else table[places]  # copies of an edge stay one edge
    return edges.with_label(_both_labels(first, more), _both_label_times(first, more, edges))


def _places(features: PropagationFeatures, edges: TemporalEdges) -> NDArray[np.int64]:
    """Positions among the known edges, -1 for new ones; more copies than are known are new."""
    at = find_fitted(features, edges)
    return at if edges.same_table(features.edges_) else without_repeats(at)


def _with_labels(features: PropagationFeatures) -> TemporalEdges:
    """The known edges with the labels and times that count."""
    label, late = features.labels_, features.label_ticks_
    edges = features.edges_
    return edges.with_label(None).with_label(label, None if late is None else times_of(late, edges.time_unit))


def _labelled(features: PropagationFeatures, edges: TemporalEdges, at: NDArray[np.int64]) -> TemporalEdges:
    """The known edges, with the labels of some of them replaced by those that the edges at these positions have."""
    known = _with_labels(features)
    if edges.label is None or not edges.labelled.any():
        return known
    at, edges = at[edges.labelled], edges[edges.labelled]
    label = np.asarray(known.label).astype(np.result_type(known.label, edges.label))
    label[at] = edges.label
    if known.label_ticks is None and edges.label_ticks is None:
        return known.with_label(label)
    ticks = known.known_at.copy()
    ticks[at] = rounded_up(edges.known_at, edges.time_unit, known.time_unit, ticks.dtype)
    return known.with_label(label, times_of(ticks, known.time_unit))


def _both_labels(first: TemporalEdges, more: TemporalEdges) -> NDArray[Any] | None:
    if first.label is None and more.label is None:
        return None
    labels = [_label(first, more), _label(more, first)]
    are_numbers = all(label.dtype.kind in "iuf" for label in labels)
    return np.concatenate(labels if are_numbers else [label.astype(object) for label in labels])


def _label(edges: TemporalEdges, other: TemporalEdges) -> NDArray[Any]:
    """Labels; missing ones if the edges have none."""
    if edges.label is not None:
        return edges.label
    are_numbers = other.label is not None and other.label.dtype.kind in "iuf"
    return np.full(len(edges), np.nan if are_numbers else None, float if are_numbers else object)


def _both_label_times(first: TemporalEdges, more: TemporalEdges, both: TemporalEdges) -> Any:
    if first.label_ticks is None and more.label_ticks is None:
        return None
    clock = both.time_unit, both.ticks.dtype
    ticks = [rounded_up(edges.known_at, edges.time_unit, *clock) for edges in (first, more)]
    return times_of(np.concatenate(ticks), both.time_unit)


def feature_values(edges: TemporalEdges, name: str) -> NDArray[Any]:
    """A feature as it was passed: numbers with NaN, or categories with None where it is missing."""
    assert edges.features is not None
    values = edges.features[:, edges.feature_names.index(name)]
    if name not in edges.feature_categories:
        return values
    categories = np.array([*edges.feature_categories[name], None], object)
    return categories[np.where(np.isfinite(values), values, len(categories) - 1).astype(np.int64)]
