"""Mistakes on the command line: one style, and one exit code for each kind.

A wrong command line is refused with 2 before any file is looked at: the files in WRONG_OPTIONS do not exist. What is wrong
with a file, a table or a model is refused with 1. Both are one line that starts with "error:" and says the way out.
"""

import errno
import os
import re

import polars as pl
import pytest
from typer.testing import CliRunner

import tdlg
from tdlg.cli import app
from tdlg.cli.group import COMMANDS
from test_cli import ok, refused, run

WRONG_OPTIONS = [
    ("nosuch", "No such command 'nosuch'. Use `tdlg --help` for help."),
    ("node", "Did you mean 'nodes'?"),
    ("--nosuch", "No such option: --nosuch. Use `tdlg --help` for help."),
    ("classify x.csv --label", "Option '--label' requires an argument. Use `tdlg classify --help` for help."),
    ("classify", "Missing argument 'EDGES'. Use `tdlg classify --help` for help."),
    ("classify x.csv", "Missing option '--label'. Use `tdlg classify --help` for help."),
    ("links x.csv --top 0", "--top: "),
    ("embed x.csv --seed 99999999999999999999", "--seed: "),
    ("explain m.tdlg x.csv --row soon", "--row: "),
    ("links x.csv --report page.html", "No such option: --report"),
    ("classify x.csv --label y --method nosuch", "--method: 'nosuch' is not one of"),
    ("classify x.csv --label y -o out.xlsx", "--output: the file must end in .csv, .tsv or .jsonl"),
    ("outliers x.csv -o out.parquet.gz", "--output: parquet is packed already"),
    (
        "classify x.csv --label y --memory much -o out.csv",
        "--memory: it must be a size of at least 1 GB, such as '2GB'.",
    ),
    ("outliers x.csv --method burst --memory much -o out.csv", "--memory: it must be a size of at least 1 GB"),
    ("info x.csv --memory much", "--memory: it must be a size of at least 1 GB"),
    ("classify x.csv --label y --memory 2GB", "--output: a file is needed with --memory"),
    ("backtest x.csv --label y --every weekly", "--every: it must be a duration such as 7d"),
    ("backtest x.csv --label y --every 7d --alerts-per-day 2.5", "--alerts-per-day: it must be a whole number"),
    ("backtest x.csv --label y --every 7d --report p.html", "--report: it shows how the quality grows"),
    ("compare x.csv --label y --methods a,b", "--methods: must be some of tdlg, tdlg-dense, propagation"),
    ("outliers x.csv --contamination 0", "--contamination: it must be above 0 and at most 0.5. Got 0 instead."),
    # options of other settings
    ("classify x.csv --label y --method linegraph --setting stream", "Leave out --setting or --method linegraph."),
    ("classify x.csv --label y --method linegraph --calendar", "Leave out --calendar or --method linegraph."),
    ("classify x.csv --label y --method linegraph --scales 7d", "Leave out --scales or --method linegraph."),
    ("classify x.csv --label y --method linegraph --no-two-ends", "Leave out --no-two-ends or --method linegraph."),
    ("classify x.csv --label y --method linegraph --features z", "Leave out --features or --method linegraph."),
    ("classify x.csv --label y --method linegraph --label-delay 1d", "Leave out --label-delay or --method linegraph."),
    ("classify x.csv --label y --setting interpolate --label-delay 1d", "Leave out --setting interpolate, or"),
    ("compare x.csv --label y --evaluate random --label-delay 1d", "Leave out --evaluate random, or --label-time"),
    ("rank x.csv --node a --model m.tdlg --method trees", "Leave out one of the two."),
    ("score m.tdlg x.csv --id nonsense", "--id: it works only with --state. Add it, or leave out --id."),
    ("score m.tdlg x.csv --positive '>0'", "--positive: it needs --label, which is missing. Give the label column"),
    ("info x.csv --missing ?", "--missing: it needs --label"),
    ("info x.jsonl --separator ;", "--separator: it is for csv files, and x.jsonl is not one."),
    ("refit --state live --back --force", "--force: it has no meaning with --back. Leave out one of the two."),
    ("demo --port 0", "--port: it works only with --live. Leave out one."),
    ("demo --no-open", "--open: it works only with --live."),
    ("demo --live --report x.html", "--report: it works only without --live."),
    # options that a command has not, because they would have no effect
    *((f"{command} m.tdlg x.csv --bipartite", "--bipartite") for command in ("score", "nodes", "explain --row 1")),
    *((f"{command} x.csv --features a", "--features") for command in ("links", "rank --node a", "embed")),
    ("outliers x.csv --method burst --features a", "--features: --method burst does not use it."),
    ("outliers x.csv --method burst --with-misplaced", "--with-misplaced: --method burst does not use it."),
    ("outliers x.csv --method rare --group a", "--group: --method rare does not use it."),
    # the same on every path
    *(
        (f"{command} {where}", said)
        for where in ("-o out.csv", "-o out.csv --memory 2GB", "-o out.csv --engine tcp://127.0.0.1:9")
        for command, said in (
            ("outliers x.parquet --method shuffled --fast 1h", "--fast: --method shuffled does not use it."),
            ("outliers x.parquet --method burst --fast soon", "--fast: it must be a duration such as 7d"),
            ("classify x.parquet --label y --label-delay soon", "--label-delay: it must be a duration"),
            ("classify x.parquet --label y --scales 7x", "--scales: it must be a duration"),
            ("classify x.parquet --label y --scales ,", "--scales: it must have at least one"),
            ("classify x.parquet --label y --method linegraph --calendar", "linegraph"),
            ("classify x.parquet --label y --separator ;", "--separator: it is for csv files"),
        )
    ),
    *(
        (f"{command} --label y --label-time a --label-delay 5", "--label-delay: it says the same as --label-time")
        for command in ("classify x.csv", "compare x.csv", "backtest x.csv --every 5", "info x.csv")
    ),
    *(
        (f"{command} m.tdlg x.csv --label y --label-time a --label-delay 5", "--label-delay: it says the same")
        for command in ("score", "nodes", "explain --row 1")
    ),
]


