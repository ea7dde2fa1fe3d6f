"""outliers_file: find bursts in a file with more edges than memory holds."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tdlg.clock import Duration
from tdlg.engines.buckets import RecordForm, map_buckets
from tdlg.engines.bursts import BurstsTask, RowValues, find_bursts
from tdlg.engines.file_run import Callback, FileRun
from tdlg.engines.output import Output
from tdlg.engines.sizes import record_memory
from tdlg.engines.summary import Labels, summarise
from tdlg.engines.table import Block, InputTable
from tdlg.linegraph.decay import Decay, time_spread
from tdlg.models.bursts import burst_widths, rare_surprise
from tdlg.propagate.bursts import KEYS

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FileOutliers", "outliers_file"]

DIGITS = 6  # of scores


@dataclass
class FileOutliers:
    """What `outliers_file` found.

    Attributes
    ----------
    n_rows
        The number of rows.
    threshold
        The outlier score above which a row is an outlier.
    fast, slow
        The two decays with their widths fixed.
    time_unit
        The unit of the times; None for numbers.
    """

    n_rows: int
    threshold: float
    fast: Decay
    slow: Decay
    time_unit: str | None


def outliers_file(
    path: Any,
    output: Any,
    *,
    src: str | int | None = None,
    dst: str | int | None = None,
    time: str | int | None = None,
    bipartite: bool = False,
    time_format: str | None = None,
    time_unit: str | None = None,
    fast: float | Duration | None = None,
    slow: float | Duration | None = None,
    memory: Any = None,
    engine: Executor | str | None = None,
    folder: Any = None,
    callback: Callback | None = None,
) -> FileOutliers:
    """Find bursts in a parquet file, within a limit of memory: `BurstDetector` for more edges than fit.

    The result is the table with the columns "outlier_score" and "outlier" added, as of `tdlg outliers --method burst`. The
    surprises are computed in buckets by source, destination and pair.

    Parameters
    ----------
    path, output, memory, engine, folder, callback
        The same as for `classify_file`.
    src, dst, time, bipartite, time_format, time_unit
        The same as for `read_edges`.
    fast, slow
        The same as for `BurstDetector`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import outliers_file, write_payments
    >>> home = pathlib.Path(tempfile.mkdtemp())
    >>> write_payments(home / "payments.parquet", 2000, random_state=0)
    >>> found = outliers_file(home / "payments.parquet", home / "scored.parquet", memory="2GB")
    >>> found.n_rows, round(found.threshold, 2)
    (2000, 3.78)
    """
    wanted = {"src": src, "dst": dst, "time": time}
    table = InputTable.open(path, wanted, bipartite=bipartite, time_format=time_format, time_unit=time_unit)
    of_run: Any = {"engine": engine, "memory": memory, "folder": folder, "callback": callback}
    with FileRun.opened(table, Output.of(output), ("bursts", fast, slow), **of_run) as run:
        run.say("reading")
        summary = summarise(run.engine, table, run.blocks)
        clock, spread = summary.clock, time_spread(summary.clock.ticks(summary.kept(table)))
        del summary  # its kept rows
        decays = burst_widths(fast, slow, spread, clock.unit)
        form = RecordForm(table.n_rows, clock, late=False, n_classes=0)
        run.check_disk(len(KEYS) * table.n_rows * (form.dtype.itemsize + 8 + form.dtype["row"].itemsize))
        per_record = record_memory(form.dtype.itemsize, 1, 0, 1, 1.0)
        buckets = run.partition(form, Labels(), KEYS, per_record)
        buckets = run.checked(buckets, lambda _: dict.fromkeys(KEYS, per_record))
        values = RowValues(run.folder, table.n_rows, run.sizes.block, len(KEYS) * buckets.n_buckets)
        widths = [decay.parts(clock.unit)[0].bandwidth for decay in decays]
        every = [(kind, bucket) for kind in KEYS for bucket in range(buckets.n_buckets)]
        tasks = [BurstsTask(buckets, *one, values, k, *widths) for k, one in enumerate(every)]
        map_buckets(run.engine, find_bursts, tasks, run.progress("looking for bursts"))
        threshold = rare_surprise(table.n_rows)
        run.write(_BurstAnswers(values, threshold))
    return FileOutliers(table.n_rows, threshold, *decays, clock.unit)


@dataclass(frozen=True)
class _BurstAnswers:
    """The columns of bursts. Plain data, which tasks carry."""

    values: RowValues
    threshold: float
    names: tuple[str, ...] = ("outlier_score", "outlier")

    def of_block(self, block: Block) -> Self:
        return self

    def columns(self, block: Block) -> list[pl.Series]:
        import polars as pl

        n = block.stop - block.start
        scores = self.values.largest(block.start, n) if n else np.zeros(0)
        return [pl.Series(scores).round_sig_figs(DIGITS), pl.Series((scores > self.threshold).astype(np.int64))]
