"""read_edges and from_frame: the forms that files and frames come in, and what is said of the broken ones."""

import gzip
import json
import os
import re
import threading
import tracemalloc
import warnings
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tdlg.engines.table import scan_edges
from tdlg.exceptions import ParameterError, ReadError
from tdlg.io import from_frame, read_edges
from tdlg.tables import times
from tdlg.tables.times import as_times


@pytest.fixture
def write(tmp_path):
    def write(content, name="edges.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def rows(edges):
    return list(zip(edges.src.tolist(), edges.dst.tolist(), edges.ticks.tolist(), strict=True))


EXPECTED = [(3, 1, 10), (1, 7, 20), (3, 7, 20)]

FILES = {
    "plain": "3,1,10\n1,7,20\n3,7,20\n",
    "no end of line": "3,1,10\n1,7,20\n3,7,20",
    "header": "src,dst,time\n3,1,10\n1,7,20\n3,7,20\n",
    "header in other words": "User-ID,item_id,Timestamp\n3,1,10\n1,7,20\n3,7,20\n",
    "header in another order": "time,to,from\n10,1,3\n20,7,1\n20,7,3\n",
    "tabs": "3\t1\t10\n1\t7\t20\n3\t7\t20\n",
    "semicolons": "3;1;10\n1;7;20\n3;7;20\n",
    "bars": "3|1|10\n1|7|20\n3|7|20\n",
    "blanks": "3 1 10\n1 7 20\n3 7 20\n",
    "runs of blanks": "  3  1 10 \n1 \t 7 20\n3 7\t20\t\n",
    "blanks after commas": "3, 1, 10\n1, 7, 20\n3, 7, 20\n",
    "comments": "% a graph, signed\n# u v t\n3 1 10\n# half\n1 7 20\n%\n3 7 20\n# end",
    "blank lines": "\n3,1,10\n\n1,7,20\n  \n3,7,20\n\n",
    "double colons": "3::1::10\n1::7::20\n3::7::20\n",
    "cr": "src,dst,time\r3,1,10\r\r1,7,20\r3,7,20\r",
    "names in a comment": "# a graph\n#time\tFromNodeId\tToNodeId\n# of three edges in all\n10\t3\t1\n20\t1\t7\n20\t3\t7\n",
    "names in a comment with commas": "% bip\n% dst, src, time\n% 3 4\n1 3 10\n7 1 20\n7 3 20\n",
    "comments of prose": "# three plain words\n# Nodes: 3 Edges: 3\n3\t1\t10\n1\t7\t20\n3\t7\t20\n",
    "a header below a comment": "# src dst time\ndst,src,time\n1,3,10\n7,1,20\n7,3,20\n",
    "crlf": "src,dst,time\r\n3,1,10\r\n\r\n1,7,20\r\n3,7,20\r\n",
    "quotes": '"src","dst","time"\n"3","1","10"\n"1","7","20"\n"3","7","20"\n',
    "byte order mark": "\ufeff3,1,10\n1,7,20\n3,7,20\n",
    "ids as floats": "3.0,1.0,10\n1.0,7.0,20\n3.0,7.0,20\n",
}


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("name", ["edges.csv", "edges.txt", "edges"])
def test_one_table_in_many_forms_of_text(write, form, name):
    edges = read_edges(write(FILES[form], name))
    assert rows(edges) == EXPECTED
    assert edges.src.dtype == edges.time.dtype == np.int64


def test_gzip_is_known_by_its_first_bytes(write):
    packed = gzip.compress(FILES["comments"].encode())
    assert rows(read_edges(write(packed, "edges.txt.gz"))) == EXPECTED
    assert rows(read_edges(write(packed, "edges.csv"))) == EXPECTED


FRAME = {
    "src": ["a", "b", "a"],
    "dst": ["b", "c", "c"],
    "time": [1.5, 2.0, 3.0],
    "y": [1, 0, 1],
    "w": [0.5, 1.0, 2.0],
    "kind": ["x", "y", "x"],
}


@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet", "pandas", "polars", "lazy", "pyarrow"])
def test_every_source_gives_the_same_edges(tmp_path, source):
    frame = pl.DataFrame(FRAME)
    columns = {"label": "y", "weight": 4, "features": ["w", "kind"]}
    if source == "csv":
        frame.write_csv(tmp_path / "edges.csv")
        edges = read_edges(tmp_path / "edges.csv", **columns)
    elif source == "jsonl":
        frame.write_ndjson(tmp_path / "edges.jsonl")
        edges = read_edges(tmp_path / "edges.jsonl", **columns)
    elif source == "parquet":
        frame.write_parquet(tmp_path / "edges.pq")
        edges = read_edges(tmp_path / "edges.pq", **columns)
    else:
        forms = {"pandas": pd.DataFrame(FRAME), "polars": frame, "lazy": frame.lazy(), "pyarrow": pa.table(FRAME)}
        edges = from_frame(forms[source], **columns)
    assert rows(edges) == [("a", "b", 1.5), ("b", "c", 2.0), ("a", "c", 3.0)]
    assert edges.label.tolist() == [1, 0, 1]
    assert edges.weight.tolist() == [0.5, 1.0, 2.0]
    assert edges.feature_names == ("w", "kind")
    assert edges.feature_categories == {"kind": ("x", "y")}
    assert edges.features.tolist() == [[0.5, 0], [1, 1], [2, 0]]


def test_a_pandas_frame_without_names_is_taken_by_position():
    frame = pd.DataFrame(np.array([[1.0, 2.0, 0.5], [2.0, 3.0, 1.5]]))
    assert rows(from_frame(frame, src=0, dst=1, time=2)) == [(1, 2, 0.5), (2, 3, 1.5)]


def test_bipartite_is_passed_on(write):
    assert read_edges(write("1,1,5\n2,1,6\n"), bipartite=True).n_nodes == 3


def test_header_only_is_no_edges(write):
    edges = read_edges(write("src,dst,time,y\n"), label="y")
    assert len(edges) == 0
    assert edges.n_nodes == 0


@pytest.mark.parametrize("header", [None, False])
def test_names_in_a_comment(write, header):
    path = write("# FromNodeId\tToNodeId\tSign\n1\t2\t-1\n2\t3\t1\n")
    with pytest.raises(
        ReadError,
        match=r"No column has a usual name for 'time'. The columns are \['FromNodeId', 'To.* Pass time= with a name.",
    ):
        read_edges(path, header=header)
    assert rows(read_edges(path, src=0, dst=1, time=2, header=header)) == [(1, 2, -1), (2, 3, 1)]
    assert rows(read_edges(path, time="Sign", header=header)) == [(1, 2, -1), (2, 3, 1)]
    path = write("# a b c kind\n1 2 5 x\n2 3 6 y\n")
    edges = read_edges(path, src="a", dst="b", time="c", features=["kind"], header=header)
    assert rows(edges) == [(1, 2, 5), (2, 3, 6)]
    assert edges.feature_names == ("kind",)
    with pytest.raises(ReadError, match="4 columns and no names"):
        read_edges(path, header=header)


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ("ann,bob,31 Jan 2020", {}),
        ("ann,bob,2020/1/31 10:00", {}),
        ("ann,bob,Friday 31 January 2020", {}),
        ("ann,bob,January the 31st 2020", {"time_format": "%B the %dst %Y"}),
        ("ann,bob,31012020T", {"time_format": "%d%m%YT"}),
    ],
)
def test_a_first_row_with_a_date_is_no_header(write, first, options):
    edges = read_edges(write(f"{first}\n{first}\n"), src=0, dst=1, time=2, separator=",", **options)
    assert len(edges) == 2
    assert str(edges.time[0])[:10] == "2020-01-31"
    assert len(read_edges(write(f"a,b,when\n{first}\n"), src=0, dst=1, time=2, separator=",", **options)) == 1


