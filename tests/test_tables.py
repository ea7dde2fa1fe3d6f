"""Tables with their edges: columns added, labels with conditions, and edges as Arrow columns and back."""

import io
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tdlg import TemporalEdges, from_frame, read_edges, scan_edges
from tdlg.cli import app
from tdlg.exceptions import ParameterError, ReadError
from tdlg.io import csv as csv_files
from tdlg.io import read_table, write_parquet

TEXT = "payer,payee,date,note,stars,kind\nann,bob,2020-01-31,x,5,?\nbob,cat,2020-02-01,y,1,ok\ncat,ann,2020-02-02,,3,fraud\n"


@pytest.fixture
def path(tmp_path):
    (path := tmp_path / "payments.csv").write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"label": "stars", "positive": "> 3"}, [1, 0, 0]),
        ({"label": "stars", "positive": "> 3", "missing": [1]}, [1, None, 0]),
        ({"label": "kind", "positive": "fraud", "missing": ["?"]}, [None, "ok", "fraud"]),
        ({"label": "kind", "positive": "fraud"}, ["not fraud", "not fraud", "fraud"]),
        ({"label": "kind", "missing": "?"}, [None, "ok", "fraud"]),
    ],
)
def test_labels_with_conditions(path, options, wanted):
    for edges in (read_edges(path, **options), from_frame(pl.read_csv(path), **options)):
        assert [None if value is None or value != value else value for value in edges.label.tolist()] == wanted
    pl.read_csv(path).write_parquet(parquet := path.with_suffix(".parquet"))
    scanned = scan_edges(parquet, **options)
    values = pl.read_csv(path)[options["label"]].to_list()
    assert scanned.rule.classes(values)[0] == wanted  # the same on disk


def test_a_condition_that_never_holds(path):
    with pytest.raises(ParameterError, match="No known label of 'kind' is 'froud'"):
        read_edges(path, label="kind", positive="froud")


def test_a_table_is_read_when_it_is_needed(path, monkeypatch):
    parsed = []
    read = csv_files._read_columns

    def counted(body, separator, n_columns, positions, file):
        parsed.extend(positions)
        return read(body, separator, n_columns, positions, file)

    monkeypatch.setattr(csv_files, "_read_columns", counted)
    table = read_table(path, label="stars", features="none")
    assert sorted(parsed) == [0, 1, 2, 4]  # the note and the kind cost nothing
    assert (table.names, list(table.unused)) == (
        {"src": "payer", "dst": "payee", "time": "date", "label": "stars"},
        ["note", "kind"],
    )
    assert table.with_columns(note=[1, 2, 3]).columns[-2:] == ["kind", "note_2"]
    assert table.frame.write_csv() == TEXT


def test_columns_are_named_the_same_in_memory_and_on_disk(tmp_path):
    frame = pl.DataFrame(
        {"src": [1, 2], "user": [3, 4], "dst": [5, 6], "time": [1, 2], "7": [0.5, 1.5], "a, b": [1, 3]}
    )
    frame.write_parquet(path := tmp_path / "odd.parquet")
    for features, wanted in (
        ("7", ("7",)),
        ("a, b", ("a, b",)),
        ("5,4", ("a, b", "7")),
        ("none", ()),
        (["1"], ("user",)),
    ):
        assert read_edges(path, features=features).feature_names == wanted
        assert scan_edges(path, features=features).features == wanted
    assert read_edges(path, features=[]).src.tolist() == [1, 2]  # src itself, not user
    assert scan_edges(path).roles["src"] == "src"


# ---- as Arrow columns


EDGES = TemporalEdges(
    ["ann", "bob", "ann"],
    ["bob", "007", "cat"],
    np.array(["2020-01-31", "2020-02-01", "2020-02-02"], "datetime64[s]"),
    label=["ok", None, "bad"],
    label_delay="7d",
    weight=[1.0, 2.0, 0.5],
    features={"amount": [1.5, None, 3.0], "channel": ["web", "app", None], "time": [1, 2, 3]},
)


