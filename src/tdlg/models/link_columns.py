"""Propagated columns for links: the real and synthetic edges around each edge, and models that recognise real edges."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from tdlg._kernels import COUNT_UNIT, LEAST_SUM
from tdlg.clock import finest
from tdlg.edges import TemporalEdges
from tdlg.linegraph.decay import Decay, Laplace
from tdlg.linegraph.match import NODE_MATCHES
from tdlg.memory import default_threads
from tdlg.models.training import boosting_settings, linear_member
from tdlg.propagate.match import decayed_sums
from tdlg.sampling.index import concatenate_edges, edge_index

Floats = NDArray[np.float64]

SCALES = (0.001, 0.01, 0.1, 1.0, 10.0)  # in standard deviations of the times
WINDOW = 1 / 19  # share of the time span, at its end, that the model of the future is trained on
FOLDS = 5  # the columns of an edge are made from the edges of the other folds
MOST_LINK_ROWS = 50_000  # more edges than FOLDS times this number are sampled for training
LEAST_ROWS = 200  # least number of edges in that window; a third of all edges if they are few


def link_decays(edges: TemporalEdges) -> list[Decay]:
    """The decays of the columns, fixed on the times of these edges; none if all edges have the same time."""
    if float(np.ptp(edges.ticks)) == 0.0:
        return []
    return [Laplace(relative=scale).freeze(edges) for scale in SCALES]


def link_columns(
    rows: TemporalEdges,
    edges: TemporalEdges,
    is_real: NDArray[Any],
    decays: list[Decay],
    *,
    past_only: bool,
    known: NDArray[np.bool_] | None = None,
) -> Floats:
    """For each match and scale, the smoothed excess of real over synthetic edges around, and the log of all edges' count.

    edges, is_real : real (1) and synthetic (0) edges, of which those in `known` count, by default all, and with `past_only`
    those strictly before a row. A row that is also among the edges does not see itself.
    """
    weight = np.ones(len(edges)) if known is None else known.astype(np.float64)
    values = np.column_stack([weight, weight * (np.asarray(is_real) - 0.5)])
    unit = finest(rows.time_unit, edges.time_unit)  # of the clock of both
    widths = [decay.parts(unit)[0].bandwidth for decay in decays] or [np.inf]

    def of_match(match: str) -> list[Floats]:
        sums, _ = decayed_sums(rows, edges, values, match, widths, past_only=past_only)
        sums[np.abs(sums) < LEAST_SUM] = 0.0
        return [sums[..., 1] / (sums[..., 0] + 1.0), np.log1p(sums[..., 0] / COUNT_UNIT)]

    with ThreadPoolExecutor(default_threads()) as pool:  # the walks release the interpreter's lock
        return np.hstack([column for columns in pool.map(of_match, NODE_MATCHES) for column in columns])


def drawn_edges(edges: TemporalEdges, rng: np.random.Generator, time: NDArray[Any] | None = None) -> TemporalEdges:
    """Synthetic edges, one per edge: sources, destinations and times sampled with replacement, or with the given times.

    They are not shuffled: every node would then have as many shuffled as real edges, and the counts without a held-out edge
    would show whether that edge is real.
    """
    n = len(edges) if time is None else len(time)
    src, dst, when = rng.integers(len(edges), size=(3, n))
    time = edges.time[when] if time is None else time
    return TemporalEdges(edges.src[src], edges.dst[dst], time, bipartite=edges.bipartite)


def inside_model(edges: TemporalEdges, is_real: NDArray[Any], decays: list[Decay], rng: np.random.Generator) -> Any:
    """Boosted trees that separate real from synthetic edges by the edges before and after, none from the same fold.

    Of many edges, a sample is trained on: one fold, whose columns are made from all other edges in a single pass.
    """
    n_folds = min(FOLDS, len(edges))
    fold = rng.permutation(np.arange(len(edges)) % n_folds)
    if len(edges) > n_folds * MOST_LINK_ROWS:
        n_folds = 1
        fold = (rng.permutation(len(edges)) >= MOST_LINK_ROWS).astype(np.int64)
    blocks, rows = [], []
    for number in range(n_folds):
        rows.append(np.flatnonzero(fold == number))
        blocks.append(link_columns(edges[rows[-1]], edges, is_real, decays, past_only=False, known=fold != number))
    settings = boosting_settings(sum(map(len, rows)))
    model = HistGradientBoostingClassifier(**settings, random_state=int(rng.integers(2**31)))
    return model.fit(np.vstack(blocks), is_real[np.concatenate(rows)])


def cut_of(edges: TemporalEdges) -> float:
    """Start of the window that the model of the future is trained on, in ticks."""
    ticks = edges.ticks.astype(np.float64)
    cut = ticks.max() - WINDOW * np.ptp(ticks)
    return float(min(cut, np.sort(ticks)[-max(1, min(LEAST_ROWS, len(ticks) // 3))]))


def future_model(
    rows: TemporalEdges, rows_real: NDArray[Any], past: TemporalEdges, past_real: NDArray[Any], decays: list[Decay]
) -> Any:
    """Logistic regression that separates real from synthetic edges of the window by the edges before it.

    Edges after the last fitted edge are scored in the same situation.
    """
    columns = link_columns(rows, past, past_real, decays, past_only=True)
    return linear_member(LogisticRegression(C=0.1, max_iter=1000)).fit(columns, rows_real)


class LinkModel(NamedTuple):
    """Models of real (1) and synthetic (0) edges: one for the time of the fitted edges, one for later times."""

    edges: TemporalEdges
    is_real: NDArray[Any]
    decays: list[Decay]
    inside: Any
    future: Any

    @classmethod
    def learnt(cls, edges: TemporalEdges, is_real: NDArray[Any] | None, rng: np.random.Generator) -> Self:
        """Learn from real and synthetic edges; if all edges are real, synthetic ones are sampled."""
        decays, cut = link_decays(edges), cut_of(edges)
        late = edges.ticks >= cut
        if is_real is None:
            window, past = edges[late], edges[~late]
            rows = concatenate_edges(window, drawn_edges(edges, rng, window.time))
            seen = concatenate_edges(past, drawn_edges(past, rng)) if len(past) else past
            some = rng.permutation(len(rows))[:MOST_LINK_ROWS] if len(rows) > MOST_LINK_ROWS else slice(None)
            future = future_model(rows[some], _halves(rows)[some], seen, _halves(seen), decays)
            edges = concatenate_edges(edges, drawn_edges(edges, rng))
            is_real = _halves(edges)
        else:
            late = late if len(np.unique(is_real[late])) == 2 else np.ones(len(edges), bool)
            future = future_model(edges[late], is_real[late], edges[~late], is_real[~late], decays)
        return cls(edges, is_real, decays, inside_model(edges, is_real, decays, rng), future)

    def scores(self, rows: TemporalEdges) -> Floats:
        """Log-odds that edges are real: from the last fitted edge on by the model of the future, else by the other one."""
        scores = np.empty(len(rows))
        comparable = (rows.time_unit is None) == (self.edges.time_unit is None)  # if not, `link_columns` raises
        later = rows.time >= self.edges.time.max() if comparable else np.zeros(len(rows), bool)
        at = edge_index(self.edges).find_each(rows) if comparable else np.full(len(rows), -1)
        for model, part in ((self.inside, ~later), (self.future, later)):
            for some, known in ((np.flatnonzero(part & (at >= 0)), True), (np.flatnonzero(part & (at < 0)), False)):
                if some.size:
                    these = self.edges[at[some]] if known else rows[some]  # known edges do not see themselves
                    past_only = model is self.future
                    columns = link_columns(these, self.edges, self.is_real, self.decays, past_only=past_only)
                    scores[some] = model.decision_function(columns)
        return scores


def _halves(edges: TemporalEdges) -> NDArray[np.int64]:
    """1 for the first half of the edges, 0 for the second."""
    return np.repeat([1, 0], len(edges) // 2)
