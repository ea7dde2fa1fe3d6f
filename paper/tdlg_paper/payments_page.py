"""write_page: docs/payments.md from the rows of results/payments.csv, beside published figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from tdlg_paper import bans, handbook
from tdlg_paper.attacks import DETECTORS
from tdlg_paper.payment_rows import Row

__all__ = ["write_page"]

BOOK = (".879", ".687", ".305")  # the book's best AUC, average precision and card precision, each of its own model
DARPA = {"SedanSpot": ".64", "MIDAS": ".91", "MIDAS-R": ".95", "MIDAS-F": ".98"}
WIKIPEDIA = {"CTDNE": "75.9", "TGAT": "83.7", "DyRep": "84.6", "JODIE": "84.8", "TGN": "87.8"}
METRICS = ("auc", "average_precision", "card_precision")
NOT_RUN = "not run"

Lines = list[str]


def write_page(rows: Sequence[Row], page: Path) -> None:
    """Write the page.

    Parameters
    ----------
    rows
        What was measured. What has no row is shown as not run.
    page
        The file to write.
    """
    sections = [_head(), _handbook(rows), _by_days(rows), _columns(rows), _darpa(rows), _wikipedia(rows), _how()]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join("\n".join(lines) for lines in sections) + "\n", encoding="utf-8")


def _head() -> Lines:
    return [
        "# Payments, attacks and bans",
        "",
        "Three public benchmarks of rare events in streams of interactions: our figures beside the published ones. "
        "`make payments` measures the rows in `results/payments.csv` and `results/handbook-days.csv`, and writes this page "
        "from them. "
        f'"{NOT_RUN}" means that no row was measured yet. Published figures are repeated from the cited work and were not '
        "measured here.",
    ]


# ---- card payments


def _handbook(rows: Sequence[Row]) -> Lines:
    table: list[tuple[str, ...]] = [
        ("the book's best per metric (XGBoost, balanced bagging), published", *BOOK, "", "by the book: parameters")
    ]
    table += [_handbook_line(name, method, rows) for name, method in handbook.METHODS.items()]
    head = ("method", "AUC", "average precision", "card precision at 100", "folds", "chosen on this data set")
    return [
        "## Card payments: the Fraud Detection Handbook",
        "",
        "1,754,155 simulated payments of 4,990 customers at 10,000 terminals in 2018, of which 0.84 % are frauds "
        '(`load_dataset("handbook")`; Le Borgne, Siblini, Lebichot and Bontempi, 2022). Each of four folds is tested on '
        "seven days. Labels become known seven days after the payment. The book trains on the seven days before that delay, "
        "the training days starting on 2018-07-25, 08-01, 08-08 and 08-15; a method may learn from more days. Test rows of "
        "customers who are already known as defrauded are removed as in the book, whatever a method learns from: the first "
        "fold has 58,264 test rows with 385 frauds. Card precision: on each day, the share of defrauded customers among the "
        "100 with the highest score; a customer who is found leaves the later days; mean of the seven days.",
        "",
        "Figures are means over the folds that were run. The published figures are the best of each column, by different "
        "models.",
        "",
        *_table(head, table),
        "",
        "The book's columns are the amount, weekend and night, the number and mean amount of the customer's payments, and "
        "the number and delayed fraud rate of the terminal's payments, each in 1, 7 and 30 days. `our boosting` is the "
        "boosting of `PropagationClassifier` with its default settings, and LightGBM has the same number and size of trees, "
        "learning rate and penalties. snapml's GraphFeaturePreprocessor makes 333 columns of the amounts, times and "
        "neighbours of both ends in windows of 1, 7 and 30 days, and uses no labels.",
    ]


def _handbook_line(name: str, method: handbook.Method, rows: Sequence[Row]) -> tuple[str, ...]:
    found = _of(rows, "handbook", name)
    cells = [_mean([getattr(row, metric) for row in found]) for metric in METRICS]
    return name, *cells, f"{len(found)} of {len(handbook.FOLDS)}" if found else "", method.choices


def _by_days(rows: Sequence[Row]) -> Lines:
    table = [_days_line(days, name, rows) for days in handbook.DAYS for name in handbook.BY_DAYS]
    head = (
        "payments of",
        "method",
        *("AUC", "average precision", "card precision at 100"),
        "average precision by fold",
    )
    return [
        "### With weeks of payments",
        "",
        "The same folds and test rows, with only the payments of the last days: of 37 days, 23 to learn from, 7 of label "
        "delay and 7 to test. All methods see the same days, and learn from all of them that have labels. Figures are means "
        "over the folds that were run, whose average precision is given too.",
        "",
        *_table(head, table),
    ]


def _days_line(days: int | None, name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    found = _of(rows, "handbook-days", f"{name}, {handbook.last_days(days)}")
    cells = [_mean([getattr(row, metric) for row in found]) for metric in METRICS]
    folds = ", ".join(_mean([row.average_precision]) for row in sorted(found, key=lambda row: row.part))
    return handbook.last_days(days), name, *cells, folds


def _columns(rows: Sequence[Row]) -> Lines:
    names = {
        "the book's 15 columns, pandas": handbook.PANDAS,
        "the book's 15 columns, numpy": "the book's columns, our boosting, 30 days",
        "snapml's 333 graph features": "snapml's graph features, our boosting, 30 days",
        "the columns of PropagationFeatures": handbook.OURS,
    }
    table = []
    for shown, name in names.items():
        found = [row.column_seconds for row in _of(rows, "handbook", name) if row.part == "0"]
        table.append((shown, f"{float(found[0]):.1f}" if found else NOT_RUN))
    return [
        "### Time to make the columns",
        "",
        "CPU seconds, summed over threads, for all payments up to the end of the first fold's test days (the pandas columns "
        "by one rolling window per group).",
        "",
        *_table(("columns", "CPU seconds"), table),
    ]


# ---- attacks


def _darpa(rows: Sequence[Row]) -> Lines:
    table = [(f"{name}, published", value, "") for name, value in DARPA.items()]
    for name in DETECTORS:
        found = _of(rows, "darpa", name)
        table.append((name, _mean([row.auc for row in found]), f"{float(found[0].seconds):.0f}" if found else ""))
    return [
        "## Attacks in a network: DARPA 1998",
        "",
        '4,554,344 connections between 25,525 addresses, of which 60.1 % belong to attacks (`load_dataset("darpa")`). The '
        "detector sees no labels; the figure is the AUC of its scores over all rows, attack against not. The published "
        "figures are repeated from the literature on MIDAS.",
        "",
        *_table(("method", "AUC", "CPU seconds"), table),
        "",
        "Choices made on this data set: the parameters of the published methods as their authors chose them. Of our "
        "detector, the statistic (one of about ten) and the two time scales (the best of three pairs for it) were compared "
        "on the labels of this data set, so the figure is optimistic; they are the defaults.",
    ]


# ---- bans


def _wikipedia(rows: Sequence[Row]) -> Lines:
    table: list[tuple[str, ...]] = [
        (f"{name}, published, with 172 text features per edit", value, "") for name, value in WIKIPEDIA.items()
    ]
    table += [_setting_line(setting, rows) for setting in bans.SETTINGS]
    return [
        "## Bans on Wikipedia",
        "",
        '157,474 edits, of which 217 are the last before a ban (`load_dataset("wikipedia-bans")`). The edits are split by '
        "time into 70 %, 15 % and 15 %; the figure is the AUC, in per cent, of the last 15 %, which has few positive edits, "
        "as the interval shows. Every positive edit is the last one of its user, so that columns which look at later edits "
        "give the answer away: only the settings `forecast` and `stream` are compared. Published figures are means of ten "
        "runs; ours are means of the seeds 0, 1 and 2, use no text, and are fitted on the first 85 %.",
        "",
        *_table(("method", "AUC, %", "95 % interval (bootstrap of the test rows, mean of the seeds)"), table),
        "",
        f"Choices made on this data set: the setting, on the edits between 70 % and 85 % after training on the first 70 %: "
        f"{_validation(rows)}.",
    ]


def _setting_line(setting: str, rows: Sequence[Row]) -> tuple[str, ...]:
    found = _of(rows, "wikipedia-bans", setting)
    name = f"ours, PropagationClassifier(setting={setting!r})"
    if not found:
        return name, NOT_RUN, ""
    low, high = (100 * fmean(float(getattr(row, end)) for row in found) for end in ("low", "high"))
    return name, f"{100 * fmean(float(row.auc) for row in found):.1f}", f"{low:.1f} to {high:.1f}"


def _validation(rows: Sequence[Row]) -> str:
    aucs = {setting: _of(rows, "wikipedia-bans", f"{setting}, validation") for setting in bans.SETTINGS}
    if not all(aucs.values()):
        return NOT_RUN
    figures = {setting: 100 * float(found[0].auc) for setting, found in aucs.items()}
    words = " and ".join(f"`{setting}` {value:.1f}" for setting, value in figures.items())
    return f"{words}, so `{max(figures, key=lambda setting: figures[setting])}` is the figure to compare"


def _how() -> Lines:
    return [
        "## How it was measured",
        "",
        "`make payments`, or `python -m tdlg_paper.payments` with the package installed: it measures what has no row yet, "
        "and skips data sets whose file is not on the machine and methods whose package is not installed. Seconds are CPU "
        "seconds, because other work may share the machine.",
    ]


# ---- parts


def _of(rows: Sequence[Row], dataset: str, method: str) -> list[Row]:
    return [row for row in rows if (row.dataset, row.method) == (dataset, method)]


def _mean(values: Sequence[str]) -> str:
    """The mean to three decimals, written as the published figures are."""
    return f"{fmean(map(float, values)):.3f}".removeprefix("0") if values else NOT_RUN


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    marks = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(line)} |" for line in (head, marks, *rows)]