class Exporter:
    """An object that has nothing but Arrow columns."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


def test_edges_as_a_frame():
    frame = EDGES.to_frame()
    assert frame.columns == ["src", "dst", "time", "label", "label_time", "weight", "amount", "channel", "time_2"]
    assert frame["time"].dtype == pl.Datetime("ms")
    assert frame["channel"].to_list() == ["web", "app", None]
    assert frame["amount"].to_list() == [1.5, None, 3.0]
    assert frame["label"].to_list() == ["ok", None, "bad"]
    assert EDGES[1:].to_frame().equals(frame[1:])
    assert EDGES.to_arrow().column_names == frame.columns
    mixed = TemporalEdges([1, "x"], ["y", 2], [0.5, 1.5]).to_frame()
    assert mixed.rows() == [("1", "y", 0.5), ("x", "2", 1.5)]


@pytest.mark.parametrize("exported", [EDGES, Exporter(EDGES.to_frame()), EDGES.to_arrow(), EDGES.to_frame()])
def test_there_and_back(exported):
    names = {"features": ["amount", "channel"], "weight": "weight", "label": "label", "label_time": "label_time"}
    back = from_frame(exported, **names)
    assert back.src.tolist() == EDGES.src.tolist()
    assert (back.time == EDGES.time).all()
    assert back.label.tolist() == EDGES.label.tolist()
    assert (back.known_at[back.labelled] // 1000 == EDGES.known_at[EDGES.labelled]).all()
    np.testing.assert_array_equal(back.features, EDGES.features[:, :2])
    assert pl.DataFrame(EDGES).equals(EDGES.to_frame())


# ---- text on disk


def test_text_as_parquet(tmp_path):
    path, target = tmp_path / "x.csv", tmp_path / "x.parquet"
    path.write_text('# by hand\nsrc;dst;time;x;y\n007; b ;1;"3,20";0\n7;"c;d";2;1.234,50;\n')
    write_parquet(path, target)
    assert pl.read_parquet(target).rows() == [("007", "b", "1", "3,20", "0"), ("7", "c;d", "2", "1.234,50", None)]
    scanned = scan_edges(target, label="y", as_text=True)
    assert scanned.features == ("x",)
    edges = scanned.read(scanned.blocks(10)[0])
    assert edges.features[:, 0].tolist() == [3.2, 1234.5]
    assert edges.n_nodes == 4
    assert scan_edges(target, label="y", features=[]).numbers == ()
    by_itself = scan_edges(path, label="y", folder=tmp_path)
    assert by_itself.read(by_itself.blocks(10)[0]).features[:, 0].tolist() == [3.2, 1234.5]
    assert [file.name[:6] for file in tmp_path.iterdir() if file.is_dir()] == [".tdlg-"]
    del by_itself
    assert not [file for file in tmp_path.iterdir() if file.is_dir()]  # the temporary file goes with the edges


def test_numbers_in_text_are_the_same_in_memory_and_on_disk(tmp_path):
    columns = {
        "whole": ["1", "2"],
        "decimal": ["1.5", "2"],
        "gap": ["NA", "7"],
        "code": ["007", "7"],
        "comma": ["3,20", "4"],
        "long": ["9223372036854775807", "1"],
        "longer": ["99999999999999999999", "1.5"],
        "word": ["x", "1"],
    }
    rows = [
        "src;dst;time;" + ";".join(columns),
        *(f"{k};a;{k};" + ";".join(c[k] for c in columns.values()) for k in (0, 1)),
    ]
    (path := tmp_path / "x.csv").write_text("\n".join(rows))
    write_parquet(path, target := tmp_path / "x.parquet")
    in_memory = read_edges(path, features=list(columns))
    on_disk = scan_edges(target, features=list(columns), as_text=True)
    assert [name for name, _ in on_disk.numbers] == [
        name for name in columns if name not in in_memory.feature_categories
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a,b,1\n\nb,c,\n", "or only blanks"),
        ("a,b,1\n#x,y,z\nb,c,2", [("a", "b", "1"), ("b", "c", "2")]),
        ("a,b,1\r\nb,c,\r\n", [("a", "b", "1"), ("b", "c", None)]),
        ("a,b,1\nb,c\n", "some row has fewer than 3 fields"),
        ("a,b,1\nb,c", "some row has fewer than 3 fields"),
        ("a,b,1\nb,c,2,3\n", "found more fields"),
        ('"a\nx",b,1\n', "line breaks within values"),
        ("#x\na,b,1\n%y\nb,c,2\n", "lines that start with # and with %"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*like the rows")
def test_odd_text_as_parquet(tmp_path, text, wanted):
    (path := tmp_path / "x.csv").write_bytes(f"src,dst,time\n{text}".encode())
    if isinstance(wanted, str):
        with pytest.raises(ReadError, match=wanted):
            write_parquet(path, tmp_path / "x.parquet")
    else:
        write_parquet(path, tmp_path / "x.parquet")
        assert pl.read_parquet(tmp_path / "x.parquet").rows() == wanted


def test_json_lines_as_parquet(tmp_path):
    (path := tmp_path / "x.jsonl").write_text(
        '{"src": 1, "dst": "a", "time": 2}\n{"src": 2, "dst": "b", "time": 3, "x": 1.5}\n'
    )
    write_parquet(path, tmp_path / "x.parquet")
    assert pl.read_parquet(tmp_path / "x.parquet").rows() == [(1, "a", 2, None), (2, "b", 3, 1.5)]


# ---- the command


def test_quiet(path):
    arguments = ["outliers", str(path), "--method", "burst"]
    loud, quiet = (CliRunner().invoke(app, [*arguments, *more]) for more in ([], ["--quiet"]))
    assert "read 3 edges" in loud.stderr
    assert (quiet.stderr, quiet.stdout) == ("", loud.stdout)
    wrong = CliRunner().invoke(app, ["info", str(path), "--src", "nobody", "-q"])
    assert wrong.stderr.startswith("error: ")
    assert "read 3 edges" in CliRunner().invoke(app, arguments).stderr  # it does not last


def test_info_with_a_condition(path):
    said = CliRunner().invoke(app, ["info", str(path), "--label", "stars", "--positive", "> 3"]).stdout
    assert "label          'stars': 0 66.7%, 1 33.3%; 0 missing" in said


def test_the_help_of_the_group_imports_no_command():
    code = "import sys; from tdlg.cli import app; from typer.testing import CliRunner\n"
    code += "CliRunner().invoke(app, ['--help']); print([name for name in sys.modules if name.startswith('tdlg.cli.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "tdlg.cli.group" in found
    assert "tdlg.cli.classify" not in found


def test_alerts_per_day_is_a_whole_number_in_backtest(path):
    arguments = ["backtest", str(path), "--label", "stars", "--every", "1d", "--alerts-per-day", "2.5"]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, "must be a whole number of at least 1. Got 2.5" in done.stderr) == (2, True)


def test_csv_of_a_result_has_what_was_read(path):
    done = CliRunner().invoke(app, ["outliers", str(path), "--method", "burst"])
    assert pl.read_csv(io.StringIO(done.stdout)).columns[:6] == TEXT.splitlines()[0].split(",")
