"""One thread owns the live model: events and labels first, with one sync for all that wait, and questions between them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from tdlg.exceptions import TdlgError
from tdlg.live.explain import main_reason
from tdlg.live.log import StateError
from tdlg.serve.http import Limits
from tdlg.serve.reader import Reader

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel
    from tdlg.live.review import ChangeAnswer
    from tdlg.live.state import Answer, LabelAnswer

__all__ = ["BusyError", "StoppingError", "Worker"]

logger = logging.getLogger(__name__)

IDLE = 1.0  # seconds after which a worker without requests looks for a new model
SLICE = 0.003  # seconds of questions while events come; the question that is under way then is still finished
REST = 2.0  # how long questions then rest, in times of what they took: they would keep the event loop waiting too
LULL = 0.1  # seconds without events, after which questions need not rest

T = TypeVar("T")
Act = Callable[[list[Any]], Sequence[Any]]  # all items of neighbouring jobs to one answer per item


class BusyError(TdlgError):
    """So much is waiting that no more is accepted at the moment."""


class StoppingError(TdlgError):
    """The service is being stopped: what had been accepted is finished, and nothing new is accepted."""


@dataclass(eq=False, slots=True)
class Job:
    """What one request wants done, and where its answers are waited for."""

    act: Act
    items: Sequence[Any]
    answers: asyncio.Future[list[Any]]


class Worker:
    """Does the work of all requests on one thread.

    Events and labels that arrive while the thread is busy form the next turn, in the order in which they came. Neighbours of
    the same kind are one call of the live model, so they share one sync of the log, and their answers leave when that call
    returns. Between turns questions are answered, while events come for a third of the time at most. A question sees all
    that was answered before it was asked. The event loop fills the queues, the thread empties them. After each turn, and
    when nothing waits, the live model goes on with a snapshot or a new model.

    Parameters
    ----------
    live
        The live model. Between `start` and `stop` nobody else may use it.
    limits
        How many events may wait, and how many are taken in a turn.
    after
        Called on the event loop after each call of the live model, with the number of events and labels in it.
    apart
        Whether a process of its own finds reasons. By default the thread does it.
    """

    def __init__(
        self, live: LiveModel, limits: Limits, after: Callable[[int], object] = lambda n: None, *, apart: bool = False
    ) -> None:
        self._live, self._limits, self._after = live, limits, after
        self.reader = Reader(limits.questions) if apart else None
        self.is_positive = live.is_positive
        self._jobs: deque[Job] = deque()  # events and labels
        self._questions: deque[Job] = deque()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tdlg-live", daemon=True)
        self._stopping, self._trouble = False, ""
        self._busy_until = self._resting_until = 0.0
        self.waiting = 0
        self.sequence = live.sequence

    # ---- on the event loop

    async def submit(self, events: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Log, score and learn events."""
        return await self._done(self._live.submit, events)

    async def label(self, labels: Sequence[Mapping[str, Any]]) -> list[LabelAnswer]:
        """Log and learn labels."""
        return await self._done(self._live.label, labels)

    async def withdraw(self, withdrawals: Sequence[Mapping[str, Any]]) -> list[LabelAnswer]:
        """Log withdrawals of events, and learn them."""
        return await self._done(self._withdraw, withdrawals)

    def _withdraw(self, withdrawals: Sequence[Mapping[str, Any]]) -> list[LabelAnswer]:
        return self._live.withdraw([one["id"] for one in withdrawals])

    async def decide(self, changes: Sequence[Mapping[str, Any]], by: str) -> list[ChangeAnswer]:
        """Log and learn what a reviewer did with alerts."""
        return await self._done(partial(self._live.decide, by=by), changes)

    async def act(self, action: Mapping[str, Any], by: str) -> None:
        """Log and learn another action of a reviewer."""
        await self._done(lambda actions: [self._live.act(action, by) for action in actions], [action])

    async def ask(self, question: Callable[[LiveModel], T]) -> T:
        """Answer a question about the live model. Questions wait for their turn, and are never refused for others."""
        (answer,) = await self._enqueued(self._questions, lambda questions: [questions[0](self._live)], [question])
        return answer

    async def explain(self, id: Any, top: int) -> dict[str, Any]:
        """The reasons for a score; see `LiveModel.explain`."""
        if self.reader is None or not self.reader.is_ready:
            return await self.ask(lambda live: live.explain(id, top=top))
        self.reader.check()
        found: dict[str, Any] = await self.reader.answer(await self.ask(lambda live: live.question(id, top)))
        return found

    async def reason(self, id: Any) -> str:
        """The main reason for an alert; see `LiveModel.reason`."""
        if self.reader is None or not self.reader.is_ready:
            return await self.ask(lambda live: live.reason(id))
        reason = main_reason(await self.explain(id, 3))
        await self.ask(lambda live: live.keep_reason(id, reason))
        return reason

    async def _done(self, act: Act, items: Sequence[Any]) -> list[Any]:
        if not items:
            return []
        if self.waiting + len(items) > self._limits.queue:
            raise BusyError(
                f"{self.waiting} events are waiting, of at most {self._limits.queue}. Send this again later."
            )
        self.waiting += len(items)
        return await self._enqueued(self._jobs, act, items)

    async def _enqueued(self, jobs: deque[Job], act: Act, items: Sequence[Any]) -> list[Any]:
        if self._stopping:
            raise StoppingError("The service is being stopped. Send this again when it is back.")
        job = Job(act, items, self.loop.create_future())
        jobs.append(job)
        self.loop.call_soon(self._wake.set)  # not at once, so that requests which were read together are one turn
        return await job.answers

    def start(self) -> None:
        """Begin, on the running event loop."""
        self.loop = asyncio.get_running_loop()
        self._thread.start()
        if self.reader is not None:
            self._preparing = asyncio.create_task(self._prepare(self.reader))

    async def _prepare(self, reader: Reader) -> None:
        """Let the reader load the model. Until then the thread finds the reasons, and for ever if this fails."""
        try:
            await reader.answer(await self.ask(lambda live: live.question(None)))
            reader.is_ready = True
        except Exception as error:
            if not self._stopping:
                logger.warning("No process of its own finds reasons, so that scores wait for them: %s", error)

    async def stop(self) -> None:
        """Refuse what is new, finish all that waits, and end the thread."""
        self._stopping = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join)
        if self.reader is not None:
            await self.reader.close()

    def _settle(self, jobs: Sequence[Job], outcomes: list[list[Any] | Exception], n: int, sequence: int) -> None:
        self.waiting -= n
        self.sequence = sequence
        for job, outcome in zip(jobs, outcomes, strict=True):
            if job.answers.done():  # cancelled: its client is gone
                continue
            if isinstance(outcome, Exception):
                job.answers.set_exception(outcome)
            else:
                job.answers.set_result(outcome)
        self._after(n)

    # ---- on the thread

    def _run(self) -> None:
        stopping = has_more = False
        self._live.in_steps = True  # snapshots are written between events
        while not stopping:
            self._wake.wait(self._pause(has_more))
            self._wake.clear()
            stopping = self._stopping  # nothing is appended once this is true
            while self._jobs or (self._questions and (stopping or perf_counter() >= self._resting_until)):
                if self._jobs:
                    self._busy_until = perf_counter() + LULL
                    for _, same in groupby(self._taken(), lambda job: job.act):
                        self._do(list(same), is_counted=True)
                self._answer_questions()
                self._work()
            has_more = not stopping and self._work()

    def _pause(self, has_more: bool) -> float:
        """Seconds until the thread goes on although nothing has arrived."""
        pause = SLICE if has_more else IDLE
        return min(pause, max(0.0, self._resting_until - perf_counter())) if self._questions else pause

    def _taken(self) -> list[Job]:
        """All events and labels that wait, up to the limit of a turn but at least one job."""
        taken: list[Job] = []
        n = 0
        while self._jobs and (not taken or n + len(self._jobs[0].items) <= self._limits.batch):
            taken.append(self._jobs.popleft())
            n += len(taken[-1].items)
        return taken

    def _answer_questions(self) -> None:
        """Answer questions: all that wait, but while events come at least one in a slice, after which they rest."""
        start = perf_counter()
        if start < self._resting_until and not self._stopping:
            return
        while self._questions:
            self._do([self._questions.popleft()], is_counted=False)
            now = perf_counter()
            if (self._jobs or now < self._busy_until) and now >= start + SLICE:
                self._resting_until = now + REST * (now - start)
                return

    def _work(self) -> bool:
        """Let the live model go on with snapshots and new models; an error of that must not end the thread."""
        try:
            has_more, self._trouble = self._live.work(0.0), ""
        except BaseException as error:
            has_more, trouble = False, repr(error)
            if trouble != self._trouble:  # which comes again and again
                logger.exception("The live model could not go on with a snapshot or a new model.")
            self._trouble = trouble
        return has_more

    def _do(self, jobs: Sequence[Job], is_counted: bool) -> None:
        """Do jobs of one kind, and let their answers leave."""
        outcomes = _outcomes(jobs)
        n = sum(len(job.items) for job in jobs) if is_counted else 0
        self.loop.call_soon_threadsafe(self._settle, jobs, outcomes, n, self._live.sequence)


def _outcomes(jobs: Sequence[Job]) -> list[list[Any] | Exception]:
    """The answers of each job, or its error. An error of the log is that of all jobs, any other is that of one of them."""
    try:
        answers = iter(jobs[0].act([item for job in jobs for item in job.items]))
        return [list(islice(answers, len(job.items))) for job in jobs]
    except StateError as error:
        return [error] * len(jobs)
    except BaseException as error:  # such as a panic of polars: the thread must go on
        if len(jobs) > 1:
            return [outcome for job in jobs for outcome in _outcomes([job])]
        return [error if isinstance(error, Exception) else RuntimeError(repr(error))]
