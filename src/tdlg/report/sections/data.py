"""The first figures, the data, the settings, and how to reproduce the page."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from inspect import signature
from typing import Any

import numpy as np

from tdlg import __version__
from tdlg.edges import TemporalEdges
from tdlg.judge.holdout import Judged, label_times
from tdlg.report.html import GROUPS, code, facts, group_of, groups, meter, paragraph, section, swatch
from tdlg.report.sections.quality import held_out_in_short
from tdlg.report.selection import Selected
from tdlg.report.subject import Subject
from tdlg.report.text import count, escaped, figure, in_words, name_of, percent

__all__ = ["reproduce", "settings", "summary", "what_was_read"]


def summary(subject: Subject, judged: Judged | None, selected: Selected) -> str:
    """The first figures: how much was read, and how good the answers are."""
    edges = subject.edges
    n_known, n_edges = int(edges.labelled.sum()), len(edges)
    tiles = [
        ("Interactions", f"{n_edges:,}", f"between {count(edges.n_nodes, 'node')}"),
        ("Labelled", f"{n_known:,}", f"{percent(n_known / n_edges)} of all"),
    ]
    if n_known < n_edges:
        span = subject.clock.span(selected.edges.ticks.min(), selected.edges.ticks.max())
        expected = f"about {selected.score.sum():,.0f} of them {subject.wanted}, by their probabilities"
        expected += _how_far_off(judged)
        tiles.append(("To predict", f"{n_edges - n_known:,}", f"{escaped(span)}; {escaped(expected)}"))
    if judged is not None:
        precision, _ = judged.model.at(judged.top)
        ours, *theirs = (auc[0] for auc, _ in judged.headline.values())
        others = "; ".join(f"{name}: {figure(auc)}" for name, auc in zip(judged.references, theirs, strict=True))
        measured = held_out_in_short(judged, subject)
        of = f", {escaped(subject.wanted)}" if judged.is_mean else ""
        tiles.append((judged.titled("AUC"), figure(ours), f"{others}; {measured}"))
        tiles.append(
            (
                f"Precision in the top {judged.top:,}{of}",
                percent(precision),
                f"by chance: {percent(judged.prevalence)}; of the same held-out labels",
            )
        )
    return facts([(title, f"{value}<small>{note}</small>") for title, value, note in tiles], "tiles")


def _how_far_off(judged: Judged | None) -> str:
    """How much too high or too low the probabilities of held-out edges were; empty if that is small or may be chance."""
    if judged is None:
        return ""
    predicted, observed = judged.model.scores, judged.model.is_positive
    expected, found = float(predicted.sum()), int(observed.sum())
    chance = 2.0 * float((predicted * (1.0 - predicted)).sum()) ** 0.5
    ratio = max(expected, found) / max(min(expected, found), 1e-9)
    if abs(expected - found) <= chance or ratio < 1.25:
        return ""
    return f"; on held-out labels the probabilities were {ratio:.2g} times too {'high' if expected > found else 'low'}"


def what_was_read(subject: Subject, unused: Sequence[str] = ()) -> str:
    """The edges in words, and the labels as bars."""
    edges = subject.edges
    sides = (
        ""
        if edges.n_src_nodes is None
        else (
            f"<small>of two types: {edges.n_src_nodes:,} sources, {edges.n_nodes - edges.n_src_nodes:,} destinations</small>"
        )
    )
    lines = [
        ("Interactions", f"{len(edges):,}"),
        ("Nodes", f"{edges.n_nodes:,}{sides}"),
        ("Time", escaped(subject.clock.span(edges.ticks.min(), edges.ticks.max())) + _as_dates(subject)),
        ("Distinct times", f"{len(np.unique(edges.ticks)):,}"),
        ("Busiest node", _busiest(subject)),
        (
            "Features",
            (_names(edges.feature_names) or "none") + (f"<small>not used: {_names(unused)}</small>" if unused else ""),
        ),
        ("Weights", "none" if edges.weight is None else "one per interaction"),
    ]
    if not subject.is_learnt:
        lines.append(("Model fitted on", count(len(subject.learnt), "other interaction")))
    return section("read", "Data", f'<div class="halves">{facts(lines)}{_label_bars(subject)}</div>')


def _names(columns: Sequence[str]) -> str:
    return escaped(in_words([name_of(name, 40) for name in columns]))


def _as_dates(subject: Subject) -> str:
    """The zone of dates; what numbers would be as dates, where they look like seconds since 1970."""
    if subject.edges.time_unit is not None:
        return " UTC<small>times with a zone were converted to UTC, times without one are shown as given</small>"
    if subject.clock.unit is not None:
        return " UTC"
    first, last = float(subject.edges.ticks.min()), float(subject.edges.ticks.max())
    if not 5e8 < first < last < 4e9:
        return ""
    dates = [str(np.datetime64(int(tick), "s").astype("datetime64[D]")) for tick in (first, last)]
    return f"<small>numbers; as seconds since 1970 they would be {dates[0]} to {dates[1]}</small>"


def _busiest(subject: Subject) -> str:
    edges = subject.edges
    others = edges.dst_code[edges.src_code != edges.dst_code]  # one with itself has the node at an end once
    ends = np.bincount(np.concatenate([edges.src_code, others]), minlength=edges.n_nodes)
    at = int(ends.argmax())
    return f"{code(name_of(edges.node_ids[at]))}<small>in {count(int(ends[at]), 'interaction')}</small>"


def _label_bars(subject: Subject) -> str:
    codes, shown = subject.codes, groups(subject)
    n_edges, n_known = len(codes), int(subject.edges.labelled.sum())
    counts = [(subject.called(k), int((codes == k).sum()), group_of(subject, k)) for k in shown]
    n_rest = n_known - sum(n for _, n, _ in counts)
    counts += [("other labels", n_rest, GROUPS)] * (n_rest > 0) + [("unlabelled", n_edges - n_known, 0)] * (
        n_known < n_edges
    )
    rows = "".join(
        f'<tr><th scope="row">{swatch(group)}{escaped(name)}</th><td class="figure">{n:,}</td>'
        f'<td class="figure muted">{percent(n / n_edges)}</td><td class="wide">{meter(n / n_edges, f"g{group}")}</td></tr>'
        for name, n, group in counts
    )
    caption = f"Labels. This page predicts {code(subject.wanted)}."
    return f'<table class="labels"><caption>{caption}</caption><tbody>{rows}</tbody></table>'


# ---- settings, and how to reproduce the page

MEANING = {
    "interpolate": "labels before and after an interaction may be used",
    "forecast": "interactions after the last known label are predicted",
    "stream": "each interaction is scored with the labels known at its time",
}


def settings(subject: Subject, judged: Judged | None) -> str:
    """The model's parameters and what was chosen for them."""
    model: Any = subject.model
    lines = [("Model", code(type(model).__name__))]
    if subject.setting is not None:
        why = model.setting_reason_
        chosen = "as requested" if why is None else f"chosen because {why}"
        lines.append(("Setting", f"{code(subject.setting)}<small>{MEANING[subject.setting]}; {chosen}</small>"))
        lines += _learnt(model)
    decay = getattr(model, "decay_", None)
    if decay is not None:
        how = "chosen by cross-validation" if getattr(model, "bandwidth", None) == "auto" else "fixed at fit"
        lines.append(("Decay", f"{code(repr(decay))}<small>{how}</small>"))
    known = in_words(subject.names) if len(subject.names) <= 8 else count(len(subject.names), "class")
    lines.append(("Predicted class", f"{code(subject.wanted)}<small>of {escaped(known)}</small>"))
    if judged is not None:
        word = "the last 30 % of the labels, by time" if judged.held.how == "time" else "30 % of the labels, at random"
        inner = getattr(judged.held.model, "setting_", None)
        if inner != subject.setting:
            word += f"<small>the copy’s setting was {escaped(inner)}, which fits this way of holding out</small>"
        lines.append(("Held out", word))
    rows = "".join(
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(name_of(_written(value), 200))}</td></tr>'
        for name, value in sorted(model.get_params(deep=False).items())
    )
    every = (
        f'<details><summary>Every parameter</summary><table class="parameters"><tbody>{rows}</tbody></table></details>'
    )
    return section("settings", "Settings", facts(lines), every)


