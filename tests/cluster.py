"""A Dask cluster over TCP on this machine: a scheduler and workers, each a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tdlg.engines.buckets import make_columns
from tdlg.exceptions import ReadError

ROOT = Path(__file__).parents[1]


class Cluster:
    """Starts what it is asked for, and ends all of it."""

    def __init__(self, folder, n_workers=0):
        self.folder = Path(folder)
        self.workers = []
        self.scheduler, self.address = None, None
        try:
            self.start_scheduler()
            for _ in range(n_workers):
                self.start_worker()
        except BaseException:
            self.close()
            raise

    def start_scheduler(self):
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--no-dashboard", "--dashboard-address", ":0")
        self.address = self._wait_for(self.scheduler, "Scheduler at:")

    def start_worker(self, *options, path=()):
        """A worker with one thread; `path`: folders that it finds modules in before all others."""
        limits = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder)]
        worker = self._start("dask_worker", self.address, *limits, *options, path=path)
        self.workers.append(worker)
        return worker

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self):
        for process in [*self.workers, self.scheduler]:
            if process is not None and process.poll() is None:
                self.kill(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _start(self, module, *arguments, path=()):
        log = self.folder / f"{module}-{len(self.workers)}.log"
        search = [*map(str, path), str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
        settings = {"PYTHONPATH": os.pathsep.join(filter(None, search)), "POLARS_MAX_THREADS": "1"}
        settings["OMP_NUM_THREADS"] = "1"  # as Dask's nanny sets it, which is not used here
        settings["DASK_TEMPORARY_DIRECTORY"] = str(self.folder)  # else processes that are killed leave folders behind
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--host", "127.0.0.1", *arguments],
                env=os.environ | settings,
                cwd=self.folder,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        process.log = log
        return process

    def _wait_for(self, process, text):
        """The word after a text in the output of a process."""
        for _ in range(600):
            for line in process.log.read_text().splitlines():
                if text in line:
                    return line.split(text)[1].split()[0]
            assert process.poll() is None, process.log.read_text()
            time.sleep(0.1)
        raise AssertionError(process.log.read_text())


def slow_columns(task):
    """`make_columns`, in time enough to be killed; a file per start and per end says by whom."""
    begun = Path(task.files.folder) / f"{os.getpid()}-{task.match}-{task.bucket}.begun"
    begun.touch()
    time.sleep(0.1)
    make_columns(task)
    begun.with_suffix(".ended").touch()


def fail(task):
    raise ReadError(f"{task} is damaged.")


def nap(seconds):
    time.sleep(seconds)
    return os.getpid()


AT_REST = []


def forget_peak_memory():
    """From now on, peaks count."""
    Path("/proc/self/clear_refs").write_text("5")
    AT_REST[:] = [_memory("VmRSS")]


def risen_memory():
    """By how many bytes this process grew at most."""
    return _memory("VmHWM") - AT_REST[0]


def _memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) * 1024
