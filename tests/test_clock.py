from datetime import timedelta

import numpy as np
import pytest

from tdlg import Gaussian, TemporalEdges
from tdlg.clock import (
    UNITS,
    as_seconds,
    check_unit,
    common_clock,
    duration_in_words,
    durations_in_words,
    finest,
    is_duration,
    round_duration,
    rounded_up,
    seconds_per_tick,
    short_duration,
    ticks_per_second,
    time_in_words,
    times_of,
)
from tdlg.exceptions import EdgesError, ParameterError

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
LAST = np.iinfo(np.int64).max


# ---- units


def test_units_are_those_of_numpy():
    for unit in UNITS:
        second = np.timedelta64(1, "s") / np.timedelta64(1, unit)
        assert ticks_per_second(unit) == second
        assert seconds_per_tick(unit) == 1 / second
        check_unit("read_edges", unit)
    check_unit("read_edges", None)


@pytest.mark.parametrize("wrong", ["h", "", 1, ["s"]])
def test_a_wrong_unit(wrong):
    with pytest.raises(
        ParameterError, match=r"'time_unit' parameter of read_edges must be one of \['s', .*Got .* instead"
    ):
        check_unit("read_edges", wrong)


def test_the_finest_unit():
    assert finest("ms", "s", "us") == "us"
    assert finest(None, "s") == "s"
    assert finest(None, None) is None


def test_times_of_ticks_are_views():
    ticks = np.array([0, 86_400])
    assert times_of(ticks, None) is ticks
    dates = times_of(ticks, "s")
    assert np.shares_memory(dates, ticks)
    np.testing.assert_array_equal(dates, np.array(["1970-01-01", "1970-01-02"], "datetime64[s]"))


# ---- durations


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("7d", 604_800.0),
        ("2w", 1_209_600.0),
        ("12h", 43_200.0),
        ("30 min", 1800.0),
        (" 90s ", 90.0),
        ("250ms", 0.25),
        ("1.5 hours", 5400.0),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("1e3us", 1e-3),
        ("123.456789012345s", 123.456789012345),
        (timedelta(days=1, milliseconds=500), 86_400.5),
        (np.timedelta64(2, "W"), 1_209_600.0),
        (np.timedelta64(3, "us"), 3e-6),
    ],
)
def test_durations(duration, seconds):
    assert is_duration(duration)
    assert as_seconds(duration) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text", ["", "7", "d", "-3d", "0s", "3m", "1.2.3d", "1e400s", "soon", "3 fortnights", "nan s"])
def test_text_that_is_not_a_duration(text):
    with pytest.raises(ParameterError, match=r"duration must be positive and look like '7d'.*Got .* instead"):
        as_seconds(text)


@pytest.mark.parametrize(
    "value", [timedelta(0), timedelta(-1), np.timedelta64("NaT"), np.timedelta64(1, "M"), np.timedelta64(3)]
)
def test_timedeltas_that_are_not_durations(value):
    with pytest.raises(ParameterError, match="duration must be positive"):
        as_seconds(value)


def test_a_wrong_duration_is_a_wrong_bandwidth():
    with pytest.raises(ParameterError, match=r"Got '1\.2\.3d' instead"):
        Gaussian("1.2.3d")


@pytest.mark.parametrize("value", [7, 7.0, None, np.int64(7), np.datetime64("2020-01-01")])
def test_numbers_are_not_durations(value):
    assert not is_duration(value)


@pytest.mark.parametrize("unit", UNITS)
def test_a_frozen_bandwidth_is_the_same_in_ticks(unit):
    ticks = np.array([0, 1_000_003, 7_000_019])
    edges = TemporalEdges([0, 1, 2], [1, 2, 3], times_of(ticks, unit))
    frozen = Gaussian(relative=0.3).freeze(edges)
    assert frozen.parts(unit)[0].bandwidth == pytest.approx(0.3 * ticks.std(), rel=1e-14)


# ---- ticks of one clock on another


def test_the_common_clock_is_the_finer_one():
    coarse, fine = (np.array([1, -2]), "s"), (np.array([1500]), "us")
    first, second, unit = common_clock(*coarse, *fine)
    assert (first.tolist(), second.tolist(), unit) == ([1_000_000, -2_000_000], [1500], "us")
    second, first, unit = common_clock(*fine, *coarse)
    assert (first.tolist(), second.tolist(), unit) == ([1_000_000, -2_000_000], [1500], "us")


@pytest.mark.parametrize(("dtype", "unit"), [(INT, "ms"), (INT, None), (FLOAT, None)])
def test_columns_of_one_clock_stay_themselves(dtype, unit):
    ticks, others = np.array([1, 2], dtype), np.array([3], dtype)
    first, second, found = common_clock(ticks, unit, others, unit)
    assert first is ticks
    assert second is others
    assert found == unit


