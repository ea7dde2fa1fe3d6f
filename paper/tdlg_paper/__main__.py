"""`python -m tdlg_paper [name ...]`: measure what has no row yet, and write the tables and figures into a page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tdlg.exceptions import TdlgError
from tdlg_paper import leakage, outliers, payments, ranking, reduced_features
from tdlg_paper.budget import TRIAL_SECONDS
from tdlg_paper.recipes import DATASETS, RECIPES
from tdlg_paper.run import Step, reproduce
from tdlg_paper.tables import PAGE

FOLDER = Path("results")
OTHERS: dict[str, tuple[str, Callable[[argparse.Namespace], None]]] = {
    "leakage": ("Methods at random and in the order of time, into docs/evaluate.md", leakage.main),
    "outliers": ("Outliers without labels: attacks, a slow scan, random pairs", outliers.main),
    "payments": ("Payments and bans; also by name: handbook, handbook-days, wikipedia-bans", payments.main),
    "ranking": ("The next partner, by the protocol of the Temporal Graph Benchmark", ranking.main),
    "reduced-features": ("AUC against the number of columns", reduced_features.main),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named recipes, by default all of the paper; 2 if an argument is invalid, with a message on stderr."""
    given = _parser().parse_args(arguments)
    usual = given.folder == FOLDER and PAGE.exists()  # else the page is beside the rows
    if given.page is None:
        given.page = PAGE if usual else given.folder / "reproduction.md"
    given.parts = [name for name in given.name if name in payments.DATASETS]
    recipes = [name for name in given.name if name not in OTHERS and name not in given.parts]
    names = [*given.name, "payments"] if given.parts else given.name
    try:
        if recipes or not given.name:
            reproduce(
                recipes or None,
                **{name: getattr(given, name) for name in ("folder", "trials", "datasets", "protocol", "again")},
                **{name: getattr(given, name) for name in ("minutes", "page")},
                callback=_tell,
            )
        for name, (_, run) in OTHERS.items():
            if name in names:
                run(given)
    except (TdlgError, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    print(given.page)
    return 0


def _parser() -> argparse.ArgumentParser:
    titles = {name: recipe.title for name, recipe in RECIPES.items()} | {
        name: title for name, (title, _) in OTHERS.items()
    }
    parser = argparse.ArgumentParser(
        prog="python -m tdlg_paper",
        description="Measure tables and figures, and write them into a page beside the published ones.",
        epilog="names:\n" + "\n".join(f"  {name:26}  {title}" for name, title in titles.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="what to measure, listed below (default: all of the paper)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the rows (default: results)")
    parser.add_argument("--page", type=Path, help=f"page to write into (default: {PAGE})")
    parser.add_argument("--trials", type=_positive(int), help="number of trials (default: the paper's 10 and 5)")
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help=f"some of {', '.join(DATASETS)} (default: all)")
    parser.add_argument("--protocol", choices=("paper", "notebook"), default="paper", help="default: paper")
    parser.add_argument(
        "--method", help="of payments and outliers: only methods whose name has this part, e.g. '37 days'"
    )
    parser.add_argument("--again", action="store_true", help="measure also what has a row already")
    longest = TRIAL_SECONDS / 60
    parser.add_argument(
        "--minutes", type=_positive(float), default=longest, help="longest time of a trial (default: 25)"
    )
    return parser


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        if not (value := kind(text)) > 0:
            raise argparse.ArgumentTypeError(f"must be positive. Got {text} instead.")
        return value

    return read


def _tell(step: Step) -> None:
    print(f"[{step.done}/{step.total}] {step.text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
