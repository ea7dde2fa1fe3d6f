"""Products of a bucket: what `LineGraph @ x` computes for all edges, for the keys of a bucket."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import BOTH, PAST
from tdlg.engines.buckets import KIND_OF, Buckets
from tdlg.engines.columns import own_columns
from tdlg.engines.keys import reversed_pairs
from tdlg.engines.row_values import RowValues
from tdlg.engines.split_file import read_split
from tdlg.engines.store import exists
from tdlg.exceptions import EdgesError, Hint, ParameterError
from tdlg.linegraph.decay import Part
from tdlg.linegraph.events import Layout
from tdlg.linegraph.operator import LARGEST_VALUE
from tdlg.linegraph.product import multiply
from tdlg.linegraph.walks import walks_of

__all__ = ["ProductPlan", "ProductTask", "add_products", "kinds_of_match", "many_products"]

Records = NDArray[np.void]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProductPlan:
    """What determines a product. Plain data, which tasks carry.

    Attributes
    ----------
    match
        One of the matches of `LineGraph`.
    parts
        The decay, with bandwidths in ticks.
    past_only, include_self, tol
        The same as for `LineGraph`.
    """

    match: str
    parts: tuple[Part, ...]
    past_only: bool
    include_self: bool
    tol: float


@dataclass(frozen=True)
class ProductTask:
    """Multiply by the part of the line graph that the keys of one bucket make. Plain data, which an engine sends.

    The vector is the first feature of the records; without features, all its values are 1.

    Attributes
    ----------
    plan
        The product.
    buckets, bucket
        Where the records are, and the number of the bucket.
    values, number
        Where the products go, to be added for each row, and the number of the file.
    """

    plan: ProductPlan
    buckets: Buckets
    bucket: int
    values: RowValues
    number: int


def many_products(who: str, parameter: str, *hints: Hint) -> ParameterError:
    """The error for methods that need hundreds of products, each of which reads and writes all buckets.

    Parameters
    ----------
    who
        The method or the model.
    parameter
        The parameter by which it was asked for.
    hints
        What to do instead.
    """
    return ParameterError(
        f"{who} needs hundreds of products with the line graph, one after the other. For a file in buckets, on one machine "
        "or on a cluster, each product reads and writes all edges, so only single products are offered.",
        *hints,
        "Or take a part of the edges that fits into memory.",
        parameter=parameter,
        value=who,
    )


def kinds_of_match(match: str) -> tuple[str, ...]:
    """The kinds of keys that a match needs."""
    return ("src", "dst") if match in ("any", "src-dst", "dst-src") else (KIND_OF[match],)


def add_products(task: ProductTask) -> None:
    """Write what a bucket adds to the product of each of its rows. A file that is there already stays."""
    if exists(task.values.path(task.number)):
        return
    rows, cols = _records(task)
    x = cols["own0"].copy() if task.buckets.form.own else np.ones(len(cols))
    if not np.isfinite(x).all():
        row = int(cols["row"][~np.isfinite(x)].min())
        raise EdgesError(
            f"The column {task.buckets.form.own[0].name!r} has no number in row {row + 1:,}, and a vector needs one in each "
            "row. Fill in the missing values, for example with 0."
        )
    plan = task.plan
    layout = _layout(rows, cols, task)
    own = sum(part.weight for part in plan.parts) if plan.include_self and not plan.past_only else 0.0
    is_tame = not len(x) or float(np.abs(x).max()) < LARGEST_VALUE
    walks = walks_of(plan.parts, plan.tol, use_vectors=None if is_tame else False)
    y = multiply(layout, walks, x[:, np.newaxis], PAST if plan.past_only else BOTH, own, 1)[:, 0]
    task.values.write(task.number, rows["row"], y)


def _records(task: ProductTask) -> tuple[Records, Records]:
    """The records of rows and of columns; one and the same array for most matches."""
    one, match = range(task.bucket, task.bucket + 1), task.plan.match
    some = [read_split(task.buckets.paths(kind), one) for kind in kinds_of_match(match)]
    if match == "any":
        src, dst = some
        at = own_columns(dst["row"], src["row"])
        is_loop = (at >= 0) & (src["key"][at] == dst["key"]) if len(src) else np.zeros(len(dst), bool)
        both = np.concatenate([src, dst[~is_loop]])  # a self-loop has one end
        return both, both
    rows, cols = {"src-dst": some, "dst-src": some[::-1]}.get(match, (some[0], some[0]))
    return rows, cols


def _layout(rows: Records, cols: Records, task: ProductTask) -> Layout:
    """The events of a bucket: each record has one."""
    from tdlg._kernels.ids import factorise_integers
    from tdlg._kernels.layout import place_rectangular, place_symmetric

    form, match = task.buckets.form, task.plan.match
    is_square = rows is cols and match != "reversed"
    row_keys, col_keys = (np.ascontiguousarray(some["key"]) for some in (rows, cols))
    row_keys = reversed_pairs(row_keys) if match == "reversed" else row_keys
    ids, col_codes, row_codes = factorise_integers(
        col_keys.view(np.int64), row_keys.view(np.int64)[: 0 if is_square else None]
    )
    row_ticks, col_ticks = (np.ascontiguousarray(form.times(some["tick"])) for some in (rows, cols))
    if is_square:
        source, gap, slots = place_symmetric(col_codes[:, np.newaxis], len(ids), col_ticks)
        return Layout(source, source, gap, slots, slots, col_ticks, col_ticks, None)
    own = own_columns(rows["row"], cols["row"])
    codes = row_codes[:, np.newaxis], col_codes[:, np.newaxis]
    events = place_rectangular(*codes, len(ids), row_ticks, col_ticks, np.asarray(own, np.int64))
    source, target, gap, row_slots, col_slots = events
    return Layout(source, target, gap, row_slots, col_slots, row_ticks, col_ticks, None)
