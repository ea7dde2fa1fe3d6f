"""Files that are classified in blocks and buckets get the answers of the classifier in memory."""

import os
import pickle
import re
import resource
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from limited import run_limited
from tdlg import PropagationClassifier, classify_file, outliers_file, read_edges, write_payments
from tdlg.cli import cost
from tdlg.cli.app import app
from tdlg.cli.cost import FileShape, file_cost
from tdlg.engines import file_run, sizes, store, summary, work_folder
from tdlg.engines.summary import Clock
from tdlg.exceptions import EdgesError, ParameterError, ReadError, TooLargeError
from tdlg.models import classify_file as module
from tdlg.models import propagation, training
from tdlg.propagate.own_features import fit_own
from tdlg.sampling import rows

N = 2000


@pytest.fixture(scope="module")
def payments(tmp_path_factory):
    """Payments with a category of many values, and one of few."""
    path = tmp_path_factory.mktemp("payments") / "payments.parquet"
    write_payments(path, N, random_state=2, n_customers=40, n_terminals=20, hubs=1)
    rng = np.random.default_rng(0)
    table = pl.read_parquet(path).with_columns(
        pl.Series("mcc", [f"code {k}" for k in rng.integers(0, 30, N)]),
        pl.Series("channel", rng.choice(["web", "shop"], N)),
        pl.col("time") + pl.Series(rng.permutation(N)).cast(pl.Duration("ms")),  # no two at the same time
    )
    table.sort("time").write_parquet(path)
    return path


SETTINGS = training.boosting_settings


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    """Fewer trees than usual, which take less time."""
    monkeypatch.setattr(training, "boosting_settings", lambda *of: SETTINGS(*of) | {"max_iter": 20})


@pytest.fixture
def small(monkeypatch):
    """Blocks and buckets of a few hundred rows."""
    monkeypatch.setattr(sizes, "MOST_BLOCK", 700)
    monkeypatch.setattr(sizes.Sizes, "n_buckets", lambda *_: 4)
    monkeypatch.setattr(sizes.Sizes, "scored_rows", lambda *_: 100)


def classified(path, folder, **options):
    answer = classify_file(path, folder / "out.parquet", label="fraud", memory="2GB", **options)
    return answer, pl.read_parquet(folder / "out.parquet")


@pytest.mark.parametrize(
    ("setting", "options"),
    [
        ("forecast", {}),
        ("forecast", {"features": ["amount", "mcc"], "bipartite": True}),
        ("stream", {"label_time": "known", "features": ["amount", "channel"]}),
        ("interpolate", {"features": ["amount"]}),
    ],
)
def test_answers_are_those_in_memory(payments, tmp_path, small, setting, options):
    table = pl.read_parquet(payments)
    if setting == "interpolate":
        table = table.with_columns(pl.when(pl.int_range(N) % 10 > 0).then(pl.col("fraud").fill_null(0)))
        payments = tmp_path / "gaps.parquet"
        table.write_parquet(payments)
    parameters = {"random_state": 0, "scales": ["60d", "10d", "1d"]}
    answer, filled = classified(payments, tmp_path, model=PropagationClassifier(**parameters), **options)
    edges = read_edges(payments, label="fraud", **options)
    model = PropagationClassifier(**parameters, two_ends=False).fit(edges)
    assert answer.model.setting_ == model.setting_ == setting
    assert answer.model.setting_reason_ == model.setting_reason_
    assert answer.model.features_.get_feature_names_out().tolist() == model.features_.get_feature_names_out().tolist()
    assert filled.drop("predicted", "probability").equals(table)
    to_fill = table["fraud"].is_null().to_numpy()
    assert np.array_equal(filled["probability"].is_null(), ~to_fill)
    expected = model.predict_proba(edges[to_fill])[:, 1]
    found = filled["probability"].to_numpy()[to_fill]
    assert np.abs(found - expected).max() < 1e-6
    assert filled["predicted"].dtype == pl.Int64
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("setting", ["forecast", "stream", "interpolate"])
def test_answers_are_those_in_memory_above_what_is_kept(payments, tmp_path, small, monkeypatch, setting):
    """Statistics are those of the same rows, and the trees learn from the same sample."""
    for kept in (rows, summary):
        monkeypatch.setattr(kept, "KEPT", 600)
    monkeypatch.setattr(sizes, "MOST_ROWS", 800)
    monkeypatch.setattr(training, "MOST_ROWS", 800)
    parameters = {"random_state": 3, "setting": setting}
    options = {"features": ["amount", "mcc", "channel"]}
    answer, filled = classified(payments, tmp_path, model=PropagationClassifier(**parameters), **options)
    edges = read_edges(payments, label="fraud", **options)
    model = PropagationClassifier(**parameters, two_ends=False).fit(edges)
    assert answer.model.n_rows_ == model.n_rows_ < model.n_rows_sampled_from_
    assert answer.model.n_rows_sampled_from_ == model.n_rows_sampled_from_
    assert answer.model.features_.plan_.own == model.features_.plan_.own
    expected = model.predict_proba(edges[~edges.labelled])[:, 1]
    assert np.abs(filled["probability"].to_numpy()[~edges.labelled] - expected).max() < 1e-6