def _learnt(model: Any) -> list[tuple[str, str]]:
    """The time scales, the rows and the trees of a propagation model."""
    scales = model.features_.plan_.scales_in_words(model.edges_.time_unit)
    how = "chosen from the data" if isinstance(model.scales, str) else "as requested"
    lines = [("Time scales", f"{escaped(scales)}<small>{how}</small>")] if scales else []
    whole = model.n_rows_sampled_from_
    sampled = "" if model.n_rows_ == whole else f"<small>sampled from {whole:,}; rare classes were kept</small>"
    lines.append(("Learnt from", f"{count(model.n_rows_, 'row')}{sampled}"))
    trees = {(one.n_iter_, one.max_leaf_nodes) for one in model.estimators_ if hasattr(one, "n_iter_")}
    trees = {pair for pair in trees if isinstance(pair[0], int)}
    if trees:
        numbers, leaves = (" to ".join(map(str, sorted({min(of), max(of)}))) for of in zip(*trees, strict=True))
        lines.append(("Boosted trees", f"{numbers} trees with up to {leaves} leaves each"))
    return lines


USUAL = {"title": None, "time_unit": None, "label_name": None, "evaluate": "auto"}


def reproduce(subject: Subject, command: str | None, **given: Any) -> str:
    """How to reproduce this page; `given` holds parameters of `write_report`."""
    shell = "" if command is None else f'<h3>On the shell</h3><pre tabindex="0"><code>{escaped(command)}</code></pre>'
    python = f'<h3>In Python</h3><pre tabindex="0"><code>{escaped(chr(10).join(_python(subject, given)))}</code></pre>'
    versions = [
        ("tdlg", __version__),
        ("Python", platform.python_version()),
        *((name, escaped(version(name))) for name in ("numpy", "scikit-learn")),
        ("Seed", str(subject.seed)),
        ("Data", f"<code>{fingerprint(subject)}</code><small>start of the sha256 of edges and labels</small>"),
    ]
    text = "The same edges, model, versions and seed give the same page."
    return section("reproduce", "Reproduce this page", paragraph(text), shell, python, facts(versions))