def test_a_first_row_without_its_time_is_no_header(write):
    with pytest.raises(ReadError, match=r"data row 1 \(src: 'ann', dst: 'bob', time: 'NA'\)"):
        read_edges(write("ann,bob,NA\nbob,cat,2020-01-31\n"), src=0, dst=1, time=2)
    assert len(read_edges(write(",src,dst,time\n0,ann,bob,5\n"))) == 1


def test_header_can_be_told(write):
    path = write("a,b,c\nd,e,5\n")
    with pytest.raises(
        ReadError,
        match=r"for 'src', 'dst' and 'time'. The columns are \['a', 'b', 'c'\]. Pass src=, dst= and time= with names.",
    ):
        read_edges(path)
    with pytest.raises(ReadError, match=r"data row 1 \(src: 'a', dst: 'b', time: 'c'\) is 'c'"):
        read_edges(path, header=False)
    assert rows(read_edges(write("0,1,2\n3,4,5\n"), header=True, src="0", dst="1", time="2")) == [(3, 4, 5)]


@pytest.mark.parametrize(
    ("column", "values", "dtype"),
    [
        ("1,0,1", [1, 0, 1], "int64"),
        ("1,,1", [1, None, 1], "float64"),
        ("1,NA,1.5", [1, None, 1.5], "float64"),
        ("good,,bad", ["good", None, "bad"], "object"),
        ("True,false,True", [True, False, True], "bool"),
        ("007,07,1", ["007", "07", "1"], "object"),
    ],
)
def test_labels_in_text(write, column, values, dtype):
    lines = [f"{k},{k},{k},{y}" for k, y in enumerate(column.split(","))]
    edges = read_edges(write("\n".join(lines)), time=2, label=3)
    assert edges.label.dtype == dtype
    assert [y if known else None for y, known in zip(edges.label, edges.labelled, strict=True)] == values


@pytest.mark.parametrize("big", ["9999999999999999998", "12345678901234567890123"])
def test_ids_beyond_int64_stay_text(write, big):
    other = big[:-1] + "9"
    assert sorted(read_edges(write(f"{big},{other},1\n1,2,2\n")).node_ids) == sorted(["1", "2", big, other])


def test_ids_with_leading_zeros_stay_text(write):
    assert read_edges(write("007,7,1\n7,007,2\n")).node_ids.tolist() == ["007", "7"]


def test_words_for_truth_are_ids_as_they_are_written(write):
    assert rows(read_edges(write("src,dst,time\ntrue,False,0\n"))) == [("true", "False", 0)]
    with pytest.raises(ReadError, match="'src' has the id True in data row 1"):
        read_edges(write('{"src": true, "dst": false, "time": 0}\n', "edges.jsonl"))


@pytest.mark.parametrize("other", ["x", "007", "true", "99999999999999999999"])
def test_an_id_is_of_one_type_in_both_columns(write, other):
    path = write(f"a,b,time\n1,2,0\n2,{other},1\n1,{other},1\n")
    assert sorted(read_edges(path, src="a", dst="b").node_ids.tolist()) == sorted(["1", "2", other])
    assert read_edges(path, src="a", dst="b", bipartite=True).node_ids.tolist()[:2] == [1, 2]


def test_numbers_and_text_of_a_frame_are_the_same_ids():
    frame = pd.DataFrame({"src": [1, 2], "dst": ["2", "01"], "time": [0, 1]})
    assert from_frame(frame).node_ids.tolist() == [1, "2", "01"]


@pytest.mark.parametrize("separator", ["::", " - ", "§"])
def test_any_separator(write, separator):
    lines = [["u1", f'"x{separator}y"', "5"], ["u2", "", "6"]]
    path = write("\n".join(separator.join(line) for line in lines))
    with pytest.raises(ReadError, match=r"missing id in data row 2"):
        read_edges(path, separator=separator)
    assert rows(read_edges(write(separator.join(lines[0])), separator=separator)) == [("u1", f"x{separator}y", 5)]
    with pytest.raises(ReadError, match=rf"data row 2 has 2 fields.*'u2{separator}6'"):
        read_edges(write(f"{separator.join(lines[0])}\nu2{separator}6"), separator=separator)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("who;whom;when\nann x;bob y;2 May\n", ["who", "whom", "when"]),
        ("who;whom\nann x;bob y\ncai m;dan n\n", ["who", "whom"]),
        ("who is\tto whom\nann x y\tbob\ncai m\tdan n o\n", ["who is", "to whom"]),
        ("who whom when\nann;x bob 1\ncai;y dan 2\n", ["who", "whom", "when"]),
        ("who whom how much\nann x 1,5 0\ncai y 2,5 0\n", ["who", "whom", "how", "much"]),
        ("who whom when\nann x 1,5\ncai y 2,5 \ndan z 3,5\nx y z 4,5\n", ["who", "whom", "when"]),
    ],
)
def test_blanks_inside_values_are_no_separators(write, content, names):
    with pytest.raises(ReadError, match=f"The columns are {re.escape(str(names))}"):
        read_edges(write(content))


def test_a_comma_may_be_a_decimal_point(write):
    with pytest.raises(ReadError, match=r"data row 3 has 4 fields, the first line has 3"):
        read_edges(write("ann x 1,5\ncai y 2,5\ndan z z 3,5\n"), header=False)


def test_features_that_share_a_name_are_told_apart(write):
    edges = read_edges(write("src,dst,time,x,x,y\n1,2,3,4,5,6\n"), features=[3, 4, 5])
    assert edges.feature_names == ("x (column 3)", "x (column 4)", "y")
    assert edges.features.tolist() == [[4, 5, 6]]


def test_positions_may_be_of_numpy(write):
    path = write("5,1,2,0.5,0.25\n")
    edges = read_edges(path, src=np.int64(1), dst=np.int32(2), time=np.int64(0), features=np.array([3, 4]))
    assert rows(edges) == [(1, 2, 5)]
    assert edges.features.tolist() == [[0.5, 0.25]]


IDS = st.text(st.characters(categories=["L", "N"], include_characters=' ,;"|#'), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(IDS, IDS, st.integers(-(2**62), 2**62)), min_size=1, max_size=8))
def test_what_polars_writes_reads_back(tmp_path, edges):
    frame = pl.DataFrame(edges, schema={"src": pl.String, "dst": pl.String, "time": pl.Int64}, orient="row")
    kept = frame.filter(~pl.col("src").str.contains(r"^[#%]|^\s*$"), ~pl.col("dst").str.contains(r"^\s*$"))
    kept.write_csv(tmp_path / "edges.csv", quote_style="always")
    back = read_edges(tmp_path / "edges.csv", separator=",", header=True)
    assert [str(value) for value in back.ticks] == [str(value) for value in kept["time"]]
    for ends, column in ((back.src, kept["src"]), (back.dst, kept["dst"])):
        if ends.dtype == object:
            assert ends.tolist() == [value.strip() for value in column]
        else:
            assert ends.tolist() == [float(value) for value in column]


# ---- JSON lines


