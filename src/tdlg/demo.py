"""The demo: synthetic card payments, the frauds among them found and explained, in less than a minute."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from tdlg.datasets.payments import make_payments
from tdlg.explain.nodes import node_scores
from tdlg.judge.holdout import hold_out, judge
from tdlg.models.propagation import PropagationClassifier
from tdlg.report import write_report

PAYMENTS = 10_000
TODAY = np.datetime64("2025-06-01")  # what is known then is shown to the model
LOOKED_AT = 50  # payments with the highest scores


def run_demo(page: str | os.PathLike[str], *, random_state: int = 0, say: Callable[[str], object] = print) -> None:
    """Predict frauds, say why, and write the report to `page`; `say` gets each result as text."""
    payments = make_payments(PAYMENTS, random_state)
    edges = payments.known_at(TODAY)
    open_ = np.flatnonzero(~edges.labelled)
    say(f"{len(edges):,} synthetic card payments of half a year, {np.mean(payments.scenario > 0):.1%} of them frauds.")
    say(f"On {TODAY} the labels of {len(open_):,} payments are not known: they are to be predicted.\n")
    model = PropagationClassifier(random_state=random_state).fit(edges)
    model.label_name_ = "fraud"
    scored = model.scored(edges)
    score = scored.values[:, 1]
    first = open_[np.argsort(-score[open_], kind="stable")[:LOOKED_AT]]
    n_found, n_frauds = int((payments.scenario[first] > 0).sum()), int((payments.scenario[open_] > 0).sum())
    say("1. Which payments are frauds?")
    say(f"   {n_found} of the {n_frauds} frauds to find are among the {LOOKED_AT} payments with the highest scores")
    held = hold_out(model, edges, seed=random_state)
    precision = {name: found[1][0] for name, found in judge(held, positive=1).headline.items()}
    beside = ", ".join(f"{name} {value:.2f}" for name, value in precision.items() if name != "model")
    say(f"   average precision {precision['model']:.2f} on the last 30 % of the known labels ({beside})\n")
    say("2. Why?")
    for at in first[:3].tolist():
        reason = model.explain(scored, 1, rows=[at])["reason"][0]
        say(f"   {score[at]:.2f}  {edges.src[at]} -> {edges.dst[at]}: {reason}")
    say("\n3. Whom to look at first?")
    for node, n, reason in node_scores(model, scored.some(open_), top=3)["node", "n", "reason"].iter_rows():
        say(f"   {node}, {n} payments: {reason}")
    shown = {"title": "tdlg demo", "command": "tdlg demo", "label_name": "fraud"}
    write_report(page, model, scored, evaluate=held, seed=random_state, **shown)
    say(f"\nThe report, to open in a browser: {os.fspath(page)}")
