"""write_page: the paper's figures and ours side by side, as sections of a page in markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from tdlg_paper.budget import in_epochs
from tdlg_paper.claims import REFERENCE_CLAIMS, Verdict, verdicts
from tdlg_paper.figures import draw_figures
from tdlg_paper.machine import QUIET, Session
from tdlg_paper.published import Estimate, notebook_auc, paper_auc, paper_datasets
from tdlg_paper.recipes import (
    ABLATED,
    ABLATION_TRIALS,
    BANDWIDTHS,
    DATASETS,
    DECAYS,
    EDGE,
    EXTRAPOLATIVE,
    INTERPOLATIVE,
    LINEUP,
    NORMALISATIONS,
    RECIPES,
    TRIALS,
    WALK_TRIALS,
    WALKS,
    Entry,
    entries,
)
from tdlg_paper.results import NO_DATA, Results
from tdlg_paper.tables import NOT_RUN, table, write_sections

IMAGES = Path("images") / "reproduction"
OUTCOMES = ("held", "not held", "not run", "undecided")
TOLERANCES = {  # points of AUC that our means may differ from the paper's
    (EDGE, "TDLG"): 1.0,
    (EDGE, "TDLG (Dense)"): 1.5,
    (EDGE, "CTDNE"): 4.0,
    (EDGE, "TIMERS"): 4.0,
    (INTERPOLATIVE, "TDLG"): 1.0,
    (EXTRAPOLATIVE, "TDLG"): 2.5,
}

Lines = list[str]


def write_page(folder: Path, page: Path) -> None:
    """Draw the figures that have rows in a folder, and write all sections into a page."""
    results = Results(folder)
    write_sections(page, sections(results, draw_figures(results, page.parent / IMAGES)))


def sections(results: Results, drawn: dict[str, str]) -> dict[str, Lines]:
    """The sections of the page by name; `drawn` has the file names of the figures by recipe."""

    def with_pictures(lines: Lines, *names: str) -> Lines:
        titles = {name: RECIPES[name].title if name in RECIPES else "Figure of the ablations" for name in names}
        pictures = [f"![{titles[name]}]({(IMAGES / drawn[name]).as_posix()})" for name in names if name in drawn]
        return [*lines, *(line for picture in pictures for line in ("", picture))]

    values = [f"{value:g}" for value in BANDWIDTHS]
    both = [*_varied(results, "bandwidth", values), "", *_varied(results, "normalisation", NORMALISATIONS)]
    links = [*_task(results, EXTRAPOLATIVE), *_apart(results, EXTRAPOLATIVE)]
    return {
        "claims": _claims(results),
        "reference-claims": _verdict_table(verdicts(results, REFERENCE_CLAIMS)),
        "datasets": _datasets(results),
        "edge-classification": with_pictures(
            [*_task(results, EDGE), *_apart(results, EDGE)], "edge-classification-figure"
        ),
        "ctdne": _varied(results, "ctdne", list(WALKS), WALK_TRIALS),
        "interpolative": [*_task(results, INTERPOLATIVE), *_apart(results, INTERPOLATIVE)],
        "extrapolative": with_pictures(links, "link-prediction-figure"),
        "means": with_pictures([], "means"),
        "runtime": with_pictures(_runtime(results), "runtime"),
        "ablations": with_pictures(both, "ablations"),
        "decay": _varied(results, "decay", DECAYS),
        "synthetic": with_pictures(_synthetic(results), "synthetic-network", "synthetic-method"),
        "notebook": _notebook(results),
        "machines": _machines(results.sessions),
    }


def _points(estimate: Estimate | None, trials: int | None = None) -> str:
    """A mean and its interval in per cent; the number of trials and of epochs, if some are missing."""
    if estimate is None:
        return ""
    interval = "" if math.isnan(estimate.half_width) else f" ± {100 * estimate.half_width:.2f}"
    short = f" ({estimate.trials} of {trials} trials)" if trials is not None and estimate.trials < trials else ""
    epochs = "" if estimate.epochs is None else f" ({in_epochs(estimate.epochs)})"
    return f"{100 * estimate.mean:.2f}{interval}{short}{epochs}"


def judged(task: str, method: str, ours: Estimate, paper: Estimate) -> str:
    """The difference in points, and whether it is within the tolerance.

    Examples
    --------
    >>> judged("edge classification", "TDLG", Estimate(0.921, 0.004, 10), Estimate(0.9216, 0.0052, 10))
    '-0.06, within 1.0'
    """
    difference = 100 * (ours.mean - paper.mean)
    tolerance = TOLERANCES.get((task, method))
    far = is_far(task, method, ours, paper)
    if tolerance is None:
        return f"**{difference:+.2f}**" if far else f"{difference:+.2f}"
    if far:
        return f"**{difference:+.2f}, outside {tolerance}**"
    return f"{difference:+.2f}, " + (f"within {tolerance}" if abs(difference) <= tolerance else "intervals overlap")


def is_far(task: str, method: str, ours: Estimate, paper: Estimate) -> bool:
    """Whether two means differ by more than the tolerance, or without one, by more than both intervals."""
    difference, tolerance = 100 * abs(ours.mean - paper.mean), TOLERANCES.get((task, method))
    if tolerance is None:
        widths = [width for width in (ours.half_width, paper.half_width) if not math.isnan(width)]
        return difference > 100 * sum(widths)
    overlap = difference <= 100 * (ours.half_width + paper.half_width)
    return difference > tolerance and not (task == EXTRAPOLATIVE and overlap)


# ---- sections


def _claims(results: Results) -> Lines:
    found = verdicts(results)
    counts = [f"{sum(verdict.outcome == outcome for verdict in found)} {outcome}" for outcome in OUTCOMES]
    return [f"{', '.join(counts)}.", "", *_verdict_table(found)]


def _verdict_table(found: Iterable[Verdict]) -> Lines:
    rows = [(verdict.claim, f"**{verdict.outcome}**", verdict.why) for verdict in found]
    return table(("claim", "outcome", "figures"), rows, left=3)


def _datasets(results: Results) -> Lines:
    rows = []
    for name, printed in paper_datasets().items():
        found = results.datasets.get(name)
        measured = found is not None and results.has_data(name)
        pairs, positive = [f"{count:,}" for count in printed.values()], ""
        status = NO_DATA if found else NOT_RUN
        if found and measured:
            ours = {what: int(found[what]) for what in printed}
            pairs = [f"{pair} / {count:,}" for pair, count in zip(pairs, ours.values(), strict=True)]
            positive = f"{float(found['positive']):.2f}" if found["positive"] else ""
            status = "equal" if ours == printed else "**differs**"
        rows.append((name, *pairs, positive, status))
    head = ("data set", "nodes, paper / ours", "edges, paper / ours", "days, paper / ours", "positive labels, %", "")
    return table(head, rows)


def _task(results: Results, task: str) -> Lines:
    rows = [row for entry in entries(task) for row in _method_rows(results, task, entry)]
    return table(("method", "", *DATASETS), rows, left=2)


def _apart(results: Results, task: str) -> Lines:
    """Which prior methods are higher here than in the paper, and which are lower, by more than is to be expected."""
    found: dict[str, dict[str, list[str]]] = {"Higher": {}, "Lower": {}}
    for entry in (entry for entry in entries(task) if entry.kind == "prior method"):
        for name in DATASETS:
            ours, paper = results.auc(task, entry, name), paper_auc().get((task, entry.name, name))
            if ours and paper and is_far(task, entry.name, ours, paper):
                side = "Higher" if ours.mean > paper.mean else "Lower"
                found[side].setdefault(entry.name, []).append(name)
    texts = []
    for side, of_side in found.items():
        named = ", ".join(f"{method} ({', '.join(names)})" for method, names in of_side.items())
        texts += [f"{side} than in the paper: {named}."] if named else []
    return ["", " ".join(texts)] if texts else []


def _method_rows(results: Results, task: str, entry: Entry) -> list[tuple[str, ...]]:
    """The lines of one method: the paper's, ours, and how they differ."""
    trials = TRIALS["edge" if task == EDGE else "link", "paper"]
    printed = {name: paper_auc().get((task, entry.name, name)) for name in DATASETS}
    ours = {name: results.auc(task, entry, name) for name in DATASETS}
    own = ["NA" if entry.deep and name == "epinions" else _own(results, ours[name], name, trials) for name in DATASETS]
    rows: list[tuple[str, ...]] = []
    if entry.kind in ("TDLG", "prior method"):
        rows.append((entry.name, "paper", *(_points(estimate) or "NA" for estimate in printed.values())))
    rows.append(("" if rows else entry.name, "ours", *own))
    both = {name: (ours[name], printed[name]) for name in DATASETS}
    marks = [judged(task, entry.name, mine, theirs) if mine and theirs else "" for mine, theirs in both.values()]
    return [*rows, ("", "difference", *marks)] if any(marks) else rows


