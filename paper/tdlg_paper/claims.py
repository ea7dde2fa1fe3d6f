"""CLAIMS: what the paper says about its method, decided from the rows; REFERENCE_CLAIMS: the same against our references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import fmean
from typing import Literal, NamedTuple

from tdlg_paper.published import paper_auc, paper_datasets
from tdlg_paper.recipes import (
    ABLATED,
    BANDWIDTHS,
    DATASETS,
    EDGE,
    EXTRAPOLATIVE,
    INTERPOLATIVE,
    LINEUP,
    NORMALISATIONS,
    Entry,
    entries,
)
from tdlg_paper.results import Results

Outcome = Literal["held", "not held", "not run", "undecided"]
Check = tuple[bool | None, str]  # one part of a claim: True, False, or None without rows; and the figures

BANDWIDTH_LOSS = 0.05
NORMALISATION_LOSS = 0.06
KINDS_ACCURACY = 0.5  # three times chance
BLIND_ACCURACY = 0.6  # in classifying nodes of two communities, where chance is one half

TDLG, DENSE = LINEUP[:2]
BY_NAME = {entry.name: entry for entry in LINEUP}
PRIOR = [entry for entry in LINEUP if entry.kind == "prior method"]
TASK_NAMES = {EDGE: "edge classification", INTERPOLATIVE: "link outlier detection", EXTRAPOLATIVE: "link prediction"}
GRID = [f"{value:g}" for value in BANDWIDTHS]


class Verdict(NamedTuple):
    """A claim, its outcome, and the figures behind it."""

    claim: str
    outcome: Outcome
    why: str


def verdicts(results: Results, claims: Iterable[Callable[[Results], Verdict]] | None = None) -> list[Verdict]:
    """Decide every claim."""
    return [claim(results) for claim in (CLAIMS if claims is None else claims)]


def _decided(claim: str, checks: Iterable[Check], none: str = "no rows", more: str = "") -> Verdict:
    """One counterexample refutes a claim; otherwise every part must have been measured."""
    found = list(checks)
    outcomes = {true for true, _ in found}
    outcome: Outcome = "not held" if False in outcomes else "not run" if None in outcomes or not found else "held"
    return Verdict(claim, outcome, ("; ".join(text for _, text in found) or none) + more)


def _if_any(checks: list[Check]) -> list[Check]:
    """The checks, or none if no part could be measured."""
    return checks if any(true is not None for true, _ in checks) else []


def _per_cent(share: float) -> str:
    return f"{100 * share:.2f}"


def _without(results: Results) -> str:
    return "".join(f"; {name} not run: data" for name in DATASETS if not results.has_data(name))


def datasets_agree(results: Results) -> Verdict:
    """Whether the numbers of nodes, edges and days equal those of the paper's table."""
    checks: list[Check] = []
    for name, counts in paper_datasets().items():
        found = results.datasets.get(name)
        if found is None:
            checks.append((None, f"{name} not counted"))
        elif results.has_data(name):
            wrong = [
                f"{what} {found[what]}, not {count}" for what, count in counts.items() if found[what] != str(count)
            ]
            checks.append((not wrong, f"{name}: {', '.join(wrong) or 'all equal'}"))
    return _decided("The table of data sets: nodes, edges and days", checks, more=_without(results))


# ---- AUC


def best(results: Results, task: str, rivals: Literal["paper", "prior method", "reference"]) -> Verdict:
    """Whether TDLG has the highest mean AUC on every data set."""
    against = {
        "paper": "the prior methods, by the paper's figures for them",
        "prior method": "the prior methods, as run here",
        "reference": "our references",
    }[rivals]
    claim = f"TDLG is best on every data set in {TASK_NAMES[task]}, against {against}"
    checks: list[Check] = []
    for name in filter(results.has_data, DATASETS):
        ours, others = results.auc(task, TDLG, name), _rivals(results, task, rivals, name)
        if ours is None or not others:
            checks.append((None, f"{name}: {'TDLG' if ours is None else 'none of these'} not run"))
        else:
            rival = max(others, key=others.__getitem__)
            checks.append((ours.mean > others[rival], _beside(name, ours.mean, rival, others[rival])))
    more = _who(results, task, rivals) + _without(results)
    return _decided(claim, _if_any(checks), "none of these methods was run", more)


def _rivals(results: Results, task: str, kind: str, dataset: str) -> dict[str, float]:
    """Mean AUCs of the methods that TDLG is compared with."""
    if kind == "paper":
        found = {entry.name: paper_auc().get((task, entry.name, dataset)) for entry in PRIOR}
    else:
        found = {entry.name: results.auc(task, entry, dataset) for entry in entries(task) if entry.kind == kind}
    return {name: estimate.mean for name, estimate in found.items() if estimate is not None}