def lines_of(**columns):
    """Values of columns as JSON lines; an Ellipsis leaves a key out."""
    rows = [
        {name: value for name, value in zip(columns, row, strict=True) if value is not ...}
        for row in zip(*columns.values(), strict=True)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


JSON_FILES = {
    "plain": '{"src": 3, "dst": 1, "time": 10}\n{"src": 1, "dst": 7, "time": 20}\n{"src": 3, "dst": 7, "time": 20}\n',
    "no end of line": '{"src":3,"dst":1,"time":10}\n{"src":1,"dst":7,"time":20}\n{"src":3,"dst":7,"time":20}',
    "other orders": '{"time":10,"src":3,"dst":1}\n{"dst":7,"src":1,"time":20}\n{"src":3,"time":20,"dst":7}\n',
    "other words": '{"ts":10,"from":3,"to":1}\n{"ts":20,"from":1,"to":7}\n{"ts":20,"from":3,"to":7}\n',
    "blank lines": '\n{"src":3,"dst":1,"time":10}\n \n{"src":1,"dst":7,"time":20}\r\n{"src":3,"dst":7,"time":20}\r\n\n',
    "byte order mark": '\ufeff\n{"src":3,"dst":1,"time":10}\n{"src":1,"dst":7,"time":20}\n{"src":3,"dst":7,"time":20}\n',
    "floats": '{"src":3.0,"dst":1,"time":10}\n{"src":1,"dst":7.0,"time":20}\n{"src":3,"dst":7,"time":20}\n',
    "more beside": '{"src":3,"dst":1,"time":10}\n{"x":[1],"src":1,"dst":7,"time":20}\n{"x":{},"src":3,"dst":7,"time":20}',
}


@pytest.mark.parametrize("form", JSON_FILES)
@pytest.mark.parametrize("name", ["edges.jsonl", "edges.NDJSON", "edges.json", "edges.jsonl.gz"])
def test_one_table_in_many_forms_of_json(write, form, name):
    content = JSON_FILES[form].encode()
    edges = read_edges(write(gzip.compress(content) if name.endswith("gz") else content, name))
    assert rows(edges) == EXPECTED
    assert edges.src.dtype == np.int64


def test_keys_and_kinds_may_come_late(write):
    n = 12_000  # more than is parsed in one go, and more than any reader looks at to guess types
    late = {"label": [...] * n + [1], "x": [1] * n + [0.5], "kind": [...] * (n - 1) + ["b", "a"]}
    path = write(lines_of(src=range(n + 1), dst=range(n + 1), time=range(n + 1), **late), "edges.jsonl")
    edges = read_edges(path, label="label", features=["x", "kind"])
    assert np.flatnonzero(edges.labelled).tolist() == [n]
    assert edges.features[-1].tolist() == [0.5, 0]
    assert np.isnan(edges.features[: n - 1, 1]).all()
    assert edges.feature_categories == {"kind": ("a", "b")}


@pytest.mark.parametrize(
    ("values", "label", "dtype"),
    [
        ([1, 0, 1], [1, 0, 1], "int64"),
        ([1, None, 1], [1, None, 1], "float64"),
        ([1, ..., 0.5], [1, None, 0.5], "float64"),
        ([1, float("nan"), 0], [1, None, 0], "float64"),
        (["x", ..., "y"], ["x", None, "y"], "object"),
        (["x", float("nan"), "y"], ["x", None, "y"], "object"),
        (["1", "0", "1"], ["1", "0", "1"], "object"),
        (["", " x ", "x"], ["", " x ", "x"], "object"),
        ([True, False, True], [True, False, True], "bool"),
        ([True, None, False], [True, None, False], "object"),
        ([1, "2", "NA"], [1, 2, None], "float64"),
        ([1, "x", True], ["1", "x", "true"], "object"),
        ([True, 2, 0.5], ["true", "2", "0.5"], "object"),
        ([2**63, 1, -(2**70)], [str(2**63), "1", str(-(2**70))], "object"),
        ([None, ..., None], [None, None, None], "object"),
        (["\ud83d", "é", "\U0001f600"], ["?", "é", "\U0001f600"], "object"),
    ],
)
def test_values_of_json(write, values, label, dtype):
    path = write(lines_of(src=[1, 2, 3], dst=[4, 5, 6], time=[7, 8, 9], y=values), "edges.jsonl")
    edges = read_edges(path, label="y")
    assert edges.label.dtype == dtype
    assert [y if known else None for y, known in zip(edges.label, edges.labelled, strict=True)] == label


@pytest.mark.parametrize(
    ("src", "dst", "bipartite", "ids"),
    [
        (["b", "a"], ["a", "7"], False, ["7", "a", "b"]),
        ([1, 2], ["2", "x"], False, ["1", "2", "x"]),
        ([1, "2"], [2, 3], False, [1, 2, 3]),
        ([1, "x"], [1, 2], False, ["1", "2", "x"]),
        ([1, 2], ["2", "x"], True, [1, 2, "2", "x"]),
        ([2**64, 1], [1, 2**64 + 1], False, ["1", "18446744073709551616", "18446744073709551617"]),
        ([2**64, 1], [1, 2], False, ["1", "18446744073709551616", "2"]),
        (["007", "7"], ["7", "7"], False, ["007", "7"]),
    ],
)
def test_ids_of_json(write, src, dst, bipartite, ids):
    path = write(lines_of(src=src, dst=dst, time=[0, 1]), "edges.jsonl")
    assert read_edges(path, bipartite=bipartite).node_ids.tolist() == ids


@pytest.mark.parametrize(
    ("times", "options", "expected"),
    [
        ([1577836800, 1577836801.5], {}, [1577836800.0, 1577836801.5]),
        ([1577836800, 1577836801], {"time_unit": "s"}, ["2020-01-01", "2020-01-01T00:00:01"]),
        (["1577836800", "1577836801"], {"time_unit": "s"}, ["2020-01-01", "2020-01-01T00:00:01"]),
        (
            ["2020-01-01T10:00:00Z", "2020-01-02T10:00:00.250+02:00"],
            {},
            ["2020-01-01T10:00", "2020-01-02T08:00:00.250"],
        ),
        ([20200131, 20200201], {"time_format": "%Y%m%d"}, ["2020-01-31", "2020-02-01"]),
        (["31.01.2020", "01.02.2020"], {"time_format": "%d.%m.%Y"}, ["2020-01-31", "2020-02-01"]),
    ],
)
def test_times_of_json(write, times, options, expected):
    edges = read_edges(write(lines_of(src=[0, 1], dst=[1, 2], time=times), "edges.jsonl"), **options)
    dtype = "datetime64[us]" if isinstance(expected[0], str) else "float64"
    np.testing.assert_array_equal(edges.time.astype(dtype), np.array(expected, dtype))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_infinity=False), st.text(max_size=5)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=6), st.integers(-(2**62), 2**62), VALUES), min_size=1, max_size=8)
)
def test_what_python_writes_reads_back(tmp_path, edges):
    src, time, extra = (list(column) for column in zip(*edges, strict=True))
    (tmp_path / "edges.jsonl").write_text(lines_of(src=src, dst=src, time=time, y=extra))
    back = read_edges(tmp_path / "edges.jsonl", label="y")
    assert rows(back) == list(zip(src, src, time, strict=True))
    known = [value is not None and value == value for value in extra]
    if len({type(value) for value, is_known in zip(extra, known, strict=True) if is_known}) == 1:
        assert back.labelled.tolist() == known
        assert back.label[back.labelled].tolist() == [y for y, is_known in zip(extra, known, strict=True) if is_known]