def test_the_model_of_a_file_refuses_what_needs_edges(payments, tmp_path):
    model = classified(payments, tmp_path)[0].model
    edges = read_edges(payments, label="fraud")
    for use in (model.predict_proba, model.predict, model.scored, model.explain, model.score):
        with pytest.raises(EdgesError, match="fitted by classify_file and holds no edges"):
            use(edges)
    with pytest.raises(EdgesError, match="holds no edges"):
        model.save(tmp_path / "model.tdlg")
    assert not (tmp_path / "model.tdlg").exists()


def test_time_scales_and_words_as_labels(payments, tmp_path, small):
    table = pl.read_parquet(payments).with_columns(
        pl.col("fraud").replace_strict({0: "fine", 1: "fraud"}, return_dtype=pl.String).fill_null("?")
    )
    table.write_parquet(tmp_path / "words.parquet")
    answer, filled = classified(
        tmp_path / "words.parquet",
        tmp_path,
        classes=lambda values: ([None if word == "?" else word for word in values], None),
    )
    edges = read_edges(payments, label="fraud")
    model = PropagationClassifier(two_ends=False).fit(edges)
    assert answer.model.features_.scale_names_ == model.features_.scale_names_
    assert (answer.n_rows, answer.n_known, answer.n_scored) == (N, 1800, 200)
    assert set(filled["predicted"].drop_nulls()) <= {"fine", "fraud"}
    assert answer.model.positive_ == "fraud"


def test_probabilities_from_a_sample_are_calibrated(tmp_path, monkeypatch):
    path = tmp_path / "payments.parquet"
    write_payments(path, 30_000, random_state=4, unlabelled=0.0)
    truth = pl.read_parquet(path)
    rng = np.random.default_rng(1)
    truth.with_columns(pl.when(pl.Series(rng.random(30_000) < 0.6)).then("fraud")).write_parquet(path)
    monkeypatch.setattr(sizes, "MOST_ROWS", 3000)
    monkeypatch.setattr(training, "boosting_settings", SETTINGS)
    answer, filled = classified(path, tmp_path, model=PropagationClassifier(random_state=0))
    assert answer.model.n_rows_ < 3300 < answer.model.n_rows_sampled_from_
    unknown = filled.filter(pl.col("probability").is_not_null())
    actual = truth.filter(filled["probability"].is_not_null())["fraud"]
    assert 0.7 < unknown["probability"].mean() / actual.mean() < 1.4
    likely = unknown["probability"].to_numpy() > 0.2
    assert 0.6 < unknown["probability"].to_numpy()[likely].mean() / actual.to_numpy()[likely].mean() < 1.6


def test_columns_are_made_in_rounds_if_the_disk_allows_no_more(payments, tmp_path, small, monkeypatch):
    table = pl.read_parquet(payments).with_columns(pl.when(pl.int_range(N) % 3 > 0).then("fraud"))
    payments = tmp_path / "gaps.parquet"
    table.write_parquet(payments)
    model = PropagationClassifier(random_state=0)
    _, whole = classified(payments, tmp_path, model=model)
    monkeypatch.setattr(sizes, "MOST_DISK", 1)
    monkeypatch.setattr(sizes, "SMALL", 1)
    monkeypatch.setattr(sizes, "LEAST_ROWS", N)
    said = []
    options = {"callback": lambda done, total, text: said.append(text)}
    _, again = classified(payments, tmp_path, model=PropagationClassifier(random_state=0), **options)
    assert whole.equals(again)
    assert "scoring" in said[: len(said) - said[::-1].index("making columns")]  # more than once


class Killed(BaseException):
    """What ends a run as if its process were killed."""


def kill(done, total, text):
    if text.startswith("fitting"):
        raise Killed


