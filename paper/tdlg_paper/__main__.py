"""`python -m tdlg_paper [name ...]`: one call of `reproduce`, with its progress on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tdlg.exceptions import TdlgError
from tdlg_paper.budget import TRIAL_SECONDS, in_time
from tdlg_paper.lineup import DATASETS
from tdlg_paper.recipes import RECIPES
from tdlg_paper.run import Report, Step, run_recipes

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named recipes, by default all, and print the path of the page.

    Parameters
    ----------
    arguments
        Arguments of the command. By default those of the command line.

    Returns
    -------
    int
        0, or 2 with a message on stderr if an argument is invalid.
    """
    given = _parser().parse_args(arguments)
    try:
        with _progress() as report:
            page = run_recipes(
                given.name or None,
                given.folder,
                given.trials,
                given.datasets,
                given.protocol,
                given.again,
                given.minutes,
                given.page,
                report,
            )
    except (TdlgError, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    print(page)
    return 0


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, RECIPES))
    parser = argparse.ArgumentParser(
        prog="python -m tdlg_paper",
        description="Measure the paper's tables and figures, and write a page that shows them beside the paper's.",
        epilog="recipes:\n" + "\n".join(f"  {name:{width}}  {recipe.title}" for name, recipe in RECIPES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="recipes, listed below (default: all)")
    parser.add_argument("--folder", type=Path, default=Path("results"), help="folder of the rows (default: results)")
    parser.add_argument("--trials", type=_count, help="number of trials (default: the paper's 10 and 5)")
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help=f"some of {', '.join(DATASETS)} (default: all)")
    parser.add_argument("--protocol", choices=("paper", "notebook"), default="paper", help="default: paper")
    parser.add_argument("--again", action="store_true", help="delete the rows of these recipes and measure them again")
    parser.add_argument(
        "--minutes", type=_minutes, default=TRIAL_SECONDS / 60, help="longest time of a trial (default: 25)"
    )
    parser.add_argument("--page", type=Path, help="page to write (default: reproduction.md in the folder)")
    return parser


def _minutes(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be positive. Got {text} instead.")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1. Got {text} instead.")
    return value


@contextmanager
def _progress() -> Iterator[Report]:
    """A progress bar on a terminal; elsewhere one line per step."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def report(step: Step) -> None:
            bar.update(task, completed=step.done, total=step.total, description=_described(step))

        yield report


def _described(step: Step) -> str:
    return f"{step.text} (about {in_time(step.left)} left)" if step.left else step.text


def _lines() -> Report:
    last = ""

    def report(step: Step) -> None:
        nonlocal last
        if step.text != last:
            print(f"[{step.done}/{step.total}] {_described(step)}", file=sys.stderr, flush=True)
            last = step.text

    return report


if __name__ == "__main__":
    sys.exit(main())
