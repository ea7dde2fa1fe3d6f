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
            p = min(1.0, fast * math.expm1(-age / fast) / (slow * math.expm1(-age / slow))) if age else 1.0
            found = max(0.0, f * math.log(f / (s * p)) - (f - s * p)) / math.log(10) if f > s * p else 0.0
            digits[i] = max(digits[i], found)
            last[keys[i]], counts[keys[i]] = age, (f, s - (found >= 30))
    return digits


def surprises(src, dst, time, category, number, fast, slow):
    """How rare each edge's ends, pair and category are, how many newcomers there were, and how odd its number is.

    Loops over all earlier edges, where no key has a burst, before rare and odd are compared with their past.
    rare (n, 5) : of the source, the destination, the pair, the category, and the category among those of the source; rush :
    (n, 2); odd : (n, 2).
    """
    order = sorted(range(len(time)), key=lambda i: time[i])
    rare, rush, odd = ([[0.0] * n for _ in time] for n in (5, 2, 2))
    newcomers = ([], [])
    for at, i in enumerate(order):
        before = order[:at]
        weight = {j: math.exp((time[j] - time[i]) / slow) for j in before}

        def count(same, weight=weight):
            return sum(w for j, w in weight.items() if same(j))

        everything = sum(weight.values())
        same = [
            lambda j, i=i: src[j] == src[i],
            lambda j, i=i: dst[j] == dst[i],
            lambda j, i=i: (src[j], dst[j]) == (src[i], dst[i]),
            lambda j, i=i: category[j] == category[i],
            lambda j, i=i: (src[j], category[j]) == (src[i], category[i]),
        ]
        for k in range(5):
            whole = count(same[0]) if k == 4 else everything
            rare[i][k] = math.log10((whole + 1) / (count(same[k]) + 0.5))
            rare[i][k] = rare[i][k] if k == 4 else max(0.0, rare[i][k])
        for k in range(2):
            if count(same[k]) < 3:
                newcomers[k].append(i)
                f, s = (sum(math.exp((time[j] - time[i]) / width) for j in newcomers[k]) for width in (fast, slow))
                p = (sum(math.exp((time[j] - time[i]) / fast) for j in before) + 1) / (everything + 1)
                rush[i][k] = max(0.0, f * math.log(f / (s * p)) - (f - s * p)) / math.log(10) if f > s * p else 0.0
            n, mean, square = moments(number, weight, before)
            own = moments(number, weight, [j for j in before if same[k](j)])
            if n > 2:
                total = own[0] + 2
                mean = (own[0] * own[1] + 2 * mean) / total
                variance = (own[0] * own[2] + 2 * square) / total - mean**2
                odd[i][k] = min(30.0, 0.5 * (number[i] - mean) ** 2 / (variance * (1 + 1 / total)) / math.log(10))
    return rare, rush, odd


def under_its_past(surprise, time, fast, slow):
    """Minus log10 of the share of earlier edges that were at least as surprising, by 0.05, and what exceeds the usual."""
    steps = [max(int(value / 0.05), 0) for value in surprise]
    weight, outliers, digits, highest = [], [], [], 0.0
    for i, now in enumerate(time):
        fading = [w * math.exp((then - now) / slow) for w, then in zip(weight, time, strict=False)]
        tail = sum(w for w, step in zip(fading, steps, strict=False) if step >= steps[i])
        digits.append(math.log10((sum(fading) + 1) / (tail + 1)) + 0.5 * max(surprise[i] - highest, 0.0))
        highest = max(highest, surprise[i]) if digits[-1] < 3 else highest
        of_late = sum(math.exp((then - now) / fast) for then in outliers)
        weight.append(1.0 if digits[-1] < 3 else 1 / (1 + of_late) ** 2)
        outliers += [now] if digits[-1] >= 3 else []
    return digits


def moments(number, weight, which):
    """The weight of some edges, and the means of their numbers and of the squares."""
    n = sum(weight[j] for j in which)
    return n, *(sum(weight[j] * number[j] ** power for j in which) / n if n else 0.0 for power in (1, 2))
