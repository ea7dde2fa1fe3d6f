"""The section on quality: figures and curves of held-out edges, beside the reference."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tdlg.report.holdout import Area, HeldOut, Ranking, calibration, mean_areas, rank
from tdlg.report.html import code, group_of, key, legend, paragraph, plate, section, swatch
from tdlg.report.sections.interactions import Asked
from tdlg.report.sections.map import MOST_DOTS
from tdlg.report.subject import Subject
from tdlg.report.svg import Panel, chart, curve, marker, thinned, tipped
from tdlg.report.text import count, escaped, figure, nice_step, percent, share

__all__ = ["Judged", "held_out_in_short", "judge", "quality"]

Floats = NDArray[np.float64]

TOPS = (10, 50, 100, 500, 1000)  # lengths of lists that somebody could go through


class Judged:
    """The held-out edges, ranked by the model and by label rates.

    Parameters
    ----------
    held
        The edges, and what both say of them.
    model, reference
        By the class looked for.
    by_class
        By each class that the copy of the model knows and some, but not all, held-out edges are of: its position, and
        what the model and label rates do.
    """

    def __init__(
        self, held: HeldOut, model: Ranking, reference: Ranking, by_class: dict[int, tuple[Ranking, Ranking]]
    ) -> None:
        self.held, self.model, self.reference, self.by_class = held, model, reference, by_class
        self.n, self.prevalence = len(model.is_it), float(model.is_it.mean())
        most = max(1, self.n // 3)
        self.tops = [k for k in TOPS if k <= most][-3:] or [most]

    @property
    def is_mean(self) -> bool:
        """Whether the headline is a mean over classes: where there are more than two."""
        return self.held.probability.shape[1] > 2

    def titled(self, metric: str) -> str:
        """The name of a headline figure."""
        return f"{metric} (mean of {len(self.by_class)} classes)" if self.is_mean else metric

    def headline(self, which: Literal["model", "reference"]) -> tuple[Area, Area]:
        """Area under the curve and average precision as the command line prints them."""
        ranking = self.model if which == "model" else self.reference
        if not self.is_mean:
            return ranking.auc, ranking.average_precision
        return mean_areas([pair[which == "reference"] for pair in self.by_class.values()])

    @property
    def top(self) -> int:
        """The length of list that the summary speaks of."""
        return 100 if 100 in self.tops else self.tops[-1]


def judge(subject: Subject, held: HeldOut) -> Judged | None:
    """Rank the held-out edges; None where all of them, or none, are of the class looked for."""
    by_class = {}
    labels = subject.classes.tolist()
    for k in range(len(labels)) if len(labels) > 2 else [subject.positive]:
        columns = held.probability[:, k], held.reference[:, k]
        model, reference = (rank(held.truth == k, column, subject.seed) for column in columns)
        if model is not None and reference is not None and labels[k] in held.model.classes_.tolist():
            by_class[k] = model, reference
    if subject.positive not in by_class:
        return None
    return Judged(held, *by_class[subject.positive], by_class)


TITLE = "Quality on held-out labels"


def quality(subject: Subject, judged: Judged | None, asked: Asked, why_not: str) -> str:
    """Figures and curves on held-out edges, beside the reference."""
    if judged is None:
        return section("quality", TITLE, paragraph(escaped(why_not)))
    chance = (
        f"Take one held-out interaction that is {code(subject.wanted)} and one that is not: the model gives the former the "
        f"higher score {percent(judged.model.auc[0])} of the time, label rates alone {percent(judged.reference.auc[0])}."
    )
    return section(
        "quality",
        TITLE,
        paragraph(f"{_how_held_out(subject, judged)} {_what_is_asked(subject, asked)}", "lead"),
        paragraph(f"{chance} {_verdict(judged)}"),
        _metrics(subject, judged),
        _by_class(subject, judged),
        f'<div class="plates three">{_roc(subject, judged)}{_precision_recall(subject, judged)}'
        f"{_calibration(subject, judged)}</div>",
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
            f"Measured on {n_asked} labelled interactions chosen at random, {_held_span(subject, held)}. Their labels were "
            f"hidden from a copy of the model, which learnt from the other {n_train}. It could use labels before and after "
            f"an interaction."
        )
    known = (
        "Each label became known after its interaction was scored, and could be used for later ones."
        if subject.setting == "stream"
        else "No label after that time was shown."
    )
    return (
        f"Measured on the last {n_asked} labelled interactions, {_held_span(subject, held)}. Their labels were hidden from "
        f"a copy of the model, which learnt from the {n_train} before. {known}"
    )


def _held_span(subject: Subject, held: HeldOut) -> str:
    return escaped(subject.clock.span(held.asked.ticks.min(), held.asked.ticks.max()))


def _what_is_asked(subject: Subject, asked: Asked) -> str:
    """Which interactions the predictions of the page are for, to be held against those that were measured."""
    if asked.kind not in ("unlabelled", "new"):
        return "The list below ranks these held-out interactions."
    span = subject.clock.span(asked.edges.ticks.min(), asked.edges.ticks.max())
    return f"The predictions below are for {count(len(asked.edges), 'other interaction')}, {escaped(span)}."


def held_out_in_short(judged: Judged, subject: Subject) -> str:
    """What the headline figures were measured on."""
    how = "the last 30 % of the labels" if judged.held.kind == "time" else "30 % of the labels, at random"
    return f"held out: {how}, {_held_span(subject, judged.held)}"


AUC_NOTE = "1 is a perfect order, 0.5 is chance"
PRECISION_NOTE = "area under the precision-recall curve"


def _chance(judged: Judged) -> float:
    """Average precision of scores that say nothing."""
    if not judged.is_mean:
        return judged.prevalence
    return float(np.mean([ranking.is_it.mean() for ranking, _ in judged.by_class.values()]))


def _metrics(subject: Subject, judged: Judged) -> str:
    ours, theirs = judged.headline("model"), judged.headline("reference")
    rows = [
        (judged.titled("AUC"), AUC_NOTE, *_areas(ours[0], theirs[0]), "0.500"),
        (judged.titled("Average precision"), PRECISION_NOTE, *_areas(ours[1], theirs[1]), figure(_chance(judged))),
    ]
    of = f" for {escaped(subject.wanted)}" if judged.is_mean else ""
    if judged.is_mean:
        precisions = _areas(judged.model.average_precision, judged.reference.average_precision)
        rows += [
            (f"AUC{of}", "against the rest", *_areas(judged.model.auc, judged.reference.auc), "0.500"),
            (f"Average precision{of}", "against the rest", *precisions, figure(judged.prevalence)),
        ]
    for k in judged.tops:
        chance = judged.prevalence, k / judged.n
        cells = [
            f"{percent(p)} <small>({percent(r)})</small>"
            for p, r in (judged.model.at(k), judged.reference.at(k), chance)
        ]
        rows.append((f"Precision in the top {k:,}{of}", "in brackets: recall", *cells))
    body = "".join(
        f'<tr><th scope="row">{name}{f"<small>{note}</small>" if note else ""}</th><td class="figure ours">{ours}</td>'
        f'<td class="figure">{theirs}</td><td class="figure muted">{chance}</td></tr>'
        for name, note, ours, theirs, chance in rows
    )
    return (
        '<table class="metrics"><thead><tr><td></td><th scope="col">This model</th><th scope="col">Label rates</th>'
        f'<th scope="col">Chance</th></tr></thead><tbody>{body}</tbody></table>'
        '<p class="note">Label rates: how often each node’s interactions had each label, given to boosted trees without '
        "times. Precision: the share of the top that is "
        f"{escaped(subject.wanted)}; recall: the share of all such interactions that is in the top. Small figures after the "
        "areas: 95 % bootstrap intervals over the held-out interactions.</p>"
    )


def _areas(*areas: tuple[float, float, float]) -> list[str]:
    return [f"{figure(value)} <small>{figure(low)}–{figure(high)}</small>" for value, low, high in areas]


def _by_class(subject: Subject, judged: Judged) -> str:
    if len(subject.classes) < 3:
        return ""
    held, rows = judged.held, []
    for k, name in enumerate(subject.names[:40]):
        pair = judged.by_class.get(k)
        cells = ["–", "–"] if pair is None else [figure(found.auc[0]) for found in pair]
        rows.append(
            f'<tr><th scope="row">{swatch(group_of(subject, k))}{escaped(name)}</th>'
            f'<td class="figure">{int((held.truth == k).sum()):,}</td>'
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


def _of_class(subject: Subject, judged: Judged) -> str:
    """What a title adds where there are several classes and the chart is about one."""
    return f", {escaped(subject.wanted)}" if judged.is_mean else ""


def _roc(subject: Subject, judged: Judged) -> str:
    panel = Panel()
    panel.axes(UNIT_TICKS, UNIT_TICKS, "false positive rate", "recall (true positive rate)")
    curve(panel, np.array([0.0, 1.0]), np.array([0.0, 1.0]), "chance")
    curve(panel, *thinned(judged.reference.roc.x, judged.reference.roc.y), "theirs")
    curve(panel, *thinned(judged.model.roc.x, judged.model.roc.y), "ours")
    said = f"ROC curve: area {figure(judged.model.auc[0])}, label rates {figure(judged.reference.auc[0])}"
    title = f"ROC curve{_of_class(subject, judged)}"
    return plate(title, chart(panel, said), "Higher is better; the dotted line is chance.", LINES)


def _precision_recall(subject: Subject, judged: Judged) -> str:
    panel = Panel()
    panel.axes(UNIT_TICKS, UNIT_TICKS, "recall", "precision")
    curve(panel, np.array([0.0, 1.0]), np.full(2, judged.prevalence), "chance")
    curve(panel, *_precision(judged.reference), "theirs")
    curve(panel, *_precision(judged.model), "ours")
    said = f"Precision-recall curve: average precision {figure(judged.model.average_precision[0])}"
    note = "From the highest score down. Higher is better; the dotted line is chance."
    return plate(f"Precision and recall{_of_class(subject, judged)}", chart(panel, said), note, LINES)


def _precision(ranking: Ranking) -> tuple[Floats, Floats]:
    """The curve at places evenly spread over recall, its first among them."""
    x, y = ranking.precision_recall.x, ranking.precision_recall.y
    if len(x) <= 250:
        return x, y
    keep = np.unique(np.searchsorted(x, np.linspace(0, 1, 200)).clip(0, len(x) - 1))
    return x[keep], y[keep]


def _calibration(subject: Subject, judged: Judged) -> str:
    parts = calibration(judged.model.is_it, judged.model.scores)
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
        "Each dot is a tenth of the held-out interactions, with its 95 % interval. On the dotted line, predicted "
        "probabilities agree with observed shares. Hover, touch, or use the arrow keys."
    )
    sign = f'<svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">{marker("circle", 7, 7, 3.8, "dot ours")}</svg>'
    title = f"Calibration{_of_class(subject, judged)}"
    return plate(title, chart(panel, "Calibration"), note, key([(sign, "this model")]))


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
    return plate("Score against time", body, note, legend(subject, unknown=False))
