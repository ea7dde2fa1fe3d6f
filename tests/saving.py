"""What the tests of saved models share: edges to fit, a round trip, and equality to the bit."""

import struct

import numpy as np

from tdlg import (
    LineGraphClassifier,
    TemporalEdges,
    load_model,
)

N = 60


def made_edges(ids=int, times=None, label=None, **others):
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 9, N), rng.integers(0, 9, N)
    time = rng.integers(0, 100, N) if times is None else times(rng)
    named = [[ids(k) for k in column.tolist()] for column in (src, dst)]
    return TemporalEdges(*named, time, label=(src + dst) % 2 if label is None else label(src, dst), **others)


def reloaded(model, path):
    model.save(path)
    return load_model(path)


def round_trip(value, path):
    """A value as an attribute of a model, saved and loaded."""
    model = LineGraphClassifier()
    model.classes_ = model.value_ = value
    return reloaded(model, path).value_


def same(a, b):
    """Equal in type, value and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, np.ndarray):
        alike = a.dtype == b.dtype and a.shape == b.shape
        return alike and (same(a.tolist(), b.tolist()) if a.dtype == object else a.tobytes() == b.tobytes())
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return a == b