EDGE = '{"src":1,"dst":2,"time":3}\n'


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "the file has no rows. Check that it was written"),
        ("\n \n", {}, "the file has no rows"),
        (
            EDGE + "\nhello\n" + EDGE,
            {},
            r"line 3 is not a JSON object: 'hello' \(Expecting value\). Write one object per line",
        ),
        (EDGE * 7000 + '{"src":\n', {}, r"line 7001 is not a JSON object: '\{\"src\":'"),
        (
            EDGE + "[1, 2]\n",
            {},
            r"line 2 is not a JSON object: '\[1, 2\]'. .* An array .* split into lines",
        ),
        (EDGE + "5\n", {}, r"line 2 is not a JSON object: '5'. Write"),
        ("null\n", {}, r"line 1 is not a JSON object: 'null'"),
        ('[\n{"src":1},\n{"src":2}]', {}, r"line 1 is not a JSON object: '\['"),
        ('{\n"src": 1\n}\n', {}, r"line 1 is not a JSON object: '\{'"),
        (EDGE + EDGE.strip() + EDGE, {}, r"line 2 is not a JSON object: .*\(Extra data\)"),
        (EDGE.replace("}", "},"), {}, r"line 1 is not a JSON object: .*\(Extra data\). .*without commas"),
        ('{"src":1,"dst":2\n"time":3}\n' + EDGE.strip() + "," + EDGE, {}, r"line 1 is not a JSON object"),
        ("[" * 100_000, {}, r"line 1 is not a JSON object: '\[\[.*\.\.\.'"),
        (b'{"src":"caf\xe9"}\n', {}, r"line 1 is not a JSON object.*UTF-8"),
        (
            gzip.compress(EDGE.encode() * 1000, mtime=0)[:-20],
            {},
            r"\.gz file is truncated or damaged.*Download it again",
        ),
        (
            EDGE,
            {"src": "sorce"},
            r"No column 'sorce' for 'src'. Did you mean 'src'\? The columns are \['src', 'dst', 'ti",
        ),
        (EDGE, {"label": "fraud"}, r"No column 'fraud' for 'label'.*\['src', 'dst', 'time'\]"),
        ("{}\n", {}, r"No column has a usual name for 'src', 'dst' and 'time'.* The columns are \[\]"),
        (
            '{"src":1,"dst":2}\n' + EDGE,
            {},
            r"'time' must be finite. Got nan in data row 1 \(src: 1, dst: 2, time: None\)",
        ),
        (
            '{"src":"a","time":1,"dst":"b"}\n{"src":"c","time":2}\n',
            {},
            r"'dst' has a missing id in data row 2 \(src: 'c'",
        ),
        (
            '{"src":1,"dst":2,"time":"soon"}\n',
            {},
            r"'time' in data row 1 .* is 'soon', which is not a number or a date",
        ),
        (EDGE.replace("3", "1e400"), {}, r"'time' must be finite. Got inf in data row 1"),
        (EDGE.replace("3", "Infinity"), {}, r"'time' must be finite. Got inf in data row 1"),
        (EDGE.replace("3", str(2**63)), {}, r"'time' in data row 1.*is 9223372036854775808, beyond int64"),
        (EDGE.replace("3", '3,"w":"x"'), {"weight": "w"}, r"'weight' must hold numbers. Got 'x'"),
        (
            EDGE.replace("2", '{"id":2}'),
            {},
            r"'dst' must have one value per row. Got \{'id': 2\} in data row 1.*of its own",
        ),
        (
            EDGE.replace("3", '3,"y":[1]'),
            {"label": "y"},
            r"'label' must have one value per row. Got \[1\] in data row 1",
        ),
        (
            EDGE + EDGE.replace("3", '3,"y":{"z":1}'),
            {"features": "y"},
            r"'y' must have one value per row. .* in data row 2",
        ),
        (
            EDGE,
            {"separator": ","},
            r"'separator' is for csv files, and this is JSON lines. Got ','. Leave out separator=.",
        ),
        (EDGE, {"header": True}, r"'header' is for csv files, and this is JSON lines"),
    ],
)
def test_broken_json_lines_say_what_to_do(write, content, options, message):
    with pytest.raises(ReadError, match=message) as error:
        read_edges(write(content, "edges.jsonl"), **options)
    assert error.value.__suppress_context__ or error.value.__context__ is None


@pytest.mark.parametrize("name", ["struct", "list"])
def test_a_nested_column_of_a_frame_is_refused(tmp_path, name):
    frame = pl.DataFrame({**FRAME, "struct": [None, {"x": 1}, None], "list": [None, [1, 2], []]})
    frame.write_parquet(tmp_path / "edges.parquet")
    for read, source in ((from_frame, frame), (read_edges, tmp_path / "edges.parquet"), (from_frame, frame.to_arrow())):
        with pytest.raises(
            ReadError, match=r"'label' must have one value per row. Got .* in data row 2.*column of its own"
        ):
            read(source, label=name)


# ---- times


@pytest.mark.parametrize(
    ("times", "options", "expected"),
    [
        (["1.5", "2"], {}, [1.5, 2.0]),
        (["1577836800", "1577836801"], {"time_unit": "s"}, ["2020-01-01", "2020-01-01T00:00:01"]),
        (["1577836800.0", "1577836801.0"], {"time_unit": "s"}, ["2020-01-01", "2020-01-01T00:00:01"]),
        (["1577836800.25", "1577836801"], {"time_unit": "s"}, ["2020-01-01T00:00:00.250", "2020-01-01T00:00:01"]),
        (["1577836800000", "1577836800001"], {"time_unit": "ms"}, ["2020-01-01", "2020-01-01T00:00:00.001"]),
        (["2020-01-01 10:00", "2020-01-02"], {}, ["2020-01-01T10:00", "2020-01-02"]),
        (["2020-01-01T10:00Z", "2020-01-01T10:00+0200"], {}, ["2020-01-01T10:00", "2020-01-01T08:00"]),
        (["31/01/2020", "01/02/2020"], {}, ["2020-01-31", "2020-02-01"]),
        (["01/02/2020", "03/04/2020"], {"time_format": "%d/%m/%Y"}, ["2020-02-01", "2020-04-03"]),
        (["01/02/2020", "03/04/2020"], {"time_format": "%m/%d/%Y"}, ["2020-01-02", "2020-03-04"]),
        (["20200131", "20200201"], {"time_format": "%Y%m%d"}, ["2020-01-31", "2020-02-01"]),
        (["31.50", "1.5"], {"time_format": "%d.%M"}, ["1900-01-31T00:50", "1900-01-01T00:05"]),
        (
            ["31.1.2020 5:06 PM", "1.2.2020 1:00 AM"],
            {"time_format": "%d.%m.%Y %I:%M %p"},
            ["2020-01-31T17:06", "2020-02-01T01:00"],
        ),
    ],
)
def test_times_in_text(write, times, options, expected):
    edges = read_edges(write("".join(f'{k},{k},"{time}"\n' for k, time in enumerate(times))), **options)
    dtype = "datetime64[us]" if isinstance(expected[0], str) else "float64"
    np.testing.assert_array_equal(edges.time.astype(dtype), np.array(expected, dtype))
    frame = pd.DataFrame({"src": [0, 1], "dst": [0, 1], "time": times})
    np.testing.assert_array_equal(from_frame(frame, **options).time, edges.time)


def test_datetimes_of_frames(tmp_path):
    times = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)]
    frame = pl.DataFrame({"src": [1, 2], "dst": [2, 3], "time": times})
    frame.write_parquet(tmp_path / "edges.parquet")
    for edges in (from_frame(frame), from_frame(frame.to_pandas()), read_edges(tmp_path / "edges.parquet")):
        assert edges.time.astype("datetime64[D]").astype(str).tolist() == ["2020-01-01", "2020-01-02"]


