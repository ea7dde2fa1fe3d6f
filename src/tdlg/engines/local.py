"""Local: the engine of one machine, which runs tasks in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar

from tdlg.linegraph.product import default_threads

__all__ = ["Callback", "Engine", "Local"]

Task = TypeVar("Task")
Result = TypeVar("Result")
Callback = Callable[[int, int], object]


class Engine(Protocol):
    """What runs tasks.

    A task is plain data that can be pickled, and the function is one of a module. It may run in any order, in any process
    that sees the files, and more than once: what it writes is the same each time, and appears when it is complete.
    """

    @property
    def n_threads(self) -> int:
        """How many tasks run at once."""

    def map(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], callback: Callback | None = None
    ) -> list[Result]:
        """Run the function on all tasks, and give the results in their order.

        Parameters
        ----------
        function, tasks
            The function and what it is called with.
        callback
            Called with the numbers of finished and of all tasks. What it raises stops the work.
        """

    def check_sees(self, path: str) -> None:
        """Refuse a file or a folder that cannot be seen from where tasks are run."""


class Local:
    """Tasks in threads: the kernels and numpy release the interpreter's lock.

    Parameters
    ----------
    n_threads
        Number of threads. By default all cores are used.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or default_threads()

    def map(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], callback: Callback | None = None
    ) -> list[Result]:
        """Run the function on all tasks; see `Engine`. After an error no further task is started."""
        with ThreadPoolExecutor(self.n_threads) as pool:
            running: list[Future[Any]] = [pool.submit(function, task) for task in tasks]
            try:
                left = set(running)
                while left:
                    done, left = wait(left, timeout=0.2, return_when=FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    if callback is not None:
                        callback(len(tasks) - len(left), len(tasks))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return [future.result() for future in running]

    def check_sees(self, path: str) -> None:
        """Tasks see all that this process sees."""
