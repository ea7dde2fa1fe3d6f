"""The log and the state directory: what was acknowledged stays, in order, whatever happens to the process and the disk.

The oracle is a list of the payloads whose sync returned.
"""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdlg.exceptions import ParameterError, TdlgError
from tdlg.live import log as logs
from tdlg.live.log import HEADER, Log, LogError, LogFullError, StateError, read_records
from tdlg.live.store import Generation, StateDirectory

posix = pytest.mark.skipif(os.name == "nt", reason="no such signals and limits")


def payload(number):
    """A payload that tells which record it belongs to, with a length of its own."""
    return f"{number} ".encode() * (1 + number % 7)


def write(log, n_batches, per_batch=1):
    for _ in range(n_batches):
        for _ in range(per_batch):
            log.append(1, payload(log.synced + log._n_pending + 1), per_batch)
        log.sync()


def replayed(log, after=None):
    return [(record.sequence, record.payload) for record in log.replay(after)]


def first(n, after=0):
    return [(number, payload(number)) for number in range(after + 1, n + 1)]


def segments(folder):
    return sorted(folder.glob("log-*.bin"))


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


# ---- records


def test_records_come_back(tmp_path):
    with Log(tmp_path, clock=iter(range(100, 200)).__next__) as log:
        assert [log.append(7, b"a\xff", 3), log.append(0, b""), log.append(255, b"c" * 10_000)] == [1, 2, 3]
        assert log.synced == 0
        assert not [*log.replay()]
        assert log.sync() == log.sync() == log.synced == 3
        assert [*log.replay()] == [(1, 7, 3, 100.0, b"a\xff"), (2, 0, 1, 101.0, b""), (3, 255, 1, 102.0, b"c" * 10_000)]
        assert log.last_sync == 103
    with Log(tmp_path) as log:
        assert (log.synced, log.cut_bytes, log.last_sync) == (3, 0, None)
        assert log.append(1, b"d") == 4
    assert [record.payload[:1] for record in read_records(tmp_path, 1)] == [b"", b"c", b"d"]  # closing has synced


@pytest.mark.parametrize("segment_bytes", [1, 200, 10**6])
def test_replay_starts_anywhere(tmp_path, segment_bytes):
    with Log(tmp_path, segment_bytes=segment_bytes) as log:
        write(log, 10, 3)
        assert log.n_segments == len(segments(tmp_path)) == {1: 10, 200: log.n_segments, 10**6: 1}[segment_bytes]
        assert log.n_bytes == sum(path.stat().st_size for path in segments(tmp_path))
        for after in range(32):
            assert replayed(log, after) == first(30, after)
    with Log(tmp_path) as log:
        assert replayed(log) == first(30)


def test_replay_leaves_out_what_comes_while_it_runs(tmp_path):
    with Log(tmp_path, segment_bytes=100) as log:
        write(log, 5)
        records = log.replay()
        write(log, 5)
        assert len([*records]) == 5


def test_a_payload_may_contain_a_record(tmp_path):
    with Log(tmp_path) as log:
        write(log, 3)
        log.append(1, segments(tmp_path)[0].read_bytes())
        log.append(1, b"last")
        log.sync()
    with Log(tmp_path) as log:
        assert (log.synced, log.cut_bytes) == (5, 0)


def test_parameters_are_checked(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="segment_bytes"):
        Log(tmp_path, segment_bytes=0)
    monkeypatch.setattr(logs, "LARGEST_PAYLOAD", 5)
    with Log(tmp_path) as log, pytest.raises(ParameterError, match="at most 5 bytes"):
        log.append(1, b"123456")


# ---- damage


def test_an_unfinished_record_is_cut_at_every_byte(tmp_path):
    with Log(tmp_path) as log:
        write(log, 3)
        size = log.n_bytes
        write(log, 1)
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    for end in range(size, len(whole)):
        path.write_bytes(whole[:end])
        assert [record.sequence for record in read_records(tmp_path)] == [1, 2, 3]
        assert path.stat().st_size == end  # reading alone cuts nothing
        with Log(tmp_path) as log:
            assert (log.cut_bytes, log.synced, path.stat().st_size) == (end - size, 3, size)
            write(log, 2)
            assert replayed(log) == first(5)


