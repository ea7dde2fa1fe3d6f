"""The section on nodes: a table of those whose interactions are the riskiest."""

from __future__ import annotations

from typing import Any

from tdlg.explain.nodes import node_scores
from tdlg.report.html import Cell, code, paragraph, probability, section, table
from tdlg.report.selection import Selected
from tdlg.report.subject import Subject
from tdlg.report.text import escaped, name_of, share

__all__ = ["nodes"]

MOST_NODES = 60
TITLE = "Nodes to look at first"
ROLES = {"src": "source", "dst": "destination"}
HEADS = [
    ("Rank", "number"),
    ("Node", "text"),
    ("Role", "text"),
    ("Interactions", "number"),
    ("Expected", "number"),
    ("Mean", "number"),
    ("Highest", "number"),
]


def nodes(subject: Subject, selected: Selected) -> str:
    """The table of nodes."""
    positive = subject.classes[subject.positive]
    found = node_scores(selected.model, selected.scored, positive, top=MOST_NODES).to_dicts()
    if not found:
        return section("nodes", TITLE, paragraph("There are no nodes to rank."))
    text = (
        f"Nodes by how likely their interactions above are to be {code(subject.wanted)}. Five interactions of average "
        f"risk are added to each node, because 2 risky interactions of 2 may be chance and 20 of 20 are not. "
        f"“Expected” is the sum of the probabilities. “Why” is the reason that most of the node’s risky interactions share."
    )
    has_reason = any(line["reason"] for line in found)
    rows = (_node(place, line, has_reason) for place, line in enumerate(found, 1))
    heads = [*HEADS, ("Why", "")] if has_reason else HEADS
    return section("nodes", TITLE, paragraph(text), table("nodes", heads, rows, "node, role or reason"))


def _node(place: int, line: dict[str, Any], has_reason: bool) -> list[Cell]:
    cells = [
        Cell(str(place), "figure muted", place),
        Cell(escaped(name_of(line["node"])), "id"),
        Cell(escaped(ROLES.get(line["role"], line["role"]))),
        Cell(f"{line['n']:,}", "figure", line["n"]),
        Cell(f"{line['expected']:,.1f}", "figure", line["expected"]),
        Cell(probability(line["mean"]), "figure score", line["mean"]),
        Cell(escaped(share(line["highest"])), "figure", line["highest"]),
    ]
    reason = name_of(line["reason"] or "", 300)
    return [*cells, Cell(escaped(reason) or "–", "why", None, reason)] if has_reason else cells
