"""Payments as a live model sees them: fitted ones, then events and labels in the order in which they become known."""

from functools import cache

import numpy as np

from conftest import fewer_trees
from tdlg import EdgeOutlierDetector, PropagationClassifier, PropagationRegressor, make_payments

N, N_FITTED = 900, 500
NEW = 550  # from this row on, large amounts are frauds too
PAYMENTS = make_payments(N, random_state=1, n_customers=20, n_terminals=12)


def made_labels():
    """Most payments at two terminals are frauds, and later on large ones everywhere: what a first model cannot know."""
    edges, rng = PAYMENTS.edges, np.random.default_rng(0)
    is_bad = np.isin(edges.dst, np.unique(edges.dst)[:2]) & (rng.random(N) < 0.7)
    return (is_bad | (edges.features[:, 0] > 100) & (np.arange(N) >= NEW)).astype(int)


EDGES, LABEL_TIME = PAYMENTS.edges.with_label(made_labels()), PAYMENTS.label_time
CUT = EDGES.time[N_FITTED]
OPTIONS = {"setting": "stream", "random_state": 0, "n_threads": 1}


def id_of(row):
    return f"p{row}"


def event(row, **more):
    """A payment as an event."""
    ends = {"id": id_of(row), "src": EDGES.src[row], "dst": EDGES.dst[row], "time": str(EDGES.time[row])}
    return {**ends, "amount": float(EDGES.features[row, 0]), **more}


def events(rows=range(N_FITTED, N)):
    return [event(row) for row in rows]


def label(row, **more):
    """The label of a payment, when it becomes known."""
    return {"id": id_of(row), "label": int(EDGES.label[row]), "time": str(LABEL_TIME[row]), **more}


def known_at(time, label=EDGES.label):
    """All payments with the labels that were known at a time, and when they became known."""
    return EDGES.with_label(np.where(time >= LABEL_TIME, label, np.nan), LABEL_TIME)


def acts():
    """("event" or "label", row) in the order of time, for the payments after the fitted ones."""
    last = EDGES.time[-1]
    both = [(EDGES.time[row], 1, row) for row in range(N_FITTED, N)]
    both += [(LABEL_TIME[row], 0, row) for row in range(N) if CUT < LABEL_TIME[row] <= last and row >= N_FITTED]
    return [("event" if kind else "label", row) for _, kind, row in sorted(both)]


def play(live, doings):
    """Submit events and labels one after the other; the answers to the events by row."""
    answers = {}
    for kind, row in doings:
        if kind == "event":
            (answers[row],) = live.submit([event(row)])
        else:
            (answer,) = live.label([label(row)])
            assert answer.error is None
    return answers


@cache
def classifier():
    with fewer_trees():
        return PropagationClassifier(**OPTIONS).fit(known_at(CUT)[:N_FITTED])


@cache
def regressor():
    with fewer_trees():
        return PropagationRegressor(**OPTIONS).fit(known_at(CUT, EDGES.features[:, 0])[:N_FITTED])


@cache
def detector():
    return EdgeOutlierDetector("burst", fast="1d", slow="30d").fit(EDGES[:N_FITTED])


def batch_scores():
    """The scores of the events by the model itself, each with the labels that were known when it came."""
    labels = np.where(EDGES.time[-1] >= LABEL_TIME, EDGES.label, np.nan)
    return classifier().predict_proba(EDGES[N_FITTED:].with_label(labels[N_FITTED:], LABEL_TIME[N_FITTED:]))[:, 1]