def test_numbers_as_dates_in_a_frame():
    frame = pd.DataFrame({"src": [1], "dst": [2], "time": [20200131]})
    assert from_frame(frame, time_format="%Y%m%d").time.astype(str).tolist() == ["2020-01-31T00:00:00"]


# ---- errors


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "the file has no rows. Check that it was written"),
        ("# only\n% comments\n", {}, "the file has no rows"),
        ("1\n2\n3\n", {}, r"only one column found; the first line is '1'. Pass the right separator="),
        ("1,2,3\n", {"separator": ";"}, r"only one column found with the separator ';'; the first line is '1,2,3'"),
        ("1,2,3\n", {"separator": "::"}, r"only one column found with the separator '::'; the first line is '1,2,3'"),
        ("1,2,3\n", {"separator": ""}, r"'separator' must be text.*Got '' instead"),
        ("1,2,3\n", {"separator": "\n"}, r"'separator' must be text.*line ends"),
        ("1,2,3\n", {"separator": 3}, r"'separator' must be text.*Got 3 instead"),
        ("x" * 200_000 + "\n", {}, r"only one column found"),
        ("x" * 200_000 + ",1,2\n4,5\n", {"header": False}, r"cannot be read as csv|data row 2 has 2 fields"),
        ("1,2,3\n4,5\n6,7,8\n", {}, r"data row 2 has 2 fields, the first line has 3: '4,5'. Correct"),
        ("1,2,3\n4,5,6,7\n6,7,8\n", {}, r"data row 2 has 4 fields, the first line has 3: '4,5,6,7'"),
        ("1 2 3\n4 5\n", {}, r"data row 2 has 2 fields"),
        ("1,2,,3\n4,5,6\n7,8,,\n", {"time": 2}, r"data row 2 has 3 fields, the first line has 4"),
        (b"caf\xe9,2,3\n", {}, "not UTF-8.*Save it in UTF-8"),
        (b"a,2,3\n" * 100 + b"caf\xe9,2,3\n", {}, "not UTF-8.*Save it in UTF-8"),
        (FILES["plain"].encode("utf-16"), {}, "not UTF-8.*UTF-8"),
        (gzip.compress(b"1,2,3\n" * 1000, mtime=0)[:-20], {}, r"\.gz file is truncated or damaged.*Download it again"),
        ("1,2,0,3\n", {}, r"4 columns and no names.*\{0: '1', 1: '2', 2: '0', 3: '3'\}.*src=0, dst=1 and time=3"),
        ("1,2,3\n", {"src": "payer"}, r"'src' must be a name or a position from 0 to 2. Got 'payer'.*first row"),
        ("1,2,3\n", {"time": 3}, r"'time' must be a name or a position from 0 to 2. Got 3 instead"),
        ("1,2,3\n", {"src": -1}, r"Got -1 instead"),
        ("payer,payee,time\na,b,1\n", {"src": "player"}, r"No column 'player' for 'src'. Did you mean 'payer'\? The"),
        ("src,dst,time\na,b,1\n", {"label": "fraud"}, r"No column 'fraud' for 'label'.*\['src', 'dst', 'time'\]"),
        ("src,dst,time\na,b,1\n", {"features": "x"}, r"No column 'x' for 'features'"),
        (
            "source,user,dst,time\na,b,c,1\n",
            {},
            r"More than one column may be 'src': \['source', 'user'\].*Pass src='source', or",
        ),
        ("src,x,time\na,b,1\n", {}, r"No column has a usual name for 'dst'.*Pass dst="),
        ("src,dst,time\na,b,1\n", {"dst": "src"}, r"The column 'src' is 'dst', and no other is 'src'.*Pass src="),
        ("src,dst,time\na,b,1\n", {"features": 1.5}, r"'features' must be a name or a position.*Got 1.5"),
        ("src,dst,time\na,b,1\n", {"features": True}, r"'features' must be a name or a position.*Got True"),
        ("src,dst,time\na,b,1\n", {"src": "dst", "dst": 1}, r"'dst' is both 'src' and 'dst'.*Pass another dst="),
        (
            "x,x,time\na,b,1\n",
            {"src": "x", "dst": 1},
            r"'x' for 'src' stands for the columns \[0, 1\]. Pass a position",
        ),
        ("a,b,1\nc,,2\n", {}, r"'dst' has a missing id in data row 2 \(src: 'c', dst: None, time: 2\). Drop"),
        ("1,2,1\n3,NA,2\n", {}, r"'dst' has a missing id in data row 2"),
        ("a,b,1\nc,d,\n", {}, r"'time' must be finite. Got nan in data row 2 \(src: 'c'.*Drop that row"),
        ("a,b,1\nc,d,inf\n", {}, r"'time' must be finite. Got inf in data row 2"),
        ("a,b,2020-01-01\nc,d,\n", {}, r"'time' is missing in data row 2"),
        ("a,b,2020-01-01\nc,d,soon\n", {}, r"data row 2 \(src: 'c', dst: 'd', time: 'soon'\) is 'soon'.*time_format"),
        ("a,b,2020-01-01\nc,d,2020-13-01\n", {}, r"data row 2.*not a date of the calendar"),
        ("a,b,03/04/2020\nc,d,05/06/2020\n", {}, r"ambiguous: '03/04/2020' in data row 1.*time_format='%d/%m/%Y'"),
        ("a,b,13/04/2020\nc,d,05/16/2020\n", {}, r"'05/16/2020'.*same order of day and month"),
        ("a,b,2020-01-01Z\nc,d,2020-01-01\n", {}, r"data row 2.*zone.*or none"),
        ("a,b,2020-01-01\n", {"time_format": "%d/%m/%Y"}, r"'2020-01-01'.*not in the format '%d/%m/%Y'"),
        ("a,b,2020-01-01\n", {"time_unit": "s"}, r"'time_unit' 's' is only for numbers.*Leave it out"),
        (
            "a,b,1\nc,d,1e20\n",
            {"time_unit": "s"},
            r"'time' in data row 2.*beyond.*counted in s\. Pass a finer time_unit=",
        ),
        ("a,b,1.5\nc,d,1e18\n", {"time_unit": "s"}, r"'time' in data row 2.*beyond.*counted in us"),
        ("a,b,99999999999999999999\n", {}, r"'time' in data row 1.*is 99999999999999999999, beyond int64"),
        ("a,b,1,x\nc,d,2,y\n", {"time": 2, "weight": 3}, r"'weight' must hold numbers. Got 'x'"),
    ],
)
def test_a_broken_file_says_what_to_do(write, content, options, message):
    path = write(content)
    with pytest.raises(ReadError, match=message) as error:
        read_edges(path, **options)
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_a_wrong_time_unit(write):
    with pytest.raises(
        ParameterError, match=r"'time_unit' parameter .* must be one of \['s', 'ms', 'us', 'ns'\]. Got 'h'"
    ):
        read_edges(write("a,b,1\n"), time_unit="h")


def test_a_missing_file_shows_those_with_close_names(write):
    path = write("1,2,3\n", "payments.csv")
    with pytest.raises(ReadError, match=r"no such file. Did you mean 'payments.csv'\?"):
        read_edges(path.with_name("payment.csv"))
    with pytest.raises(ReadError, match=r"no such file. Check the path"):
        read_edges(path.parent / "nowhere" / "x.csv")


