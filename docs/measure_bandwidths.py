"""Measure what decay-and-bandwidth.md shows: `python docs/measure_bandwidths.py`, then `python docs/make_pictures.py`.

The paper's classifier with narrow and wide decays, asked two questions; some minutes. Rows go to
results/bandwidth-by-question.csv, and those that it holds already are not measured again.
"""

from __future__ import annotations

from pathlib import Path

from tdlg import Gaussian, Laplace
from tdlg.datasets import load_dataset
from tdlg.judge.methods import TDLG
from tdlg.judge.run import evaluate
from tdlg.judge.trials import EdgeClassification, ForecastClassification

ROWS = Path(__file__).parents[1] / "results" / "bandwidth-by-question.csv"
DATASETS = ("bitcoinalpha", "bitcoinotc", "escorts", "wikielect")
WIDTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # in standard deviations of the times


def main() -> None:
    """Measure what is not in the file yet; escorts as the bipartite network that it is."""
    for dataset in DATASETS:
        edges = load_dataset(dataset, bipartite=True if dataset == "escorts" else None)
        for task in (EdgeClassification(edges), ForecastClassification(edges)):
            for decay in (kind(relative=width) for kind in (Gaussian, Laplace) for width in WIDTHS):
                print(dataset, task.name, decay, flush=True)
                evaluate(TDLG(decay), task, trials=3, dataset=dataset, path=ROWS, any_version=True)


if __name__ == "__main__":
    main()
