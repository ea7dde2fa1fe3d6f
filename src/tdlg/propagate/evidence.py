"""What is known when edges are scored: edges, labels and features, and the times when labels became known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import common_clock, rounded_up
from tdlg.edges import TemporalEdges, check_alike
from tdlg.exceptions import EdgesError
from tdlg.linegraph.events import Copies, own_columns
from tdlg.propagate.own_features import category_codes, category_numbers, own_values
from tdlg.propagate.plan import ColumnPlan
from tdlg.sampling.index import edge_index

if TYPE_CHECKING:
    from tdlg.propagate.features import PropagationFeatures

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


class Network(NamedTuple):
    """Edges as arrays: codes of nodes, times in ticks, and which of them are one edge."""

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    ticks: NDArray[Any]
    time_unit: str | None
    n_nodes: int  # all codes are below it
    first: Positions  # positions of the distinct edges, each in its first copy
    place: Positions  # the number of each edge among these, (n_edges,)

    @classmethod
    def of(cls, edges: TemporalEdges, new: TemporalEdges | None = None) -> Network:
        """Edges, and perhaps new ones after them, none of which is a copy; their nodes may be new too."""
        src, dst, ticks, unit, n_nodes = edges.src_code, edges.dst_code, edges.ticks, edges.time_unit, edges.n_nodes
        place, n = Copies(edges).place, len(edges)
        first = np.arange(n) if Copies(edges).none else np.unique(place, return_index=True)[1]
        if new is not None:
            check_alike((edges, new))
            known = zip(edges.codes_of(new), (new.src_code, new.dst_code), strict=True)
            codes = [np.where(code < 0, n_nodes + own, code).astype(np.int32) for code, own in known]
            src, dst, n_nodes = np.append(src, codes[0]), np.append(dst, codes[1]), n_nodes + new.n_nodes
            *both, unit = common_clock(ticks, unit, new.ticks, new.time_unit)
            ticks = np.concatenate(both)
            place = np.append(place, len(first) + np.arange(len(new)))
            first = np.append(first, n + np.arange(len(new)))
        return cls(src, dst, ticks, unit, n_nodes, first, place)

    @property
    def has_copies(self) -> bool:
        """Whether some edges are one."""
        return len(self.first) < len(self.place)

    def distinct(self, values: NDArray[Any]) -> NDArray[Any]:
        """What the distinct edges have of values, (n_edges, ...), which are the same for all copies."""
        return values[self.first] if self.has_copies else values

    def added(self, values: Floats) -> Floats:
        """The sum of values, (n_edges, n_values), over the copies of each distinct edge."""
        if not self.has_copies:
            return values
        total = np.zeros((len(self.first), values.shape[1]))
        np.add.at(total, self.place, values)
        return total


class Evidence(NamedTuple):
    """The edges and labels from which columns are made."""

    edges: Network
    own: Floats  # features of the edges as numbers, (n_edges, n_own)
    targets: Floats  # labels minus the prior, (n_edges, n_targets), not used where unlabelled
    labelled: NDArray[np.bool_]
    categories: Positions  # codes of the features with many categories, (n_edges, n_many), -1 where missing
    label_ticks: NDArray[Any] | None = None  # when labels became known; None if at the times of their edges

    @property
    def known_at(self) -> NDArray[Any]:
        """When the label of each edge became known, in ticks: never before the edge."""
        ticks = self.edges.ticks
        return ticks if self.label_ticks is None else np.maximum(self.label_ticks, ticks)


class Query(NamedTuple):
    """Edges to score: positions in the evidence, and their features and categories as passed.

    For a fitted edge from another table, these may differ from those in the evidence.
    """

    evidence: Evidence
    at: Positions
    own: Floats
    categories: Positions

    @classmethod
    def of(cls, evidence: Evidence, at: Positions) -> Query:
        """Some edges of the evidence, with the features that they have there."""
        return cls(evidence, at, evidence.own[at], evidence.categories[at])

    def some(self, which: Positions) -> Query:
        """Some of these edges, with the same evidence."""
        return Query(self.evidence, self.at[which], self.own[which], self.categories[which])


def find_fitted(features: PropagationFeatures, edges: TemporalEdges) -> Positions:
    """Position of each edge among the fitted edges; -1 for new edges."""
    if not edges.same_table(features.edges_):
        return edge_index(features.edges_).find_each(edges)
    return own_columns(edges, features.edges_)


def is_new_label(features: PropagationFeatures, at: Positions) -> NDArray[np.bool_]:
    """Whether the label of each edge to score, by its position in the evidence, was not given to `fit`."""
    n_fitted = len(features.edges_)
    return (at >= n_fitted) | ~features.labelled_[np.minimum(at, n_fitted - 1)]


def check_classes(plan: ColumnPlan, edges: TemporalEdges) -> None:
    """Refuse labels that are not among the fitted ones."""
    if plan.classes is None or edges.label is None:
        return
    found = edges.label[edges.labelled]
    strange = found[~np.isin(found, plan.classes)]
    if len(strange):
        raise EdgesError(
            f"The edges have the label {strange[:1].tolist()[0]!r}, which is not one of the fitted labels: "
            f"{plan.classes.tolist()}. Pass labels that were fitted, or no labels."
        )


def gather_evidence(features: PropagationFeatures, edges: TemporalEdges, *, use_labels: bool = False) -> Query:
    """What is known when these edges are scored, and their positions in it: fitted edges first, then new ones.

    use_labels : whether the labels of the edges to score become known over time and count from then on; those given to
    `fit` stay.
    """
    plan, fitted, labelled = features.plan_, features.edges_, features.labelled_
    numbers = category_numbers(fitted, plan.many)
    at = find_fitted(features, edges)
    new = np.flatnonzero(at < 0)
    at[new] = len(fitted) + np.arange(new.size)
    targets = plan.targets_of(features.labels_, labelled)
    own, categories = own_values(fitted, plan.own), category_codes(fitted, numbers)
    if edges.same_table(fitted) and not new.size:
        mine = own[at], categories[at]
    else:
        mine = own_values(edges, plan.own), category_codes(edges, numbers)
    if new.size:
        own, categories = np.vstack([own, mine[0][new]]), np.vstack([categories, mine[1][new]])
        targets = np.vstack([targets, np.zeros((new.size, targets.shape[1]))])
        labelled = np.append(labelled, np.zeros(new.size, bool))
    if use_labels:
        check_classes(plan, edges)
        is_known = edges.labelled & ~labelled[at]
        targets[at[is_known]] = plan.targets_of(edges.label, is_known)[is_known]
        labelled = labelled.copy()
        labelled[at[is_known]] = True
    network = Network.of(fitted, edges[new] if new.size else None)
    label_ticks = _label_ticks(features, network, at, edges if use_labels else None)
    return Query(Evidence(network, own, targets, labelled, categories, label_ticks), at, *mine)


def _label_ticks(
    features: PropagationFeatures, context: Network, at: Positions, edges: TemporalEdges | None
) -> NDArray[Any] | None:
    """When each label of the evidence became known; `edges` are those to score, if their labels count."""
    fitted, given = features.label_ticks_, None if edges is None else edges.label_ticks
    if not features.plan_.past_only or (fitted is None and given is None):
        return None
    ticks = context.ticks.copy()
    clock = context.time_unit, ticks.dtype
    if fitted is not None:
        ticks[: len(fitted)] = rounded_up(fitted, features.edges_.time_unit, *clock)
    if edges is not None:  # the times of labels given to fit stay
        is_new = is_new_label(features, at)
        ticks[at[is_new]] = context.ticks[at[is_new]]
        if given is not None:
            ticks[at[is_new]] = rounded_up(given, edges.time_unit, *clock)[is_new]
    return ticks