def test_a_folder_is_no_file(write):
    path = write("1,2,3\n", "payments.csv")
    with pytest.raises(ReadError, match=r"this is a folder. Pass one file of it, such as 'payments.csv'"):
        read_edges(path.parent)


@pytest.mark.parametrize("content", ["src,dst,time\n1,2,3\n", "", "PAR1 cut short"])
def test_what_is_no_parquet_says_so(write, content):
    with pytest.raises(ReadError, match=r"not a parquet file, or it is damaged.*rename it to \.csv"):
        read_edges(write(content, "edges.parquet"))


def test_a_damaged_body_of_parquet_says_so(tmp_path):
    path = tmp_path / "edges.parquet"
    pl.DataFrame({name: range(5000) for name in ("src", "dst", "time")}).write_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[:50] + b"\xff" * 2000 + content[2050:])
    with pytest.raises(ReadError, match=r"not a parquet file, or it is damaged.*write it again"):
        read_edges(path)


@pytest.mark.parametrize("options", [{"separator": ","}, {"header": True}])
def test_options_of_csv_are_refused_for_parquet(tmp_path, options):
    pl.DataFrame(FRAME).write_parquet(tmp_path / "edges.pq")
    with pytest.raises(ReadError, match=r"'(separator|header)' is for csv files.*Leave out (separator|header)="):
        read_edges(tmp_path / "edges.pq", **options)


@pytest.mark.parametrize(
    "times", [[1.5], [datetime(2020, 1, 1)], pd.to_datetime(["2020-01-01T00:00Z"]), pl.Series([datetime(2020, 1, 1)])]
)
def test_a_format_is_refused_for_what_is_no_text(times):
    frame = pd.DataFrame({"src": [1], "dst": [2], "time": times})
    with pytest.raises(ReadError, match=r"'time_format' is only for text and whole numbers.*Leave it out"):
        from_frame(frame, time_format="%Y")


def test_a_frame_with_two_columns_of_one_name_says_so():
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["src", "dst", "time", "time"])
    with pytest.raises(ReadError, match=r"'frame' must differ in name. Got \['src', 'dst', 'time', 'time'\].*Rename"):
        from_frame(frame)


@pytest.mark.parametrize("frame", [5, [[1, 2, 3]], np.zeros((2, 3)), "edges.csv"])
def test_what_is_no_frame_says_so(frame):
    with pytest.raises(ReadError, match=r"'frame' must be a dataframe.*Use `TemporalEdges\(src, dst, time\)"):
        from_frame(frame)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_with_a_missing_id_shows_its_row(kind):
    frame = kind({"src": ["a", None], "dst": ["b", "c"], "time": [1, 2]})
    with pytest.raises(
        ReadError, match=r"The frame: The 'src' has a missing id in data row 2 \(src: .*dst: 'c', time: 2\)"
    ):
        from_frame(frame)


@pytest.mark.needs("data")
def test_real_files_have_their_known_sizes(data_dir):
    with pytest.raises(ReadError, match="No column has a usual name for 'time'"):
        read_edges(data_dir / "soc-sign-epinions.txt.gz")
    named = read_edges(data_dir / "escorts.edges", label="class_label", bipartite=True)
    assert (named.n_edges, np.unique(named.label).tolist()) == (50_632, [-1, 0, 1])
    alpha = read_edges(data_dir / "soc-sign-bitcoinalpha.csv", label=2, time=3, time_unit="s")
    assert (alpha.n_edges, alpha.n_nodes) == (24_186, 3_783)
    assert str(alpha.time.min())[:10] == "2010-11-08"
    escorts = read_edges(data_dir / "escorts.edges", label=2, time=3, bipartite=True)
    assert (escorts.n_edges, escorts.n_nodes) == (50_632, 16_730)


@pytest.mark.parametrize("role", ["src", "dst", "time", "label"])
def test_what_is_used_already_is_no_feature(write, role):
    columns = {"src": "a", "dst": "b", "time": "when", "label": "fraud"}
    path = write("a,b,when,fraud,amount\n1,2,3,0,5.5\n2,3,4,1,2.5\n")
    message = f"The column '{columns[role]}' is the '{role}'.*Leave it out of features="
    with pytest.raises(ReadError, match=message):
        read_edges(path, **columns, features=["amount", columns[role]])
    with pytest.raises(ReadError, match=message):
        from_frame(pl.read_csv(path), **columns, features=columns[role])
    assert read_edges(path, src="a", dst="b", time="when", features=["fraud"]).feature_names == ("fraud",)


def test_two_objects_on_a_line_are_no_two_lines(write):
    two = '{"src":1,"dst":2,"time":3}],[{"src":1,"dst":3,"time":4}\n'
    for content in (two, EDGE + two):
        with pytest.raises(ReadError, match=r"line \d is not a JSON object"):
            read_edges(write(content, "edges.jsonl"))


def test_a_quote_that_is_not_closed(write):
    for content in ('"src,dst,time\na,b,1\nb,c,2\n', 'src,dst,time\n"a,b,1\nb,c,2\n'):
        with pytest.raises(ReadError, match="A quote in it is not closed"):
            read_edges(write(content))


def test_two_columns_of_one_usual_name(write):
    path = write("src,src,dst,time\na,b,c,1\n")
    with pytest.raises(ReadError, match=r"may be 'src': \['src', 'src'\].*Pass src=0, or another"):
        read_edges(path)
    assert read_edges(path, src=1).src.tolist() == ["b"]


# ---- what quotes hold


QUOTED = [
    "first\n# second\nthird",
    "first\nthird",
    "p\n\nq",
    "p\nq",
    "a\rx",
    "a\r\nx",
    "a\nx",
    "\nend\n",
    "x  \t y",
    "%\n",
    'a"\n"b',
]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", "\t", "::", " "])
def test_what_is_in_quotes_is_read_as_it_is_written(write, separator, line_end):
    comment, blank = '# a "comment', " \t"
    lines = [[f'"{value}"'.replace('a"\n"b', 'a""\n""b'), "x", str(time)] for time, value in enumerate(QUOTED)]
    text = [separator.join(fields) for fields in [["src", "dst", "time"], *lines]]
    path = write(line_end.join([comment, text[0], "", comment, text[1], blank, *text[2:], comment]))
    edges = read_edges(path)
    assert edges.src.tolist() == QUOTED
    assert edges.ticks.tolist() == list(range(len(QUOTED)))
    assert edges.n_nodes == len(QUOTED) + 1


def test_a_name_of_a_column_may_have_two_lines(write):
    path = write('src,dst,time,"amount\n# in EUR"\na,b,1,5\n')
    edges = read_edges(path, features="amount\n# in EUR")
    assert edges.features.tolist() == [[5]]


def test_quotes_in_comments_do_not_count(write):
    path = write('src,dst,time\n# 5" wide\na,b,1\n% and 6" high\n"b\n",c,2\n')
    assert rows(read_edges(path)) == [("a", "b", 1), ("b\n", "c", 2)]


def test_comments_that_look_like_rows_are_warned_of(write):
    path = write("src,dst,time\na,b,1\n#1,b,2\n# half of it\n%2,c,3\nb,c,4\n")
    with pytest.warns(
        UserWarning, match=r"edges\.csv: 2 of the lines that start with # or % have 3 values.*in quotes"
    ) as said:
        assert len(read_edges(path)) == 2
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_edges(write('# a,b,c\nsrc,dst,time\n# a comment, in words\n"#1",b,2\n')).src.tolist() == ["#1"]


# ---- other kinds of files


