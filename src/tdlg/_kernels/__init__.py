"""Compiled loops: arrays in, arrays out, no classes. Outputs that a caller provides are marked `# out`."""

CONSTANT, LAPLACE, GAUSSIAN = 0, 1, 2  # decays, for d = |difference in time| / bandwidth: 1, exp(-d), exp(-d^2 / 2)
PAST, BOTH, FUTURE = -1, 0, 1  # which columns a row sees
