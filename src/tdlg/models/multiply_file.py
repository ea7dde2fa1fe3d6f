"""multiply_file: multiply by the line graph of a file with more edges than memory holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tdlg.engines.buckets import RecordForm, map_buckets
from tdlg.engines.file_run import Callback, FileRun
from tdlg.engines.local import Engine
from tdlg.engines.output import Output
from tdlg.engines.product import ProductPlan, ProductTask, add_products, kinds_of_match
from tdlg.engines.row_values import RowValues
from tdlg.engines.sizes import record_memory
from tdlg.engines.statistics import BlockTask, Labels, look, ranges
from tdlg.engines.table import Block, InputTable
from tdlg.exceptions import Hint, ParameterError
from tdlg.linegraph.decay import Decay, Gaussian
from tdlg.linegraph.operator import Match, check_kind, check_tol
from tdlg.propagate.own_features import OwnColumn

if TYPE_CHECKING:
    import polars as pl

__all__ = ["multiply_file"]


def multiply_file(
    path: Any,
    output: Any,
    *,
    x: str | int | None = None,
    decay: Decay | None = None,
    match: Match = "any",
    past_only: bool = False,
    include_self: bool = True,
    tol: float = 1e-9,
    src: str | int | None = None,
    dst: str | int | None = None,
    time: str | int | None = None,
    bipartite: bool = False,
    time_format: str | None = None,
    time_unit: str | None = None,
    memory: Any = None,
    engine: Engine | str | None = None,
    folder: Any = None,
    callback: Callback | None = None,
) -> None:
    """Multiply the line graph of a parquet file by a column, within a limit of memory: `LineGraph(edges) @ x`.

    The result is the table with the column "product" added. A single product reads the edges once, sorts them into buckets
    by node, and adds what each bucket gives. Methods that need hundreds of products, such as `LineGraphClassifier` and
    `EdgeEmbedding`, are not offered for files.

    Parameters
    ----------
    path, output, memory, engine, folder, callback
        The same as for `classify_file`.
    x
        The column of numbers to multiply by, without missing values. By default all values are 1, so that the product has
        the row sums of the line graph.
    decay, match, past_only, include_self, tol
        The same as for `LineGraph`.
    src, dst, time, bipartite, time_format, time_unit
        The same as for `read_edges`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl
    >>> from tdlg import Laplace, multiply_file
    >>> home = pathlib.Path(tempfile.mkdtemp())
    >>> edges = pl.DataFrame({"src": ["ann", "bob", "ann"], "dst": ["bob", "cat", "cat"], "time": [0.0, 1.0, 3.0]})
    >>> edges.write_parquet(home / "edges.parquet")
    >>> multiply_file(home / "edges.parquet", home / "sums.parquet", decay=Laplace(1.0), memory="1GB")
    >>> pl.read_parquet(home / "sums.parquet")["product"].round(3).to_list()
    [2.418, 2.503, 2.185]
    """
    check_kind(decay, match)
    wanted = {"src": src, "dst": dst, "time": time}
    listed: Any = ([] if x is None else [x], [])
    table = InputTable.open(path, wanted, listed, bipartite=bipartite, time_format=time_format, time_unit=time_unit)
    of_run: Any = {"engine": engine, "memory": memory, "folder": folder, "callback": callback}
    decay = Gaussian() if decay is None else decay
    with FileRun.opened(table, Output.of(output), (decay, match, past_only, include_self, tol), **of_run) as run:
        run.say("reading")
        seen = look(run.engine, table, run.blocks)
        if seen.categories:
            raise ParameterError(
                f"The column {seen.categories[0]!r} has words, and a vector needs numbers.",
                Hint("Give a column of numbers as {x}.", x=...),
                parameter="x",
                value=x,
            )
        clock = seen.clock
        blocks = [BlockTask(table, block, clock=clock) for block in run.blocks]
        times = ranges(run.engine, blocks, ["all"])["all"]
        parts = decay.at_spread(times.deviation if times.high > times.low else 0.0, clock.unit).parts(clock.unit)
        check_tol(parts, tol)
        form = RecordForm(table.n_rows, clock, False, 0, tuple(OwnColumn(name, ()) for name in table.features))
        matches = _separate(match) if bipartite else [match]
        kinds = tuple(dict.fromkeys(kind for one in matches for kind in kinds_of_match(one)))
        two = 2 if match in ("any", "src-dst", "dst-src") else 1
        run.check_disk(table.n_rows * (len(kinds) * form.dtype.itemsize + two * (8 + form.dtype["row"].itemsize)))
        per_record = two * record_memory(form.dtype.itemsize, 2, 0, 1, 1.0)
        buckets = run.partition(form, Labels(), kinds, per_record)
        buckets = run.checked(buckets, lambda _: dict.fromkeys(kinds, per_record))
        values = RowValues(run.folder, table.n_rows, run.sizes.block, len(matches) * buckets.n_buckets)
        plans = [ProductPlan(one, parts, past_only, include_self, tol) for one in matches]
        every = [(plan, bucket) for plan in plans for bucket in range(buckets.n_buckets)]
        tasks = [ProductTask(plan, buckets, bucket, values, k) for k, (plan, bucket) in enumerate(every)]
        map_buckets(run.engine, add_products, tasks, run.progress("multiplying"))
        run.write(_Product(values))


def _separate(match: str) -> list[str]:
    """Matches that add up to a match if no source is the same node as a destination."""
    return {"any": ["src", "dst"], "src-dst": [], "dst-src": [], "reversed": []}.get(match, [match])


@dataclass(frozen=True)
class _Product:
    """The column of a product. Plain data, which tasks carry."""

    values: RowValues
    names: tuple[str, ...] = ("product",)

    def of_block(self, block: Block) -> Self:
        return self

    def columns(self, block: Block) -> list[pl.Series]:
        import polars as pl

        n = block.stop - block.start
        return [pl.Series(self.values.read(block.start, n, np.add) if n else np.zeros(0))]
