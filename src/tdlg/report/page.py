"""`write_report`: a page about a model and its edges, or what the page says as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from tdlg import __version__
from tdlg.atomic import new_file, target_of
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.judge.holdout import HeldOut
from tdlg.report import charts
from tdlg.report.model import page_model
from tdlg.report.text import as_json, figure, in_words, name_of, percent, share
from tdlg.tables.text import count

if TYPE_CHECKING:
    import polars as pl

Evaluate = Literal["auto", "random", "time"]
CURVE_METRICS = ("auc", "average_precision", "alert_precision")

NAVIGATION = (
    ("interactions", "Interactions"),
    ("nodes", "Nodes"),
    ("quality", "Quality"),
    ("slices", "Slices"),
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
    """Write a report on a model and its edges: one HTML page that opens offline, on a laptop or a phone; or JSON.

    The page shows which interactions and nodes to look at first, and why; how good the model is on labels hidden from a
    copy of it, next to label rates and plain windows; the data; activity over time; the settings, and how to reproduce the
    page. With many edges, tables and charts show a part of them and say so, which keeps the page below a few MB.

    Parameters
    ----------
    path
        The file to write. If its name ends in ".json", it gets all that the page says as JSON: the tables, figures and
        curves, with ids and labels as text. It is replaced only when it is complete; a device or pipe is written to
        directly.
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
    said = page_model(
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
    is_json = Path(path).suffix.lower() == ".json"
    text = json.dumps(said, allow_nan=False, indent=1) + "\n" if is_json else render(said)
    with new_file(target) as file:
        file.write(text.encode())
    return target


def build_report(model: Any, edges: TemporalEdges | Scored | None = None, **given: Any) -> str:
    """Make the page that `write_report` writes, as a string; the parameters are the same."""
    return render(page_model(model, edges, **given))


class Page(NamedTuple):
    """A page that a notebook shows inline; `model.report()` and `model.card()` give it."""

    html: str

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 40em; border: 1px solid #8886"
        return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def render(said: dict[str, Any]) -> str:
    """The page, which allows only its own style and script, known by their digests, and no connection."""
    style, script = _own("parts.css", "page.css"), _own("charts.js", "tables.js", "page.js")
    return _template("page.html").render(
        **said,
        navigation=NAVIGATION,
        dots=Markup(as_json({"scores": said["quality"].get("scores")})),
        style=Markup(style),
        script=Markup(script),
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def write_curve(
    path: str | os.PathLike[str], found: pl.DataFrame, *, positive: Any, command: str | None = None
) -> Path:
    """Write a page that shows how the quality grows with the history: a chart and a table, without a script.

    found : what `tdlg.judge.backtest.learning_curve` returned; command : the shell command, shown at the end of the page.
    """
    target, style = target_of(path), _own("parts.css", "page.css")
    rows, names = found.to_dicts(), found["method"].unique(maintain_order=True).to_list()
    text = _template("curve.html").render(
        rows=rows,
        names=names,
        histories=found["history"].unique(maintain_order=True).to_list(),
        precision={name: [row["average_precision"] for row in rows if row["method"] == name] for name in names},
        n=max((row["n"] for row in rows), default=0),
        positives=max((row["positives"] for row in rows), default=0),
        positive=name_of(positive),
        heads=("history", "method", *(name.replace("_", " ") for name in CURVE_METRICS)),
        metrics=CURVE_METRICS,
        command=command,
        version=__version__,
        style=Markup(style),
        style_digest=_digest(style),
    )
    with new_file(target) as file:
        file.write(text.encode())
    return target


def render_card(said: dict[str, Any]) -> str:
    """A model card, which has no script."""
    style = _own("parts.css", "page.css")
    return _template("card.html").render(**said, style=Markup(style), style_digest=_digest(style))


def render_outliers(said: dict[str, Any], drawing: str) -> str:
    """The page of a detector, which has no script."""
    style = _own("parts.css", "page.css")
    return _template("outliers.html").render(
        **said, drawing=Markup(drawing), style=Markup(style), style_digest=_digest(style)
    )


def render_case(said: dict[str, Any], ends: str, timeline: str) -> str:
    """The page of a case of the desk, with its two drawings; the service calls it."""
    style = _own("parts.css", "page.css")
    return _template("case.html").render(
        **said,
        ends=Markup(ends),
        timeline=Markup(timeline),
        version=__version__,
        style=Markup(style),
        style_digest=_digest(style),
    )


@cache
def _template(name: str) -> Template:
    """The template escapes all values; only what `charts` draws, which escapes its words itself, is taken as it is."""
    templates = Environment(
        loader=PackageLoader("tdlg.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "count": count,
        "figure": figure,
        "percent": percent,
        "probability": share,
        "in_words": in_words,
    }
    drawings = (
        "swatch",
        "stroke",
        "square",
        "meter",
        "roc",
        "precision_recall",
        "calibration",
        "counts",
        "shares",
        "learning",
    )
    templates.globals |= {name: _as_markup(getattr(charts, name)) for name in drawings}
    return templates.get_template(name)


def _as_markup(draw: Any) -> Any:
    return lambda *given: Markup(draw(*given))


def _own(*names: str) -> str:
    folder = files("tdlg.report")
    return "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
