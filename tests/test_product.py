import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tdlg import LineGraph, TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.linegraph import product
from tdlg.memory import default_threads


def network(n_edges=60_000):
    rng = np.random.default_rng(0)
    return TemporalEdges(*rng.integers(0, 500, (2, n_edges)), rng.uniform(0, 100, n_edges))


def test_one_operator_multiplied_from_many_threads():
    H = LineGraph(network(), n_threads=2)
    X = np.random.default_rng(1).normal(size=(8, H.shape[1]))
    expected = [H @ x for x in X]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for result, wanted in zip(pool.map(H.__matmul__, X), expected, strict=True):
                assert np.array_equal(result, wanted)


def multiply_in_child(queue):
    H = LineGraph(network(), n_threads=2)
    queue.put(float((H @ np.ones(H.shape[1])).sum()))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads: what is tested
def test_a_forked_child_makes_threads_of_its_own():
    H = LineGraph(network(), n_threads=2)
    expected = float((H @ np.ones(H.shape[1])).sum())  # the parent's threads are running now
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=multiply_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join()


def test_an_error_in_one_thread_leaves_no_trace():
    H = LineGraph(network(), n_threads=2)
    x = np.random.default_rng(1).normal(size=H.shape[1])
    expected = H @ x
    finished = []

    def fail_first(part):
        if part == 0:
            raise KeyboardInterrupt
        time.sleep(0.2)
        finished.append(part)

    with pytest.raises(KeyboardInterrupt):
        product._each(fail_first, [0, 1])
    assert finished == [1]  # whoever still wrote was waited for
    with pytest.raises(RuntimeError), H._layout.one_value_per_event(np.dtype(float)):
        raise RuntimeError
    assert H._layout._spare == []  # and what was half-written is not used again
    assert np.array_equal(H @ x, expected)


def test_number_of_threads_from_the_environment(monkeypatch):
    monkeypatch.setenv("TDLG_NUM_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.setenv("TDLG_NUM_THREADS", "many")
    with pytest.raises(ParameterError, match=r"TDLG_NUM_THREADS must be a positive number\. Got 'many'"):
        default_threads()
    monkeypatch.delenv("TDLG_NUM_THREADS")
    assert default_threads() >= 1


def test_cuts_never_part_equal_times():
    gap = np.array([np.inf, 0, 0, 0, 1, 1, 0, 0, np.inf, 1, np.inf])
    for n_parts in range(1, 6):
        cuts = product._cuts(gap, n_parts)
        assert (cuts[0], cuts[-1], len(cuts)) == (0, 10, n_parts + 1)
        assert cuts == sorted(cuts)
        assert all(gap[cut] != 0 for cut in cuts)
