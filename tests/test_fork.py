"""Processes that are forked while polars has threads, which do not survive: nothing may wait for them for ever."""

import multiprocessing
import traceback

import numpy as np
import pytest

from tdlg import PropagationClassifier, TemporalEdges, read_edges
from tdlg.engines.table import scan_edges
from tdlg.exceptions import TdlgError

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork")

N = 300
SRC = [f"u{k % 17}" for k in range(N)]
DST = [f"v{k % 23}" for k in range(N)]


def make(n=N):
    kinds = [None if k % 7 == 0 else f"kind {k % 3}" for k in range(n)]
    features = {"kind": kinds, "amount": np.arange(n) % 5}
    return TemporalEdges(SRC[:n], DST[:n], np.arange(n), label=np.arange(n) % 2, features=features)


def in_a_fork(work):
    """What a function returns in a forked process; fails if it does not end."""
    context = multiprocessing.get_context("fork")
    answers, sent = context.Pipe(duplex=False)

    def run():
        try:
            sent.send(work())
        except BaseException:
            sent.send(traceback.format_exc())

    process = context.Process(target=run, daemon=True)
    process.start()
    try:
        assert answers.poll(60), "the forked process does not end"
        return answers.recv()
    finally:
        process.kill()
        process.join()


@pytest.fixture(autouse=True)
def polars_has_threads():
    make().node_ids  # noqa: B018


def test_text_ids_and_categories():
    edges = make()

    def work():
        made = make()
        return made.node_ids.tolist(), made.src_code.tolist(), made.features.tolist(), made.feature_categories

    ids, codes, features, categories = in_a_fork(work)
    assert (ids, codes) == (edges.node_ids.tolist(), edges.src_code.tolist())
    np.testing.assert_array_equal(features, edges.features)
    assert categories == edges.feature_categories


def test_a_fitted_model_predicts(few_trees):
    model = PropagationClassifier(random_state=0).fit(make())
    expected = model.predict_proba(make(50))
    np.testing.assert_array_equal(in_a_fork(lambda: model.predict_proba(make(50))), expected)


@pytest.mark.parametrize("name", ["edges.csv", "edges.jsonl", "edges.parquet"])
def test_files_are_refused(tmp_path, name):
    import polars as pl

    frame = pl.DataFrame({"src": ["a"], "dst": ["b"], "time": [1]})
    path = tmp_path / name
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[path.suffix[1:]](path)
    assert len(read_edges(path)) == 1

    def work():
        with pytest.raises(TdlgError) as raised:
            read_edges(path)
        return str(raised.value)

    words = in_a_fork(work)
    assert f"The file {path} cannot be read in this process" in words
    assert 'multiprocessing.get_context("spawn")' in words


def test_a_table_in_blocks_and_times_as_text_are_refused(tmp_path):
    import polars as pl

    path = tmp_path / "edges.parquet"
    pl.DataFrame({"src": ["a"], "dst": ["b"], "time": [1]}).write_parquet(path)

    def work():
        with pytest.raises(TdlgError, match="it was forked"):
            scan_edges(path)
        with pytest.raises(TdlgError, match="Times as text cannot be read in this process"):
            TemporalEdges(["a"], ["b"], ["2025-01-31"])
        return "refused"

    assert in_a_fork(work) == "refused"


def test_a_fork_of_a_process_without_threads_of_polars_reads_files(tmp_path):
    import subprocess
    import sys

    (tmp_path / "edges.csv").write_text("src,dst,time\na,b,1\n")
    code = """
import os, polars, tdlg
tdlg.TemporalEdges([1], [2], [0])
if os.fork() == 0:
    tdlg.read_edges("edges.csv")
    os._exit(7)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 7
