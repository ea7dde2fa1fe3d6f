"""Columns by way of bucket files are those of PropagationFeatures."""

import numpy as np
import pytest

from buckets import column_files, read_columns, some_table
from tdlg import PropagationFeatures, read_edges
from tdlg.engines.buckets import NEVER_KNOWN, RecordForm
from tdlg.engines.files import read_split, write_split
from tdlg.engines.table import TableClock
from tdlg.exceptions import ReadError
from tdlg.propagate.features import Query, gather_evidence, table_columns
from tdlg.tables.rows import Sample

TABLES = [{}, {"floats": True}, {"categories": True}, {"shared": False}]


@pytest.mark.parametrize(
    ("table", "past_only"),
    [*((table, past_only) for table in TABLES for past_only in (False, True)), ({"late": True}, True)],
)
def test_columns_are_those_of_the_features(tmp_path, table, past_only):
    late = table.get("late", False)
    path = tmp_path / "edges.parquet"
    some_table(3, **table).write_parquet(path)
    names = ["amount", *(["kind", "colour"] if table.get("categories") else [])]
    edges = read_edges(path, label="label", features=names, label_time="known" if late else None)
    features = PropagationFeatures(past_only=past_only, two_ends="none").fit(edges)
    made = column_files(tmp_path, path, features, [Sample(shares=(1.0, 1.0))], late=late)
    expected = features.transform(edges)
    for k, which in enumerate((~edges.labelled, edges.labelled)):
        rows, columns = read_columns(*made, range(k, k + 1))
        assert np.array_equal(rows["row"], np.flatnonzero(which))
        assert columns.shape == expected[which].shape
        assert np.abs(columns - expected[which]).max() < 1e-10


def test_samples_know_the_labels_of_their_time(tmp_path):
    """The rows to learn from after a cut in time see the labels that were known before it."""
    path = tmp_path / "edges.parquet"
    some_table(5, late=True, n=300).write_parquet(path)
    edges = read_edges(path, label="label", features=["amount"], label_time="known")
    features = PropagationFeatures(past_only=True, two_ends="none").fit(edges)
    first = int(edges.ticks.min())
    cuts = [(20, 35), (30, 59)]
    samples = [Sample(low, high, low, (1.0, 1.0)) for low, high in cuts]
    plan, buckets, files = column_files(tmp_path, path, features, samples, late=True, bounds=(0, 100, 300))
    evidence = gather_evidence(features, edges).evidence
    for k, (low, high) in enumerate(cuts):
        rows, columns = read_columns(plan, buckets, files, range(2 + k, 3 + k))
        at = np.flatnonzero(edges.labelled & (edges.ticks >= low) & (edges.ticks <= high))
        assert np.array_equal(rows["row"], at)
        assert np.array_equal(rows["label"], edges.label[at])
        assert np.array_equal(rows["tick"], edges.ticks[at] - first)
        known = evidence._replace(labelled=edges.labelled & (edges.known_at < low))
        expected = table_columns(features.plan_, Query.of(known, at))
        assert np.abs(columns - expected).max() < 1e-10
    both = [read_columns(plan, buckets, files, range(k, k + 1))[0]["row"].tolist() for k in (0, 1)]
    missing = np.flatnonzero(~edges.labelled)
    assert both == [missing[missing < 100].tolist(), missing[missing >= 100].tolist()]


def test_a_share_of_a_class_is_sampled_the_same_for_all_matches_and_buckets(tmp_path):
    path = tmp_path / "edges.parquet"
    some_table(7, n=2000).write_parquet(path)
    edges = read_edges(path, label="label")
    features = PropagationFeatures(["src", "pair"], past_only=True, two_ends="none").fit(edges)
    samples = [Sample(shares=(0.25, 1.0))]
    found = []
    for n_buckets in (1, 6):
        folder = tmp_path / str(n_buckets)
        folder.mkdir()
        made = column_files(folder, path, features, samples, n_buckets=n_buckets, dtype="f4")
        found.append(read_columns(*made, range(1, 2)))
    (rows, columns), (again, same) = found
    assert np.array_equal(rows, again)
    assert np.abs(columns - same).max() < 1e-5
    n_each = np.bincount(edges.label[edges.labelled].astype(int))
    sampled = np.bincount(rows["label"])
    assert sampled[1] == n_each[1]
    assert 0.2 < sampled[0] / n_each[0] < 0.3
    assert np.allclose(columns, features.transform(edges)[rows["row"]], rtol=1e-5, atol=1e-5)


def test_what_is_written_already_stays(tmp_path):
    path = tmp_path / "edges.parquet"
    some_table(1).write_parquet(path)
    features = PropagationFeatures(["src"], two_ends="none").fit(read_edges(path, label="label"))
    column_files(tmp_path, path, features)
    files = sorted(tmp_path.glob("*-*"))
    before = [(file.name, file.stat().st_mtime_ns) for file in files]
    assert len(before) == 6 + 5
    column_files(tmp_path, path, features)
    assert [(file.name, file.stat().st_mtime_ns) for file in files] == before
    assert not list(tmp_path.glob("*.draft"))


def test_columns_of_different_rows_are_an_error(tmp_path):
    path = tmp_path / "edges.parquet"
    some_table(3).write_parquet(path)
    features = PropagationFeatures(two_ends="none").fit(read_edges(path, label="label"))
    plan, buckets, files = column_files(tmp_path, path, features)
    read_columns(plan, buckets, files, range(1))
    file = files.path(plan, plan.matches[1], 2)
    records = read_split([file], range(1)).copy()
    records["row"][0] += 1000
    write_split(file, records, np.zeros(len(records), np.int64), 1)
    with pytest.raises(ReadError, match=r"are about different rows\. Remove the folder and run again"):
        read_columns(plan, buckets, files, range(1))


def test_labels_that_are_never_known_stay_so_before_1970():
    """The last tick minus a negative time has no place in 64 bits."""
    clock = TableClock(None, "i8", -400, 399)
    form = RecordForm(800, clock, True, 2)
    never = np.array([np.iinfo(np.int64).max, -400, 0])
    assert form.stored(never).tolist() == [NEVER_KNOWN, 0, 400]
