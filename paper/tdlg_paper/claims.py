"""CLAIMS: what the paper says about its method, decided from the rows; REFERENCE_CLAIMS: the same against our references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import fmean
from typing import Literal, NamedTuple

from tdlg_paper.lineup import ABLATED, DATASETS, EDGE, EXTRAPOLATIVE, INTERPOLATIVE, LINEUP, Entry, entries
from tdlg_paper.published import paper_auc, paper_datasets
from tdlg_paper.recipes import BANDWIDTHS, NORMALISATIONS
from tdlg_paper.results import Results

__all__ = ["CLAIMS", "REFERENCE_CLAIMS", "Verdict", "verdicts"]

Outcome = Literal["held", "not held", "not run", "undecided"]

BANDWIDTH_LOSS = 0.05
NORMALISATION_LOSS = 0.06
KINDS_ACCURACY = 0.5  # three times chance
BLIND_ACCURACY = 0.6  # in classifying nodes of two communities, where chance is one half

TDLG, DENSE = LINEUP[:2]
BY_NAME = {entry.name: entry for entry in LINEUP}
TASK_NAMES = {EDGE: "edge classification", INTERPOLATIVE: "link outlier detection", EXTRAPOLATIVE: "link prediction"}


class Verdict(NamedTuple):
    """A claim, its outcome, and the figures behind it."""

    claim: str
    outcome: Outcome
    why: str


class Check(NamedTuple):
    """One part of a claim: True, False, or None if it has no rows."""

    true: bool | None
    text: str


def verdicts(results: Results, claims: Iterable[Callable[[Results], Verdict]] | None = None) -> list[Verdict]:
    """Decide every claim."""
    return [claim(results) for claim in (CLAIMS if claims is None else claims)]


def _decided(claim: str, checks: Iterable[Check], none: str = "no rows") -> Verdict:
    """One counterexample refutes a claim; otherwise every part must have been measured."""
    found = list(checks)
    texts = "; ".join(check.text for check in found) or none
    if any(check.true is False for check in found):
        return Verdict(claim, "not held", texts)
    if not found or any(check.true is None for check in found):
        return Verdict(claim, "not run", texts)
    return Verdict(claim, "held", texts)


def _per_cent(share: float) -> str:
    return f"{100 * share:.2f}"


# ---- data sets


def datasets_agree(results: Results) -> Verdict:
    """Whether the numbers of nodes, edges and days equal those of the paper's table."""
    checks = []
    for name, counts in paper_datasets().items():
        found = results.datasets.get(name)
        if found is None:
            checks.append(Check(None, f"{name} not counted"))
        elif results.has_data(name):
            wrong = [
                f"{what} {found[what]}, not {count}" for what, count in counts.items() if found[what] != str(count)
            ]
            checks.append(Check(not wrong, f"{name}: {', '.join(wrong) or 'all equal'}"))
    missing = [name for name in DATASETS if not results.has_data(name)]
    verdict = _decided("The table of data sets: nodes, edges and days", checks)
    return verdict._replace(why=verdict.why + "".join(f"; {name} not run: data" for name in missing))


# ---- best


def best(results: Results, task: str, rivals: Literal["paper", "prior method", "reference"]) -> Verdict:
    """Whether TDLG has the highest mean AUC on every data set."""
    against = {
        "paper": "the prior methods, by the paper's figures for them",
        "prior method": "the prior methods, as run here",
        "reference": "our references",
    }[rivals]
    claim = f"TDLG is best on every data set in {TASK_NAMES[task]}, against {against}"
    known = [name for name in DATASETS if results.has_data(name)]
    checks = []
    for name in known:
        ours, others = results.auc(task, TDLG, name), _rivals(results, task, rivals, name)
        if ours is None or not others:
            checks.append(Check(None, f"{name}: {'TDLG' if ours is None else 'none of these'} not run"))
            continue
        rival = max(others, key=others.__getitem__)
        checks.append(Check(ours.mean > others[rival], _beside(name, ours.mean, rival, others[rival])))
    verdict = _decided(claim, _if_any(checks), "none of these methods was run")
    return verdict._replace(why=verdict.why + _who(results, task, rivals) + _without(results))


