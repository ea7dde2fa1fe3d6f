"""The cost of a product grows with the number of edges and nothing else."""

import numpy as np
from _bench import Claim, interleaved, power_law, relative_error

from tdlg import LineGraph

claim = Claim(f"{__doc__} Power law, tol 1e-9, one thread.")
per_edge, bytes_each = [], []
for n_edges in (1_000_000, 5_000_000, 20_000_000):
    edges = power_law(n_edges)
    hub = int(np.bincount(np.concatenate([edges.src_code, edges.dst_code])).max())
    H = LineGraph(edges, n_threads=1)
    x = np.random.default_rng(1).normal(size=n_edges)
    seconds = interleaved({"product": lambda H=H, x=x: H @ x}, repeats=5)["product"]
    per_edge.append(seconds / n_edges * 1e9)
    bytes_each.append((H.nbytes + 2 * x.nbytes) / n_edges)
    print(
        f"  {n_edges:>10,} edges, largest degree {hub:,}: {per_edge[-1]:.1f} ns and {bytes_each[-1]:.1f} bytes an edge"
    )
    claim.check("error", relative_error(H, x, 5), H.tol)
claim.check("largest hub, thousands", hub / 1e3, 150, at_least=True)
claim.check("time an edge, slowest against fastest", max(per_edge) / min(per_edge), 2)
claim.check("bytes an edge for operator, x and y", max(bytes_each), 70)
claim.exit()
