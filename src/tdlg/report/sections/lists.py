"""The tables of interactions and of nodes to look at first."""

from __future__ import annotations

from collections.abc import Sequence

from tdlg.report.html import Cell, code, meter, paragraph, section, table
from tdlg.report.sections.interactions import Alert, Asked, NodeAlert, feature_names
from tdlg.report.subject import Subject
from tdlg.report.text import count, escaped, name_of, share

__all__ = ["interactions", "nodes"]


INTRODUCTIONS = {
    "unlabelled": "Interactions without a label, the most likely to be {wanted} first.",
    "new": "The interactions given, the most likely to be {wanted} first.",
    "held out": (
        "Every interaction has a label, so there is nothing to predict. These are held-out interactions, scored by the copy "
        "of the model that did not see their labels; their labels are shown for comparison."
    ),
    "learnt": (
        "Every interaction has a label, and no labels were held out: the model <b>was shown these labels</b>, so its "
        "scores look better than they are."
    ),
}


def interactions(subject: Subject, asked: Asked, found: Sequence[Alert]) -> str:
    """The table of the most suspicious interactions."""
    title = "Interactions to look at first"
    if not found:
        return section("interactions", title, paragraph("There are no interactions to rank."))
    has_label = any(alert.label for alert in found)
    has_reasons = any(alert.reasons for alert in found)
    body = table(
        "interactions",
        _heads(subject, asked, found[0], has_label, has_reasons),
        (_interaction(place, alert, has_label, has_reasons) for place, alert in enumerate(found, 1)),
        hint="id, date or reason",
    )
    return section("interactions", title, paragraph(_introduction(subject, asked, len(found), has_reasons)), body)


def _introduction(subject: Subject, asked: Asked, n_shown: int, has_reasons: bool) -> str:
    parts = [INTRODUCTIONS[asked.kind].format(wanted=code(subject.wanted))]
    if len(asked.score) > n_shown:
        parts.append(f"The table shows the first {n_shown:,} of {len(asked.score):,}.")
    parts.append("“Row” is the row number in your table; 1 is the first row below the header.")
    n_left_out = len(asked.edges.feature_names) - len(feature_names(asked.edges))
    if n_left_out > 0:
        weight = " and the weight" if asked.edges.weight is not None else ""
        parts.append(f"Not shown: {count(n_left_out, 'feature')}{weight}.")
    if has_reasons:
        parts.append("▲ raises the probability, ▽ lowers it.")
    return " ".join(parts)


def _heads(subject: Subject, asked: Asked, first: Alert, has_label: bool, has_reasons: bool) -> list[tuple[str, str]]:
    """What stands above the columns, and what these are sorted as."""
    heads = [("Rank", "number"), ("Row", "number")]
    if subject.ids is not None:
        heads.append((subject.ids[0], "text"))
    heads += [("From", "text"), ("To", "text"), (f"Time{' (UTC)' if subject.clock.unit else ''}", "time")]
    heads.append(("Probability", "number"))
    if has_label:
        heads.append(("Label" if subject.label_name is None else name_of(subject.label_name, 40), "text"))
    for name, (_, value) in zip(feature_names(asked.edges), first.features, strict=True):
        heads.append((name_of(name, 40), "text" if value is None else "number"))
    return [*heads, ("Why", "")] if has_reasons else heads


def _interaction(place: int, alert: Alert, has_label: bool, has_reasons: bool) -> list[Cell]:
    cells = [Cell(str(place), "figure muted", place), Cell(str(alert.row), "figure", alert.row)]
    if alert.id is not None:
        cells.append(Cell(escaped(alert.id), "id"))
    cells += [
        Cell(escaped(alert.src), "id"),
        Cell(escaped(alert.dst), "id"),
        Cell(escaped(alert.time), "time", alert.tick, alert.time),
        Cell(_probability(alert.score), "figure score", alert.score),
    ]
    if has_label:
        mark = "✓ " if alert.is_wanted else ""
        cells.append(Cell(f"{mark}{escaped(alert.label)}", "hit" if alert.is_wanted else "muted", None, alert.label))
    for text, value in alert.features:
        cells.append(Cell(escaped(text) or "–", "" if value is None else "figure", value, text))
    if has_reasons:
        items = "".join(f"<li>{_effect(effect)}{escaped(reason)}</li>" for reason, effect in alert.reasons)
        cells.append(Cell(f"<ul>{items}</ul>", "why") if items else Cell("–", "why", None, ""))
    return cells


def _probability(score: float) -> str:
    return f"{escaped(share(score))}{meter(score, 'g1')}"


def _effect(effect: float) -> str:
    kind, sign, word = ("up", "▲", "raises") if effect > 0 else ("down", "▽", "lowers")
    shown = f'<span aria-hidden="true">{sign}</span><span class="aside">{word} the probability: </span>'
    return f'<span class="{kind}" title="{word} the score by {abs(effect):.2f}">{shown}</span>'


def nodes(subject: Subject, found: Sequence[NodeAlert]) -> str:
    """The table of nodes."""
    if not found:
        return section("nodes", "Nodes to look at first", paragraph("There are no nodes to rank."))
    told = (
        f"Nodes by how likely their interactions above are to be {code(subject.wanted)}. Five interactions of average "
        f"risk are added to each node, because 2 risky interactions of 2 may be chance and 20 of 20 are not. "
        f"“Expected” is the sum of the probabilities. “Why” is the reason that most of the node’s risky interactions share."
    )
    has_reason = any(alert.reason for alert in found)
    heads = [("Rank", "number"), ("Node", "text"), ("Role", "text"), ("Interactions", "number"), ("Expected", "number")]
    heads += [("Mean", "number"), ("Highest", "number")] + [("Why", "")] * has_reason
    rows = (_node(place, alert, has_reason) for place, alert in enumerate(found, 1))
    body = table("nodes", heads, rows, hint="node, role or reason")
    return section("nodes", "Nodes to look at first", paragraph(told), body)


def _node(place: int, alert: NodeAlert, has_reason: bool) -> list[Cell]:
    cells = [
        Cell(str(place), "figure muted", place),
        Cell(escaped(alert.node), "id"),
        Cell(escaped(alert.role)),
        Cell(f"{alert.n:,}", "figure", alert.n),
        Cell(f"{alert.expected:,.1f}", "figure", alert.expected),
        Cell(_probability(alert.mean), "figure score", alert.mean),
        Cell(escaped(share(alert.highest)), "figure", alert.highest),
    ]
    return [*cells, Cell(escaped(alert.reason) or "–", "why", None, alert.reason)] if has_reason else cells