def _rivals(results: Results, task: str, kind: str, dataset: str) -> dict[str, float]:
    """Mean AUCs of the methods that TDLG is compared with."""
    if kind == "paper":
        printed = paper_auc()
        return {
            name: estimate.mean
            for (of, name, where), estimate in printed.items()
            if of == task and where == dataset and BY_NAME[name].kind == "prior method"
        }
    found = {entry.name: results.auc(task, entry, dataset) for entry in entries(task) if entry.kind == kind}
    return {name: estimate.mean for name, estimate in found.items() if estimate is not None}


def _if_any(checks: list[Check]) -> list[Check]:
    """The checks, or none if no part could be measured."""
    return checks if any(check.true is not None for check in checks) else []


def _who(results: Results, task: str, rivals: str) -> str:
    """Which methods were run, and which were not."""
    if rivals == "paper":
        return ""
    kept = [entry for entry in entries(task) if entry.kind == rivals]
    run = [entry.name for entry in kept if any(results.auc(task, entry, name) for name in DATASETS)]
    missing = [entry.name for entry in kept if entry.name not in run]
    shown = f"; run here: {', '.join(run)}" if run else ""
    return shown + (f"; not run: {', '.join(missing)}" if missing else "")


def _without(results: Results) -> str:
    return "".join(f"; {name} not run: data" for name in DATASETS if not results.has_data(name))


def _beside(name: str, ours: float, rival: str, theirs: float) -> str:
    return f"{name} {_per_cent(ours)} against {_per_cent(theirs)} ({rival})"


# ---- means


def dense_beats_prior(results: Results, rivals: Literal["paper", "prior method"]) -> Verdict:
    """Whether TDLG (Dense) has a higher mean over data sets than every prior method."""
    against = "by the paper's figures for them" if rivals == "paper" else "as run here"
    claim = f"TDLG (Dense) is better than every prior method on average over data sets, {against}"
    ours = _mean(_auc(results, DENSE, EDGE))
    others = {
        entry.name: _mean(_printed(entry, EDGE) if rivals == "paper" else _auc(results, entry, EDGE))
        for entry in entries(EDGE)
        if entry.kind == "prior method"
    }
    known = {name: mean for name, mean in others.items() if mean is not None}
    who = _who(results, EDGE, rivals)
    if ours is None or not known:
        missing = "TDLG (Dense) not run on all four" if ours is None else "none of these methods was run on all four"
        return Verdict(claim, "not run", missing + who)
    rival = max(known, key=known.__getitem__)
    return _decided(claim, [Check(ours > known[rival], _beside("mean", ours, rival, known[rival]) + who)])


def deep_beat_others(results: Results, task: str) -> Verdict:
    """Whether EvolveGCN and DynGEM have higher means over data sets than CTDNE and TIMERS."""
    claim = f"EvolveGCN and DynGEM are better than CTDNE and TIMERS on average in {TASK_NAMES[task]}"
    means = {name: _mean(_auc(results, BY_NAME[name], task)) for name in ("EvolveGCN", "DynGEM", "CTDNE", "TIMERS")}
    known = {name: mean for name, mean in means.items() if mean is not None}
    missing = [name for name in means if name not in known]
    if missing:
        return Verdict(claim, "not run", f"not run: {', '.join(missing)}")
    true = min(known["EvolveGCN"], known["DynGEM"]) > max(known["CTDNE"], known["TIMERS"])
    return _decided(claim, [Check(true, ", ".join(f"{name} {_per_cent(mean)}" for name, mean in known.items()))])


def _auc(results: Results, entry: Entry, task: str) -> dict[str, float]:
    found = {name: results.auc(task, entry, name) for name in ABLATED}
    return {name: estimate.mean for name, estimate in found.items() if estimate is not None}


