"""Files are whole or as they were, and what is no file is written into: tables, pages and models alike."""

import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

from tdlg import LineGraphClassifier, TemporalEdges, read_edges, write_report
from tdlg import atomic as files
from tdlg.exceptions import ParameterError
from tdlg.io import write_table

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no such pipes and links")


@pytest.fixture(scope="module")
def model():
    edges = TemporalEdges(["a", "b", "c", "d"] * 10, ["x", "y"] * 20, range(40), label=["good", "bad"] * 20)
    return LineGraphClassifier(bandwidth=5.0).fit(edges)


FRAME = pl.DataFrame({"src": ["a", "b"], "dst": ["b", "c"], "time": [1, 2]})


def table(path, _):
    write_table(FRAME, path)


def page(path, model):
    write_report(path, model, evaluate=None)


def saved(path, model):
    model.save(path)


WRITERS = pytest.mark.parametrize("write", [table, page, saved])
INTO_PIPES = pytest.mark.parametrize("write", [table, page])


@pytest.fixture
def pipe(tmp_path):
    """A fifo, and what was read from it."""
    os.mkfifo(path := tmp_path / "pipe.csv")
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()

    def read():
        reader.join(30)
        return got[0]

    return path, read


@INTO_PIPES
def test_a_pipe_is_written_into(write, model, pipe):
    path, read = pipe
    write(path, model)
    assert path.is_fifo()
    assert read().startswith(b"src,dst,time\n" if write is table else b"<!DOCTYPE html>")
    assert os.listdir(path.parent) == [path.name]


@INTO_PIPES
def test_a_link_to_a_pipe_stays_one(write, model, pipe):
    path, read = pipe
    (link := path.with_name("link.csv")).symlink_to(path)
    write(link, model)
    assert link.is_symlink()
    assert path.is_fifo()
    assert read()


@INTO_PIPES
def test_a_device_is_written_into(write, model, tmp_path):
    """A null device of our own: the system's would be lost if this failed."""
    node = tmp_path / "null.csv"
    try:
        os.mknod(node, 0o600 | 0o020000, os.makedev(1, 3))
        node.write_bytes(b"")
    except (AttributeError, OSError):
        pytest.skip("needs the right to make devices")
    write(node, model)
    assert node.is_char_device()
    assert os.listdir(tmp_path) == [node.name]


def test_a_model_needs_a_file(model, tmp_path):
    os.mkfifo(path := tmp_path / "pipe")
    for target in (path, "/dev/stdout"):
        with pytest.raises(ParameterError, match=r"is a device or pipe: pass the name of a file"):
            model.save(target)
    assert path.is_fifo()


OWN_OUTPUT = """
from pathlib import Path
from tdlg.atomic import new_file
print("before")
with new_file(Path("/dev/stdout")) as file:
    file.write(b"the file\\n")
print("after")
"""


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no /dev/stdout")
@pytest.mark.parametrize("mode", ["w", "a"])
def test_stdout_by_its_name(tmp_path, mode):
    (path := tmp_path / "out.txt").write_text("old\n")
    with path.open(mode) as out:
        subprocess.run([sys.executable, "-c", OWN_OUTPUT], stdout=out, check=True)
    assert path.read_text() == ("old\n" if mode == "a" else "") + "before\nthe file\nafter\n"
    piped = subprocess.run([sys.executable, "-c", OWN_OUTPUT], capture_output=True, text=True, check=True)
    assert piped.stdout == "before\nthe file\nafter\n"
    assert os.listdir(tmp_path) == [path.name]


@WRITERS
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_what_was_there_stays_where_writing_fails(write, error, name, model, tmp_path, monkeypatch):
    (path := tmp_path / "out.csv").write_text("old")

    def failing(*_):
        raise error

    monkeypatch.setattr(files.os, name, failing)
    with pytest.raises(type(error)):
        write(path, model)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [path.name]


