"""What leaves the desk as a file: alerts as a table, and a case as a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tdlg.report.desk import ends_chart, node_chart
from tdlg.report.page import render_case

if TYPE_CHECKING:
    from tdlg.live.cases import Alert

__all__ = ["case_page", "table_of"]

EXPORTED = (
    "id", "src", "dst", "time", "score", "reason", "status", "label", "decided_at", "by", "at", "dismissal", "assignee",
    "model",
)  # fmt: skip


def table_of(alerts: Sequence[Alert]) -> bytes:
    """Alerts as csv, one row each; no text is a formula for a spreadsheet."""
    names = list(dict.fromkeys(name for alert in alerts for name in alert.features))
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([*EXPORTED, *map(_cell, names), "notes", "rules"])
    for alert in alerts:
        notes = "; ".join(f"{one['at']} {one['by']}: {one['note']}" for one in alert.notes)
        own = [alert.features.get(name) for name in names]
        rules = "; ".join(one["name"] for one in alert.rules)
        writer.writerow([_cell(value) for value in (*(getattr(alert, name) for name in EXPORTED), *own, notes, rules)])
    return file.getvalue().encode(errors="replace")


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def case_page(
    whole: Mapping[str, Any], ends: tuple[Any, Any], threshold: float, *, is_probability: bool, written: str
) -> bytes:
    """A page of its own about a case: what /case answers, the picture of the two ends, and the interactions in time."""
    timeline = node_chart(whole["node"], threshold, is_probability=is_probability)
    return render_case({**whole, "written": written}, ends_chart(ends), timeline).encode(errors="replace")
