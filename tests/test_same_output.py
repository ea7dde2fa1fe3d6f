"""What the commands print about one small table of payments, in memory and by file: tests/golden/*.txt.

`pinned` says how to renew the texts. Memory and sizes of temporary files are left out. The usual
trees make the scores, so that a column that moves by a rounding may move a score; see `test_same_answers`.
"""

import json
import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from pinned import check_text
from tdlg import make_payments
from tdlg.cli import app

pytestmark = pytest.mark.usefixtures("few_trees")

N, N_LABELLED, N_LINES = 600, 480, 8
LABELLED = ["--label", "fraud", "--features", "amount,channel"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the table as csv and as parquet."""
    made, rng = make_payments(N, 5, n_customers=12, n_terminals=8), np.random.default_rng(0)
    edges, known = made.edges, np.arange(N) < N_LABELLED
    fraud = ((edges.features[:, 0] > 60) | (made.scenario > 0)).astype(np.int64)
    table = pl.DataFrame(
        {
            "customer": edges.src.astype(str),
            "terminal": edges.dst.astype(str),
            "time": edges.time.astype("datetime64[ms]"),
            "amount": edges.features[:, 0],
            "channel": rng.choice(["card", "web"], N),
            "fraud": pl.Series(fraud).set(pl.Series(~known), None),
            "known": made.label_time.astype("datetime64[ms]"),
        }
    )
    folder = tmp_path_factory.mktemp("payments")
    table.write_csv(folder / "payments.csv")
    table.write_parquet(folder / "payments.parquet")
    return folder


def told(folder, monkeypatch, *arguments, code=0, stdin=None):
    """What a command prints: first lines of stdout and last ones, all of stderr; and its files, if it writes some."""
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)
    assert result.exit_code == code, result.output
    parts = [
        f"$ tdlg {' '.join(map(str, arguments))}",
        "",
        *shortened(result.stdout),
        "",
        "stderr:",
        result.stderr.strip(),
    ]
    if "-o" in arguments and code == 0:
        output = folder / arguments[arguments.index("-o") + 1]
        parts += ["", f"{output.name}:", *shortened(output.read_text(encoding="utf-8"))]
    return steady("\n".join(parts)) + "\n"


def shortened(text):
    """The first and the last lines."""
    lines = text.splitlines()
    return lines if len(lines) <= 2 * N_LINES else [*lines[:N_LINES], "...", *lines[-N_LINES:]]


def steady(text):
    """The text without what depends on the machine."""
    text = re.sub(r",\d+\.\d+,\d+\.0$", ",<seconds>,<megabytes>", text, flags=re.MULTILINE)  # of compare
    text = re.sub(r",(yes|no),", ",<here>,", text)  # of datasets
    return re.sub(r"[\d.]+ [kMG]?B of (memory|temporary files)", r"<size> of \1", text)


def test_what_depends_on_the_machine_is_left_out():
    text = "381 MB of memory, 159 kB of temporary files; 86 entries"
    left = "<size> of memory, <size> of temporary files; 86 entries"
    assert steady(text) == left


COMMANDS = {
    "info": ["info", "payments.csv", *LABELLED],
    "info-memory": ["info", "payments.parquet", *LABELLED, "--memory", "1GB"],
    "classify": ["classify", "payments.csv", *LABELLED],
    "classify-late": ["classify", "payments.csv", *LABELLED, "--label-time", "known"],
    "classify-evaluate": ["classify", "payments.csv", *LABELLED, "--evaluate", "forecast"],
    "classify-memory": ["classify", "payments.parquet", *LABELLED, "--memory", "1GB", "-o", "filled.csv"],
    "outliers": ["outliers", "payments.csv", "--bipartite", "--features", "amount,channel"],
    "outliers-shuffled": ["outliers", "payments.csv", "--method", "shuffled", "--bipartite"],
    "outliers-burst": ["outliers", "payments.csv", "--method", "burst"],
    "outliers-memory": ["outliers", "payments.parquet", "--method", "burst", "--memory", "1GB", "-o", "scored.csv"],
    "links-linegraph": ["links", "payments.csv", "--method", "linegraph", "--top", "5"],
    "rank": ["rank", "payments.csv", "--node", "customer 3", "--method", "recency", "--top", "4"],
    "embed": ["embed", "payments.csv", "--dim", "3", "-o", "vectors.csv"],
    "embed-nodes": ["embed", "payments.csv", "--dim", "2", "--nodes"],
    "info-condition": ["info", "payments.csv", "--label", "amount", "--features", "none", "--missing", "12.5"],
    "info-parquet": ["info", "payments.parquet", "--label", "fraud"],
    "classify-condition": ["classify", "payments.csv", "--label", "channel", "--positive", "web", "--missing", "card"],
    "classify-amounts": [
        "classify",
        "payments.csv",
        "--label",
        "amount",
        "--positive",
        "> 60",
        "--features",
        "channel",
    ],
    "classify-linegraph": [
        "classify",
        "payments.csv",
        "--label",
        "fraud",
        "--method",
        "linegraph",
        "--evaluate",
        "random",
    ],
    "classify-memory-condition": [
        *["classify", "payments.parquet", "--label", "channel", "--positive", "web", "--missing", "card"],
        *["--memory", "1GB", "-o", "filled.csv"],
    ],
    "compare": ["compare", "payments.csv", *LABELLED, "--evaluate", "random", "--trials", "1"],
    "compare-time": ["compare", "payments.csv", *LABELLED, "--methods", "label-rates", "--label-delay", "3d"],
    "backtest": ["backtest", "payments.csv", *LABELLED, "--every", "60d", "--label-time", "known"],
    "datasets": ["datasets"],
}
REFUSED = ("classify-condition", "classify-amounts", "classify-memory-condition")  # with one message


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(name, folder, monkeypatch):
    code = int(name in REFUSED)
    check_text(f"{name}.txt", told(folder, monkeypatch, *COMMANDS[name], code=code))


@pytest.fixture(scope="module")
def stream_model(folder):
    """A model whose setting is stream."""
    arguments = ["classify", folder / "payments.csv", *LABELLED, "--label-time", "known"]
    result = CliRunner().invoke(
        app, [*map(str, arguments), "--save", str(folder / "m.tdlg"), "-o", str(folder / "o.csv")]
    )
    assert result.exit_code == 0, result.output
    return "m.tdlg"


def test_commands_with_a_model(stream_model, folder, monkeypatch):
    known = ["--label", "fraud", "--label-time", "known"]
    for name, arguments in {
        "score": ["score", stream_model, "payments.csv"],
        "score-known": ["score", stream_model, "payments.parquet", *known, "-o", "scored.jsonl"],
        "nodes": ["nodes", stream_model, "payments.csv", "--top", "5"],
        "score-state": ["score", stream_model, "payments.csv", *known, "--state", "nightly", "-o", "scored.csv"],
        "score-state-again": ["score", stream_model, "payments.csv", "--state", "nightly", "-o", "scored.csv"],
    }.items():
        check_text(f"{name}.txt", told(folder, monkeypatch, *arguments))


def test_stream(stream_model, folder, monkeypatch):
    event = {"customer": "customer 3", "terminal": "terminal 2", "amount": 70.5, "channel": "web"}
    lines = [json.dumps({"id": f"e{day}", **event, "time": f"2025-07-{day:02d}"}) for day in (1, 2, 2, 3)]
    lines += ['{"id": "e1", "label": 1}', "nonsense", json.dumps({"id": "e9", **event})]
    arguments = ["stream", stream_model, "--state", "live", "--src", "customer", "--dst", "terminal"]
    check_text("stream.txt", told(folder, monkeypatch, *arguments, stdin="\n".join(lines)))
    check_text("refit.txt", told(folder, monkeypatch, "refit", "--state", "live", "--force"))


MISTAKES = [
    ["classify", "payments.csv"],
    ["classify", "qqqqqqqqqqqqqqqq", "--label", "fraud"],
    ["classify", "payments.csv", "--label", "frod"],
    ["classify", "payments.csv", "--label", "fraud", "--src", "payer"],
    ["classify", "payments.csv", "--label", "fraud", "--positive", "yes"],
    ["classify", "payments.csv", "--label", "fraud", "--method", "linegraph", "--memory", "1GB", "-o", "filled.csv"],
    ["classify", "payments.csv", "--label", "fraud", "--method", "linegraph", "--setting", "stream"],
    ["classify", "payments.csv", "--label", "fraud", "-o", "none/filled.csv"],
    ["classify", "payments.csv", "--label", "fraud", "-o", "filled.xlsx"],
    ["classify", "payments.csv", "--label", "fraud", "--separator", "::"],
    ["classify", "payments.parquet", "--label", "fraud", "--memory", "1GB"],
    ["classify", "payments.parquet", "--label", "fraud", "--memory", "much", "-o", "filled.csv"],
    ["classify", "payments.csv", "--label", "fraud", "--label-delay", "soon"],
    ["info", "payments.csv", "--missing", "?"],
    ["outliers", "payments.csv", "--method", "linegraph", "--fast", "1h"],
    ["outliers", "payments.csv", "--method", "burst", "--label", "fraud"],
    ["outliers", "payments.csv", "--contamination", "0"],
    ["rank", "payments.csv", "--node", "customer 3", "--at", "2020-01-01"],
    ["compare", "payments.csv", "--label", "fraud", "--methods", "nothing"],
    ["backtest", "payments.csv", "--label", "fraud", "--every", "often"],
    ["score", "payments.csv", "payments.csv"],
    ["nosuch"],
    ["info", "payments.csv", "--nosuch"],
]


def test_mistakes(folder, monkeypatch):
    monkeypatch.chdir(folder)
    lines = []
    for arguments in MISTAKES:
        result = CliRunner().invoke(app, arguments)
        assert not result.stdout, arguments
        lines += [f"$ tdlg {' '.join(arguments)}", f"{result.exit_code}: {result.stderr.strip()}", ""]
    check_text("mistakes.txt", "\n".join(lines))


def test_links(folder, monkeypatch):
    pytest.importorskip("lightgbm", reason="needs LightGBM")
    check_text("links.txt", told(folder, monkeypatch, "links", "payments.csv", "--top", "5"))


@pytest.mark.parametrize("setting", ["interpolate", "forecast", "stream"])
def test_explain(setting, folder, monkeypatch):
    name = f"{setting}.tdlg"
    told(folder, monkeypatch, "classify", "payments.csv", *LABELLED, "--setting", setting, "--save", name)
    check_text(f"explain-{setting}.txt", told(folder, monkeypatch, "explain", name, "payments.csv", "--row", "598"))


def test_explain_a_burst(folder, monkeypatch):
    told(folder, monkeypatch, "outliers", "payments.csv", "--method", "burst", "--save", "burst.tdlg")
    check_text("explain-burst.txt", told(folder, monkeypatch, "explain", "burst.tdlg", "payments.csv", "--row", "598"))
