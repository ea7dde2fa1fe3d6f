"""Results of `evaluate`: one row per trial and setting, kept in a csv file, and means over trials."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tdlg import __version__
from tdlg.atomic import new_file
from tdlg.exceptions import ParameterError, ReadError

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "COLUMNS",
    "Key",
    "Result",
    "append_rows",
    "as_frame",
    "check_same",
    "read_results",
    "read_rows",
    "summarise",
]

Key: TypeAlias = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Result:
    """One trial in one setting.

    Attributes
    ----------
    dataset, task, method, settings
        What was done: `settings` are the parameters of the method that differ from their defaults.
    seed
        The seed of the trial.
    auc, average_precision
        Area under the ROC curve and average precision on the edges to score. With more than two classes, the mean over the
        classes, each against the rest.
    embed_seconds, fit_seconds, predict_seconds
        Wall-clock time of the three steps, in seconds. Settings that share a fit, as in link prediction, have the same
        embed_seconds and fit_seconds.
    alert_precision, alert_recall
        Precision and recall of the 100 edges with the highest scores for the positive class: if fraud is rare, these are
        the alerts that a person can check. The positive class is set by `evaluate(positive=...)`; by default it follows
        the rule of `tdlg.explain.positive.positive_class`.
    peak_bytes
        Growth of the process's memory during the trial, in bytes; NaN where the system does not report it.
    n_train, n_test
        Number of training edges and of edges to score.
    version
        The version of tdlg that measured the row.
    fingerprint
        A digest of the edges, their labels, and the split into training edges and edges to score: equal for equal trials.
        Empty in rows of files from before this column existed.
    """

    dataset: str
    task: str
    method: str
    settings: str
    seed: int
    auc: float
    average_precision: float
    alert_precision: float
    alert_recall: float
    embed_seconds: float
    fit_seconds: float
    predict_seconds: float
    peak_bytes: float
    n_train: int
    n_test: int
    version: str
    fingerprint: str = ""

    @property
    def key(self) -> Key:
        """The values that identify a row of a file."""
        return self.dataset, self.task, self.method, self.settings, self.seed


COLUMNS = {field.name: {"str": str, "int": int, "float": float}[str(field.type)] for field in fields(Result)}
OLD_COLUMNS = [name for name in COLUMNS if name != "fingerprint"]  # of files from before there was one


def read_results(path: str | os.PathLike[str]) -> pl.DataFrame:
    """Read the rows that `evaluate` appended to a file.

    Parameters
    ----------
    path
        The csv file. An incomplete last line is ignored.

    Returns
    -------
    polars.DataFrame
        See `Result` for the columns.
    """
    if not Path(path).exists():
        raise ReadError(
            f"There is no file {str(path)!r}.",
            "Give the path that `evaluate(..., path=...)` wrote to.",
        )
    return as_frame(read_rows(Path(path)))


def as_frame(rows: Sequence[Result]) -> pl.DataFrame:
    """Rows of results as a table."""
    import polars as pl

    types = {str: pl.String, int: pl.Int64, float: pl.Float64}
    return pl.DataFrame([asdict(row) for row in rows], schema={name: types[kind] for name, kind in COLUMNS.items()})


def summarise(
    rows: pl.DataFrame, by: Sequence[str] = ("dataset", "task", "method", "settings"), metric: str = "auc"
) -> pl.DataFrame:
    """Compute means over trials, with the half width of their 95 % confidence interval (Student's t).

    Parameters
    ----------
    rows
        Rows as returned by `evaluate` or `read_results`.
    by
        The columns to group by.
    metric
        The column to average; "auc" by default.

    Returns
    -------
    polars.DataFrame
        The groups in order of appearance, with `mean`, `half_width` (NaN for a single trial), `trials`, and the mean
        `seconds` of all three steps.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"dataset": ["a"] * 3, "auc": [0.5, 0.75, 1.0],
    ...     "embed_seconds": 1.0, "fit_seconds": 2.0, "predict_seconds": 0.5})
    >>> summarise(rows, by=["dataset"]).to_dicts()
    [{'dataset': 'a', 'mean': 0.75, 'half_width': 0.62103442793758..., 'trials': 3, 'seconds': 3.5}]
    """
    import polars as pl
    from scipy.stats import t

    seconds = pl.col("embed_seconds") + pl.col("fit_seconds") + pl.col("predict_seconds")
    table = rows.group_by(list(by), maintain_order=True).agg(
        pl.col(metric).mean().alias("mean"),
        (pl.col(metric).std() / pl.len().sqrt()).fill_null(float("nan")).alias("half_width"),
        pl.len().cast(pl.Int64).alias("trials"),
        seconds.mean().alias("seconds"),
    )
    quantile = t.ppf(0.975, np.maximum(table["trials"].to_numpy() - 1, 1))
    return table.with_columns(pl.col("half_width") * quantile)


# ---- rows of a file


def read_rows(path: Path) -> list[Result]:
    """The rows of a file; an empty list if the file does not exist yet."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8")
    lines = csv.DictReader(io.StringIO(whole[: whole.rfind("\n") + 1]))
    if lines.fieldnames is not None and list(lines.fieldnames) not in (list(COLUMNS), OLD_COLUMNS):
        raise ReadError(
            f"The file {str(path)!r} does not hold results: its columns are {lines.fieldnames}. "
            f"Expected {list(COLUMNS)}. Give another path, or move that file away."
        )
    try:
        return [Result(**{name: COLUMNS[name](value) for name, value in line.items()}) for line in lines]
    except (TypeError, ValueError):
        raise ReadError(
            f"Line {lines.line_num} of {str(path)!r} does not hold a result. Correct or remove it."
        ) from None


