"""The parts of the engines: split files, keys, summaries of a table in blocks, executors."""

import errno
import gzip
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from buckets import some_table
from tdlg import TemporalEdges, read_edges
from tdlg.engines import files as run_files
from tdlg.engines import table as scanning
from tdlg.engines.buckets import (
    Buckets,
    PartitionTask,
    RecordForm,
    bucket_sizes,
    map_buckets,
    nodes_are_shared,
    partition,
    usual_gap_of_nodes,
)
from tdlg.engines.executors import Workers, run_all
from tdlg.engines.files import SplitFile, read_split, write_split
from tdlg.engines.run import MemoryLimits, Output
from tdlg.engines.table import LabelCodes, TableClock, bucket_of, pair_keys, reversed_pairs, scan_edges, summarise_table
from tdlg.exceptions import EdgesError, ReadError, TooLargeError
from tdlg.io import write_parquet
from tdlg.propagate.plan import choose_scales, scales_between, usual_gap_of_edges
from tdlg.tables import rows
from tdlg.tables.rows import id_keys, mixed, uniform

ENGINE = ThreadPoolExecutor(2)


# ---- split files


def some_records(n, seed=0):
    rng = np.random.default_rng(seed)
    records = np.zeros(n, [("row", "<u4"), ("columns", "<f4", (3,))])
    records["row"], records["columns"] = np.arange(n), rng.random((n, 3))
    return records, rng.integers(0, 4, n)


def test_records_of_a_destination_come_back_in_order(tmp_path):
    parts = [some_records(n, n) for n in (50, 0, 20)]
    names = [str(tmp_path / str(k)) for k in range(3)]
    for path, (records, destination) in zip(names, parts, strict=True):
        write_split(path, records, destination, 4)
    for some in (range(1), range(1, 3), range(4)):
        expected = [records[destination == k] for records, destination in parts for k in some]
        assert np.array_equal(read_split(names, some), np.concatenate(expected))
    assert SplitFile.of(names[0]).counts.sum() == 50


def test_a_damaged_split_file_is_an_error(tmp_path):
    path = tmp_path / "a"
    write_split(str(path), *some_records(30), 4)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ReadError, match="ends too early"):
        read_split([str(path)], range(4))
    path.write_bytes(b"something else")
    with pytest.raises(ReadError, match="not a bucket file"):
        read_split([str(path)], range(4))


def test_a_full_disk_leaves_no_file_and_names_the_path(tmp_path, monkeypatch):
    def full(file, view):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_files, "_write_fully", full)
    with pytest.raises(OSError, match=r"No space left.*wanted"):
        write_split(str(tmp_path / "wanted"), *some_records(3), 4)
    assert not list(tmp_path.iterdir())


def test_files_of_a_store(tmp_path):
    pytest.importorskip("fsspec")
    path = "memory://some/folder/a"
    write_split(path, *some_records(30), 4)
    records, destination = some_records(30)
    assert np.array_equal(read_split([path], range(2, 3)), records[destination == 2])
    assert run_files.exists(path)
    run_files.remove_folder("memory://some/folder")
    assert not run_files.exists(path)


@pytest.mark.parametrize(
    ("path", "parent", "work_folder"),
    [
        ("/out.parquet", "/", "/.out.parquet.tdlg-work"),
        ("/data/out.parquet", "/data", "/data/.out.parquet.tdlg-work"),
        ("s3://bucket/out", "s3://bucket", "s3://bucket/.out.tdlg-work"),
    ],
)
def test_the_work_folder_is_beside_the_output(path, parent, work_folder):
    output = Output(path, is_folder=False)
    assert output.parent == parent
    assert output.work_folder() == work_folder
    assert output.work_folder("/tmp").startswith("/tmp/.out")


def test_numbers_with_a_decimal_comma_are_refused(tmp_path):
    """In blocks, they would be categories, each of a few rows."""
    path = tmp_path / "edges.parquet"
    frame = pl.DataFrame({"src": [1, 2], "dst": [2, 3], "time": [0, 1], "amount": ["52,98", "7"], "kind": ["a", "b"]})
    frame.write_parquet(path)
    with pytest.raises(ReadError, match=r"the feature 'amount' is text such as '52,98'\. Write it as numbers"):
        scan_edges(path, features=["kind", "amount"])
    assert scan_edges(path, features=["kind"], categories=["amount"]).features == ("kind", "amount")


