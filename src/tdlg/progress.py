"""A progress bar for long work, on a terminal or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

__all__ = ["progress_bar", "terminal_bar"]


@contextmanager
def progress_bar(*, is_known: bool = True) -> Iterator[Callable[..., None]]:
    """Show the progress of long work with the remaining time: on a terminal or in a notebook; elsewhere nothing.

    Parameters
    ----------
    is_known
        Whether the amount of work is known, as it is by default; else a terminal shows a spinner.

    Yields
    ------
    callable
        To be passed as `callback` to `backtest`, `evaluate`, `model.fill` and others, which call it with what is done, the
        total and, some of them, a text.

    Examples
    --------
    >>> from tdlg import make_payments
    >>> from tdlg.judge.backtest import backtest
    >>> from tdlg.progress import progress_bar
    >>> with progress_bar() as show:
    ...     found = backtest(make_payments(1500, random_state=0).edges, "60d", callback=show)
    """
    if _is_notebook():
        yield _InNotebook().show
        return
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total, text="": None
        return
    with terminal_bar(is_known=is_known) as show:
        yield show


@contextmanager
def terminal_bar(*, is_known: bool = True) -> Iterator[Callable[..., None]]:
    """The bar of a terminal, whatever stderr is."""
    from rich import progress as bars
    from rich.console import Console

    text, elapsed = bars.TextColumn("{task.description}", markup=False), bars.TimeElapsedColumn()
    columns: Any = bars.SpinnerColumn(), text, elapsed
    if is_known:
        columns = bars.BarColumn(), bars.MofNCompleteColumn(), elapsed, text, bars.TimeRemainingColumn()
    with bars.Progress(*columns, console=Console(stderr=True, force_terminal=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, text="": bar.update(task, completed=done, total=total or None, description=text)


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


class _InNotebook:
    """A bar in the output of a cell, which each call replaces."""

    def __init__(self) -> None:
        self._shown: Any = None

    def show(self, done: int, total: int, text: str = "") -> None:
        """Draw the bar anew."""
        from IPython.display import HTML, display

        bar = HTML(f'<progress value="{done}" max="{max(total, 1)}"></progress> {done:,} of {total:,} {escape(text)}')
        if self._shown is None:
            self._shown = display(bar, display_id=True)
        else:
            self._shown.update(bar)
