"""Tables of a DuckDB database: relations in Python, queries on the shell."""

import sys

import polars as pl
import pytest
from typer.testing import CliRunner

from tdlg import PropagationFeatures, from_frame
from tdlg.cli import app

pytestmark = pytest.mark.needs("duckdb")


@pytest.fixture(scope="module")
def rows():
    n = 150
    return pl.DataFrame(
        {
            "payer": [f"card {i % 7}" for i in range(n)],
            "payee": [f"shop {i % 5}" for i in range(n)],
            "time": range(n),
            "fraud": [None if i > 140 else i % 3 // 2 for i in range(n)],
            "amount": [i * 1.5 for i in range(n)],
        }
    )


@pytest.fixture(scope="module")
def database(rows, tmp_path_factory):
    import duckdb

    path = tmp_path_factory.mktemp("sql") / "pay.duckdb"
    rows.write_parquet(source := path.with_suffix(".parquet"))
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"create table pay as select * from '{source}'")
    return path


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_relation_is_a_frame(database, rows):
    import duckdb

    with duckdb.connect(str(database), read_only=True) as connection:
        table = connection.sql("select * from pay")
        edges, columns = from_frame(table, label="fraud"), PropagationFeatures().fit_transform(table)
    expected = from_frame(rows, label="fraud")
    assert edges.to_frame().equals(expected.to_frame())
    assert columns.shape == PropagationFeatures().fit_transform(rows).shape


def test_a_query_is_a_table(database, rows, tmp_path):
    rows.write_parquet(file := tmp_path / "pay.parquet")
    query = "select *, 7 // 2 as three from pay -- // stays"
    done = run("classify", query, "--from", database, "--label", "fraud", "-o", tmp_path / "queried.csv")
    assert done.exit_code == 0, done.output
    assert run("classify", file, "--label", "fraud", "-o", tmp_path / "read.csv").exit_code == 0
    queried = pl.read_csv(tmp_path / "queried.csv")
    assert queried["three"].unique().to_list() == [3]
    assert queried.drop("three").equals(pl.read_csv(tmp_path / "read.csv"))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select nothing from pay", "Binder Error"),
        ("delete from pay", "one query that begins with select or from"),
        ("copy pay to 'copied.csv'", "one query that begins with select or from"),
        ("copy pay to 'copied.csv'; select * from pay", "one query that begins with select or from"),
        ("select * from folder", "folder does not exist"),
        ("select payer from pay", "No column has a usual name"),
    ],
)
def test_a_query_that_gives_no_edges(database, query, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("info", query, "--from", database)
    assert done.exit_code in (1, 2)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert words in last
    assert "/tmp" not in last.replace(str(database), "")
    assert list(tmp_path.iterdir()) == []


def test_a_uuid_is_text(database):
    query = "select *, ('00000000-0000-0000-0000-' || lpad(payer[6:], 12, '0'))::uuid as \"the card\" from pay"
    done = run("info", query, "--from", database, "--src", "the card", "--dst", "payee")
    assert done.exit_code == 0, done.output
    assert (
        "00000000-0000-0000-0000-000000000006"
        in run("outliers", query, "--from", database, "--src", "the card", "--dst", "payee").stdout
    )


def test_a_database_that_is_missing(tmp_path):
    done = run("info", "from pay", "--from", tmp_path / "none.duckdb")
    assert done.exit_code == 1
    assert "does not exist" in done.stderr
    assert not (tmp_path / "none.duckdb").exists()


def test_without_duckdb_it_says_what_to_install(database, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = run("info", "from pay", "--from", database)
    assert done.exit_code == 2
    assert ".[sql]" in done.stderr