TEXTS = {
    "commas": "src,dst,time,amount,kind,label\n007,7,2025-01-31,3.5,a,1\n7,8,2025-02-01,NA,b,0\n08,7,2025-02-02,7,,\n",
    "semicolons": "card_no;shop;day;amount;mcc;label\n1;2;31.01.2025;52,98;0742;1\n02;1;01.02.2025;7,5;742;0\n",
    "quoted": 'src,dst,time,amount,label\n"007","7",5,"1.5","1"\n"7","8",6,"","0"\n"8","7",7,"2.5",""\n',
    "words": 'src,dst,time,amount,label\na,b,5,1,yes\nb,c,6,2,no\nc,a,7,3,""\n',
    "no header": "007,7,5\n7,8,6\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", TEXTS)
def test_text_as_parquet_keeps_the_edges(tmp_path, form, packed):
    path = tmp_path / f"it's a table.csv{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(TEXTS[form].encode()) if packed else TEXTS[form].encode())
    write_parquet(path, written := tmp_path / "table.parquet")
    options = {} if form == "no header" else {"label": "label", "features": ["amount"]}
    expected = read_edges(path, **options)
    scanned = scan_edges(written, as_text=True, **options)
    edges = scanned.read(scanned.blocks(10)[0])
    ends = [id_keys(getattr(expected, end).astype(str), end).view(np.int64) for end in ("src", "dst")]
    for name, wanted in zip(("src", "dst"), ends, strict=True):
        np.testing.assert_array_equal(getattr(edges, name), wanted, name)
    for name in ("time", "label", "features"):
        np.testing.assert_array_equal(getattr(edges, name), getattr(expected, name), name)


# ---- keys


def test_integers_have_different_keys():
    ids = np.concatenate([np.arange(-1000, 1000), [2**63 - 1, -(2**63), 2**40]])
    assert len(set(id_keys(ids, "src").tolist())) == len(ids)
    assert len(set(mixed(np.arange(5000)).tolist())) == 5000


def test_unsigned_integers_have_the_keys_of_signed_ones():
    """A block may have none beyond int64; negative integers have the same bits as those beyond it."""
    ids = pl.Series([0, 7, 2**63 - 1, 2**63, 2**64 - 1], dtype=pl.UInt64)
    keys = id_keys(ids, "src")
    assert np.array_equal(keys[:3], id_keys(np.array([0, 7, 2**63 - 1]), "src"))
    assert np.array_equal(keys[:3], id_keys(ids[:3], "src"))
    assert np.array_equal(keys[3:], id_keys(ids[3:], "src"))
    assert len({*keys.tolist(), *id_keys(np.array([-1, -(2**63)]), "dst").tolist()}) == 7


@pytest.mark.parametrize("ids", [[2**64], [b"a"], [-1, 2**63]])
def test_ids_that_have_no_keys(ids):
    with pytest.raises(EdgesError, match=r"must hold integers or text.*Convert the ids to text"):
        id_keys(pl.Series(ids, dtype=pl.Object), "src")


def test_text_has_the_same_keys_in_every_block():
    ids = pl.Series([f"customer {k}" for k in range(3000)])
    keys = id_keys(ids, "src")
    assert len(set(keys.tolist())) == 3000
    assert np.array_equal(id_keys(ids[100:200], "dst"), keys[100:200])


def test_text_that_spells_an_integer_has_its_key():
    ids = [0, 7, -7, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]
    text = id_keys([str(id) for id in ids], "src")
    assert np.array_equal(text[:5], id_keys(np.array(ids[:5]), "dst"))
    assert np.array_equal(text[5:], id_keys(np.array(ids[5:], np.uint64), "dst"))
    others = ["007", "7.0", "+7", "-0", " 7", "7\n", str(2**64), "x", ""]
    assert len({*text.tolist(), *id_keys(others, "src").tolist()}) == len(ids) + len(others)
    with pytest.raises(EdgesError, match="has the id True"):
        id_keys(pl.Series([True]), "src")


def test_a_pair_and_its_reverse():
    src, dst = id_keys([1, 2, 3, 2], "src"), id_keys([2, 1, 3, 5], "dst")
    pairs = pair_keys(src, dst)
    assert len(set(pairs.tolist())) == 4
    assert reversed_pairs(pairs)[:3].tolist() == [pairs[1], pairs[0], pairs[2]]
    assert np.array_equal(bucket_of(pairs, 1000), bucket_of(reversed_pairs(pairs), 1000))


