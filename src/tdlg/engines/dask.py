"""Dask: the engine of several machines, which runs tasks on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import platform
import queue
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import metadata
from typing import Any, Self, TypeVar

from tdlg.engines.local import Callback, Engine, Local
from tdlg.engines.store import exists
from tdlg.exceptions import ClusterError, Hint, ParameterError

__all__ = ["Dask", "opened_engine"]

Task = TypeVar("Task")
Result = TypeVar("Result")
Versions = dict[str, str | None]

# The keys of text come from the hash of polars, which another version may compute differently; tasks are objects of tdlg,
# and are sent by distributed. Of Python and numpy, the first two parts decide whether objects can be exchanged.
SAME, SIMILAR = ("tdlg", "polars", "distributed"), ("python", "numpy")
TIMEOUT = 30.0  # seconds to reach the scheduler and a first worker
PAUSE = 1.0  # seconds between two looks at the cluster while nothing ends
PATIENCE = 60  # looks without any worker, after which the work is given up


class Dask:
    """Tasks on the workers of a Dask cluster.

    Workers exchange nothing but files, which are on a path or on a store that the client and all workers see. If a worker
    is lost, only the tasks that it was running are run again, by other workers. The client, the scheduler and the workers
    need the same versions of tdlg, polars and distributed.

    Parameters
    ----------
    address
        The address of the scheduler, such as "tcp://host:8786"; or a `distributed.Client`, which stays open.
    timeout
        How long to wait for the scheduler and for a first worker, in seconds. 30 by default.

    Examples
    --------
    >>> from tdlg.engines.dask import Dask
    >>> with Dask("tcp://10.0.0.1:8786") as engine:  # doctest: +SKIP
    ...     engine.map(abs, [-1, -2])
    [1, 2]
    """

    def __init__(self, address: Any, timeout: float = TIMEOUT) -> None:
        self._is_ours = isinstance(address, str)
        self._levels = _hushed() if self._is_ours else {}
        self._client = _connected(address, timeout) if self._is_ours else address
        self.address = address if self._is_ours else str(self._client.scheduler.address)
        try:
            self._wait_for_workers(timeout)
            self._check_versions()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        if self._is_ours:
            with _quiet():
                self._client.close(timeout=2)
            for name, level in self._levels.items():
                logging.getLogger(name).setLevel(level)

    @property
    def n_threads(self) -> int:
        """How many tasks run at once, on all workers together."""
        return sum(worker["nthreads"] for worker in self._workers())

    @property
    def worker_threads(self) -> int:
        """How many tasks run at once on a worker, at most."""
        return max(worker["nthreads"] for worker in self._workers())

    @property
    def worker_memory(self) -> int | None:
        """The limit of memory of the smallest worker, in bytes; None without limits."""
        return min((worker["memory_limit"] for worker in self._workers() if worker["memory_limit"]), default=None)

    def map(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], callback: Callback | None = None
    ) -> list[Result]:
        """Run the function on all tasks; see `tdlg.engines.local.Engine`. Results must be small: the client has all."""
        if not tasks:
            return []
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._explained(function):
            futures = self._client.map(partial(_run, function, _versions()), tasks, pure=False)
        try:
            for future in futures:
                future.add_done_callback(ended.put)
            n_done = n_looks = 0
            while n_done < len(tasks):
                done = _taken(ended)
                n_done += len(done)
                n_looks = 0 if done or self._has_workers() else n_looks + 1
                if n_looks == PATIENCE:
                    raise self._lost_workers()
                with self._explained(function):
                    for future in done:
                        if future.status != "finished":
                            future.result()  # raises, unless a result was lost and is computed again
                if callback is not None:
                    callback(n_done, len(tasks))
            with self._explained(function):
                return self._client.gather(futures)  # results that were lost with a worker are computed again
        except BaseException:
            with _quiet():
                self._client.cancel(futures, asynchronous=True)
            raise

    def check_sees(self, path: str) -> None:
        """Refuse a file or a folder that a worker does not see."""
        with self._explained(exists):
            seen = self._client.run(exists, path)
        blind = [address for address, is_there in seen.items() if not is_there]
        if blind:
            raise ParameterError(
                f"{path}: {len(blind)} of {len(seen)} workers of the cluster at {self.address} do not see it, for example "
                f"{blind[0]}. All files must be on a path or a store that all machines see.",
                parameter="engine",
                value=self.address,
            )

    # ---- what may go wrong

    def _workers(self) -> list[dict[str, Any]]:
        with self._explained(None):
            return list(self._client.scheduler_info(n_workers=-1)["workers"].values())

    def _has_workers(self) -> bool:
        """Whether there is a worker; True if the scheduler is being lost, which the futures say."""
        try:
            return bool(self._client.nthreads())
        except (OSError, ValueError):
            return True

    def _wait_for_workers(self, timeout: float) -> None:
        with self._explained(None):
            try:
                self._client.wait_for_workers(1, timeout=timeout)
            except TimeoutError:
                raise self._lost_workers() from None

    def _check_versions(self) -> None:
        """Refuse a cluster whose scheduler or workers have other versions than this process."""
        with self._explained(None), _quiet():
            found = self._client.get_versions(check=False, packages=[*SAME, *SIMILAR])
        machines = {"the scheduler": found["scheduler"], **{f"worker {k}": v for k, v in found["workers"].items()}}
        for name, its in machines.items():
            packages = its["packages"]
            problem = _mismatch({**packages, "python": its["host"]["python"]}, _versions())
            if problem:
                raise ClusterError(
                    f"The cluster at {self.address} has other versions: {problem} on {name}.", SAME_EVERYWHERE
                )

    def _lost_workers(self) -> ClusterError:
        return ClusterError(
            f"The cluster at {self.address} has no workers.",
            f"Start some with: dask worker {self.address} --nthreads 1",
            "What was completed stays: run again to go on.",
        )

    @contextmanager
    def _explained(self, function: Any) -> Iterator[None]:
        """Errors of the cluster, in words."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from distributed.comm.core import CommClosedError

        try:
            yield
        except KilledWorker as error:
            raise ClusterError(
                f"A task ({function.__name__}) failed because {error.allowed_failures + 1} workers died while they ran it, "
                f"the last one at {error.last_worker.address}. Most probably the memory was not enough.",
                Hint(
                    "Give each worker more memory or one thread, or ask for smaller buckets with {memory}.",
                    memory="2GB",
                ),
                "What was completed stays: run again to go on.",
            ) from None
        except (CancelledError, FutureCancelledError, CommClosedError):
            raise ClusterError(
                f"The connection to the scheduler at {self.address} was lost.",
                "What was completed stays: start the cluster again, and run again to go on.",
            ) from None


