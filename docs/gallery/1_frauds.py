"""Frauds among card payments.

Card payments of June, scored by a model that knows the labels of May: frauds that the model has not seen are at the top.
"""

import matplotlib.pyplot as plt
import numpy as np

from tdlg import PropagationClassifier, make_payments

payments = make_payments(random_state=2)
edges = payments.known_at("2025-06-01")
model = PropagationClassifier(setting="forecast", random_state=0).fit(edges)

june = edges.time >= np.datetime64("2025-06-01")
probability = model.predict_proba(edges[june])[:, 1]
fraud = payments.edges.label[june] > 0

figure, ax = plt.subplots(figsize=(8, 3.4))
for chosen, name, colour in ((~fraud, "fine", "lightgrey"), (fraud, "fraud", "tab:red")):
    ax.scatter(edges.time[june][chosen], probability[chosen], s=12, color=colour, label=name)
ax.set(yscale="log", ylabel="probability of fraud")
ax.legend(title="in truth", loc="lower right")
figure.autofmt_xdate()
