"""Interactions are scored and learnt as they come: 100,000 a second on one core, or one in 0.2 milliseconds.

CPU seconds of one process. Batches of 1,000 of Wikipedia's elections and of the Fraud Detection Handbook, by the setting
"stream" with 200 trees, with and without the columns about both ends; beside snapml's GraphFeaturePreprocessor, whose
columns are scored by the same kind of trees (not run where snapml is missing). The scores are checked against the batch.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _bench import Claim, data_file, wikielect
from sklearn.ensemble import HistGradientBoostingClassifier

sys.path.append(str(Path(__file__).parents[1]))

from tdlg import PropagationClassifier, StreamScorer, TemporalEdges
from tdlg.datasets import load_dataset
from tdlg.models.training import boosting_settings
from tdlg.models.trees import predict_proba
from tdlg_paper.graph_features import graph_preprocessor, graph_table

BATCH, N_BATCHES, N_SINGLE = 1_000, 40, 2_000
WINDOW = 30 * 86_400  # seconds; the scales of the model reach from hours to weeks
BARS = {("wikielect", False): 100e3, ("wikielect", True): 45e3, ("handbook", False): 60e3, ("handbook", True): 30e3}


def networks() -> dict[str, TemporalEdges]:
    os.environ["TDLG_DATA"] = str(data_file("handbook.parquet").parent)
    handbook = load_dataset("handbook", dates=True)
    found = {"wikielect": wikielect(), "handbook": handbook[np.argsort(handbook.time, kind="stable")[:300_000]]}
    return {name: edges[np.argsort(edges.time, kind="stable")] for name, edges in found.items()}


def fitted(edges: TemporalEdges, two_ends: bool) -> PropagationClassifier:
    """A model of the first half, whose trees are trained on its last 20,000 edges to save time."""
    half = len(edges) // 2
    label = edges.label.astype(float)
    weight = (np.arange(half) >= half - 20_000).astype(float)
    trees = HistGradientBoostingClassifier(**boosting_settings(20_000, 100), max_bins=63, random_state=0)
    model = PropagationClassifier(trees, setting="stream", two_ends=two_ends)
    return model.fit(edges[:half], label[:half], sample_weight=weight)


def events_of(edges: TemporalEdges) -> list[dict]:
    """Edges as a service gets them."""
    times = edges.time.astype(str).tolist() if edges.time_unit else edges.time.tolist()
    columns = {"src": edges.src.tolist(), "dst": edges.dst.tolist(), "time": times, "label": edges.label.tolist()}
    if edges.features is not None:
        columns |= dict(zip(edges.feature_names, edges.features.T.tolist(), strict=True))
    return [
        dict(zip(columns, row, strict=True)) | {"id": k} for k, row in enumerate(zip(*columns.values(), strict=True))
    ]


def seconds(work) -> float:
    start = process_time()
    work()
    return process_time() - start


def graph_feature_seconds(edges: TemporalEdges) -> float:
    """Median CPU seconds of a batch of snapml's columns, scored by the same kind of trees."""
    half, table, preprocessor = len(edges) // 2, graph_table(edges), graph_preprocessor(WINDOW)
    batches = [np.ascontiguousarray(table[at : at + BATCH]) for at in range(half - 20_000, half, BATCH)]
    columns = np.vstack([preprocessor.transform(batch) for batch in batches])
    label = np.asarray(edges.label)[half - 20_000 : half].astype(int)
    trees = HistGradientBoostingClassifier(**boosting_settings(20_000, 100), max_bins=63, random_state=0)
    trees.fit(columns, label)
    new = [np.ascontiguousarray(table[at : at + BATCH]) for at in range(half, half + N_BATCHES * BATCH, BATCH)]
    return median(seconds(lambda: predict_proba(trees, preprocessor.transform(batch))) for batch in new)


def main() -> None:
    claim = Claim(__doc__)
    rates = {}
    for name, edges in networks().items():
        for two_ends in (False, True):
            model = fitted(edges, two_ends)
            new = edges[len(edges) // 2 :]
            scorer = StreamScorer(model)
            batches = [new[at : at + BATCH] for at in range(0, N_BATCHES * BATCH, BATCH)]
            few = np.vstack([scorer.score_update(batch).values for batch in batches[:2]])
            assert np.abs(few - model.predict_proba(new[: 2 * BATCH])).max() < 1e-9
            rate = BATCH / median(seconds(lambda: scorer.score_update(batch)) for batch in batches[2:])
            rates[name, two_ends] = rate
            what = f"{name}, edges a second {'with' if two_ends else 'without'} columns about both ends"
            per_key = scorer.nbytes / scorer._engine.n_keys
            note = f"{scorer.n_nodes:,} nodes, {per_key:.0f} bytes per key"
            claim.check(what, rate, BARS[name, two_ends], at_least=True, note=note)
            events = events_of(new[N_BATCHES * BATCH : N_BATCHES * BATCH + N_SINGLE])
            one = 1e3 * median(seconds(lambda: scorer.process(scorer.read([event])[0])) for event in events)
            if not two_ends:
                claim.check(f"{name}, milliseconds of a single event", one, 0.2)
            else:
                print(f"         {name}, milliseconds of a single event with these columns: {one:.2f}")
        if name == "handbook" and find_spec("snapml") is not None:
            theirs = BATCH / graph_feature_seconds(edges)
            note = f"{theirs:,.0f} edges a second with graph features of one window of 30 days and the same trees"
            claim.check("times as many as snapml's", rates[name, False] / theirs, 1.5, at_least=True, note=note)
    claim.exit()


if __name__ == "__main__":
    main()
