"""Synthetic payments: the same for the same seed, frauds of three kinds, labels that arrive later."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdlg.datasets.payments import (
    DAYS,
    LARGE_FROM,
    MOST_TERMINALS,
    SCENARIOS,
    START,
    make_payments,
    within_reach,
    write_payments,
)
from tdlg.exceptions import ParameterError


@pytest.fixture(scope="module")
def payments():
    return make_payments(random_state=0)


def as_tuples(payments):
    edges = payments.edges
    columns = (edges.src, edges.dst, edges.time, edges.label, edges.features[:, 0], payments.label_time)
    return list(zip(*columns, payments.scenario, strict=True))


def test_the_same_seed_gives_the_same_payments():
    first, again, other = (as_tuples(make_payments(500, seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_what_the_edges_hold(payments):
    edges = payments.edges
    assert len(edges) == 10_000
    assert edges.bipartite
    assert edges.feature_names == ("amount",)
    assert set(edges.src) <= {f"customer {at}" for at in range(200)}
    assert set(edges.dst) <= {f"terminal {at}" for at in range(100)}
    assert np.all(np.diff(edges.time) >= np.timedelta64(0))
    assert START <= edges.time.min() < edges.time.max() < START + np.timedelta64(DAYS, "D")
    assert np.array_equal(edges.label, payments.scenario > 0)


@pytest.mark.parametrize("seed", range(5))
def test_three_kinds_of_fraud_in_plausible_shares(seed):
    payments = make_payments(20_000, seed)
    share = np.bincount(payments.scenario, minlength=len(SCENARIOS)) / 20_000
    assert 0.96 < share[0] < 0.99
    assert np.all(share[1:] > 0.001)
    assert np.all(share[1:] < 0.03)


def test_amounts_of_frauds(payments):
    amount, edges, scenario = payments.edges.features[:, 0], payments.edges, payments.scenario
    assert amount.min() > 0
    assert amount[scenario == 1].min() >= LARGE_FROM
    assert amount[np.isin(scenario, (0, 2))].max() < LARGE_FROM
    genuine = {src: amount[(edges.src == src) & (scenario == 0)].mean() for src in set(edges.src[scenario == 3])}
    times = [own / genuine[src] for own, src in zip(amount[scenario == 3], edges.src[scenario == 3], strict=True)]
    assert 4 < np.mean(times) < 6


@pytest.mark.parametrize(("kind", "column", "days"), [(2, "dst", 70), (3, "src", 21)])
def test_frauds_of_a_terminal_or_a_card_are_within_weeks(payments, kind, column, days):
    nodes, time = getattr(payments.edges, column), payments.edges.time
    fraud = payments.scenario == kind
    hit = set(nodes[fraud])
    assert 5 <= len(hit) <= 20
    for node in hit:
        assert np.ptp(time[fraud & (nodes == node)]) <= np.timedelta64(days, "D")


def test_customers_pay_at_terminals_near_their_homes():
    rng = np.random.default_rng(0)
    home, place = rng.random((50, 2)), rng.random((300, 2))
    near, counts = within_reach(home, place)
    distance = np.linalg.norm(home[:, None] - place, axis=2)
    reach = np.sqrt(10 / (np.pi * 300))
    for row in range(50):
        within = np.flatnonzero(distance[row] <= reach)
        n = max(1, min(MOST_TERMINALS, len(within)))
        expected = within if len(within) == n else np.argsort(distance[row])[:n]
        assert set(near[row, : counts[row]]) == set(expected)


def test_customers_keep_to_few_terminals(payments):
    edges = payments.edges
    for customer in set(edges.src):
        assert len(set(edges.dst[edges.src == customer])) <= MOST_TERMINALS


def test_labels_arrive_days_to_weeks_later_and_the_delay_reveals_nothing(payments):
    delay = (payments.label_time - payments.edges.time) / np.timedelta64(1, "D")
    assert delay.min() >= 1
    assert 9 < delay.mean() < 13
    fraud = payments.edges.label == 1
    assert abs(delay[fraud].mean() - delay[~fraud].mean()) < 3 * delay.std() / np.sqrt(fraud.sum())


def test_labels_known_at_a_time(payments):
    moment = payments.label_time[5000]  # the label that arrives then is known then
    edges = payments.known_at(moment)
    known = payments.label_time <= moment
    assert known[5000]
    assert np.array_equal(edges.labelled, known)
    assert np.array_equal(edges.label[known], payments.edges.label[known])
    assert edges.same_table(payments.edges)
    assert not payments.known_at("2024-12-31").labelled.any()
    assert payments.known_at("2027-01-01").labelled.all()


@pytest.mark.parametrize("time", ["soon", None, object()])
def test_a_time_that_is_not_one_is_refused(payments, time):
    with pytest.raises(ParameterError, match="The 'time' parameter must be a datetime"):
        payments.known_at(time)


@pytest.mark.parametrize("name", ["n", "n_customers", "n_terminals"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_numbers_that_are_not_counts_are_refused(name, value):
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of make_payments must be a whole number"):
        make_payments(**{name: value})


@given(st.integers(1, 60), st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_any_size_works(n, n_customers, n_terminals, seed):
    payments = make_payments(n, seed, n_customers=n_customers, n_terminals=n_terminals)
    edges = payments.edges
    assert len(edges) == len(payments.label_time) == len(payments.scenario) == n
    assert {*edges.src} <= {f"customer {at}" for at in range(n_customers)}
    assert {*edges.dst} <= {f"terminal {at}" for at in range(n_terminals)}
    assert np.all(edges.features > 0)
    assert np.all(payments.label_time > edges.time)


def test_hubs_have_a_tenth_of_the_payments():
    edges = make_payments(5000, 0, hubs=2).edges
    share = np.isin(edges.dst, ["terminal 0", "terminal 1"]).mean()
    assert 0.08 < share < 0.14
    with pytest.raises(ParameterError, match="at most the number of terminals, 50"):
        make_payments(5000, hubs=51)


def test_payments_in_chunks_are_sorted_and_the_same_for_the_same_seed(tmp_path, monkeypatch):
    monkeypatch.setattr("tdlg.datasets.payments.PAYMENTS_AT_ONCE", 300)
    done = []
    for name in ("a.parquet", "b.parquet"):
        write_payments(tmp_path / name, 2000, 5, hubs=1, callback=lambda *of: done.append(of))
    table = pl.read_parquet(tmp_path / "a.parquet")
    assert table.equals(pl.read_parquet(tmp_path / "b.parquet"))
    assert done[len(done) // 2 - 1] == (2000, 2000)
    assert len(done) > 8
    assert table["time"].is_sorted()
    assert table["fraud"].is_null().arg_true().to_list() == list(range(1800, 2000))
    assert 0.005 < table["fraud"].mean() < 0.1
    assert (table["terminal"] == "terminal 0").sum() > 180
    assert (table["known"] > table["time"]).all()
    write_payments(tmp_path / "a.csv", 2000, 5, hubs=1)
    assert pl.read_csv(tmp_path / "a.csv", try_parse_dates=True).equals(table.cast({pl.Datetime: pl.Datetime("us")}))
