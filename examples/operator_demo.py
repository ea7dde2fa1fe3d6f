"""Multiply by the line graph of a generated network, which as a matrix would take 10 GB."""

from time import perf_counter

import numpy as np

from tdlg import LineGraph, TemporalEdges

N_PEOPLE, N_MESSAGES, DAYS = 20_000, 300_000, 365


def make_network(seed: int = 0) -> TemporalEdges:
    """Messages over a year: some people write and read far more than others, and everybody has busy weeks."""
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, N_PEOPLE + 1) ** 0.8
    src, dst = rng.choice(N_PEOPLE, (2, N_MESSAGES), p=popularity / popularity.sum())
    dst = np.where(dst == src, (dst + 1) % N_PEOPLE, dst)  # nobody writes to themselves
    busy = rng.uniform(0, DAYS, N_PEOPLE)
    days = np.where(rng.random(N_MESSAGES) < 0.5, rng.normal(busy[src], 7), rng.uniform(0, DAYS, N_MESSAGES))
    start = np.datetime64("2024-01-01T00:00:00")
    return TemporalEdges(src, dst, start + (np.clip(days, 0, DAYS) * 86_400).astype("timedelta64[s]"))


def seconds(work) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def main() -> None:
    edges = make_network()
    degrees = np.bincount(np.concatenate([edges.src_code, edges.dst_code]), minlength=edges.n_nodes)
    entries = int((degrees.astype(np.int64) ** 2).sum())
    print(f"\n{edges}\nthe busiest person took part in {degrees.max():,} messages\n")

    H = LineGraph(edges)
    print(f"H = LineGraph(edges)\n{H}")
    print(f"as a matrix it would have about {entries:,} entries: {entries * 12 / 1e9:.1f} GB\n")

    x = np.random.default_rng(1).normal(size=len(edges))
    H @ x  # the first product lays out the edges and loads the compiled kernels
    print(f"H @ x             {min(seconds(lambda: H @ x) for _ in range(5)) * 1e3:8.1f} ms")
    X = np.random.default_rng(1).normal(size=(len(edges), 16))
    print(f"H @ X, 16 columns {min(seconds(lambda: H @ X) for _ in range(3)) * 1e3:8.1f} ms")

    y = H @ x
    rows = np.random.default_rng(2).choice(len(edges), 50)
    error = max(abs(y[i] - (H.row(i) @ x)[0]) for i in rows)
    print(f"largest error of 50 entries, against explicit rows: {error / H.row_sums().max():.0e} of a row sum\n")

    lonely, central = np.argmin(H.row_sums()), np.argmax(H.row_sums())
    for word, i in (("loneliest", lonely), ("most central", central)):
        print(
            f"{word + ' message:':22} person {edges.src[i]} to {edges.dst[i]} at {edges.time[i]}, "
            f"related to {H.row(i).nnz:,} others with a total weight of {H.row_sums()[i]:,.1f}"
        )


if __name__ == "__main__":
    main()