def test_a_flipped_bit_is_seen_at_every_byte(tmp_path):
    with Log(tmp_path) as log:
        write(log, 3)
        size = log.n_bytes
        write(log, 1)
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole)
        flip(path, position)
        if position >= size:
            with Log(tmp_path) as log:
                assert (log.synced, log.cut_bytes) == (3, len(whole) - size)
        else:
            with pytest.raises(LogError, match=r"log-0+1\.bin: record [123], at byte \d+, is damaged"):
                Log(tmp_path)
            assert path.stat().st_size == len(whole)


@pytest.mark.parametrize("zeros", [1, 100, 5000])
def test_zeros_at_the_end_are_cut(tmp_path, zeros):
    with Log(tmp_path) as log:
        write(log, 3)
    with open(segments(tmp_path)[0], "ab") as file:
        file.write(bytes(zeros))
    with Log(tmp_path) as log:
        assert (log.synced, log.cut_bytes) == (3, zeros)


def test_a_whole_record_with_a_wrong_number_is_cut(tmp_path):
    with Log(tmp_path) as log:
        write(log, 1)
        size = log.n_bytes
        write(log, 2)
    path = segments(tmp_path)[0]
    with open(path, "ab") as file:
        file.write(path.read_bytes()[:size])
    with Log(tmp_path) as log:
        assert log.cut_bytes == size
        assert replayed(log) == first(3)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 40))
def test_pages_of_an_unsynced_batch_may_be_lost_in_any_order(tmp_path_factory, seed, n_batches, per_batch):
    folder = tmp_path_factory.mktemp("log")
    with Log(folder) as log:
        write(log, n_batches, per_batch)
        size, synced = log.n_bytes, log.synced
        write(log, 1, per_batch)
    (path,) = segments(folder)
    data, rng = bytearray(path.read_bytes()), random.Random(seed)
    for page in range(size, len(data), 64):
        if rng.random() < 0.3:
            data[page : page + 64] = bytes(len(data[page : page + 64]))
    path.write_bytes(data)
    with Log(folder) as log:
        assert log.synced >= synced
        assert replayed(log) == first(log.synced)


def test_damage_in_an_older_segment_names_file_and_byte(tmp_path):
    with Log(tmp_path, segment_bytes=200) as log:
        write(log, 30)
    path = segments(tmp_path)[2]
    number = int(path.name[4:24])
    flip(path, HEADER.size + len(payload(number)) + 3)
    with Log(tmp_path) as log:
        records = log.replay()
        assert [next(records).sequence for _ in range(number)] == [*range(1, number + 1)]
        place = re.escape(f"{path}: record {number + 1}, at byte {HEADER.size + len(payload(number))},")
        with pytest.raises(LogError, match=place):
            next(records)
        newest = int(segments(tmp_path)[-1].name[4:24]) - 1
        assert replayed(log, newest) == first(30, newest)  # which does not need the damaged one


def test_a_missing_segment_is_seen(tmp_path):
    with Log(tmp_path, segment_bytes=1) as log:
        write(log, 5)
        segments(tmp_path)[2].unlink()
        with pytest.raises(LogError, match="cannot be read: No such file"):
            [*log.replay()]
    with Log(tmp_path) as log, pytest.raises(LogError, match="record 3, at byte"):
        [*log.replay()]
    segments(tmp_path)[0].unlink()
    with Log(tmp_path) as log, pytest.raises(LogError, match="begins with record 2, but record 1 is needed"):
        log.replay(0)


# ---- failing disks


