"""Compiled loops: arrays in, arrays out, no classes. Outputs that a caller provides are marked `# out`."""

CONSTANT, LAPLACE, GAUSSIAN = 0, 1, 2  # decays, for d = |difference in time| / bandwidth: 1, exp(-d), exp(-d^2 / 2)
PAST, BOTH, FUTURE = -1, 0, 1  # which columns a row sees

MOST_LEAVES = 64  # of a tree: the bits of a word
CODE_BITS = 28  # of a node or category within the key of running sums
SRC, DST = 0, 1  # the ends of an edge: columns of its nodes, and what a code within a key is
CATEGORIES_FROM = 2  # a code within a key is that of the k-th feature with many categories from here on

LEAST_SUM = 1e-9  # smaller decayed sums count as 0: remnants of edges long ago would be noise to a scaler
COUNT_UNIT = 0.01  # smallest decayed count that is distinguished from 0: the column is log(1 + count / COUNT_UNIT)
GAP_UNIT = 1e-6  # smallest gap that is distinguished from 0, in standard deviations of the times
UNUSUAL = 1.0  # how far above what is usual for a node a number has to be, in logs of amounts, to be an excess
NO_GAP = 20.0  # gap for an edge without a previous or next one, and upper limit, in the same unit

# What is summed for the columns about both ends of an edge together, at a node or for a pair. "Far" is the other end of an
# edge than the one whose sums these are; see `tdlg.propagate.two_ends`.
LONG = 1  # position of the long bandwidth; the short one is at 0
LABELLED, ALL, FIRST = 0, 1, 2  # counts, and where the sums of the first class begin
Y, Y_LESS_FAR, Y_BY_FAR, Y_LESS_RESIDUAL, Y_BY_TRUST, FAR, Y_BY_BACK, BACK_SUM = range(8)  # of each class
N_BIPARTITE = 6  # how many of them there are if the nodes are of two types
N_SUMS = 8
MEAN, RESIDUAL, TRUST, BACK = 0, 2, 4, 6  # what describes the source of an edge; of its destination, one further
N_DESCRIBED = 8
RECENT = 32  # labelled edges per node whose agreement is compared
COMMON_NODES = 5.0  # pseudo-count of common nodes that shrinks a similarity
