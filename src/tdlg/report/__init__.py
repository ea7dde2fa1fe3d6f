"""One self-contained HTML page: what was read, how well a model does on it, what to look at first, and why.

The page holds its own style and script and asks the network for nothing; whatever the user's ids and labels hold is shown as
text. `write_report` writes it, `build_report` gives it as a string.
"""

from tdlg.report.page import build_report, write_report

__all__ = ["build_report", "write_report"]
