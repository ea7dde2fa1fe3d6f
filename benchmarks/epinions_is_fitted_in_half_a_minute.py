"""841,372 edges, whose explicit matrix has 505 million entries, are fitted and predicted in 30 seconds and 1 GB."""

from time import perf_counter

from _bench import Claim, epinions_topology, hide_labels, memory
from sklearn.metrics import roc_auc_score

from tdlg import LineGraphClassifier

edges = epinions_topology()
labels, hidden = hide_labels(edges)
claim = Claim(f"{__doc__} Epinions' topology and signs, made-up times, balanced, C=1.")
before, start = memory(peak=False), perf_counter()
model = LineGraphClassifier(class_weight="balanced").fit(edges, labels)
probability = model.predict_proba(edges)[:, 1]
seconds = perf_counter() - start
auc = roc_auc_score(edges.label[hidden], probability[hidden])
claim.check(
    "seconds", seconds, 30, note=f"{model.n_products_} products, objective {model.objective_:,.1f}, AUC {auc:.4f}"
)
claim.check("GB", (memory(peak=True) - before) / 1e9, 1)
claim.exit()
