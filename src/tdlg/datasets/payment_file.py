"""write_payments: any number of synthetic payments as a parquet or csv file, written in chunks of constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tdlg.atomic import replacing, target_of
from tdlg.checks import as_generator, is_number
from tdlg.datasets.payments import (
    DAYS,
    LARGE_SHARE,
    START,
    Codes,
    Floats,
    Spells,
    checked_numbers,
    customer_spells,
    fraud_amounts,
    genuine_amounts,
    label_delays,
    sampled,
    scenarios,
    seconds_of_day,
    terminal_spells,
    towards_hubs,
    within_reach,
)
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["write_payments"]

PAYMENTS_AT_ONCE = 1_000_000  # payments that are in memory at once
ROW_GROUP = 500_000
HOMES = 100_000  # customers whose terminals are searched at once


def write_payments(
    path: Any,
    n: int,
    random_state: Any = None,
    *,
    n_customers: int | None = None,
    n_terminals: int | None = None,
    hubs: int = 0,
    unlabelled: float = 0.1,
    callback: Callable[[int, int], object] | None = None,
) -> None:
    """Write payments such as those of `make_payments` to a parquet or csv file, sorted by time.

    Memory grows with the customers and terminals, about 120 bytes each, and hardly with the payments: a million of them are
    in memory at once, and of the day that is written, the times. The same seed gives the same file, but not the payments of
    `make_payments` with that seed.

    Parameters
    ----------
    path
        The file to write: csv if its name ends in .csv, else parquet. Its columns are "customer" and "terminal" (text),
        "time", "amount", "fraud" (1, 0, or missing) and "known", the time at which the label becomes known.
    n
        Number of payments.
    random_state, n_customers, n_terminals, hubs
        The same as for `make_payments`.
    unlabelled
        Share of the latest payments whose label is missing. 0.1 by default.
    callback
        Called with the numbers of payments written so far and in total.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import read_edges, write_payments
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "payments.parquet"
    >>> write_payments(path, 2000, random_state=0)
    >>> read_edges(path, label="fraud")
    TemporalEdges(2,000 edges, 59 nodes, 2025-01-01 to 2025-06-30, label: 2 values (200 unknown), 1 feature, bipartite)
    """
    from polars.io.plugins import register_io_source

    n_customers, n_terminals = checked_numbers("write_payments", n, n_customers, n_terminals, hubs)
    if not is_number(unlabelled) or not 0 <= unlabelled < 1:
        raise ParameterError(
            f"The 'unlabelled' parameter of write_payments must be at least 0 and less than 1. Got {unlabelled!r} instead.",
            parameter="unlabelled",
        )
    rng = as_generator(random_state)
    world = _World.of(rng, n_customers, n_terminals)
    per_day = rng.multinomial(n, np.full(DAYS, 1 / DAYS))
    n_labelled = n - round(unlabelled * n)

    def chunks(wanted: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        done = 0
        for days in _days_of_chunks(per_day):
            for seconds in _seconds(rng, np.repeat(days, per_day[days])):
                frame = _frame(rng, world, seconds, hubs, n_labelled - done)
                done += len(frame)
                yield frame if wanted is None else frame.select(wanted)
                if callback is not None:
                    callback(done, n)

    schema = _frame(np.random.default_rng(0), world, np.zeros(1, np.int64), hubs, 1).schema
    rows = register_io_source(chunks, schema=schema)
    with replacing(target_of(path)) as draft:
        if str(path).lower().endswith(".csv"):
            rows.sink_csv(draft, datetime_format="%Y-%m-%dT%H:%M:%S")
        else:
            rows.sink_parquet(draft, row_group_size=ROW_GROUP)


class _World(NamedTuple):
    """Customers and terminals, one value each: payments up to each customer, terminals near, mean amounts, frauds."""

    busy: Floats
    near: Codes
    counts: Codes
    mean: Floats
    spells: tuple[Spells, Spells]

    @classmethod
    def of(cls, rng: np.random.Generator, n_customers: int, n_terminals: int) -> _World:
        busy = rng.gamma(2.0, size=n_customers)
        home, place = rng.random((n_customers, 2)), rng.random((n_terminals, 2))
        parts = [within_reach(home[at : at + HOMES], place) for at in range(0, n_customers, HOMES)]
        near = np.concatenate([near.astype(np.int32) for near, _ in parts])
        counts = np.concatenate([counts for _, counts in parts])
        spells = terminal_spells(rng, n_terminals), customer_spells(rng, n_customers)
        return cls(busy, near, counts, rng.uniform(5, 100, n_customers), spells)


def _days_of_chunks(per_day: Codes) -> Iterator[Codes]:
    """Days in a row that have at most `PAYMENTS_AT_ONCE` payments together; single days may have more."""
    chunk = np.cumsum(per_day) // PAYMENTS_AT_ONCE
    for number in np.unique(chunk):
        yield np.flatnonzero(chunk == number)


def _seconds(rng: np.random.Generator, day: Codes) -> list[Codes]:
    """The times of payments on these days in order, in parts of at most `PAYMENTS_AT_ONCE`."""
    seconds = np.sort(day * 86_400 + seconds_of_day(rng, len(day)))
    return np.array_split(seconds, max(-(-len(seconds) // PAYMENTS_AT_ONCE), 1))


def _frame(rng: np.random.Generator, world: _World, seconds: Codes, hubs: int, n_labelled: int) -> pl.DataFrame:
    """Payments at these times; the first `n_labelled` have a label."""
    import polars as pl

    n = len(seconds)
    customer = sampled(rng, world.busy, n)
    near = world.near[customer, (rng.random(n) ** 2 * world.counts[customer]).astype(np.int64)]
    terminal = towards_hubs(rng, near, hubs)
    amount = genuine_amounts(rng, world.mean[customer])
    scenario = scenarios(rng, rng.random(n) < LARGE_SHARE, (terminal, customer), world.spells, seconds / 86_400)
    time = START.astype("datetime64[ms]") + (seconds * 1000).astype("timedelta64[ms]")
    known = time + (label_delays(rng, n) * 1000).astype("timedelta64[ms]")
    return pl.DataFrame(
        {
            "customer": pl.Series(customer),
            "terminal": pl.Series(terminal),
            "time": time,
            "amount": fraud_amounts(rng, amount, scenario).round(2),
            "fraud": pl.Series((scenario > 0).astype(np.int8)),
            "known": known,
        }
    ).with_columns(
        pl.format("customer {}", pl.col("customer")).alias("customer"),
        pl.format("terminal {}", pl.col("terminal")).alias("terminal"),
        *(pl.when(pl.int_range(pl.len()) < n_labelled).then(name).alias(name) for name in ("fraud", "known")),
    )