def _python(subject: Subject, given: dict[str, Any]) -> list[str]:
    """Lines that read, fit and write; files, and the names of columns other than features, can only be guessed."""
    model: Any = subject.model
    parameters = model.get_params(deep=False)
    of_model = _as_arguments({name: value for name, value in parameters.items() if _is_set(model, name)})
    decays = [name for name in ("Gaussian", "Laplace", "Mixture", "NoDecay") if re.search(rf"\b{name}\(", of_model)]
    estimator = getattr(model, "estimator", None)
    lines = [f"from tdlg import {', '.join(sorted([type(model).__name__, 'read_edges', *decays]))}"]
    if estimator is not None:
        lines.append(f"from {type(estimator).__module__.partition('._')[0]} import {type(estimator).__name__}")
    lines += [
        "from tdlg.report import write_report",
        "",
        "# the report does not know the names of your file and its columns: fill them in",
    ]
    learnt = "edges" if subject.is_learnt else "learnt"
    lines += [_reading(name, of) for name, of in {learnt: subject.learnt, "edges": subject.edges}.items()]
    fitted = learnt
    if label_times(model) is not None:
        lines.append("label_time = ...  # when the label of each row became known")
        fitted += ", label_time=label_time"
    lines.append(f"model = {type(model).__name__}({of_model}).fit({fitted})")
    given = {name: value for name, value in given.items() if value != USUAL[name]}
    given = {"positive": subject.classes.tolist()[subject.positive], **given, "seed": subject.seed}
    ids = ""
    if subject.ids is not None:
        lines.append(f"ids = ...  # your column {subject.ids[0]!r}, with its name: one value per row")
        ids = ", ids=ids"
    return [*lines, f"write_report('report.html', model, edges, {_as_arguments(given)}{ids})"]


def _reading(name: str, edges: TemporalEdges) -> str:
    columns = ["src", "dst", "time", *["label"] * (edges.label is not None), *["weight"] * (edges.weight is not None)]
    given: dict[str, Any] = {column: column for column in columns}
    given |= {"features": list(edges.feature_names), "bipartite": edges.bipartite}
    return f"{name} = read_edges('{name}.csv', {_as_arguments(given)})"


def _as_arguments(given: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_written(value)}" for name, value in given.items())


def _written(value: Any) -> str:
    """A value as code has it."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _is_set(model: Any, name: str) -> bool:
    """Whether a parameter is not what it is by default."""
    return repr(getattr(model, name)) != repr(signature(type(model)).parameters[name].default)


def fingerprint(subject: Subject) -> str:
    """A digest of the edges and labels, to tell whether two pages are about the same."""
    edges, digest = subject.edges, hashlib.sha256()
    for column in (edges.src_code, edges.dst_code, edges.ticks, subject.codes):
        digest.update(np.ascontiguousarray(column).tobytes())
    digest.update(ascii([name_of(node, 10**6) for node in edges.node_ids]).encode())
    return digest.hexdigest()[:16]
