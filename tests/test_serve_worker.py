"""One thread owns the live model: events and labels first, one sync per turn, questions in slices between them."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from fake_live import FakeLive
from serving import event, working
from tdlg.exceptions import ParameterError
from tdlg.live.log import LogError
from tdlg.serve.http import Limits
from tdlg.serve.worker import LULL, SLICE, BusyError, StoppingError, Worker


@pytest.fixture
def live():
    return FakeLive()


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless it is moved, where questions need no rest."""
    found = SimpleNamespace(now=0.0)
    monkeypatch.setattr("tdlg.serve.worker.REST", 0.0)
    monkeypatch.setattr("tdlg.serve.worker.perf_counter", lambda: found.now)
    return found


def arrive(worker, event):
    """Let an event come while the thread of the worker, which calls this, is busy."""
    asyncio.run_coroutine_threadsafe(worker.submit([event]), worker.loop)
    while not worker._jobs:
        time.sleep(0.0005)


class TestWorker:
    def test_requests_that_wait_are_one_turn(self, live):
        live.delay = 0.05

        async def test(worker):
            return await asyncio.gather(*(worker.submit([event(k)]) for k in range(40)))

        answers = working(live, test)
        assert [answer.id for (answer,) in answers] == list(range(40))
        assert live.batches == [40]  # all came before the first turn began

    def test_while_the_thread_is_busy_requests_gather(self, live):
        live.delay = 0.1

        async def test(worker):
            first = asyncio.create_task(worker.submit([event(0)]))
            await asyncio.sleep(0.03)  # the first turn runs now
            rest = [asyncio.create_task(worker.submit([event(k)])) for k in range(1, 30)]
            await asyncio.gather(first, *rest)

        working(live, test)
        assert live.batches == [1, 29]

    def test_a_turn_has_a_limit_but_a_large_request_is_one_turn(self, live):
        async def test(worker):
            await asyncio.gather(
                *(worker.submit([event((k, i)) for i in range(n)]) for k, n in enumerate((3, 3, 3, 20, 1, 1)))
            )

        working(live, test, batch=7)
        assert live.batches == [6, 3, 20, 2]

    def test_an_error_of_one_request_is_not_that_of_the_others(self, live):
        submit = live.submit

        def strict(events):
            if any(event["id"] == "bad" for event in events):
                raise ParameterError("A value that nobody thought of.", parameter="amount")
            return submit(events)

        live.submit = strict

        async def test(worker):
            given = [worker.submit([event(id)]) for id in ("a", "bad", "b")]
            return await asyncio.gather(*given, return_exceptions=True)

        first, wrong, last = working(live, test)
        assert (first[0].id, last[0].id) == ("a", "b")
        assert isinstance(wrong, ParameterError)

    def test_events_and_labels_keep_their_order_and_go_before_questions(self, live):
        async def test(worker):
            return await asyncio.gather(
                worker.ask(lambda live: live.calls.append("ask")),
                worker.submit([event("a"), event("b")]),
                worker.label([{"id": "a", "label": 1}]),
                worker.submit([event("c")]),
                worker.label([{"id": "a", "label": 0}]),
                worker.ask(lambda live: live.event("a")["label"]),
            )

        *_, label = working(live, test)
        assert label == 0
        assert live.calls == ["submit", "label", "submit", "label", "ask"]

    @pytest.mark.parametrize(
        ("seconds", "n_before"), [(0.014, 3), (0.001, 3), (0.0005, 6)], ids=["explain", "events", "health"]
    )
    def test_a_score_waits_for_one_slice_of_questions(self, live, clock, seconds, n_before):
        def question(live):
            live.calls.append("ask")
            clock.now += seconds
            if live.calls == ["ask"] * 3:  # an event comes while the third question of many is answered
                arrive(question.worker, event("a"))

        async def test(worker):
            question.worker = worker
            await asyncio.gather(*(worker.ask(question) for _ in range(50)))

        working(live, test)
        assert live.calls.index("submit") == n_before
        assert live.calls.count("ask") == 50

    def test_scores_and_slow_questions_take_turns(self, live, clock):
        def question(live):
            live.calls.append("ask")
            clock.now += 2 * SLICE
            arrive(question.worker, event(len(live.calls)))

        async def test(worker):
            question.worker = worker
            await asyncio.gather(*(worker.ask(question) for _ in range(50)))

        working(live, test)
        assert live.calls == ["ask", "submit"] * 50

    def test_questions_take_a_third_of_the_time_while_events_come(self, live):
        spent = []

        def question(live):
            start = time.perf_counter()
            time.sleep(0.01)
            spent.append(time.perf_counter() - start)

        async def test(worker):
            start = time.perf_counter()
            asked = [asyncio.create_task(worker.ask(question)) for _ in range(30)]
            for k in range(100):
                await worker.submit([event(k)])
                await asyncio.sleep(0.004)
            share = sum(spent) / (time.perf_counter() - start)
            await asyncio.sleep(LULL)  # after which the others are answered without a rest
            start, n = time.perf_counter(), len(spent)
            await asyncio.gather(*asked)
            return share, sum(spent[n:]) / (time.perf_counter() - start), n

        share, of_lull, n = working(live, test)
        assert 0 < n < 30
        assert 0.1 < share < 0.45
        assert of_lull > 0.6

    def test_answers_leave_when_they_are_durable(self, live):
        answered, label = threading.Event(), live.label

        def label_later(labels):
            assert answered.wait(20), "the answer to the event waits for the label"
            return label(labels)

        live.label = label_later

        async def test(worker):
            events, labels = worker.submit([event("a")]), worker.label([{"id": "a", "label": 1}])
            tasks = [asyncio.create_task(one) for one in (events, labels, worker.submit([event("b")]))]
            await tasks[0]
            answered.set()
            await asyncio.gather(*tasks)

        working(live, test)
        assert live.calls == ["submit", "label", "submit"], "one turn, of which each part was answered by itself"

    def test_a_snapshot_that_fails_ends_nothing(self, live, caplog):
        def work(seconds):
            live.calls.append("work")
            raise ValueError("a snapshot that nobody thought of")

        live.work = work

        async def test(worker):
            for id in "abc":
                await worker.submit([event(id)])
            return await worker.ask(lambda live: 7)

        assert working(live, test) == 7
        assert live.calls.count("submit") == 3
        assert live.calls.count("work") >= 3
        assert [record.exc_info[0] for record in caplog.records] == [ValueError], "told once"

    def test_a_panic_fails_alone(self, live):
        class PanicError(BaseException):
            """As polars raises it."""

        def panic(live):
            raise PanicError("a bug")

        async def test(worker):
            return await asyncio.gather(worker.ask(panic), worker.ask(lambda live: 7), return_exceptions=True)

        error, answer = working(live, test)
        assert isinstance(error, RuntimeError)
        assert "a bug" in str(error)
        assert answer == 7

    def test_questions_get_a_share_of_the_turns_while_scores_come_without_end(self, live):
        async def test(worker):
            asked = [asyncio.create_task(worker.ask(lambda live: live.calls.append("ask"))) for _ in range(20)]

            async def keep_scoring(name):
                for k in range(30):
                    await worker.submit([event(f"{name} {k}")])

            await asyncio.gather(*map(keep_scoring, "abc"))
            assert all(one.done() for one in asked)

        working(live, test)

    def test_everybody_gets_their_own_answers(self, live):
        async def test(worker):
            sizes = [1, 4, 2, 7, 1]
            answers = await asyncio.gather(
                *(worker.submit([event(f"{k}.{i}") for i in range(n)]) for k, n in enumerate(sizes))
            )
            for k, n in enumerate(sizes):
                assert [answer.id for answer in answers[k]] == [f"{k}.{i}" for i in range(n)]
            assert await worker.submit([]) == []

        working(live, test)

    def test_too_much_is_refused_and_later_accepted(self, live):
        live.delay = 0.05

        async def test(worker):
            first = asyncio.create_task(worker.submit([event(k) for k in range(8)]))
            await asyncio.sleep(0)
            assert worker.waiting == 8
            with pytest.raises(BusyError, match="8 events are waiting, of at most 10"):
                await worker.submit([event(k) for k in range(100, 103)])
            assert await worker.ask(lambda live: 5) == 5  # questions are not refused
            await first
            assert worker.waiting == 0
            await worker.submit([event(k) for k in range(100, 110)])

        working(live, test, queue=10, events=10)
        assert sorted(live._events) == [*range(8), *range(100, 110)]

    def test_a_log_that_fails_fails_all_of_its_turn_and_none_after_it(self, live):
        async def test(worker):
            live.disk_is_full = True
            found = await asyncio.gather(
                worker.submit([event(1)]), worker.submit([event(2)]), worker.ask(lambda live: 5), return_exceptions=True
            )
            assert [type(one) for one in found] == [LogError, LogError, int]
            live.disk_is_full = False
            return await worker.submit([event(3)])

        (answer,) = working(live, test)
        assert answer.id == 3
        assert list(live._events) == [3]

    def test_a_question_that_fails_fails_alone(self, live):
        async def test(worker):
            return await asyncio.gather(
                worker.ask(lambda live: 1 / 0), worker.ask(lambda live: 7), return_exceptions=True
            )

        error, answer = working(live, test)
        assert isinstance(error, ZeroDivisionError)
        assert answer == 7

    def test_a_stop_finishes_what_waits_and_refuses_the_rest(self, live):
        live.delay = 0.05

        async def test(worker):
            waiting = [asyncio.create_task(worker.submit([event(0)]))]
            await asyncio.sleep(0.01)  # the first turn runs now
            waiting += [asyncio.create_task(worker.submit([event(k)])) for k in range(1, 10)]
            await asyncio.sleep(0.01)
            stopping = asyncio.create_task(worker.stop())
            await asyncio.sleep(0.01)
            with pytest.raises(StoppingError):
                await worker.submit([event(99)])
            async with asyncio.timeout(30):
                answers = await asyncio.gather(*waiting)
                await stopping
            assert [answer.id for (answer,) in answers] == list(range(10))

        async def run():
            worker = Worker(live, Limits())
            worker.start()
            await test(worker)

        asyncio.run(run())
        assert list(live._events) == list(range(10))

    def test_a_client_that_is_gone_disturbs_nobody(self, live):
        live.delay = 0.05

        async def test(worker):
            gone, stays = (asyncio.create_task(worker.submit([event(k)])) for k in range(2))
            await asyncio.sleep(0.01)
            gone.cancel()
            return await stays

        (answer,) = working(live, test)
        assert answer.id == 1
        assert list(live._events) == [0, 1]

    def test_all_work_is_done_on_one_thread(self, live):
        async def test(worker):
            return {await worker.ask(lambda live: threading.get_ident()) for _ in range(5)}

        threads = working(live, test)
        assert len(threads) == 1
        assert threading.get_ident() not in threads