def test_whole_numbers_beside_fractions():
    first, second, unit = common_clock(np.array([1, 2**53]), None, np.array([0.5]), None)
    assert (first.dtype, first.tolist(), second.tolist(), unit) == (FLOAT, [1.0, 2.0**53], [0.5], None)
    with pytest.raises(EdgesError, match=r"Whole times up to 9007199254740994 .* without losing digits"):
        common_clock(np.array([2**53 + 2]), None, np.array([0.5]), None)
    assert common_clock(np.empty(0, INT), None, np.array([0.5]), None)[0].dtype == FLOAT


def test_times_that_the_finer_clock_cannot_hold():
    most, fine = LAST // 10**9, np.array([0])
    assert common_clock(np.array([-most, most]), "s", fine, "ns")[0].tolist() == [-most * 10**9, most * 10**9]
    with pytest.raises(EdgesError, match=r"Times from 1970-01-01T00:00:00 to 2262-\S+ cannot be counted in ns"):
        common_clock(np.array([0, most + 1]), "s", fine, "ns")
    with pytest.raises(EdgesError, match=r"Times from 1677-\S+ to 1970-01-01T00:00:00 cannot be counted in ns"):
        common_clock(fine, "ns", np.array([-most - 1, 0]), "s")
    assert common_clock(np.empty(0, INT), "s", fine, "ns")[0].size == 0


@pytest.mark.parametrize(
    ("ticks", "unit", "clock_unit", "expected"),
    [
        ([1000, 1001, 1999, -1, -1000, -1001], "ms", "s", [1, 2, 2, 0, -1, -1]),
        ([1, 10**9 + 1], "ns", "s", [1, 2]),
        ([3, -3], "s", "us", [3_000_000, -3_000_000]),
        ([3, LAST], "ms", "ms", [3, LAST]),
        ([LAST, -LAST, LAST // 1000, LAST // 1000 + 1], "s", "ms", [LAST, -LAST, LAST // 1000 * 1000, LAST]),
    ],
)
def test_rounded_up_to_the_next_tick(ticks, unit, clock_unit, expected):
    found = rounded_up(np.array(ticks), unit, clock_unit, INT)
    assert found.dtype == INT
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("numbers", "dtype", "expected"),
    [
        ([0.5, 2.0, -0.5, 1e300, -1e300, np.inf], INT, [1, 2, 0, LAST, -LAST, LAST]),
        ([0.5, 1e300], FLOAT, [0.5, 1e300]),
        ([1, 2], FLOAT, [1.0, 2.0]),
        ([1, 2], INT, [1, 2]),
    ],
)
def test_plain_numbers_rounded_up(numbers, dtype, expected):
    found = rounded_up(np.array(numbers), None, None, dtype)
    assert found.dtype == dtype
    assert found.tolist() == expected


# ---- in words


@pytest.mark.parametrize(
    ("ticks", "unit", "words"),
    [
        (-7200, "s", "2 hours before"),
        (5400, "s", "1.5 hours after"),
        (-1, "s", "1 second before"),
        (0, "s", "at the same time"),
        (-86_400, "s", "1 day before"),
        (-86_399, "s", "24 hours before"),
        (-90 * 86_400_000, "ms", "90 days before"),
        (3 * 31_557_600, "s", "3 years after"),
        (-250, "ms", "250 milliseconds before"),
        (60_000_000, "us", "1 minute after"),
        (-1500, "ns", "1.5 microseconds before"),
        (-3, "ns", "3 nanoseconds before"),
        (-1, None, "1 time unit before"),
        (-120.5, None, "120.5 time units before"),
        (3_628_800, None, "3,629,000 time units after"),
        (-2.5e-7, None, "2.5e-07 time units before"),
    ],
)
def test_times_in_words(ticks, unit, words):
    assert time_in_words(ticks, unit) == words


def test_the_words_time_units_come_once():
    assert durations_in_words([86400, 5400], "s") == "1 day, 1.5 hours"
    assert durations_in_words([4000, 2.5], None) == "4,000, 2.5 time units"


@pytest.mark.parametrize("unit", [*UNITS, None])
@pytest.mark.parametrize("ticks", [1, 17, 999, 5_400, 86_399, 100_000, 10**12, 3.7e14, 10**15])
def test_a_round_duration_is_near(ticks, unit):
    found, words = round_duration(ticks, unit)
    assert words == duration_in_words(ticks, unit)
    assert found == pytest.approx(ticks, rel=0.05)


@pytest.mark.parametrize(
    ("ticks", "unit", "short"),
    [
        (53 * 86_400, "s", "53d"),
        (3.31 * 86_400, "s", "3.3d"),
        (800 * 86_400, "s", "800d"),
        (86_399, "s", "24h"),
        (90, "s", "1.5min"),
        (2_500, "ms", "2.5s"),
        (0.2, "ns", "0.2ns"),
        (1e12, "s", "1.15741e+07d"),
    ],
)
def test_short_durations(ticks, unit, short):
    assert short_duration(ticks, unit) == short
    assert as_seconds(short) == pytest.approx(ticks * seconds_per_tick(unit), rel=0.05)