def _who(results: Results, task: str, rivals: str) -> str:
    """Which methods were run, and which were not."""
    if rivals == "paper":
        return ""
    kept = [entry for entry in entries(task) if entry.kind == rivals]
    run = [entry.name for entry in kept if any(results.auc(task, entry, name) for name in DATASETS)]
    missing = [entry.name for entry in kept if entry.name not in run]
    shown = f"; run here: {', '.join(run)}" if run else ""
    return shown + (f"; not run: {', '.join(missing)}" if missing else "")


def _beside(name: str, ours: float, rival: str, theirs: float) -> str:
    return f"{name} {_per_cent(ours)} against {_per_cent(theirs)} ({rival})"


def dense_beats_prior(results: Results, rivals: Literal["paper", "prior method"]) -> Verdict:
    """Whether TDLG (Dense) has a higher mean over data sets than every prior method."""
    against = "by the paper's figures for them" if rivals == "paper" else "as run here"
    claim = f"TDLG (Dense) is better than every prior method on average over data sets, {against}"
    ours = _mean(results, DENSE, EDGE)
    others = {entry.name: _mean(None if rivals == "paper" else results, entry, EDGE) for entry in PRIOR}
    known = {name: mean for name, mean in others.items() if mean is not None}
    who = _who(results, EDGE, rivals)
    if ours is None or not known:
        missing = "TDLG (Dense) not run on all four" if ours is None else "none of these methods was run on all four"
        return Verdict(claim, "not run", missing + who)
    rival = max(known, key=known.__getitem__)
    return _decided(claim, [(ours > known[rival], _beside("mean", ours, rival, known[rival]) + who)])


def deep_beat_others(results: Results, task: str) -> Verdict:
    """Whether EvolveGCN and DynGEM have higher means over data sets than CTDNE and TIMERS."""
    claim = f"EvolveGCN and DynGEM are better than CTDNE and TIMERS on average in {TASK_NAMES[task]}"
    means = {name: _mean(results, BY_NAME[name], task) for name in ("EvolveGCN", "DynGEM", "CTDNE", "TIMERS")}
    known = {name: mean for name, mean in means.items() if mean is not None}
    if len(known) < len(means):
        return Verdict(claim, "not run", f"not run: {', '.join(name for name in means if name not in known)}")
    true = min(known["EvolveGCN"], known["DynGEM"]) > max(known["CTDNE"], known["TIMERS"])
    return _decided(claim, [(true, ", ".join(f"{name} {_per_cent(mean)}" for name, mean in known.items()))])


def _mean(results: Results | None, entry: Entry, task: str) -> float | None:
    """The mean AUC over the four data sets if all were measured, by the rows or, without them, as the paper prints it."""
    if results is None:
        found = [paper_auc().get((task, entry.name, name)) for name in ABLATED]
    else:
        found = [results.auc(task, entry, name) for name in ABLATED]
    known = [estimate.mean for estimate in found if estimate is not None]
    return fmean(known) if len(known) == len(ABLATED) else None


# ---- time


def fastest(results: Results) -> Verdict:
    """Whether TDLG takes less time than every prior method on every data set."""
    checks: list[Check] = []
    for name in filter(results.has_data, DATASETS):
        ours, found = results.runtime(TDLG, name), {entry.name: results.runtime(entry, name) for entry in PRIOR}
        others = {rival: estimate.seconds for rival, estimate in found.items() if estimate is not None}
        if ours is None or not others:
            checks.append((None, f"{name}: {'TDLG was not' if ours is None else 'no prior method was'} timed"))
            continue
        rival = min(others, key=others.__getitem__)
        text = f"{name} {ours.seconds:.1f} s against {others[rival]:.1f} s ({rival})"
        checks.append((ours.seconds < others[rival], text))
    sessions = [session for session in results.sessions if session.recipe == "runtime"]
    busy = bool(sessions) and not sessions[-1].is_quiet
    more = ("; measured beside other work: to be measured again" if busy else "") + _without(results)
    claim = "TDLG is the fastest of the paper's methods on every data set"
    verdict = _decided(claim, _if_any(checks), "no prior method was timed; the paper prints no seconds", more)
    return verdict._replace(outcome="undecided") if busy else verdict


# ---- ablations