def _own(results: Results, estimate: Estimate | None, dataset: str, trials: int) -> str:
    if estimate is not None:
        return _points(estimate, trials)
    return NOT_RUN if results.has_data(dataset) else NO_DATA


def _runtime(results: Results) -> Lines:
    kept = [entry for entry in LINEUP if any(results.runtime(entry, name) for name in DATASETS)]
    if not kept:
        return [NOT_RUN]
    rows = [(entry.name, *(_seconds(results, entry, name) for name in DATASETS)) for entry in kept]
    return [*_unfair(results), *table(("seconds per trial", *DATASETS), rows)]


def _seconds(results: Results, entry: Entry, dataset: str) -> str:
    found = results.runtime(entry, dataset)
    if found is None:
        return NOT_RUN if results.has_data(dataset) else NO_DATA
    return f"{found.seconds:.2f}" if found.seconds < 10 else f"{found.seconds:.1f}"


def _unfair(results: Results) -> Lines:
    """A warning, unless the last measurement had nearly all cores."""
    sessions = [session for session in results.sessions if session.recipe == "runtime"]
    if sessions and sessions[-1].is_quiet:
        return []
    busy = f"{100 * float(sessions[-1].others):.0f} %" if sessions and sessions[-1].others else "an unknown share"
    return [
        f"**To be measured again:** other processes took {busy} of the cores, more than the {100 * QUIET:.0f} % "
        f"that we accept for fair seconds. On a quiet machine: `python -m tdlg_paper runtime --again`.",
        "",
    ]