class Disk:
    """Lets calls of the system fail. A failing write has written half of the bytes."""

    def __init__(self, monkeypatch):
        self.patch, self.real = monkeypatch, {name: getattr(os, name) for name in FAILING}
        self.calls, self.failing = [], {}
        for name in FAILING:
            monkeypatch.setattr(os, name, self.wrapped(name))

    def wrapped(self, name):
        def call(*args):
            self.calls.append(name)
            if error := self.failing.get(name):
                if name == "write":
                    self.real[name](args[0], bytes(args[1])[: len(args[1]) // 2])
                raise error
            return self.real[name](*args)

        return call


FAILING = ["write", "fdatasync", "fsync", "ftruncate", "open"]
SPACE, BROKEN = OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "Input/output error")


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@posix
@pytest.mark.parametrize("segment_bytes", [10**6, 1])
@pytest.mark.parametrize("error", [SPACE, BROKEN, KeyboardInterrupt()])
@pytest.mark.parametrize("failing", [["write"], ["fdatasync"], ["write", "ftruncate"], ["fdatasync", "fsync"]])
def test_a_failed_batch_leaves_nothing(tmp_path, disk, failing, error, segment_bytes):
    with Log(tmp_path, segment_bytes=segment_bytes) as log:
        write(log, 3, 2)
        for times in range(1, 4):
            disk.failing = dict.fromkeys(failing, BROKEN) | {failing[0]: error}
            for _ in range(times):
                log.append(1, b"lost")
                with pytest.raises((LogError, KeyboardInterrupt)):
                    log.sync()
                assert log.synced == 6 + 2 * (times - 1)
                assert replayed(log) == first(log.synced)
            disk.failing = {}
            write(log, 1, 2)
            assert log.failure is None
            assert replayed(log) == first(6 + 2 * times)
    with Log(tmp_path) as log:
        assert log.cut_bytes == 0
        assert replayed(log) == first(12)


@posix
def test_errors_say_what_to_do(tmp_path, disk):
    with Log(tmp_path) as log:
        for failing, error, kind in (("write", SPACE, LogFullError), ("fdatasync", BROKEN, LogError)):
            log.append(1, b"lost")
            disk.failing = {failing: error}
            with pytest.raises(kind, match=rf"log-0+1\.bin: the log cannot be written: {error.strerror}\.") as raised:
                log.sync()
            assert type(raised.value) is kind
            assert isinstance(raised.value, TdlgError)
            assert error.strerror in log.failure
            assert "nothing that was acknowledged is lost" in raised.value.hint


@posix
@pytest.mark.parametrize("failing", ["open", "fsync"])
def test_a_segment_that_cannot_be_made_is_made_later(tmp_path, disk, failing):
    with Log(tmp_path, segment_bytes=1) as log:
        write(log, 2)
        disk.failing = {failing: SPACE}
        for _ in range(2):
            log.append(1, b"lost")
            with pytest.raises(LogFullError):
                log.sync()
            assert len(segments(tmp_path)) == 2
        disk.failing = {}
        write(log, 2)
        assert replayed(log) == first(4)


@posix
def test_pages_of_a_failed_sync_are_not_written_again(tmp_path, disk):
    with Log(tmp_path) as log:
        write(log, 2)
        log.append(1, b"lost")
        disk.failing = {"fdatasync": BROKEN}
        with pytest.raises(LogError):
            log.sync()
        disk.failing = {}
        write(log, 1)
        assert [path.name[-6:] for path in segments(tmp_path)] == ["01.bin", "03.bin"]


@posix
def test_one_write_and_one_sync_per_batch(tmp_path, disk):
    with Log(tmp_path) as log:
        write(log, 1)
        disk.calls.clear()
        write(log, 1, 1000)
        assert disk.calls == ["write", "fdatasync"]


@posix
def test_opening_syncs_what_a_killed_process_wrote(tmp_path, disk):
    with Log(tmp_path) as log:
        write(log, 1)
    disk.calls.clear()
    with Log(tmp_path):
        assert "fsync" in disk.calls
    disk.failing = {"fsync": BROKEN}
    with pytest.raises(LogError, match="cannot be written: Input/output error"):
        Log(tmp_path)


@posix
def test_anything_may_happen_in_any_order(tmp_path, disk):
    rng, oracle, log = random.Random(0), [], Log(tmp_path, segment_bytes=300)
    for _ in range(500):
        match rng.choice(["sync", "sync", "sync", "fail", "roll", "reopen", "tear"]):
            case "sync":
                new = [rng.randbytes(rng.randrange(60)) for _ in range(rng.randrange(4))]
                numbers = [log.append(2, content) for content in new]
                assert numbers == [*range(len(oracle) + 1, len(oracle) + len(new) + 1)]
                oracle += new
                assert log.sync() == len(oracle)
            case "fail":
                disk.failing = {name: SPACE for name in FAILING if rng.random() < 0.3}
                log.append(2, b"lost" * rng.randrange(30))
                if disk.failing.keys() & {"write", "fdatasync"}:
                    with pytest.raises(LogFullError):
                        log.sync()
                disk.failing = {}
                log._forget_pending()
            case "roll":
                log.roll()
            case action:
                uncut = log._uncut  # then a dropped batch may come back
                os.close(log._file)  # as if the process were killed
                if action == "tear":
                    with open(log._newest.path, "ab") as file:
                        file.write(rng.randbytes(rng.randrange(100)))
                log = Log(tmp_path, segment_bytes=300)
                oracle, expected = [record.payload for record in log.replay()], oracle
                assert oracle[: len(expected)] == expected
                assert uncut or len(oracle) == len(expected)
    log.close()


FULL_DISK = """
    import resource, sys
    from tdlg.live.log import Log, LogFullError

    log = Log(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
    try:
        while True:
            log.append(1, b"%d" % (log.synced + 1) * 100)
            log.sync()
    except LogFullError as error:
        full, size = log.synced, log.n_bytes
        assert log._newest.path.stat().st_size == size <= 10_000, size
    log.append(1, b"%d" % (log.synced + 1) * 100)
    print(full, log.sync())
"""


def run(script, *args):
    return [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]


@posix
def test_a_full_disk_is_no_end(tmp_path):
    result = subprocess.run(run(FULL_DISK, tmp_path), capture_output=True, text=True, check=True)
    full, resumed = map(int, result.stdout.split())
    assert 0 < full == resumed - 1
    with Log(tmp_path) as log:
        assert log.cut_bytes == 0
        assert [record.payload for record in log.replay()] == [b"%d" % n * 100 for n in range(1, resumed + 1)]


# ---- the state directory


def fill(generation):
    (generation.path / "model.tdlg").write_bytes(b"model " + generation.fingerprint.encode())


def state(text):
    return lambda path: path.write_text(text)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "new" / "state"


def opened(folder, fingerprint="one", **options):
    return StateDirectory(folder, fingerprint, fill, **options)


CHILD = """
    import os, random, sys
    from tdlg.live.store import StateDirectory

    def payload(number):
        return f"{number} ".encode() * (1 + number % 7)

    rng = random.Random(int(sys.argv[2]))
    with StateDirectory(sys.argv[1], "one", lambda generation: None, segment_bytes=20_000) as state:
        while True:
            for _ in range(rng.randrange(1, 50)):
                number = state.log.append(1, payload(state.log.synced + state.log._n_pending + 1))
            os.write(1, f"{state.log.sync()}\\n".encode())
            if rng.random() < 0.1:
                state.write_snapshot(number, lambda path: path.write_text(f"{number} " * 1000))
            if rng.random() < 0.02:
                state.switch("two", lambda new: new.write_snapshot(number, lambda path: path.write_text(f"{number} " * 9)))
"""


@posix
def test_killing_it_loses_nothing(folder):
    rng, acknowledged = random.Random(0), 0
    for seed in range(20):
        child = subprocess.Popen(run(CHILD, folder, seed), stdout=subprocess.PIPE)
        child.stdout.readline()
        try:
            child.wait(rng.uniform(0, 0.15))
        except subprocess.TimeoutExpired:
            child.kill()
        lines = child.communicate()[0].splitlines(keepends=True)
        acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith(b"\n"))])
        assert child.returncode == -signal.SIGKILL
        with opened(folder) as directory:
            assert directory.log.synced >= acknowledged
            assert replayed(directory.log) == first(directory.log.synced)
            if snapshot := directory.newest_snapshot():
                assert int(snapshot.path.read_text().split()[0]) == snapshot.sequence <= directory.log.synced
            assert {path.suffix for path in folder.rglob("snapshot*")} <= {".state"}
    assert acknowledged > 100


