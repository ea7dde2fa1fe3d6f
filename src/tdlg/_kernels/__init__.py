"""Compiled loops: arrays in, arrays out, no classes. Outputs that a caller provides are marked `# out`."""

CONSTANT, LAPLACE, GAUSSIAN = 0, 1, 2  # decays, for d = |difference in time| / bandwidth: 1, exp(-d), exp(-d^2 / 2)
PAST, BOTH, FUTURE = -1, 0, 1  # which columns a row sees

CODE_BITS = 28  # of a node or category within the key of running sums

LEAST_SUM = 1e-9  # smaller decayed sums count as 0: remnants of edges long ago would be noise to a scaler
COUNT_UNIT = 0.01  # smallest decayed count that is distinguished from 0: the column is log(1 + count / COUNT_UNIT)
GAP_UNIT = 1e-6  # smallest gap that is distinguished from 0, in standard deviations of the times
NO_GAP = 20.0  # gap for an edge without a previous or next one, and upper limit, in the same unit
