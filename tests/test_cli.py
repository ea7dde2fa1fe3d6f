"""The command `tdlg`, as users meet it: their own tables, pipes, files, mistakes."""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tdlg
from tdlg import demo, make_payments
from tdlg.cli import app, compare, output
from tdlg.cli.compare import _with_two_classes as as_two_numbers
from tdlg.cli.group import COMMANDS
from tdlg.cli.output import one_line
from tdlg.exceptions import ParameterError
from tdlg.tables.labels import LabelRule

pytestmark = pytest.mark.usefixtures("few_trees")

ROOT = Path(__file__).parents[1]
MISSING = ["", "NA", "n/a", "None", "NaN"]
SRC, DST, TIME, LABEL = "Konto (von)", "Händler", "gebucht am", "Urteil"
OPTIONS = ["--src", SRC, "--dst", DST, "--time", TIME]


def run(*arguments, stdin=None):
    """Run a command in this process; whatever happens, no traceback."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def ok(*arguments, stdin=None):
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def classified(path, *more):
    """Fill in the verdicts of payments."""
    return ok("classify", path, *OPTIONS, "--label", LABEL, *more)


def refused(*arguments, code=1, stdin=None):
    """The message of a command that must fail."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    assert not result.stdout
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    return last


def rows_of(text, delimiter=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


def payments(n=300, missing=0.2):
    """Rows of strings with odd names: two of ten shops are bad, some verdicts are missing."""
    rng = np.random.default_rng(0)
    start, rows = datetime(2023, 1, 1), []
    for k in range(n):
        shop = int(rng.integers(10))
        verdict = "betrug" if (shop < 2) != (k % 60 == 0) else "ok"
        verdict = str(rng.choice(MISSING)) if rng.random() < missing else verdict
        rows.append(
            {
                "Nr.": f"{k:05d}",
                SRC: f"Jürgen {rng.integers(20)}",
                DST: f"Café № {shop}",
                TIME: (start + timedelta(hours=k)).strftime("%d.%m.%Y %H:%M"),
                "Betrag [€]": f"{rng.lognormal(3, 1):.2f}",
                LABEL: verdict,
                "": 'a "quoted", text' if k % 7 == 0 else "  ",
            }
        )
    return rows


def write_csv(path, rows, delimiter=";"):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A csv file of payments."""
    return write_csv(tmp_path_factory.mktemp("tables") / "Zahlungen 2023.csv", payments())


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A csv file with usual names, whole numbers and a rating."""
    rng = np.random.default_rng(0)
    dst = rng.integers(0, 8, 200)
    frame = pl.DataFrame(
        {
            "user": rng.integers(0, 20, 200),
            "item": dst,
            "timestamp": np.arange(200),
            "stars": np.where(dst < 3, 1, 5) - (rng.random(200) < 0.2),
        }
    )
    path = tmp_path_factory.mktemp("tables") / "ratings.csv"
    frame.write_csv(path)
    return path


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    """A saved classifier."""
    path = tmp_path_factory.mktemp("models") / "verdicts.tdlg"
    classified(table, "--save", path, "-o", path.with_suffix(".csv"))
    return path


@pytest.fixture(scope="module")
def odd_model(table, tmp_path_factory):
    """A saved outlier detector."""
    path = tmp_path_factory.mktemp("models") / "odd.tdlg"
    ok("outliers", table, *OPTIONS, "--save", path, "-o", path.with_suffix(".csv"))
    return path


@pytest.fixture
def on_terminal(monkeypatch):
    """Let stdout be taken for a terminal."""
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "120")


# ---- the command itself


def test_loading_is_light():
    code = "import json, sys, tdlg.cli; print(json.dumps(sorted(m for m in sys.modules if '.' not in m)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert not set(eval(loaded.stdout)) & {
        "numpy",
        "polars",
        "sklearn",
        "scipy",
        "numba",
        "rich",
        "pandas",
        "matplotlib",
    }


@pytest.mark.parametrize("command", [*COMMANDS, "datasets list", "datasets get"])
def test_every_help_has_an_example(command):
    text = ok(*command.split(), "--help").stdout
    assert re.search(rf"Example:\n +tdlg {command.split()[0]}\b", text)
    assert "\b" not in text


