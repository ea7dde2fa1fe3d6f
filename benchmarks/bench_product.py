"""Products with the line graph, and the layout of edges behind them.

product_beats_the_matrix, a_few_floors, flat_in_the_bandwidth, columns_together, layout_beats_lexsort, linear_in_edges,
threads_share_a_hub, first_product_is_soon
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from _bench import claim, epinions_topology, floor, interleaved, main, power_law, relative_error, star, wikielect

from tdlg import Gaussian, Laplace, LineGraph, Mixture
from tdlg.linegraph.events import build_layout


def vector(edges):
    return np.random.default_rng(1).normal(size=len(edges))


@claim("A product is ten times faster than scipy's with the explicit matrix. wikielect, tol 1e-9, one thread each.")
def product_beats_the_matrix(claim):
    edges = wikielect()
    H, x = LineGraph(edges, n_threads=1), vector(edges)
    M = H.to_csr()
    seconds = interleaved({"matrix": lambda: M @ x, "operator": lambda: H @ x})
    note = f"{seconds['matrix'] * 1e3:.1f} ms and {seconds['operator'] * 1e3:.2f} ms, {M.nnz:,} entries"
    claim.check("error", float(np.abs(H @ x - M @ x).max() / (np.abs(x).max() * M.sum(axis=1).max())), H.tol)
    claim.check("times faster", seconds["matrix"] / seconds["operator"], 10, at_least=True, note=note)


@claim("A product costs a few times what touching the data costs. Epinions' topology.")
def a_few_floors(claim):
    edges = epinions_topology()
    x, bandwidth = vector(edges), 0.1 * float(edges.time.std())
    forms = {
        "Gaussian, tol 1e-6": (5, {"decay": Gaussian(bandwidth), "tol": 1e-6}),
        "Gaussian, tol 1e-9": (7, {"decay": Gaussian(bandwidth), "tol": 1e-9}),
        "Laplace": (3, {"decay": Laplace(bandwidth)}),
        "Laplace, past only": (2.5, {"decay": Laplace(bandwidth), "past_only": True}),
        "three Laplace scales": (5, {"decay": Mixture([Laplace(bandwidth * 30.0**k) for k in (-1, 0, 1)])}),
    }
    for n_threads in (1, 2):
        graphs = {name: LineGraph(edges, n_threads=n_threads, **options) for name, (_, options) in forms.items()}
        touch = floor(graphs["Laplace"]._layout, n_threads)
        works = {name: lambda H=H: H @ x for name, H in graphs.items()}
        seconds = interleaved({"floor": lambda touch=touch: touch(x), **works})
        print(f"  {n_threads} thread(s): the floor takes {seconds['floor'] * 1e3:.2f} ms")
        for name, H in graphs.items():
            error = relative_error(H, x)
            note = f"{seconds[name] * 1e3:.1f} ms, error {error:.0e}"
            claim.check(f"{name}, floors", seconds[name] / seconds["floor"], forms[name][0], note=note)
            claim.check(f"{name}, error", error, H.tol)


@claim("A product costs the same whatever the bandwidth. Epinions' topology, tol 1e-9, one thread.")
def flat_in_the_bandwidth(claim):
    edges = epinions_topology()
    x = vector(edges)
    relatives = (1, 0.1, 0.01, 0.001)
    graphs = {f"{r:g}": LineGraph(edges, decay=Gaussian(relative=r), n_threads=1) for r in relatives}
    seconds = interleaved({name: lambda H=H: H @ x for name, H in graphs.items()})
    for name, H in graphs.items():
        claim.check(f"{name} std, error", relative_error(H, x), H.tol, note=f"{seconds[name] * 1e3:.1f} ms")
    claim.check("slowest against fastest", max(seconds.values()) / min(seconds.values()), 1.5)


@claim("Many columns at once cost less each than a single product. Epinions' topology, one thread.")
def columns_together(claim):
    edges = epinions_topology()
    bandwidth = 0.1 * float(edges.time.std())
    X = np.random.default_rng(1).normal(size=(len(edges), 32))
    blocks = {k: np.ascontiguousarray(X[:, :k]) for k in (1, 8, 32)}
    for decay in (Gaussian(bandwidth), Laplace(bandwidth)):
        name, H = type(decay).__name__, LineGraph(edges, decay=decay, n_threads=1)
        claim.check(f"{name}, error", relative_error(H, X[:, 0]), H.tol)
        seconds = interleaved({str(k): lambda block=block: H @ block for k, block in blocks.items()}, repeats=7)
        for k in (8, 32):
            difference = np.abs((H @ blocks[k])[:, 0] - H @ X[:, 0]).max() / np.abs(H @ X[:, 0]).max()
            each, single = seconds[str(k)] / k * 1e3, seconds["1"] * 1e3
            note = f"{each:.1f} ms a column against {single:.1f} ms, difference {difference:.0e}"
            claim.check(f"{name}, {k} columns, share of a single product each", each / single, 0.7, note=note)
            claim.check("difference of a column from the single product", float(difference), 2e-9)


@claim("Laying out edges is three times faster than numpy's lexsort of their ends. Power law, unsorted times.")
def layout_beats_lexsort(claim):
    edges = power_law(5_000_000)
    nodes, times = np.concatenate([edges.src_code, edges.dst_code]), np.concatenate([edges.time, edges.time])

    def layout():
        fresh = edges[:]
        fresh.src_code, fresh.dst_code, fresh.ticks  # noqa: B018 - ids were numbered when the edges were read
        return build_layout(fresh, fresh, "any")

    seconds = interleaved({"lexsort": lambda: np.lexsort((times, nodes)), "layout": layout}, repeats=3)
    order, built = np.lexsort((times, nodes)), layout()
    second_of_loop = np.append(np.zeros(len(edges), bool), edges.src_code == edges.dst_code)  # not an event
    expected = order[~second_of_loop[order]] % len(edges)
    assert np.array_equal(times[expected], times[built.source])
    note = f"{seconds['lexsort']:.2f} s and {seconds['layout']:.2f} s, one thread each, the same order"
    claim.check("times faster", seconds["lexsort"] / seconds["layout"], 3, at_least=True, note=note)


@claim("The cost of a product grows with the number of edges and nothing else. Power law, tol 1e-9, one thread.")
def linear_in_edges(claim):
    per_edge, bytes_each = [], []
    for n_edges in (1_000_000, 5_000_000, 20_000_000):
        edges = power_law(n_edges)
        hub = int(np.bincount(np.concatenate([edges.src_code, edges.dst_code])).max())
        H, x = LineGraph(edges, n_threads=1), vector(edges)
        seconds = interleaved({"product": lambda H=H, x=x: H @ x}, repeats=5)["product"]
        per_edge.append(seconds / n_edges * 1e9)
        bytes_each.append((H.nbytes + 2 * x.nbytes) / n_edges)
        print(f"  {n_edges:>10,} edges, largest degree {hub:,}: {per_edge[-1]:.1f} ns, {bytes_each[-1]:.1f} bytes each")
        claim.check("error", relative_error(H, x, 5), H.tol)
    claim.check("largest hub, thousands", hub / 1e3, 150, at_least=True)
    claim.check("time an edge, slowest against fastest", max(per_edge) / min(per_edge), 2)
    claim.check("bytes an edge for operator, x and y", max(bytes_each), 70)


@claim("Two threads are faster than one, even where one node has all the edges. The default decay.")
def threads_share_a_hub(claim):
    for name, edges in (("Epinions' topology", epinions_topology()), ("star of a million edges", star(1_000_000))):
        x = vector(edges)
        for decay in (Gaussian(relative=0.1), Laplace(relative=0.1)):  # the latter must be carried further across a cut
            one, two = (LineGraph(edges, decay=decay, n_threads=n_threads) for n_threads in (1, 2))
            seconds = interleaved({"one": lambda H=one: H @ x, "two": lambda H=two: H @ x})
            faster = seconds["one"] / seconds["two"]
            if isinstance(decay, Laplace):
                print(f"         for comparison, Laplace: {faster:.2f} times faster")
                continue
            difference = np.abs(one @ x - two @ x).max() / np.abs(one @ x).max()
            note = f"{seconds['one'] * 1e3:.1f} ms and {seconds['two'] * 1e3:.1f} ms, difference {difference:.0e}"
            claim.check(f"{name}, times faster", faster, 1.5, at_least=True, note=note)
            claim.check(f"{name}, error of two threads", relative_error(two, x, 20), two.tol)


FIRST = """
import numpy as np
from tdlg import LineGraph, TemporalEdges
rng = np.random.default_rng(0)
edges = TemporalEdges(rng.integers(0, 1000, 50_000), rng.integers(0, 1000, 50_000), rng.uniform(0, 1, 50_000))
LineGraph(edges) @ rng.normal(size=50_000)
"""


@claim(
    "A new process has its first product soon, also where nothing was ever compiled. 50,000 edges, the whole process."
)
def first_product_is_soon(claim):
    with tempfile.TemporaryDirectory() as cache:
        seconds = []
        for _ in range(4):
            start = perf_counter()
            subprocess.run([sys.executable, "-c", FIRST], check=True, env={**os.environ, "NUMBA_CACHE_DIR": cache})
            seconds.append(perf_counter() - start)
        kernels = len(list(Path(cache).rglob("*.nbc")))
    claim.check("seconds, never compiled", seconds[0], 40, note=f"{kernels} kernels were compiled")
    claim.check("seconds, kernels cached", sorted(seconds[1:])[1], 1.5)


if __name__ == "__main__":
    main()
