"""A product costs the same whatever the bandwidth."""

import numpy as np
from _bench import Claim, epinions_topology, interleaved, relative_error

from tdlg import Gaussian, LineGraph

edges = epinions_topology()
x = np.random.default_rng(1).normal(size=len(edges))
claim = Claim(f"{__doc__} Epinions' topology, {len(edges):,} edges, tol 1e-9, one thread.")
graphs = {
    f"{relative:g}": LineGraph(edges, decay=Gaussian(relative=relative), n_threads=1)
    for relative in (1, 0.1, 0.01, 0.001)
}
seconds = interleaved({name: lambda H=H: H @ x for name, H in graphs.items()})
for name, H in graphs.items():
    claim.check(f"{name} std, error", relative_error(H, x), H.tol, note=f"{seconds[name] * 1e3:.1f} ms")
claim.check("slowest against fastest", max(seconds.values()) / min(seconds.values()), 1.5)
claim.exit()