def _printed(entry: Entry, task: str) -> dict[str, float]:
    printed = paper_auc()
    return {name: printed[task, entry.name, name].mean for name in ABLATED if (task, entry.name, name) in printed}


def _mean(values: Mapping[str, float]) -> float | None:
    """The mean over the four data sets, if all were measured."""
    return fmean(values.values()) if len(values) == len(ABLATED) else None


# ---- time


def fastest(results: Results) -> Verdict:
    """Whether TDLG takes less time than every prior method on every data set."""
    claim = "TDLG is the fastest of the paper's methods on every data set"
    checks = []
    for name in (name for name in DATASETS if results.has_data(name)):
        ours = results.runtime(TDLG, name)
        prior = [entry for entry in LINEUP if entry.kind == "prior method"]
        found = {entry.name: results.runtime(entry, name) for entry in prior}
        others = {rival: estimate.seconds for rival, estimate in found.items() if estimate is not None}
        if ours is None or not others:
            checks.append(Check(None, f"{name}: {'TDLG was not' if ours is None else 'no prior method was'} timed"))
            continue
        rival = min(others, key=others.__getitem__)
        text = f"{name} {ours.seconds:.1f} s against {others[rival]:.1f} s ({rival})"
        checks.append(Check(ours.seconds < others[rival], text))
    verdict = _decided(claim, _if_any(checks), "no prior method was timed; the paper prints no seconds")
    sessions = [session for session in results.sessions if session.recipe == "runtime"]
    if sessions and not sessions[-1].is_quiet:
        verdict = verdict._replace(
            outcome="undecided", why=verdict.why + "; measured beside other work: to be measured again"
        )
    return verdict._replace(why=verdict.why + _without(results))


# ---- ablations


def _losses(results: Results, name: str, values: Iterable[str], excused: str = "") -> dict[str, float | None]:
    """By data set, how far the worst value falls below the best, as a share of the best; None if values are missing."""
    wanted, table = list(values), results.ablation(name)
    losses: dict[str, float | None] = {}
    for dataset in (dataset for dataset in ABLATED if dataset != excused):
        means = [table[dataset][value].mean for value in wanted if value in table[dataset]]
        losses[dataset] = 1 - min(means) / max(means) if len(means) == len(wanted) else None
    return losses


def _loss_checks(losses: Mapping[str, float | None], most: float) -> list[Check]:
    return [
        Check(None, f"{name} not run") if loss is None else Check(loss <= most, f"{name} {100 * loss:.1f} %")
        for name, loss in losses.items()
    ]


def bandwidth_loss(results: Results) -> Verdict:
    """Whether no bandwidth loses more than 5 %, without escorts, as in the paper."""
    losses = _losses(results, "bandwidth", _bandwidths(), excused="escorts")
    claim = "No bandwidth from 0.001 to 10 loses more than 5 % of the best AUC, except on escorts"
    verdict = _decided(claim, _loss_checks(losses, BANDWIDTH_LOSS))
    escorts = _losses(results, "bandwidth", _bandwidths())["escorts"]
    return verdict if escorts is None else verdict._replace(why=f"{verdict.why} (escorts {100 * escorts:.1f} %)")


def bandwidth_best(results: Results) -> Verdict:
    """Whether the best of the nine bandwidths is 0.1 or one of its two neighbours."""
    near, table, checks = [f"{value:g}" for value in BANDWIDTHS[3:6]], results.ablation("bandwidth"), []
    for dataset in ABLATED:
        means = {value: table[dataset][value].mean for value in _bandwidths() if value in table[dataset]}
        if len(means) < len(BANDWIDTHS):
            checks.append(Check(None, f"{dataset} not run"))
            continue
        top = max(means, key=means.__getitem__)
        checks.append(Check(top in near, f"{dataset} {top}"))
    return _decided(f"The best bandwidth is near 0.1: one of {', '.join(near)}, of nine on a grid", checks)


