"""Learning to rank from a history: which destination comes next, and which pairs meet soon."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.models.ranking_trees import RankingTrees
from tdlg.propagate.ranking import COLUMNS
from tdlg.propagate.ranking_history import History
from tdlg.sampling.candidates import candidate_pairs

__all__ = ["FEWEST_QUERIES", "learn_next", "learn_pairs", "missing_lightgbm", "pair_rows"]

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

QUERIES = 16_000  # edges whose destination is learnt; more are sampled
FEWEST_QUERIES = 500  # with fewer edges to learn from, the recency rule is used
SKIPPED = 0.15  # share of the history before the first of them: too little is known there
LIMITS = (10, 10, 6, 8, 20)  # candidates: own latest, latest to answer, two and three steps away, latest of all
RANDOM = 50
CUTS, CUTS_FROM = 40, 0.3  # times at which all pairs are candidates, from this share of the history on
HORIZONS = (0.01, 0.05)  # how many of the next edges count, as shares of the history
ROWS_PER_CUT = 8_000  # of pairs that did not come; all that came are learnt from
LATEST = 500_000  # edges before each of these times that make candidates
TREES = 150
SETTINGS: dict[str, Any] = {
    "num_leaves": 15,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "num_threads": 1,  # with more, sums depend on how the rows are shared out
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}


def missing_lightgbm() -> str | None:
    """Why LightGBM cannot be used, as a sentence without its end; None if it can."""
    try:
        import lightgbm  # noqa: F401
    except (ImportError, OSError) as error:  # OSError: it is installed, but a library that it needs is not
        if find_spec("lightgbm") is None:
            return "LightGBM is not installed (pip install 'tdlg[rank]')"
        return f"LightGBM is installed but cannot be loaded ({str(error).strip().splitlines()[0]:.200})"
    return None


def learn_next(history: History, n_trees: int, rng: np.random.Generator, one_type: bool) -> tuple[RankingTrees, int]:
    """Trees that rank the destinations of a source, by LambdaMART, and the number of edges that they learnt from.

    Parameters
    ----------
    history
        The edges to learn from.
    n_trees
        The number of trees.
    rng
        Generator for sampling edges and candidates, and for the seed of the trees.
    one_type
        Whether sources and destinations are nodes of one type.
    """
    n = len(history)
    late = np.arange(int(SKIPPED * n), n)
    chosen = late if len(late) <= QUERIES else np.sort(rng.choice(late, QUERIES, replace=False))
    upto = np.searchsorted(history.ticks, history.ticks[chosen])
    limits = np.array(LIMITS if one_type else [0 if k == 1 else limit for k, limit in enumerate(LIMITS)])
    everyone = np.unique(history.edges()[1])
    picks = rng.integers(0, len(everyone), (len(chosen), RANDOM))
    rows, starts = history.sample(chosen, upto, limits, everyone, picks)
    is_true = np.zeros(len(rows), np.int8)
    is_true[starts[:-1]] = 1
    settings = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": 20,
        "learning_rate": _learning_rate(len(chosen)),
        "min_data_in_leaf": 300,
    }
    return _trees(rows, is_true, settings, n_trees, rng, group=np.diff(starts)), len(chosen)


def learn_pairs(edges: TemporalEdges, history: History, n_trees: int, rng: np.random.Generator) -> RankingTrees | None:
    """Trees that estimate which pairs meet soon, from what followed at several times of the history.

    None if nothing followed at any of these times, because nearly all edges happened at one time.

    Parameters
    ----------
    edges, history
        The edges to learn from, and their history.
    n_trees
        The number of trees.
    rng
        Generator for sampling pairs, and for the seed of the trees.
    """
    n, n_nodes = len(edges), edges.n_nodes
    in_order = edges[np.argsort(edges.ticks, kind="stable")]
    ahead = [max(1, round(share * n)) for share in HORIZONS]
    last = np.unique(np.linspace(CUTS_FROM * n, n - ahead[-1], CUTS).astype(int))
    cuts = np.unique(np.searchsorted(history.ticks, history.ticks[last - 1], "right"))  # all edges of one time
    parts, targets, weights = [], [], []
    all_src, all_dst, when = history.edges()
    key = all_src * n_nodes + all_dst
    for cut in cuts[cuts < n].tolist():
        src, dst = candidate_pairs(in_order[max(0, cut - LATEST) : cut])
        came = np.mean([np.isin(src * n_nodes + dst, key[cut : cut + horizon]) for horizon in ahead], axis=0)
        some, weight = _all_that_came(came, rng)
        src, dst = src[some], dst[some]
        parts.append(pair_rows(history, src, dst, np.full(len(src), when[cut - 1]), np.full(len(src), cut)))
        targets.append(came[some])
        weights.append(weight)
    if not parts:
        return None
    settings = {"objective": "cross_entropy", "learning_rate": 0.04, "num_leaves": 8, "min_data_in_leaf": 200}
    rows, target = np.concatenate(parts).astype(np.float32), np.concatenate(targets)
    return _trees(rows, target, settings, n_trees, rng, weight=np.concatenate(weights))


def _all_that_came(came: Floats, rng: np.random.Generator) -> tuple[Codes, Floats]:
    """Positions of all pairs that came and of some that did not, and weights by which the latter stand for all of these."""
    others = np.flatnonzero(came == 0)
    some = rng.choice(others, min(len(others), ROWS_PER_CUT), replace=False)
    kept = np.sort(np.concatenate([np.flatnonzero(came > 0), some]))
    return kept, np.where(came[kept] > 0, 1.0, len(others) / max(len(some), 1))


def pair_rows(history: History, src: Codes, dst: Codes, when: Floats, upto: Codes) -> Floats:
    """The columns of pairs, in the order of the pairs.

    Parameters
    ----------
    history
        The edges that are known.
    src, dst, when
        Sources, destinations and times.
    upto
        How many edges are known at each.
    """
    order = np.lexsort((src, when, upto))
    asked = np.column_stack([src[order], upto[order]])
    is_first = np.append(True, (np.diff(asked, axis=0) != 0).any(axis=1) | (np.diff(when[order]) != 0))[: len(order)]
    first = np.flatnonzero(is_first)
    starts = np.append(first, len(order))
    rows = np.empty((len(order), len(COLUMNS)))
    done = 0
    for block in history.blocks(src[order][first], when[order][first], upto[order][first], starts, dst[order]):
        rows[order[done : done + len(block)]] = block
        done += len(block)
    return rows


def _learning_rate(n: int) -> float:
    """Smaller steps with fewer edges to learn from, whose details are chance."""
    return 0.1 * float(np.clip(np.sqrt(n / QUERIES), 0.3, 1.0))


def _trees(
    rows: NDArray[np.float32],
    target: NDArray[Any],
    settings: dict[str, Any],
    n_trees: int,
    rng: np.random.Generator,
    **more: Any,
) -> RankingTrees:
    import lightgbm

    settings = SETTINGS | settings | {"seed": int(rng.integers(2**31))}
    table = lightgbm.Dataset(rows, target, params=settings, **more)
    return RankingTrees.from_booster(lightgbm.train(settings, table, n_trees))