def test_buckets_have_about_the_same_size():
    sizes = np.bincount(bucket_of(id_keys(np.arange(20_000), "src"), 7), minlength=7)
    assert sizes.max() < 1.1 * sizes.min()


def test_uniform_numbers_depend_on_row_and_seed():
    row = np.arange(20_000)
    numbers = uniform(row, 1)
    assert np.abs(np.quantile(numbers, [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]).max() < 0.02
    assert abs(np.corrcoef(numbers, uniform(row, 2))[0, 1]) < 0.03
    assert np.array_equal(uniform(row.astype(np.uint32), 1), numbers)


# ---- summaries


def summary_of(path, block=37, **wanted):
    table = scan_edges(path, **{"label": "label", **wanted}, features=["amount"])
    return table, summarise_table(ENGINE, table, table.blocks(block))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "edges.parquet"
    some_table(11, n=500).write_parquet(path)
    return path, read_edges(path, label="label", features=["amount"])


@pytest.mark.parametrize("block", [37, 500])
def test_a_summary_has_all_rows_of_a_small_table(table, block):
    path, edges = table
    opened, seen = summary_of(path, block)
    values, counts = np.unique(edges.label[edges.labelled], return_counts=True)
    assert seen.clock == TableClock(None, "i8", edges.ticks.min(), edges.ticks.max())
    assert dict(seen.labels) == dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert (seen.late, seen.shares) == (False, (1.0, 1.0))
    assert seen.rows.tolist() == list(range(500))
    kept = seen.kept(opened, "amount")
    assert np.array_equal(kept.ticks, edges.ticks)
    assert np.array_equal(kept.label, edges.label, equal_nan=True)
    assert np.array_equal(kept.features, edges.features, equal_nan=True)


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64, pl.String])
@pytest.mark.parametrize("unlabelled", [0.3, 0.95])
def test_a_large_table_and_its_file_keep_the_same_rows(tmp_path, monkeypatch, dtype, unlabelled):
    """LabelCodes that are few are all kept."""
    for module in (rows, scanning):
        monkeypatch.setattr(module, "KEPT", 300)
    path = tmp_path / "edges.parquet"
    frame = some_table(3, n=2000, unlabelled=unlabelled)
    frame.with_columns(pl.col("label").cast(dtype)).write_parquet(path)
    edges = read_edges(path, label="label")
    opened, seen = summary_of(path, 130)
    assert seen.rows.tolist() == rows.kept_rows(edges.labelled).tolist()
    assert len(seen.rows) == pytest.approx(300, rel=0.2)
    assert np.array_equal(seen.kept(opened).labelled, edges.labelled[seen.rows])
    n_known = edges.labelled.sum()
    assert n_known == (edges.labelled[seen.rows].sum() if unlabelled == 0.95 else pytest.approx(150 / seen.shares[0]))


def test_results_of_few_blocks_are_held_at_once(table, monkeypatch):
    path, _ = table
    monkeypatch.setattr(scanning, "BLOCKS_AT_ONCE", 3)
    held = []

    def counting(engine, function, tasks):
        held.append(len(tasks))
        return run_all(engine, function, tasks)

    monkeypatch.setattr(scanning, "run_all", counting)
    assert len(summary_of(path)[1].rows) == 500
    assert max(held) == 3
    assert sum(held) == 14