@pytest.mark.parametrize("random_state", [0, None])
def test_a_killed_run_goes_on_from_its_files(payments, tmp_path, monkeypatch, random_state):
    """The first run is killed after the columns were made; the second one writes no bucket and no column again."""
    model = PropagationClassifier(random_state=random_state)
    monkeypatch.setattr(work_folder, "remove_folder", lambda folder: None)  # a killed process removes nothing
    with pytest.raises(Killed):
        classified(payments, tmp_path, model=model, callback=kill)
    monkeypatch.undo()
    work = tmp_path / ".out.parquet.tdlg-work"
    left = {file.name: file.stat().st_mtime_ns for file in work.glob("*/*")}
    assert {name.split("-")[0] for name in left} == {"bucket", "columns"} | (
        {"seed"} if random_state is None else set()
    )
    seed = random_state if random_state is not None else int(next(work.glob("*/seed")).read_text())
    seen = {}

    def look(done, total, text):
        if text.startswith("fitting"):
            seen.update({file.name: file.stat().st_mtime_ns for file in work.glob("*/*")})

    answer, filled = classified(payments, tmp_path, model=model, callback=look)
    assert {name: seen[name] for name in left} == left
    assert not work.exists()
    assert filled["probability"].count() == N // 10
    assert (model.random_state, answer.model.random_state) == (random_state, seed)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_temporary_files_are_private(payments, tmp_path, monkeypatch):
    work, modes = tmp_path / ".out.parquet.tdlg-work", {}

    def look(done, total, text):
        modes.update(
            {file.name.partition("-")[0]: stat.S_IMODE(file.stat().st_mode) for file in work.glob("*/model-*")}
        )
        modes["folder"] = stat.S_IMODE(work.stat().st_mode)

    classified(payments, tmp_path, callback=look)
    assert modes == {"model": 0o600, "folder": 0o700}
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(
        ParameterError, match=r"out\.parquet\.tdlg-work: this folder is of another user.*Remove it, or pass"
    ):
        classified(payments, tmp_path)


@pytest.mark.parametrize("case", ["killed long ago", "still working", "unknown"])
def test_files_of_killed_runs_on_a_store_are_removed_by_the_next_one(payments, tmp_path, monkeypatch, case):
    """A store has no locks: files of a run with other parameters stay until a run succeeds a day after their last one."""
    if case == "unknown":
        monkeypatch.setattr(store, "TIMES", ())
    store_folder = tmp_path / "store"
    options = {"label": "fraud", "memory": "2GB", "folder": f"file://{store_folder}"}
    others = []

    def leave(done, total, text):
        if text.startswith("fitting"):
            (work,) = store_folder.iterdir()
            others.append(work / "0123456789abcdef" / "bucket-0-000000")
            others[0].parent.mkdir()
            for name in ("bucket-0-000000", "bucket-0-000001"):
                others[0].with_name(name).write_bytes(b"of another run")
                os.utime(others[0].with_name(name), (0, 0))
            if case == "still working":
                os.utime(others[0])
            raise Killed

    with pytest.raises(Killed):
        classify_file(payments, tmp_path / "out.parquet", callback=leave, **options)
    assert {file.parent for file in store_folder.rglob("*") if file.is_file()} == {others[0].parent}
    classify_file(payments, tmp_path / "out.parquet", **options)
    if case == "killed long ago":
        assert not list(store_folder.iterdir())
    else:
        assert len([file for file in store_folder.rglob("*") if file.is_file()]) == 2


def test_equal_runs_on_a_store_may_choose_different_seeds(payments, tmp_path, monkeypatch):
    """The second run starts after the first one chose its seed, does not see it, and leaves columns and scores."""
    monkeypatch.setattr(sizes, "MOST_ROWS", 500)
    options = {"label": "fraud", "memory": "2GB", "folder": f"file://{tmp_path}/store"}

    def kill(done, total, text):
        if text == "writing":
            raise Killed

    def again(done, total, text):
        if text == "reading":
            for file in (tmp_path / "store").rglob("seed"):
                file.unlink()
            with monkeypatch.context() as patched:
                patched.setattr(work_folder, "remove_folder", lambda folder: None)
                patched.setattr(module, "remove_file", lambda path: None)
                with pytest.raises(Killed):
                    classify_file(payments, tmp_path / "out.parquet", callback=kill, **options)

    answer = classify_file(payments, tmp_path / "out.parquet", callback=again, **options)
    beside = pl.read_parquet(tmp_path / "out.parquet")
    _, alone = classified(payments, tmp_path, model=PropagationClassifier(random_state=answer.model.random_state))
    assert beside.equals(alone)


