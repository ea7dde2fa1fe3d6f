"""`python -m tdlg_paper [name ...]`: measure what has no row yet, and write the tables and figures into a page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tdlg.exceptions import TdlgError
from tdlg_paper import leakage, outliers, payments, ranking, reduced_features
from tdlg_paper.budget import TRIAL_SECONDS, in_time
from tdlg_paper.lineup import DATASETS
from tdlg_paper.recipes import RECIPES
from tdlg_paper.run import Report, Step, reproduce
from tdlg_paper.tables import PAGE

__all__ = ["main"]

FOLDER = Path("results")
OTHERS = {
    "leakage": "Methods at random and in the order of time, into docs/evaluate.md",
    "outliers": "Outliers without labels: attacks, a slow scan, random pairs",
    "payments": "Payments and bans; also by name: handbook, handbook-days, wikipedia-bans",
    "ranking": "The next partner, by the protocol of the Temporal Graph Benchmark",
    "reduced-features": "AUC against the number of columns",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named recipes, by default all of the paper; 2 if an argument is invalid, with a message on stderr."""
    parser = _parser()
    given = parser.parse_args(arguments)
    of_payments = [name for name in given.name if name in payments.DATASETS]
    recipes = [name for name in given.name if name not in OTHERS and name not in of_payments]
    usual = given.folder == FOLDER and PAGE.exists()  # else the page is beside the rows
    page = given.page or (PAGE if usual else given.folder / "reproduction.md")
    try:
        if recipes or not given.name:
            with _progress() as report:
                reproduce(
                    recipes or None,
                    folder=given.folder,
                    trials=given.trials,
                    datasets=given.datasets,
                    protocol=given.protocol,
                    again=given.again,
                    minutes=given.minutes,
                    page=page,
                    callback=report,
                )
        if "payments" in given.name or of_payments:
            payments.main(given.folder, page, of_payments, given.method, given.again)
        if "outliers" in given.name:
            outliers.main(given.folder, page, given.method, given.again)
        if "ranking" in given.name:
            ranking.main(given.folder, page)
        if "reduced-features" in given.name:
            reduced_features.main(page)
        if "leakage" in given.name:
            page = given.page or PAGE.with_name("evaluate.md")
            leakage.main(given.folder, page, 60 * given.minutes)
    except (TdlgError, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    print(page)
    return 0


def _parser() -> argparse.ArgumentParser:
    titles = {name: recipe.title for name, recipe in RECIPES.items()} | OTHERS
    width = max(map(len, titles))
    parser = argparse.ArgumentParser(
        prog="python -m tdlg_paper",
        description="Measure tables and figures, and write them into a page beside the published ones.",
        epilog="names:\n" + "\n".join(f"  {name:{width}}  {title}" for name, title in titles.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="what to measure, listed below (default: all of the paper)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the rows (default: results)")
    parser.add_argument("--page", type=Path, help=f"page to write into (default: {PAGE})")
    parser.add_argument("--trials", type=_count, help="number of trials (default: the paper's 10 and 5)")
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help=f"some of {', '.join(DATASETS)} (default: all)")
    parser.add_argument("--protocol", choices=("paper", "notebook"), default="paper", help="default: paper")
    parser.add_argument("--method", help="of payments: only methods whose name has this part, e.g. '37 days'")
    parser.add_argument("--again", action="store_true", help="measure also what has a row already")
    parser.add_argument(
        "--minutes", type=_minutes, default=TRIAL_SECONDS / 60, help="longest time of a trial (default: 25)"
    )
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
    last = ""

    def lines(step: Step) -> None:
        nonlocal last
        if step.text != last:
            print(f"[{step.done}/{step.total}] {_described(step)}", file=sys.stderr, flush=True)
            last = step.text

    if not sys.stderr.isatty():
        yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda step: bar.update(task, completed=step.done, total=step.total, description=_described(step))


def _described(step: Step) -> str:
    return f"{step.text} (about {in_time(step.left)} left)" if step.left else step.text


if __name__ == "__main__":
    sys.exit(main())