def test_too_many_different_labels_are_an_error(tmp_path, monkeypatch):
    path = tmp_path / "edges.parquet"
    some_table(1, n=300).with_columns(label=pl.int_range(300) // 3).write_parquet(path)
    monkeypatch.setattr(scanning, "MOST_VALUES", 99)
    for block in (300, 30):  # within a block, and in all blocks together
        with pytest.raises(ReadError, match=r"column 'label' has more than 99 different values, too many for classes"):
            summary_of(path, block)
    monkeypatch.setattr(scanning, "MOST_VALUES", 100)
    assert len(summary_of(path)[1].labels) == 100


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("ids", ["node 7", "7", 7])
def test_gaps_and_shared_nodes(tmp_path, monkeypatch, shared, ids):
    path = tmp_path / "edges.parquet"
    table = some_table(2, n=300, n_nodes=40, shared=shared, floats=True)
    if ids != "node 7":
        number = pl.col("source", "target").str.strip_prefix("node ")
        table = table.with_columns(number.cast(pl.Int64) - 20 if ids == 7 else number)
    table.write_parquet(path)
    edges = read_edges(path, label="label")
    opened, seen = summary_of(path)
    form, blocks = RecordForm(300, seen.clock, False, 2), opened.blocks(37)
    buckets = Buckets(str(tmp_path), form, ("src", "dst"), 7, len(blocks))
    labels = LabelCodes((0, 1), (0, 1))
    run_all(ENGINE, partition, [PartitionTask(opened, block, k, labels, buckets) for k, block in enumerate(blocks)])
    assert nodes_are_shared(ENGINE, buckets) is shared
    assert bucket_sizes(buckets, "src").sum() == 300
    some = edges[edges.labelled]
    spread = float((some.ticks - some.ticks.min()).std())
    gaps = []
    for kept in (300, 90, 40):  # of all nodes, or of those with small keys, whatever the buckets
        monkeypatch.setattr(rows, "KEPT", kept)
        gaps.append(usual_gap_of_nodes(ENGINE, buckets, only_known=True))
        assert gaps[-1] == usual_gap_of_edges(some, 300)
        assert scales_between(spread, gaps[-1]) == choose_scales(some, n_rows=300)
    assert np.isfinite(gaps).all()
    assert len(set(gaps)) == 3


# ---- reading


def test_times_of_several_units_are_on_one_clock(tmp_path):
    path = tmp_path / "edges.parquet"
    times = ["2025-01-01", "2025-01-02", "2025-01-03T00:00:00.250"]
    pl.DataFrame({"src": [1, 2, 3], "dst": [2, 3, 1], "time": times, "label": [0, 1, 0]}).write_parquet(path)
    table = scan_edges(path, label="label")
    seen = summarise_table(ENGINE, table, table.blocks(1))
    edges = TemporalEdges([1, 2, 3], [2, 3, 1], times)
    assert seen.clock.unit == edges.time_unit == "ms"
    ticks = [seen.clock.ticks(table.read(block)).item() for block in table.blocks(1)]
    assert ticks == edges.ticks.tolist()
    assert seen.clock.step == 1


@pytest.mark.parametrize(("late", "step"), [([None, 250, 60_000], 250), ([None, None, 60_000], 30_000), (None, 30_000)])
def test_times_are_kept_in_steps(tmp_path, late, step):
    path = tmp_path / "edges.parquet"
    times = np.array([1_700_000_030_000, 1_700_000_000_000, 1_700_000_060_000])
    columns = {"src": [1, 2, 3], "dst": [2, 3, 1], "time": times, "label": [None, 1, 0]}
    if late is not None:
        columns |= {"known": [None if more is None else 1_700_000_060_000 + more for more in late]}
        columns["label"] = [None if more is None else 1 for more in late]
    pl.DataFrame(columns).write_parquet(path)
    table = scan_edges(path, label="label", label_time=None if late is None else "known")
    seen = summarise_table(ENGINE, table, table.blocks(2))
    assert seen.clock.step == step
    form = RecordForm(3, seen.clock, late is not None, 2)
    assert form.dtype["tick"] == np.dtype("<u4")
    records = form.fill(table.read(table.blocks(3)[0]), LabelCodes(), 0)
    assert (form.times(records["tick"]) + seen.clock.low).tolist() == times.tolist()


def table_of_times(path, times):
    rows = range(len(times))
    pl.DataFrame({"src": rows, "dst": rows, "time": times}).write_parquet(path)
    return scan_edges(path)


@pytest.mark.parametrize(
    "times",
    [
        ["03/04/2020", "4/3/2020 12:30", "13/04/2020"],
        ["03.04.2020", " 04.13.2020 ", "04.03.2020"],
        ["03/03/2020", "04/04/2020"],
        ["2020-04-03", "2020-03-04 10:00"],
        ["3 Apr 2020", "4 March 2020"],
    ],
)
def test_day_and_month_are_the_same_in_every_block(tmp_path, times):
    """A block alone may not tell which number is the day."""
    table = table_of_times(tmp_path / "edges.parquet", times)
    found = [table.read(block).time[0] for block in table.blocks(1)]
    assert found == TemporalEdges(range(len(times)), range(len(times)), times).time.tolist()


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["13/04/2020", "04/13/2020"], "'time' the day comes first in some dates and the month in others"),
        (["03/04/2020 10:00", "04/05/2020"], "ambiguous.*Pass time_format='%d/%m/%Y %H:%M' if the day comes first"),
        (["2020-01-31", "3 Apr 2020"], "written in several ways"),
        (["2020-01-31 10:00Z", "2020-01-31 10:00"], "have a time zone, and others have none"),
    ],
)
def test_dates_that_contradict_each_other_in_different_blocks(tmp_path, times, message):
    with pytest.raises(ReadError, match=message):
        table_of_times(tmp_path / "edges.parquet", times)