@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_outputs_of_the_same_name_may_share_a_folder(payments, tmp_path, address):
    options = {"label": "fraud", "memory": "2GB", "folder": address.format(tmp_path / "work")}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    def again(done, total, text):
        if text == "making columns" and not done:
            classify_file(payments, tmp_path / "two" / "out.parquet", **options)

    classify_file(payments, tmp_path / "one" / "out.parquet", callback=again, **options)
    assert all((tmp_path / name / "out.parquet").exists() for name in ("one", "two"))
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("random_state", [np.random.default_rng(3), np.random.RandomState(3)])
def test_any_random_state(payments, tmp_path, random_state):
    model = PropagationClassifier(random_state=random_state)
    assert isinstance(classified(payments, tmp_path, model=model)[0].model.random_state, int)


def test_files_of_another_version_of_an_input_on_a_store_are_not_used(payments, tmp_path, monkeypatch):
    table = pl.read_parquet(payments)
    options = {"label": "fraud", "memory": "2GB", "model": PropagationClassifier(random_state=0)}
    path, output = tmp_path / "payments.parquet", tmp_path / "out.parquet"
    table.write_parquet(path)
    with monkeypatch.context() as patched:
        patched.setattr(work_folder, "remove_folder", lambda folder: None)
        with pytest.raises(Killed):
            classify_file(f"file://{path}", output, callback=kill, **options)
    table.reverse().write_parquet(path)
    classify_file(f"file://{path}", output, **options)
    found = pl.read_parquet(output)
    classify_file(path, output, **options)
    assert found.equals(pl.read_parquet(output))


@pytest.mark.parametrize(("factor", "resumes"), [(0.8, True), (1.3, True), (0.2, False)])
def test_a_killed_run_goes_on_though_other_memory_is_free(payments, tmp_path, monkeypatch, factor, resumes):
    def written(names):
        return {name: os.stat(name).st_mtime_ns for name in names}

    monkeypatch.setattr(work_folder, "remove_folder", lambda folder: None)
    options = {"label": "fraud", "model": PropagationClassifier(random_state=0), "callback": kill}
    seen = []
    for now in (10**10, int(factor * 10**10)):
        monkeypatch.setattr(sizes, "free_bytes", lambda now=now: now)
        with pytest.raises(Killed):
            classify_file(payments, tmp_path / "out.parquet", **options)
        seen.append(written((tmp_path / ".out.parquet.tdlg-work").glob("*/bucket-*")))
    assert seen[0]
    assert (seen[0] == seen[1]) is resumes


def test_two_runs_do_not_share_a_folder(payments, tmp_path):
    def again(done, total, text):
        if text == "sorting into buckets":
            classified(payments, tmp_path)

    with pytest.raises(ParameterError, match="another process works in this folder"):
        classified(payments, tmp_path, callback=again)


def test_a_process_above_its_limit_is_killed(tmp_path):
    hungry = [sys.executable, "-c", "import time; some = b'x' * 200_000_000; time.sleep(60)"]
    ended = run_limited(hungry, 100_000_000)
    assert ended.code == -9
    assert ended.peak_bytes > 100_000_000


@pytest.mark.needs("time")
@pytest.mark.parametrize(
    ("n", "n_terminals", "more"),
    [(2_000_000, 20_000, ["--bipartite"]), (700_000, 1, ["--bipartite"]), (800_000, 1, [])],
)
def test_the_limit_of_memory_holds(tmp_path, n, n_terminals, more):
    """The process is killed above the memory that it was given, also if one terminal has all payments."""
    table, output = tmp_path / "payments.parquet", tmp_path / "out.parquet"
    write_payments(table, n, random_state=0, n_terminals=n_terminals)
    options = ["--label", "fraud", *more, "--memory", "1GB", "-o", str(output)]
    ended = run_limited([sys.executable, "-m", "tdlg", "classify", str(table), *options], 2**30)
    assert ended.code == 0
    assert pl.scan_parquet(output).select(pl.col("probability").count()).collect().item() == n // 10


def test_files_of_another_run_are_not_used(payments, tmp_path):
    work = tmp_path / ".out.parquet.tdlg-work"
    work.mkdir()
    (work / "run").write_text("another")
    (work / "bucket-0-000000").write_bytes(b"of another run")
    classified(payments, tmp_path)
    assert not work.exists()


def test_what_is_raised_leaves_nothing_behind(payments, tmp_path, monkeypatch):
    def stop(done, total, text):
        if text == "making columns":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        classified(payments, tmp_path, callback=stop)
    assert not list(tmp_path.iterdir())

    def full(file, view):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_write_all", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*out.parquet.tdlg-work/[0-9a-f]+/bucket-0"):
        classified(payments, tmp_path, model=PropagationClassifier(random_state=0))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out"])
