"""The definitions as plain loops: slow, obvious, and what everything fast is tested against."""

import math
from fractions import Fraction

import numpy as np

from tdlg import Gaussian, Laplace, Mixture, NoDecay


def shared_endpoints(row, col, match):
    """How many endpoints two edges (src, dst) share."""
    (u, v), (s, t) = row, col
    if match == "any":
        return len({u, v} & {s, t})
    return int(
        {
            "src": u == s,
            "dst": v == t,
            "src-dst": u == t,
            "dst-src": v == s,
            "pair": (u, v) == (s, t),
            "reversed": (u, v) == (t, s),
        }[match]
    )


def weight(decay, distance):
    """k(distance) for a decay whose bandwidths are numbers."""
    if isinstance(decay, NoDecay):
        return 1.0
    if isinstance(decay, Mixture):
        return sum(w * weight(part, distance) for part, w in zip(decay.decays, decay.weights, strict=True))
    d = abs(distance) / decay.bandwidth
    return {Gaussian: lambda: math.exp(-d * d / 2), Laplace: lambda: math.exp(-d)}[type(decay)]()


def line_graph(rows, cols, decay, match="any", past_only=False, include_self=True):
    """The matrix H, entry by entry."""
    H = np.zeros((len(rows), len(cols)))
    row_ends, col_ends = ends(rows), ends(cols)
    row_times, col_times = rows.ticks.tolist(), cols.ticks.tolist()
    for i in range(len(rows)):
        for j in range(len(cols)):
            if past_only and not col_times[j] < row_times[i]:
                continue
            if not include_self and rows.same_table(cols) and rows.rows[i] == cols.rows[j]:
                continue
            if shared := shared_endpoints(row_ends[i], col_ends[j], match):
                distance = float(Fraction(row_times[i]) - Fraction(col_times[j]))
                H[i, j] = shared * weight(decay, distance)
    return H


def ends(edges):
    """Source and destination of each edge; in a bipartite network equal ids on the two sides are different nodes."""
    src, dst = edges.src.tolist(), edges.dst.tolist()
    if edges.bipartite:
        src, dst = [("src", u) for u in src], [("dst", v) for v in dst]
    return list(zip(src, dst, strict=True))


def normalized(H, kind, col_degrees=None):
    """Both normalisations of the paper's appendix; 0 / 0 = 0."""
    row_degrees = H.sum(axis=1)
    col_degrees = H.sum(axis=0) if col_degrees is None else col_degrees
    result = np.zeros_like(H)
    for i in range(H.shape[0]):
        for j in range(H.shape[1]):
            r, c = row_degrees[i], col_degrees[j]
            if kind == "spectral":
                result[i, j] = H[i, j] / math.sqrt(r * c) if r > 0 and c > 0 else 0.0
            else:
                result[i, j] = ((H[i, j] / r if r > 0 else 0.0) + (H[i, j] / c if c > 0 else 0.0)) / 2
    return result


def bursts(src, dst, time, fast, slow):
    """How surprising each edge is as part of a burst of its source, destination or pair: digits, one loop per definition."""
    order = sorted(range(len(time)), key=lambda i: time[i])  # rows at the same time keep their order
    digits = [0.0] * len(time)
    for keys in (src, dst, list(zip(src, dst, strict=True))):
        last, counts = {}, {}
        for i in order:
            age = float(time[i] - time[order[0]])
            gap = age - last.get(keys[i], age)
            f, s = counts.get(keys[i], (0.0, 0.0))
            f, s = (count * (math.exp(-gap / width) if gap else 1.0) + 1.0 for count, width in ((f, fast), (s, slow)))
            last[keys[i]], counts[keys[i]] = age, (f, s)
            p = min(1.0, fast * math.expm1(-age / fast) / (slow * math.expm1(-age / slow))) if age else 1.0
            if f / s > p:
                nats = f * math.log(f / s / p) + ((s - f) * math.log((1 - f / s) / (1 - p)) if f < s else 0.0)
                digits[i] = max(digits[i], nats / math.log(10))
    return digits
