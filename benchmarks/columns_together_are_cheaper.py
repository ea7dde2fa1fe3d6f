"""Many columns at once cost less each than a single product."""

import numpy as np
from _bench import Claim, epinions_topology, interleaved, relative_error

from tdlg import Gaussian, Laplace, LineGraph

edges = epinions_topology()
bandwidth = 0.1 * float(edges.time.std())
X = np.random.default_rng(1).normal(size=(len(edges), 32))
blocks = {k: np.ascontiguousarray(X[:, :k]) for k in (1, 8, 32)}
claim = Claim(f"{__doc__} Epinions' topology, {len(edges):,} edges, one thread.")
for decay in (Gaussian(bandwidth), Laplace(bandwidth)):
    H = LineGraph(edges, decay=decay, n_threads=1)
    claim.check(f"{type(decay).__name__}, error", relative_error(H, X[:, 0]), H.tol)
    seconds = interleaved({str(k): lambda block=block: H @ block for k, block in blocks.items()}, repeats=7)
    for k in (8, 32):
        difference = np.abs((H @ blocks[k])[:, 0] - H @ X[:, 0]).max() / np.abs(H @ X[:, 0]).max()
        each, single = seconds[str(k)] / k * 1e3, seconds["1"] * 1e3
        note = f"{each:.1f} ms a column against {single:.1f} ms, difference {difference:.0e}"
        name = f"{type(decay).__name__}, {k} columns, share of a single product each"
        claim.check(name, each / single, 0.7, note=note)
        claim.check("difference of a column from the single product", float(difference), 2e-9)
claim.exit()