@pytest.mark.parametrize("name", ["edges.csv", "edges.jsonl"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"PK\x03\x04\x14\0\x06\0[Content_Types].xml\xc7\0xl/workbook.xml",
            "an Excel workbook. Export its sheet as csv",
        ),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "an Excel workbook. Export its sheet as csv"),
        (b"PK\x03\x04\x14\0edges.csv", "a zip archive. Unpack it"),
        (b"BZh91AY&SY\x99", "packed by bzip2"),
        (b"PAR1\x15\x04", "a parquet file. Rename it"),
        (np.random.default_rng(0).bytes(500), "not text but binary data; it begins with .* Pass csv"),
        (b"src,dst,time\na,b\0,1\n", "not text but binary data"),
        (gzip.compress(np.random.default_rng(0).bytes(500), mtime=0), "not text but binary data"),
    ],
)
def test_what_is_not_text_is_told_by_its_kind(write, name, content, message):
    with pytest.raises(ReadError, match=message) as error:
        read_edges(write(content, name))
    assert name in str(error.value)


@pytest.mark.parametrize("reader", ["read_parquet_schema", "read_parquet"])
def test_a_panic_of_the_parquet_reader_is_an_error_of_reading(tmp_path, monkeypatch, reader):
    path = tmp_path / "edges.parquet"
    pl.DataFrame({"src": [1], "dst": [2], "time": [3]}).write_parquet(path)

    def panics(*_, **__):
        raise pl.exceptions.PanicException("called `Result::unwrap()` on an `Err` value")

    monkeypatch.setattr(pl, reader, panics)
    with pytest.raises(ReadError, match=r"edges\.parquet: this is not a parquet file, or it is damaged"):
        read_edges(path)


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", ["1.parquet", "2.parquet"])
def test_parquet_files_that_the_reader_panics_at(data_dir, name):
    with pytest.raises(ReadError, match="not a parquet file, or it is damaged"):
        read_edges(data_dir / "damaged" / name)


def test_a_small_file_does_not_unpack_to_a_large_one(write, monkeypatch):
    monkeypatch.setattr("tdlg.io.files.MOST_UNPACKED", 100_000)
    content = b"src,dst,time\n" + b"a,b,1\n" * 100_000
    path = write(gzip.compress(content, mtime=0), "edges.csv.gz")
    message = (
        r"edges\.csv\.gz: the .gz file has [\d,]+ bytes and unpacks to more than [\d,]+,.*gunzip.*TDLG_MAX_UNPACKED"
    )
    with pytest.raises(ReadError, match=message):
        read_edges(path)
    monkeypatch.setenv("TDLG_MAX_UNPACKED", str(len(content) - 1))
    with pytest.raises(ReadError, match=f"more than {len(content) - 1:,}"):
        read_edges(path)
    monkeypatch.setenv("TDLG_MAX_UNPACKED", str(len(content)))
    assert len(read_edges(path)) == 100_000
    monkeypatch.setenv("TDLG_MAX_UNPACKED", "1 GB")
    with pytest.raises(ReadError, match=r"TDLG_MAX_UNPACKED must be a number of bytes. Got '1 GB'"):
        read_edges(path)


def test_a_file_too_large_to_unpack_takes_no_memory(write):
    path = write(gzip.compress(b"a,b,1\n" * 500_000, mtime=0) * 100, "edges.csv.gz")
    tracemalloc.start()
    with pytest.raises(ReadError, match="unpacks to more than 200,000,000"):
        read_edges(path)
    assert tracemalloc.get_traced_memory()[1] < 250_000_000
    tracemalloc.stop()


def test_a_gzipped_file_may_have_several_members(write):
    content = gzip.compress(b"src,dst,time\na,b,1\n", mtime=0) + gzip.compress(b"b,c,2\n", mtime=0) + b"\0" * 10
    assert rows(read_edges(write(content))) == [("a", "b", 1), ("b", "c", 2)]


# ---- times of very many digits


@pytest.mark.parametrize("name", ["edges.csv", "edges.jsonl"])
def test_a_time_of_very_many_digits_is_refused(write, name):
    digits = "1" * 5000
    content = (
        f"src,dst,time\na,b,{digits}\nb,c,2\n" if name == "edges.csv" else f'{{"src":1,"dst":2,"time":{digits}}}\n'
    )
    with pytest.raises(ReadError) as error:
        read_edges(write(content, name))
    assert len(str(error.value)) < 1000


# ---- names of columns


@pytest.mark.parametrize(
    ("src", "dst", "time"),
    [
        ("payer_id", "merchant_id", "booked_at"),
        ("payer", "shop", "day"),
        ("CUSTOMER_ID", "TERMINAL_ID", "TX_DATETIME"),
        ("Account", "Beneficiary", "Booking date"),
        ("nameOrig", "nameDest", "timestamp"),
        ("customerId", "merchantId", "createdAt"),
        ("cc_num", "merchant", "trans_date_trans_time"),
        ("from_account_id", "to_account_id", "event_time"),
        ("src_ip", "dst_ip", "start_time"),
        ("userid", "itemid", "unixtime"),
        ("card_no", "shop", "booked_at"),
        ("Card Number", "shop_id", "time"),
        ("account_no", "store_code", "time"),
        ("username", "device", "time"),
        ("customer_number", "merchant_name", "time"),
        ("user", "ip", "time"),
        ("ip_address", "url", "time"),
        ("client_ip", "server", "time"),
    ],
)
def test_usual_names_of_columns(write, src, dst, time):
    edges = read_edges(write(f"{time},note,{dst},{src},id\n1,x,b,a,7\n2,y,c,a,8\n"))
    assert rows(edges) == [("a", "b", 1), ("a", "c", 2)]


def test_a_usual_name_goes_before_a_less_usual_one(write):
    edges = read_edges(write("src,account,dst,shop,time,day\na,x,b,x,1,9\n"))
    assert rows(edges) == [("a", "b", 1)]
    with pytest.raises(ReadError, match=r"More than one column may be 'dst': \['shop', 'terminal'\].*Pass dst='shop'"):
        read_edges(write("src,shop,terminal,time\na,b,x,1\n"))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("user,user_id,dst,time", ("a", "c")),
        ("product_name,card_no,shop,time", ("b", "c")),
        ("card_no,ip,shop,time", ("a", "c")),
        ("merchant_name,merchant_id,card,time", ("c", "b")),
        ("uid,user_name,item,time", ("b", "c")),
    ],
)
def test_the_closest_name_wins(write, names, expected):
    assert rows(read_edges(write(f"{names}\na,b,c,1\n"))) == [(*expected, 1)]


@pytest.mark.parametrize("name", ["id", "tid", "t_id", "uid2", "amount"])
def test_what_is_no_usual_name(write, name):
    with pytest.raises(ReadError, match="No column has a usual name for 'time'"):
        read_edges(write(f"src,dst,{name}\na,b,1\n"))


def test_all_columns_that_are_not_found_are_asked_for_at_once(write):
    path = write("von,an,wann\na,b,1\n")
    with pytest.raises(
        ReadError, match=r"name for 'src', 'dst' and 'time'\. The .*\. Pass src=, dst= and time= with names\."
    ):
        read_edges(path)
    with pytest.raises(
        ReadError, match=r"name for 'dst' and 'time'\. The columns are \[.*\. Pass dst= and time= with names\."
    ):
        read_edges(path, src="von")
    with pytest.raises(
        ReadError,
        match=r"may be 'src': \['user', 'payer'\]\. No .* 'time'\..* Pass src='user', or another\. Pass time= with a name\.",
    ):
        read_edges(write("user,payer,to,wann\na,b,c,1\n"))