def test_a_disk_that_is_full_when_the_result_is_written(payments, tmp_path, monkeypatch, name):
    """The system refuses larger files, as it refuses files on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def shrink(done, total, text):
        if text == "writing":
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))

    (tmp_path / "result").mkdir()
    try:
        with pytest.raises(OSError, match=rf"File too large: '.*/result/\.?{name}"):
            classify_file(payments, tmp_path / "result" / name, label="fraud", memory="2GB", callback=shrink)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "result").iterdir())


def test_what_is_raised_while_the_result_is_written(payments, tmp_path):
    def stop(done, total, text):
        if text == "writing" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        classified(payments, tmp_path, callback=stop)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out", "file://{}/out"])
@pytest.mark.parametrize("when", ["making columns", "writing"])
@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_an_input_that_changes_meanwhile_is_an_error(payments, tmp_path, name, when, address):
    (home := tmp_path / "result").mkdir()
    table = pl.read_parquet(payments)
    table.write_parquet(path := tmp_path / "payments.parquet")

    def change(done, total, text):
        if text == when and done == total:
            table.reverse().write_parquet(path)

    output = name.format(home) if "://" in name else home / name
    with pytest.raises(ReadError, match=r"payments.parquet: the file changed while it was worked on\. Run again"):
        classify_file(address.format(path), output, label="fraud", memory="2GB", callback=change)
    assert not list(home.iterdir())
    classify_file(address.format(path), output, label="fraud", memory="2GB")
    assert list(home.iterdir())


def test_too_little_disk_or_memory_is_said_first(payments, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(file_run, "free_on_disk", lambda folder: 1000)
    with pytest.raises(
        TooLargeError, match=r"the temporary files and the result need .* MB, and the disk has 1 kB free"
    ):
        classified(payments, tmp_path, callback=lambda *of: said.append(of[2]))
    assert set(said) == {"reading"}
    monkeypatch.setattr(file_run, "same_disk", lambda *_: False)
    with pytest.raises(
        TooLargeError, match=r"tdlg-work/\w+: the temporary files need .* MB, and the disk has 1 kB free"
    ):
        classified(payments, tmp_path)
    monkeypatch.setattr(file_run, "free_on_disk", lambda folder: 10**9 if "tdlg-work" in folder else 1000)
    with pytest.raises(TooLargeError, match=rf"{tmp_path}: the result needs .* kB, and the disk has 1 kB free"):
        classified(payments, tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(sizes, "BASE", 1_999_800_000)
    monkeypatch.setattr(sizes.Sizes, "n_buckets", lambda *_: 2)
    with pytest.raises(TooLargeError, match=r"A bucket by \w+ has [\d,]+ edges.*Pass at least memory='2.1GB'"):
        classified(payments, tmp_path)


@pytest.fixture
def one_terminal(tmp_path):
    """Payments that are all at one terminal."""
    path = tmp_path / "one.parquet"
    write_payments(path, N, random_state=0, n_terminals=1)
    return path


def test_only_matches_that_are_used_have_to_fit(one_terminal, tmp_path, monkeypatch):
    """Matches of sources with destinations need twice the memory, and are used if an id is at both ends."""
    monkeypatch.setattr(sizes, "BASE", 2_000_000_000 - 1_500_000)
    model = PropagationClassifier(random_state=0)
    _, filled = classified(one_terminal, tmp_path, model=model)
    assert filled.equals(classified(one_terminal, tmp_path, model=model, bipartite=True)[1])
    table = pl.read_parquet(one_terminal)
    shared = table.with_columns(customer=pl.concat([table["terminal"][:1], table["customer"][1:]]))
    shared.write_parquet(tmp_path / "shared.parquet")
    with pytest.raises(TooLargeError, match=r"A bucket by dst has 2,000 edges, which need 1\.48 MB of memory"):
        classified(tmp_path / "shared.parquet", tmp_path)


@pytest.mark.parametrize("work", ["classify", "outliers"])
def test_the_memory_that_is_suggested_is_enough(one_terminal, tmp_path, monkeypatch, work):
    monkeypatch.setattr(sizes, "BASE", 999_900_000)
    monkeypatch.setattr(sizes, "LIMIT_STEP", 1000)
    done = {
        "classify": lambda memory: classify_file(one_terminal, tmp_path / "out.parquet", label="fraud", memory=memory),
        "outliers": lambda memory: outliers_file(one_terminal, tmp_path / "out.parquet", memory=memory),
    }[work]
    with pytest.raises(TooLargeError, match=r"With a limit of 1 GB, a bucket may need 70 kB") as error:
        done("1GB")
    enough = re.search("Pass at least memory='(.*)'", str(error.value))[1]
    done(enough)
    with pytest.raises(TooLargeError):
        done(sizes.as_bytes(enough) - 2000)


def test_a_large_bucket_is_worked_on_alone(payments, tmp_path, small, monkeypatch):
    monkeypatch.setattr(sizes, "BASE", 1_999_600_000)
    seen = []
    map_buckets = module.map_buckets
    monkeypatch.setattr(module, "map_buckets", lambda *of: (seen.append(of[2][0].buckets.alone), map_buckets(*of)))
    filled = classified(payments, tmp_path, model=PropagationClassifier(n_threads=2))[1]
    assert 0 < len(seen[0]) < 4
    assert filled["probability"].count() == N // 10


def test_the_model_is_sent_once(payments, tmp_path, small):
    sent = []

    class Sending(ThreadPoolExecutor):
        def submit(self, *of):
            sent.append(pickle.dumps(of))
            return super().submit(*of)

    with Sending(1) as engine:
        answer, _ = classified(payments, tmp_path, engine=engine)
    assert len(pickle.dumps(answer.model)) > 10_000
    assert max(map(len, sent)) < 5000


def test_words_for_a_missing_label_are_counted(payments, tmp_path, small):
    table = pl.read_parquet(payments).with_columns(fraud=pl.col("fraud").fill_null(2))
    table.write_parquet(tmp_path / "words.parquet")
    seen = []
    setup = module.set_up
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "set_up", lambda *of: seen.append(setup(*of)) or seen[0])
        classified(
            tmp_path / "words.parquet", tmp_path, classes=lambda values: ([v if v < 2 else None for v in values], None)
        )
    assert seen[0].missing.tolist() == [0, 0, 200]


def test_what_cannot_be_done_is_an_error(payments, tmp_path):
    with pytest.raises(ParameterError, match=r"all edges in memory at once.*Leave out two_ends"):
        classified(payments, tmp_path, model=PropagationClassifier(two_ends=True))
    with pytest.raises(ParameterError, match="'estimator' cannot be chosen"):
        classified(payments, tmp_path, model=PropagationClassifier("something"))
    with pytest.raises(ParameterError, match=r"'memory' must be a size of at least 1 GB.*Got '3MB'"):
        classify_file(payments, tmp_path / "out.parquet", label="fraud", memory="3MB")
    with pytest.raises(ParameterError, match=r"written as .parquet or .csv"):
        classify_file(payments, tmp_path / "out.jsonl", label="fraud")
    with pytest.raises(EdgesError, match="only 1 class"):
        classified(payments, tmp_path, classes=lambda values: ([1 for _ in values], None))
    with pytest.raises(EdgesError, match=r"numbers with a fraction, such as 0.5.*Make groups of them with classes="):
        classified(payments, tmp_path, classes=lambda values: ([value / 2 for value in values], None))
    full = tmp_path / "full.parquet"
    pl.read_parquet(payments).with_columns(pl.col("fraud").fill_null(0)).write_parquet(full)
    with pytest.raises(ParameterError, match="No label is missing in the column 'fraud': there is nothing to fill in"):
        classified(full, tmp_path)
    result = run(full, "--label", "fraud", "--memory", "2GB", "-o", tmp_path / "out.parquet")
    assert result.exit_code == 1
    assert "there is nothing to fill in" in " ".join(result.stderr.split())
    with pytest.raises(EdgesError, match="nothing to learn from"):
        classified(payments, tmp_path, classes=lambda values: ([None for _ in values], None))


def test_csv_as_output(payments, tmp_path):
    classify_file(payments, tmp_path / "out.csv", label="fraud", memory="2GB")
    filled = pl.read_csv(tmp_path / "out.csv")
    assert filled["probability"].count() == N // 10


# ---- on the command line


def run(*arguments):
    return CliRunner().invoke(app, ["classify", *map(str, arguments)])


def test_memory_on_the_command_line(payments, tmp_path):
    output = tmp_path / "out.parquet"
    result = run(
        payments, "--label", "fraud", "--memory", "2GB", "-o", output, "--features", "amount", "--positive", "0"
    )
    assert result.exit_code == 0, result.output
    assert f"read {N:,} edges; {9 * N // 10:,} known labels, {N // 10} missing" in result.stderr
    assert "processing on disk, without the similarity features" in result.stderr
    assert "setting: forecast" in result.stderr
    assert '"probability" is the probability of fraud = 0\n' in result.stderr
    filled = pl.read_parquet(output)
    assert filled["probability"].count() == N // 10
    assert filled["probability"].mean() > 0.5


@pytest.mark.parametrize("options", [["--memory", "2GB"], []])
def test_a_folder_on_the_command_line(payments, tmp_path, options):
    folder, output = tmp_path / "parts", tmp_path / "out.parquet"
    folder.mkdir()
    table = pl.read_parquet(payments)
    for start in range(0, N, N // 4):
        table[start : start + N // 4].write_parquet(folder / f"part-{start:06d}.parquet")
    (folder / "_SUCCESS").touch()
    result = run(folder, "--label", "fraud", *options, "-o", output)
    assert result.exit_code == 0, result.output
    assert f"read {N:,} edges" in result.stderr
    assert pl.read_parquet(output).select(table.columns).equals(table)
    result = CliRunner().invoke(app, ["info", str(folder), "--label", "fraud", *options])
    assert f"{N:,}, read in blocks" in result.output
    result = run(folder, "--label", "fraud", *options)
    assert f"a file is needed {'with --memory' if options else 'for a folder'}" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (
            ["classify", "--label", "fraud", "--method", "rows"],
            "Without --method rows, a parquet file",
        ),
        (["outliers"], "With --method burst, a parquet file is worked on in blocks"),
        (["outliers", "--method", "rows"], "With --method burst"),
        (["embed", "--dim", "4"], "A smaller --dim needs less"),
        (["links"], ""),
        (["links", "--method", "rows"], ""),
        (["rank", "--node", "c1"], ""),
        (["compare", "--label", "fraud"], ""),
        (["backtest", "--label", "fraud", "--every", "7d"], ""),
    ],
)
@pytest.mark.parametrize("name", ["payments.parquet", "payments.csv"])
def test_what_does_not_fit_is_refused_before_it_is_read(payments, tmp_path, monkeypatch, command, instead, name):
    path = tmp_path / name
    frame = pl.concat([pl.read_parquet(payments).select("customer", "terminal", "time", "fraud")] * 60)
    frame.write_parquet(path) if name.endswith("parquet") else frame.write_csv(path)
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: 400_000_000)
    monkeypatch.setattr("tdlg.cli.table._frame", None)  # is not called
    result = CliRunner().invoke(app, [command[0], str(path), *command[1:]])
    said = " ".join(result.stderr.split())
    assert result.exit_code == 1, result.output
    assert re.search(r"[\d,]{7} rows need about [\d.]+ [MG]B of memory, and [\d.]+ [MG]B are free", said)
    assert instead in said


def test_what_fits_is_said_and_can_be_done(payments, tmp_path, monkeypatch):
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: int(5e8 + 2750 * 1510))
    monkeypatch.setattr("tdlg.cli.files.ROUND", 100)
    result = CliRunner().invoke(app, ["rank", str(payments), "--node", "c1"])
    command = re.search(r"The last 1,500 rows fit: python -c '(.*)'", " ".join(result.stderr.split()))
    assert command is not None, result.stderr
    subprocess.run([sys.executable, "-c", command[1]], check=True, cwd=tmp_path)
    assert pl.read_parquet(tmp_path / "part.parquet").equals(pl.read_parquet(payments).tail(1500))


def test_small_tables_need_little(payments, tmp_path, monkeypatch):
    """Neither the rows to learn from nor those of a text file are overestimated."""
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: 600_000_000)
    wide = pl.read_parquet(payments).head(60).with_columns(note=pl.lit("x" * 3000))
    wide.write_csv(tmp_path / "few.csv")
    result = CliRunner().invoke(app, ["outliers", str(tmp_path / "few.csv"), "-o", str(tmp_path / "out.csv")])
    assert result.exit_code == 0, result.output
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: 380_000_000)
    result = CliRunner().invoke(app, ["outliers", str(tmp_path / "few.csv")])
    assert re.search(r"about (5\d|6\d) rows need about 380 MB", " ".join(result.stderr.split()))


@pytest.mark.parametrize("n", [1000, 300_000, 5_000_000])
def test_as_many_rows_fit_as_are_said(n):
    for needs in (cost.LEARNING, cost.RANKING, cost.SCORING, cost.LINE_GRAPH, cost.vectors(16)):
        assert abs(needs.n_rows(needs.bytes(n)) - n) <= 1


def test_a_large_table_goes_by_way_of_files(payments, tmp_path, monkeypatch):
    monkeypatch.setattr(propagation, "MOST_TWO_ENDS", N - 1)
    result = run(payments, "--label", "fraud", "-o", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    assert "processing on disk" in result.stderr
    result = run(payments, "--label", "fraud", "-o", tmp_path / "out.parquet", "--two-ends")
    assert result.exit_code == 2
    assert "Leave out --two-ends" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory", "2GB"], "a file is needed with --memory"),
        (["--memory", "2GB", "-o", "out.parquet", "--save", "m.tdlg"], "--save: it needs all rows in memory at once"),
        (["--memory", "2GB", "-o", "out.parquet", "--two-ends"], "Leave out --two-ends"),
        (["--memory", "much", "-o", "out.parquet"], "must be a size of at least 1 GB, such as '2GB'"),
        (["--memory", "2GB", "--method", "rows"], "rows cannot run on disk"),
        (["--memory", "2GB", "-o", "out.parquet", "--positive", "> 3"], "holds for no known label"),
    ],
)
def test_what_cannot_be_done_with_memory(payments, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    result = run(payments, "--label", "fraud", *options)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


def test_a_text_file_that_does_not_fit_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "edges.csv"
    path.write_text("src,dst,time,label\na,b,1,0\n")
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: 100)
    result = run(path, "--label", "label", "-o", tmp_path / "out.csv")
    assert result.exit_code == 1
    assert "Write it as parquet" in result.stderr


def test_both_ends_of_very_many_edges_are_left_out(payments, monkeypatch):
    edges = read_edges(payments, label="fraud")[:600]
    monkeypatch.setattr(propagation, "MOST_TWO_ENDS", 599)
    assert not PropagationClassifier().fit(edges).two_ends_
    with pytest.raises(ParameterError, match=r"too slow for 600 edges.*at most 599.*Leave out two_ends"):
        PropagationClassifier(two_ends=True).fit(edges)
    with pytest.raises(ParameterError, match=r"must be True, False or 'auto'. Got 'some'"):
        PropagationClassifier(two_ends="some").fit(edges)


def test_temporary_files_are_predicted_within_a_factor_of_two(payments, tmp_path):
    clock = Clock("ms", "i8", 0, 15_638_400_000, 1000)
    for features in ([], ["amount"], ["amount", "mcc", "channel"]):
        answer, _ = classified(payments, tmp_path, features=features)
        edges = read_edges(payments, features=features)
        predicted = file_cost(FileShape(N, N // 10, clock, own=tuple(fit_own(edges))), 2e9)
        assert 0.5 < predicted.disk / answer.disk_bytes < 2
    predicted = file_cost(FileShape(10**8, 10**7, clock), 2e9)
    assert predicted.disk <= 200 * 10**8
    assert predicted.memory <= 2e9
    larger = file_cost(FileShape(10**8, 10**7, clock, True, 5, tuple(fit_own(edges)), True), 2e9)
    assert larger.cpu_seconds > 3 * predicted.cpu_seconds
    assert larger.disk > predicted.disk


def test_info_of_a_table_in_blocks(payments):
    result = CliRunner().invoke(app, ["info", str(payments), "--label", "fraud", "--memory", "2GB"])
    assert result.exit_code == 0, result.output
    assert f"{N:,}, read in blocks" in result.stdout
    assert f"'fraud': 2 values; {N // 10} missing" in result.stdout
    assert "tdlg classify --memory 2GB  roughly " in result.stdout
    assert "of temporary files" in result.stdout


def test_the_users_folder_stays(payments, tmp_path):
    scratch = tmp_path / "scratch"
    (scratch / "sub").mkdir(parents=True)
    (scratch / "precious.txt").write_text("kept")
    classify_file(payments, tmp_path / "out.parquet", label="fraud", memory="2GB", folder=scratch)
    assert sorted(path.name for path in scratch.iterdir()) == ["precious.txt", "sub"]


def test_a_killed_run_with_other_classes_is_not_resumed(payments, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(done, total, text):
        if text == "writing":
            raise Killed

    def swapped(values):
        return [1 - value for value in values], None

    model = PropagationClassifier(random_state=0)
    monkeypatch.setattr(work_folder, "remove_folder", lambda folder: None)
    with pytest.raises(Killed):
        classified(payments, tmp_path, model=model, classes=swapped, callback=kill)
    monkeypatch.undo()
    filled = classified(payments, tmp_path, model=PropagationClassifier(random_state=0))[1]
    clean = classified(payments, tmp_path, model=PropagationClassifier(random_state=0))[1]
    assert filled.equals(clean)