@pytest.mark.parametrize(("line", "said"), WRONG_OPTIONS, ids=[line for line, _ in WRONG_OPTIONS])
def test_wrong_options(line, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = refused(*(word.strip("'") for word in line.split(" ")), code=2)
    assert said in text
    assert text.endswith((".", "?"))
    assert os.listdir(tmp_path) == []


FILES = {
    "empty.csv": b"",
    "header.csv": b"src,dst,time\n",
    "binary.csv": bytes(range(128, 256)) * 4,
    "ragged.csv": b"src,dst,time\na,b,1\na,b,1,2\n",
    "broken.jsonl": b'{"src": 1}\n{"src":\n',
    "nested.jsonl": b'{"src": {"id": 1}, "dst": 2, "time": 3}\n',
    "text.parquet": b"src,dst,time\na,b,1\n",
    "odd.csv": b"von,nach,wann\na,b,gestern\nb,c,heute\n",
    "dates.csv": b"src,dst,time\na,b,03/04/2020\nb,c,05/06/2020\n",
    "fine.csv": b"src,dst,time,y,x\na,b,1,1,1\nb,c,1,0,\nc,d,1,,\n",
    "full.csv": b"src,dst,time,y\na,b,1,1\nb,c,1,0\n",
    "one.csv": b"src,dst,time\na,b,1\n",
    "one_class.csv": b"src,dst,time,y\na,b,1,0\nb,c,2,0\nc,a,3,\n",
    "few.csv": b"src,dst,time,y\na,b,1,0\nb,c,1,1\nc,a,1,\n",
    "twice.csv": b"src,src,dst,time\na,b,c,1\n",
    "open.csv": b'"src,dst,time\na,b,1\n',
    "nameless.csv": b"a,b,1,2\nb,c,2,3\n",
    "two.jsonl": b'{"src":1,"dst":2,"time":3}],[{"src":1,"dst":3,"time":4}\n',
    "dates.jsonl": b'{"src":1,"dst":2,"time":"2024-05-01"}\n{"src":2,"dst":3,"time":"2024-05-02"}\n',
    "book.xlsx": b"PK\x03\x04\x14\0\x06\0[Content_Types].xml\xc7\0xl/workbook.xml",
    "pairs.csv": b"src,dst\n",
    "times.csv": b"src,dst,time,y,known\na,b,1,1,2\nb,c,2,0,3\nc,d,3,1,\n",
    "days.csv": b"src,dst,time\na,b,2020-01-31\nb,c,2020-02-01\n",
    "huge.csv": b"src,dst,time\na,b,1\nc,d,1e20\n",
    "hole.csv": b"src,dst,time\na,b,1\n,c,2\n",
    "several.csv": b"user,payer,dst,time\na,b,c,1\n",
}
PYTHON = re.compile(
    r"\b[a-z_]+=|\w\(|\.save\b|TemporalEdges|read_edges|Classifi|np\.|\bNone\b|datetime64|0\.0\b|Traceback"
)
WRONG_TABLES = [
    ("info ratings.cvs", "there is no such file"),
    ("info .", "this is a folder"),
    ("info empty.csv", "has no rows"),
    ("info header.csv", "a header and no rows"),
    ("info binary.csv", "not UTF-8"),
    ("info ragged.csv", "data row 2 has 4 fields"),
    ("info broken.jsonl", "line 2 is not a JSON object"),
    ("info nested.jsonl", "'src' must have one value per row. Got {'id': 1} in data row 1"),
    ("info text.parquet", "this is not a parquet file"),
    ("info two.jsonl", "line 1 is not a JSON object"),
    ("info book.xlsx", "this is an Excel workbook. Export its sheet as csv"),
    ("info odd.csv", "Pass --src, --dst and --time with names"),
    ("info odd.csv --src Von --dst nach", "The columns are ['von', 'nach', 'wann']"),
    ("info odd.csv --src von --dst nach --time wann", "'gestern'"),
    ("info odd.csv --src von --dst nach --time 9", "Got 9 instead"),
    ("info dates.csv", "--time-format %d/%m/%Y if the day comes first"),
    *((f"info dates.csv --time-format {wrong}", "") for wrong in ("%d", "%Q")),
    ("info one.csv --time-format %d/%m/%Y", ""),
    ("info days.csv --time-unit s", ""),
    ("info huge.csv --time-unit s", ""),
    ("info hole.csv", "data row 2"),
    ("info several.csv", "Pass --src user, or another."),
    ("info odd.csv --src von --dst von --time wann", ""),
    ("info twice.csv --src src", ""),
    ("info fine.csv --separator ;", "--separator"),
    ("info fine.csv --features time", "which the models use already"),
    ("info fine.csv --src ²", "No column '²'"),
    ("info twice.csv", "Pass --src 0, or another"),
    ("info open.csv", "A quote in it is not closed"),
    ("info nameless.csv", "Pass --src 0, --dst 1 and --time 3, or other positions."),
    ("classify fine.csv --label y -o no/out.csv", "there is no folder 'no'. Make it, or give another file."),
    ("classify fine.csv --label y --save .", "this is a folder. Give the name of a file in it."),
    ("classify fine.csv --label z", "No column 'z' for 'label'"),
    ("classify fine.csv --label y --features x,y", "Leave it out of --features"),
    *((f"{command} one_class.csv --label y", "have only 1 class, 0") for command in ("classify", "compare")),
    ("classify full.csv --label y --evaluate forecast", "are all at the same time"),
    *(
        (f"{c} few.csv --label y --evaluate {how}", "")
        for c in ("classify", "compare")
        for how in ("random", "forecast")
    ),
    ("classify times.csv --label y --label-time known", "times.csv: The 'label_time' is missing in data row 3"),
    ("classify times.csv --label y --label-delay 7d", "'label_delay' must be a number that is not negative"),
    ("classify times.csv --label y --label-time time --time time", "'time' is both 'time' and 'label_time'"),
    ("classify times.csv --label y --label-time known --features known", "as a feature it would reveal the label"),
    ("backtest times.csv --label time --every 1 --time known", ""),
    ("outliers one.csv --method shuffled", "There is only one edge (1 sample), which shuffling cannot change."),
    ("links one.csv --method linegraph", "There is only one edge (1 sample), which shuffling cannot change."),
    ("outliers full.csv --method linegraph", "The bandwidth of the decay is 0, because all 2"),
    ("links fine.csv --candidates pairs.csv", "Pass at least one. Or leave out --candidates."),
    ("links times.csv --at soon", "--at 'soon' is not one. Give a number."),
    ("links dates.jsonl --at 01.11.2024", "--at '01.11.2024' is not one. Write it as 2024-06-01 or 2024-06-01T12:30."),
    ("links times.csv --at 1", "No row happened before 1. Choose a later time."),
    ("score fine.csv fine.csv", "not a tdlg model. Pass the path of a saved model."),
    ("score nosuch fine.csv", "there is no such file"),
    ("refit --state nowhere", "there is no state directory"),
    ("datasets get bitcoin-alpha", "Did you mean 'bitcoinalpha'"),
]


@pytest.mark.parametrize(("line", "said"), WRONG_TABLES, ids=[line for line, _ in WRONG_TABLES])
def test_wrong_tables(line, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    text = run(*line.split()).stderr
    if said:
        assert said in (text := refused(*line.split()))
    assert not PYTHON.search(re.sub(r"data row \d+ \(.*?\)", "a row", text))
    assert sorted(os.listdir(tmp_path)) == sorted(FILES)


# ---- the same option means the same


def test_an_option_is_the_same_everywhere():
    """Its placeholder and, but for what is its own in a command, its help; the names of fields and columns differ."""
    found = {}
    for name in COMMANDS:
        text = ok(name, "--help").stdout.partition("Options:")[2]
        for option, placeholder in re.findall(r"^  (?:-\w, )?--([\w-]+)(?: / --[\w-]+)?(?: ([A-Z<]\S*))?", text, re.M):
            found.setdefault(option, {}).setdefault(placeholder, []).append(name)
    differ = {name for name, kinds in found.items() if len(kinds) > 1}
    assert differ == {"method", "src", "dst", "time", "label", "label-time"}, differ
    assert [kinds.keys() for name, kinds in found.items() if name in ("src", "dst", "time", "label", "label-time")] == [
        {"COLUMN", "FIELD"}
    ] * 5
    assert found["state"].keys() == {"DIR"}
    assert {"score", "stream", "refit", "serve", "token", "snooze"} <= set(found["state"]["DIR"])
    assert found["alerts-per-day"].keys() == {"NUMBER"}


# ---- errors that are no mistakes


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("Unable to allocate 9 TB"), "There is not enough memory. Unable to allocate 9 TB"),
        (PermissionError(13, "Permission denied", "x.csv"), "x.csv: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (ImportError("The page needs jinja2."), "The page needs jinja2."),
        (pl.exceptions.ComputeError("odd"), "odd"),
        (ValueError("two\nlines"), "two lines"),
    ],
)
def test_errors_of_the_system_are_plain(monkeypatch, error, said):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("tdlg.cli.info.read_table", fail)
    assert refused("info", "x.csv") == f"error: {said}"


def test_a_fault_of_ours_is_not_hidden(monkeypatch):
    monkeypatch.setattr("tdlg.cli.info.read_table", lambda *arguments, **options: {}["no"])
    assert isinstance(CliRunner().invoke(app, ["info", "x.csv"]).exception, KeyError)


def test_a_traceback_on_request(monkeypatch):
    monkeypatch.setenv("TDLG_TRACEBACK", "1")
    assert isinstance(CliRunner().invoke(app, ["info", "nosuch.csv"]).exception, tdlg.exceptions.ReadError)
