"""Snapshots that are written in steps between events: the state at one moment, whatever comes meanwhile."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

from live_payments import classifier, event, events, label
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
    monkeypatch.setattr(store, "AT_ONCE", 500)
    with LiveModel.open(tmp_path / "live", classifier(), snapshot_every=100) as live:
        live.in_steps = True
        live.submit(events(range(500, 600)))
        before, n_steps = snapshots(tmp_path), 0
        while live.work(0.0):
            if n_steps < 100:
                live.submit([event(600 + n_steps)])
                live.label([label(500 + n_steps)])
            n_steps += 1
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
@pytest.mark.parametrize("n_steps", [1, 20, 3000])
def test_kill_between_steps(tmp_path, n_steps):
    LiveModel.open(tmp_path / "live", classifier()).close()
    shutil.copytree(tmp_path / "live", tmp_path / "alone")
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "live"), str(n_steps)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # of this process, with the folder of tests
    assert subprocess.run(command, check=False, env=environment).returncode == -9
    with LiveModel.open(tmp_path / "alone") as live:
        live.submit(events(range(500, 600)))
        live.submit([event(600)])
    assert answers(tmp_path / "live") == answers(tmp_path / "alone")
    assert not [*(tmp_path / "live").rglob(".*tdlg-tmp")]
