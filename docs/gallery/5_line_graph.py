"""What one interaction is related to.

A row of the line graph: how related one payment is to all others. They share its customer or its terminal, and fade with the
time between them. The matrix is never built.
"""

import matplotlib.pyplot as plt

from tdlg import Gaussian, Laplace, LineGraph, make_payments

edges = make_payments(3000, random_state=0).edges
i = len(edges) // 2

figure, ax = plt.subplots(figsize=(8, 3))
for decay, colour in ((Gaussian("14d"), "tab:blue"), (Laplace("14d"), "tab:orange")):
    row = LineGraph(edges, decay=decay).row(i)
    ax.scatter(edges.time[row.indices], row.data, s=10, color=colour, label=str(decay))
ax.axvline(edges.time[i], color="grey", linewidth=1)
ax.set(ylabel="H[i, j]", ylim=(0, 2.1))
ax.legend()
figure.autofmt_xdate()