def test_all_commands_are_there_and_documented():
    command = [sys.executable, "-m", "tdlg", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    assert done.stdout == ok("--version").stdout == f"tdlg {tdlg.__version__}\n"
    assert "Commands:" in run().output
    listed = re.findall(r"^  (\w+)  ", ok("--help").stdout.partition("Commands:")[2], re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"## tdlg {name}" not in page] == []


def test_completion():
    text = subprocess.run(
        [sys.executable, "-m", "tdlg.cli"],
        capture_output=True,
        text=True,
        env={
            **environment(),
            "_TDLG_COMPLETE": "complete_bash",
            "COMP_WORDS": "tdlg datasets get bit",
            "COMP_CWORD": "3",
        },
    ).stdout
    assert text.split() == ["bitcoinalpha", "bitcoinotc"]
    assert compare._methods("propagation,label") == ["propagation,label-rates"]


# ---- classify


def test_the_table_comes_back_with_columns_added(table):
    result = classified(table)
    given, got = rows_of(table.read_text(encoding="utf-8"), ";"), rows_of(result.stdout)
    assert list(got[0]) == [*given[0], "predicted", "probability"]
    for old, new in zip(given, got, strict=True):
        assert {name: value.strip() for name, value in old.items()} == {name: new[name] for name in old}
        assert bool(new["predicted"]) == bool(new["probability"]) == (old[LABEL] in MISSING)
    asked = [row for row in got if row["predicted"]]
    right = [row["predicted"] == ("betrug" if row[DST] in ("Café № 0", "Café № 1") else "ok") for row in asked]
    assert np.mean(right) > 0.9
    assert all((float(row["probability"]) > 0.5) == (row["predicted"] == "betrug") for row in asked)
    assert f"{len(given) - len(asked)} known labels, {len(asked)} missing" in result.stderr
    assert "setting: interpolate" in result.stderr
    assert f'"probability" is the probability of {LABEL} = betrug' in result.stderr


@pytest.mark.parametrize("method", ["propagation", "linegraph"])
def test_a_rating_becomes_a_label(numbers, tmp_path, method):
    frame = pl.read_csv(numbers).with_columns(pl.when(pl.col("timestamp") < 150).then("stars"))
    frame.write_csv(path := tmp_path / "late.csv")
    at = frame.columns.index("stars")
    model = tmp_path / "m.tdlg"
    result = ok("classify", path, "--label", at, "--positive", "> 3", "--method", method, "--save", model)
    assert '"probability" is the probability of stars > 3\n' in ok("score", model, path).stderr
    answers = [row for row in rows_of(result.stdout) if row["predicted"]]
    assert len(answers) == 50
    assert {row["predicted"] for row in answers} == {"0", "1"}
    assert '"probability" is the probability of stars > 3\n' in result.stderr
    assert ("setting: forecast, because all missing labels are after the known ones (change" in result.stderr) == (
        method == "propagation"
    )


def test_the_columns_can_be_chosen(table, numbers, tmp_path):
    given = ["classify", table, *OPTIONS, "--label", LABEL, "--save", tmp_path / "model.tdlg"]
    result = ok(*given, "--calendar", "--scales", "3d, 0.1", "--no-two-ends")
    assert re.search(r"time scales: 3 days, \d+\.\d hours", result.stderr)
    names = tdlg.load_model(tmp_path / "model.tdlg").features_.get_feature_names_out().tolist()
    assert {"src_rate_3d", "src_rate_0.1", "hour_of_day", "day_of_week"} <= set(names)
    assert not [name for name in names if "partners" in name or "agreement" in name]
    assert "src_agreement" in _names_by_default(given, tmp_path)
    assert "The 'calendar' parameter needs times that are datetimes" in refused(
        "classify", numbers, "--label", "stars", "--positive", "> 3", "--evaluate", "random", "--save", tmp_path / "x.tdlg",
        "--calendar",
    )  # fmt: skip


def _names_by_default(given, folder):
    ok(*given)
    return tdlg.load_model(folder / "model.tdlg").features_.get_feature_names_out().tolist()


def test_more_than_two_classes(numbers, tmp_path):
    frame = pl.read_csv(numbers).with_columns(pl.when(pl.col("timestamp") % 5 > 0).then("stars"))
    frame.write_csv(path := tmp_path / "stars.csv")
    result = ok("classify", path, "--label", "stars")
    answers = [row for row in rows_of(result.stdout) if row["predicted"]]
    assert {row["predicted"] for row in answers} <= {"0", "1", "4", "5"}
    assert all(float(row["probability"]) >= 0.25 for row in answers)
    assert '"probability" is the probability of the predicted class' in result.stderr


def test_features(table):
    plain = classified(table, "--features", "none")
    richer = classified(table, "--features", "Betrag [€]")
    assert plain.stdout != richer.stdout
    usual = classified(table)
    assert usual.stdout == richer.stdout
    assert "features: Betrag [€] (change with --features)\n" in usual.stderr
    text = refused("classify", table, *OPTIONS, "--label", LABEL, "--features", "Betrag [€],Kanal")
    assert "No column 'Kanal' for 'features'" in text
    assert "is read as 300 different words, such as '00000'" in classified(table, "--features", "Nr.").stderr


def test_a_name_that_is_taken(table, tmp_path):
    classified(table, "-o", tmp_path / "once.csv")
    result = ok("classify", tmp_path / "once.csv", *OPTIONS, "--label", LABEL)
    assert list(rows_of(result.stdout)[0])[-4:] == ["predicted", "probability", "predicted_2", "probability_2"]


def test_report_and_save(table, tmp_path, monkeypatch):
    pages = []

    def write_report(path, model, edges, *, command, positive, evaluate, seed, **shown):
        pages.append((type(model).__name__, len(edges.edges), command, seed, positive, evaluate))
        Path(path).write_text("<html>")

    monkeypatch.setitem(sys.modules, "tdlg.report", SimpleNamespace(write_report=write_report))
    monkeypatch.setattr(sys, "argv", ["/bin/tdlg", "classify", str(table), "--seed", "3"])
    page, model = tmp_path / "page.html", tmp_path / "model.tdlg"
    given = ["classify", table, *OPTIONS, "--label", LABEL, "--report", page, "--save", model, "--seed", 3]
    result = ok(*given)
    assert page.read_text() == "<html>"
    assert pages[0][:2] == ("PropagationClassifier", 300)
    assert pages[0][2] == f"tdlg classify '{table}' --seed 3"
    assert pages[0][3:] == (3, "betrug", "auto")
    ok(*given, "--evaluate", "forecast", "--positive", "ok")
    assert (*pages[1][3:5], pages[1][5].how) == (3, "ok", "time")
    assert tdlg.load_model(model).setting_ == "interpolate"
    assert f"wrote the report {page}" in result.stderr


def test_the_page_is_told_the_name_of_the_label_and_the_ids(table, tmp_path, monkeypatch):
    told = []
    stub = SimpleNamespace(write_report=lambda *_, **given: told.append((given["label_name"], given["ids"])))
    monkeypatch.setitem(sys.modules, "tdlg.report", stub)
    with_ids = [{"konto_id": "7", "Zahlung_ID": f"Z{k}", **row} for k, row in enumerate(payments())]
    write_csv(tmp_path / "ids.csv", with_ids)
    for path, more in ((table, []), (tmp_path / "ids.csv", ["--positive", "=ok"])):
        ok(
            "classify",
            path,
            *OPTIONS,
            "--label",
            LABEL,
            "--report",
            tmp_path / "page.html",
            *more,
            "-o",
            tmp_path / "o.csv",
        )
    assert told[0] == (LABEL, None)
    assert told[1][0] == LABEL
    assert (told[1][1].name, told[1][1].to_list()) == ("Zahlung_ID", [f"Z{k}" for k in range(300)])


def test_a_report_as_json(table, tmp_path):
    page, filled = tmp_path / "page.json", tmp_path / "out.csv"
    result = classified(table, "--report", page, "-o", filled)
    assert f"wrote the report {page}" in result.stderr
    said, answers = json.loads(page.read_text(encoding="utf-8")), pl.read_csv(filled)
    shown = {row["row"]: row["probability"] for row in said["interactions"]["rows"]}
    assert len(shown) == said["data"]["n_to_predict"] == answers["probability"].count()
    for row, probability in shown.items():
        assert answers["probability"][row - 1] == pytest.approx(probability, abs=1e-3)


def counted(monkeypatch, counts, owner, name):
    """Count the calls of a function from here on."""
    function = getattr(owner, name)

    def call(*given, **more):
        counts[name] = counts.get(name, 0) + 1
        return function(*given, **more)

    monkeypatch.setattr(owner, name, call)


def test_each_thing_is_done_once(table, tmp_path, monkeypatch):
    from tdlg.io import csv as csv_files
    from tdlg.io import read as reading
    from tdlg.judge.references import LabelRates
    from tdlg.models import propagation as models
    from tdlg.models.propagation import PropagationClassifier

    given = ["classify", table, *OPTIONS, "--label", LABEL, "--evaluate", "random"]
    alone = ok(*given)
    counts = {}
    for owner, name in (
        (csv_files, "text_bytes"),
        (csv_files, "_read_columns"),
        (reading, "roles"),
        (PropagationClassifier, "fit"),
        (PropagationClassifier, "_answer"),
        (LabelRates, "fit"),
        (models, "table_columns"),
    ):
        counts_of = counts.setdefault(owner.__name__.rpartition(".")[2], {})
        counted(monkeypatch, counts_of, owner, name)
    both = ok(*given, "--report", tmp_path / "page.html")
    assert both.stdout == alone.stdout
    assert counts["csv"] == {"text_bytes": 1, "_read_columns": 1}
    assert counts["read"] == {"roles": 1}
    assert counts["LabelRates"] == {"fit": 1}
    assert counts["propagation"] == {"table_columns": 4}  # of two fits, of the edges held out, of all edges
    assert counts["PropagationClassifier"]["fit"] == 2  # the model, and its copy without the labels held out
    assert (
        counts["PropagationClassifier"]["_answer"] == 2 + 2 * 2
    )  # probabilities; effects for interactions and for nodes


def test_shell_and_page_show_the_same_figures(table, tmp_path):
    given = [
        "classify",
        table,
        *OPTIONS,
        "--label",
        LABEL,
        "--evaluate",
        "forecast",
        "--report",
        tmp_path / "page.html",
    ]
    shell = {line.split("  ")[0]: line.split()[-3:] for line in ok(*given).stderr.splitlines()}
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    rows = re.findall(r'<tr><th scope="row">(AUC|Average precision)<.*?</tr>', page, re.S)
    cells = re.findall(
        r'<tr><th scope="row">(?:AUC|Average precision)<.*?ours">([\d.]+) .*?figure">([\d.]+) ', page, re.S
    )
    assert len(rows) == len(cells) == 2
    assert [ours for ours, _ in cells] == shell["propagation"][:2]
    assert [theirs for _, theirs in cells] == shell["label rates"][:2]


@pytest.mark.parametrize("positive", ["> 3", "<= 3"])
def test_one_class_is_told_everywhere(numbers, tmp_path, positive):
    frame = pl.read_csv(numbers).with_columns(pl.when(pl.col("timestamp") % 5 > 0).then("stars"))
    frame.write_csv(path := tmp_path / "stars.csv")
    given = ["classify", path, "--bipartite", "--label", "stars", "--positive", positive, "--evaluate", "random"]
    result = ok(*given, "--save", tmp_path / "m", "--report", tmp_path / "page.html")
    assert "average precision for 1" in result.stderr
    assert re.search(r"precision in the top \d+ for 1\n", result.stderr)
    share = float(re.search(r"^chance .* (\S+)$", result.stderr, re.MULTILINE)[1])
    assert (share > 0.5) == (positive == "> 3")
    assert f'"probability" is the probability of stars {positive}\n' in result.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(r"This page predicts <[^>]+>\(stars (&gt;|&lt;=) 3\) = 1<", page)
    nodes = ok("nodes", tmp_path / "m", path)
    first = rows_of(nodes.stdout)[0]
    assert (first["role"], int(first["node"]) < 3) == ("dst", positive == "<= 3")
    assert nodes.stderr == "positive class: 1\n"
    risky = 1 + pl.read_csv(path)["item"].to_list().index(int(first["node"]))
    told = ok("explain", tmp_path / "m", path, "--row", risky)
    assert "explained: the score of class 1" in told.stderr
    assert {row["class"] for row in rows_of(told.stdout)} <= {"1"}


def test_the_page_holds_out_as_asked(numbers, tmp_path):
    frame = pl.read_csv(numbers).with_columns(pl.when(pl.col("timestamp") % 5 > 0).then("stars"))
    frame.write_csv(path := tmp_path / "stars.csv")
    given = ["classify", path, "--label", "stars", "--positive", "> 3", "--report", tmp_path / "page.html"]
    for kind in ("forecast", "random"):
        ok(*given, "--evaluate", kind)
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert ("interactions chosen at random" in page, "Measured on the last" in page) == (
            kind == "random",
            kind == "forecast",
        )


def test_evaluate_with_too_few_labels_goes_on(tmp_path):
    (path := tmp_path / "few.csv").write_text("src,dst,time,y\na,b,1,x\nb,c,2,y\nc,d,3,\n")
    for kind in ("random", "forecast"):
        result = ok("classify", path, "--label", "y", "--evaluate", kind)
        assert "not evaluated: The 2 known labels are too few to hold some out" in result.stderr
        assert rows_of(result.stdout)[2]["predicted"] in ("x", "y")
    path.write_text("src,dst,time,y\na,b,1,x\nb,c,2,y\n")
    assert "The 2 known labels are too few" in refused("classify", path, "--label", "y", "--evaluate", "random")


# ---- labels


def labelled_edges(edges, column, positive, missing):
    rule = LabelRule(positive, None if missing is None else tuple(missing.split(",")), column)
    return edges.with_label(rule.read(edges.label)[0])


def edges_with(labels):
    n = len(labels)
    return tdlg.TemporalEdges(range(n), range(1, n + 1), range(n), label=labels)


@pytest.mark.parametrize(
    ("labels", "condition", "wanted"),
    [
        ([-2, 0, 3, None], "> 0", [0, 0, 1, None]),
        ([-2, 0, 3, None], ">=0", [0, 1, 1, None]),
        ([-2, 0, 3, None], "< 0", [1, 0, 0, None]),
        ([-2, 0, 3, None], "<= 0", [1, 1, 0, None]),
        ([-2, 0, 3, None], "== 3", [0, 0, 1, None]),
        ([-2, 0, 3, None], "=3.0", [0, 0, 1, None]),
        ([-2, 0, 3, None], "3", [0, 0, 1, None]),
        ([-2, 0, 3, None], "!= 0", [1, 0, 1, None]),
        ([0.5, 0.25], "> 0.3", [1, 0]),
        ([0.5, 0.25], "0.5", [1, 0]),
        (["fraud", "ok", None], "fraud", ["fraud", "ok", None]),
        (["fraud", "ok", "NULL"], "!= ok", ["fraud", "ok", None]),
        (["very bad", "ok", "good"], "  very bad ", ["very bad", "not very bad", "not very bad"]),
        ([True, False], "true", [True, False]),
    ],
)
def test_conditions(labels, condition, wanted):
    got = labelled_edges(edges_with(labels), "x", condition, None).label
    assert [None if value is None or value != value else value for value in got] == wanted


@pytest.mark.parametrize(
    ("labels", "condition", "message"),
    [
        ([1, 2], "> many", "'many' in the condition is not a number"),
        ([1, 2], "> 5", "holds for no known label of 'x': 1, 2"),
        ([1, 2], "> 0", "holds for every known label"),
        (["a", "b"], "> 0", "are words: 'a', 'b'"),
        (["a", "b"], "c", "No known label of 'x' is 'c'. They are 'a', 'b'"),
        ([1, 2], "", "must be a value or a condition"),
        ([1, 2], ">", "must be a value or a condition"),
        ([True, False], "> 0", "true or false"),
        ([None, None], "> 0", "All labels in the column 'x' are missing"),
        ([0.5, 0.25], None, "numbers that are not classes: 0.25, 0.5. Give the positive class"),
        (list(range(200)), None, "200 different values: 0, 1, 2, 3, ..., 199"),
    ],
)
def test_conditions_that_cannot_be(labels, condition, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        labelled_edges(edges_with(labels), "x", condition, None)


def test_words_for_missing_labels():
    edges = labelled_edges(edges_with(["a", "b", "?", "Unknown", "nan"]), "x", None, "?, unknown")
    assert edges.label.tolist() == ["a", "b", None, None, None]
    ratings = labelled_edges(edges_with(["4", "-1.5", "?", "007"]), "x", "!= 4", "?")
    assert ratings.label.tolist() == ["4", "not 4", None, "not 4"]
    ratings = labelled_edges(edges_with(["4", "-1.5", "?"]), "x", "> 0", "?")
    assert np.array_equal(ratings.label, [1, 0, np.nan], equal_nan=True)
    numbers = labelled_edges(edges_with([0, 1, -1]), "x", None, "-1")
    assert numbers.labelled.tolist() == [True, True, False]
    assert labelled_edges(edges_with([0, 1, -1]), "x", None, None).labelled.all()


def test_two_words_as_numbers():
    edges, positive = as_two_numbers(edges_with(["ok", "ok", "fraud", None]))
    assert positive == "fraud"
    assert np.array_equal(edges.label, [0, 0, 1, np.nan], equal_nan=True)
    assert as_two_numbers(edges_with([0, 1, 1]))[1] == 1
    assert as_two_numbers(edges_with(["a", "b", "c"]))[1] is None


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            "n",
            "'n': numbers from 0 to 299, 300 different; 0 missing; to classify, give the positive class, for example",
        ),
        ("x", "'x': numbers from 0 to 42.7143, 300 different"),
        ("w", "'w': 300 different words, too many for classes"),
        ("void", "'void': all missing"),
    ],
)
def test_info_describes_labels_that_are_no_classes(tmp_path, column, said):
    rows = [{"src": k, "dst": k % 3, "time": k, "n": k, "x": k / 7, "w": f"w{k}", "void": ""} for k in range(300)]
    assert f"label          {said}" in ok("info", write_csv(tmp_path / "labels.csv", rows), "--label", column).stdout


