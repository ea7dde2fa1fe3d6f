"""What to expect in production.

Each month is scored by models that learnt from what was known at its start. Labels arrive days to weeks after their payment.
"""

import matplotlib.pyplot as plt

from tdlg import make_payments
from tdlg.judge.backtest import backtest

payments = make_payments(6000, random_state=0)
edges = payments.edges.with_label(payments.edges.label, label_time=payments.label_time)
rows = backtest(edges, "30d", random_state=0)

figure, ax = plt.subplots(figsize=(8, 3))
for (method,), of_method in rows.group_by("method", maintain_order=True):
    periods = of_method.drop_nulls("start")
    ax.plot(periods["start"].to_list(), periods["average_precision"], marker="o", label=method)
ax.set(ylabel="average precision", ylim=(0, None))
ax.legend()