HOLDER = """
    import sys
    from tdlg.live.store import StateDirectory

    state = StateDirectory(sys.argv[1], "one", lambda generation: None)
    print("open", flush=True)
    sys.stdin.read()
"""


@posix
def test_one_process_writes_and_its_death_lets_the_next_one_in(folder):
    child = subprocess.Popen(run(HOLDER, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"open\n"
    with pytest.raises(StateError, match=re.escape(f"{str(folder)!r} is in use by process {child.pid}. Stop it first")):
        opened(folder)
    child.kill()
    child.communicate()
    with opened(folder), pytest.raises(StateError, match=f"in use by process {os.getpid()}"):
        opened(folder)
    opened(folder).close()


FORKING = """
    import os, sys, time
    from tdlg.live.store import StateDirectory

    state = StateDirectory(sys.argv[1], "one", lambda generation: None)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, b"x")
        time.sleep(60)
    os.read(reading, 1)
    state.log.append(1, b"the parent still holds the lock")
    state.log.sync()
    print("open", flush=True)
    sys.stdin.read()
"""


@posix
def test_a_forked_process_does_not_keep_the_lock(folder):
    child = subprocess.Popen(
        run(FORKING, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(StateError, match=f"process {child.pid}"):
            opened(folder)
        child.kill()
        child.wait()
        opened(folder).close()  # its child lives on
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_the_lock_is_free_after_a_refusal(folder):
    opened(folder).close()
    for _ in range(2):
        with pytest.raises(StateError, match="another model"):
            opened(folder, "another")


def test_a_directory_is_what_it_says(folder):
    with opened(folder, clock=lambda: 0.0) as directory:
        assert directory.generation == Generation(folder / "generation-0001", "one", "1970-01-01T00:00:00+00:00")
        assert (directory.generation.path / "model.tdlg").read_bytes() == b"model one"
        assert directory.newest_snapshot() is None
        write(directory.log, 3)
        directory.write_snapshot(2, state("two"))
        use = {"log": directory.log.n_bytes, "snapshots": 3, "models": directory.disk_use()["models"]}
        assert directory.health() == {
            "generation": "generation-0001",
            "first_sequence": 1,
            "last_sequence": 3,
            "snapshot_sequence": 2,
            "last_sync": 0.0,
            "failure": None,
            "cut_bytes": 0,
            "segments": 1,
            "bytes": use,
        }
        assert use["models"] > len(b"model one")
        write(directory.log, 1)
        assert directory.log.n_segments == 2
    with StateDirectory(folder) as directory:  # of whatever model
        assert replayed(directory.log, directory.newest_snapshot().sequence) == first(4, 2)


def test_another_model_is_refused_by_name(folder):
    opened(folder).close()
    with pytest.raises(StateError, match=r"made by another model: one, not two\. Pass the model in .*generation-0001"):
        opened(folder, "two")


def test_a_newer_version_is_refused_by_name(folder):
    opened(folder).close()
    made = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(made | {"format": 3, "tdlg": "9.1"}))
    with pytest.raises(
        StateError, match=r"has the format 3 of tdlg 9\.1; .* reads format 2\. Install tdlg 9\.1 or newer"
    ):
        opened(folder)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(StateError, match=r"not a state directory: it has no file 'state.json', but \['holiday.jpg'\]"):
        opened(tmp_path)
    assert os.listdir(tmp_path) == ["holiday.jpg"]
    with pytest.raises(StateError, match="There is no state directory at"):
        StateDirectory(tmp_path / "none")
    assert os.listdir(tmp_path) == ["holiday.jpg"]


@pytest.mark.parametrize("name", ["state.json"])
def test_a_damaged_file_is_named(folder, name):
    opened(folder).close()
    (folder / name).write_text("{")
    with pytest.raises(StateError, match=re.escape(f"{folder / name}: the file is missing or damaged")):
        opened(folder)


def test_a_generation_that_is_missing_is_named(folder):
    opened(folder).close()
    manifest = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(manifest | {"active": ["generation-0007"]}))
    with pytest.raises(
        StateError, match=r"names the generation 'generation-0007', .* one of these .*\['generation-0001'\]"
    ):
        opened(folder)
    (folder / "state.json").unlink()
    with pytest.raises(StateError, match=r"has no file 'state.json', but \['log-0+1.bin'\]"):
        opened(folder)


# ---- snapshots


def test_the_newest_two_snapshots_are_kept(folder):
    with opened(folder) as directory:
        for number in range(1, 6):
            write(directory.log, 1)
            assert directory.write_snapshot(number, state(f"state {number}")).sequence == number
        assert [snapshot.sequence for snapshot in directory.generation.snapshots()] == [5, 4]
        assert directory.newest_snapshot().path.read_text() == "state 5"
        assert directory.write_snapshot(5, state("not written")) == directory.newest_snapshot()
        with pytest.raises(ParameterError, match="sequence=6; the last is 5"):
            directory.write_snapshot(6, state("too early"))


def test_a_damaged_snapshot_is_passed_over_and_does_not_count(folder):
    with opened(folder) as directory:
        write(directory.log, 4)
        directory.write_snapshot(1, state("one"))
        damaged = directory.write_snapshot(2, state("two")).path
        for content in ("tw", "", "twO", "twoo"):
            damaged.write_text(content)
            assert directory.newest_snapshot().sequence == 1
        directory.write_snapshot(3, state("three"))
        assert [snapshot.sequence for snapshot in directory.generation.snapshots()] == [3, 1]
        directory.newest_snapshot().path.write_text("")
        assert directory.write_snapshot(3, state("three again")).is_whole()
        assert replayed(directory.log, directory.newest_snapshot().sequence) == first(4, 3)


@posix
@pytest.mark.parametrize("failing", ["replace", "fsync", "open"])
def test_an_interrupted_snapshot_changes_nothing(folder, monkeypatch, failing):
    def fail(*_):
        raise SPACE

    with opened(folder) as directory:
        write(directory.log, 2)
        directory.write_snapshot(1, state("one"))
        before = sorted(folder.rglob("*"))
        with monkeypatch.context() as patch:
            patch.setattr("builtins.open" if failing == "open" else f"os.{failing}", fail)
            with pytest.raises(StateError, match="the snapshot cannot be written: No space"):
                directory.write_snapshot(2, lambda path: os.close(os.open(path, os.O_CREAT)))
        assert sorted(folder.rglob("*")) == before
        assert directory.newest_snapshot().sequence == 1
        (directory.generation.path / f".snapshot.{'0' * 32}.tdlg-tmp").write_text("killed in the mid")
    with opened(folder) as directory:
        assert sorted(folder.rglob("*")) == before


def test_a_snapshot_ahead_of_the_log_is_an_error(folder):
    with opened(folder, segment_bytes=1) as directory:
        write(directory.log, 3)
        directory.write_snapshot(3, state("three"))
    segments(folder)[-1].unlink()
    with pytest.raises(LogError, match="ends with record 2, before the snapshot of 3"):
        opened(folder)


# ---- what is kept


def test_prune_keeps_what_is_young_or_needed(folder):
    now = [0.0]
    with opened(folder, segment_bytes=1, clock=lambda: now[0]) as directory:
        for now[0] in range(1, 11):
            write(directory.log, 1)
        assert directory.prune(before=100) == 0  # there is no snapshot
        directory.write_snapshot(6, state("six"))
        directory.write_snapshot(8, state("eight"))
        size = directory.log.n_bytes
        assert directory.prune(before=1) == 0
        assert directory.prune(before=4) == size - directory.log.n_bytes > 0
        assert (directory.log.first, replayed(directory.log)) == (4, first(10, 3))
        assert directory.prune(before=100) > 0
        assert directory.log.first == 7  # after the older of the two snapshots
    with opened(folder) as directory:
        assert replayed(directory.log, 6) == replayed(directory.log) == first(10, 6)
        with pytest.raises(LogError, match="begins with record 7, but record 6 is needed"):
            directory.log.replay(5)


def test_prune_looks_at_the_newest_record_and_spares_the_last_segment(tmp_path):
    times = iter([5.0, 50.0, 6.0, 0.0, 7.0, 0.0])  # the clock goes back; after a sync it is read as well
    with Log(tmp_path, clock=times.__next__) as log:
        write(log, 1, 3)
        log.roll()
        write(log, 1)
        assert log.prune(before=50, covered=4) == 0
        assert log.prune(before=51, covered=2) == 0
        assert log.prune(before=51, covered=3) > 0
        assert log.prune(before=51, covered=4) == 0
        assert replayed(log) == first(4, 3)


def test_prune_keeps_what_an_earlier_generation_needs(folder):
    with opened(folder, segment_bytes=1) as directory:
        write(directory.log, 5)
        directory.write_snapshot(2, state("two"))
        directory.switch("new", lambda generation: generation.write_snapshot(5, state("five")))
        directory.prune(before=float("inf"))
        assert directory.log.first == 3


# ---- generations


def refit(generation):
    fill(generation)
    generation.write_snapshot(2, state(generation.fingerprint))


def test_model_and_state_are_switched_together(folder):
    with opened(folder) as directory:
        write(directory.log, 3)
        directory.write_snapshot(3, state("old"))
        old, new = directory.generation, directory.switch("two", refit)
        assert directory.generation == new
        assert replayed(directory.log, directory.newest_snapshot().sequence) == first(3, 2)
    for fingerprint in ("one", "two", None):  # a service is started with the model that the directory was made for
        with opened(folder, fingerprint) as directory:
            assert directory.generation == new
            assert (new.path / "model.tdlg").read_bytes() == b"model two"
            assert directory.generations() == [old, new]
    with opened(folder) as directory:
        directory.go_back()
        write(directory.log, 1)
    with opened(folder) as directory:
        assert directory.newest_snapshot().path.read_text() == "old"
        assert replayed(directory.log, 3) == first(4, 3)


def test_an_unfinished_generation_is_removed(folder):
    opened(folder).close()
    (folder / "generation-0002").mkdir()
    (folder / "generation-0002" / "model.tdlg").touch()  # and it is not in the manifest
    with opened(folder) as directory:
        assert [path.name for path in folder.glob("generation*")] == ["generation-0001"]
        assert [generation.name for generation in directory.generations()] == ["generation-0001"]


def test_two_generations_are_kept_to_go_back_to(folder):
    with opened(folder) as directory:
        write(directory.log, 2)
        for number in range(2, 6):
            directory.switch(str(number), refit)
        names = [generation.name for generation in directory.generations()]
        assert names == ["generation-0003", "generation-0004", "generation-0005"]
        directory.go_back()
        assert directory.generation.name == "generation-0004"
        directory.go_back()
        directory.switch("6", refit)
        names = [generation.name for generation in directory.generations()]
        assert names == ["generation-0003", "generation-0005", "generation-0006"]  # 3 was active
        directory.go_back()
        assert directory.generation.name == "generation-0003", "the one that was active, not the number before"
        with pytest.raises(StateError, match="go back"):
            directory.go_back()
    assert sorted(path.name for path in folder.glob("generation*")) == names
    opened(folder, "one").close()  # the model of a generation that is gone


@pytest.fixture
def three_generations(tmp_path):
    with opened(folder := tmp_path / "template") as directory:
        write(directory.log, 2)
        directory.switch("two", refit)
        directory.switch("three", refit)
    return folder


@posix
@pytest.mark.parametrize("fault", ["fails", "interrupted before", "interrupted after"])
def test_a_switch_is_done_or_not_whatever_happens(tmp_path, three_generations, monkeypatch, fault):
    outcomes = []
    while True:
        folder = shutil.copytree(three_generations, tmp_path / str(len(outcomes)))
        with opened(folder) as directory, monkeypatch.context() as patch:
            calls = fail_at(patch, len(outcomes), fault)
            with suppress(StateError, KeyboardInterrupt):
                directory.switch("four", refit)
        with opened(folder) as directory:
            active = directory.generation.fingerprint
            assert directory.newest_snapshot().path.read_text() == active
            assert (directory.generation.path / "model.tdlg").read_bytes() == f"model {active}".encode()
            assert "three" in [generation.fingerprint for generation in directory.generations()]
            assert replayed(directory.log) == first(2)
        if len(calls) <= len(outcomes):
            break
        outcomes.append(active)
    assert active == "four"
    assert outcomes.count("three") > 8
    assert outcomes[-1] == "four"  # old generations are removed last


def fail_at(patch, moment, fault):
    """Let one of the calls that change the disk fail, and count them."""
    calls = []

    def wrapped(real):
        def call(*args, **kwargs):
            calls.append(real)
            if len(calls) - 1 != moment:
                return real(*args, **kwargs)
            if fault == "interrupted after":
                real(*args, **kwargs)
            raise SPACE if fault == "fails" else KeyboardInterrupt

        return call

    for name in ("replace", "fsync", "mkdir", "unlink", "rmdir"):
        patch.setattr(os, name, wrapped(getattr(os, name)))
    return calls


def test_an_unfinished_new_directory_is_made_again(folder):
    def interrupted(generation):
        fill(generation)
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            StateDirectory(folder, "another", interrupted)
    (folder / "generation-0001").mkdir()
    (folder / "generation-0001" / "origin.json").write_text("{}")  # killed before the manifest was written
    (folder / f".state.json.{'0' * 32}.tdlg-tmp").touch()
    with opened(folder) as directory:
        assert directory.generation.name == "generation-0001"
        assert (directory.generation.path / "model.tdlg").exists()