@WRITERS
def test_a_full_disk_names_the_file(write, model, tmp_path, monkeypatch):
    """A limit on the size of files stands for the disk: both say nothing of the file."""
    resource = pytest.importorskip("resource")
    monkeypatch.chdir(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write(Path("out.csv"), model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert Path(caught.value.filename).name == "out.csv"
    assert os.listdir(tmp_path) == []


def test_errors_of_other_files_keep_their_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, files.new_file(tmp_path / "out.csv"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")


KILLED = """
import os, sys
from pathlib import Path
from tdlg.atomic import new_file
with new_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("name", ["out.csv", "ü" * 120 + ".csv"])
def test_drafts_of_killed_processes_are_removed_after_a_day(name, tmp_path):
    path = tmp_path / name
    assert subprocess.run([sys.executable, "-c", KILLED, path]).returncode == -9
    (draft,) = tmp_path.iterdir()
    assert draft.name.endswith(".tdlg-tmp")
    (others := tmp_path / f"other{draft.name}").touch()
    (fresh := draft.with_name(f"{draft.name[:-41]}{'0' * 32}.tdlg-tmp")).touch()  # as by a process that writes now
    for old in (draft, others):
        os.utime(old, (0, 0))
    with files.new_file(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert set(tmp_path.iterdir()) == {path, others, fresh}


@pytest.mark.skipif(os.name == "nt", reason="no such signals")
@pytest.mark.parametrize("name", ["out.csv", "ü" * 120 + ".csv"])
def test_drafts_of_killed_processes_are_removed_by_the_next_one(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"before")
    assert subprocess.run([sys.executable, "-c", KILLED, path]).returncode == -9
    assert path.read_bytes() == b"before"
    mine = files.draft_of(path)
    mine.touch()  # as by another thread
    with files.new_file(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert set(tmp_path.iterdir()) == {path, mine}


def test_a_process_of_another_machine_is_not_taken_to_be_dead(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_machine", lambda: "0" * 8)
    (other := files.draft_of(tmp_path / "out")).touch()
    monkeypatch.undo()
    with files.new_file(tmp_path / "out"):
        pass
    assert other.exists()


def test_a_draft_without_a_write_for_a_day_is_removed(tmp_path):
    path = tmp_path / "out"
    old, new = files.draft_of(path), files.draft_of(path)
    for draft in (old, new):
        draft.write_bytes(b"half")
    os.utime(old, (0, 0))
    with files.replacing(path) as draft:
        draft.write_bytes(b"whole")
    assert path.read_bytes() == b"whole"
    assert set(tmp_path.iterdir()) == {path, new}


def test_drafts_of_other_targets_stay(tmp_path):
    hexadecimal = "0123456789abcdef" * 2
    names = [f".b.a.{hexadecimal}.tdlg-tmp", f".a.b.{hexadecimal}.tdlg-tmp", f".a.{hexadecimal}.tmp", f"{hexadecimal}"]
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / f".a.{hexadecimal}.tdlg-tmp").mkdir()
    os.utime(tmp_path / f".a.{hexadecimal}.tdlg-tmp", (0, 0))
    with files.new_file(tmp_path / "a"):
        pass
    assert sorted(os.listdir(tmp_path)) == sorted([*names, f".a.{hexadecimal}.tdlg-tmp", "a"])


@WRITERS
def test_links_are_followed_and_modes_kept(write, model, tmp_path):
    (path := tmp_path / "out.csv").write_text("old")
    path.chmod(0o640)
    (link := tmp_path / "link.csv").symlink_to(path)
    write(link, model)
    assert link.is_symlink()
    assert path.read_bytes()[:3] != b"old"
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.csv", "out.csv"]


@pytest.mark.parametrize("write", [page, saved])
def test_folders_are_refused(write, model, tmp_path):
    with pytest.raises(ParameterError, match=r"is a folder: add a file name"):
        write(tmp_path, model)
    with pytest.raises(ParameterError, match=r"nowhere' of the 'path' does not exist. Create it first"):
        write(tmp_path / "nowhere" / "file", model)


# ---- what a table's name tells


@pytest.mark.parametrize("name", ["a.parquet.gz", "a.PQ.GZ"])
def test_packed_parquet_is_refused(name, tmp_path):
    with pytest.raises(ParameterError, match=r"parquet is packed already.*Leave out the \.gz"):
        write_table(FRAME, tmp_path / name)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.jsonl", "a.ndjson", "a.csv.gz", "a.tsv", "a.parquet"])
def test_what_is_written_can_be_read(name, tmp_path):
    write_table(FRAME, path := tmp_path / name)
    assert read_edges(path).dst.tolist() == ["b", "c"]


def test_equal_tables_are_equal_bytes_when_packed(tmp_path):
    first, second = tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"
    for path in (first, second):
        write_table(FRAME, path)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes()[3:8] == bytes(5)  # no name, no time
    assert gzip.decompress(first.read_bytes()) == FRAME.write_csv().encode()