def _means(results: Results, name: str, values: Iterable[str]) -> dict[str, dict[str, float] | None]:
    """By data set, the mean AUC of each value that a recipe varies; None if values are missing."""
    wanted, table = list(values), results.ablation(name)
    found = {dataset: {value: table[dataset].get(value) for value in wanted} for dataset in ABLATED}
    return {
        dataset: {value: estimate.mean for value, estimate in of.items() if estimate} if all(of.values()) else None
        for dataset, of in found.items()
    }


def _loss(results: Results, name: str, values: Iterable[str], most: float, claim: str, excused: str = "") -> Verdict:
    """Whether the worst value falls below the best by at most a share of the best."""
    means = _means(results, name, values)
    losses = {dataset: 1 - min(of.values()) / max(of.values()) for dataset, of in means.items() if of}
    more = f" ({excused} {100 * losses[excused]:.1f} %)" if excused in losses else ""
    checks: list[Check] = [
        (losses[one] <= most, f"{one} {100 * losses[one]:.1f} %") if one in losses else (None, f"{one} not run")
        for one in ABLATED
        if one != excused
    ]
    return _decided(claim, checks, more=more)


def bandwidth_loss(results: Results) -> Verdict:
    """Whether no bandwidth loses more than 5 %, without escorts, as in the paper."""
    claim = "No bandwidth from 0.001 to 10 loses more than 5 % of the best AUC, except on escorts"
    return _loss(results, "bandwidth", GRID, BANDWIDTH_LOSS, claim, "escorts")


def bandwidth_best(results: Results) -> Verdict:
    """Whether the best of the nine bandwidths is 0.1 or one of its two neighbours."""
    near, checks = GRID[3:6], []
    for dataset, means in _means(results, "bandwidth", GRID).items():
        top = max(means, key=means.__getitem__) if means else "not run"
        checks.append((top in near if means else None, f"{dataset} {top}"))
    return _decided(f"The best bandwidth is near 0.1: one of {', '.join(near)}, of nine on a grid", checks)


def normalisation_loss(results: Results) -> Verdict:
    """Whether no normalisation loses more than 6 %."""
    claim = "No normalisation loses more than 6 % of the best AUC"
    return _loss(results, "normalisation", NORMALISATIONS, NORMALISATION_LOSS, claim)


def normalisation_best(results: Results) -> Verdict:
    """Whether no normalisation is best on most data sets."""
    means = _means(results, "normalisation", NORMALISATIONS)
    tops = {dataset: max(of, key=of.__getitem__) for dataset, of in means.items() if of}
    claim = "Leaving normalisation out is generally best: on more than half of the data sets"
    if len(tops) < len(ABLATED):
        return Verdict(claim, "not run", f"complete on {len(tops)} of {len(ABLATED)} data sets")
    true = list(tops.values()).count("none") > len(tops) / 2
    return _decided(claim, [(true, ", ".join(f"{dataset} {top}" for dataset, top in tops.items()))])


# ---- the synthetic network


def _of_draws(claim: str, check: Callable[[Mapping[str, list[float]]], Check]) -> Callable[[Results], Verdict]:
    """A claim about the samples of the synthetic network."""

    def decide(results: Results) -> Verdict:
        draws = results.draws.to_dict(as_series=False)
        return _decided(claim, [check(draws)] if draws else [])

    return decide


def _kinds(draws: Mapping[str, list[float]]) -> Check:
    mean, blind, n = fmean(draws["kinds"]), fmean(draws["kinds_blind"]), len(draws["kinds"])
    text = f"{mean:.2f} of the kind identified worst, mean of {n} samples; {blind:.2f} without time decay"
    return mean >= KINDS_ACCURACY, text


def _separable(draws: Mapping[str, list[float]]) -> Check:
    separated, total = sum(draws["separable"]), len(draws["separable"])
    return separated == total, f"in {separated} of {total} samples"


def _blind(draws: Mapping[str, list[float]]) -> Check:
    separated, total, accuracy = sum(draws["separable_blind"]), len(draws["kinds"]), fmean(draws["nodes_blind"])
    text = f"separated in {separated} of {total} samples; accuracy of a line on new nodes {accuracy:.2f} (chance 0.50)"
    return separated == 0 and accuracy < BLIND_ACCURACY, text


kinds_apart = _of_draws(
    "Edge embeddings of the synthetic network keep the six kinds of edges roughly apart: with equally many edges of each "
    f"kind, 15 nearest neighbours identify a share of at least {KINDS_ACCURACY:g} of every kind, three times chance",
    _kinds,
)
nodes_separable = _of_draws(
    "A straight line separates U and V in the node embeddings of the synthetic network", _separable
)
blind_not_separable = _of_draws("Without time decay, node embeddings do not separate U and V", _blind)

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
