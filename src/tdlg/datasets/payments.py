"""Synthetic card payments: customers with habits, frauds of three kinds, and labels that become known later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tdlg.atomic import replacing, target_of
from tdlg.checks import as_generator, check_count, is_number
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

SCENARIOS = ("genuine", "large amount", "compromised terminal", "stolen card")
START = np.datetime64("2025-01-01", "s")
DAYS = 181  # January to June
NEAR = 10  # terminals within reach of a home, on average
MOST_TERMINALS = 20  # terminals within reach of a home, at most

LARGE_SHARE, LARGE_FROM = 0.003, 250.0  # share of the payments; no genuine amount is as large
COMPROMISED_SHARE, COMPROMISED_DAYS, COMPROMISED_RATE = 0.08, (28, 70), 0.8  # terminals, days, their payments
HUB_SHARE = 0.1  # of the payments, if there are hubs
STOLEN_SHARE, STOLEN_DAYS, STOLEN_RATE, STOLEN_FACTOR = 0.1, (7, 21), 0.6, 5.0  # customers, days, their payments

PAYMENTS_AT_ONCE = 1_000_000  # payments that are in memory at once
ROW_GROUP = 500_000
HOMES = 100_000  # customers whose terminals are searched at once


@dataclass(frozen=True, eq=False)
class Payments:
    """Synthetic payments from `make_payments`, sorted by time.

    Attributes
    ----------
    edges
        Payments from customers to terminals, with datetimes, the feature "amount", and the labels 1 (fraud) and 0
        (genuine), all of them known.
    label_time
        When each label becomes known, shape (n,), datetime64[s]: days to weeks after the payment. The delay does not
        depend on the label, so that it reveals nothing about it.
    scenario
        What each payment is, shape (n,): positions in `SCENARIOS`, which are 0 genuine, 1 large amount, 2 compromised
        terminal, 3 stolen card.

    Examples
    --------
    >>> from tdlg import make_payments
    >>> payments = make_payments(2000, random_state=0)
    >>> payments.edges
    TemporalEdges(2,000 edges, 60 nodes, 2025-01-01 to 2025-06-30, label: 2 values, 1 feature, bipartite)
    """

    edges: TemporalEdges
    label_time: NDArray[np.datetime64]
    scenario: Codes

    def known_at(self, time: Any) -> TemporalEdges:
        """Give all edges, with the labels that were known at a time; the other labels are missing.

        The rows are those of `edges`, so `payments.edges.label` still holds the labels to compare with.

        Parameters
        ----------
        time
            A datetime, a date or its text, such as "2025-06-01". A label that became known exactly then is included.

        Examples
        --------
        >>> from tdlg import make_payments
        >>> make_payments(2000, random_state=0).known_at("2025-06-01")
        TemporalEdges(2,000 edges, 60 nodes, 2025-01-01 to 2025-06-30, label: 2 values (437 unknown), 1 feature, bipartite)
        """
        try:
            moment = np.datetime64(time, "s")
        except (TypeError, ValueError):
            moment = np.datetime64("NaT")
        if np.isnat(moment):
            raise ParameterError(
                f"The 'time' parameter must be a datetime, a date or its text such as '2025-06-01'. Got {time!r} instead.",
                parameter="time",
            )
        return self.edges.with_label(np.where(self.label_time <= moment, self.scenario > 0, np.nan))


def make_payments(
    n: int = 10_000,
    random_state: Any = None,
    *,
    n_customers: int | None = None,
    n_terminals: int | None = None,
    hubs: int = 0,
) -> Payments:
    """Sample card payments of half a year, some of them frauds.

    Each customer has a home in the unit square, a mean amount and a number of payments per day, and pays at terminals
    within reach of the home, more often at near ones. There are three kinds of fraud:

    - large amount: the amount is larger than any genuine one;
    - compromised terminal: for four to ten weeks most payments at a terminal are frauds, with ordinary amounts;
    - stolen card: for one to three weeks most payments of a customer are frauds, with amounts five times as large.

    The design follows the simulator of the Fraud Detection Handbook (Le Borgne, Siblini, Lebichot and Bontempi, 2022).

    Parameters
    ----------
    n
        Number of payments.
    random_state
        Seed for sampling; the same seed gives the same payments.
    n_customers
        Number of customers, by default one per 50 payments: about two payments per customer and week. Customers
        without a payment do not occur in the edges. Their ids are "customer 0", "customer 1", ...
    n_terminals
        Number of terminals, by default one per 100 payments. Their ids are "terminal 0", "terminal 1", ...
    hubs
        Number of terminals that customers from everywhere pay at, like online shops: together they have a tenth of the
        payments. They are the first terminals. 0 by default.

    Returns
    -------
    Payments
        The edges, when each label becomes known, and which kind of fraud each payment is.

    Examples
    --------
    >>> from tdlg import make_payments
    >>> payments = make_payments(random_state=0)
    >>> float(payments.edges.label.mean().round(2))
    0.03
    >>> edges = payments.edges
    >>> edges.src[0], edges.dst[0], edges.features[0].tolist()
    ('customer 73', 'terminal 16', [52.41])
    """
    n_customers, n_terminals = _checked_numbers("make_payments", n, n_customers, n_terminals, hubs)
    rng = as_generator(random_state)
    customer = _sampled(rng, rng.gamma(2.0, size=n_customers), n)  # payments per day differ between customers
    near, counts = within_reach(rng.random((n_customers, 2)), rng.random((n_terminals, 2)))
    terminal = _towards_hubs(rng, near[customer, (rng.random(n) ** 2 * counts[customer]).astype(np.int64)], hubs)
    of_day = _seconds_of_day(rng, n)
    seconds = np.sort(rng.integers(0, DAYS, n) * 86_400 + of_day)
    amount = _genuine_amounts(rng, rng.uniform(5, 100, n_customers)[customer])
    large = np.zeros(n, bool)
    large[rng.choice(n, max(1, round(LARGE_SHARE * n)), replace=False)] = True
    spells = _spells(rng, n_terminals, n_customers)
    scenario = _scenarios(rng, large, (terminal, customer), spells, seconds / 86_400)
    amount = _fraud_amounts(rng, amount, scenario)
    delay = _label_delays(rng, n)
    time = START + seconds.astype("timedelta64[s]")
    edges = TemporalEdges(
        np.array([f"customer {at}" for at in range(n_customers)], object)[customer],
        np.array([f"terminal {at}" for at in range(n_terminals)], object)[terminal],
        time,
        label=(scenario > 0).astype(np.int64),
        features={"amount": amount.round(2)},
        bipartite=True,
    )
    return Payments(edges, time + delay.astype("timedelta64[s]"), scenario)


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

    n_customers, n_terminals = _checked_numbers("write_payments", n, n_customers, n_terminals, hubs)
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
        chunk = np.cumsum(per_day) // PAYMENTS_AT_ONCE  # of days in a row; single days may have more payments
        for number in np.unique(chunk):
            days = np.flatnonzero(chunk == number)
            day = np.repeat(days, per_day[days])
            of_days = np.sort(day * 86_400 + _seconds_of_day(rng, len(day)))
            for seconds in np.array_split(of_days, max(-(-len(of_days) // PAYMENTS_AT_ONCE), 1)):
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


# ---- parts of both


def _checked_numbers(
    owner: str, n: int, n_customers: int | None, n_terminals: int | None, hubs: int
) -> tuple[int, int]:
    """The numbers of customers and terminals; all numbers are checked."""
    check_count(owner, "n", n, 1)
    n_customers = max(2, n // 50) if n_customers is None else n_customers
    n_terminals = max(2, n // 100) if n_terminals is None else n_terminals
    for name, value, least in (("n_customers", n_customers, 1), ("n_terminals", n_terminals, 1), ("hubs", hubs, 0)):
        check_count(owner, name, value, least)
    if hubs > n_terminals:
        raise ParameterError(
            f"The 'hubs' parameter of {owner} must be at most the number of terminals, {n_terminals:,}. Got {hubs:,}.",
            parameter="hubs",
        )
    return n_customers, n_terminals


def _towards_hubs(rng: np.random.Generator, terminal: Codes, hubs: int) -> Codes:
    """The terminals of payments, of which a share goes to the first ones, the hubs."""
    if not hubs:
        return terminal
    return np.where(rng.random(len(terminal)) < HUB_SHARE, rng.integers(0, hubs, len(terminal)), terminal)


def _seconds_of_day(rng: np.random.Generator, n: int) -> Codes:
    """Times of day, mostly around 14 o'clock."""
    return np.clip(rng.normal(14 * 3600, 4 * 3600, n), 0, 86_399).astype(np.int64)


