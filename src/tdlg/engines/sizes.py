"""How large blocks, buckets and samples may be within a limit of memory, and what temporary files take."""

from __future__ import annotations

import math
import re
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from tdlg.engines.executors import workers_of
from tdlg.exceptions import ParameterError, TooLargeError
from tdlg.memory import free_bytes

__all__ = [
    "LEAST_MEMORY",
    "MOST_DISK",
    "MOST_ROWS",
    "SCORED_BYTES",
    "SMALL",
    "TRAINING_BYTES",
    "OnDisk",
    "Sizes",
    "as_bytes",
    "in_bytes",
    "record_memory",
]

BASE = 420_000_000  # bytes of the interpreter with all libraries, and what it keeps
LEAST_MEMORY = 1_000_000_000
MOST_DISK = 200  # bytes of temporary files per edge
SMALL = 1_000_000  # edges: smaller files may take more temporary files per edge
MOST_ROWS = 1_000_000  # rows to learn from
LEAST_ROWS = 300_000  # to learn from, if there are as many, even if their files take more than 200 bytes per edge
MOST_ROUNDS = 10  # in which rows are scored; each reads all buckets
ROW_BYTES, FEATURE_BYTES = (
    500,
    60,
)  # memory per row of a block while it is sorted into buckets, and per feature of a row
EVENT_BYTES = 130  # memory per record of a bucket for sorting, in addition to the record and what is summed
TRAINING_BYTES = 40  # memory per value of a training row
SCORED_BYTES = 28  # memory per value of a row to score
MOST_BLOCK, LEAST_BLOCK = 500_000, 10_000  # rows
MOST_SCORED = 250_000  # rows that are scored at once
MOST_BUCKET = 500_000  # records of a bucket: more would leave the caches
MOST_SHARED = 4_000_000  # rows of a block and records of a bucket on a cluster: its scheduler needs 1 ms per task
FREE_SHARE = 0.6  # of the free memory that is used by default
SHARES = 4  # tasks per thread of a cluster: a lost one costs little, and slow ones are made up for
UNEVEN = 0.6  # share of the memory that an average bucket takes: some are larger
ALONE = 0.7  # share of the memory that a bucket may need by estimate, if nothing runs beside it
LIMIT_STEP = 100_000_000  # bytes to which a limit of memory that is suggested is rounded up
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def as_bytes(memory: Any) -> int:
    """A size such as "2GB", "512 MiB" or a number of bytes.

    Examples
    --------
    >>> as_bytes("2GB"), as_bytes("1.5 GiB"), as_bytes(3_000_000_000)
    (2000000000, 1610612736, 3000000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?i?)b?\s*", str(memory).lower())
    n_bytes = int(float(found[1]) * UNITS[found[2]]) if found and found[2] in UNITS else -1
    if n_bytes < LEAST_MEMORY:
        raise ParameterError(
            f"The 'memory' must be a size of at least {in_bytes(LEAST_MEMORY)}, such as '2GB'. Got {memory!r} instead.",
            "Pass memory='2GB'.",
            parameter="memory",
        )
    return n_bytes


def in_bytes(number: float) -> str:
    """A number of bytes as text, for example "3.5 GB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


