"""Compiled loops: arrays in, arrays out, no classes. Outputs that a caller provides are marked `# out`."""

# No fastmath here: the gap of a first event is infinite, and infinity must stay what it is.
JIT = {"nopython": True, "nogil": True, "cache": True, "error_model": "numpy"}

CONSTANT, LAPLACE, GAUSSIAN = 0, 1, 2  # decays, for d = |difference in time| / bandwidth: 1, exp(-d), exp(-d^2 / 2)
PAST, BOTH, FUTURE = -1, 0, 1  # which columns a row sees