def _bandwidths() -> list[str]:
    return [f"{value:g}" for value in BANDWIDTHS]


def normalisation_loss(results: Results) -> Verdict:
    """Whether no normalisation loses more than 6 %."""
    losses = _losses(results, "normalisation", NORMALISATIONS)
    claim = "No normalisation loses more than 6 % of the best AUC"
    return _decided(claim, _loss_checks(losses, NORMALISATION_LOSS))


def normalisation_best(results: Results) -> Verdict:
    """Whether no normalisation is best on most data sets."""
    table, tops = results.ablation("normalisation"), {}
    for dataset in ABLATED:
        means = {value: table[dataset][value].mean for value in NORMALISATIONS if value in table[dataset]}
        if len(means) == len(NORMALISATIONS):
            tops[dataset] = max(means, key=means.__getitem__)
    claim = "Leaving normalisation out is generally best: on more than half of the data sets"
    if len(tops) < len(ABLATED):
        return Verdict(claim, "not run", f"complete on {len(tops)} of {len(ABLATED)} data sets")
    true = list(tops.values()).count("none") > len(tops) / 2
    return _decided(claim, [Check(true, ", ".join(f"{dataset} {top}" for dataset, top in tops.items()))])


# ---- the synthetic network


def kinds_apart(results: Results) -> Verdict:
    """Whether nearest neighbours in the second and third eigenvector identify the six kinds of edges."""
    claim = (
        f"Edge embeddings of the synthetic network keep the six kinds of edges roughly apart: with equally many edges of "
        f"each kind, 15 nearest neighbours identify a share of at least {KINDS_ACCURACY:g} of every kind, three times chance"
    )
    if results.draws.is_empty():
        return _decided(claim, [])
    mean, blind = (fmean(results.draws[name]) for name in ("kinds", "kinds_blind"))
    text = (
        f"{mean:.2f} of the kind identified worst, mean of {len(results.draws)} samples; {blind:.2f} without time decay"
    )
    return _decided(claim, [Check(mean >= KINDS_ACCURACY, text)])


def nodes_separable(results: Results) -> Verdict:
    """Whether a straight line separates U and V in every sample."""
    claim = "A straight line separates U and V in the node embeddings of the synthetic network"
    if results.draws.is_empty():
        return _decided(claim, [])
    separated, total = sum(results.draws["separable"]), len(results.draws)
    return _decided(claim, [Check(separated == total, f"in {separated} of {total} samples")])


def blind_not_separable(results: Results) -> Verdict:
    """Whether without time decay no line separates U and V, or classifies new nodes much better than chance."""
    claim = "Without time decay, node embeddings do not separate U and V"
    if results.draws.is_empty():
        return _decided(claim, [])
    separated, total = sum(results.draws["separable_blind"]), len(results.draws)
    accuracy = fmean(results.draws["nodes_blind"])
    text = f"separated in {separated} of {total} samples; accuracy of a line on new nodes {accuracy:.2f} (chance 0.50)"
    return _decided(claim, [Check(separated == 0 and accuracy < BLIND_ACCURACY, text)])


CLAIMS: tuple[Callable[[Results], Verdict], ...] = (
    datasets_agree,
    *(partial(best, task=task, rivals="paper") for task in TASK_NAMES),
    *(partial(best, task=task, rivals="prior method") for task in TASK_NAMES),
    partial(dense_beats_prior, rivals="paper"),
    partial(dense_beats_prior, rivals="prior method"),
    partial(deep_beat_others, task=INTERPOLATIVE),
    partial(deep_beat_others, task=EXTRAPOLATIVE),
    fastest,
    bandwidth_best,
    bandwidth_loss,
    normalisation_loss,
    normalisation_best,
    kinds_apart,
    nodes_separable,
    blind_not_separable,
)

REFERENCE_CLAIMS: tuple[Callable[[Results], Verdict], ...] = tuple(
    partial(best, task=task, rivals="reference") for task in TASK_NAMES
)
