"""One self-contained HTML page: what was read, how well a model does on it, what to look at first, and why.

The page contains its own style and script and makes no network requests; the user's ids and labels are always shown as text.
`write_report` writes the page, `build_report` returns it as a string.
"""

from tdlg.report.card import ModelCard
from tdlg.report.page import build_report, write_curve, write_report

__all__ = ["ModelCard", "build_report", "write_curve", "write_report"]
