"""Damaged state directories and full disks: refused in words, right, or reported; never a wrong answer in silence."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

from live_payments import classifier, event, events
from tdlg.exceptions import TdlgError, TdlgWarning
from tdlg.live import log as logs
from tdlg.live.log import Log, LogFullError
from tdlg.live.model import LiveModel
from tdlg.propagate.state import EventRows

pytestmark = pytest.mark.usefixtures("few_trees")
posix = pytest.mark.skipif(os.name == "nt", reason="no such limits")


def crash(live):
    """End as a killed process does: without a snapshot, and without a note of the end of the log."""
    live._directory._lock.release()
    os.close(live._directory.log._file)


def segments(folder):
    return sorted(folder.glob("log-*.bin"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A state directory with two snapshots and three segments, whose process was killed; and the score of one more event."""
    folder = tmp_path_factory.mktemp("killed") / "live"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "END_EVERY", 0.0)  # so that all records are noted
        live = LiveModel.open(folder, classifier(), snapshot_every=20, threshold=0.2)
        for start in range(0, 70, 5):
            live.submit(events()[start : start + 5])
        crash(live)
    copy = shutil.copytree(folder, folder.with_name("whole"))
    with LiveModel.open(copy) as live:
        return folder, next_score(live)


def next_score(live):
    return live.submit([event(575)])[0].score


@pytest.fixture
def folder(killed, tmp_path):
    return shutil.copytree(killed[0], tmp_path / "live")


# ---- a log that is shorter than it was


def test_a_lost_segment_is_said(folder):
    newest = segments(folder)[-1]
    newest.unlink()
    with pytest.warns(TdlgWarning, match="shorter than it was: 2 records are missing"):
        live = LiveModel.open(folder)
    with live:
        assert live.health()["missing_records"] == 2
        assert live.health()["ok"]
        assert [answer.repeated for answer in live.submit(events()[58:62])] == [True, True, False, False]
    with LiveModel.open(folder) as live:
        assert live.health()["missing_records"] == 0


def test_a_shortened_segment_is_said(folder):
    newest = segments(folder)[-1]
    os.truncate(newest, newest.stat().st_size - 10)
    with pytest.warns(TdlgWarning, match="shorter than it was: 1 record is missing"):
        live = LiveModel.open(folder)
    with live:
        assert live.health()["missing_records"] == 1
        assert live.health()["cut_bytes"] > 0


def test_an_unfinished_end_is_said(folder, killed):
    with open(segments(folder)[-1], "ab") as file:
        file.write(bytes(17))
    with pytest.warns(TdlgWarning, match="unfinished end of 17 bytes"), LiveModel.open(folder) as live:
        assert next_score(live) == killed[1]