# ---- files in and out


def test_parquet_in_and_out(table, tmp_path):
    frame = pl.read_csv(table, separator=";", infer_schema_length=None).with_columns(
        pl.col(TIME).str.to_datetime("%d.%m.%Y %H:%M"), pl.col(LABEL).replace(MISSING[1:], None), x=pl.lit([1, 2])
    )
    frame.write_parquet(path := tmp_path / "payments.parquet")
    classified(path, "-o", tmp_path / "out.parquet")
    got = pl.read_parquet(tmp_path / "out.parquet")
    assert got.drop("predicted", "probability").equals(frame)
    assert got.schema["probability"] == pl.Float64
    assert (got["predicted"].is_null() == frame[LABEL].is_not_null()).all()
    assert rows_of(ok("embed", path, *OPTIONS, "--dim", 1).stdout)[0]["x"] == "[1, 2]"


@pytest.mark.parametrize(("name", "separator"), [("out.csv", ","), ("out.TSV", "\t"), ("out.csv.gz", ",")])
def test_text_files(numbers, tmp_path, name, separator):
    ok("embed", numbers, "--dim", 2, "-o", tmp_path / name)
    assert pl.read_csv(tmp_path / name, separator=separator).columns == [
        "user",
        "item",
        "timestamp",
        "stars",
        "e0",
        "e1",
    ]
    assert (tmp_path / name).read_bytes()[:2] == (b"\x1f\x8b" if name.endswith("gz") else b"us")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """JSON lines with odd keys: verdicts and fees are missing here and there, and a key that comes late."""
    path = tmp_path_factory.mktemp("tables") / "Zahlungen.jsonl"
    lines = []
    for k, row in enumerate(payments()):
        when = datetime.strptime(row[TIME], "%d.%m.%Y %H:%M").isoformat() + "Z"
        line = {"nr": k, SRC: row[SRC], DST: row[DST], TIME: when, "fee": str(k) if k % 3 else k, "meta": {"ip": [k]}}
        line |= {} if row[LABEL] in MISSING else {LABEL: row[LABEL] == "betrug"}
        lines.append(line | ({"late": 2**64} if k == 299 else {}))
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def json_of(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in content.decode().splitlines()]


@pytest.mark.parametrize("name", ["out.jsonl", "out.NDJSON", "out.jsonl.gz"])
def test_json_lines_in_and_out(log, tmp_path, name):
    arguments = ["classify", log, *OPTIONS, "--label", LABEL, "--features", "fee"]
    ok(*arguments, "-o", tmp_path / name)
    given, got = json_of(log), json_of(tmp_path / name)
    assert list(got[0]) == ["nr", SRC, DST, TIME, "fee", "meta", LABEL, "late", "predicted", "probability"]
    for old, new in zip(given, got, strict=True):
        assert {key: new[key] for key in old} == old
        assert (new["predicted"] is None) == (LABEL in old)
    asked = [row for row in got if row["predicted"] is not None]
    assert np.mean([row["predicted"] == (row[DST] in ("Café № 0", "Café № 1")) for row in asked]) > 0.9
    as_csv = rows_of(ok(*arguments).stdout)
    assert [row["probability"] for row in as_csv] == [str(row["probability"] or "") for row in got]
    assert (as_csv[-1]["meta"], as_csv[-1]["late"]) == ('{"ip": [299]}', str(2**64))


def test_json_lines_from_stdin(log):
    plain = ok("info", log, *OPTIONS, "--label", LABEL).stdout
    assert "'Händler': text, 10 different" in plain
    for content in (log.read_bytes(), b"\xef\xbb\xbf\n" + log.read_bytes(), gzip.compress(log.read_bytes())):
        assert ok("info", "-", *OPTIONS, "--label", LABEL, stdin=content).stdout == plain
    assert refused("info", "-", stdin='{"src":1}\n{\n').startswith(
        "error: stdin.jsonl: line 2 is not a JSON object: '{'"
    )
    assert "An array of objects" in refused("info", "-", stdin='[{"src": 1}]')


def test_a_condition_on_true_with_missing_labels(log, tmp_path):
    classified(log, "--positive", "True", "-o", tmp_path / "out.jsonl")
    assert {row["predicted"] for row in json_of(tmp_path / "out.jsonl")} == {0, 1, None}
    assert "are true or false" in refused("classify", log, *OPTIONS, "--label", LABEL, "--positive", "> 0")