def append_rows(path: Path, results: Sequence[Result]) -> None:
    """Add rows in one write, after removing a last line that was left unfinished; give an old file the new columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.read_bytes() if path.exists() else b""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    is_old = whole.partition(b"\n")[0].rstrip() == ",".join(OLD_COLUMNS).encode()
    if is_old or b"\n" not in whole:
        writer.writeheader()
    writer.writerows(_rounded(asdict(result)) for result in [*(read_rows(path) if is_old else []), *results])
    if is_old:
        with new_file(path) as file:
            file.write(text.getvalue().encode())
        return
    with path.open("a+b") as file:
        file.truncate(whole.rfind(b"\n") + 1)
        file.write(text.getvalue().encode())


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """More digits than anybody reads make the files that are kept hard to compare."""
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}


def check_same(path: Any, row: Result, sizes: tuple[int, int], fingerprint: str, any_version: bool) -> None:
    """Refuse a row of another experiment that has the same names.

    Parameters
    ----------
    path, row
        The file, and its row with the names of the trial.
    sizes, fingerprint
        The numbers of training edges and of edges to score, and the digest of the trial.
    any_version
        Whether rows of other versions of this package are accepted.
    """
    what = f"The file {str(path)!r} has a row for {row.dataset!r}, {row.task}, {row.method}, seed {row.seed} that"
    if (row.n_train, row.n_test) != sizes:
        raise ParameterError(
            f"{what} learnt from {row.n_train:,} edges and scored {row.n_test:,}, not {sizes[0]:,} and {sizes[1]:,} as "
            "here.",
            "Give these edges another dataset= name, or pass another path=.",
            parameter="path",
        )
    if row.fingerprint not in ("", fingerprint):
        raise ParameterError(
            f"{what} was measured on other edges, labels or splits, or for another positive class.",
            "Give these edges another dataset= name, or pass another path=.",
            parameter="path",
        )
    if not any_version and (row.version != __version__ or not row.fingerprint):
        was = (
            f"tdlg {row.version} measured"
            if row.version != __version__
            else "does not say which edges it was measured on"
        )
        now = f"; this is tdlg {__version__}" if row.version != __version__ else ""
        raise ParameterError(
            f"{what} {was}{now}. Give another path.",
            "Or pass any_version=True to accept rows of other versions.",
            parameter="path",
        )