# ---- features that are codes


def test_categories_are_read_as_they_are_written(write):
    path = write("src,dst,time,mcc,amount\na,b,1,5411,3\nb,c,2,0742,5\nc,a,3,,7\n")
    edges = read_edges(path, features="amount", categories="mcc")
    assert edges.feature_names == ("amount", "mcc")
    assert edges.feature_categories == {"mcc": ("0742", "5411")}
    np.testing.assert_array_equal(edges.features, [[3, 1], [5, 0], [7, np.nan]])
    both = read_edges(path, features=["mcc", "amount"], categories=["mcc"])
    assert both.feature_names == ("mcc", "amount")
    assert both.feature_categories == edges.feature_categories


@pytest.mark.parametrize(
    "codes",
    [
        [5411, None, 742],
        pd.Series([5411, None, 742]),
        pd.Series([5411, None, 742], dtype="Int64"),
        pl.Series([5411, None, 742]),
        pa.array([5411, None, 742]),
        pd.Series(["5411", None, "742"]),
        pd.Series(["5411", None, "742"], dtype="category"),
    ],
)
def test_categories_of_frames(codes):
    columns = {"src": [1, 2, 3], "dst": [2, 3, 1], "time": [1, 2, 3], "mcc": codes}
    frame = pl.DataFrame(columns) if isinstance(codes, list | pl.Series | pa.Array) else pd.DataFrame(columns)
    edges = from_frame(frame, categories=["mcc"])
    assert edges.feature_categories == {"mcc": ("5411", "742")}
    np.testing.assert_array_equal(edges.features[:, 0], [0, np.nan, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categories": "mmc"}, r"No column 'mmc' for 'categories'. Did you mean 'mcc'\?"),
        ({"label": "mcc", "categories": "mcc"}, r"'mcc' is the 'label', and as a feature it would reveal the label"),
    ],
)
def test_categories_are_columns_that_are_not_used_already(write, options, message):
    with pytest.raises(ReadError, match=message):
        read_edges(write("src,dst,time,mcc\na,b,1,5411\n"), **options)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize(
    ("amounts", "read"),
    [
        (["3,20", "1,10", "7"], [3.2, 1.1, 7.0]),
        (["1.234,50", "-12,00", "1.000"], [1234.5, -12.0, 1000.0]),
        (["0,125", "", "2,250"], [0.125, None, 2.25]),
        (["1234,125", "NA", "+2,250"], [1234.125, None, 2.25]),
    ],
)
def test_a_decimal_comma(write, amounts, read, separator):
    lines = ["src dst time amount", *(f"{k},5 b{k} {k}" for k in range(3))]
    content = "\n".join([lines[0], *(f"{line} {amount}" for line, amount in zip(lines[1:], amounts, strict=True))])
    edges = read_edges(write(content.replace(" ", separator)), features="amount")
    assert [None if x != x else x for x in edges.features[:, 0].tolist()] == read
    assert edges.src.tolist() == ["0,5", "1,5", "2,5"]  # text is compared as it is written
    assert edges.feature_categories == {}


@pytest.mark.parametrize("amounts", [["3,200", "1,100"], ["1,234.50", "7.00"], ["007,5", "1,5"], ["1'234.5", "8"]])
def test_numbers_that_are_read_as_words_are_warned_of(write, amounts):
    path = write("src;dst;time;amount\na;b;1;{}\nb;c;2;{}\n".format(*amounts))
    with pytest.warns(
        UserWarning, match=r"'amount' is read as 2 different words, such as .*write them as 1234\.56"
    ) as said:
        read_edges(path, features="amount")
    assert said[0].filename == __file__


@pytest.mark.parametrize("words", [["rent", "food"], ["1,5", "rent"], ["5", "7"], ["2024", "x"]])
def test_words_are_not_warned_of(write, words):
    path = write("src;dst;time;kind\na;b;1;{}\nb;c;2;{}\n".format(*words))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_edges(path, features="kind")
        read_edges(path, categories="kind")


def test_a_tilde_is_the_folder_of_the_user(write, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write("src,dst,time\na,b,1\n", "home.csv")
    assert rows(read_edges("~/home.csv")) == [("a", "b", 1)]
    pl.DataFrame({"src": ["a"], "dst": ["b"], "time": [1]}).write_parquet(tmp_path / "home.parquet")
    assert scan_edges("~/home.parquet").n_rows == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_pipe_is_read_once(tmp_path, pack):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(pack(b"src,dst,time\na,b,1\n")), daemon=True)
    writer.start()
    assert rows(read_edges(pipe)) == [("a", "b", 1)]


@pytest.mark.parametrize("target", ["loop.csv", "elsewhere.csv"])
def test_a_link_that_leads_to_no_file(tmp_path, target):
    (tmp_path / "loop.csv").symlink_to(target)
    with pytest.raises(ReadError, match=rf"loop\.csv: this is a link to '{target}', which leads to no file"):
        read_edges(tmp_path / "loop.csv")


def test_columns_that_are_not_used_are_not_looked_at(write, monkeypatch):
    """Each name was read as a time, which took 3 ms per column."""
    seen = []
    monkeypatch.setattr(times, "as_times", lambda *args, **options: seen.append(args) or as_times(*args, **options))
    names = [f"c{k}" for k in range(500)]
    path = write(f"src,dst,time,{','.join(names)}\na,b,1,{','.join(names)}\n")
    assert rows(read_edges(path)) == [("a", "b", 1)]
    assert len(seen) < 10


@pytest.mark.parametrize(
    ("first", "time_format", "is_value"),
    [
        ("31 Jan 2020", None, True),
        ("Jan 32 2020", None, False),
        ("week 3", None, False),
        ("12h30", "%Hh%M", True),
        ("2020w3-1", "%Gw%V-%u", True),
        ("c17", "%d.%m.%Y", False),
    ],
)
def test_a_time_in_the_first_line_is_a_value(write, first, time_format, is_value):
    path = write(f"a,b,{first}\n")
    if is_value:
        assert len(read_edges(path, time_format=time_format)) == 1
    else:
        assert len(read_edges(path, time_format=time_format, src=0, dst=1, time=2)) == 0


def test_other_values_for_missing_labels(tmp_path):
    (path := tmp_path / "x.csv").write_text("src,dst,time,y,known\na,b,1,0,5\nb,c,2,1,6\nc,a,3,2,\nb,a,4,2,\n")
    assert read_edges(path, label="y").labelled.all()
    assert read_edges(path, label="y", missing=[2], label_time="known").labelled.tolist() == [True, True, False, False]
    (path := tmp_path / "words.csv").write_text("src,dst,time,y\na,b,1,0\nb,c,2,1\nc,a,3,Pending\nb,a,4,?\n")
    edges = read_edges(path, label="y", missing=["?", "pending"])
    assert np.array_equal(edges.label, [0, 1, np.nan, np.nan], equal_nan=True)
    frame = pl.DataFrame({"src": [1, 2], "dst": [2, 3], "time": [1, 2], "y": ["ok", "?"]})
    assert from_frame(frame, label="y", missing="?").label.tolist() == ["ok", None]


@pytest.mark.parametrize("bipartite", [False, True])
def test_ids_with_a_comma_stay_as_they_are_written(write, bipartite):
    edges = read_edges(write("src;dst;time\n1,5;a;1\n1,50;b;2\n"), bipartite=bipartite)
    assert edges.src.tolist() == ["1,5", "1,50"]
