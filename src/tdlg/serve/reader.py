"""A process of its own that finds reasons, so that scores do not wait for them."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections import deque
from contextlib import suppress
from typing import Any

from tdlg.exceptions import TdlgError

__all__ = ["Reader", "ReaderError"]

COMMAND = "from tdlg.live.explain import answer_questions; answer_questions()"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
ATTEMPTS = 2


class ReaderError(TdlgError):
    """A reason cannot be found now: too many are asked for, or the process that finds them has ended."""


class Reader:
    """Answers questions of `LiveModel.question` one after the other, at most so many at a time.

    It knows the model alone: each question brings what is around its event, as it was when its turn came. If the process
    ends, another one gets the questions that it had.
    """

    def __init__(self, most: int) -> None:
        self._most, self.n_waiting, self.is_ready = most, 0, False
        self._asked: deque[asyncio.Future[Any]] = deque()
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._listening: asyncio.Task[None] | None = None
        self._is_closed = False

    def check(self) -> None:
        """Refuse a question if too many wait."""
        if self.n_waiting >= self._most:
            raise ReaderError(f"{self.n_waiting} questions are waiting, which is the most. Ask this again later.")

    async def answer(self, question: Any) -> Any:
        """The answer to a question; None for the question None, which makes the model ready."""
        self.check()
        data = pickle.dumps(question, pickle.HIGHEST_PROTOCOL)
        self.n_waiting += 1
        try:
            for _ in range(ATTEMPTS):
                with suppress(ConnectionError):
                    answer = await self._answer(len(data).to_bytes(8, "big") + data)
                    if isinstance(answer, Exception):
                        raise answer
                    return answer
        finally:
            self.n_waiting -= 1
        raise ReaderError("The process that finds reasons has ended. Ask this again later.")

    async def _answer(self, data: bytes) -> Any:
        async with self._starting:
            if self._process is None or self._process.returncode is not None or self._listening is None:
                await self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.append(found)
        self._process.stdin.write(data)
        return await asyncio.shield(found)  # who leaves does not take the place of an answer

    async def _start(self) -> None:
        if self._is_closed:
            raise ReaderError("The service is being stopped.")
        apart: Any = {"process_group": 0} if os.name == "posix" else {}  # it ends with its input, and not with Ctrl-C
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", COMMAND),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                **apart,
            )
        except OSError as error:
            raise ReaderError(f"The process that finds reasons cannot be started: {error.strerror}.") from error
        self._listening = asyncio.create_task(self._listen(self._process))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Pass answers on, which come in the order of the questions."""
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await process.stdout.readexactly(8)
                answer = pickle.loads(await process.stdout.readexactly(int.from_bytes(head, "big")))
                self._settle(answer)
        self._listening = None
        while self._asked:
            self._settle(ConnectionError())

    def _settle(self, answer: Any) -> None:
        found = self._asked.popleft()
        if not found.done():
            if isinstance(answer, ConnectionError):
                found.set_exception(answer)
            else:
                found.set_result(answer)

    async def close(self) -> None:
        """End the process."""
        self._is_closed = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