@pytest.mark.parametrize("with_ids", [True, False])
def test_messages_show_no_keys(tmp_path, with_ids):
    path = tmp_path / "edges.parquet"
    pl.DataFrame({"src": ["a", "b"], "dst": ["b", "c"], "time": [1.0, None]}).write_parquet(path)
    table = scan_edges(path)
    with pytest.raises(ReadError, match=r"counted from row 2: The 'time'.* data row 1 \(time: None\)"):
        table.read(table.blocks(1)[1], with_ids=with_ids)


def test_problems_of_the_table_are_errors(tmp_path):
    path = tmp_path / "edges.parquet"
    frame = pl.DataFrame({"src": ["a", None], "dst": ["b", "c"], "time": [1, 2]})
    frame.write_parquet(path)
    table = scan_edges(path)
    with pytest.raises(ReadError, match=r"counted from row 2: The 'src' has a missing id in row 0"):
        table.read(table.blocks(1)[1])
    with pytest.raises(ReadError, match=r"no such file. Did you mean 'edges.parquet'"):
        scan_edges(tmp_path / "edge.parquet")
    frame.clear().write_parquet(path)
    with pytest.raises(ReadError, match="no rows"):
        scan_edges(path)
    path.write_bytes(b"not parquet")
    with pytest.raises(ReadError, match="not a parquet file"):
        scan_edges(path)


# ---- executors


def test_results_are_in_the_order_of_the_tasks():
    done = []
    with ThreadPoolExecutor(3) as threads:
        assert run_all(threads, lambda k: k * k, range(100), lambda *of: done.append(of)) == [k * k for k in range(100)]
        assert run_all(threads, abs, []) == []
    assert done[-1] == (100, 100)


def test_any_executor_runs_tasks():
    with ProcessPoolExecutor(1) as processes:
        assert run_all(processes, abs, [-3, 2, -1]) == [3, 2, 1]


def test_few_tasks_are_in_flight():
    class Counting(ThreadPoolExecutor):
        def submit(self, *of):
            waiting.append(self._work_queue.qsize())
            return super().submit(*of)

    waiting = []
    with Counting(2) as threads:
        run_all(threads, abs, range(500))
    assert max(waiting) <= 16


@pytest.mark.parametrize("error", [KeyboardInterrupt, ReadError])
def test_what_the_callback_raises_stops_the_work(error):
    started, ended = [], []

    def work(k):
        started.append(k)
        time.sleep(0.01)
        ended.append(k)

    def stop(done, total):
        raise error

    with ThreadPoolExecutor(2) as threads:
        with pytest.raises(error):
            run_all(threads, work, range(1000), stop)
        assert sorted(started) == sorted(ended)  # none is left that writes files
        assert len(started) < 20
        assert run_all(threads, abs, [-1]) == [1]


def test_an_error_stops_the_work():
    started = []

    def work(k):
        started.append(k)
        time.sleep(0.001)  # else all may be done before the first error is seen
        raise ReadError(f"task {k}")

    with pytest.raises(ReadError, match="task"):
        run_all(ENGINE, work, range(1000))
    assert len(started) < 1000


