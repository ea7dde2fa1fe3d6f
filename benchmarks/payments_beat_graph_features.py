"""More frauds are found than with snapml's GraphFeaturePreprocessor under the same boosting.

The first fold of the Fraud Detection Handbook, with the payments of 37 days: 23 to learn from, 7 of label delay, 7 to test.
The preprocessor has three windows (1, 7 and 30 days) of its statistics of the amounts, times and neighbours of both ends,
and its fans; it is fed in batches of 128 payments, because it sees the whole batch of a payment. It does not use labels, so
that it is also shown together with the book's columns, which do.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from time import process_time

import numpy as np
from _bench import NOT_RUN, Claim, data_file

sys.path.append(str(Path(__file__).parents[1]))

from tdlg.datasets import load_dataset
from tdlg_paper.graph_features import graph_columns
from tdlg_paper.handbook import Week, book_columns, measures, our_boosting, stream, week

DAYS = 37
MARGIN = 0.05  # of average precision


def boosted(columns: np.ndarray, part: Week) -> np.ndarray:
    rows = part.known()
    model = our_boosting(len(rows)).fit(columns[rows], part.edges.label[rows].astype(int))
    return model.predict_proba(columns[part.test])[:, 1]


def main() -> None:
    claim = Claim(__doc__)
    path = data_file("handbook.parquet")
    if find_spec("snapml") is None:
        print("  not run: needs snapml (pip install snapml; Python up to 3.12)")
        sys.exit(NOT_RUN)
    os.environ["TDLG_DATA"] = str(path.parent)
    part, label = week(load_dataset("handbook", dates=True), 0, DAYS)
    clock = process_time()
    graph = graph_columns(part.edges)
    seconds = process_time() - clock
    ours, our_seconds = stream(part)
    ways = {
        f"{graph.shape[1]} graph features": boosted(graph, part),
        "graph features and the book's columns": boosted(np.hstack([graph, book_columns(part.edges)]), part),
        "PropagationClassifier": ours,
    }
    found = {name: measures(part, label, score) for name, score in ways.items()}
    for name, figures in found.items():
        print(f"  {name}: " + ", ".join(f"{metric} {value:.3f}" for metric, value in figures.items()))
    print(f"  CPU seconds of the columns of {len(part.edges):,} payments: {seconds:.1f} and ours {our_seconds:.1f}")
    theirs, _, us = (figures["average_precision"] for figures in found.values())
    claim.check("average precision above that of graph features", us - theirs, MARGIN, at_least=True)
    claim.exit()


if __name__ == "__main__":
    main()
