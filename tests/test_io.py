"""read_edges and from_frame: the forms that files and frames come in, and what is said of the broken ones."""

import gzip
import json
import os
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
from tdlg.exceptions import ReadError
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


@pytest.mark.parametrize("name", ["edges.csv", "edges.txt", "edges", "edges.csv.gz", "edges.gz"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_is_csv_whatever_its_name(write, name, pack):
    assert rows(read_edges(write(pack(b"# u v t\n3 1 10\n1 7 20\n3 7 20\n"), name))) == EXPECTED


@pytest.mark.parametrize("name", ["edges.jsonl", "edges.NDJSON", "edges.json", "edges.jsonl.gz"])
def test_names_of_json_lines(write, name):
    content = b'{"src":3,"dst":1,"time":10}\n{"src":1,"dst":7,"time":20}\n{"src":3,"dst":7,"time":20}\n'
    assert rows(read_edges(write(gzip.compress(content) if name.endswith("gz") else content, name))) == EXPECTED


EDGE = b'{"src":1,"dst":2,"time":3}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"x" * 200_000 + b"\n", "only one column found"),
        ("x.csv", b"x" * 200_000 + b",1,2\n4,5\n", r"cannot be read as csv|data row 2 has 2 fields"),
        ("x.csv", b"a,2,3\n" * 100 + b"caf\xe9,2,3\n", "not UTF-8.*Save it in UTF-8"),
        ("x.csv", gzip.compress(b"1,2,3\n" * 1000, mtime=0)[:-20], r"truncated or damaged.*Download it again"),
        ("x.jsonl", gzip.compress(EDGE * 1000, mtime=0)[:-20], r"truncated or damaged.*Download it again"),
        ("x.jsonl", EDGE * 7000 + b'{"src":\n', r"line 7001 is not a JSON object: '\{\"src\":'"),
        ("x.jsonl", b"[" * 100_000, r"line 1 is not a JSON object: '\[\[.*\.\.\.'"),
    ],
)
def test_large_and_packed_files_that_are_broken(write, name, content, message):
    with pytest.raises(ReadError, match=message):
        read_edges(write(content, name), header=False if name == "x.csv" else None)


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


def test_numbers_and_text_of_a_frame_are_the_same_ids():
    frame = pd.DataFrame({"src": [1, 2], "dst": ["2", "01"], "time": [0, 1]})
    assert from_frame(frame).node_ids.tolist() == [1, "2", "01"]


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


def test_keys_and_kinds_may_come_late(write):
    n = 12_000  # more than is parsed in one go, and more than any reader looks at to guess types
    late = {"label": [...] * n + [1], "x": [1] * n + [0.5], "kind": [...] * (n - 1) + ["b", "a"]}
    path = write(lines_of(src=range(n + 1), dst=range(n + 1), time=range(n + 1), **late), "edges.jsonl")
    edges = read_edges(path, label="label", features=["x", "kind"])
    assert np.flatnonzero(edges.labelled).tolist() == [n]
    assert edges.features[-1].tolist() == [0.5, 0]
    assert np.isnan(edges.features[: n - 1, 1]).all()
    assert edges.feature_categories == {"kind": ("a", "b")}


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


@pytest.mark.parametrize("name", ["struct", "list"])
def test_a_nested_column_of_a_frame_is_refused(tmp_path, name):
    frame = pl.DataFrame({**FRAME, "struct": [None, {"x": 1}, None], "list": [None, [1, 2], []]})
    frame.write_parquet(tmp_path / "edges.parquet")
    for read, source in ((from_frame, frame), (read_edges, tmp_path / "edges.parquet"), (from_frame, frame.to_arrow())):
        with pytest.raises(
            ReadError, match=r"'label' must have one value per row. Got .* in data row 2.*column of its own"
        ):
            read(source, label=name)


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


# ---- features that are codes


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


@pytest.mark.parametrize("amounts", [["3,200", "1,100"], ["1,234.50", "7.00"], ["007,5", "1,5"], ["1'234.5", "8"]])
def test_numbers_that_are_read_as_words_are_warned_of(write, amounts):
    path = write("src;dst;time;amount\na;b;1;{}\nb;c;2;{}\n".format(*amounts))
    with pytest.warns(
        UserWarning, match=r"'amount' is read as 2 different words, such as .*write them as 1234\.56"
    ) as said:
        read_edges(path, features="amount")
    assert said[0].filename == __file__


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
