"""One self-contained HTML page: what was read, how well a model does on it, what to look at first, and why.

The page contains its own style and script and makes no network requests; the user's ids and labels are always shown as text.
`write_report` writes the page, `build_report` returns it as a string.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
