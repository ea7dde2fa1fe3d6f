"""What runs tasks: threads, any executor of `concurrent.futures`, or the workers of a Dask cluster.

A task is a frozen dataclass of plain data, and the function is one of a module. It may run in any order, in any process that
sees the files, and more than once: what it writes is the same each time, and appears when it is complete. Workers exchange
nothing but files, so a lost worker costs only the tasks that it was running.
"""

from __future__ import annotations

import logging
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import metadata
from typing import Any, NamedTuple, TypeVar

from tdlg.engines.files import exists
from tdlg.exceptions import ClusterError, ParameterError
from tdlg.memory import default_threads

Task = TypeVar("Task")
Result = TypeVar("Result")
Callback = Callable[[int, int], object]

# The keys of text come from the hash of polars, which another version may compute differently; tasks are objects of tdlg,
# and are sent by distributed. Of Python and numpy, the first two parts decide whether objects can be exchanged.
COMPARED_PARTS = {"tdlg": None, "polars": None, "distributed": None, "python": 2, "numpy": 2}
SAME_EVERYWHERE = (
    "Install the same versions of tdlg, polars and distributed, and the same minor versions of Python and numpy, on the "
    "client, the scheduler and all workers; the easiest way is one container image or one lock file."
)
TIMEOUT = 30.0  # seconds to reach the scheduler and a first worker
PAUSE = 0.2  # seconds between two looks at the tasks while nothing ends
PATIENCE = 300  # looks without any worker, after which the work is given up
IN_FLIGHT = 8  # tasks per thread that are handed to the executor at once


class Workers(NamedTuple):
    """What an executor has: all threads, and the threads and the memory of one process; None where it has no limit."""

    n_threads: int
    threads_each: int
    memory: int | None = None
    is_cluster: bool = False


@contextmanager
def opened_engine(engine: Executor | str | None, n_threads: int | None = None) -> Iterator[Executor]:
    """The executor that a user asked for: threads for None, the workers of the scheduler at an address, or the one given."""
    if engine is None:
        with ThreadPoolExecutor(n_threads or default_threads()) as threads:
            yield threads
    elif isinstance(engine, str):
        loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "batched", "core", "comm")]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)  # a lost connection is an error of ours
        client = None
        try:
            client = _connected(engine)
            yield _checked_cluster(client)
        finally:
            if client is not None:
                with _without_warnings():
                    client.close(timeout=2)
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
    elif isinstance(engine, Executor):
        client = _client_of(engine)
        yield engine if client is None else _checked_cluster(client)
    else:
        raise _not_an_engine(engine)