SAME_EVERYWHERE = (
    "Install the same versions of tdlg, polars and distributed, and the same minor versions of Python and numpy, on the "
    "client, the scheduler and all workers; the easiest way is one container image or one lock file."
)


@contextmanager
def opened_engine(engine: Engine | str | None, n_threads: int | None = None) -> Iterator[Engine]:
    """The engine that a user asked for.

    Parameters
    ----------
    engine
        None for the threads of this machine, the address of a Dask scheduler such as "tcp://host:8786", which is left at
        the end, or an engine.
    n_threads
        Number of threads of this machine.
    """
    if engine is None:
        yield Local(n_threads)
    elif isinstance(engine, str):
        with Dask(engine) as cluster:
            yield cluster
    elif hasattr(engine, "map"):
        yield engine
    else:
        raise _not_an_engine(engine)


def _hushed() -> dict[str, int]:
    """Silence what distributed says of a lost connection, which is an error of its own; the levels before."""
    loggers = {name: logging.getLogger(f"distributed.{name}") for name in ("client", "batched", "core", "comm")}
    levels = {logger.name: logger.level for logger in loggers.values()}
    for logger in loggers.values():
        logger.setLevel(logging.CRITICAL)
    return levels


def _not_an_engine(given: Any) -> ParameterError:
    return ParameterError(
        f"The 'engine' must be the address of a Dask scheduler, such as 'tcp://host:8786'. Got {given!r} instead.",
        Hint("Pass {engine}, or leave it out to use this machine.", engine="tcp://127.0.0.1:8786"),
        parameter="engine",
        value=given,
    )


def _connected(address: str, timeout: float) -> Any:
    """A client of the scheduler at an address."""
    if "://" not in address:
        raise _not_an_engine(address)
    try:
        import distributed
    except ImportError:
        raise ParameterError(
            "The 'engine' needs Dask, which is not installed. From a clone of tdlg, run: pip install '.[dask]'.",
            parameter="engine",
            value=address,
        ) from None
    try:
        with _quiet():
            client: Any = distributed.Client
            return client(address, timeout=timeout, set_as_default=False)
    except ValueError as error:
        raise _not_an_engine(address) from error
    except OSError:
        raise ParameterError(
            f"No Dask scheduler answers at {address} within {timeout:g} seconds.",
            "Start one with `dask scheduler`, and use the address that it prints.",
            parameter="engine",
            value=address,
        ) from None


def _run(function: Callable[[Task], Result], versions: Versions, task: Task) -> Result:
    """Run a task on a worker, which may have joined after the others were checked."""
    problem = _mismatch(_versions(), versions)
    if problem:
        raise ClusterError(
            f"A worker that joined the cluster has other versions: {problem} on {platform.node()}.", SAME_EVERYWHERE
        )
    return function(task)


@cache
def _versions() -> Versions:
    """The versions of this process."""
    found: Versions = {"python": platform.python_version()}
    for name in (*SAME, "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _mismatch(its: Versions, ours: Versions) -> str:
    """The first package whose version differs, in words; empty if there is none."""
    for name in (*SAME, *SIMILAR):
        mine, other = (str(some.get(name) or "missing") for some in (ours, its))
        parts = None if name in SAME else 2
        if mine.split(".")[:parts] != other.split(".")[:parts]:
            return f"{name} is {mine} here and {other}"
    return ""


def _taken(ended: queue.SimpleQueue[Any]) -> list[Any]:
    """All that has ended by now; waits a moment for the first one."""
    done: list[Any] = []
    with suppress(queue.Empty):
        done.append(ended.get(timeout=PAUSE))
        while True:
            done.append(ended.get_nowait())
    return done


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of distributed: versions are compared by us, and a lost scheduler is an error of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
