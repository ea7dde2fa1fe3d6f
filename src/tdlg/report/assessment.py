"""The section on quality: figures and curves of held-out edges, beside the reference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tdlg.report.drawing import Panel, chart, curve, marker, thinned, tipped
from tdlg.report.parts import code, group_of, key, legend, paragraph, plate, section, swatch
from tdlg.report.quality import HeldOut, Ranking, calibration, rank
from tdlg.report.scatter import MOST_DOTS
from tdlg.report.subject import Subject
from tdlg.report.words import escaped, figure, nice_step, percent, share

__all__ = ["Judged", "judge", "quality"]

Floats = NDArray[np.float64]

TOPS = (10, 50, 100, 500, 1000)  # lengths of lists that somebody could go through


class Judged:
    """The held-out edges, ranked by the model and by label rates for the class looked for."""

    def __init__(self, held: HeldOut, model: Ranking, reference: Ranking) -> None:
        self.held, self.model, self.reference = held, model, reference
        self.n, self.prevalence = len(model.is_it), float(model.is_it.mean())
        most = max(1, self.n // 3)
        self.tops = [k for k in TOPS if k <= most][-3:] or [most]

    @property
    def top(self) -> int:
        """The length of list that the summary speaks of."""
        return 100 if 100 in self.tops else self.tops[-1]


def judge(subject: Subject, held: HeldOut) -> Judged | None:
    """Rank the held-out edges; None where all of them, or none, are of the class looked for."""
    is_it = held.truth == subject.positive
    columns = held.probability[:, subject.positive], held.reference[:, subject.positive]
    model, reference = (rank(is_it, column, subject.seed) for column in columns)
    return None if model is None or reference is None else Judged(held, model, reference)


def quality(subject: Subject, judged: Judged | None, why_not: str) -> str:
    """Figures and curves on held-out edges, beside the reference."""
    if judged is None:
        return section("quality", "How good it is", paragraph(escaped(why_not)))
    chance = (
        f"Take one held-out interaction that is {code(subject.wanted)} and one that is not: the model gives the former the "
        f"higher score {percent(judged.model.auc[0])} of the time, label rates alone {percent(judged.reference.auc[0])}."
    )
    return section(
        "quality",
        "How good it is",
        paragraph(_how_held_out(subject, judged), "lead"),
        paragraph(f"{chance} {_verdict(judged)}"),
        _metrics(subject, judged),
        _by_class(subject, judged),
        f'<div class="plates three">{_roc(judged)}{_precision_recall(judged)}{_calibration(judged)}</div>',
        _score_against_time(subject, judged),
    )


def _verdict(judged: Judged) -> str:
    """Whether the model is worth more than the reference, as far as the held-out edges can tell."""
    (_, low, high), (reference, _, _) = judged.model.auc, judged.reference.auc
    if reference > high:
        return "<b>Here label rates are the better choice.</b>"
    return "" if reference < low else "The difference is within chance."


def _how_held_out(subject: Subject, judged: Judged) -> str:
    held = judged.held
    n_asked, n_train = f"{judged.n:,}", f"{held.n_train:,}"
    if held.kind == "random":
        return (
            f"The labels of {n_asked} interactions, drawn at random, were hidden; a copy of the model learnt from the other "
            f"{n_train} and was asked for them. It could use labels before and after an interaction."
        )
    known = (
        "Each label became known after its interaction was scored, and could be used for later ones."
        if subject.setting == "stream"
        else "No label after that time was shown."
    )
    return (
        f"The labels of the last {n_asked} labelled interactions, from {escaped(subject.clock.short(held.cut))} on, were "
        f"hidden; a copy of the model learnt from the {n_train} before and was asked for them. {known}"
    )


def _metrics(subject: Subject, judged: Judged) -> str:
    rows = [
        ("AUC", "1 is perfect order, 0.5 is chance", *_areas(judged.model.auc, judged.reference.auc), "0.500"),
        (
            "Average precision",
            "area under the precision-recall curve",
            *_areas(judged.model.average_precision, judged.reference.average_precision),
            figure(judged.prevalence),
        ),
    ]
    for k in judged.tops:
        chance = judged.prevalence, k / judged.n
        cells = [
            f"{percent(p)} <small>({percent(r)})</small>"
            for p, r in (judged.model.at(k), judged.reference.at(k), chance)
        ]
        rows.append((f"Right in the top {k:,}", "", *cells))
    body = "".join(
        f'<tr><th scope="row">{name}{f"<small>{note}</small>" if note else ""}</th><td class="figure ours">{ours}</td>'
        f'<td class="figure">{theirs}</td><td class="figure muted">{chance}</td></tr>'
        for name, note, ours, theirs, chance in rows
    )
    return (
        '<table class="metrics"><thead><tr><td></td><th scope="col">This model</th><th scope="col">Label rates</th>'
        f'<th scope="col">Chance</th></tr></thead><tbody>{body}</tbody></table>'
        '<p class="note">Label rates: how often each node’s interactions had each label, given to boosted trees; blind to '
        "time. Right in the top: the share that is "
        f"{escaped(subject.wanted)} (precision); in brackets, the share of all such that is found. Small figures behind the "
        "areas: 95 % intervals by the bootstrap over the held-out interactions.</p>"
    )


def _areas(*areas: tuple[float, float, float]) -> list[str]:
    return [f"{figure(value)} <small>{figure(low)}–{figure(high)}</small>" for value, low, high in areas]


def _by_class(subject: Subject, judged: Judged) -> str:
    if len(subject.classes) < 3:
        return ""
    held, rows = judged.held, []
    for k, name in enumerate(subject.names[:40]):
        is_it = held.truth == k
        rankings = [rank(is_it, column[:, k], subject.seed) for column in (held.probability, held.reference)]
        cells = [figure(found.auc[0]) if found is not None else "–" for found in rankings]
        rows.append(
            f'<tr><th scope="row">{swatch(group_of(subject, k))}{escaped(name)}</th>'
            f'<td class="figure">{int(is_it.sum()):,}</td>'
            f'<td class="figure ours">{cells[0]}</td><td class="figure">{cells[1]}</td></tr>'
        )
    return (
        '<details><summary>AUC of each class against the rest</summary><table class="metrics"><thead><tr>'
        '<th scope="col">Class</th><th scope="col">Held out</th><th scope="col">This model</th>'
        f'<th scope="col">Label rates</th></tr></thead><tbody>{"".join(rows)}</tbody></table></details>'
    )


UNIT_TICKS = [(value, f"{value:g}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)]


def _stroke(kind: str) -> str:
    return f'<svg class="stroke" viewBox="0 0 22 6" aria-hidden="true"><path class="line {kind}" d="M0 3H22"/></svg>'


LINES = key([(_stroke("ours"), "this model"), (_stroke("theirs"), "label rates")])


def _roc(judged: Judged) -> str:
    panel = Panel()
    panel.axes(UNIT_TICKS, UNIT_TICKS, "false alarms, share of the rest", "found, share")
    curve(panel, np.array([0.0, 1.0]), np.array([0.0, 1.0]), "chance")
    curve(panel, *thinned(judged.reference.roc.x, judged.reference.roc.y), "theirs")
    curve(panel, *thinned(judged.model.roc.x, judged.model.roc.y), "ours")
    said = f"ROC curve: area {figure(judged.model.auc[0])}, label rates {figure(judged.reference.auc[0])}"
    return plate("Found against false alarms", chart(panel, said), "ROC. Higher is better; dotted is chance.", LINES)


def _precision_recall(judged: Judged) -> str:
    panel = Panel()
    panel.axes(UNIT_TICKS, UNIT_TICKS, "found, share", "right among those named, share")
    curve(panel, np.array([0.0, 1.0]), np.full(2, judged.prevalence), "chance")
    curve(panel, *_precision(judged.reference), "theirs")
    curve(panel, *_precision(judged.model), "ours")
    said = f"Precision-recall curve: average precision {figure(judged.model.average_precision[0])}"
    note = "Precision and recall down the list. Higher is better; dotted is chance."
    return plate("Right against found", chart(panel, said), note, LINES)


def _precision(ranking: Ranking) -> tuple[Floats, Floats]:
    """The curve at places evenly spread over recall, its first among them."""
    x, y = ranking.precision_recall.x, ranking.precision_recall.y
    if len(x) <= 250:
        return x, y
    keep = np.unique(np.searchsorted(x, np.linspace(0, 1, 200)).clip(0, len(x) - 1))
    return x[keep], y[keep]


def _calibration(judged: Judged) -> str:
    parts = calibration(judged.model.is_it, judged.model.scores)
    most = max(max(mean, high) for mean, _, _, high, _ in parts)
    step = nice_step(max(most, 0.02), 4)
    end = min(1.0, step * float(np.ceil(most / step)))
    ticks = [
        (value, f"{value:g}") for value in np.arange(0, end + step / 2, step).round(6).tolist() if value <= end + 1e-9
    ]
    panel = Panel(x=(0, end), y=(0, end))
    panel.axes(ticks, ticks, "probability given", "share observed")
    curve(panel, np.array([0.0, end]), np.array([0.0, end]), "chance")
    curve(panel, np.array([part[0] for part in parts]), np.array([part[1] for part in parts]), "ours thin")
    for mean, rate, low, high, n in parts:
        x, y = panel.at_x(mean), panel.at_y(rate)
        whisker = f'x1="{x:.1f}" x2="{x:.1f}" y1="{panel.at_y(low):.1f}" y2="{panel.at_y(high):.1f}"'
        tip = f"{n:,} interactions: probability {share(mean)} on average, {share(rate)} observed"
        panel.parts.append(f'<line class="whisker" {whisker}/>')
        panel.parts.append(tipped(tip, marker("circle", x, y, 4.2, "dot ours"), x, y))
    note = (
        "Calibration. Each dot is a tenth of the held-out interactions, with its 95 % interval. On the dotted line, "
        "probabilities are right. Hover, touch, or use the arrow keys."
    )
    sign = f'<svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">{marker("circle", 7, 7, 3.8, "dot ours")}</svg>'
    return plate("Probabilities", chart(panel, "Calibration"), note, key([(sign, "this model")]))


def _score_against_time(subject: Subject, judged: Judged) -> str:
    drawn = "" if judged.n <= MOST_DOTS else f" {MOST_DOTS:,} of {judged.n:,} are drawn, at random."
    body = '<div class="scatter wide" data-scatter="scores"><canvas tabindex="0" role="img"></canvas></div>'
    note = (
        f"Each held-out interaction by its time and the probability of {escaped(subject.wanted)} given to it. Good scores "
        f"keep the classes apart all the way.{drawn} Hover, touch, or use the arrow keys."
    )
    return plate("Score against time", body, note, legend(subject, unknown=False))
