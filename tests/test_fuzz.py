"""Readers given damaged files: whatever the bytes, edges or one of our own errors come out."""

import gzip
import io
import json
import subprocess
import sys
import time
import warnings
from contextlib import suppress

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tdlg.cli import app
from tdlg.edges import TemporalEdges
from tdlg.exceptions import TdlgError
from tdlg.io import read_edges

SEED = 20240229
QUICK = 200  # inputs
LONG_SECONDS = 60
INFO_EVERY = 10  # how many inputs of read_edges go with one of the command
NAMES = ["src", "dst", "time", "label", "amount", "note"]
ROWS = [
    ["ann", "shop", "2024-02-29T10:00:00Z", 1, 3.5, "first\nsecond"],
    ["bob", "007", "2024-03-01T11:30:00+02:00", None, -0.0, 'a "quoted", b'],
    ["Zoë", "shop", "2024-03-02T23:59:59.999Z", 0, None, "# no comment"],
    ["12", "ann", "2024-03-03T00:00:00Z", 1, 1e300, ""],
] * 3
# fmt: off
PIECES = [
    b"", b"\x00", b"\n", b"\r", b'"', b",", b"\t", b";", b"::", b"#", b"%", b"{", b"[", b"]", b"null", b"NaN",
    b"1e999", b"-", b"9" * 30, b"9" * 5000, b"\xff\xfe", b"\xef\xbb\xbf", b"\\ud800", b"PK\x03\x04", b"\x1f\x8b",
    b"true", b"31/12/9999",
]
# fmt: on


def originals() -> dict[str, bytes]:
    """The same table in all kinds of files."""
    frame = pl.DataFrame(ROWS, NAMES, orient="row")
    parquet = io.BytesIO()
    frame.write_parquet(parquet)
    lines = "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in ROWS).encode()
    text = frame.write_csv().encode()
    return {
        "edges.csv": text,
        "edges.tsv": b"% made by a test\n" + frame.write_csv(separator="\t").encode(),
        "numbers.csv": "".join(f"{k % 7} {k % 5} {k}\n" for k in range(40)).encode(),
        "edges.jsonl": lines,
        "edges.parquet": parquet.getvalue(),
        "edges.csv.gz": gzip.compress(text, mtime=0),
        "edges.jsonl.gz": gzip.compress(lines, mtime=0),
    }


def damaged(rng: np.random.Generator, content: bytes, others: list[bytes]) -> bytes:
    """The bytes with one to four changes: bits turned, pieces put in, cut out, repeated, or taken from another file."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        start, length = int(rng.integers(0, len(data) + 1)), int(rng.integers(0, 1 + min(len(data), 60)))
        kind = rng.integers(0, 6)
        if kind == 0 and data:
            data[start % len(data)] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            data[start:start] = PIECES[rng.integers(0, len(PIECES))]
        elif kind == 2:
            del data[start : start + length]
        elif kind == 3:
            data[start:start] = data[start : start + length]
        elif kind == 4:
            data[start : start + length] = rng.bytes(length)
        else:
            other = others[rng.integers(0, len(others))]
            data[start:] = other[min(start, len(other)) :]
    return bytes(data)


def inputs(seed: int):
    """Damaged files, without end: a name and the bytes. Those of gzip are also damaged inside."""
    rng, files = np.random.default_rng(seed), originals()
    names, contents = list(files), list(files.values())
    while True:
        name = names[rng.integers(0, len(names))]
        content = files[name]
        if name.endswith(".gz") and rng.random() < 0.5:
            yield name, gzip.compress(damaged(rng, gzip.decompress(content), contents), mtime=0)
        else:
            yield name, damaged(rng, content, contents)


def check_read(path) -> None:
    """Read the file, with and without a label and features; only our own errors may come out."""
    for options in ({}, {"label": "label", "features": ["amount", "note"]}):
        with suppress(TdlgError):
            assert isinstance(read_edges(path, **options), TemporalEdges)


def check_info(path) -> None:
    result = CliRunner().invoke(app, ["info", str(path)])
    assert result.exit_code in (0, 1), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output


def run(folder, seed, is_over) -> int:
    """Check one input after the other until it is over; the one that fails stays in the folder, and is named."""
    for number, (name, content) in enumerate(inputs(seed)):
        if is_over(number):
            return number
        path = folder / name
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check_read(path)
                if number % INFO_EVERY == 0:
                    check_info(path)
        except BaseException as error:
            error.add_note(f"input {number} of seed {seed}: {name}, {content[:2000]!r}")
            raise
        path.unlink()
    return 0


def test_a_few_damaged_files(tmp_path):
    assert run(tmp_path, SEED, lambda number: number == QUICK) == QUICK


@pytest.mark.needs("time")
def test_damaged_files_for_a_minute(tmp_path):
    end = time.monotonic() + LONG_SECONDS
    assert run(tmp_path, SEED + 1, lambda _: time.monotonic() > end) > 0


def test_the_same_seed_gives_the_same_files():
    first, second = inputs(SEED), inputs(SEED)
    assert [next(first) for _ in range(20)] == [next(second) for _ in range(20)]


def test_an_error_that_is_not_ours_is_found(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise KeyError("not ours")

    monkeypatch.setattr("tdlg.io.read.file_source", fails)
    with pytest.raises(KeyError) as caught:
        run(tmp_path, SEED, lambda number: number == QUICK)
    assert "input 0 of seed" in caught.value.__notes__[0]


MUTATED_PARQUET = """
import random, sys
import polars as pl
from tdlg import read_edges
from tdlg.engines.table import Block, scan_edges
from tdlg.exceptions import ReadError

path, n_files, roles = sys.argv[1], int(sys.argv[2]), {"src": None, "dst": None, "time": None}
rng = random.Random(7)
forms = []
for compression in ("uncompressed", "zstd"):
    columns = {"src": [f"u{k % 7}" for k in range(40)], "dst": range(40), "time": [k % 3 * 1.5 for k in range(40)]}
    frame = pl.DataFrame(columns)
    frame.write_parquet(path, compression=compression, row_group_size=25)
    forms.append(open(path, "rb").read())
read = refused = 0
for k in range(n_files):
    form = bytearray(forms[k % 2])
    at = k // 2 % 80 if k % 4 < 2 else rng.randrange(len(form))  # headers of pages are at the start
    form[at] = rng.choice([rng.randrange(256), form[at] ^ 1 << rng.randrange(8), 1, 255])
    open(path, "wb").write(form)
    for reads in (read_edges, lambda path: scan_edges(path, **roles).read(Block(0, 40))):
        try:
            reads(path)
            read += 1
        except ReadError:
            refused += 1
print(read, refused)
"""


@pytest.mark.parametrize("n_files", [400, pytest.param(10_000, marks=pytest.mark.needs("time"))])
def test_damaged_parquet_never_ends_the_process(tmp_path, n_files):
    """Some bytes of the header of a page make polars end the process, which no handler of errors survives."""
    command = [sys.executable, "-c", MUTATED_PARQUET, str(tmp_path / "edges.parquet"), str(n_files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert min(map(int, done.stdout.split())) > n_files // 10


def test_lists_in_lists_in_parquet_end():
    from tdlg.io.parquet import _Thrift

    with pytest.raises(ValueError, match="never end"):
        _Thrift(b"\x19" * 5000).struct()


@pytest.mark.needs("data")
def test_damaged_parquet_that_was_found(data_dir):
    for path in sorted((data_dir / "damaged").glob("*.parquet")):
        done = subprocess.run([sys.executable, "-m", "tdlg", "info", path], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "this is not a parquet file, or it is damaged" in done.stderr.replace("\n", " ")
