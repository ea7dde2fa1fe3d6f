"""Reasons as a notebook shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

import polars as pl

EDGES_SHOWN = 20
RAISES, LOWERS = '<b style="color:#c0392b">▲</b>', '<b style="color:#2471a3">▼</b>'


class Reasons(pl.DataFrame):
    """A polars table of reasons, one row per reason, that a notebook shows edge by edge, with arrows.

    So do its selections and sorted copies; what lacks one of these columns is a table like any other.
    """

    def filter(self, *predicates: Any, **constraints: Any) -> Reasons:
        """The rows that fulfil conditions; see `polars.DataFrame.filter`."""
        return Reasons(super().filter(*predicates, **constraints))

    def sort(self, *by: Any, **options: Any) -> Reasons:
        """The rows in another order; see `polars.DataFrame.sort`."""
        return Reasons(super().sort(*by, **options))

    def _repr_html_(self, **options: Any) -> str:
        if not {"edge", "src", "dst", "time", "score", "effect", "reason"} <= set(self.columns) or self.is_empty():
            return super()._repr_html_(**options)
        edges = [list(rows) for _, rows in groupby(self.iter_rows(named=True), key=lambda row: row["edge"])]
        lines = [_shown(rows) for rows in edges[:EDGES_SHOWN]]
        if len(edges) > EDGES_SHOWN:
            lines.append(f"<tr><td colspan=4>and {len(edges) - EDGES_SHOWN:,} more</td></tr>")
        head = "<tr><th>interaction</th><th>time</th><th>score</th><th>reasons (▲ raises, ▼ lowers the score)</th></tr>"
        return f'<table style="text-align:left">{head}{"".join(lines)}</table>'


def _shown(rows: Sequence[Mapping[str, Any]]) -> str:
    """One edge as a line of the table."""
    first = rows[0]
    ends = f"{escape(str(first['src']))} → {escape(str(first['dst']))}"
    reasons = [
        f"{RAISES if row['effect'] >= 0 else LOWERS} {escape(row['reason'])}"
        for row in rows
        if row["reason"] is not None
    ]
    cells = [ends, escape(str(first["time"])), f"{first['score']:.3g}", "<br/>".join(reasons)]
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"
