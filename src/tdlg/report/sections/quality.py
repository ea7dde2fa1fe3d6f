"""The section on quality: figures and curves of held-out edges, beside references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.judge.holdout import HeldOut, Judged
from tdlg.judge.metrics import Ranking, calibration
from tdlg.report.html import code, group_of, key, legend, paragraph, plate, section, swatch
from tdlg.report.selection import Selected
from tdlg.report.subject import Subject
from tdlg.report.svg import Panel, chart, curve, marker, thinned, tipped
from tdlg.report.text import count, escaped, figure, name_of, nice_step, percent, rounded, share

__all__ = ["held_out_in_short", "quality", "score_dots"]

Floats = NDArray[np.float64]

TITLE = "Quality on held-out labels"
MOST_DOTS = 1000  # in the chart of scores against time


def quality(subject: Subject, judged: Judged | None, selected: Selected, why_not: str) -> str:
    """Figures and curves on held-out edges, beside references."""
    if judged is None:
        return section("quality", TITLE, paragraph(escaped(why_not)))
    chance = (
        f"Take one held-out interaction that is {code(subject.wanted)} and one that is not: the model gives the former the "
        f"higher score {percent(judged.model.auc[0])} of the time, "
        + " and ".join(f"{name} alone {percent(ranking.auc[0])}" for name, ranking in judged.references.items())
        + "."
    )
    return section(
        "quality",
        TITLE,
        paragraph(f"{_how_held_out(subject, judged)} {_predicted(subject, selected)}", "lead"),
        paragraph(f"{chance} {_verdict(judged)}"),
        _metrics(subject, judged),
        _by_class(subject, judged),
        f'<div class="plates three">{_roc(subject, judged)}{_precision_recall(subject, judged)}'
        f"{_calibration(subject, judged)}</div>",
        _calibration_table(judged),
        _score_against_time(subject, judged),
    )


def _verdict(judged: Judged) -> str:
    """Whether the model is worth more than the best reference: both are judged on the same samples of the bootstrap."""
    name, best = max(judged.references.items(), key=lambda item: item[1].auc[0])
    low, high = np.nanquantile(judged.model.resampled[:, 0] - best.resampled[:, 0], [0.025, 0.975])
    if high < 0:
        return f"<b>Here {name} are the better choice.</b>"
    return "" if low > 0 else f"The difference from {name} is within chance."


def _how_held_out(subject: Subject, judged: Judged) -> str:
    held = judged.held
    n_held, n_train = f"{judged.n:,}", f"{held.n_train:,}"
    if held.how == "random":
        return (
            f"Measured on {n_held} labelled interactions chosen at random, {_held_span(subject, held)}. Their labels were "
            f"hidden from a copy of the model, which learnt from the other {n_train}. It could use labels before and after "
            f"an interaction."
        )
    known = (
        "Each label became known after its interaction was scored, and could be used for later ones."
        if subject.setting == "stream"
        else "No label after that time was shown."
    )
    return (
        f"Measured on the last {n_held} labelled interactions, {_held_span(subject, held)}. Their labels were hidden from "
        f"a copy of the model, which learnt from the {n_train} before. {known}"
    )


def _held_span(subject: Subject, held: HeldOut) -> str:
    return escaped(subject.clock.span(held.edges.ticks.min(), held.edges.ticks.max()))


def _predicted(subject: Subject, selected: Selected) -> str:
    """Which interactions the predictions of the page are for, to be held against those that were measured."""
    if not selected.is_to_predict:
        return "The list above ranks these held-out interactions."
    span = subject.clock.span(selected.edges.ticks.min(), selected.edges.ticks.max())
    return f"The predictions above are for {count(len(selected.edges), 'other interaction')}, {escaped(span)}."


def held_out_in_short(judged: Judged, subject: Subject) -> str:
    """What the headline figures were measured on."""
    how = "the last 30 % of the labels" if judged.held.how == "time" else "30 % of the labels, at random"
    return f"held out: {how}, {_held_span(subject, judged.held)}"


AUC_NOTE = "1 is a perfect order, 0.5 is chance"
PRECISION_NOTE = "area under the precision-recall curve"


def _metrics(subject: Subject, judged: Judged) -> str:
    rankings, (auc, precision) = judged.by_class[judged.positive], zip(*judged.headline.values(), strict=True)
    rows = [
        (judged.titled("AUC"), AUC_NOTE, *_areas(*auc), "0.500"),
        (judged.titled("Average precision"), PRECISION_NOTE, *_areas(*precision), figure(judged.chance)),
    ]
    of = f" for {escaped(subject.wanted)}" if judged.is_mean else ""
    if judged.is_mean:
        precisions = _areas(*(ranking.average_precision for ranking in rankings.values()))
        rows += [
            (f"AUC{of}", "against the rest", *_areas(*(ranking.auc for ranking in rankings.values())), "0.500"),
            (f"Average precision{of}", "against the rest", *precisions, figure(judged.prevalence)),
        ]
    for k in judged.tops:
        chance = judged.prevalence, k / judged.n
        cells = [
            f"{percent(p)} <small>({percent(r)})</small>"
            for p, r in (*(ranking.at(k) for ranking in rankings.values()), chance)
        ]
        rows.append((f"Precision in the top {k:,}{of}", "in brackets: recall", *cells))
    body = "".join(
        f'<tr><th scope="row">{name}{f"<small>{note}</small>" if note else ""}</th><td class="figure ours">{ours}</td>'
        + "".join(f'<td class="figure">{value}</td>' for value in theirs)
        + f'<td class="figure muted">{chance}</td></tr>'
        for name, note, ours, *theirs, chance in rows
    )
    return (
        f'<table class="metrics"><thead><tr><td></td><th scope="col">This model</th>{_heads(rankings)}'
        f'<th scope="col">Chance</th></tr></thead><tbody>{body}</tbody></table>'
        '<p class="note">Label rates: how often each node’s interactions had each label, given to boosted trees without '
        f"times. {WINDOWS_NOTE if 'windows' in rankings else ''}Precision: the share of the top that is "
        f"{escaped(subject.wanted)}; recall: the share of all such interactions that is in the top. Small figures after the "
        "areas: 95 % bootstrap intervals over the held-out interactions.</p>"
    )


WINDOWS_NOTE = (
    "Windows: the same boosted trees on counts, means of the features and label rates of both ends in three windows of "
    "time. "
)


def _heads(rankings: dict[str, Ranking]) -> str:
    """The heads of the columns of references."""
    return "".join(f'<th scope="col">{name.capitalize()}</th>' for name in rankings if name != "model")


def _areas(*areas: tuple[float, float, float]) -> list[str]:
    return [f"{figure(value)} <small>{figure(low)}–{figure(high)}</small>" for value, low, high in areas]


def _by_class(subject: Subject, judged: Judged) -> str:
    if len(subject.classes) < 3:
        return ""
    held, rows, names = judged.held, [], judged.by_class[judged.positive]
    for k, of_class in enumerate(subject.names[:40]):
        found = judged.by_class.get(k)
        ours, *theirs = ["–"] * len(names) if found is None else [figure(found[name].auc[0]) for name in names]
        rows.append(
            f'<tr><th scope="row">{swatch(group_of(subject, k))}{escaped(of_class)}</th>'
            f'<td class="figure">{int((held.truth == k).sum()):,}</td><td class="figure ours">{ours}</td>'
            + "".join(f'<td class="figure">{value}</td>' for value in theirs)
            + "</tr>"
        )
    return (
        '<details><summary>AUC of each class against the rest</summary><table class="metrics"><thead><tr>'
        '<th scope="col">Class</th><th scope="col">Held out</th><th scope="col">This model</th>'
        f"{_heads(names)}</tr></thead><tbody>{''.join(rows)}</tbody></table></details>"
    )


UNIT_TICKS = [(value, f"{value:g}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)]


def _stroke(css: str) -> str:
    return f'<svg class="stroke" viewBox="0 0 22 6" aria-hidden="true"><path class="line {css}" d="M0 3H22"/></svg>'


STROKES = {"model": "ours", "label rates": "theirs", "windows": "windows"}


def _lines(judged: Judged) -> str:
    """The key of the curves."""
    names = judged.by_class[judged.positive]
    return key([(_stroke(STROKES[name]), "this model" if name == "model" else name) for name in names])


def _curves(panel: Panel, judged: Judged, points: Callable[[Ranking], tuple[Floats, Floats]]) -> None:
    """Draw a curve of each ranking, that of the model last and so on top."""
    for name, ranking in reversed(judged.by_class[judged.positive].items()):
        curve(panel, *points(ranking), STROKES[name])


def _of_class(subject: Subject, judged: Judged) -> str:
    """What a title adds where there are several classes and the chart is about one."""
    return f", {escaped(subject.wanted)}" if judged.is_mean else ""


def _roc(subject: Subject, judged: Judged) -> str:
    panel = Panel()
    panel.axes(UNIT_TICKS, UNIT_TICKS, "false positive rate", "recall (true positive rate)")
    curve(panel, np.array([0.0, 1.0]), np.array([0.0, 1.0]), "chance")
    _curves(panel, judged, lambda ranking: thinned(ranking.roc.x, ranking.roc.y))
    others = ", ".join(f"{name} {figure(ranking.auc[0])}" for name, ranking in judged.references.items())
    said = f"ROC curve: area {figure(judged.model.auc[0])}, {others}"
    title = f"ROC curve{_of_class(subject, judged)}"
    return plate(title, chart(panel, said), "Higher is better; the dotted line is chance.", _lines(judged))


def _precision_recall(subject: Subject, judged: Judged) -> str:
    panel = Panel()
    panel.axes(UNIT_TICKS, UNIT_TICKS, "recall", "precision")
    curve(panel, np.array([0.0, 1.0]), np.full(2, judged.prevalence), "chance")
    _curves(panel, judged, _precision)
    said = f"Precision-recall curve: average precision {figure(judged.model.average_precision[0])}"
    note = "From the highest score down. Higher is better; the dotted line is chance."
    return plate(f"Precision and recall{_of_class(subject, judged)}", chart(panel, said), note, _lines(judged))


def _precision(ranking: Ranking) -> tuple[Floats, Floats]:
    """The curve at places evenly spread over recall, its first among them."""
    x, y = ranking.precision_recall.x, ranking.precision_recall.y
    if len(x) <= 250:
        return x, y
    keep = np.unique(np.searchsorted(x, np.linspace(0, 1, 200)).clip(0, len(x) - 1))
    return x[keep], y[keep]


def _calibration(subject: Subject, judged: Judged) -> str:
    parts = calibration(judged.model.is_positive, judged.model.scores)
    most = max(max(mean, high) for mean, _, _, high, _ in parts)
    step = nice_step(max(most, 0.02), 4)
    end = min(1.0, step * float(np.ceil(most / step)))
    ticks = [
        (value, f"{value:g}") for value in np.arange(0, end + step / 2, step).round(6).tolist() if value <= end + 1e-9
    ]
    panel = Panel(x=(0, end), y=(0, end))
    panel.axes(ticks, ticks, "predicted probability", "observed share")
    curve(panel, np.array([0.0, end]), np.array([0.0, end]), "chance")
    curve(panel, np.array([part[0] for part in parts]), np.array([part[1] for part in parts]), "ours thin")
    for mean, rate, low, high, n in parts:
        x, y = panel.at_x(mean), panel.at_y(rate)
        whisker = f'x1="{x:.1f}" x2="{x:.1f}" y1="{panel.at_y(low):.1f}" y2="{panel.at_y(high):.1f}"'
        tip = f"{n:,} interactions: probability {share(mean)} on average, {share(rate)} observed"
        panel.parts.append(f'<line class="whisker" {whisker}/>')
        panel.parts.append(tipped(tip, marker("circle", x, y, 4.2, "dot ours"), x, y))
    note = (
        "Each dot is a group of held-out interactions with similar probabilities, with its 95 % interval; the groups are "
        "about equally informative. On the dotted line, predicted probabilities agree with observed shares. Hover, touch, "
        "or use the arrow keys."
    )
    sign = f'<svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">{marker("circle", 7, 7, 3.8, "dot ours")}</svg>'
    title = f"Calibration{_of_class(subject, judged)}"
    return plate(title, chart(panel, "Calibration"), note, key([(sign, "this model")]))


def _calibration_table(judged: Judged) -> str:
    """The dots of the calibration as rows, the highest probabilities first."""
    rows = "".join(
        f'<tr><th scope="row">{escaped(share(mean))}</th><td class="figure ours">{escaped(share(rate))} '
        f'<small>{escaped(share(low))}–{escaped(share(high))}</small></td><td class="figure">{n:,}</td>'
        f'<td class="figure">{round(rate * n):,}</td></tr>'
        for mean, rate, low, high, n in reversed(calibration(judged.model.is_positive, judged.model.scores))
    )
    heads = ("Mean predicted probability", "Observed share", "Interactions", "Positive")
    above = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        '<details id="calibration-table"><summary>Calibration as a table</summary><table class="metrics"><thead><tr>'
        f"{above}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _zone(subject: Subject) -> str:
    return f" ({subject.clock.zone.strip()})" if subject.clock.zone else ""


def _score_against_time(subject: Subject, judged: Judged) -> str:
    drawn = "" if judged.n <= MOST_DOTS else f" {MOST_DOTS:,} of {judged.n:,} are shown, sampled at random."
    body = '<div class="scatter wide" data-scatter="scores"><canvas tabindex="0" role="img"></canvas></div>'
    note = (
        f"Each held-out interaction by its time{escaped(_zone(subject))} and its predicted probability of "
        f"{escaped(subject.wanted)}. Good scores keep the classes apart at all times.{drawn} Hover, touch, or use the "
        "arrow keys."
    )
    return plate("Score against time", body, note, legend(subject))


def score_dots(subject: Subject, held: HeldOut) -> dict[str, Any]:
    """What the script draws: dots of held-out edges by time and score, a random sample of them if there are many."""
    n = len(held.edges)
    rng = np.random.default_rng(subject.seed)
    at = np.sort(rng.choice(n, MOST_DOTS, replace=False)) if n > MOST_DOTS else np.arange(n)
    edges, score, truth = held.edges[at], held.probability[at, subject.positive], held.truth[at].tolist()
    first, last = float(held.edges.ticks.min()), float(held.edges.ticks.max())
    width = (last - first) or 1.0
    return {
        "group": [group_of(subject, k) for k in truth],
        "score": rounded(score, 3),
        "said": [share(value) for value in score.tolist()],
        "src": [name_of(value) for value in edges.src],
        "dst": [name_of(value) for value in edges.dst],
        "when": subject.clock.texts(edges.ticks),
        "label": [subject.names[k] for k in truth],
        "n": len(edges),
        "x": rounded((edges.ticks.astype(np.float64) - first) / width, 5),
        "y": rounded(score),
        "range": [[-0.01, 1.01], [-0.02, 1.02]],
        "xTicks": [[(value - first) / width, text] for value, text in subject.clock.axis(first, last, 6)],
        "yTicks": [[value, f"{value:g}"] for value in (0.0, 0.25, 0.5, 0.75, 1.0)],
    }
