"""Times: which are taken, in which unit they are kept, and what is said of those that are refused."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.tables.times import as_times, as_times_or_missing


def timed(times):
    n = len(times)
    return TemporalEdges(list(range(n)), list(range(n)), times)


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        (np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), "s"),
        (np.array(["2020-01-01", "2020-01-02"], "datetime64[h]"), "s"),
        (np.array(["2020-01-01", "2020-01-02"], "datetime64[ms]"), "ms"),
        (np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]"), "ns"),
        ([datetime(2020, 1, 1), datetime(2020, 1, 2)], "us"),
        ([datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, 2, tzinfo=timezone(timedelta(hours=2)))], "us"),
        ([date(2020, 1, 1), date(2020, 1, 2)], "s"),
        (pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])).dt.as_unit("ns"), "ns"),
        (pd.to_datetime(["2020-01-01 01:00", "2020-01-02 01:00"]).tz_localize("Europe/Paris").as_unit("s"), "s"),
        (list(pd.to_datetime(["2020-01-01", "2020-01-02"]).as_unit("ms")), "ms"),
        (pl.Series([datetime(2020, 1, 1, 1), datetime(2020, 1, 2, 1)]).dt.replace_time_zone("Europe/Paris"), "us"),
        (pl.Series([date(2020, 1, 1), date(2020, 1, 2)]), "s"),
        (["2020-01-01", "2020-01-02T00:00"], "s"),
        (["2020-01-01T01:00:00.000+01:00", "2020-01-02T00:00:00Z"], "ms"),
    ],
)
def test_datetimes_of_every_kind_are_utc(times, unit):
    edges = timed(times)
    assert edges.time_unit == unit
    assert edges.time.dtype == np.dtype(f"datetime64[{unit}]")
    assert edges.time.astype("datetime64[s]").tolist() == [datetime(2020, 1, 1), datetime(2020, 1, 2)]
    assert np.shares_memory(edges.time, edges.ticks)


@pytest.mark.parametrize(
    ("times", "dtype"),
    [
        ([1, 2], "int64"),
        ([1, 2.5], "float64"),
        (np.array([1, 2], "int8"), "int64"),
        (np.array([1, 2], "uint64"), "int64"),
        (np.array([1, 2], "float32"), "float64"),
        (np.array([1, 2], ">f8"), "float64"),
        (["1", "2"], "int64"),
    ],
)
def test_numbers_stay_numbers(times, dtype):
    edges = timed(times)
    assert edges.time.dtype == edges.ticks.dtype == dtype
    assert edges.time_unit is None
    assert edges.ticks[0] == 1


@pytest.mark.parametrize("dtype", ["int64", "float64", "datetime64[us]"])
def test_ticks_share_memory_with_the_given_times(dtype):
    times = np.arange(3).astype(dtype)
    times.flags.writeable = False
    assert np.shares_memory(timed(times).ticks, times)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, float("nan")], r"'time' must be finite\. Got nan in row 1.*Drop that row"),
        ([0.0, float("inf")], r"Got inf in row 1"),
        ([0, None], r"Got nan in row 1"),
        ([datetime(2020, 1, 1), None], r"'time' is missing in row 1"),
        (np.array(["2020-01-01", "NaT"], "datetime64[s]"), r"'time' is missing in row 1"),
        (["2020-01-01", ""], r"'time' is missing in row 1"),
        (["2020-01-01", "2020-02-30"], r"row 1.*'2020-02-30'.*not a date of the calendar"),
        (["2020-01-01", "soon"], r"row 1.*'soon'.*time_format"),
        (["soon", "later"], r"row 0.*'soon'.*time_format"),
        (["03/04/2020", "05/06/2020"], r"ambiguous.*03/04/2020.*time_format='%d/%m/%Y'"),
        (["3.4.2020 12:30"], r"time_format='%d\.%m\.%Y %H:%M' if the day .* time_format='%m\.%d\.%Y %H:%M'"),
        (["03/04/2020 12:30 PM"], r"time_format='%d/%m/%Y %I:%M %p' if the day .* time_format='%m/%d/%Y %I:%M %p'"),
        (["2020-01-31 13:30 PM"], r"row 0.*'2020-01-31 13:30 PM', which is not a date of the calendar"),
        (["2020-01-31 0:30 AM"], r"row 0.*not a date of the calendar"),
        (["Jax 31, 2020"], r"row 0.*not a date of the calendar"),
        (["03-04-2020T12:30:05.5Z"], r"time_format='%d-%m-%YT%H:%M:%S\.%f%z'"),
        (["03/04/2020 12:30 +02:00"], r"time_format='%d/%m/%Y %H:%M %z'"),
        (["2020-01-01", "2020-01-02Z"], r"row 1.*has a time zone, and the rows before it have none.*Pass"),
        ([datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)], r"row 1.*has a time zone.*or none"),
        (["2020-01-01Z", "2020-01-02"], r"row 1.*has no time zone, and the rows before it have one"),
        ([1, 2**64], r"row 1.*is 18446744073709551616, beyond int64"),
        ([np.uint64(2**64 - 1), -(2**64)], r"row 0.*is 18446744073709551615, beyond int64"),
        (["1", "18446744073709551616"], r"row 1.*is 18446744073709551616, beyond int64"),
        ([1, 10**5000], r"row 1.*is an integer of very many digits, beyond int64"),
        (["1", "1" * 5000], r"row 1.*is 1{57}\.\.\., beyond int64"),
        (pl.Series([1, 2**100], dtype=pl.Int128), r"row 1.*beyond int64"),
        (np.array([1, 2**64 - 1], np.uint64), r"row 1.*beyond int64"),
        ([True, False], r"'time' must hold numbers or datetimes\. Got bool.*Pass numbers"),
        (np.array([1, 2], "timedelta64[s]"), r"Got timedelta64\[s\]"),
        (np.array([1j, 2]), r"Got complex128"),
        ([datetime(2020, 1, 1), 3], r"Got 3 in row 1.*all numbers, all datetimes"),
    ],
)
def test_what_is_no_time_is_refused_with_its_row(times, message):
    with pytest.raises(EdgesError, match=message):
        timed(times)


@given(st.lists(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), min_size=1, max_size=20))
def test_text_of_datetimes_reads_back(times):
    edges = timed([time.isoformat() for time in times])
    np.testing.assert_array_equal(edges.time.astype("datetime64[us]"), np.array(times, "datetime64[us]"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (["31/12/2019", "01/02/2020"], ["2019-12-31", "2020-02-01"]),
        (["12/31/2019", "01/02/2020"], ["2019-12-31", "2020-01-02"]),
        (["01/01/2020", "2/2/2020 10:30"], ["2020-01-01", "2020-02-02T10:30"]),
        (["2020/1/31", "2020/02/01 1:02:03"], ["2020-01-31", "2020-02-01T01:02:03"]),
        (["1/31/2020 3:04:05 PM", "02/01/2020 12:00 am"], ["2020-01-31T15:04:05", "2020-02-01"]),
        (["2020-01-31 12:30PM", "2020-01-31 1:30PM"], ["2020-01-31T12:30", "2020-01-31T13:30"]),
        (["Jan 31, 2020", "February 1, 2020 11:59 PM"], ["2020-01-31", "2020-02-01T23:59"]),
        (["Fri, Jan 31, 2020 01:00", "May 01 2020"], ["2020-01-31T01:00", "2020-05-01"]),
        (["Fri, 31 Jan 2020 10:00:00 -0130", "1 Feb 2020 00:00:00 GMT"], ["2020-01-31T11:30", "2020-02-01"]),
    ],
)
def test_dates_in_other_forms(text, expected):
    np.testing.assert_array_equal(timed(text).time, np.array(expected, "datetime64[s]"))


@pytest.mark.parametrize(
    ("text", "time_format", "expected"),
    [
        ("2020-01-02 03:00:00.5", "%Y-%m-%d %H:%M:%S.%f", "2020-01-02T03:00:00.500"),
        ("2020-01-02 03:00:00.25", "%Y-%m-%d %H:%M:%S.%f", "2020-01-02T03:00:00.250"),
        ("2020-01-02 03:00:00.000005", "%Y-%m-%d %H:%M:%S.%f", "2020-01-02T03:00:00.000005"),
        ("2020-01-02 03:00:00.000000005", "%Y-%m-%d %H:%M:%S.%f", "2020-01-02T03:00:00.000000005"),
        ("2.1.2020 03:00:00,5", "%d.%m.%Y %H:%M:%S,%f", "2020-01-02T03:00:00.500"),
        ("20200102030000000005", "%Y%m%d%H%M%S%f", "2020-01-02T03:00:00.000005"),
        ("03:00:00.5", "%H:%M:%S.%f", "1900-01-01T03:00:00.500"),
        ("1500-01-01 00:00:00.5", "%Y-%m-%d %H:%M:%S.%f", "1500-01-01T00:00:00.500"),
        ("2020-01-02 03:00:00.500", "%Y-%m-%d %H:%M:%S%.f", "2020-01-02T03:00:00.500"),
        ("2020-01-02 03:00:00.000000005", "%Y-%m-%d %H:%M:%S.%9f", "2020-01-02T03:00:00.000000005"),
        ("3 PM, 2 Jan 20", "%I %p, %d %b %y", "2020-01-02T15:00:00"),
        ("2020-01-02 03", "%Y-%m-%d %H", "2020-01-02T03:00:00"),
        ("2.1. 03:00", "%d.%m. %H:%M", "1900-01-02T03:00:00"),
        ("2|3 %d", "%d|%H %%d", "1900-01-02T03:00:00"),
        ("2020-01-02 03+0100,5", "%Y-%m-%d %H%z,%f", "2020-01-02T02:00:00.500"),
    ],
)
def test_a_format_is_read_as_strptime_reads_it(text, time_format, expected):
    ticks, unit = as_times([text, text], time_format=time_format)
    assert ticks.view(f"datetime64[{unit}]").astype(str).tolist() == [expected, expected]


@pytest.mark.parametrize(
    ("text", "time_format", "message"),
    [
        ("2020-01-02", "%Y-%Q", r"'time_format' '%Y-%Q' does not describe a date.*Pass a format"),
        ("2.1.", "%d.%Q", r"'%d\.%Q' does not describe a date: 'Q' is a bad directive in format '%d\.%Q'\. Pass"),
        ("2020-02-30", "%Y-%m-%d", r"row 1.*'2020-02-30'.*not in the format '%Y-%m-%d'"),
        ("soon", "%d.%m.%Y,%f", r"row 0.*'2020-01-02'.*not in the format '%d.%m.%Y,%f'"),
        ("soon", "%F", r"row 1.*'soon'.*not in the format '%F'"),
    ],
)
def test_what_is_not_of_the_format_is_refused(text, time_format, message):
    with pytest.raises(EdgesError, match=message):
        as_times(["2020-01-02", text], time_format=time_format)


def test_nanoseconds_beyond_int64_are_refused():
    with pytest.raises(EdgesError, match=r"nanoseconds far from 1970.*Round"):
        as_times(["1500-01-01 00:00:00.123456789"], time_format="%Y-%m-%d %H:%M:%S.%f")


DAY, LATER = datetime(2020, 1, 1), datetime(2020, 1, 2, 12)
PARIS = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        (np.array([DAY, "NaT", LATER], "datetime64[s]"), "s"),
        (pd.Series([DAY, None, LATER]).dt.as_unit("ns"), "ns"),
        (pd.Series([DAY, None, LATER]).dt.tz_localize("UTC").dt.tz_convert("Europe/Paris").dt.as_unit("ms"), "ms"),
        (pd.Series([DAY, pd.NaT, LATER], dtype=object), "us"),
        (pd.Series(["2020-01-01", np.nan, "2020-01-02 12:00"], dtype=object), "s"),
        (pl.Series([DAY, None, LATER]), "us"),
        (pl.Series([DAY, None, LATER]).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Paris"), "us"),
        (pl.Series(["2020-01-01", None, "2020-01-02 12:00"]), "s"),
        (pa.array([DAY, None, LATER], pa.timestamp("ms")), "ms"),
        (pa.chunked_array([[DAY, None], [LATER]], pa.timestamp("us", "Europe/Paris")), "us"),
        ([DAY, None, LATER], "us"),
        ([DAY.replace(tzinfo=UTC), pd.NaT, LATER.replace(hour=13, tzinfo=PARIS)], "us"),
        (["2020-01-01", None, "2020-01-02 12:00"], "s"),
        (["2020-01-01", " ", "2020-01-02 12:00"], "s"),
        (["2020-01-01T01:00+01:00", "NaT", "2020-01-02T12:00Z"], "s"),
    ],
)
def test_times_may_be_missing_where_that_is_asked_for(times, unit):
    ticks, found, missing = as_times_or_missing(times, "label_time")
    assert (ticks.dtype, found, missing.tolist()) == (np.int64, unit, [False, True, False])
    assert ticks[1] == 0
    assert ticks[[0, 2]].view(f"datetime64[{unit}]").astype("datetime64[s]").tolist() == [DAY, LATER]


@pytest.mark.parametrize(
    ("times", "ticks"),
    [
        ([1.5, None, 3], [1.5, 0, 3]),
        (np.array([1.5, np.nan, 3]), [1.5, 0, 3]),
        (["7", "", "9"], [7, 0, 9]),
        (pd.Series([7, None, 9], dtype="Int64"), [7, 0, 9]),
    ],
)
def test_numbers_may_be_missing_too(times, ticks):
    found, unit, missing = as_times_or_missing(times, "label_time")
    assert (found.tolist(), unit, missing.tolist()) == (ticks, None, [False, True, False])


@pytest.mark.parametrize("times", [[None, None], [np.nan, np.nan], ["", ""], pd.Series([None, None], dtype=object)])
def test_all_times_may_be_missing(times):
    ticks, unit, missing = as_times_or_missing(times, "label_time")
    assert (ticks.tolist(), unit, missing.tolist()) == ([0, 0], None, [True, True])


def test_a_wrong_time_among_missing_ones_is_named_by_its_own_row():
    with pytest.raises(EdgesError, match=r"'label_time' in row 2 \(counted from 0\) is 'soon'") as caught:
        as_times_or_missing(["2020-01-01", None, "soon"], "label_time")
    assert caught.value.row == 2


FAR = datetime(9999, 12, 31, 23)


@pytest.mark.parametrize(
    "times",
    [
        *(np.array([FAR, "NaT"], f"datetime64[{unit}]") for unit in ("h", "s", "ms", "us")),
        [FAR, None],
        [FAR.replace(tzinfo=UTC), None],
        [FAR.replace(hour=22, tzinfo=timezone(timedelta(hours=-1))), None],
        ["9999-12-31 23:00", None],
        ["9999-12-31T22:00:00.000000-01:00", ""],
        pd.Series([FAR, None]),
        pd.Series([FAR, None]).dt.tz_localize("UTC"),
        pl.Series([FAR, None], dtype=pl.Datetime("ms", "UTC")),
        pa.array([FAR, None], pa.timestamp("s")),
        [pd.Timestamp(FAR), pd.NaT],
    ],
)
def test_a_time_far_ahead_keeps_its_value(times):
    ticks, unit, _ = as_times_or_missing(times, "label_time")
    assert ticks[:1].view(f"datetime64[{unit}]").astype("datetime64[s]").tolist() == [FAR]


def test_a_time_far_ahead_beside_nanoseconds_does_not_overflow():
    near = pd.Timestamp("2020-01-01 00:00:00.000001").as_unit("ns")
    ticks, unit = as_times([near, FAR])
    assert ticks.view(f"datetime64[{unit}]").tolist() == [near.to_pydatetime(), FAR]
    with pytest.raises(EdgesError, match="nanoseconds far from 1970"):
        as_times([near + pd.Timedelta(1, "ns"), FAR])


def test_a_zoned_time_at_the_end_of_the_calendar_is_read():
    west = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))
    ticks, unit = as_times([west])
    assert np.datetime_as_string(ticks.view(f"datetime64[{unit}]"), unit="h").tolist() == ["10000-01-01T04"]
