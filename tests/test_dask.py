"""A Dask cluster as an engine, on clusters over TCP whose scheduler and workers are processes of their own."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from buckets import column_files, read_columns, some_table
from cluster import Cluster, fail, nap, slow_columns
from filling import burst_file, fill_file
from tdlg import (
    EdgeOutlierDetector,
    PropagationClassifier,
    PropagationFeatures,
    read_edges,
    write_payments,
)
from tdlg.cli import app
from tdlg.engines.executors import check_sees, opened_engine, run_all, workers_of
from tdlg.exceptions import ClusterError, ParameterError, ReadError
from test_same_answers import by_file

pytestmark = pytest.mark.needs("dask")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), 2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def engine(cluster):
    with opened_engine(cluster.address) as engine:
        engine._client.wait_for_workers(2, timeout=60)
        yield engine


@pytest.fixture(scope="module")
def payments(tmp_path_factory):
    path = tmp_path_factory.mktemp("payments") / "payments.parquet"
    write_payments(path, 2000, random_state=2, n_customers=40, n_terminals=20, hubs=1)
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "edges.parquet"
    some_table(3, categories=True).write_parquet(path)
    return path


def columns_of(folder, path, **options):
    edges = read_edges(path, label="label", features=["amount", "kind"])
    features = PropagationFeatures(past_only=True, two_ends="none").fit(edges)
    rows, columns = read_columns(*column_files(folder, path, features, **options), range(1))
    expected = features.transform(edges)[rows["row"]]
    assert np.array_equal(rows["row"], np.flatnonzero(~edges.labelled))
    return columns, expected


class TestACluster:
    def test_results_come_in_order_and_from_both_workers(self, engine):
        assert run_all(engine, abs, [-3, 2, -1]) == [3, 2, 1]
        assert run_all(engine, abs, []) == []
        workers = workers_of(engine)
        assert workers[:2] == (2, 1)
        assert workers.memory > 0
        assert workers.is_cluster
        assert len(set(run_all(engine, nap, [0.2] * 4))) == 2

    def test_the_columns_are_those_of_this_machine(self, engine, tmp_path, table):
        columns, expected = columns_of(tmp_path, table, engine=engine)
        assert np.abs(columns - expected).max() < 1e-10

    def test_files_may_be_on_a_store(self, engine, tmp_path, table):
        (tmp_path / "store").mkdir()
        columns, expected = columns_of(f"file://{tmp_path}/store", table, engine=engine)
        assert np.abs(columns - expected).max() < 1e-10
        assert len(list((tmp_path / "store").iterdir())) > 10

    def test_progress_and_stopping(self, engine):
        seen = []
        run_all(engine, abs, [1, 2, 3], lambda *numbers: seen.append(numbers))
        assert seen[-1] == (3, 3)

        def stop(done, total):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_all(engine, nap, [0.01] * 50, stop)
        assert run_all(engine, abs, [-1]) == [1]

    def test_an_error_of_a_task_is_raised_here(self, engine):
        with pytest.raises(ReadError, match=r"^part 7 is damaged\.$"):
            run_all(engine, fail, ["part 7"])

    def test_an_error_about_a_file_names_it(self, engine, tmp_path):
        with pytest.raises(FileNotFoundError) as error:
            run_all(engine, os.stat, [str(tmp_path / "gone")])
        assert error.value.filename == str(tmp_path / "gone")

    def test_what_a_worker_does_not_see(self, engine, tmp_path):
        check_sees(engine, str(tmp_path))
        with pytest.raises(ParameterError, match=r"2 of 2 workers .* do not see it") as error:
            check_sees(engine, str(tmp_path / "gone"))
        assert error.value.parameter == "engine"

    def test_an_address_opens_an_engine_and_leaves_it(self, cluster):
        with opened_engine(cluster.address) as engine:
            assert run_all(engine, abs, [-1]) == [1]
            client = engine._client
        assert client.status == "closed"

    def test_an_executor_of_a_client_is_used_and_stays_open(self, engine):
        with opened_engine(engine._client.get_executor()) as same:
            assert len(set(run_all(same, nap, [0.2] * 4))) == 2
        assert engine._client.status == "running"


class TestFiles:
    """Whole runs on a cluster give what they give on this machine."""

    def test_classify(self, engine, payments, tmp_path):
        found = []
        for name, where in (("here", None), ("there", engine)):
            model = PropagationClassifier(random_state=0)
            options = {"features": ["amount"], "model": model, "engine": where, "memory": "1GB"}
            answer = fill_file(payments, tmp_path / f"{name}.parquet", label="fraud", **options)
            found.append(pl.read_parquet(tmp_path / f"{name}.parquet"))
            assert answer.n_scored == 200
        here, there = (table["probability"].fill_null(-1.0).to_numpy() for table in found)
        assert np.abs(here - there).max() < 1e-10
        assert found[0].drop("probability").equals(found[1].drop("probability"))
        assert not list(tmp_path.glob(".*"))

    @pytest.mark.parametrize(
        ("name", "setting"),
        [
            ("hubs", "stream, late labels"),
            *(
                pytest.param(*case, marks=pytest.mark.needs("time"))
                for case in [("payments", "forecast, late labels"), ("blocks", "interpolate")]
            ),
        ],
    )
    def test_pinned_answers(self, cluster, engine, name, setting, tmp_path):  # `engine` waits for both workers
        found, tasks, _ = by_file(tmp_path, name, setting, engine=cluster.address)
        here, few, _ = by_file(tmp_path, name, setting)
        assert tasks.n_tasks >= 8 * few.n_tasks
        assert found.equals(here)

    def test_bursts(self, engine, payments, tmp_path):
        burst_file(payments, tmp_path / "scored", engine=engine, memory="1GB")
        scores = pl.read_parquet(tmp_path / "scored")
        expected = EdgeOutlierDetector("burst").fit(read_edges(payments))
        assert np.abs(scores["outlier_score"].to_numpy() + expected.scores_).max() < 1e-5
        assert scores.drop("outlier_score", "outlier").equals(pl.read_parquet(payments))

    def test_a_folder_of_files(self, engine, payments, tmp_path):
        table, folder = pl.read_parquet(payments), tmp_path / "parts"
        folder.mkdir()
        for start in range(0, 2000, 300):
            table[start : start + 300].write_parquet(folder / f"part-{start:06d}.parquet")
        burst_file(folder, tmp_path / "scored", engine=engine, memory="1GB")
        burst_file(tmp_path / "scored", tmp_path / "again", dst="terminal", engine=engine, memory="1GB")
        again = pl.read_parquet(tmp_path / "again")
        assert again.drop("outlier_score", "outlier", "outlier_score_2", "outlier_2").equals(table)
        assert again["outlier_score"].to_list() == pytest.approx(again["outlier_score_2"].to_list())

    def test_on_the_shell(self, cluster, payments, tmp_path):
        path = tmp_path / "out.parquet"
        options = ["--memory", "1GB", "--engine", cluster.address]
        done = CliRunner().invoke(app, ["classify", str(payments), "--label", "fraud", *options, "-o", str(path)])
        assert done.exit_code == 0, done.output
        assert "wrote 2,000 rows" in done.output
        assert pl.read_parquet(path)["probability"].count() == 200
        burst = ["outliers", str(payments), "--method", "burst", *options, "-o", str(tmp_path / "many")]
        done = CliRunner().invoke(app, burst)
        assert done.exit_code == 0, done.output
        assert "method: burst, the only one on disk, bursts of" in done.output
        assert pl.read_parquet(tmp_path / "many").columns[-2:] == ["outlier_score", "outlier"]

    def test_methods_that_need_all_rows_are_refused_on_the_shell(self, payments, tmp_path):
        more = [str(payments), "--engine", "tcp://127.0.0.1:9", "-o", str(tmp_path / "out.parquet")]
        for command, text in (
            (["classify", "--label", "fraud", "--method", "linegraph"], "linegraph cannot run on disk or on a cluster"),
            (["outliers", "--method", "linegraph"], "linegraph cannot run on disk or on a cluster"),
            (["outliers", "--method", "shuffled"], "shuffled cannot run on disk or on a cluster. Use --method burst"),
            (["outliers", "--method", "burst", "--contamination", "0.1"], "it needs all rows in memory at once"),
        ):
            done = CliRunner().invoke(app, [*command, *more])
            assert done.exit_code == 2
            assert text in " ".join(f"{done.output} {done.exception}".replace("│", " ").split()), done.output


def test_engines_that_a_user_asks_for():
    with opened_engine(None, 3) as engine:
        assert isinstance(engine, ThreadPoolExecutor)
        assert workers_of(engine) == (3, 3, None, False)
        with opened_engine(engine) as same:
            assert same is engine
    for wrong in ("somewhere", "nonsense://host", 7):
        with (
            pytest.raises(ParameterError, match=f"must be the address of a Dask scheduler.*Got {wrong!r}") as error,
            opened_engine(wrong),
        ):
            pass
        assert error.value.parameter == "engine"


def test_no_scheduler_at_the_address(monkeypatch):
    monkeypatch.setattr("tdlg.engines.executors.TIMEOUT", 0.3)
    with (
        pytest.raises(ParameterError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9 within 0\.3 s"),
        opened_engine("tcp://127.0.0.1:9"),
    ):
        pass


class TestFaults:
    pytestmark = pytest.mark.needs("time")

    def test_a_killed_worker_costs_its_tasks_and_no_answer(self, tmp_path, table):
        with Cluster(tmp_path, 2) as cluster, opened_engine(cluster.address) as engine:
            engine._client.wait_for_workers(2, timeout=60)
            victim = cluster.workers[0]

            def kill_in_the_middle(done, total):
                begun, ended = ({f.stem for f in tmp_path.glob(f"{victim.pid}-*.{way}")} for way in ("begun", "ended"))
                if done > total / 4 and victim.poll() is None and begun - ended:
                    cluster.kill(victim)

            columns, expected = columns_of(
                tmp_path, table, engine=engine, make=slow_columns, callback=kill_in_the_middle
            )
            assert np.abs(columns - expected).max() < 1e-10
            assert victim.poll() is not None
            begun, ended = ({f.stem for f in tmp_path.glob(f"{victim.pid}-*.{way}")} for way in ("begun", "ended"))
            (lost,) = begun - ended
            assert (tmp_path / f"{cluster.workers[1].pid}{lost.removeprefix(str(victim.pid))}.ended").exists()

    def test_a_worker_killed_in_a_whole_run(self, tmp_path):
        path = tmp_path / "payments.parquet"
        write_payments(path, 20_000, random_state=2)
        classify = {"label": "fraud", "memory": "1GB"}
        fill_file(path, tmp_path / "here.parquet", model=PropagationClassifier(random_state=0), **classify)
        with Cluster(tmp_path, 2) as cluster, opened_engine(cluster.address) as engine:
            engine._client.wait_for_workers(2, timeout=60)

            def kill(done, total, text):
                if text == "making columns" and done and cluster.workers[0].poll() is None:
                    cluster.kill(cluster.workers[0])

            model = PropagationClassifier(random_state=0)
            fill_file(path, tmp_path / "there.parquet", model=model, engine=engine, callback=kill, **classify)
            assert cluster.workers[0].poll() is not None
        here, there = (pl.read_parquet(tmp_path / f"{name}.parquet")["probability"] for name in ("here", "there"))
        assert np.abs((here - there).to_numpy()[-2000:]).max() < 1e-10

    def test_after_a_lost_cluster_nothing_is_left(self, tmp_path):
        path, output = tmp_path / "payments.parquet", tmp_path / "out.parquet"
        write_payments(path, 20_000, random_state=2)
        with Cluster(tmp_path, 1) as cluster:

            def lose(done, total, text):
                if text == "looking for bursts" and done and cluster.scheduler.poll() is None:
                    cluster.kill(cluster.scheduler)

            with pytest.raises(ClusterError, match="was lost"):
                burst_file(path, output, engine=cluster.address, memory="1GB", callback=lose)
        assert not output.exists()
        assert not (tmp_path / ".out.parquet.tdlg-work").exists()
        burst_file(path, output, memory="1GB")
        assert pl.read_parquet(output)["outlier_score"].count() == 20_000

    def test_a_lost_scheduler(self, tmp_path):
        with Cluster(tmp_path, 1) as cluster, opened_engine(cluster.address) as engine:

            def lose(done, total):
                if done and cluster.scheduler.poll() is None:
                    cluster.kill(cluster.scheduler)

            with pytest.raises(ClusterError, match=r"The connection to the scheduler at tcp.* was lost") as error:
                run_all(engine, nap, [0.05] * 40, lose)
            assert "Start the cluster again, and run again" in error.value.hint

    def test_no_worker_at_the_start_and_none_left(self, tmp_path, monkeypatch):
        with Cluster(tmp_path) as cluster:
            with monkeypatch.context() as patched:
                patched.setattr("tdlg.engines.executors.TIMEOUT", 0.5)
                with (
                    pytest.raises(ClusterError, match=r"has no workers\. Start some with: dask worker tcp://127"),
                    opened_engine(cluster.address),
                ):
                    pass
            cluster.start_worker()
            monkeypatch.setattr("tdlg.engines.executors.PATIENCE", 5)
            with opened_engine(cluster.address) as engine:

                def lose(done, total):
                    if cluster.workers[0].poll() is None:
                        cluster.kill(cluster.workers[0])

                with pytest.raises(ClusterError, match="has no workers"):
                    run_all(engine, nap, [0.1] * 40, lose)

    def test_a_task_that_kills_its_workers(self, tmp_path):
        with Cluster(tmp_path) as cluster:
            for _ in range(4):
                cluster.start_worker()
            with opened_engine(cluster.address) as engine:
                engine._client.wait_for_workers(4, timeout=60)
                with pytest.raises(
                    ClusterError, match=r"A task \(_exit\) failed because 4 workers died while they ran it"
                ):
                    run_all(engine, os._exit, [1])

    def test_other_versions_are_refused(self, tmp_path):
        """A worker that finds another version of the package first, at the start and as a late guest."""
        for name, version in (("tdlg", "0.0.9"), ("polars", "0.1.0")):
            about = tmp_path / name / f"{name}-{version}.dist-info"
            about.mkdir(parents=True)
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        with Cluster(tmp_path) as cluster:
            cluster.start_worker(path=[tmp_path / "tdlg"])
            with (
                pytest.raises(ClusterError, match=r"tdlg is 0\.1\.0 here and 0\.0\.9 on worker tcp://127") as error,
                opened_engine(cluster.address),
            ):
                pass
            assert "Install the same versions" in error.value.hint
            cluster.kill(cluster.workers[0])
            cluster.start_worker()
            with opened_engine(cluster.address) as engine:
                cluster.start_worker(path=[tmp_path / "polars"])
                engine._client.wait_for_workers(2, timeout=60)
                with pytest.raises(ClusterError, match=r"worker that joined .* polars is .* here and 0\.1\.0 on"):
                    run_all(engine, nap, [0.2] * 8)