def test_json_lines_go_to_other_files_and_models(log, tmp_path):
    ok("outliers", log, *OPTIONS, "--save", tmp_path / "m.tdlg", "-o", tmp_path / "odd.parquet")
    got = pl.read_parquet(tmp_path / "odd.parquet")
    assert got["meta"][-1] == '{"ip": [299]}'
    assert got.schema["nr"] == pl.Int64
    ok("score", tmp_path / "m.tdlg", log, *OPTIONS, "-o", tmp_path / "scored.jsonl")
    assert [row["outlier_score"] for row in json_of(tmp_path / "scored.jsonl")] == got["outlier_score"].to_list()


def test_dates_and_lists_of_parquet_in_json_lines(tmp_path):
    frame = pl.DataFrame({"src": [1, 2], "dst": [2, 3], "time": [datetime(2020, 1, 31, 10), datetime(2020, 2, 1)]})
    frame = frame.with_columns(x=pl.Series([[1], None]), y=pl.Series([float("nan"), 0.5]))
    frame.write_parquet(path := tmp_path / "edges.parquet")
    ok("embed", path, "--dim", 1, "-o", tmp_path / "out.jsonl")
    got = json_of(tmp_path / "out.jsonl")
    assert [row["time"][:16] for row in got] == ["2020-01-31T10:00", "2020-02-01T00:00"]
    assert [(row["x"], row["y"]) for row in got] == [([1], None), (None, 0.5)]
    frame.with_columns(z=pl.Series([b"1", None])).write_parquet(path)
    ok("embed", path, "--dim", 1, "-o", tmp_path / "out.jsonl")
    assert [(row["y"], row["z"]) for row in json_of(tmp_path / "out.jsonl")] == [(None, "b'1'"), (0.5, None)]


def test_a_separator_may_be_meant_for_the_other_file(log, tmp_path):
    (path := tmp_path / "pairs.csv").write_text(f"{SRC}#{DST}\nJürgen 1#Café № 1\n", encoding="utf-8")
    got = rows_of(ok("links", log, *OPTIONS, "--separator", "#", "--candidates", path).stdout)
    assert [(row[SRC], row[DST]) for row in got] == [("Jürgen 1", "Café № 1")]


def test_a_table_without_names(numbers, tmp_path):
    text = numbers.read_text().partition("\n")[2]
    (path := tmp_path / "plain.txt").write_text(text)
    result = ok(
        "classify",
        path,
        "--src",
        0,
        "--dst",
        "1",
        "--time",
        2,
        "--label",
        3,
        "--positive",
        "> 3",
        "--save",
        tmp_path / "m",
    )
    assert "saved the model" in result.stderr
    ok("score", tmp_path / "m", path, "--src", 0, "--dst", 1, "--time", 2, "-o", tmp_path / "out.csv")
    written = rows_of((tmp_path / "out.csv").read_text())
    assert list(written[0]) == ["src", "dst", "time", "column_3", "predicted", "probability"]
    assert "Pass --src 0, --dst 1 and --time " in refused("info", path)


def test_a_position_beside_names(numbers, tmp_path):
    frame = pl.read_csv(numbers).rename({"user": "who", "stars": "0"})
    frame.write_parquet(path := tmp_path / "odd.parquet")
    assert "'who': whole numbers" in ok("info", path, "--src", "who").stdout
    assert "'0': whole numbers" in ok("info", path, "--src", "0").stdout
    assert "'item': whole numbers" in ok("info", path, "--src", "0", "--dst", "1").stdout


def test_two_columns_of_one_name(tmp_path):
    (path := tmp_path / "twice.csv").write_text("src,dst,time,x,x\na,b,1,2,3\nb,c,2,4,5\nc,a,3,6,7\n")
    got = rows_of(ok("embed", path, "--dim", 1).stdout)
    assert list(got[0])[:5] == ["src", "dst", "time", "x", "x (column 4)"]
    assert got[1]["x (column 4)"] == "5"
    (path := tmp_path / "labels.csv").write_text("src,dst,time,x,x,y\na,b,1,2,3,0\nb,c,2,4,5,1\nc,a,3,6,7,\n")
    learnt = ok("classify", path, "--label", "y", "--features", "3,4", "--save", tmp_path / "m")
    assert "not used" not in learnt.stderr
    assert len(rows_of(ok("score", tmp_path / "m", path).stdout)) == 3


def test_stdin(table, numbers):
    given = table.read_bytes()
    assert ok("info", "-", *OPTIONS, stdin=given).stdout == ok("info", table, *OPTIONS).stdout
    buffer = io.BytesIO()
    pl.read_csv(numbers).write_parquet(buffer)
    assert "'user': whole numbers" in ok("info", "-", stdin=buffer.getvalue()).stdout
    assert refused("info", "-", stdin="a\n").startswith("error: stdin.csv: only one column")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    lines = b'{"src": "a", "dst": "b", "time": 1}\n'
    threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(lines), daemon=True).start()
    assert "'src': text, 1 different" in ok("info", tmp_path / "pipe").stdout


def test_candidates_without_a_header(tmp_path):
    rows = [{"src": "abc"[k % 3], "dst": "xyz"[k % 2], "time": k} for k in range(40)]
    edges = write_csv(tmp_path / "edges.csv", rows)
    for text in ("a,x\nb,y\n", "src,dst\na,x\nb,y\n", "who,whom\na,x\nb,y\n"):
        (tmp_path / "pairs.csv").write_text(text)
        got = rows_of(ok("links", edges, "--candidates", tmp_path / "pairs.csv").stdout)
        assert sorted((row["src"], row["dst"]) for row in got) == [("a", "x"), ("b", "y")]