@dataclass(frozen=True)
class Sizes:
    """What fits into a limit of memory.

    Attributes
    ----------
    memory
        The limit, in bytes.
    n_threads
        The number of tasks that run at once within this memory.
    n_shares, n_rows
        Into how many tasks the rows of the table are divided at least, so that all workers of a cluster have some; and the
        number of rows. By default the memory alone decides.
    n_features
        The number of features of a row.
    """

    memory: int
    n_threads: int
    n_shares: int = 1
    n_rows: int = 0
    n_features: int = 0

    @classmethod
    def of(cls, engine: Executor, memory: Any, n_rows: int, n_features: int = 0) -> Self:
        """What fits into the memory of an engine: of this process, or of each worker of a cluster.

        Parameters
        ----------
        engine
            What runs the tasks.
        memory
            The limit of a process, such as "2GB". By default 60 % of the free memory, or of the limit of a worker.
        n_rows, n_features
            The numbers of rows and of features of the table.
        """
        given = None if memory is None else as_bytes(memory)
        workers = workers_of(engine)
        limit = given or _default_limit(workers.memory or free_bytes(), is_worker=bool(workers.memory))
        if not workers.is_cluster:
            return cls(limit, workers.n_threads, n_features=n_features)
        return cls(limit, workers.threads_each, SHARES * workers.n_threads, n_rows, n_features)

    @property
    def per_task(self) -> float:
        """Bytes for one of the tasks that run at once."""
        return (self.memory - BASE) / self.n_threads

    @property
    def alone(self) -> float:
        """Bytes that a bucket may need by estimate, if nothing runs beside it."""
        return ALONE * (self.memory - BASE)

    def with_alone(self, n_bytes: float) -> Self:
        """The same with a limit of memory, rounded up, in which a bucket may need this number of bytes."""
        return replace(self, memory=math.ceil((n_bytes / ALONE + BASE) / LIMIT_STEP) * LIMIT_STEP)

    @property
    def row_bytes(self) -> int:
        """Bytes of memory per row of a block of the input."""
        return ROW_BYTES + FEATURE_BYTES * self.n_features

    @property
    def block(self) -> int:
        """Rows of a block of the input."""
        most = MOST_BLOCK if self.n_shares == 1 else MOST_SHARED
        return int(min(max(min(self.per_task / self.row_bytes, self._share(self.n_rows)), LEAST_BLOCK), most))

    def bucket(self, n_bytes: float) -> int:
        """Records of an average bucket, if each takes this number of bytes of memory."""
        return int(min(UNEVEN * self.per_task / n_bytes, MOST_BUCKET if self.n_shares == 1 else MOST_SHARED))

    def n_buckets(self, n_rows: int, n_bytes: float) -> int:
        """The number of buckets, on a cluster several per thread."""
        return min(max(math.ceil(n_rows / self.bucket(n_bytes)), self.n_shares), 1 << 16)

    def training_rows(self, n_columns: int) -> int:
        """Rows to learn from, at most."""
        return int(min(MOST_ROWS, (self.memory - BASE) / (TRAINING_BYTES * n_columns)))

    def scored_rows(self, n_columns: int, n_rows: int) -> int:
        """Rows that are scored at once, of this number of rows to score."""
        return max(int(min(self.per_task / (SCORED_BYTES * n_columns), self._share(n_rows), MOST_SCORED)), 1000)

    def _share(self, n_rows: int) -> float:
        """The rows of one share."""
        return math.inf if self.n_shares == 1 else math.ceil(n_rows / self.n_shares)


class OnDisk(NamedTuple):
    """Rows whose columns are in temporary files.

    Attributes
    ----------
    sampled, scored
        The numbers of rows to learn from, and of rows to score that have columns at once.
    n_bytes
        The size of all temporary files, at most.
    """

    sampled: int
    scored: int
    n_bytes: int

    @classmethod
    def of(
        cls, n_rows: int, n_missing: int, n_learnt: int, kept: int, row: int, scores: int, training_rows: int
    ) -> Self:
        """At most 200 bytes per edge; small files may have more, and so may those with many columns.

        Parameters
        ----------
        n_rows, n_missing, n_learnt
            The numbers of rows of the table, of rows to score and of rows that can be learnt from.
        kept
            The bytes of the bucket files.
        row, scores
            The bytes of the columns of a row, and of its scores.
        training_rows
            The rows to learn from, at most.
        """
        left = MOST_DISK * max(n_rows, SMALL) - kept - n_missing * scores
        sampled = int(min(n_learnt, training_rows, max(left / 2 / row, LEAST_ROWS)))
        scored = math.ceil(min(n_missing, max(left / row - sampled, n_missing / MOST_ROUNDS)))
        return cls(sampled, scored, kept + n_missing * scores + (sampled + scored) * row)


def _default_limit(available: int, *, is_worker: bool = False) -> int:
    """A share of the free memory, or of the memory of a worker; less than a minimum is refused."""
    if available < LEAST_MEMORY:
        what = "The smallest worker of the cluster has" if is_worker else "Only"
        hint = "Start the workers with '--memory-limit 2GB'." if is_worker else "End other programs."
        raise TooLargeError(
            f"{what} {in_bytes(available)} of memory{'' if is_worker else ' are free'}, and at least "
            f"{in_bytes(LEAST_MEMORY)} are needed.",
            hint,
        )
    return int(FREE_SHARE * available)


def record_memory(n_bytes: int, n_values: int, n_widths: int, n_columns: int, share: float) -> float:
    """Memory per record of a bucket while its columns are made.

    Parameters
    ----------
    n_bytes
        Bytes of the record.
    n_values
        How many values are summed.
    n_widths, n_columns
        The numbers of scales and of columns of a match.
    share
        The share of the records that get columns.
    """
    per_row = 8 * n_widths * n_values + 3 * 8 * n_columns
    return 2 * n_bytes + EVENT_BYTES + 2 * 8 * n_values + share * per_row
