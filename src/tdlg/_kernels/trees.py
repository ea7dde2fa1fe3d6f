"""Sums over boosted trees, several rows at once and without branches.

The leaves of a tree, from left to right, are the bits of one word per row; at first all bits are set. A node that sends a
row to the right clears the leaves of its left subtree. After all nodes, in whatever order, the lowest bit that is still set
is the leaf of that row (the idea of QuickScorer, Lucchese et al., SIGIR 2015). So all rows of a block visit the same nodes,
and one comparison is one vector instruction for several rows.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tdlg._kernels.compiled import compiled
from tdlg._kernels.vectors import empty_aligned, load, pointer, store, vector, zeros

LANES = 16  # rows of a block: with 200 columns, a block fits in the first cache
MOST_LEAVES = 64  # of a tree: the bits of a word

# A node that splits: `keep` has the bits of all leaves but those of its left subtree, `column` is a place in `columns`.
NODE = np.dtype([("threshold", np.float64), ("keep", np.uint64), ("column", np.int64)])

_ROWS = (0.0,) * LANES
_WORD, _INDEX = ir.IntType(64), ir.IntType(32)


@compiled
def sum_leaves(flat, steps, columns, nodes, trees, leaves, outputs, baseline, sums):  # out: sums
    """For each output and row, the baseline and then the leaves of the output's trees, added in their order.

    flat : the table of values as one line; steps : from a row to the next in it, and from a column to the next.
    columns : the columns that trees use. nodes : those of each tree, first the ones that send missing values to the left.
    trees : (n_trees + 1, 3), the first node, the first that sends missing values to the right, and the first leaf.
    leaves : values of the leaves; outputs : the first tree of each output, and the end; sums : (outputs, rows).
    """
    block, line = empty_aligned(columns.size, LANES), empty_aligned(1, LANES)
    for start in range(0, sums.shape[1], LANES):
        n_rows = min(LANES, sums.shape[1] - start)
        _take_rows(flat, steps, start, n_rows, columns, block)
        for k in range(outputs.size - 1):
            total = _sum_of_trees(block, nodes, trees, leaves, outputs[k], outputs[k + 1], baseline[k])
            store(pointer(line), 0, total)
            for row in range(n_rows):
                sums[k, start + row] = line[0, row]


@compiled
def _take_rows(flat, steps, start, n_rows, columns, block):  # out: block
    """Copy the columns of some rows; lanes without a row keep what they have, and their sums are not used."""
    for c in range(columns.size):
        at = start * steps[0] + columns[c] * steps[1]
        for row in range(n_rows):
            block[c, row] = flat[at + row * steps[0]]


@compiled
def _sum_of_trees(block, nodes, trees, leaves, first, end, baseline):
    """The baseline and the leaves of the trees first .. end - 1, for each row of a block."""
    like, table = vector(_ROWS), pointer(block)
    total = zeros(like) + baseline
    for t in range(first, end):
        words = _all_leaves(like)
        for q in range(trees[t, 0], trees[t, 1]):
            values = load(table, nodes[q].column * LANES, like)
            words = _keep_where_greater(words, values, nodes[q].threshold, nodes[q].keep)
        for q in range(trees[t, 1], trees[t + 1, 0]):
            values = load(table, nodes[q].column * LANES, like)
            words = _keep_where_greater_or_missing(words, values, nodes[q].threshold, nodes[q].keep)
        total = total + _first_of(words, pointer(leaves), trees[t, 2])
    return total


# ---- words of leaves: vectors whose lanes are read as 64 bits


@intrinsic
def _all_leaves(context, like):
    """A word with all bits set, for each lane of `like`."""

    def generate(_, builder, signature, arguments):
        lanes = signature.args[0].lanes
        return builder.bitcast(ir.Constant(_words(lanes), [-1] * lanes), ir.VectorType(ir.DoubleType(), lanes))

    return like(like), generate


def _keep_where(compare):
    """An intrinsic: `words & keep` in lanes with values > threshold, and `words` in the others."""

    @intrinsic
    def operation(context, words, values, threshold, keep):
        def generate(_, builder, signature, arguments):
            lanes = signature.args[0].lanes
            before = builder.bitcast(arguments[0], _words(lanes))
            goes_right = getattr(builder, compare)(">", arguments[1], _repeated(builder, arguments[2], lanes))
            after = builder.and_(before, _repeated(builder, arguments[3], lanes))
            return builder.bitcast(builder.select(goes_right, after, before), arguments[0].type)

        return words(words, words, types.float64, types.uint64), generate

    return operation


_keep_where_greater = _keep_where("fcmp_ordered")  # a missing value is not greater, and so goes to the left
_keep_where_greater_or_missing = _keep_where("fcmp_unordered")


@intrinsic
def _first_of(context, words, leaves, offset):
    """leaves[offset + the position of the lowest set bit], for each lane."""

    def generate(_, builder, signature, arguments):
        kind, lanes = arguments[0].type, signature.args[0].lanes
        count = ir.FunctionType(_words(lanes), [_words(lanes), ir.IntType(1)])
        count = cgutils.get_or_insert_function(builder.module, count, f"llvm.cttz.v{lanes}i64")
        places = builder.call(count, [builder.bitcast(arguments[0], _words(lanes)), ir.IntType(1)(1)])
        first, result = builder.gep(arguments[1], [arguments[2]]), ir.Constant(kind, ir.Undefined)
        for lane in map(_INDEX, range(lanes)):
            value = builder.load(builder.gep(first, [builder.extract_element(places, lane)]))
            result = builder.insert_element(result, value, lane)
        return result

    return words(words, leaves, types.intp), generate


def _words(lanes):
    return ir.VectorType(_WORD, lanes)


def _repeated(builder, value, lanes):
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, _INDEX(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INDEX, lanes), [0] * lanes))