def test_a_model_is_not_written_into_a_pipe(table, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for command in (["classify", table, *OPTIONS, "--label", LABEL], ["outliers", table, *OPTIONS]):
        assert "this is a device or a pipe" in refused(*command, "--save", tmp_path / "pipe")


def test_bytes_become_text_in_csv(tmp_path):
    rows = pl.DataFrame({"src": [1, 2, 3], "dst": [2, 3, 1], "time": [1, 2, 3], "raw": [b"a", b"\xff", None]})
    rows.write_parquet(tmp_path / "raw.parquet")
    got = rows_of(ok("embed", tmp_path / "raw.parquet", "--dim", 1).stdout)
    assert [row["raw"] for row in got] == ["b'a'", r"b'\xff'", ""]


# ---- outliers, links, embed


def test_outliers(table):
    shuffled = "--method", "shuffled"
    result = ok("outliers", table, *OPTIONS, *shuffled)
    got = rows_of(result.stdout)
    assert len(got) == 300
    assert {row["outlier"] for row in got} <= {"0", "1"}
    assert all((float(row["outlier_score"]) > 0) == (row["outlier"] == "1") for row in got)
    assert "AUC for real against shuffled rows" in result.stderr
    few = rows_of(ok("outliers", table, *OPTIONS, *shuffled, "--contamination", 0.1).stdout)
    assert sum(row["outlier"] == "1" for row in few) == 30


def test_outliers_by_other_methods(table):
    shuffled, by_rows = (
        ok("outliers", table, *OPTIONS, "--method", method).stdout for method in ("shuffled", "linegraph")
    )
    assert shuffled != by_rows
    assert {float(row["outlier_score"]) > 0 for row in rows_of(shuffled) if row["outlier"] == "1"} == {True}


def test_outliers_of_all_notions(tmp_path):
    """A newcomer and an absurd amount among usual payments: which notion spoke, and why, in the table and in words."""
    rng = np.random.default_rng(0)
    lines = [f"{k % 7},{k % 5},{k},{a:.2f},{'ab'[k % 2]}" for k, a in enumerate(rng.lognormal(3, 0.2, 9000))]
    lines[7500], lines[7700] = "99,3,7500,20,a", "3,4,7700,9000,b"
    path = tmp_path / "pay.csv"
    path.write_text("\n".join(["src,dst,time,amount,kind", *lines]) + "\n")
    result = ok("outliers", path, "--group", "kind", "--save", tmp_path / "m.tdlg", "-o", tmp_path / "out.csv")
    assert "features: amount, kind" in result.stderr
    assert "method: any, bursts of 180 time units" in result.stderr
    assert re.search(r"new and rare +\d+ +\d+ +.*7,501", result.stderr)
    assert re.search(r"unusual values +\d+ +\d+ +7,701", result.stderr)
    got = rows_of((tmp_path / "out.csv").read_text())
    assert [got[k]["outlier_notion"] for k in (0, 7500, 7700)] == ["", "rare", "value"]
    assert got[7500]["outlier_reason"] == "source node 99 was never seen among 7,500 earlier interactions"
    assert got[7700]["outlier_reason"].startswith("amount of 9,000, where ")
    told = ok("explain", tmp_path / "m.tdlg", path, "--row", 7501, "-o", tmp_path / "why.csv").stderr
    assert "outlier_notion = rare" in told
    assert rows_of((tmp_path / "why.csv").read_text())[0]["reason"] == got[7500]["outlier_reason"]
    weighed = ok("outliers", path, "--label", "kind", "--positive", "a", "-o", tmp_path / "out.csv").stderr
    assert "weights by the labels: burst" in weighed


def test_outliers_with_the_notion_of_the_paper_and_a_page(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"n{k % 7},m{(k + k // 300) % 5},{k},{'ab'[k % 2]}" for k in rng.permutation(600).tolist()] + [
        "<b>,m1,590,a"
    ]
    (path := tmp_path / "log.csv").write_text("\n".join(["src,dst,time,kind", *lines]) + "\n")
    page = tmp_path / "page.html"
    more = "--with-misplaced", "--contamination", 0.02, "--report", page
    result = ok("outliers", path, *more, "-o", tmp_path / "out.csv")
    assert re.search(r"misplaced +\d+ +\d+ ", result.stderr)
    assert f"wrote the report {page}" in result.stderr
    text, got = page.read_text(encoding="utf-8"), rows_of((tmp_path / "out.csv").read_text())
    assert "<script" not in text
    assert "&lt;b&gt;" in text
    assert "<b>," not in text
    n_outliers = sum(row["outlier"] == "1" for row in got)
    assert text.count('<td class="why"') == n_outliers > 3
    assert {row["outlier_notion"] for row in got} - {""} <= {"burst", "rare", "misplaced"}
    ok("outliers", path, "--report", tmp_path / "page.json", "--contamination", 0.02, "-o", tmp_path / "out.csv")
    said = json.loads((tmp_path / "page.json").read_text())
    assert [one["notion"] for one in said["notions"]] == ["bursts", "new and rare", "unusual values"]
    assert said["n_outliers"] == len(said["rows"])


@pytest.mark.parametrize("method", ["burst", "rare", "value", "shuffled", "linegraph"])
def test_every_method_tells_the_reason_of_each_outlier(tmp_path, method):
    lines = [f"n{k % 7},m{k % 5},{k % 400},{k % 9}" for k in range(600)] + ["n1,m1,399,5000"] * 60
    (path := tmp_path / "log.csv").write_text("\n".join(["src,dst,time,amount", *lines]) + "\n")
    got = rows_of(ok("outliers", path, "--method", method, "--contamination", 0.1).stdout)
    outliers = [row for row in got if row["outlier"] == "1"]
    notion = "misplaced" if method in ("shuffled", "linegraph") else method
    assert outliers
    assert {row["outlier_notion"] for row in outliers} == {notion}
    assert all(row["outlier_reason"] for row in outliers)
    assert not any(row["outlier_reason"] for row in got if row["outlier"] == "0")


def test_bursts_of_a_group(tmp_path):
    """The same in memory and on disk."""
    lines = [f"n{k % 97},m{k % 89},{k},c{k % 20}" for k in range(2000)] + [f"x{k},m{k},1500,c3" for k in range(40)]
    (path := tmp_path / "log.csv").write_text("\n".join(["src,dst,time,country", *lines]) + "\n")
    burst = "--method", "burst", "--group", "country", "-o", tmp_path / "out.csv"
    found = []
    for more in ((), ("--memory", "2GB")):
        ok("outliers", path, *burst, *more)
        found.append(rows_of((tmp_path / "out.csv").read_text()))
    memory, disk = ([(row["outlier_score"], row["outlier"]) for row in rows] for rows in found)
    assert memory == disk
    outliers = [row for row in found[0] if row["outlier"] == "1"]
    assert {row["country"] for row in outliers} == {"c3"}
    assert sum(row["src"][0] == "x" for row in outliers) > 20
    assert "interactions with country 'c3' within" in found[0][-1]["outlier_reason"]


def test_outliers_leave_out_what_may_be_a_label(tmp_path):
    """A column that marks outliers would be found to be rare; only a user who asks for it gets it, or names it as labels."""
    rng = np.random.default_rng(0)
    lines = [f"{k % 7},{k % 5},{k},{a:.2f},{int(k % 100 == 99)}" for k, a in enumerate(rng.lognormal(3, 0.2, 800))]
    path, out = tmp_path / "pay.csv", ("-o", tmp_path / "out.csv")
    path.write_text("\n".join(["src,dst,time,amount,is_fraud", *lines]) + "\n")
    reason = "is_fraud (may be a label; --features all, or name it, to use it)"
    for more in ((), ("--method", "rare"), ("--label", "is_fraud")):
        told = ok("outliers", path, *more, *out).stderr
        assert "features: amount (" in told
        assert (f"not used: {reason}" in told) == ("--label" not in more)
    unlabelled = ok("outliers", path, "--features", "amount").stdout
    assert ok("outliers", path).stdout == unlabelled
    for features in ("all", "amount,is_fraud"):
        assert reason not in ok("outliers", path, "--features", features, *out).stderr
        assert ok("outliers", path, "--features", features).stdout != unlabelled


def test_bursts(tmp_path):
    """Node 9 makes 30 interactions at the end; the command shows them and a saved model explains them."""
    lines = [f"{k % 8},{(k + 1) % 8},{k}" for k in range(400)] + [f"9,{k % 8},400" for k in range(30)]
    path = tmp_path / "burst.csv"
    path.write_text("\n".join(["src,dst,time", *lines]) + "\n")
    result = ok("outliers", path, "--method", "burst", "--save", tmp_path / "m.tdlg", "-o", tmp_path / "out.csv")
    assert "method: burst, bursts of 8.489 time units beside what is usual in 122.5 time units" in result.stderr
    got = rows_of((tmp_path / "out.csv").read_text())
    assert {row["src"] for row in got if row["outlier"] == "1"} == {"9"}
    assert float(got[-1]["outlier_score"]) == max(float(row["outlier_score"]) for row in got)
    assert "method: any" in ok("outliers", path).stderr
    told = ok("explain", tmp_path / "m.tdlg", path, "--row", 430, "-o", tmp_path / "why.csv").stderr
    assert f"row 430: outlier_score = {got[-1]['outlier_score']}, outlier = 1" in told
    assert "explained: the outlier score, a number of digits: higher is more surprising" in told
    assert rows_of((tmp_path / "why.csv").read_text())[0]["score"] == got[-1]["outlier_score"]
    assert "30 interactions from node 9 within 8.489 time units" in (tmp_path / "why.csv").read_text()
    assert "only `tdlg score` and `tdlg explain` can use it" in refused("nodes", tmp_path / "m.tdlg", path)


@pytest.mark.parametrize("head", [f"{SRC};{DST}", "das Konto von;der Händler"])
@pytest.mark.parametrize("shops", [["Café № 1"], ["Café № 1", "Café № 2"]])
def test_pairs_with_blanks_in_their_values(table, tmp_path, head, shops):
    lines = [head, *(f"Jürgen 1;{shop}" for shop in shops)]
    (path := tmp_path / "pairs.csv").write_text("\n".join(lines), encoding="utf-8")
    got = rows_of(ok("links", table, *OPTIONS, "--candidates", path).stdout)
    assert sorted(row[DST] for row in got) == shops
    lines = [json.dumps({DST: shop, SRC: "Jürgen 1"}) for shop in shops]
    (path := tmp_path / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert rows_of(ok("links", table, *OPTIONS, "--candidates", path).stdout) == got


def test_links_between_numbers(numbers, tmp_path):
    assert len(rows_of(ok("links", numbers, "--top", 5, "--at", "150").stdout)) == 5
    (path := tmp_path / "pairs.txt").write_text("1,2\n3,4\n")
    assert {row["user"] for row in rows_of(ok("links", numbers, "--candidates", path).stdout)} == {"1", "3"}
    path.write_text("1,2\n3,x\n")
    assert "'x' in the column '1' is not a number" in refused("links", numbers, "--candidates", path)


def test_embed(numbers):
    got = rows_of(ok("embed", numbers, "--dim", 3).stdout)
    assert list(got[0])[-3:] == ["e0", "e1", "e2"]
    nodes = rows_of(ok("embed", numbers, "--dim", 3, "--nodes").stdout)
    assert list(nodes[0]) == ["node", "e0", "e1", "e2"]
    two = rows_of(ok("embed", numbers, "--dim", 3, "--nodes", "--bipartite").stdout)
    assert [row["side"] for row in two] == ["src"] * 20 + ["dst"] * 8
    assert "allow only" in ok("embed", numbers, "--dim", 500).stderr


def test_embed_where_all_happens_at_once(tmp_path):
    (path := tmp_path / "once.csv").write_text("src,dst,time\na,b,1\nb,c,1\n")
    result = ok("embed", path, "--dim", 1)
    assert "all times are equal" in result.stderr
    assert len(rows_of(result.stdout)) == 2


# ---- saved models


def test_score(table, model, odd_model):
    got = rows_of(ok("score", model, table, *OPTIONS).stdout)
    assert all(row["predicted"] in ("ok", "betrug") for row in got)
    assert np.mean([(row["predicted"] == "betrug") == (row[DST] in ("Café № 0", "Café № 1")) for row in got]) > 0.9
    assert ok("score", odd_model, table, *OPTIONS).stdout == ok("outliers", table, *OPTIONS).stdout


def test_score_remembers_features_and_kinds(numbers, tmp_path):
    path, paid = tmp_path / "m.tdlg", tmp_path / "paid.csv"
    frame = pl.read_csv(numbers)
    frame.with_columns(pl.Series("amount, EUR", range(200)), channel=pl.lit("web")).write_csv(paid)
    learning = ["classify", paid, "--label", "stars", "--positive", "> 3", "--features", "4,channel"]
    ok(*learning, "--bipartite", "--save", path)
    assert "predicted" in ok("score", path, paid).stdout
    assert "No column 'amount, EUR' for 'features'" in refused("score", path, numbers)


def test_score_finds_the_columns_of_the_table_before(table, model, odd_model, tmp_path):
    assert ok("score", model, table).stdout == ok("score", model, table, *OPTIONS).stdout
    assert ok("score", odd_model, table).stdout == ok("score", odd_model, table, *OPTIONS).stdout
    assert ok("explain", model, table, "--row", 1).stdout
    other, text = tmp_path / "renamed.csv", table.read_text(encoding="utf-8")
    other.write_text(text.replace(SRC, "from", 1), encoding="utf-8")
    assert "predicted" in ok("score", model, other).stdout
    lines = other.read_text(encoding="utf-8").splitlines()
    other.write_text("\n".join([f"{lines[0]};to", *(f"{line};elsewhere" for line in lines[1:])]), encoding="utf-8")
    found, by_model = ok("score", model, other).stdout, ok("score", model, other, "--dst", DST).stdout
    assert found == ok("score", model, other, "--dst", "to").stdout != by_model
    other.write_text(text.replace(SRC, "x", 1), encoding="utf-8")
    assert "No column has a usual name for 'src'" in refused("score", model, other)


def test_labels_that_came_later_are_read_as_then(numbers, tmp_path):
    path, later = tmp_path / "m.tdlg", tmp_path / "later.csv"
    frame = pl.read_csv(numbers).with_columns(pl.col("timestamp") + 200, pl.col("stars").cast(pl.String))
    ok("classify", numbers, "--label", "stars", "--positive", "> 3", "--setting", "stream", "--save", path)
    frame[:100].with_columns(pl.lit("?").alias("stars")).write_csv(unknown := tmp_path / "unknown.csv")
    frame[:100].with_columns(stars=pl.when(pl.col("timestamp") < 250).then("stars").otherwise(pl.lit("?"))).write_csv(
        later
    )
    with warnings.catch_warnings():
        plain = rows_of(ok("score", path, later).stdout)
        told = rows_of(ok("score", path, later, "--label", "stars", "--positive", "> 3", "--missing", "?").stdout)
        assert ok("score", path, unknown, "--label", "stars", "--positive", "> 3", "--missing", "?").stdout
        frame.filter(pl.col("item") < 3)[:20].write_csv(low := tmp_path / "low.csv")
        assert ok("score", path, low, "--label", "stars", "--positive", "> 3").stdout
    assert [row["probability"] for row in plain] != [row["probability"] for row in told]
    assert "the model knows only 0, 1. Pass the same --positive" in refused("score", path, numbers, "--label", "stars")
    assert "--positive" in refused("score", path, numbers, "--positive", "> 3", code=2)


@pytest.mark.parametrize(("unit", "other"), [("s", None), (None, "s")])
def test_times_of_a_model_and_a_table_are_alike(numbers, tmp_path, unit, other):
    given, asked = ([] if one is None else ["--time-unit", one] for one in (unit, other))
    ok("classify", numbers, "--label", "stars", "--positive", "> 3", "--save", tmp_path / "m", *given)
    for command in ("score", "nodes"):
        text = refused(command, tmp_path / "m", numbers, *asked)
        assert ("Pass the same --time-unit" if unit else "Leave out --time-unit") in text


def test_score_other_models(numbers, tmp_path):
    ok("links", numbers, "--save", tmp_path / "links", "-o", tmp_path / "a.csv")
    assert list(rows_of(ok("score", tmp_path / "links", numbers).stdout)[0])[-1] == "score"
    ok("embed", numbers, "--dim", 2, "--save", tmp_path / "embed", "-o", tmp_path / "b.csv")
    assert list(rows_of(ok("score", tmp_path / "embed", numbers).stdout)[0])[-2:] == ["e0", "e1"]


def test_a_warning_of_the_library_is_a_warning_here(table, model, tmp_path):
    later = [{**row, TIME: row[TIME].replace("2023", "2025")} for row in payments()]
    with warnings.catch_warnings():
        text = ok("score", model, write_csv(tmp_path / "later.csv", later), *OPTIONS).stderr
    assert "warning: All edges to score are later than the fitted ones" in text
    assert "UserWarning" not in text


@pytest.mark.parametrize("method", ["propagation", "linegraph"])
def test_explain(table, tmp_path, method):
    path = tmp_path / "m.tdlg"
    classified(table, "--method", method, "--save", path, "-o", tmp_path / "out.csv")
    at = next(k for k, row in enumerate(payments()) if row[LABEL] == "betrug")
    result = ok("explain", path, table, *OPTIONS, "--row", at + 1, "--top", 2)
    got = rows_of(result.stdout)
    assert 1 <= len(got) <= 2
    assert result.stderr.startswith(f"row {at + 1}: predicted = ")
    assert "explained: the score of class 'betrug'" in result.stderr
    assert list(got[0]) == ["src", "dst", "time", "class", "score", "rank", "what", "effect", "reason"]
    assert {row["time"] for row in got} == {"2023-01-01" if at == 0 else f"2023-01-01T{at:02}:00:00"}
    assert {row["dst"] for row in got} == {payments()[at][DST]}
    assert {row["class"] for row in got} == {"betrug"}
    assert "There is no row 301: the table has 300" in refused("explain", path, table, *OPTIONS, "--row", 301)


def test_a_model_of_numbers(tmp_path):
    edges = tdlg.TemporalEdges(["a", "b"] * 30, ["x", "y"] * 30, range(60), label=[5.0, 1.0] * 30)
    tdlg.PropagationRegressor(random_state=0).fit(edges).save(tmp_path / "m.tdlg")
    new = write_csv(tmp_path / "new.csv", [{"src": "a", "dst": "x", "time": 61}, {"src": "b", "dst": "y", "time": 61}])
    assert [round(float(row["predicted"])) for row in rows_of(ok("score", tmp_path / "m.tdlg", new).stdout)] == [5, 1]
    assert "row 1: predicted = " in ok("explain", tmp_path / "m.tdlg", new, "--row", 1).stderr
    assert "x" in ok("nodes", tmp_path / "m.tdlg", new).stdout


def test_a_new_row_is_explained_as_it_is_scored(model, tmp_path):
    rows = [{**row, SRC: f"{row[SRC]} junior"} for row in payments()[:40]]
    new, options = write_csv(tmp_path / "new.csv", rows), [*OPTIONS, "--time-format", "%d.%m.%Y %H:%M"]
    with warnings.catch_warnings():
        scored = rows_of(ok("score", model, new, *options).stdout)
        differ = 0
        for k in range(0, 40, 5):
            told = ok("explain", model, new, *options, "--row", k + 1).stderr
            alone = ok("explain", model, write_csv(tmp_path / "one.csv", rows[k : k + 1]), *options, "--row", 1).stderr
            answer = f"predicted = {scored[k]['predicted']}, probability = {scored[k]['probability']}"
            assert f"row {k + 1}: {answer}" in told
            differ += answer not in alone
    assert differ


def test_explain_and_nodes_need_a_classifier(table, model, odd_model):
    assert "outlier_score = " in ok("explain", odd_model, table, *OPTIONS, "--row", 1).stderr
    said = "`tdlg outliers` saved this model, and only `tdlg score` and `tdlg explain` can use it. Give a model that"
    assert said in refused("nodes", odd_model, table, *OPTIONS)
    for command in (["explain", "--row", 1], ["nodes"]):
        needs = "uses no labels of the rows to score. Leave out --label, or use a model of `tdlg classify --setting stream`."
        assert needs in refused(command[0], model, table, *OPTIONS, *command[1:], "--label", LABEL, code=2)
        assert "that classify wrote with --save" in ok(command[0], "--help").stdout
    assert "for score, nodes and explain" in " ".join(ok("classify", "--help").stdout.split())
    assert "nodes and explain" not in "".join(ok(name, "--help").stdout for name in ("outliers", "links", "embed"))


# ---- compare, datasets, info, demo


def test_compare_offers_published_methods(table):
    from tdlg.judge.methods import METHODS

    told = " ".join(ok("compare", "--help").stdout.replace("│", " ").split())
    assert all(name in told for name in METHODS if name not in ("propagation-links", "edgebank"))
    result = ok("compare", table, *OPTIONS, "--label", LABEL, "--methods", "timers", "--trials", 1)
    assert [row["method"] for row in rows_of(result.stdout)] == ["TIMERS"]


def test_compare_says_what_cannot_be_run(table, monkeypatch):
    import tdlg.judge.run

    def judge(name, *arguments, **options):
        raise ImportError("It needs torch.")

    monkeypatch.setattr(tdlg.judge.run, "evaluate", judge)
    result = run("compare", table, *OPTIONS, "--label", LABEL, "--methods", "all")
    assert result.exit_code == 1
    assert "tdlg: not run (It needs torch.)" in result.stderr
    assert "edgebank" not in result.stderr


def test_datasets(monkeypatch, tmp_path):
    monkeypatch.setenv("TDLG_DATA", str(tmp_path))
    got = rows_of(ok("datasets").stdout)
    assert got == rows_of(ok("datasets", "list").stdout)
    assert got[0]["name"] == "bitcoinalpha"
    assert "Did you mean 'bitcoinalpha'" in refused("datasets", "get", "bitcoin-alpha")
    ok("datasets", "list", "-o", tmp_path / "all.parquet")
    assert len(pl.read_parquet(tmp_path / "all.parquet")) == len(got)


@pytest.mark.needs("data")
def test_a_data_set_as_a_table(data_dir, monkeypatch, tmp_path):
    monkeypatch.setenv("TDLG_DATA", str(data_dir))
    path = Path(ok("datasets", "get", "bitcoinalpha").stdout.strip())
    assert path.is_file()
    result = ok("datasets", "get", "bitcoinalpha", "-o", tmp_path / "alpha.csv")
    assert "cite: S. Kumar" in result.stderr
    assert "24,186 at" in ok("info", tmp_path / "alpha.csv", "--label", "rating").stdout


def test_info_on_units(tmp_path):
    (path := tmp_path / "ms.csv").write_text("src,dst,time\n1,2,1600000000000\n2,3,1600000100000\n")
    assert "if milliseconds since 1970: --time-unit ms" in ok("info", path).stdout
    assert "2020-09-13" in ok("info", path, "--time-unit", "ms").stdout


def test_the_demo_command(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "run_demo", lambda page, *, random_state, say: say(f"{page} {random_state}"))
    assert ok("demo", "--report", tmp_path / "d.html", "--seed", 2).stdout == f"{tmp_path / 'd.html'} 2\n"


def test_the_demo(tmp_path, few_trees):
    said = []
    demo.run_demo(tmp_path / "demo.html", say=said.append)
    text = "\n".join(said)
    payments = make_payments(10_000, 0)
    n_open = int((payments.label_time > demo.TODAY).sum())
    assert f"the labels of {n_open:,} payments are not known" in text
    found, there = map(int, re.search(r"(\d+) of the (\d+) frauds to find are among the 50 payments", text).groups())
    assert there == int(payments.edges.label[payments.label_time > demo.TODAY].sum())
    assert 10 < found < there
    assert len(re.findall(r"[01]\.\d\d  customer \d+ -> terminal \d+: ", text)) == 3
    page = (tmp_path / "demo.html").read_text(encoding="utf-8")
    precision, rates = re.search(r"average precision (0\.\d\d) .*label rates (0\.\d\d), windows", text).groups()
    shown = [float(value) for value in re.findall(r">(0\.\d{3}) <small>", page.partition("Average precision")[2])[:2]]
    assert [f"{value:.2f}" for value in shown] == [precision, rates]
    assert "fraud = 1" in page
    assert "demo.html" in said[-1]


# ---- terminals


def test_a_terminal_gets_the_first_rows(numbers, on_terminal):
    result = ok("embed", numbers, "--dim", 20)
    assert "..." in result.stdout
    assert len(result.stdout.splitlines()) < 30
    assert "20 of 200 rows" in result.stderr
    scores = [
        float(line.split()[-2]) for line in ok("outliers", numbers, "--method", "burst").stdout.splitlines()[3:-1]
    ]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("command", ["outliers", "score"])
def test_a_terminal_orders_by_our_own_column(numbers, tmp_path, on_terminal, command):
    frame = pl.read_csv(numbers).with_columns(outlier_score=pl.lit("0"))
    frame.write_csv(path := tmp_path / "taken.csv")
    burst = "--method", "burst"
    ok("outliers", path, *burst, "--save", tmp_path / "m", "-o", tmp_path / "out.csv")
    result = ok(*(["outliers", *burst] if command == "outliers" else ["score", tmp_path / "m"]), path)
    scores = [float(line.split()[-2]) for line in result.stdout.splitlines()[3:-1]]
    assert scores == sorted(scores, reverse=True)


def test_a_terminal_gets_what_json_holds_as_text(tmp_path, on_terminal):
    lines = [{"src": k % 5, "dst": k % 7, "time": k, "meta": {"ip": [k]} if k % 2 else True} for k in range(30)]
    (path := tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    shown = ok("outliers", path).stdout
    assert shown.count('{"ip": [') + shown.count(" true ") == 20


def test_a_terminal_gets_reasons_whole(table, model, on_terminal, tmp_path):
    ok("explain", model, table, *OPTIONS, "--row", 1, "-o", tmp_path / "why.csv")
    first = rows_of((tmp_path / "why.csv").read_text(encoding="utf-8"))[0]["reason"]
    shown = ok("explain", model, table, *OPTIONS, "--row", 1).stdout
    assert first in " ".join(shown.split())  # on several lines
    assert ok("nodes", model, table, *OPTIONS).stdout.count("Café") >= 2
    assert "bitcoinalpha" in ok("datasets").stdout


def test_markup_and_escapes_are_shown_as_text(tmp_path, on_terminal):
    rows = [{"src": "[red]a", "dst": "\x1b[31mb", "time": str(k)} for k in range(3)]
    result = ok("embed", write_csv(tmp_path / "x.csv", rows), "--dim", 1)
    assert "[red]a" in result.stdout
    assert "\x1b[31m" not in result.stdout


def test_progress_only_on_a_terminal(numbers, monkeypatch):
    from tdlg.cli import output as terminal

    assert "looking for outliers" not in ok("outliers", numbers).stderr
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: stream is sys.stderr)
    assert "looking for outliers" in ok("outliers", numbers).stderr
    assert "label-rates" in ok("compare", numbers, "--label", "stars", "--methods", "label-rates", "--trials", 1).stderr


# ---- mistakes


def test_one_line():
    assert one_line("a\x1b[31m\nb") == "a\N{REPLACEMENT CHARACTER}[31m b"


# ---- processes


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}


def process(*arguments, code=None, **options):
    start = ["-m", "tdlg.cli"] if code is None else ["-c", code]
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), **options)


