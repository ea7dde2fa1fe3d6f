"""LightGBM's boosted trees as plain arrays: saved without executable code, evaluated by compiled loops without LightGBM."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels.trees import MOST_LEAVES, NODE, sum_leaves

__all__ = ["RankingTrees"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


class RankingTrees(NamedTuple):
    """Trees whose nodes send a value above a threshold to the right."""

    n_columns: int  # of the tables that the trees are evaluated on
    column: Positions  # by node that splits, as are the next two
    threshold: Floats
    keep: NDArray[np.uint64]  # bits of all leaves of its tree but those on its left, see `tdlg._kernels.trees`
    first_node: Positions  # where the nodes of each tree begin, and where the last ones end
    first_leaf: Positions  # the same of the leaves
    leaves: Floats  # their values

    @classmethod
    def from_booster(cls, booster: Any) -> Self:
        """The trees of a LightGBM booster that was trained on columns without missing values and without categories."""
        dump = booster.dump_model()
        trees = [_flat(tree["tree_structure"]) for tree in dump["tree_info"]]
        nodes = [node for tree in trees for node in tree[0]]
        return cls(
            dump["max_feature_idx"] + 1,
            np.array([node[0] for node in nodes], np.int64),
            np.array([node[1] for node in nodes], np.float64),
            np.array([node[2] for node in nodes], np.uint64),
            np.cumsum([0, *(len(tree[0]) for tree in trees)]),
            np.cumsum([0, *(len(tree[1]) for tree in trees)]),
            np.array([leaf for tree in trees for leaf in tree[1]], np.float64),
        )

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.first_node) - 1

    def between(self, start: int, stop: int) -> Self:
        """Some of the trees."""
        nodes, leaves = (slice(first[start], first[stop]) for first in (self.first_node, self.first_leaf))
        return self._replace(
            column=self.column[nodes],
            threshold=self.threshold[nodes],
            keep=self.keep[nodes],
            first_node=self.first_node[start : stop + 1] - self.first_node[start],
            first_leaf=self.first_leaf[start : stop + 1] - self.first_leaf[start],
            leaves=self.leaves[leaves],
        )

    def scores(self, columns: Floats) -> Floats:
        """The sum of the leaves of each row, (n_rows,)."""
        used, place = np.unique(self.column, return_inverse=True)
        nodes = np.empty(len(self.column), NODE)
        nodes["threshold"], nodes["keep"], nodes["column"] = self.threshold, self.keep, place
        trees = np.column_stack([self.first_node, np.append(self.first_node[1:], self.first_node[-1]), self.first_leaf])
        sums = np.empty((1, len(columns)))
        outputs, baseline = np.array([0, self.n_trees]), np.zeros(1)
        flat, steps = np.ascontiguousarray(columns).reshape(-1), (self.n_columns, 1)
        sum_leaves(flat, steps, used, nodes, trees, self.leaves, outputs, baseline, sums)
        return sums[0]

    def check(self, n_columns: int) -> None:
        """Refuse arrays, such as those of a damaged file, that compiled loops could not follow without leaving them."""
        n_nodes, n_leaves = np.diff(self.first_node), np.diff(self.first_leaf)
        arrays = {
            np.int64: (self.column, self.first_node, self.first_leaf),
            np.float64: (self.threshold, self.leaves),
            np.uint64: (self.keep,),
        }
        types = all(array.dtype == kind and array.ndim == 1 for kind, some in arrays.items() for array in some)
        ends = len(self.column), len(self.leaves)
        if not (
            types
            and self.n_columns == n_columns
            and len(self.threshold) == len(self.keep) == len(self.column)
            and (self.first_node[0], self.first_leaf[0]) == (0, 0)
            and (self.first_node[-1], self.first_leaf[-1]) == ends
            and np.array_equal(n_leaves, n_nodes + 1)
            and (n_nodes >= 0).all()
            and (n_leaves <= MOST_LEAVES).all()
            and ((self.column >= 0) & (self.column < n_columns)).all()
            and self._all_reach_a_leaf(n_leaves)
        ):
            raise ValueError("the trees of the ranking are damaged")

    def _all_reach_a_leaf(self, n_leaves: Positions) -> bool:
        """Whether the last leaf of each tree is kept by all its nodes, so that some leaf always is."""
        last = np.repeat(n_leaves - 1, np.diff(self.first_node)).astype(np.uint64)
        return bool(((self.keep >> last) & np.uint64(1) == 1).all())


def _flat(root: dict[str, Any]) -> tuple[list[tuple[int, float, int]], list[float]]:
    """Nodes and leaves of a tree, the leaves from left to right."""
    nodes: list[tuple[int, float, int]] = []
    leaves: list[float] = []
    everything = (1 << MOST_LEAVES) - 1

    def visit(node: dict[str, Any]) -> None:
        if "leaf_value" in node:
            leaves.append(node["leaf_value"])
            return
        first = len(leaves)
        visit(node["left_child"])
        left = (1 << len(leaves)) - (1 << first)
        nodes.append((node["split_feature"], node["threshold"], everything & ~left))
        visit(node["right_child"])

    visit(root)
    return nodes, leaves