def _genuine_amounts(rng: np.random.Generator, mean: Floats) -> Floats:
    """Amounts around the mean of each payment's customer."""
    return np.clip(mean * rng.lognormal(-0.045, 0.3, len(mean)), 0.5, LARGE_FROM - 0.01)


def _fraud_amounts(rng: np.random.Generator, amount: Floats, scenario: Codes) -> Floats:
    """The amounts, changed where a fraud has others."""
    amount = np.where(scenario == 1, LARGE_FROM + rng.exponential(150, len(amount)), amount)
    return np.where(scenario == 3, STOLEN_FACTOR * amount, amount)


def _label_delays(rng: np.random.Generator, n: int) -> Codes:
    """Seconds until labels are known: a day and about ten more."""
    return 86_400 + (rng.gamma(2.0, 5.0, n) * 86_400).astype(np.int64)


def _scenarios(
    rng: np.random.Generator,
    large: NDArray[np.bool_],
    nodes: tuple[Codes, Codes],
    spells: tuple[_Spells, _Spells],
    day: Floats,
) -> Codes:
    """The kind of each payment; where several kinds of fraud apply, the last of `SCENARIOS`."""
    compromised, stolen = (spell.inside(node, day) for spell, node in zip(spells, nodes, strict=True))
    scenario = large.astype(np.int64)
    scenario[compromised & (rng.random(len(day)) < COMPROMISED_RATE)] = 2
    scenario[stolen & (rng.random(len(day)) < STOLEN_RATE)] = 3
    return scenario