def test_a_process(table, tmp_path):
    with process("info", table, *OPTIONS) as running:
        out, err = running.communicate()
    assert (running.returncode, err) == (0, b"")
    assert "Händler" in out.decode()
    with process("info", tmp_path / "nosuch.csv") as running:
        out, err = running.communicate()
    assert (running.returncode, out) == (1, b"")
    assert err.count(b"\n") == 1
    assert b"\x1b" not in err


AT_ONCE = """
import sys
import threading
class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from tdlg.cli import main
main()
"""


def test_an_interrupt_at_the_start_is_quiet():
    with process("info", "x.csv", code=AT_ONCE) as running:
        _, err = running.communicate()
    assert (running.returncode, err) == (130, b"interrupted\n")


def test_a_closed_pipe_is_quiet(numbers):
    with process("embed", numbers, "--dim", 100) as running:
        running.stdout.close()
        assert b"rror" not in running.stderr.read()
    assert running.returncode == 141


SLOW = """
import sys, time
from tdlg.cli import main
from tdlg.io import files
def half(frame, file, separator):
    file.write(b"half"); file.flush()
    print("writing", file=sys.stderr, flush=True)
    time.sleep(60)
files.write_text = half
main()
"""


def test_an_interrupt_leaves_no_file(numbers, tmp_path):
    (path := tmp_path / "out.csv").write_text("old")
    with process("embed", numbers, "--dim", 1, "-o", path, code=SLOW) as running:
        lines = []
        while not lines or b"writing" not in lines[-1]:
            lines.append(running.stderr.readline())
            assert lines[-1], "it ended before it wrote"
        time.sleep(0.1)
        assert len(os.listdir(tmp_path)) == 2
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
    assert running.returncode == 130
    assert b"Traceback" not in rest
    assert os.listdir(tmp_path) == ["out.csv"]
    assert path.read_text() == "old"


