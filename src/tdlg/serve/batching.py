"""One thread owns the live model: events that wait for it are taken together, with one sync of the log per turn."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from tdlg.exceptions import TdlgError
from tdlg.live.log import StateError
from tdlg.serve.limits import Limits

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel
    from tdlg.live.state import Answer, LabelAnswer

__all__ = ["BusyError", "StoppingError", "Worker"]

QUESTIONS = 4  # that are answered in one turn

T = TypeVar("T")


class BusyError(TdlgError):
    """So much is waiting that no more is accepted at the moment."""


class StoppingError(TdlgError):
    """The service is being stopped: what had been accepted is finished, and nothing new is accepted."""


@dataclass(eq=False, slots=True)
class Job:
    """What one request wants done.

    Attributes
    ----------
    act
        What is done: a function of all items of neighbouring jobs that gives one answer per item.
    items
        The items of this job.
    answers
        Where its answers are waited for.
    """

    act: Callable[[list[Any]], Sequence[Any]]
    items: Sequence[Any]
    answers: asyncio.Future[list[Any]]


class Worker:
    """Does the work of all requests on one thread.

    Events and labels that arrive while the thread is busy form the next turn, in the order in which they came. Neighbours of
    the same kind are one call of the live model, so that they share one sync of the log. Between two such turns a few
    questions are answered, so that neither waits long for the other; a question sees all that was answered before it came.
    Everything but the work itself happens on the event loop, so there are no locks.

    Parameters
    ----------
    live
        The live model. Between `start` and `stop` nobody else may use it.
    limits
        How many events may wait, and how many are taken in a turn.
    after
        Called on the event loop after each turn, with the number of events and labels in it.
    """

    def __init__(self, live: LiveModel, limits: Limits, after: Callable[[int], object] = lambda n: None) -> None:
        self._live = live
        self._limits = limits
        self._after = after
        self._jobs: deque[Job] = deque()  # events and labels
        self._questions: deque[Job] = deque()
        self._are_questions_next = False
        self._turns: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tdlg-live", daemon=True)
        self._stopping = False
        self.waiting = 0
        self.sequence = live.sequence

    # ---- what requests call

    async def submit(self, events: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Log, score and learn events."""
        return await self._done(self._live.submit, events)

    async def label(self, labels: Sequence[Mapping[str, Any]]) -> list[LabelAnswer]:
        """Log and learn labels."""
        return await self._done(self._live.label, labels)

    async def ask(self, question: Callable[[LiveModel], T]) -> T:
        """Answer a question about the live model. Questions wait for their turn, and are never refused for others."""
        (answer,) = await self._enqueued(self._questions, Job(self._answer, [question], self.loop.create_future()))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _done(self, act: Callable[[list[Any]], Sequence[Any]], items: Sequence[Any]) -> list[Any]:
        if not items:
            return []
        if self.waiting + len(items) > self._limits.queue:
            raise BusyError(
                f"{self.waiting} events are waiting, of at most {self._limits.queue}. Send this again later."
            )
        self.waiting += len(items)
        return await self._enqueued(self._jobs, Job(act, items, self.loop.create_future()))

    async def _enqueued(self, jobs: deque[Job], job: Job) -> list[Any]:
        if self._stopping:
            raise StoppingError("The service is being stopped. Send this again when it is back.")
        jobs.append(job)
        if self._idle.is_set():
            self._idle.clear()
            self.loop.call_soon(self._begin_turn)  # so that requests which were read together are one turn
        return await job.answers

    # ---- turns, on the event loop

    def start(self) -> None:
        """Begin, on the running event loop."""
        self.loop = asyncio.get_running_loop()
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread.start()

    async def stop(self) -> None:
        """Refuse what is new, finish all that waits, and end the thread."""
        self._stopping = True
        await self._idle.wait()
        self._turns.put(None)
        await asyncio.to_thread(self._thread.join)

    def _begin_turn(self) -> None:
        if self._questions and (self._are_questions_next or not self._jobs):
            turn = [self._questions.popleft() for _ in range(min(QUESTIONS, len(self._questions)))]
            self._are_questions_next = False
        else:
            turn = list(self._taken())
            self._are_questions_next = True
        self._turns.put(turn)

    def _taken(self) -> Iterator[Job]:
        """All events and labels that wait, up to the limit of a turn but at least one job."""
        n = 0
        while self._jobs and (n == 0 or n + len(self._jobs[0].items) <= self._limits.batch):
            n += len(self._jobs[0].items)
            yield self._jobs.popleft()

    def _end_turn(self, jobs: list[Job], outcomes: list[list[Any] | Exception], sequence: int) -> None:
        n = sum(len(job.items) for job in jobs if job.act != self._answer)
        self.waiting -= n
        self.sequence = sequence
        for job, outcome in zip(jobs, outcomes, strict=True):
            if not job.answers.done():  # cancelled: its client is gone
                _settle(job.answers, outcome)
        self._after(n)
        if self._jobs or self._questions:
            self._begin_turn()
        else:
            self._are_questions_next = False
            self._idle.set()

    # ---- the thread

    def _run(self) -> None:
        while (jobs := self._turns.get()) is not None:
            outcomes = [outcome for act, same in groupby(jobs, lambda job: job.act) for outcome in _together(act, same)]
            self.loop.call_soon_threadsafe(self._end_turn, jobs, outcomes, self._live.sequence)

    def _answer(self, questions: list[Callable[[LiveModel], Any]]) -> list[Any]:
        answers: list[Any] = []
        for question in questions:
            try:
                answers.append(question(self._live))
            except Exception as error:
                answers.append(error)
        return answers


def _together(act: Callable[[list[Any]], Sequence[Any]], jobs: Iterable[Job]) -> list[list[Any] | Exception]:
    """The answers of each job, or its error. An error of the log is that of all jobs, any other is that of one of them."""
    jobs = list(jobs)
    try:
        answers = iter(act([item for job in jobs for item in job.items]))
        return [list(islice(answers, len(job.items))) for job in jobs]
    except StateError as error:
        return [error] * len(jobs)
    except Exception as error:
        return [error] if len(jobs) == 1 else [outcome for job in jobs for outcome in _together(act, [job])]


def _settle(answers: asyncio.Future[list[Any]], outcome: list[Any] | Exception) -> None:
    if isinstance(outcome, Exception):
        answers.set_exception(outcome)
    else:
        answers.set_result(outcome)
