"""Sums over boosted trees, for a block of rows at once and without branches that depend on the rows; bins of values.

The leaves of a tree, from left to right, are the bits of one word per row; at first all bits are set. A node that sends a
row to the right clears the leaves of its left subtree. After all nodes, in whatever order, the lowest bit that is still set
is the leaf of that row (the idea of QuickScorer, Lucchese et al., SIGIR 2015). So all rows of a block visit the same nodes,
and the compiler turns the loop over them into vector instructions.
"""

import numpy as np

from tdlg._kernels.compiled import compiled

BLOCK_ROWS = 64  # of a block, whose columns stay in the cache
FEW_ROWS = 8  # with fewer, each row visits the nodes by itself

_ALL = np.uint64(2**64 - 1)
_ONE, _SHIFT = np.uint64(1), np.uint64(58)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)  # the upper six bits of its product with a power of two are all different
_POSITION = np.empty(64, np.int64)
_POSITION[(_DE_BRUIJN << np.arange(64, dtype=np.uint64)) >> _SHIFT] = np.arange(64)


@compiled
def sum_leaves(flat, steps, trees, sums):  # out: sums
    """For each output and row, (outputs, rows), the baseline and then the leaves of its trees, added in their order.

    flat : the table of values as one line; steps : from a row to the next in it, and from a column to the next; trees :
    the fields of `tdlg.models.trees.Trees`.
    """
    n_columns, column, threshold, keep, missing_right, first_node, first_leaf, leaves, outputs, baseline = trees
    width = min(BLOCK_ROWS, sums.shape[1])  # so that the columns of a single row are neighbours
    block, words = np.empty((n_columns, width)), np.empty(width, np.uint64)
    for start in range(0, sums.shape[1], BLOCK_ROWS):
        n_rows = min(BLOCK_ROWS, sums.shape[1] - start)
        for c in range(n_columns):
            for row in range(n_rows):
                block[c, row] = flat[(start + row) * steps[0] + c * steps[1]]
        for k in range(outputs.size - 1):
            for row in range(n_rows):
                sums[k, start + row] = baseline[k]
            for t in range(outputs[k], outputs[k + 1]):
                if n_rows < FEW_ROWS:
                    for row in range(n_rows):
                        word = _ALL
                        for q in range(first_node[t], first_node[t + 1]):
                            word &= _kept(block[column[q], row], threshold[q], keep[q], missing_right[q])
                        words[row] = word
                else:
                    for row in range(n_rows):
                        words[row] = _ALL
                    for q in range(first_node[t], first_node[t + 1]):
                        c, limit, kept, missing = column[q], threshold[q], keep[q], missing_right[q]
                        for row in range(n_rows):
                            words[row] &= _kept(block[c, row], limit, kept, missing)
                for row in range(n_rows):
                    rest = words[row]  # whose lowest bit is found without a branch, so that the loop is vectorised
                    place = _POSITION[((rest & (~rest + _ONE)) * _DE_BRUIJN) >> _SHIFT]
                    sums[k, start + row] += leaves[first_leaf[t] + place]


@compiled
def _kept(value, threshold, keep, missing_right):
    """`keep` if a node sends a value to the right, else all bits; arithmetic, since a branch would often be mispredicted."""
    goes_right = (value > threshold) | ((value != value) & missing_right)
    return keep | (np.uint64(goes_right) - _ONE)


@compiled
def number_leaves(left, right, is_leaf, n_leaves, first_leaf):  # out: n_leaves, first_leaf
    """For each node, how many leaves are below it, and how many leaves of its tree are left of these.

    left, right : positions of the children of nodes that split, which come after their parent. first_leaf : zeros.
    """
    for node in range(left.size - 1, -1, -1):
        n_leaves[node] = 1 if is_leaf[node] else n_leaves[left[node]] + n_leaves[right[node]]
    for node in range(left.size):
        if not is_leaf[node]:
            first_leaf[left[node]] = first_leaf[node]
            first_leaf[right[node]] = first_leaf[node] + n_leaves[left[node]]


@compiled
def put_into_bins(values, thresholds, missing, codes):  # out: codes
    """The bin of each value of a column: how many of at most 255 sorted thresholds are below it, `missing` for NaN."""
    limits = np.full(255, np.inf)
    limits[: thresholds.size] = thresholds
    for row in range(values.size):
        value, code, step = values[row], 0, 128
        while step:  # a binary search of eight steps, without a branch
            code += step * (limits[code + step - 1] < value)
            step >>= 1
        codes[row] = code if value == value else missing