# ---- values in quotes, and other kinds of files


def test_values_in_quotes_come_back_as_they_were_written(tmp_path):
    notes = ["first\n# second\nthird", "p\n\nq", "a\rx", "a\r\nx", "a\nx", "\nend", "plain"] * 20
    rows = [{"src": f"s{k % 9}", "dst": f"d{k % 4}", "time": k, "label": k % 2, "note": v} for k, v in enumerate(notes)]
    rows[-1]["label"] = ""
    path = write_csv(tmp_path / "notes.csv", rows)
    ok("classify", path, "--label", "label", "-o", tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv")["note"].to_list() == notes


# ---- what info tells of features and labels


def test_info_tells_numbers_from_categories(table, tmp_path):
    rows = [
        {"user": k, "item": k % 3, "ts": k, "mcc": 5000 + k % 4, "amount": f"{k},000.5", "fee": k / 2}
        for k in range(40)
    ]
    path = write_csv(tmp_path / "codes.csv", rows)
    result = ok("info", path, "--features", "mcc,amount,fee")
    assert "features       mcc (number), amount (40 categories), fee (number)" in result.stdout
    assert (
        "warning: the feature 'amount' is read as 40 different words, such as '0,000.5'; to have numbers, write"
        in result.stderr
    )
    result = ok("info", path, "--features", "fee", "--categories", "mcc,amount")
    assert "features       fee (number), mcc (4 categories), amount (40 categories)" in result.stdout
    assert result.stderr == ""
    assert "is read as 300 different words" in ok("info", table, *OPTIONS, "--features", "Nr.").stderr


def test_info_hints_at_two_kinds_by_the_names_of_columns(tmp_path):
    for src, dst, is_hinted in (("user_id", "item_id", True), ("payer", "merchant_id", True), ("from", "to", False)):
        path = write_csv(tmp_path / f"{src}.csv", [{src: k % 5, dst: k % 7, "time": k} for k in range(40)])
        assert (
            "5 ids in both columns; if sources and destinations are different things" in ok("info", path).stdout
        ) == is_hinted
    assert "different things" not in ok("info", tmp_path / "payer.csv", "--bipartite").stdout


def test_categories_make_a_difference(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 12, 400)
    rows = [
        {"src": int(rng.integers(40)), "dst": int(rng.integers(9)), "time": k, "mcc": int(code), "bad": int(code == 5)}
        for k, code in enumerate(codes)
    ]
    rows[-1]["bad"] = ""
    path = write_csv(tmp_path / "codes.csv", rows)
    model = tmp_path / "codes.tdlg"
    ok("classify", path, "--label", "bad", "--categories", "mcc", "--save", model, "-o", tmp_path / "out.csv")
    assert tdlg.load_model(model).edges_.feature_categories["mcc"] == tuple(sorted(map(str, range(12))))
    assert ok("score", model, path, "-o", tmp_path / "scored.csv")


# ---- columns that are not used, and options that would have no effect


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A table with all kinds of columns beside the source, the destination and the time."""
    path = tmp_path_factory.mktemp("tables") / "wide.csv"
    rows = [
        {
            "payment_id": 9000 + k,
            "user": k % 20,
            "item": k % 7,
            "ts": 1_700_000_000 + k,
            "amount": k / 2,
            "channel": "web" if k % 3 else "app",
            "note": f"text {k}",
            "posted": f"2024-01-{k % 28 + 1:02d}",
            "fixed": 1,
            "bad": "" if k % 5 == 0 else int(k % 7 < 2),
        }
        for k in range(210)
    ]
    return write_csv(path, rows, ",")


OTHERS = "payment_id, amount, channel, note, posted, fixed"
WHY_NOT = "payment_id (an id), note (different in every row), posted (dates), fixed (the same in every row)"
WITH_LABELS = {"classify": [], "compare": ["--methods", "label-rates"], "backtest": ["--every", 60]}


@pytest.mark.parametrize("command", WITH_LABELS)
def test_columns_that_are_not_used_are_named(wide, command):
    text = ok(command, wide, "--label", "bad", *WITH_LABELS[command]).stderr
    assert "168 known labels, 42 missing" in text
    assert "features: amount, channel (change with --features)\n" in text
    assert f"not used: {WHY_NOT}\n" in text
    assert "since 1970: --time-unit s" in text


def test_all_features(wide, tmp_path):
    text = ok("classify", wide, "--label", "bad", "--features", "all", "--save", tmp_path / "m").stderr
    assert f"not used: {WHY_NOT}\n" in text
    page = tmp_path / "page.html"
    ok("classify", wide, "--label", "bad", "--features", "amount", "--report", page, "-o", tmp_path / "out.csv")
    assert "amount<small>not used: payment_id, channel, note, posted and fixed</small>" in page.read_text()
    model = tdlg.load_model(tmp_path / "m")
    assert model.edges_.feature_names == ("amount", "channel")
    assert set(model.edges_.feature_categories) == {"channel"}
    given = ["--label", "bad", "--features", "all", "--categories", "fixed"]
    assert "features       amount (number), channel (2 categories), fixed" in ok("info", wide, *given).stdout
    assert f"not used       {WHY_NOT}\n" in ok("info", wide, "--label", "bad").stdout
    assert f"not used       {OTHERS}\n" in ok("info", wide, "--label", "bad", "--features", "none").stdout


def test_all_features_with_a_decimal_comma(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("card_no;shop;day;amount\n" + "".join(f"{k};s;{k};{k},75\n" for k in range(9)))
    assert "features       amount (number)" in ok("info", path, "--features", "all", "--time", "day").stdout


def test_commands_without_features_say_so(wide):
    for name, *more in (["outliers", "--method", "burst"], ["links"], ["rank", "--node", 3], ["embed", "--dim", 1]):
        text = ok(name, wide, *more).stderr
        assert f"not used: {OTHERS}, bad (only source, destination and time are)\n" in text


# ---- names of columns, whichever way a table is read


def test_a_column_is_the_same_on_disk(tmp_path):
    """A column called "1" is no position, and a name may have a comma."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.random(200), "customer": rng.integers(0, 20, 200), "shop": rng.integers(0, 5, 200)})
    frame = frame.with_columns(pl.Series("time", np.arange(200)), pl.Series("1", (np.arange(200) % 3) // 2))
    frame = frame.with_columns(
        pl.when(pl.col("time") < 150).then(pl.col("1")).alias("1"), (pl.col("x") * 2).alias("a, b")
    )
    frame.write_parquet(path := tmp_path / "odd.parquet")
    ends = ["--src", "customer", "--dst", 2, "--label", "1"]
    plain, on_disk = (ok("info", path, *ends, *more).stdout for more in ([], ["--memory", "2GB"]))
    assert re.search(r"label +'1': ", plain)
    assert re.search(r"label +'1': 2 values; 50 missing", on_disk)
    out = ["--memory", "2GB", "-o", tmp_path / "out.parquet"]
    assert "not used: x\n" in ok("classify", path, *ends, "--features", "a, b", *out).stderr
    assert '"probability" is the probability of 1 = 1\n' in ok("classify", path, *ends[:4], "--label", 4, *out).stderr
    assert re.search(r"features +x \(number\), a, b \(number\)", plain)
    none = ok("info", path, *ends, "--memory", "2GB", "--features", "none").stdout
    assert re.search(r"source +'customer'\n(?s:.*)not used +x, a, b\n", none)
    text = ok(
        "outliers", path, "--method", "burst", *ends[:4], "--memory", "2GB", "-o", tmp_path / "bursts.parquet"
    ).stderr
    assert "not used: x, 1, a, b (only source, destination and time are)\n" in text
    assert "No column 'a' for 'features'" in refused("classify", path, *ends, "--features", "a,x", *out)
    ok("classify", path, *ends, "--features", "all", *out)
    away = tmp_path / "away.parquet"
    frame.with_columns((pl.col("1").fill_null(0) * 3.0).alias("away")).write_parquet(away)
    with_all = ok("info", away, *ends, "--memory", "2GB", "--features", "all").stdout
    assert "away" in ok("info", away, *ends, "--memory", "2GB").stdout.partition("not used")[2].partition("\n")[0]
    assert "not used" not in with_all
    assert pl.read_parquet(tmp_path / "out.parquet")["probability"].count() == 50
    assert "The 'src' has a missing id in row 150" in refused(
        "outliers", path, "--method", "burst", "--src", "1", "--dst", 2, *out
    )


# ---- other words for missing labels


def test_info_knows_other_words_for_missing_labels(numbers, tmp_path):
    text = ok("info", numbers, "--label", "stars", "--missing", "5").stdout
    frame = pl.read_csv(numbers)
    n = int((frame["stars"] == 5).sum())
    assert re.search(rf"label +'stars': .*; {n} missing", text)
    assert "5 " not in re.search(r"label +'stars': (.*);", text)[1]
    frame.write_parquet(path := tmp_path / "ratings.parquet")
    text = ok("info", path, "--label", "stars", "--missing", "5", "--memory", "2GB").stdout
    assert f"'stars': 3 values; {n} missing" in text


# ---- what compare holds out by default


@pytest.mark.parametrize(("missing", "wanted"), [("% 5", "random split"), ("> 150", "the latest ones")])
def test_compare_holds_out_as_the_report_does(numbers, tmp_path, missing, wanted):
    at = pl.col("timestamp")
    is_missing = at % 5 == 0 if missing == "% 5" else at > 150
    pl.read_csv(numbers).with_columns(pl.when(~is_missing).then("stars")).write_csv(path := tmp_path / "gaps.csv")
    given = ["--label", "stars", "--positive", "> 3"]
    assert f"({wanted})" in ok("compare", path, *given, "--methods", "label-rates").stderr
    ok("classify", path, *given, "--report", tmp_path / "page.html", "-o", tmp_path / "out.csv")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ("interactions chosen at random" in page) == (wanted == "random split")