def test_the_end_is_noted_now_and_then_and_when_it_is_closed(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    with Log(tmp_path) as log:
        for now[0], noted in ((100.0, 1), (101.0, 1), (104.0, 1), (105.0, 4), (106.0, 4)):
            log.append(1, b"record")
            log.sync()
            assert logs._noted_end(tmp_path) == noted
        log.roll()
        log.append(1, b"record")
        log.sync()
        assert logs._noted_end(tmp_path) == 6, "with a new segment"
        log.append(1, b"record")
    assert logs._noted_end(tmp_path) == 7
    (tmp_path / "log.end").write_text("8 00000000\n")
    assert logs._noted_end(tmp_path) == 0, "its checksum is wrong"
    with Log(tmp_path) as log:
        assert log.n_missing == 0


# ---- a full disk

SHORT_WRITES = """
    import resource, sys
    from tdlg.live import log as logs

    log = logs.Log(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (28_000, resource.RLIM_INFINITY))
    log.append(1, bytes(50_000))
    try:
        log.sync()
    except logs.LogFullError:
        pass
    log.probe()
    print(log.failure is not None)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.probe()
    print(log.failure is not None)
    log._probe_at = 0.0
    log.probe()
    print(log.failure is not None)
"""


@posix
def test_a_disk_on_which_a_part_fits_is_full(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(SHORT_WRITES), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "True", "False"], "the second one is too early to try again"
    assert [path.name for path in tmp_path.iterdir()] == ["log-00000000000000000001.bin"]


def test_health_does_not_write_each_time(tmp_path, monkeypatch):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit(events()[:5])
        assert live.health()["free_bytes"] > 0
        syncs = []

        def full(file):
            syncs.append(file)
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(logs, "sync_file", full)
            with pytest.raises(LogFullError):
                live.submit(events()[5:10])
            assert [live.health()["ok"] for _ in range(20)] == [False] * 20
            assert len(syncs) == 2, "the batch, and one try"
        assert live.submit(events()[5:10])[0].error is None
        assert live.health()["ok"]


# ---- any file


def changes_of(path):
    """A file that is cut, emptied, removed, or has one other byte, in several places."""
    data = path.read_bytes()
    yield "removed", None
    for size in {0, len(data) // 2, max(0, len(data) - 1)}:
        yield f"cut to {size}", data[:size]
    for place in {len(data) * k // 3 for k in range(3)} | {len(data) - 1}:
        yield f"byte {place}", data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


def outcome(folder, score):
    """What happens to the one who opens a directory and scores an event."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with LiveModel.open(folder) as live:
                found = next_score(live)
        except TdlgError as error:
            return "refused" if re.search(r"[a-z]{3,} [a-z]{2,}", str(error)) else f"in no words: {error}"
    if any("shorter than it was" in str(one.message) or "unfinished end" in str(one.message) for one in caught):
        return "reported"
    return "right" if found == pytest.approx(score, abs=1e-9) else f"wrong: {found}, not {score}"


def test_no_damaged_file_gives_a_wrong_answer(killed, tmp_path):
    whole, score = killed
    names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file() and path.stat().st_size)
    found = {}
    for name in names:
        for what, data in changes_of(whole / name):
            folder = shutil.copytree(whole, tmp_path / f"{len(found)}")
            if data is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(data)
            found[str(name), what] = outcome(folder, score)
            shutil.rmtree(folder)
    assert not {what: found[what] for what in found if found[what] not in ("refused", "right", "reported")}
    assert {"refused", "right", "reported"} == set(found.values())
    assert len(found) > 50


def test_a_snapshot_is_checked_once(tmp_path, monkeypatch):
    from tdlg.live import store as directory

    read, crc_of = [], directory._crc_of
    monkeypatch.setattr(directory, "_crc_of", lambda path: read.append(path.name) or crc_of(path))
    with LiveModel.open(tmp_path / "live", classifier(), keep="400d") as live:
        for k in range(4):
            live.submit(events()[5 * k : 5 * k + 5])
            read.clear()
            live.snapshot()
            assert [name.partition(".snapshot.")[0] for name in read] == [""], "the others are known"
    read.clear()
    directory._CHECKED.clear()
    with LiveModel.open(tmp_path / "live", keep="400d") as live:
        live.snapshot()
        assert len(read) == len(set(read)) <= 2


def test_a_snapshot_holds_the_rows_that_are_used():
    rows = EventRows(ticks=np.zeros(0), values=np.zeros((0, 3)))
    taken = rows.take(20_000)
    rows["ticks"][taken] = taken
    rows.hold(taken[5:7])
    rows.release(taken[10:])
    again = EventRows(ticks=np.zeros(0), values=np.zeros((0, 3)))
    again.restore(rows.state())
    assert again.n_used == rows.n_used == 10
    np.testing.assert_array_equal(again["ticks"][taken[:10]], taken[:10])
    again.release(taken[:10])
    assert again.n_used == 2, "those that are held twice"
    assert not set(again.take(3000).tolist()) & set(taken[5:7].tolist())
    assert sum(array.nbytes for array in rows.state().values()) < 1000


def test_drafts_of_killed_processes_are_removed(folder, killed):
    drafts = [
        folder / f".current.{'0' * 32}.tdlg-tmp",
        folder / "generation-0001" / f".origin.json.{'1' * 32}.tdlg-tmp",
    ]
    for draft in drafts:
        draft.write_bytes(b"half")
    with LiveModel.open(folder) as live:
        assert next_score(live) == killed[1]
    assert not [draft for draft in drafts if draft.exists()]
