"""Outlier scores of files in buckets are those of all edges in memory."""

from contextlib import nullcontext

import numpy as np
import polars as pl
import pytest

from buckets import some_table
from filling import burst_file
from tdlg import BurstDetector, EdgeOutlierDetector, read_edges, scan_edges
from tdlg.engines import run
from tdlg.engines.table import Block
from tdlg.exceptions import ParameterError, ReadError


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks and buckets of a few dozen rows."""
    monkeypatch.setattr(run, "MOST_BLOCK", 70)
    monkeypatch.setattr(run, "LEAST_BLOCK", 70)
    monkeypatch.setattr(run, "MOST_BUCKET", 100)


def written(folder, seed=3, *, drop=(), **options):
    path = folder / "edges.parquet"
    some_table(seed, **options).with_columns(pl.col("amount").fill_null(0.5)).drop(drop).write_parquet(path)
    return path


class TestBursts:
    @pytest.mark.parametrize("options", [{}, {"floats": True}, {"shared": False}])
    @pytest.mark.parametrize("widths", [{}, {"fast": 2.0, "slow": 30.0}])
    def test_scores_are_those_of_the_detector(self, tmp_path, options, widths):
        path = written(tmp_path, **options)
        found = burst_file(path, tmp_path / "out.parquet", memory="1GB", **widths)
        table = pl.read_parquet(tmp_path / "out.parquet")
        model = EdgeOutlierDetector("burst", **widths).fit(read_edges(path))
        assert np.abs(table["outlier_score"].to_numpy() + model.scores_).max() < 1e-5 * np.abs(model.scores_).max()
        assert np.array_equal(table["outlier"], (model.scores_ < model.offset_).astype(int))
        assert found.threshold == pytest.approx(-model.offset_)
        assert repr(found.slow)[:20] == repr(model.slow_)[:20]
        assert np.abs(model.scores_).max() > 1

    def test_no_digit_is_lost_before_the_scores_are_written(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tdlg.models.files.SCORE_DIGITS", 15)
        path = written(tmp_path)
        burst_file(path, tmp_path / "out.parquet", memory="1GB")
        scores = pl.read_parquet(tmp_path / "out.parquet")["outlier_score"].to_numpy()
        assert np.abs(scores + EdgeOutlierDetector("burst").fit(read_edges(path)).scores_).max() < 1e-10

    def test_wrong_widths(self, tmp_path):
        with pytest.raises(ParameterError, match="'fast' parameter of BurstDetector must be shorter"):
            burst_file(written(tmp_path), tmp_path / "out.parquet", fast=5.0, slow=1.0, memory="1GB")
        assert [file.name for file in tmp_path.iterdir()] == ["edges.parquet"]

    def test_a_share_of_outliers_is_refused(self, tmp_path):
        with pytest.raises(ParameterError, match="'contamination' cannot be chosen for files"):
            BurstDetector(contamination=0.1).fill(scan_edges(written(tmp_path)), tmp_path / "out.parquet")


class TestAFolderAsOutput:
    def test_each_block_is_a_file(self, tmp_path):
        path = written(tmp_path)
        burst_file(path, tmp_path / "one.parquet", memory="1GB")
        burst_file(path, tmp_path / "many", memory="1GB")
        assert len(list((tmp_path / "many").glob("part-*.parquet"))) == 6
        assert pl.read_parquet(tmp_path / "many").equals(pl.read_parquet(tmp_path / "one.parquet"))
        assert not list(tmp_path.glob(".*"))

    def test_a_store(self, tmp_path):
        path = written(tmp_path)
        address = f"file://{tmp_path}/store/out"
        burst_file(path, address, memory="1GB", folder=f"file://{tmp_path}/store/work")
        burst_file(path, tmp_path / "one.parquet", memory="1GB")
        assert pl.read_parquet(tmp_path / "store" / "out").equals(pl.read_parquet(tmp_path / "one.parquet"))
        assert {file.parent.name for file in (tmp_path / "store").rglob("*") if file.is_file()} == {"out"}
        with pytest.raises(ParameterError, match="must be new or empty"):  # else rows of two runs would be mixed
            burst_file(path, address, memory="1GB")

    @pytest.mark.parametrize("stops", [False, True])
    def test_files_that_others_put_into_a_store_during_the_run_stay(self, tmp_path, stops):
        def put(done, total, text):
            if text != "writing":
                (out / "notes.txt").write_text("mine")
            if stops and text == "writing" and done:
                raise KeyboardInterrupt

        path, address, out = written(tmp_path), f"file://{tmp_path}/store/out", tmp_path / "store" / "out"
        out.mkdir(parents=True)
        with pytest.raises(KeyboardInterrupt) if stops else nullcontext():
            burst_file(path, address, memory="1GB", callback=put)
        assert (out / "notes.txt").read_text() == "mine"
        assert len(list(out.glob("part-*.parquet"))) == (0 if stops else 6)
        assert [file.name for file in (tmp_path / "store").iterdir()] == ["out"]

    def test_parts_that_another_run_wrote_in_the_meantime_stay(self, tmp_path):
        def put(done, total, text):
            (out / "part-000000000000.parquet").write_text("of another run")

        path, address, out = written(tmp_path), f"file://{tmp_path}/store/out", tmp_path / "store" / "out"
        out.mkdir(parents=True)
        with pytest.raises(ParameterError, match="must be new or empty"):
            burst_file(path, address, memory="1GB", callback=put)
        assert [file.read_text() for file in out.iterdir()] == ["of another run"]

    def test_a_folder_with_files_is_refused(self, tmp_path):
        path = written(tmp_path)
        with pytest.raises(ParameterError, match="must be new or empty"):
            burst_file(path, tmp_path, memory="1GB")
        with pytest.raises(ParameterError, match=r"written as \.parquet or \.csv, or to a folder"):
            burst_file(path, tmp_path / "out.json", memory="1GB")


class TestAFolderAsInput:
    @pytest.mark.parametrize("of_store", [False, True])
    def test_its_files_are_one_table(self, tmp_path, of_store):
        path = written(tmp_path)
        table = pl.read_parquet(path)
        folder = tmp_path / "parts"
        folder.mkdir()
        for k, (start, stop) in enumerate([(0, 100), (100, 100), (100, 103), (103, len(table))]):
            table[start:stop].write_parquet(folder / f"part-{k}.parquet")
        (folder / "notes.txt").write_text("of something else")
        for name in (".draft.parquet", "_metadata.parquet"):
            (folder / name).write_text("not of the table")
        given = f"file://{folder}" if of_store else folder
        burst_file(given, tmp_path / "many.parquet", memory="1GB")
        burst_file(path, tmp_path / "one.parquet", memory="1GB")
        assert pl.read_parquet(tmp_path / "many.parquet").equals(pl.read_parquet(tmp_path / "one.parquet"))

    def test_the_result_of_a_run(self, tmp_path):
        path = written(tmp_path)
        burst_file(path, tmp_path / "scored", memory="1GB")
        burst_file(tmp_path / "scored", tmp_path / "again", memory="1GB")
        again = pl.read_parquet(tmp_path / "again")
        assert again.drop("outlier_score_2", "outlier_2").equals(pl.read_parquet(tmp_path / "scored"))
        assert again["outlier_score_2"].equals(again["outlier_score"])

    def test_every_block_is_that_of_the_table(self, tmp_path):
        table = pl.read_parquet(written(tmp_path))[:30]
        for start in range(0, 30, 7):
            table[start : start + 7].write_parquet(tmp_path / f"part-{start:02d}.parquet")
        (tmp_path / "edges.parquet").unlink()
        found = scan_edges(tmp_path)
        assert [file.rpartition("/")[2] for file in found.files()] == [f"part-{k:02d}.parquet" for k in range(0, 30, 7)]
        for start in range(31):
            for stop in range(start, 31):
                assert found.frame(Block(start, stop)).equals(table[start:stop])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda table: table.drop("target"), "b.parquet: it has no column 'target', unlike a.parquet"),
            (lambda table: table.with_columns(time=pl.lit(0.5)), "'time' is Float64, and Int64 in a.parquet"),
            (lambda table: table.with_columns(more=1), "it has the column 'more', unlike a.parquet"),
            (lambda table: table.select(table.columns[::-1]), "its columns are in another order than in a.parquet"),
        ],
    )
    def test_other_columns_are_an_error(self, tmp_path, change, message):
        folder = tmp_path / "parts"
        folder.mkdir()
        table = pl.read_parquet(written(tmp_path))
        table.write_parquet(folder / "a.parquet")
        change(table).write_parquet(folder / "b.parquet")
        with pytest.raises(ReadError, match=message):
            burst_file(folder, tmp_path / "out.parquet", memory="1GB")

    def test_what_is_no_table_is_an_error(self, tmp_path):
        with pytest.raises(ReadError, match=r"no file whose name ends in \.parquet in this folder"):
            burst_file(tmp_path, tmp_path / "out.parquet", memory="1GB")
        (tmp_path / "a.parquet").write_bytes(b"not parquet")
        with pytest.raises(ReadError, match=r"a\.parquet: this is not a parquet file"):
            burst_file(tmp_path, tmp_path / "out.parquet", memory="1GB")

    def test_a_file_that_is_rewritten_meanwhile_is_an_error(self, tmp_path):
        folder = tmp_path / "parts"
        folder.mkdir()
        table = pl.read_parquet(written(tmp_path))
        for name in ("a.parquet", "b.parquet"):
            table.write_parquet(folder / name)

        def rewrite(done, total, text):
            if text == "looking for bursts":
                table[::-1].write_parquet(folder / "b.parquet")

        with pytest.raises(ReadError, match="the file changed while it was worked on"):
            burst_file(folder, tmp_path / "out.parquet", memory="1GB", callback=rewrite)
        assert not (tmp_path / "out.parquet").exists()

    def test_files_that_come_after_the_scan_are_not_read(self, tmp_path):
        table = pl.read_parquet(written(tmp_path))
        found = scan_edges(tmp_path)
        table.write_parquet(tmp_path / "more.parquet")
        assert scan_edges(tmp_path).n_rows == 2 * found.n_rows
        assert len(found.frame(Block(0, 2 * len(table)))) == len(table)