@pytest.mark.parametrize("n", [3, 3000])
@pytest.mark.parametrize("folder", ["memory://split", "file://{}/store", "{}"])
def test_split_files_on_a_store_and_on_disk(tmp_path, folder, n):
    """With many destinations, the positions take more than what is read first."""
    folder = folder.format(tmp_path)
    run_files.make_folder(folder)
    rng = np.random.default_rng(0)
    names, expected = [], []
    for k in range(3):
        records = np.zeros(50, [("row", "<u4"), ("value", "<f8", (2,))])
        records["row"], records["value"] = np.arange(50), rng.random((50, 2))
        destination = rng.integers(0, n, 50)
        names.append(f"{folder}/file-{k}")
        write_split(names[-1], records, destination, n)
        expected.append(records[np.argsort(destination, kind="stable")][np.sort(destination) >= n // 2])
    found = read_split(names, range(n // 2, n))
    assert np.array_equal(found, np.concatenate(expected))
    assert len(read_split(names, range(0, 0))) == 0
    run_files.remove_folder(folder)


def test_an_object_that_fails_does_not_appear(tmp_path):
    def pieces():
        yield b"first"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        run_files.write_whole(f"file://{tmp_path}/object", pieces())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["{}/object", "file://{}/object", "memory://versions/object"])
def test_versions_of_a_file(tmp_path, path):
    path = path.format(tmp_path)
    assert run_files.version_of(path) == ()
    found = []
    for content in (b"one", b"more", b"two"):
        run_files.remove_file(path)
        run_files.write_whole(path, [content])
        found.append(run_files.version_of(path))
        assert run_files.version_of(path) == found[-1]
    assert len(set(found)) == 3
    run_files.remove_file(path)
    assert run_files.version_of("nowhere://object") == ()


def test_a_version_is_a_tag_if_the_store_has_tags(monkeypatch):
    infos = [{"size": 3, "ETag": '"a"', "LastModified": 1}, {"size": 3, "ETag": '"b"', "LastModified": 1}]
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.info", lambda *_: infos.pop())
    assert [run_files.version_of("memory://object") for _ in range(2)] == [(3, '"b"'), (3, '"a"')]


@pytest.mark.parametrize("worker_memory", [700_000_000, None])
def test_too_little_memory_is_an_error(worker_memory, monkeypatch):
    monkeypatch.setattr("tdlg.engines.run.free_bytes", lambda: 600_000_000)
    if worker_memory is not None:
        monkeypatch.setattr("tdlg.engines.run.workers_of", lambda _: Workers(2, 1, worker_memory, True))
    text = "smallest worker of the cluster has 700 MB" if worker_memory else "Only 600 MB of memory are free"
    with pytest.raises(TooLargeError, match=rf"{text}.* at least 1 GB"):
        MemoryLimits.of(ENGINE)


def test_blocks_of_many_features_have_fewer_rows():
    assert MemoryLimits(10**9, 2).block(10**7, 100) < MemoryLimits(10**9, 2).block(10**7, 0) / 5


def test_large_buckets_are_worked_on_alone(tmp_path):
    running, most, lock = [], {}, threading.Lock()

    class Task(NamedTuple):
        buckets: Buckets
        bucket: int

    def work(task):
        with lock:
            running.append(task.bucket)
        time.sleep(0.02)
        with lock:
            most[task.bucket] = len(running)
            running.remove(task.bucket)
        return task.bucket

    buckets = Buckets("", RecordForm(1, TableClock(None, "i8", 0, 1), False, 2), ("src",), 6, 1, 3, frozenset([1, 4]))
    said = []
    tasks = [Task(buckets, k) for k in range(6)]
    assert map_buckets(ThreadPoolExecutor(4), work, tasks, lambda *of: said.append(of)) == list(range(6))
    assert most[1] == most[4] == 1
    assert 1 < max(most.values()) <= 3
    assert said[-1] == (6, 6)
    assert said == sorted(said)


def test_with_more_workers_tasks_are_smaller():
    one, many = (MemoryLimits(10**9, 1, n_shares) for n_shares in (8, 64))
    assert (one.block(4_000_000, 0), many.block(4_000_000, 0)) == (500_000, 62_500)
    assert (one.n_buckets(4_000_000, 100.0), many.n_buckets(4_000_000, 100.0)) == (8, 64)
    assert (one.scored_rows(400_000, 10), many.scored_rows(400_000, 10)) == (50_000, 6250)
    assert MemoryLimits(10**9, 1).scored_rows(400_000, 10) == 250_000  # not shared


def test_memory_decides_how_many_tasks_run_at_once():
    limits = MemoryLimits(10**9, 8)
    assert [limits.at_once(n_bytes) for n_bytes in (0, 50e6, 200e6, 10e9)] == [8, 8, 2, 1]
    assert limits.n_buckets(10**7, 200.0) == MemoryLimits(10**10, 8).n_buckets(10**7, 200.0) == 20
    assert limits.n_buckets(10**7, 2000.0) > 100  # of many features
