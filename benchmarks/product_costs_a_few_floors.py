"""A product costs a few times what touching the data costs."""

import numpy as np
from _bench import Claim, epinions_topology, floor, interleaved, relative_error

from tdlg import Gaussian, Laplace, LineGraph, Mixture

edges = epinions_topology()
x = np.random.default_rng(1).normal(size=len(edges))
bandwidth = 0.1 * float(edges.time.std())
scales = Mixture([Laplace(bandwidth * 30.0**k) for k in (-1, 0, 1)])
FORMS = {
    "Gaussian, tol 1e-6": (5, {"decay": Gaussian(bandwidth), "tol": 1e-6}),
    "Gaussian, tol 1e-9": (7, {"decay": Gaussian(bandwidth), "tol": 1e-9}),
    "Laplace": (3, {"decay": Laplace(bandwidth)}),
    "Laplace, past only": (2.5, {"decay": Laplace(bandwidth), "past_only": True}),
    "three Laplace scales": (5, {"decay": scales}),
}
claim = Claim(f"{__doc__} Epinions' topology, {len(edges):,} edges.")
for n_threads in (1, 2):
    graphs = {name: LineGraph(edges, n_threads=n_threads, **options) for name, (_, options) in FORMS.items()}
    works = {name: lambda H=H: H @ x for name, H in graphs.items()}
    touch = floor(graphs["Laplace"]._layout, n_threads)
    seconds = interleaved({"floor": lambda: touch(x), **works})
    print(f"  {n_threads} thread(s): the floor takes {seconds['floor'] * 1e3:.2f} ms")
    for name, H in graphs.items():
        error = relative_error(H, x)
        note = f"{seconds[name] * 1e3:.1f} ms, error {error:.0e}"
        claim.check(f"{name}, floors", seconds[name] / seconds["floor"], FORMS[name][0], note=note)
        claim.check(f"{name}, error", error, H.tol)
claim.exit()