def _varied(results: Results, name: str, values: Sequence[str], trials: int = ABLATION_TRIALS) -> Lines:
    """AUC by data set and by the value that a recipe varies; the best in bold."""
    found = results.ablation(name)
    rows = []
    for dataset in dict.fromkeys(run.dataset for run in RECIPES[name].runs("paper")):
        here = [found[dataset].get(value) for value in values]
        top = max((estimate.mean for estimate in here if estimate is not None), default=math.nan)
        cells = [_points(estimate, trials) or NOT_RUN for estimate in here]
        bold = [f"**{cell}**" if one and one.mean == top else cell for cell, one in zip(cells, here, strict=True)]
        rows.append((dataset, *bold))
    return table((name, *values), rows)


def _synthetic(results: Results) -> Lines:
    draws = results.draws
    if draws.is_empty():
        return [NOT_RUN]
    rows = [
        ("six kinds of edges: recall of the worst kind, by 15 nearest neighbours (chance 0.17)", "kinds"),
        ("U and V separated by a straight line, share of samples", "separable"),
        ("U and V, accuracy of a line on held-out nodes (chance 0.50)", "nodes"),
    ]
    cells = [(text, *(f"{fmean(draws[name + suffix]):.2f}" for suffix in ("", "_blind"))) for text, name in rows]
    return table((f"means of {len(draws)} samples", "with time decay", "without"), cells)


def _notebook(results: Results) -> Lines:
    rows = []
    for task in (EDGE, INTERPOLATIVE, EXTRAPOLATIVE):
        ours = {name: results.auc(task, LINEUP[0], name, "notebook") for name in ABLATED}
        if any(ours.values()):
            trials = TRIALS["edge" if task == EDGE else "link", "notebook"]
            rows.append((task, "notebook's", *(f"{100 * notebook_auc()[task, name]:.2f}" for name in ABLATED)))
            rows.append(("", "ours", *(_points(ours[name], trials) or NOT_RUN for name in ABLATED)))
    return table(("task", "", *ABLATED), rows, left=2) if rows else [NOT_RUN]


def _machines(sessions: Sequence[Session]) -> Lines:
    """The machines, and how much of them other processes took."""
    others = [f"{100 * float(one.others):.0f} %" if one.others else "unknown" for one in sessions]
    rows = [(one.recipe, one.started, one.rows, share) for one, share in zip(sessions, others, strict=True)]
    machines = [f"- {machine}" for machine in dict.fromkeys(map(_machine, sessions))]
    return [*machines, "", *table(("recipe", "started (UTC)", "rows", "cores taken by others"), rows, left=2)]


def _machine(session: Session) -> str:
    memory = f", {session.memory_gib} GiB" if session.memory_gib else ""
    threads = "" if session.threads == "all" else f" ({session.threads} for our products)"
    return (
        f"{session.processor}, {session.cores} cores{threads}{memory}, {session.system}; Python {session.python}, "
        f"numpy {session.numpy}, scipy {session.scipy}, scikit-learn {session.sklearn}, numba {session.numba}, "
        f"tdlg {session.tdlg}"
    )
