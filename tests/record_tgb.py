"""Records what py-tgb's evaluator says of some scores, and its negatives, for tests where the package cannot be installed.

`pip install --no-deps --target FOLDER py-tgb==2.3.0`, then `PYTHONPATH=FOLDER:src:tests python tests/record_tgb.py` with the
data of wikipedia (TDLG_DATA) writes tests/tgb_evaluator.json. The scores themselves are made again by `made_scores` and
`wikipedia_scores`.
"""

import hashlib
import json
import pickle
import tempfile
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np

from tdlg import LinkRanker, TemporalEdges
from tdlg.datasets import load_dataset
from tdlg.judge.ranking import RankingTask, true_scores

RECORDED = Path(__file__).with_name("tgb_evaluator.json")
QUERIES = 400
STRATEGIES = ("hist_rnd", "rnd")


def made_scores():
    """Scores with many ties: that of the true destination, and those of the others."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        yield float(rng.integers(0, 30) / 7.0), rng.integers(0, 30, 99) / 7.0


def wikipedia_scores():
    """Scores of the recency rule for the first test edges of wikipedia, which need no random numbers."""
    task = RankingTask(load_dataset("wikipedia"))
    model = LinkRanker("recency").fit(task.part("train"))
    for later in ("val", "test"):
        model.update(task.part(later))
    yield from islice(true_scores(model, task), QUERIES)


def by_tgb(scores):
    """The MRR and hits@10 of each query by py-tgb's evaluator."""
    from tgb.linkproppred.evaluate import Evaluator

    evaluator = Evaluator("tgbl-wiki")
    for true, others in scores:
        asked = {"y_pred_pos": np.array([true]), "y_pred_neg": np.asarray(others)[None]}
        mrr, hits = (evaluator.eval(asked | {"eval_metric": [name]}) for name in ("mrr", "hits@"))
        yield float(mrr["mrr"]), float(hits["hits@10"])


def small_task():
    """A network whose negatives are compared."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 40, (2, 400))
    return RankingTask(TemporalEdges(src, dst + 20, rng.integers(0, 100, 400)))


def negatives_by_tgb(task, strategy):
    """Ten negatives per edge of the last two parts, by py-tgb's generator."""
    import torch
    from tgb.linkproppred.negative_generator import NegativeEdgeGenerator
    from torch_geometric.data import TemporalData

    parts, found = {}, {}
    for name in ("train", "val", "test"):
        part = task.part(name)
        parts[name] = TemporalData(*(torch.from_numpy(np.array(column)) for column in (part.src, part.dst, part.time)))
    ends = int(task.edges.dst.min()), int(task.edges.dst.max())
    options = {"num_neg_e": 10, "strategy": strategy, "rnd_seed": 42, "historical_data": parts["train"]}
    generator = NegativeEdgeGenerator("tgbl-uci", *ends, **options)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("val", "test"):
            generator.generate_negative_samples(parts[name], name, folder)
            found |= pickle.loads((Path(folder) / f"tgbl-uci_{name}_ns.pkl").read_bytes())
    return found


def digest(negatives):
    """A sha256 of all negatives in their order."""
    plain = sorted((*map(int, key), *map(int, ids)) for key, ids in negatives.items())
    return hashlib.sha256(repr(plain).encode()).hexdigest()


if __name__ == "__main__":
    found = {name: list(by_tgb(make())) for name, make in (("made", made_scores), ("wikipedia", wikipedia_scores))}
    found["negatives"] = {name: digest(negatives_by_tgb(small_task(), name)) for name in STRATEGIES}
    RECORDED.write_text(json.dumps({"py-tgb": version("py-tgb"), **found}) + "\n", encoding="utf-8")
