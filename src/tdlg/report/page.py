"""build_report and write_report: the parts put together, checked at the gate, written whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal

from tdlg import __version__
from tdlg.atomic import new_file, target_of
from tdlg.checks import check_choice, check_count
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.exceptions import EdgesError, TdlgError
from tdlg.judge.holdout import HeldOut, Judged, hold_out, judge, label_codes
from tdlg.report.cautions import cautions, last_labels
from tdlg.report.sections.activity import activity
from tdlg.report.sections.data import reproduce, settings, summary, what_was_read
from tdlg.report.sections.interactions import interactions
from tdlg.report.sections.nodes import nodes
from tdlg.report.sections.quality import quality, score_dots
from tdlg.report.selection import select_edges
from tdlg.report.subject import Subject, make_subject
from tdlg.report.text import as_json, count, escaped, name_of

__all__ = ["build_report", "write_report"]

Evaluate = Literal["auto", "random", "time"]

NAVIGATION = (
    ("interactions", "Interactions"),
    ("nodes", "Nodes"),
    ("quality", "Quality"),
    ("read", "Data"),
    ("activity", "Activity"),
    ("settings", "Settings"),
    ("reproduce", "Reproduce"),
)


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    edges: TemporalEdges | Scored | None = None,
    *,
    y: Any = None,
    title: str | None = None,
    command: str | None = None,
    positive: Any = None,
    label_name: str | None = None,
    ids: Any = None,
    unused: Sequence[str] = (),
    time_unit: str | None = None,
    evaluate: Evaluate | HeldOut | None = "auto",
    seed: int = 0,
) -> Path:
    """Write a report on a model and its edges: one HTML page that opens offline, on a laptop or a phone.

    The page shows which interactions and nodes to look at first, and why; how good the model is on labels hidden from a
    copy of it, next to label rates; the data; activity over time; the settings, and how to reproduce the page.
    With many edges, tables and charts show a part of them and say so, which keeps the page below a few MB.

    Parameters
    ----------
    path
        The file to write. It is replaced only when the page is complete; a device or pipe is written to directly.
    model
        A `PropagationClassifier` or `LineGraphClassifier`. If it is not fitted yet, a copy is fitted on `edges`.
    edges
        The edges to report on, or what `model.scored` returned for them; by default the edges that the model was fitted on.
        Edges without a label are ranked. If every edge has a label, the edges held out to measure the quality are ranked.
    y
        Labels, one per edge; by default those of the edges.
    title
        The title of the page; by default "Which interactions to look at first".
    command
        The shell command that wrote the page, to be shown under "Reproduce this page".
    positive
        The class that probabilities, reasons and figures are about. By default the positive class, see
        `tdlg.explain.positive.positive_class`: of two numbers the larger one, else the rarest class.
    label_name
        The name of the label's column, such as "is_fraud", so that the page says "is_fraud = 1" and not "class 1".
    ids
        An id for each edge, such as the payment's, to be shown next to its row number. The heading is the name of the
        column if it has a name (`frame["payment_id"]`), else "Id".
    unused
        Names of columns of the table that are neither a role nor a feature, to be shown with the data. None by default.
    time_unit
        The unit of times that are numbers counted from 1970 ("s", "ms", "us" or "ns"), to show them as dates. By default
        such times are shown as numbers.
    evaluate
        How labels are held out: "random", "time" (the last labels), "auto" (by time if the model predicts later edges), or
        None to hold out no labels and save the time of a second fit; or what `tdlg.judge.holdout.hold_out` returned.
    seed
        Seed for holding out labels, for sampling, and for models without a `random_state`; 0 by default. The same seed gives
        the same page.

    Returns
    -------
    pathlib.Path
        The file written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import PropagationClassifier, TemporalEdges
    >>> from tdlg.report import write_report
    >>> edges = TemporalEdges(
    ...     ["ann", "bob", "cat", "dan"] * 25, ["good", "bad"] * 50, range(100),
    ...     label=[*["fine", "fraud"] * 49, "fine", None],
    ... )
    >>> path = write_report(pathlib.Path(tempfile.mkdtemp()) / "report.html", PropagationClassifier(), edges)
    >>> path.name, "fraud" in path.read_text(encoding="utf-8")
    ('report.html', True)
    """
    target = target_of(path)
    page = build_report(
        model,
        edges,
        y=y,
        title=title,
        command=command,
        positive=positive,
        label_name=label_name,
        ids=ids,
        unused=unused,
        time_unit=time_unit,
        evaluate=evaluate,
        seed=seed,
    )
    with new_file(target) as file:
        file.write(page.encode())
    return target


def build_report(
    model: Any,
    edges: TemporalEdges | Scored | None = None,
    *,
    y: Any = None,
    title: str | None = None,
    command: str | None = None,
    positive: Any = None,
    label_name: str | None = None,
    ids: Any = None,
    unused: Sequence[str] = (),
    time_unit: str | None = None,
    evaluate: Evaluate | HeldOut | None = "auto",
    seed: int = 0,
) -> str:
    """Make the page that `write_report` writes, as a string; the parameters are the same."""
    _check(evaluate, seed, edges)
    subject = make_subject(model, edges, y, positive, time_unit, int(seed), label_name, ids)
    held, judged, why_not = _judged(subject, evaluate)
    score = subject.scored.values[:, subject.positive]
    selected = select_edges(subject, held)
    last = last_labels(subject.learnt.ticks, label_codes(subject.learnt, subject.classes))
    how = evaluate.how if isinstance(evaluate, HeldOut) else evaluate
    body = [
        interactions(subject, selected),
        nodes(subject, selected),
        quality(subject, judged, selected, why_not),
        what_was_read(subject, unused),
        activity(subject, score, last),
        settings(subject, judged),
        reproduce(subject, command, title=title, label_name=label_name, time_unit=time_unit, evaluate=how),
    ]
    data = {"scores": None if judged is None else score_dots(subject, judged.held)}
    title = "Which interactions to look at first" if title is None else name_of(title, 200)
    head = summary(subject, judged, selected) + cautions(subject, held, selected, last)
    return _page(title, _line(subject), head, body, data)


def _judged(subject: Subject, evaluate: Any) -> tuple[HeldOut | None, Judged | None, str]:
    """The labels held out, how well they were predicted, and the reason where that is not known."""
    if evaluate is None:
        return None, None, "No labels were held out, as requested (evaluate=None)."
    held = None
    try:
        is_done = isinstance(evaluate, HeldOut)
        held = evaluate if is_done else hold_out(subject.model, subject.learnt, evaluate, subject.seed)
        return held, judge(held, subject.positive), ""
    except TdlgError as error:
        return held, None, f"The quality could not be measured: {error}"


def _line(subject: Subject) -> str:
    """What the page is about, in a line."""
    edges = subject.edges
    span = subject.clock.span(edges.ticks.min(), edges.ticks.max())
    when = f"from {span} (UTC)" if subject.clock.unit else f"at times {span}"
    return f"{count(len(edges), 'interaction')} between {count(edges.n_nodes, 'node')}, {when}"


def _page(title: str, line: str, tiles: str, body: list[str], data: dict[str, Any]) -> str:
    """Fill the template. The page allows only its own style and script, known by their digests, and no connection."""
    folder = files("tdlg.report")
    template, style, script = (
        "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
        for names in (("page.html",), ("parts.css", "page.css"), ("charts.js", "page.js"))
    )
    links = "".join(f'<li><a href="#{key}">{word}</a></li>' for key, word in NAVIGATION)
    return Template(template).substitute(
        title=escaped(title),
        line=escaped(line),
        summary=tiles,
        navigation=links,
        body="\n".join(body),
        data=as_json(data),
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
        version=__version__,
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _check(evaluate: Any, seed: Any, edges: Any) -> None:
    if not isinstance(evaluate, HeldOut):
        check_choice("write_report", "evaluate", evaluate, ("auto", "random", "time", None))
    check_count("write_report", "seed", seed, 0)
    edges = edges.edges if isinstance(edges, Scored) else edges
    if isinstance(edges, TemporalEdges) and not len(edges):
        raise EdgesError("There are no edges to report on: give at least one.")
