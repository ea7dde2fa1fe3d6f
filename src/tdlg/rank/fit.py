"""Learning to rank from a history: which destination comes next, and which pairs meet soon."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels.ranking import NEVER
from tdlg.edges import TemporalEdges
from tdlg.models.trees import Trees
from tdlg.rank.history import COLUMNS, Codes, Floats, History
from tdlg.sampling.candidates import candidate_pairs

# Edges whose destination is learnt (more are sampled), and random candidates of each, by whether a source is ever a
# destination: where anybody may be answered, trees have to see many who were not active lately.
SAMPLED = {True: (8_000, 150), False: (16_000, 50)}
FEWEST_QUERIES = 500  # with fewer edges to learn from, the recency rule is used
HELD_OUT, STEPS = 0.1, 10  # share of the last edges that choose the number of trees, in tenths
SKIPPED = 0.15  # share of the history before the first of them: too little is known there
LIMITS = (10, 10, 6, 8, 20)  # candidates: own latest, latest to answer, two and three steps away, latest of all
CUTS, CUTS_FROM = 40, 0.3  # times at which all pairs are candidates, from this share of the history on
HORIZONS = (0.01, 0.05)  # how many of the next edges count, as shares of the history
ROWS_PER_CUT = 8_000  # of pairs that did not come; all that came are learnt from
FIRST = 100  # pairs whose share that comes is measured
LATEST_EDGES = 500_000  # edges before each of these times that make candidates
TREES = 150
PRIOR, MOST_SINCE = 0.2, 1e6  # weight of the recency rule beside the trees; edges since the last one of a destination
_GAP, _RANK, _GAP_OF_DST, _SINCE, _PARTNERS = (
    COLUMNS.index(name) for name in ("pair:gap", "pair:rank", "dst:gap", "dst:edges since", "src:partners")
)
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


def is_enough(n_edges: int) -> bool:
    """Whether there are enough edges to learn from."""
    return (1.0 - SKIPPED) * n_edges >= FEWEST_QUERIES


def missing_lightgbm() -> str | None:
    """Why LightGBM cannot be used, as a sentence without its end; None if it can."""
    try:
        import lightgbm  # noqa: F401
    except (ImportError, OSError) as error:  # OSError: it is installed, but a library that it needs is not
        if find_spec("lightgbm") is None:
            return "LightGBM is not installed (from a clone of tdlg: pip install '.[rank]')"
        return f"LightGBM is installed but cannot be loaded ({str(error).strip().splitlines()[0]:.200})"
    return None


def learn_next(
    history: History, n_trees: int, rng: np.random.Generator, one_type: bool, forced: bool
) -> tuple[Trees | None, int]:
    """Trees that rank the destinations of a source, by LambdaMART, and the number of edges that they were made from.

    The last tenth of these edges is held out: it decides how many of the trees are used. None if the recency rule ranks it
    better than any number of trees, unless `forced`.
    """
    n = len(history)
    src, dst, _ = history.edges()
    everyone = np.unique(dst)
    n_queries, n_random = SAMPLED[bool(np.isin(src, everyone).any())]
    late = np.arange(int(SKIPPED * n), n)
    chosen = late if len(late) <= n_queries else np.sort(rng.choice(late, n_queries, replace=False))
    upto = np.searchsorted(history.ticks, history.ticks[chosen])
    limits = np.array(LIMITS if one_type else [0 if k == 1 else limit for k, limit in enumerate(LIMITS)])
    picks = rng.integers(0, len(everyone), (len(chosen), n_random))
    rows, starts = history.sample(chosen, upto, limits, everyone, picks)
    n_learnt = len(chosen) - round(HELD_OUT * len(chosen))
    end = starts[n_learnt]
    is_true = np.zeros(end, np.int8)
    is_true[starts[:n_learnt]] = 1
    share = len(chosen) / n_queries  # smaller steps with fewer edges than wanted, whose details are chance
    settings = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": 20,
        "learning_rate": 0.1 * float(np.clip(np.sqrt(share), 0.3, 1.0)),
        "min_data_in_leaf": 300,
    }
    trees = _trees(rows[:end], is_true, settings, n_trees, rng, group=np.diff(starts[: n_learnt + 1]))
    begins = starts[n_learnt:-1] - end
    held_out = rows[end:].astype(np.float64)
    prior = recency_position(held_out)
    best = _best_number(trees, held_out, lambda scores: _mean_reciprocal(scores, begins), forced, prior)
    return (trees.between(0, best), len(chosen)) if best else (None, 0)


def _best_number(
    trees: Trees, rows: Floats, measure: Callable[[Floats], float], forced: bool, prior: Floats | float = 0.0
) -> int:
    """The number of trees whose scores of held-out rows, plus a prior, are best by a measure; 0 if the rule is better."""
    numbers = np.unique(np.linspace(0, trees.n_trees, STEPS + 1).round().astype(int))[1:]
    found, scores, done = {}, np.zeros(len(rows)), 0
    for number in numbers.tolist():
        scores += trees.between(done, number).sums(rows)[:, 0]
        found[number], done = measure(scores + prior), number
    best = max(found, key=lambda number: (found[number], number))
    return best if forced or found[best] >= measure(recency(rows)) else 0


def _mean_reciprocal(scores: Floats, starts: Codes) -> float:
    """The MRR of the first candidate of each edge, ties at the mean rank."""
    true = np.repeat(scores[starts], np.diff(np.append(starts, len(scores))))
    above, equal = (np.add.reduceat(each.astype(np.int64), starts) for each in (scores > true, scores == true))
    return float((1.0 / (above + (1 + equal) / 2.0)).mean())


def learn_pairs(
    edges: TemporalEdges, history: History, n_trees: int, rng: np.random.Generator, forced: bool
) -> Trees | None:
    """Trees that estimate which pairs meet soon, from what followed at several times of the history.

    The last of these times are held out: they decide how many of the trees are used. None if the first 100 pairs of the
    recency rule come true more often than those of any number of trees, unless `forced`; or if nothing followed at any of
    these times because nearly all edges happened at one time.
    """
    n, n_nodes = len(edges), edges.n_nodes
    in_order = edges[np.argsort(edges.ticks, kind="stable")]
    ahead = [max(1, round(share * n)) for share in HORIZONS]
    last = np.unique(np.linspace(CUTS_FROM * n, n - ahead[-1], CUTS).astype(int))
    cuts = np.unique(np.searchsorted(history.ticks, history.ticks[last - 1], "right"))  # all edges of one time
    cuts = cuts[cuts < n]
    n_learnt = max(1, len(cuts) - max(1, round(HELD_OUT * len(cuts))))
    parts, targets, weights = [], [], []
    all_src, all_dst, when = history.edges()
    key = all_src * n_nodes + all_dst
    for number, cut in enumerate(cuts.tolist()):
        src, dst = candidate_pairs(in_order[max(0, cut - LATEST_EDGES) : cut])
        came = np.mean([np.isin(src * n_nodes + dst, key[cut : cut + horizon]) for horizon in ahead], axis=0)
        some, weight = _all_that_came(came, rng) if number < n_learnt else (np.arange(len(src)), np.ones(len(src)))
        src, dst = src[some], dst[some]
        rows = history.rows(src, dst, np.full(len(src), when[cut - 1]), np.full(len(src), cut))
        parts.append(rows.astype(np.float32))
        targets.append(came[some])
        weights.append(weight)
    if not parts:
        return None
    settings = {"objective": "cross_entropy", "learning_rate": 0.04, "num_leaves": 8, "min_data_in_leaf": 200}
    learnt, target, weight = (np.concatenate(each[:n_learnt]) for each in (parts, targets, weights))
    trees = _trees(learnt, target, settings, n_trees, rng, weight=weight)
    if n_learnt == len(cuts):  # a single time
        return trees
    rows, came = (np.concatenate(each[n_learnt:]) for each in (parts, targets))
    starts = np.cumsum([len(part) for part in parts[n_learnt:-1]])
    measure = partial(_mean_that_came, came=came, starts=starts)
    best = _best_number(trees, rows.astype(np.float64), measure, forced)
    return trees.between(0, best) if best else None


def _mean_that_came(scores: Floats, came: Floats, starts: Codes) -> float:
    """How much of the best 100 pairs of each time came, on average."""
    parts = zip(np.split(scores, starts), np.split(came, starts), strict=True)
    return float(np.mean([came[np.argsort(-score, kind="stable")[:FIRST]].mean() for score, came in parts]))


def _all_that_came(came: Floats, rng: np.random.Generator) -> tuple[Codes, Floats]:
    """Positions of all pairs that came and of some that did not, and weights by which the latter stand for all of these."""
    others = np.flatnonzero(came == 0)
    some = rng.choice(others, min(len(others), ROWS_PER_CUT), replace=False)
    kept = np.sort(np.concatenate([np.flatnonzero(came > 0), some]))
    return kept, np.where(came[kept] > 0, 1.0, len(others) / max(len(some), 1))


# ---- rules that learn nothing


def recency(rows: Floats) -> Floats:
    """Above 0 for pairs that met before, below 0 for other destinations; each the higher, the later."""
    gap, of_dst = rows[:, _GAP], rows[:, _GAP_OF_DST]
    return np.where(gap < NEVER, 1.0 / (1.0 + gap), -1.0 - of_dst)


def edgebank(rows: Floats) -> Floats:
    """1 for pairs that met before, 0 for others."""
    return (rows[:, _GAP] < NEVER).astype(np.float64)


def recency_position(rows: Floats) -> Floats:
    """The position of candidates by the recency rule, which counts less the further back it is: 0 for the first.

    It keeps the trees from going far astray where the network has changed since they learnt.
    """
    of_pair, since = rows[:, _RANK], np.minimum(rows[:, _SINCE], MOST_SINCE)
    return -PRIOR * np.log(np.where(of_pair < NEVER, of_pair, 1.0 + rows[:, _PARTNERS] + since))


# ---- LightGBM


def _trees(
    rows: NDArray[np.float32],
    target: NDArray[Any],
    settings: dict[str, Any],
    n_trees: int,
    rng: np.random.Generator,
    **more: Any,
) -> Trees:
    import lightgbm

    settings = SETTINGS | settings | {"seed": int(rng.integers(2**31))}
    table = lightgbm.Dataset(rows, target, params=settings, **more)
    return Trees.from_booster(lightgbm.train(settings, table, n_trees))