def run_all(
    executor: Executor,
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    callback: Callback | None = None,
    *,
    at_once: int | None = None,
) -> list[Result]:
    """Run the function on all tasks, a bounded number at once, and give the results in the order of the tasks.

    The callback is called with the numbers of finished and of all tasks. If it or a task raises, or on Ctrl-C, no further
    task is started, and those that this machine is running are waited for. With `at_once`, as many tasks run in a process
    at most; on a cluster, on average.
    """
    client = _client_of(executor)
    workers = _workers(client, executor) or Workers(1, 1)  # of a cluster whose workers are all away, for a while
    run: Callable[[Task], Result] = function if client is None else partial(_run_on_worker, function, _versions())
    most = IN_FLIGHT * workers.n_threads
    if at_once is not None and at_once < workers.threads_each:
        most = max(at_once * workers.n_threads // workers.threads_each, 1)
    results: dict[int, Result] = {}
    running: dict[Future[Result], int] = {}
    n_looks = n_submitted = 0
    with _explained(client, function):
        try:
            while len(results) < len(tasks):
                while n_submitted < len(tasks) and len(running) < most:
                    running[executor.submit(run, tasks[n_submitted])] = n_submitted
                    n_submitted += 1
                done = wait(running, timeout=PAUSE, return_when=FIRST_COMPLETED)[0]
                results |= {running.pop(future): future.result() for future in done}
                n_looks = n_looks + 1 if client is not None and not done and not _has_workers(client) else 0
                if n_looks == PATIENCE:
                    raise _no_workers(client)
                if callback is not None:
                    callback(len(results), len(tasks))
        except BaseException:
            with _without_warnings():
                for future in running:
                    future.cancel()
                if client is None:
                    wait(running)  # they write files that are removed next
            raise
    return [results[k] for k in range(len(tasks))]


def workers_of(executor: Executor) -> Workers:
    """How many tasks run at once, and in how much memory."""
    client = _client_of(executor)
    found = _workers(client, executor)
    if found is None:
        raise _no_workers(client)
    return found


def _workers(client: Any, executor: Executor) -> Workers | None:
    if client is None:
        n_threads = int(getattr(executor, "_max_workers", 0)) or default_threads()
        return Workers(n_threads, n_threads)
    with _explained(client):
        found = list(client.scheduler_info(n_workers=-1)["workers"].values())
    if not found:
        return None
    threads = [worker["nthreads"] for worker in found]
    limit = min((worker["memory_limit"] for worker in found if worker["memory_limit"]), default=None)
    return Workers(sum(threads), max(threads), limit, is_cluster=True)


def check_sees(executor: Executor, path: str) -> None:
    """Refuse a file or a folder that a worker of a cluster does not see."""
    client = _client_of(executor)
    if client is None:
        return
    with _explained(client, exists):
        seen = client.run(exists, path)
    blind = [address for address, is_there in seen.items() if not is_there]
    if blind:
        raise ParameterError(
            f"{path}: {len(blind)} of {len(seen)} workers of the cluster at {_address_of(client)} do not see it, for "
            f"example {blind[0]}. All files must be on a path or a store that all machines see.",
            parameter="engine",
        )


# ---- Dask


def _client_of(executor: Executor) -> Any:
    """The client of an executor that `distributed.Client.get_executor` made; None for any other."""
    return getattr(executor, "_client", None)


def _address_of(client: Any) -> str:
    return str(client.scheduler.address)


def _connected(address: str) -> Any:
    """A client of the scheduler at an address."""
    if "://" not in address:
        raise _not_an_engine(address)
    try:
        import distributed
    except ImportError:
        raise ParameterError(
            "The 'engine' needs Dask, which is not installed. From a clone of tdlg, run: pip install '.[dask]'.",
            parameter="engine",
        ) from None
    try:
        with _without_warnings():
            client: Any = distributed.Client
            return client(address, timeout=TIMEOUT, set_as_default=False)
    except ValueError as error:
        raise _not_an_engine(address) from error
    except OSError:
        raise ParameterError(
            f"No Dask scheduler answers at {address} within {TIMEOUT:g} seconds.",
            "Start one with 'dask scheduler', and use the address that it prints.",
            parameter="engine",
        ) from None


def _not_an_engine(given: Any) -> ParameterError:
    return ParameterError(
        "The 'engine' must be the address of a Dask scheduler, such as 'tcp://host:8786', or an executor of "
        f"concurrent.futures. Got {given!r} instead.",
        "Pass engine='tcp://127.0.0.1:8786', or leave it out to use this machine.",
        parameter="engine",
    )


def _checked_cluster(client: Any) -> Executor:
    """The executor of a cluster that has workers, and whose scheduler and workers have the versions of this process."""
    with _explained(client), _without_warnings():
        try:
            client.wait_for_workers(1, timeout=TIMEOUT)
        except TimeoutError:
            raise _no_workers(client) from None
        found = client.get_versions(check=False, packages=list(COMPARED_PARTS))
    machines = {"the scheduler": found["scheduler"], **{f"worker {k}": v for k, v in found["workers"].items()}}
    for name, its in machines.items():
        _check_versions(
            {**its["packages"], "python": its["host"]["python"]},
            _versions(),
            f"The cluster at {_address_of(client)} has other versions: {{}} on {name}.",
        )
    executor: Executor = client.get_executor(pure=False)  # a task that was run before is run again
    return executor


def _run_on_worker(function: Callable[[Task], Result], versions: Mapping[str, Any], task: Task) -> Result:
    """Run a task on a worker, which may have joined after the others were checked."""
    joined = f"A worker that joined the cluster has other versions: {{}} on {platform.node()}."
    _check_versions(_versions(), versions, joined)
    return function(task)


@cache
def _versions() -> Mapping[str, Any]:
    """The versions of this process."""
    found: dict[str, Any] = {"python": platform.python_version()}
    for name in COMPARED_PARTS.keys() - found.keys():
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _check_versions(its: Mapping[str, Any], ours: Mapping[str, Any], problem: str) -> None:
    for name, n_parts in COMPARED_PARTS.items():
        mine, other = (str(some.get(name) or "missing") for some in (ours, its))
        if mine.split(".")[:n_parts] != other.split(".")[:n_parts]:
            raise ClusterError(problem.format(f"{name} is {mine} here and {other}"), SAME_EVERYWHERE)


def _has_workers(client: Any) -> bool:
    """Whether there is a worker; True if the scheduler is being lost, which the futures say."""
    try:
        return bool(client.nthreads())
    except (OSError, ValueError):
        return True


def _no_workers(client: Any) -> ClusterError:
    hint = f"Start some with: dask worker {_address_of(client)} --nthreads 1"
    return ClusterError(f"The cluster at {_address_of(client)} has no workers.", hint)


@contextmanager
def _explained(client: Any, function: Any = None) -> Iterator[None]:
    """Errors of a cluster, in words."""
    if client is None:
        yield
        return
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"A task ({function.__name__}) failed because {error.allowed_failures + 1} workers died while they ran it, "
            f"the last one at {error.last_worker.address}. Most probably the memory was not enough.",
            "Give each worker more memory or one thread, or let fewer tasks run at once with memory='2GB'.",
        ) from None
    except (CancelledError, FutureCancelledError, CommClosedError):
        raise ClusterError(
            f"The connection to the scheduler at {_address_of(client)} was lost.",
            "Start the cluster again, and run again.",
        ) from None


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without warnings of distributed: versions are compared by us, and a lost scheduler is an error of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
