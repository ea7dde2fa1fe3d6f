"""What the commands print about one small table of payments, in memory and by file: tests/golden/*.txt.

`pinned` says how to renew the texts. Memory and sizes of temporary files are left out. The usual
trees make the scores, so that a column that moves by a rounding may move a score; see `test_same_answers`.
"""

import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from pinned import check_text
from tdlg import make_payments
from tdlg.cli.app import app

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


def told(folder, monkeypatch, *arguments):
    """What a command prints: first lines of stdout and last ones, all of stderr; and its files, if it writes some."""
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    parts = [
        f"$ tdlg {' '.join(map(str, arguments))}",
        "",
        *shortened(result.stdout),
        "",
        "stderr:",
        result.stderr.strip(),
    ]
    if "-o" in arguments:
        output = folder / arguments[arguments.index("-o") + 1]
        parts += ["", f"{output.name}:", *shortened(output.read_text(encoding="utf-8"))]
    return steady("\n".join(parts)) + "\n"


def shortened(text):
    """The first and the last lines."""
    lines = text.splitlines()
    return lines if len(lines) <= 2 * N_LINES else [*lines[:N_LINES], "...", *lines[-N_LINES:]]


def steady(text):
    """The text without what depends on the machine."""
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
    "classify-evaluate": ["classify", "payments.csv", *LABELLED, "--evaluate", "time"],
    "classify-memory": ["classify", "payments.parquet", *LABELLED, "--memory", "1GB", "-o", "filled.csv"],
    "outliers": ["outliers", "payments.csv", "--bipartite"],
    "outliers-burst": ["outliers", "payments.csv", "--method", "burst"],
    "outliers-memory": ["outliers", "payments.parquet", "--method", "burst", "--memory", "1GB", "-o", "scored.csv"],
    "links-rows": ["links", "payments.csv", "--method", "rows", "--top", "5"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(name, folder, monkeypatch):
    check_text(f"{name}.txt", told(folder, monkeypatch, *COMMANDS[name]))


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
