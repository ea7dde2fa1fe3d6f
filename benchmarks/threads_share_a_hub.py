"""Two threads are faster than one, even where one node has all the edges."""

import numpy as np
from _bench import Claim, epinions_topology, interleaved, relative_error, star

from tdlg import Laplace, LineGraph

claim = Claim(f"{__doc__} The default decay; slower ones must be carried further across a cut.")
for name, edges in (("Epinions' topology", epinions_topology()), ("star of a million edges", star(1_000_000))):
    x = np.random.default_rng(1).normal(size=len(edges))
    one, two = (LineGraph(edges, n_threads=n_threads) for n_threads in (1, 2))
    seconds = interleaved({"one": lambda H=one: H @ x, "two": lambda H=two: H @ x})
    difference = np.abs(one @ x - two @ x).max() / np.abs(one @ x).max()
    note = f"{seconds['one'] * 1e3:.1f} ms and {seconds['two'] * 1e3:.1f} ms, difference {difference:.0e}"
    claim.check(f"{name}, times faster", seconds["one"] / seconds["two"], 1.5, at_least=True, note=note)
    claim.check(f"{name}, error of two threads", relative_error(two, x, 20), two.tol)
    one, two = (LineGraph(edges, decay=Laplace(relative=0.1), n_threads=n_threads) for n_threads in (1, 2))
    seconds = interleaved({"one": lambda H=one: H @ x, "two": lambda H=two: H @ x})
    print(f"         for comparison, Laplace: {seconds['one'] / seconds['two']:.2f} times faster")
claim.exit()