class _Spells(NamedTuple):
    """When each node is in the hands of fraudsters: some days in a row, which start at infinity for most nodes."""

    start: Floats
    length: Floats

    @classmethod
    def of(cls, rng: np.random.Generator, n_nodes: int, share: float, days: tuple[int, int]) -> _Spells:
        """Spells of a share of the nodes."""
        start = np.full(n_nodes, np.inf)
        chosen = rng.choice(n_nodes, max(1, round(share * n_nodes)), replace=False)
        start[chosen] = rng.uniform(0, DAYS - days[0], len(chosen))
        return cls(start, rng.uniform(*days, n_nodes))

    def inside(self, node: Codes, day: Floats) -> NDArray[np.bool_]:
        """Whether each payment falls into the spell of its node."""
        since = day - self.start[node]
        return (since >= 0) & (since < self.length[node])


def _spells(rng: np.random.Generator, n_terminals: int, n_customers: int) -> tuple[_Spells, _Spells]:
    """When terminals are compromised and cards are stolen."""
    compromised = _Spells.of(rng, n_terminals, COMPROMISED_SHARE, COMPROMISED_DAYS)
    return compromised, _Spells.of(rng, n_customers, STOLEN_SHARE, STOLEN_DAYS)


def _sampled(rng: np.random.Generator, weight: Floats, n: int) -> Codes:
    """Positions in proportion to their weights, shape (n,)."""
    edge = np.cumsum(weight)
    return np.minimum(np.searchsorted(edge, rng.random(n) * edge[-1], side="right"), len(weight) - 1)


def within_reach(home: Floats, place: Floats) -> tuple[Codes, Codes]:
    """The terminals nearest to each home, the nearest first, and how many of them are within reach: at least one."""
    from scipy.spatial import KDTree

    k = min(MOST_TERMINALS, len(place))
    distance, near = KDTree(place).query(home, k=range(1, k + 1))
    reach = np.sqrt(NEAR / (np.pi * len(place)))
    return near, np.maximum(np.count_nonzero(distance <= reach, axis=1), 1)


# ---- payments in chunks


class _World(NamedTuple):
    """Customers and terminals, one value each: payments up to each customer, terminals near, mean amounts, frauds."""

    busy: Floats
    near: Codes
    counts: Codes
    mean: Floats
    spells: tuple[_Spells, _Spells]

    @classmethod
    def of(cls, rng: np.random.Generator, n_customers: int, n_terminals: int) -> _World:
        busy = rng.gamma(2.0, size=n_customers)
        home, place = rng.random((n_customers, 2)), rng.random((n_terminals, 2))
        parts = [within_reach(home[at : at + HOMES], place) for at in range(0, n_customers, HOMES)]
        near = np.concatenate([near.astype(np.int32) for near, _ in parts])
        counts = np.concatenate([counts for _, counts in parts])
        spells = _spells(rng, n_terminals, n_customers)
        return cls(busy, near, counts, rng.uniform(5, 100, n_customers), spells)


def _frame(rng: np.random.Generator, world: _World, seconds: Codes, hubs: int, n_labelled: int) -> pl.DataFrame:
    """Payments at these times; the first `n_labelled` have a label."""
    n = len(seconds)
    customer = _sampled(rng, world.busy, n)
    near = world.near[customer, (rng.random(n) ** 2 * world.counts[customer]).astype(np.int64)]
    terminal = _towards_hubs(rng, near, hubs)
    amount = _genuine_amounts(rng, world.mean[customer])
    scenario = _scenarios(rng, rng.random(n) < LARGE_SHARE, (terminal, customer), world.spells, seconds / 86_400)
    time = START.astype("datetime64[ms]") + (seconds * 1000).astype("timedelta64[ms]")
    known = time + (_label_delays(rng, n) * 1000).astype("timedelta64[ms]")
    return pl.DataFrame(
        {
            "customer": pl.Series(customer),
            "terminal": pl.Series(terminal),
            "time": time,
            "amount": _fraud_amounts(rng, amount, scenario).round(2),
            "fraud": pl.Series((scenario > 0).astype(np.int8)),
            "known": known,
        }
    ).with_columns(
        pl.format("customer {}", pl.col("customer")).alias("customer"),
        pl.format("terminal {}", pl.col("terminal")).alias("terminal"),
        *(pl.when(pl.int_range(pl.len()) < n_labelled).then(name).alias(name) for name in ("fraud", "known")),
    )
