"""Snapshots that are written between events: the state at one moment, whatever comes meanwhile."""

import os
import shutil
import threading
import time

import numpy as np
import pytest

from live_payments import classifier, event, events, label
from nursery import Nursery
from tdlg.live import store
from tdlg.live.model import LiveModel

pytestmark = pytest.mark.usefixtures("few_trees")
posix = pytest.mark.skipif(os.name == "nt", reason="no such signals")
LATER = [event(row) for row in range(800, 860)]


def answers(folder, given=LATER):
    with LiveModel.open(folder) as live:
        return [(answer.id, answer.score, answer.alert) for answer in live.submit(given)]


def snapshots(folder):
    return sorted(path.name for path in folder.rglob("*.state"))


def test_events_between_steps_do_not_change_it(tmp_path, monkeypatch):
    def waiting(path, crc=store._crc_of):  # until all events have come
        while "snapshot" in path.name and not (tmp_path / "go").exists():
            time.sleep(0.01)
        return crc(path)

    monkeypatch.setattr(store, "SPARSE_FROM", 64)
    with LiveModel.open(tmp_path / "live", classifier(), snapshot_every=100) as live:
        live.in_steps = True
        monkeypatch.setattr(store, "_crc_of", waiting)
        live.submit(events(range(500, 600)))
        before, n_steps = snapshots(tmp_path), 0
        while live.work(0.0):
            if n_steps < 100:
                live.submit([event(600 + n_steps)])
                live.label([label(500 + n_steps)])
            n_steps += 1
            if n_steps == 101:
                (tmp_path / "go").touch()
        assert n_steps > 100
        written = [name for name in snapshots(tmp_path) if name not in before]
        assert len(written) == 1
        live._failure = RuntimeError("killed")
        live._directory.close()
    (path,) = (tmp_path / "live").rglob(written[0])
    with LiveModel.open(tmp_path / "alone", classifier(), snapshot_every=10**6) as live:
        live.submit(events(range(500, 600)))
        live.snapshot()
        (alone,) = (tmp_path / "alone").rglob(f"{written[0][:29]}*")
        found, want = store.ArrayFile(path), store.ArrayFile(alone)
        assert set(found) == set(want)
        assert all(found[name].tobytes() == want[name].tobytes() for name in found)
        for k in range(100):
            live.submit([event(600 + k)])
            live.label([label(500 + k)])
    assert answers(tmp_path / "live") == answers(tmp_path / "alone")


def test_what_is_written_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SPARSE_FROM", 64)
    rng = np.random.default_rng(0)
    some = rng.normal(size=(101, 7)) * (rng.random((101, 7)) < 0.3)
    some[:2, 0] = -0.0, np.nan
    arrays = {
        "some": some,
        "all": np.arange(1000),
        "none": np.zeros((0, 3)),
        "one": np.array(5),
        "zeros": np.zeros(1001),
    }
    arrays |= {"short": np.zeros((50, 2), np.float32), "words": np.zeros((40, 2), np.int64)}
    store.write_arrays(tmp_path / "x", {**arrays, "made": lambda: np.arange(3, dtype=np.uint8)})
    found = store.ArrayFile(tmp_path / "x")
    for name, array in {**arrays, "made": np.arange(3, dtype=np.uint8)}.items():
        assert (found[name].shape, found[name].dtype, found[name].tobytes()) == (
            array.shape,
            array.dtype,
            array.tobytes(),
        )
    assert (tmp_path / "x").stat().st_size < 0.7 * sum(array.nbytes for array in arrays.values())


def test_large_files_are_removed_beside_all_else(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "REMOVED_AT_ONCE", 10_000)
    with LiveModel.open(tmp_path / "live", classifier(), snapshot_every=10) as live:
        for row in range(500, 560, 10):
            live.submit(events(range(row, row + 10)))
        for thread in threading.enumerate():
            if thread.name == "tdlg-remove":
                thread.join()
        assert len(snapshots(tmp_path)) == 2


def test_a_full_disk_between_steps_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "AT_ONCE", 500)
    with LiveModel.open(tmp_path / "live", classifier(), snapshot_every=50) as live:
        live.in_steps = True
        live.submit(events(range(500, 550)))
        assert live.work(0.0)

        def full(file):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(store.os, "fsync", full)
            while live.work(0.0):
                pass
        assert "No space" in live.health()["snapshot_failure"]
        assert live.submit(events(range(550, 600)))[0].error is None
        while live.work():
            pass
        assert live.health()["snapshot_failure"] is None
        assert live.health()["snapshot_sequence"] == live.health()["last_sequence"]


LOADED = """
    from live_payments import event
    from tdlg.live.model import LiveModel
    with LiveModel.open({folder!r}) as live:
        live.submit([event(500)])
"""
KILLED = """
    import os, sys
    from live_payments import event, events
    from tdlg.live import store
    from tdlg.live.model import LiveModel

    store.AT_ONCE = 500
    live = LiveModel.open(sys.argv[1], snapshot_every=100)
    live.in_steps = True
    live.submit(events(range(500, 600)))
    for k in range(int(sys.argv[2])):
        live.work(0.0)
    live.submit([event(600)])
    os.kill(os.getpid(), 9)
"""


@posix
def test_kill_between_steps(tmp_path):
    LiveModel.open(tmp_path / "alone", classifier()).close()
    for place in ("spare", *(steps := (1, 20, 3000))):
        shutil.copytree(tmp_path / "alone", tmp_path / f"{place}")
    with LiveModel.open(tmp_path / "alone") as live:
        live.submit(events(range(500, 600)))
        live.submit([event(600)])
    expected = answers(tmp_path / "alone")
    with Nursery(LOADED.format(folder=str(tmp_path / "spare"))) as nursery:
        for n_steps in steps:
            assert nursery.run(KILLED, tmp_path / f"{n_steps}", n_steps) == -9
            assert answers(tmp_path / f"{n_steps}") == expected
            assert not [*(tmp_path / f"{n_steps}").rglob(".*tdlg-tmp")]


@pytest.mark.skipif(not store.FORKS, reason="nothing is forked")
@pytest.mark.parametrize("end", ["close", "kill"])
def test_the_end_of_the_process_that_writes(tmp_path, monkeypatch, end):
    mine = os.getpid()

    def never(path, crc=store._crc_of):  # in the forked process
        return crc(path) if os.getpid() == mine else time.sleep(60)

    monkeypatch.setattr(store, "_crc_of", never)
    with LiveModel.open(tmp_path / "live", classifier(), snapshot_every=50) as live:
        live.in_steps = True
        live.submit(events(range(500, 550)))
        assert live.work()
        if end == "kill":
            os.kill(live._directory._child._process, 9)
            while live.work(0.1):
                pass
            assert "was ended" in live.health()["snapshot_failure"]
    assert len(snapshots(tmp_path)) == 2  # the first one, and that of the end
    assert not [*(tmp_path / "live").rglob(".*tdlg-tmp")]
    assert [answer[0] for answer in answers(tmp_path / "live")] == [one["id"] for one in LATER]


def test_without_forks_it_is_written_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("tdlg.live.model.FORKS", False)
    with LiveModel.open(tmp_path / "live", classifier(), snapshot_every=50) as live:
        live.in_steps = True
        live.submit(events(range(500, 550)))
        assert not live.work()
        assert live.health()["snapshot_sequence"] == live.health()["last_sequence"]
