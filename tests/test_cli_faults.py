"""The command `tdlg` where answers could go wrong unnoticed: exact times, the user's words, streams, interrupts."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tdlg
from tdlg.cli import app
from tdlg.cli import output as cli_output
from tdlg.tables.labels import LabelRule
from test_cli import environment, ok, process, refused, rows_of

pytestmark = pytest.mark.usefixtures("few_trees")

LATE = 1_145_808_000.25  # more digits than a score has


def made_table(n=120, labels=("ok", "fraud"), seed=0):
    """Two of eight shops are bad; times have more than six digits."""
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, 8, n)
    return pl.DataFrame(
        {
            "src": rng.integers(100, 115, n),
            "dst": shop,
            "time": LATE - n + np.arange(n, dtype=float),
            "verdict": np.where((shop < 2) != (np.arange(n) % 17 == 0), labels[1], labels[0]),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def whole(folder):
    """A table whose labels are all known."""
    made_table().write_csv(path := folder / "whole.csv")
    return path


@pytest.fixture(scope="module")
def gaps(folder):
    """A table in which every fifth label is missing."""
    frame = made_table().with_columns(verdict=pl.when(pl.int_range(pl.len()) % 5 > 0).then("verdict"))
    frame.write_csv(path := folder / "gaps.csv")
    return path


@pytest.fixture(scope="module")
def model(gaps, folder):
    """A saved classifier that looks for the commoner of two words."""
    path = folder / "model.tdlg"
    ok("classify", gaps, "--label", "verdict", "--positive", "ok", "--save", path, "-o", folder / "filled.csv")
    return path


# ---- times are exact


def read_back(path):
    if path.suffix == ".jsonl":
        return pl.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_times_are_written_exactly(gaps, model, tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    ok("links", gaps, "--top", 2, "-o", path)
    assert read_back(path)["time"].to_list() == [LATE - 1] * 2
    scores = read_back(path)["recency_score"].to_list()  # few edges: no trees
    assert scores == [float(f"{score:.6g}") for score in scores]
    ok("explain", model, gaps, "--row", 7, "--top", 2, "-o", path)
    assert read_back(path)["time"].to_list() == [made_table()["time"][6]] * 2
    ok("score", model, gaps, "-o", path)
    assert read_back(path)["time"].cast(float).to_list() == made_table()["time"].to_list()


def test_times_of_the_papers_reasons_are_exact(gaps, tmp_path):
    ok(
        "classify",
        gaps,
        "--label",
        "verdict",
        "--method",
        "linegraph",
        "--save",
        tmp_path / "m",
        "-o",
        tmp_path / "a.csv",
    )
    times = [row["time"] for row in rows_of(ok("explain", tmp_path / "m", gaps, "--row", 7, "--top", 3).stdout)]
    assert set(map(float, filter(None, times))) <= set(made_table()["time"].to_list())


def test_nanoseconds_of_reasons_are_exact():
    time = np.datetime64("2024-01-01T00:00:00.000000007", "ns") + np.arange(40)
    edges = tdlg.TemporalEdges(["a", "b"] * 20, ["x", "y"] * 20, time, label=[0, 1] * 20)
    for estimator in (tdlg.PropagationClassifier(random_state=0), tdlg.LineGraphClassifier()):
        told = estimator.fit(edges).explain(edges, top=1, rows=[3])["time"].drop_nulls()
        assert set(told.dt.timestamp("ns")) <= set(time.astype(np.int64).tolist())
        assert len(told)


def test_a_terminal_shows_whole_times(gaps, monkeypatch):
    monkeypatch.setattr("tdlg.cli.output.is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "120")
    assert str(LATE - 1) in ok("links", gaps, "--top", 1).stdout


# ---- predictions in the user's words


@pytest.mark.parametrize(
    ("labels", "condition", "wanted", "looked_for"),
    [
        (["fraud", "ok", None], "fraud", ["fraud", "ok", None], "fraud"),
        (["fraud", "ok", None], "!= fraud", ["fraud", "ok", None], "ok"),
        (["fraud", "ok", "odd"], "fraud", ["fraud", "not fraud", "not fraud"], "fraud"),
        (["fraud", "ok", "odd"], "!= ok", ["not ok", "ok", "not ok"], "not ok"),
        ([True, False, None], "!= true", [True, False, None], False),
        ([1, 2, None], "2", [1, 2, None], 2),
        ([1, 2, None], "== 1", [1, 2, None], 1),
        ([1, 2, 3], "2", [0, 1, 0], 1),
        ([-1, 1], "< 0", [1, 0], 1),
    ],
)
def test_two_classes_in_the_users_words(labels, condition, wanted, looked_for):
    n = len(labels)
    edges = tdlg.TemporalEdges(range(n), range(n), range(n), label=labels)
    labels, told = LabelRule(condition, column="x").to_learn(edges.label)
    known = edges.with_label(labels)
    got = [None if value is None or value != value else value for value in known.label.tolist()]
    assert (got, told) == (wanted, looked_for)


@pytest.mark.parametrize("word", ["ok", "fraud"])
def test_predicted_is_a_word_of_the_user(gaps, tmp_path, word):
    path, other = tmp_path / "m.tdlg", {"ok": "fraud", "fraud": "ok"}[word]
    result = ok("classify", gaps, "--label", "verdict", "--positive", word, "--evaluate", "random", "--save", path)
    filled = [row for row in rows_of(result.stdout) if row["predicted"]]
    assert {row["predicted"] for row in filled} == {"ok", "fraud"}
    assert f'"probability" is the probability of verdict = {word}\n' in result.stderr
    assert f"average precision for {word!r}" in result.stderr
    for row in (*filled, *rows_of(ok("score", path, gaps).stdout)):
        assert row["predicted"] == (word if float(row["probability"]) > 0.5 else other)
    assert ok("nodes", path, gaps).stderr == f"positive class: {word!r}\n"
    assert {row["class"] for row in rows_of(ok("explain", path, gaps, "--row", 1).stdout)} == {word}


def test_later_labels_are_named_as_in_the_model(gaps, folder, tmp_path):
    path = tmp_path / "m.tdlg"
    frame = pl.read_csv(gaps).with_columns(pl.col("verdict").replace("ok", "fine").fill_null("odd"))
    frame.write_csv(three := tmp_path / "three.csv")
    ok("classify", gaps, "--label", "verdict", "--positive", "fraud", "--setting", "stream", "--save", path)
    assert rows_of(ok("score", path, three, "--label", "verdict", "--positive", "fraud").stdout)
    text = refused("score", path, gaps, "--label", "verdict", "--positive", "ok")
    assert "The positive class of the model is 'fraud', but 'ok' is another condition" in text


# ---- a file that is asked for is written


@pytest.mark.parametrize("other", [["--save", "m"], ["--evaluate", "random"]])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_output_where_no_label_is_missing(whole, tmp_path, other, suffix):
    (path := tmp_path / f"out.{suffix}").write_text("old")
    other = [tmp_path / one if one == "m" else one for one in other]
    result = ok("classify", whole, "--label", "verdict", *other, "-o", path)
    assert "warning: no label is missing in the column 'verdict': predicted and probability are empty" in result.stderr
    got = read_back(path)
    assert got.columns == ["src", "dst", "time", "verdict", "predicted", "probability"]
    assert len(got) == got["predicted"].null_count() == got["probability"].null_count() == 120


def test_output_with_nothing_else_to_do_is_refused(whole, tmp_path):
    text = refused("classify", whole, "--label", "verdict", "-o", tmp_path / "out.csv")
    assert "No label is missing in the column 'verdict'" in text
    assert "--evaluate" in text
    assert "tdlg score" in text
    assert not (tmp_path / "out.csv").exists()


# ---- figures say what they are of


def test_a_mean_over_classes_says_so(tmp_path):
    frame = made_table().with_columns(verdict=pl.col("dst") % 3)
    frame.write_csv(path := tmp_path / "three.csv")
    text = ok("classify", path, "--label", "verdict", "--evaluate", "random").stderr
    assert re.search(r"AUC \(mean of 3 classes\) +average precision \(mean of 3 classes\) +precision in the top", text)
    text = ok("compare", path, "--label", "verdict", "--methods", "label-rates", "--trials", 1).stderr
    assert "AUC and average precision are means over the classes" in text


def test_outliers_among_few_rows(tmp_path):
    made_table(3).write_csv(path := tmp_path / "few.csv")
    text = ok("outliers", path, "--method", "shuffled").stderr
    assert "AUC" not in text
    assert "warning: 3 rows are too few to measure how well outliers are found" in text


def test_candidates_count_once(gaps, tmp_path):
    (path := tmp_path / "pairs.csv").write_text("src,dst\n100,1\n101,2\n100,1\n100,1\n")
    result = ok("links", gaps, "--candidates", path)
    assert sorted((row["src"], row["dst"]) for row in rows_of(result.stdout)) == [("100", "1"), ("101", "2")]
    assert "left out 2 repeated candidates" in result.stderr


# ---- what it costs


def test_info_knows_the_classes(tmp_path):
    frame = made_table().with_columns(verdict=pl.col("dst") % 5)
    frame.write_csv(path := tmp_path / "five.csv")
    assert "with 5 classes" in ok("info", path, "--label", "verdict").stdout
    assert "in memory, with the similarity features; 380 MB of memory\n" in ok("info", path).stdout


# ---- nodes that a model does not know


@pytest.mark.parametrize("command", [["score"], ["nodes"], ["explain", "--row", 1]])
def test_new_nodes_are_told(gaps, model, tmp_path, command):
    name, *more = command
    assert "new to the model" not in ok(name, model, gaps, *more).stderr
    frame = pl.read_csv(gaps)
    frame.with_columns(dst=pl.when(pl.col("dst") == 7).then(999).otherwise("dst")).write_csv(
        one := tmp_path / "one.csv"
    )
    assert re.search(r"^1 of 2\d nodes is new to the model$", ok(name, model, one, *more).stderr, re.MULTILINE)
    frame.with_columns(pl.col("src", "dst") + 1000).write_csv(other := tmp_path / "other.csv")
    text = ok(name, model, other, *more).stderr
    assert re.search(r"warning: (\d+) of \1 sources are new to the model, so it knows little about them", text)


# ---- errors in the shell's words


# ---- closed streams


def shell(command, tmp_path):
    """Run a line of the shell."""
    line = f'"{sys.executable}" -m tdlg.cli {command}'
    return subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, env=environment())


def test_closed_stdout(gaps, tmp_path):
    done = shell("datasets list -o out.csv >&-", tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert "bitcoinalpha" in pl.read_csv(tmp_path / "out.csv")["name"]
    for command in (f"info '{gaps}'", "--help"):
        done = shell(f"{command} >&-", tmp_path)
        assert (done.returncode, done.stderr) == (1, "error: stdin or stdout is closed. Give the paths of files.\n")


def test_closed_stderr(tmp_path):
    done = shell("datasets list -o out.csv 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert pl.read_csv(tmp_path / "out.csv").equals(pl.read_csv(shell("datasets list 2>&-", tmp_path).stdout.encode()))
    assert shell("info nosuch.csv 2>&-", tmp_path).returncode == 1


def test_closed_stdin(gaps, tmp_path):
    done = shell("info - <&-", tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: stdin or stdout is closed. Give the paths of files.\n")
    assert "'src'" in shell(f"info '{gaps}' <&-", tmp_path).stdout


def test_all_streams_closed(tmp_path):
    assert shell("datasets list -o out.csv <&- >&- 2>&-", tmp_path).returncode == 0
    assert "bitcoinalpha" in pl.read_csv(tmp_path / "out.csv")["name"]


# ---- Ctrl-C


@pytest.mark.parametrize(
    "error", [SystemError("returned a result with an exception set"), ValueError("odd"), KeyError(1)]
)
def test_an_interrupt_that_surfaces_as_another_error(monkeypatch, error):
    def cut_short(*arguments):
        raise error from KeyboardInterrupt()

    monkeypatch.setattr("tdlg.cli.info.read_table", cut_short)
    monkeypatch.setattr(cli_output, "_interrupted_by", 2)
    result = CliRunner().invoke(app, ["info", "x.csv"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_an_interrupt_that_was_lost(gaps, tmp_path, monkeypatch):
    monkeypatch.setattr(cli_output, "_interrupted_by", 2)
    result = CliRunner().invoke(app, ["embed", str(gaps), "--dim", "1", "-o", str(tmp_path / "out.csv")])
    assert (result.exit_code, os.listdir(tmp_path)) == (130, [])
    assert "interrupted" in result.stderr


LOST = """
import os, signal, time
from tdlg.cli import main
import tdlg.cli.info as network
def read_table(*arguments, **options):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        raise SystemError("returned a result with an exception set") from None
network.read_table = read_table
main()
"""


def test_a_real_interrupt_inside_compiled_code():
    with process("info", "x.csv", code=LOST) as running:
        _, err = running.communicate()
    assert (running.returncode, err) == (130, b"interrupted\n")


def test_an_interrupt_that_is_to_be_ignored_is_ignored():
    code = "import signal; from tdlg.cli import main; print(signal.getsignal(signal.SIGINT))"
    line = f"trap '' INT; exec \"{sys.executable}\" -c '{code}'"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment())
    assert done.stdout.strip() in ("1", "Handlers.SIG_IGN")


def test_rows_that_look_like_comments_come_back(tmp_path):
    path, out = tmp_path / "x.csv", tmp_path / "out.csv"
    rows = "".join(f'"#{k % 7}",b{k % 5},{k}\n' for k in range(40))
    path.write_text("src,dst,time\n" + rows)
    ok("embed", path, "--dim", 1, "-o", out)
    assert tdlg.read_edges(out).src.tolist() == tdlg.read_edges(path).src.tolist()
