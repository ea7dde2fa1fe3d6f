"""The tables of interactions and of nodes to look at first."""

from __future__ import annotations

from collections.abc import Sequence

from tdlg.report.alerts import Alert, Asked, NodeAlert
from tdlg.report.parts import cell, code, meter, paragraph, section, table
from tdlg.report.subject import Subject
from tdlg.report.words import escaped, share

__all__ = ["interactions", "nodes"]


TOLD = {
    "unlabelled": "Interactions without a label, those most likely to be {wanted} first.",
    "new": "The interactions given, those most likely to be {wanted} first.",
    "held out": (
        "Every interaction has a label, so there is none to find. These are held-out ones, scored by the copy of the model "
        "that was not shown their labels; the label is shown beside."
    ),
    "learnt": (
        "Every interaction has a label, and none were held out: the model <b>was shown these labels</b>, so its "
        "scores flatter it."
    ),
}


def interactions(subject: Subject, asked: Asked, found: Sequence[Alert]) -> str:
    """The table of the most suspicious interactions."""
    told = TOLD[asked.kind].format(wanted=code(subject.wanted))
    if not found:
        return section("interactions", "Interactions to look at first", paragraph("There are none."))
    if len(asked.score) > len(found):
        told += f" The first {len(found):,} of {len(asked.score):,}."
    has_label = any(alert.label for alert in found)
    has_reasons = any(alert.reasons for alert in found)
    heads = [("#", "number"), ("From", "text"), ("To", "text"), ("Time", "number"), ("Probability", "number")]
    heads += [("Label", "text")] * has_label + [("Why", "")] * has_reasons
    rows = (_interaction(place, alert, has_label, has_reasons) for place, alert in enumerate(found, 1))
    if has_reasons:
        told += " ▲ speaks for it, ▽ against."
    return section(
        "interactions",
        "Interactions to look at first",
        paragraph(told),
        table("interactions", heads, rows, hint="id, date or reason"),
    )


def _interaction(place: int, alert: Alert, has_label: bool, has_reasons: bool) -> str:
    cells = [
        cell("#", str(place), "figure muted", place),
        cell("From", escaped(alert.src), "id"),
        cell("To", escaped(alert.dst), "id"),
        cell("Time", escaped(alert.time), "time", alert.tick),
        cell("Probability", _probability(alert.score), "figure score", alert.score),
    ]
    if has_label:
        mark = "" if alert.is_wanted is None else "✓ " if alert.is_wanted else ""
        cells.append(cell("Label", f"{mark}{escaped(alert.label)}", "hit" if alert.is_wanted else "muted"))
    if has_reasons:
        items = "".join(f"<li>{_effect(effect)}{escaped(reason)}</li>" for reason, effect in alert.reasons)
        cells.append(cell("Why", f"<ul>{items}</ul>" if items else "–", "why"))
    return f"<tr>{''.join(cells)}</tr>"


def _probability(score: float) -> str:
    return f"{escaped(share(score))}{meter(score, 'g1')}"


def _effect(effect: float | None) -> str:
    if effect is None:
        return ""
    kind, sign, word = ("up", "▲", "for") if effect > 0 else ("down", "▽", "against")
    said = f'<span aria-hidden="true">{sign}</span><span class="aside">speaks {word} it: </span>'
    return f'<span class="{kind}" title="speaks {word} it, {effect:+.2f}">{said}</span>'


def nodes(subject: Subject, found: Sequence[NodeAlert]) -> str:
    """The table of nodes."""
    if not found:
        return section("nodes", "Nodes to look at first", paragraph("There are none."))
    told = (
        f"Nodes by how likely their interactions above are to be {code(subject.wanted)}, each node being given a few of "
        f"average risk beforehand: two of two may be chance, twenty of twenty are not. “Expected” is the "
        f"sum of the probabilities."
    )
    has_reason = any(alert.reason for alert in found)
    heads = [("#", "number"), ("Node", "text"), ("Role", "text"), ("Interactions", "number"), ("Expected", "number")]
    heads += [("Mean", "number"), ("Highest", "number")] + [("Why", "")] * has_reason
    rows = (_node(place, alert, has_reason) for place, alert in enumerate(found, 1))
    body = table("nodes", heads, rows, hint="node, role or reason")
    return section("nodes", "Nodes to look at first", paragraph(told), body)


def _node(place: int, alert: NodeAlert, has_reason: bool) -> str:
    cells = [
        cell("#", str(place), "figure muted", place),
        cell("Node", escaped(alert.node), "id"),
        cell("Role", escaped(alert.role)),
        cell("Interactions", f"{alert.n:,}", "figure", alert.n),
        cell("Expected", f"{alert.expected:,.1f}", "figure", alert.expected),
        cell("Mean", _probability(alert.mean), "figure score", alert.mean),
        cell("Highest", escaped(share(alert.highest)), "figure", alert.highest),
    ]
    if has_reason:
        cells.append(cell("Why", escaped(alert.reason) or "–", "why"))
    return f"<tr>{''.join(cells)}</tr>"
