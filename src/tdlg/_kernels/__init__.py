"""Compiled loops: arrays in, arrays out, no classes. Outputs that a caller provides are marked `# out`."""

# No fastmath here: the gap of a first event is infinite, and infinity must stay what it is.
JIT = {"nopython": True, "nogil": True, "cache": True, "error_model": "numpy"}
