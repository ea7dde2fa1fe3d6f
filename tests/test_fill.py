"""Files that are filled in blocks and buckets get the answers of the classifier in memory."""

import json
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

from filling import Kept, burst_file, fill_file
from limited import run_limited
from nursery import Nursery
from tdlg import PropagationClassifier, memory, read_edges, scan_edges, write_payments
from tdlg.cli import app
from tdlg.engines import files as run_files
from tdlg.engines import run as file_run
from tdlg.engines import table as scanning
from tdlg.engines.executors import opened_engine
from tdlg.engines.run import MemoryLimits
from tdlg.engines.table import summarise_table
from tdlg.exceptions import EdgesError, ParameterError, ReadError, TooLargeError
from tdlg.memory import as_bytes, most_learnt
from tdlg.models import files, fits, training
from tdlg.models.fits import LINE_GRAPH, RANKING
from tdlg.tables import rows

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
    monkeypatch.setattr(file_run, "LEAST_BLOCK", 700)
    monkeypatch.setattr(file_run, "MOST_BLOCK", 700)
    monkeypatch.setattr(file_run, "MOST_BUCKET", 500)
    monkeypatch.setattr(MemoryLimits, "scored_rows", lambda *_: 100)


def classified(path, folder, **options):
    numbers = fill_file(path, folder / "out.parquet", label="fraud", memory="2GB", **options)
    return numbers, pl.read_parquet(folder / "out.parquet")


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
    options = {"features": (), **options}
    numbers, filled = classified(payments, tmp_path, model=PropagationClassifier(**parameters), **options)
    edges = read_edges(payments, label="fraud", **options)
    model = PropagationClassifier(**parameters, two_ends=False).fit(edges)
    assert numbers.setting == model.setting_ == setting
    assert numbers.setting_reason == model.setting_reason_
    assert list(numbers.columns) == model.features_.get_feature_names_out().tolist()
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
    for kept in (rows, scanning):
        monkeypatch.setattr(kept, "KEPT", 600)
    monkeypatch.setattr("tdlg.memory.MOST_LEARNT", 800)
    parameters = {"random_state": 3, "setting": setting}
    options = {"features": ["amount", "mcc", "channel"]}
    numbers, filled = classified(payments, tmp_path, model=PropagationClassifier(**parameters), **options)
    edges = read_edges(payments, label="fraud", **options)
    model = PropagationClassifier(**parameters, two_ends=False).fit(edges)
    assert numbers.n_learnt == model.n_rows_ < model.n_rows_sampled_from_
    assert numbers.n_learnt_from == model.n_rows_sampled_from_
    expected = model.predict_proba(edges[~edges.labelled])[:, 1]
    assert np.abs(filled["probability"].to_numpy()[~edges.labelled] - expected).max() < 1e-6


def test_the_classifier_stays_as_it_was(payments, tmp_path):
    model = PropagationClassifier(random_state=0)
    before = {**vars(model)}
    numbers, _ = classified(payments, tmp_path, model=model)
    assert vars(model) == before
    assert (numbers.n_rows, numbers.n_known, numbers.n_scored) == (N, 1800, 200)
    assert numbers.n_learnt <= numbers.n_learnt_from
    with pytest.raises(AttributeError):
        numbers.n_rows = 3


def test_the_tasks_read_a_model_file(payments, tmp_path):
    """No code is in it: it is loaded like any other model."""
    kept = Kept(tmp_path)
    classified(payments, tmp_path, callback=kept)
    assert kept.model.classes_.tolist() == [0, 1]


def test_what_was_scanned(payments, tmp_path):
    scanned = scan_edges(payments, label="fraud", features=["amount"])
    assert repr(scanned) == (
        f"ScannedEdges(2,000 rows of {str(payments)!r}; src: customer; dst: terminal; time: time; label: fraud; "
        "features: amount; not in memory)"
    )
    with pytest.raises(ReadError, match=r"not in memory\. Use `fill` of PropagationClassifier"):
        PropagationClassifier().fit(scanned)
    with pytest.raises(ParameterError, match=r"must be what scan_edges returns. Got PosixPath instead"):
        PropagationClassifier().fill(payments, tmp_path / "out.parquet")
    with pytest.raises(ParameterError, match="was scanned without a label"):
        PropagationClassifier().fill(scan_edges(payments), tmp_path / "out.parquet")


def test_time_scales_and_words_as_labels(payments, tmp_path, small):
    table = pl.read_parquet(payments).with_columns(
        pl.col("fraud").replace_strict({0: "fine", 1: "fraud"}, return_dtype=pl.String).fill_null("?")
    )
    table.write_parquet(tmp_path / "words.parquet")
    numbers, filled = classified(
        tmp_path / "words.parquet",
        tmp_path,
        classes=lambda values: ([None if word == "?" else word for word in values], None),
    )
    edges = read_edges(payments, label="fraud")
    model = PropagationClassifier(two_ends=False).fit(edges)
    assert numbers.scales == model.features_.plan_.scales_in_words(edges.time_unit)
    assert (numbers.n_rows, numbers.n_known, numbers.n_scored) == (N, 1800, 200)
    assert set(filled["predicted"].drop_nulls()) <= {"fine", "fraud"}
    assert numbers.positive == "fraud"


def test_probabilities_from_a_sample_are_calibrated(tmp_path, monkeypatch):
    path = tmp_path / "payments.parquet"
    write_payments(path, 30_000, random_state=4, unlabelled=0.0)
    truth = pl.read_parquet(path)
    rng = np.random.default_rng(1)
    truth.with_columns(pl.when(pl.Series(rng.random(30_000) < 0.6)).then("fraud")).write_parquet(path)
    monkeypatch.setattr("tdlg.memory.MOST_LEARNT", 3000)
    monkeypatch.setattr(training, "boosting_settings", SETTINGS)
    numbers, filled = classified(path, tmp_path, model=PropagationClassifier(random_state=0))
    assert numbers.n_learnt < 3300 < numbers.n_learnt_from
    unknown = filled.filter(pl.col("probability").is_not_null())
    actual = truth.filter(filled["probability"].is_not_null())["fraud"]
    assert 0.7 < unknown["probability"].mean() / actual.mean() < 1.4
    likely = unknown["probability"].to_numpy() > 0.2
    assert 0.6 < unknown["probability"].to_numpy()[likely].mean() / actual.to_numpy()[likely].mean() < 1.6


class Killed(BaseException):
    """What ends a run as if its process were killed."""


def kill(done, total, text):
    if text.startswith("fitting"):
        raise Killed


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_temporary_files_are_private(payments, tmp_path, monkeypatch):
    work, modes = tmp_path / ".out.parquet.tdlg-work", set()
    classified(payments, tmp_path, callback=lambda *_: modes.add(stat.S_IMODE(work.stat().st_mode)))
    assert modes == {0o700}
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(
        ParameterError, match=r"out\.parquet\.tdlg-work: this folder is of another user.*Remove it, or pass"
    ):
        classified(payments, tmp_path)


KILLED = """
import json, os, sys
from filling import fill_file
path, output, folder, text = json.loads(sys.argv[1])
def kill(done, total, now):
    if now.startswith(text):
        os.kill(os.getpid(), 9)
fill_file(path, output, label="fraud", memory="2GB", folder=folder, callback=kill)
"""


@pytest.fixture(scope="module")
def killed():
    """Fills a file in a process that is killed at a step."""

    def run(path, output, folder=None, text="fitting"):
        assert nursery.run(KILLED, json.dumps([str(path), str(output), folder, text])) == -9

    with Nursery("import filling, polars, sklearn.ensemble") as nursery:
        yield run


def test_after_a_killed_run_the_next_one_starts_anew(killed, payments, tmp_path):
    """It removes what the killed one left, and only that."""
    work = tmp_path / ".out.parquet.tdlg-work"
    (mine := tmp_path / ".out.parquet.mine").write_text("not of a run")
    killed(payments, tmp_path / "out.parquet")
    left = {file.parent for file in work.rglob("bucket-*")}
    assert len(left) == 1
    seen = set()
    classified(payments, tmp_path, callback=lambda *_: seen.update(file.parent for file in work.rglob("bucket-*")))
    assert len(seen) == 1
    assert not seen & left
    assert sorted(file.name for file in tmp_path.iterdir()) == [mine.name, "out.parquet"]


@pytest.mark.parametrize("name", ["out.parquet", "out"])
def test_what_a_killed_run_wrote_of_its_result_is_removed(killed, payments, tmp_path, small, name):
    home = tmp_path / "home"
    home.mkdir()
    killed(payments, home / name, text="writing")
    fill_file(payments, home / name, label="fraud", memory="2GB")
    assert [file.name for file in home.iterdir()] == [name]


def test_on_a_store_other_runs_keep_their_files(killed, payments, tmp_path):
    """A store has no locks, so what is left there may be of a run that is still working."""
    store = tmp_path / "store"
    killed(payments, tmp_path / "out.parquet", f"file://{store}")
    left = {file for file in store.rglob("*") if file.is_file()}
    assert left
    fill_file(payments, tmp_path / "out.parquet", label="fraud", memory="2GB", folder=f"file://{store}")
    assert {file for file in store.rglob("*") if file.is_file()} == left


def test_temporary_files_may_be_in_memory(payments, tmp_path):
    model = PropagationClassifier(random_state=0)
    options = {"label": "fraud", "memory": "2GB", "model": model}
    fill_file(payments, tmp_path / "one.parquet", **options, folder="memory://work")
    fill_file(payments, tmp_path / "two.parquet", **options)
    assert pl.read_parquet(tmp_path / "one.parquet").equals(pl.read_parquet(tmp_path / "two.parquet"))
    assert not run_files.files_under("memory://work")


@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_outputs_of_the_same_name_may_share_a_folder(payments, tmp_path, address):
    options = {"label": "fraud", "memory": "2GB", "folder": address.format(tmp_path / "work")}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    def again(done, total, text):
        if text == "making columns" and not done:
            fill_file(payments, tmp_path / "two" / "out.parquet", **options)

    fill_file(payments, tmp_path / "one" / "out.parquet", callback=again, **options)
    assert all((tmp_path / name / "out.parquet").exists() for name in ("one", "two"))
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("random_state", [np.random.default_rng(3), np.random.RandomState(3), None, np.int64(3)])
def test_any_random_state(payments, tmp_path, random_state):
    assert classified(payments, tmp_path, model=PropagationClassifier(random_state=random_state))[0].n_scored == 200


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
    [
        (2_000_000, 20_000, ["--bipartite"]),
        (650_000, 1, ["--bipartite", "--features", "none"]),
        (680_000, 1, ["--features", "none"]),
    ],
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

    monkeypatch.setattr(run_files, "_write_fully", full)
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
            fill_file(payments, tmp_path / "result" / name, label="fraud", memory="2GB", callback=shrink)
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


@pytest.mark.parametrize(
    ("name", "when", "address"),
    [
        ("out.parquet", "making columns", "{}"),
        ("out.parquet", "writing", "file://{}"),
        ("out.csv", "writing", "{}"),
        ("out", "making columns", "file://{}"),
        ("out", "writing", "{}"),
        ("file://{}/out", "writing", "file://{}"),
    ],
)
def test_an_input_that_changes_meanwhile_is_an_error(payments, tmp_path, name, when, address):
    (home := tmp_path / "result").mkdir()
    table = pl.read_parquet(payments)
    table.write_parquet(path := tmp_path / "payments.parquet")

    def change(done, total, text):
        if text == when and done == total:
            table.reverse().write_parquet(path)

    output = name.format(home) if "://" in name else home / name
    with pytest.raises(ReadError, match=r"payments.parquet: the file changed while it was worked on\. Run again"):
        fill_file(address.format(path), output, label="fraud", memory="2GB", callback=change)
    assert not list(home.iterdir())
    fill_file(address.format(path), output, label="fraud", memory="2GB")
    assert list(home.iterdir())


def test_too_little_disk_or_memory_is_said_first(payments, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(file_run, "_free_on_disk", lambda folder: 1000)
    with pytest.raises(
        TooLargeError, match=r"the temporary files and the result need .* MB, and the disk has 1 kB free"
    ):
        classified(payments, tmp_path, callback=lambda *of: said.append(of[2]))
    assert set(said) == {"reading"}
    monkeypatch.setattr(file_run, "_same_disk", lambda *_: False)
    with pytest.raises(
        TooLargeError, match=r"tdlg-work/\w+: the temporary files need .* MB, and the disk has 1 kB free"
    ):
        classified(payments, tmp_path)
    monkeypatch.setattr(file_run, "_free_on_disk", lambda folder: 10**9 if "tdlg-work" in folder else 1000)
    with pytest.raises(TooLargeError, match=rf"{tmp_path}: the result needs .* kB, and the disk has 1 kB free"):
        classified(payments, tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(file_run, "BASE", 1_999_800_000)
    monkeypatch.setattr(MemoryLimits, "n_buckets", lambda *_: 2)
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
    monkeypatch.setattr(file_run, "BASE", 2_000_000_000 - 3_000_000)
    model = PropagationClassifier(random_state=0)
    _, filled = classified(one_terminal, tmp_path, model=model)
    assert filled.equals(classified(one_terminal, tmp_path, model=model, bipartite=True)[1])
    table = pl.read_parquet(one_terminal)
    shared = table.with_columns(customer=pl.concat([table["terminal"][:1], table["customer"][1:]]))
    shared.write_parquet(tmp_path / "shared.parquet")
    with pytest.raises(TooLargeError, match=r"A bucket by dst has 2,000 edges, which need 3\.\d+ MB of memory"):
        classified(tmp_path / "shared.parquet", tmp_path)


@pytest.mark.parametrize("work", ["classify", "outliers"])
def test_the_memory_that_is_suggested_is_enough(one_terminal, tmp_path, monkeypatch, work):
    monkeypatch.setattr(file_run, "BASE", 999_900_000)
    monkeypatch.setattr(file_run, "MOST_BUCKET", 20)
    monkeypatch.setattr(file_run, "LIMIT_STEP", 1000)
    done = {
        "classify": lambda memory: fill_file(
            one_terminal, tmp_path / "out.parquet", label="fraud", bipartite=True, memory=memory
        ),
        "outliers": lambda memory: burst_file(one_terminal, tmp_path / "out.parquet", memory=memory),
    }[work]
    with pytest.raises(TooLargeError, match=r"With a limit of 1 GB, a bucket may need 70 kB") as error:
        done("1GB")
    enough = re.search("Pass at least memory='(.*)'", str(error.value))[1]
    done(enough)
    with pytest.raises(TooLargeError):
        done(as_bytes(enough) - 2000)


def test_a_large_bucket_is_worked_on_alone(payments, tmp_path, small, monkeypatch):
    monkeypatch.setattr(file_run, "BASE", 1_999_400_000)
    monkeypatch.setattr(file_run, "MOST_BUCKET", 60)
    seen = []
    map_buckets = files.map_buckets
    monkeypatch.setattr(files, "map_buckets", lambda *of: (seen.append(of[2][0].buckets.alone), map_buckets(*of)))
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
        kept = Kept(tmp_path)
        classified(payments, tmp_path, engine=engine, callback=kept)
    assert len(pickle.dumps(kept.model)) > 10_000
    assert max(map(len, sent)) < 5000


def test_words_for_a_missing_label_are_counted(payments, tmp_path, small):
    table = pl.read_parquet(payments).with_columns(fraud=pl.col("fraud").fill_null(2))
    table.write_parquet(tmp_path / "words.parquet")
    seen = []
    setup = files.set_up
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "set_up", lambda *of: seen.append(setup(*of)) or seen[0])
        classified(
            tmp_path / "words.parquet", tmp_path, classes=lambda values: ([v if v < 2 else None for v in values], None)
        )
    assert seen[0].n_to_score[-1] == len(seen[0].rows_to_score) == 200
    assert seen[0].rows_to_score.min() >= N - 200


def test_what_cannot_be_done_is_an_error(payments, tmp_path):
    with pytest.raises(ParameterError, match=r"all edges in memory at once.*Leave out two_ends"):
        classified(payments, tmp_path, model=PropagationClassifier(two_ends=True))
    with pytest.raises(ParameterError, match="Files are always fitted with the built-in boosted trees"):
        classified(payments, tmp_path, model=PropagationClassifier("something"))
    with pytest.raises(ParameterError, match=r"'memory' must be a size of at least 1 GB.*Got '3MB'"):
        fill_file(payments, tmp_path / "out.parquet", label="fraud", memory="3MB")
    with pytest.raises(ParameterError, match=r"written as .parquet or .csv"):
        fill_file(payments, tmp_path / "out.jsonl", label="fraud")
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
    fill_file(payments, tmp_path / "out.csv", label="fraud", memory="2GB")
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
            ["classify", "--label", "fraud", "--method", "linegraph"],
            "Without --method linegraph, a table is processed on disk",
        ),
        (["outliers", "--method", "shuffled"], "With --method burst, it is processed on disk"),
        (["outliers", "--method", "linegraph"], "With --method burst"),
        (["embed", "--dim", "4"], "A smaller --dim needs less"),
        (["links"], ""),
        (["links", "--method", "linegraph"], ""),
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
    monkeypatch.setattr("tdlg.io.read.file_source", None)  # is not called
    result = CliRunner().invoke(app, [command[0], str(path), *command[1:]])
    said = " ".join(result.stderr.split())
    assert result.exit_code == 1, result.output
    assert re.search(r"[\d,]{7} rows need about [\d.]+ [MG]B of memory, and [\d.]+ [MG]B are free", said)
    assert instead in said


def test_what_fits_is_said_and_can_be_done(payments, tmp_path, monkeypatch):
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: int(5e8 + 2750 * 1510))
    monkeypatch.setattr("tdlg.models.fits.ROUND", 100)
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
    for needs in (memory.LEARNING, RANKING, memory.SCORING, LINE_GRAPH):
        assert abs(needs.n_rows(needs.bytes(n)) - n) <= 1


def test_as_many_rows_are_learnt_from_in_memory_and_on_disk():
    """Of more than three million rows a tenth; memory for it is part of what is said to be needed."""
    for n, expected in ((1000, 300_000), (3_000_000, 300_000), (4_000_000, 400_000), (10**8, 10**6)):
        assert most_learnt(n) == expected
        assert MemoryLimits(10**12, 2).training_rows(n, 50) == expected
        assert memory.LEARNING.bytes(n) - memory.SCORING.bytes(n) == pytest.approx(1950 * min(n, expected))


def test_all_rows_of_windows_that_overlap_are_learnt_from(payments):
    """A forecast learns from four windows of time, which together have more rows than the table."""
    model = PropagationClassifier(setting="forecast", random_state=0).fit(read_edges(payments, label="fraud"))
    assert model.n_rows_ == model.n_rows_sampled_from_ > 0.8 * model.edges_.labelled.sum()


def test_the_rule_of_memory_or_disk(monkeypatch):
    n, most = 1_000_000, fits.MOST_IN_MEMORY
    need = memory.LEARNING.bytes(n)
    for free, two_ends, on_disk in (
        (2 * need, None, False),
        (2 * need - 9, None, True),
        (need, True, False),
        (need - 9, True, True),
    ):
        monkeypatch.setattr("tdlg.memory.free_bytes", lambda free=free: free)
        assert (fits.why_on_disk(n, two_ends=two_ends) is not None) == on_disk
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: 10**15)
    assert fits.why_on_disk(most) is None
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: memory.LEAST_MEMORY - 1)  # too little for work on disk
    assert fits.why_on_disk(n) is None
    monkeypatch.setattr("tdlg.memory.free_bytes", lambda: 10**15)
    assert fits.why_on_disk(most + 1) == "10,000,001 rows are more than 10,000,000"
    assert fits.why_on_disk(most + 1, two_ends=True) is None
    assert fits.why_on_disk(20_000_001, two_ends=True) == "20,000,001 rows are more than 20,000,000"


class TestWhichWay:
    """In memory up to ten million rows and half of the free memory, else on disk; `tdlg info` says the same."""

    def of(self, payments, tmp_path, *options):
        done = run(payments, "--label", "fraud", "-o", tmp_path / "out.parquet", *options)
        info = CliRunner().invoke(app, ["info", str(payments), "--label", "fraud"])
        assert info.exit_code == 0, info.output
        return done, " ".join(done.stderr.split()), " ".join(info.output.split())

    def test_a_small_table(self, payments, tmp_path):
        done, said, info = self.of(payments, tmp_path)
        assert done.exit_code == 0, done.output
        assert "on disk" not in said
        assert "tdlg classify in memory, with the similarity features" in info

    def test_many_rows(self, payments, tmp_path, monkeypatch):
        monkeypatch.setattr(fits, "MOST_IN_MEMORY", N - 1)
        done, said, info = self.of(payments, tmp_path)
        assert done.exit_code == 0, done.output
        why = "2,000 rows are more than 1,999"
        assert f"processing on disk, without the similarity features: {why}" in said
        assert f"tdlg classify on disk, without the similarity features ({why}); " in info
        done, said, _ = self.of(payments, tmp_path, "--two-ends")
        assert done.exit_code == 0, done.output
        assert "on disk" not in said

    def test_half_of_the_free_memory(self, payments, tmp_path, monkeypatch):
        need = int(memory.LEARNING.bytes(N))
        monkeypatch.setattr("tdlg.memory.LEAST_MEMORY", need)
        monkeypatch.setattr("tdlg.memory.free_bytes", lambda: 2 * need - 10)
        monkeypatch.setattr("tdlg.engines.run.free_bytes", lambda: 10**10)
        done, said, info = self.of(payments, tmp_path)
        assert done.exit_code == 0, done.output
        why = "2,000 rows would need about 385 MB of memory, more than half of the 770 MB that are free"
        assert why in said
        assert why in info
        done, said, _ = self.of(payments, tmp_path, "--two-ends")
        assert "on disk" not in said

    def test_similarity_features_that_are_not_possible(self, payments, tmp_path, monkeypatch):
        monkeypatch.setattr("tdlg.memory.MOST_TWO_ENDS", N - 1)
        done, said, _ = self.of(payments, tmp_path, "--two-ends")
        assert done.exit_code == 2
        assert "Leave out --two-ends" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory", "2GB"], "a file is needed with --memory"),
        (["--memory", "2GB", "-o", "out.parquet", "--save", "m.tdlg"], "--save: it needs all rows in memory at once"),
        (["--memory", "2GB", "-o", "out.parquet", "--two-ends"], "Leave out --two-ends"),
        (["--memory", "much", "-o", "out.parquet"], "must be a size of at least 1 GB, such as '2GB'"),
        (["--memory", "2GB", "--method", "linegraph"], "linegraph cannot run on disk"),
        (["--memory", "2GB", "-o", "out.parquet", "--positive", "> 3"], "holds for no known label"),
    ],
)
def test_what_cannot_be_done_with_memory(payments, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    result = run(payments, "--label", "fraud", *options)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


def odd_text(payments):
    """Rows of text with codes as ids, two numbers that are one, decimal commas, words for missing values, and comments."""
    frame = pl.read_parquet(payments)
    number = pl.col("customer").str.extract(r"(\d+)")
    ids = pl.when(number.cast(pl.Int64) % 2 == 0).then(pl.format("00{}", number)).otherwise(number)
    frame = frame.select(
        ids.alias("customer"),
        "terminal",
        pl.col("time").dt.to_string("%d.%m.%Y %H:%M:%S"),
        pl.col("amount").round(2).cast(pl.String).str.replace(".", ",", literal=True),
        pl.col("fraud").cast(pl.String).fill_null("NA"),
    )
    return "# exported\n" + frame.write_csv(separator=";")


def test_text_is_processed_on_disk_by_itself(payments, tmp_path, monkeypatch):
    text = odd_text(payments)
    (small := tmp_path / "small.csv").write_text(text)
    assert run(small, "--label", "fraud", "-o", tmp_path / "memory.csv", "--no-two-ends").exit_code == 0
    wanted = pl.read_csv(tmp_path / "memory.csv", infer_schema=False)
    done = run(small, "--label", "fraud", "--memory", "1GB", "-o", tmp_path / "disk.csv")
    assert done.exit_code == 0, done.output
    assert "writing the text as parquet" in done.stderr
    assert "features: amount" in done.stderr
    found = pl.read_csv(tmp_path / "disk.csv", infer_schema=False)
    given = ["customer", "terminal", "time", "amount", "fraud"]
    assert found.columns == [*given, "predicted", "probability"]
    assert found.select(given).equals(wanted.select(given))  # unchanged: 0012 and 3,20 too
    assert found["predicted"].is_null().to_list() == wanted["predicted"].is_null().to_list()
    close = (found["probability"].cast(float) - wanted["probability"].cast(float)).abs().drop_nulls()
    assert close.max() < 1e-3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["disk.csv", "memory.csv", "small.csv"]
    info = CliRunner().invoke(app, ["info", str(small), "--label", "fraud", "--memory", "1GB"])
    assert "'fraud': 2 values" in info.stdout
    with monkeypatch.context() as patch:  # by the rule for all tables
        patch.setattr(fits, "MOST_IN_MEMORY", 100)
        info = CliRunner().invoke(app, ["info", str(small), "--label", "fraud"])
        assert re.search(
            r"on disk, without the similarity features \(about 2,\d+ rows are more than 100\)", info.stdout
        )
    monkeypatch.setattr("tdlg.models.fits.TEXT_BYTES", 10**12)
    assert "the text needs about" in run(small, "--label", "fraud", "-o", tmp_path / "disk.csv").stderr


def test_text_that_cannot_be_read_in_pieces_is_refused(tmp_path):
    (path := tmp_path / "edges.csv").write_text("src::dst::time::y\na::b::1::0\nb::c::2::\n")
    done = run(path, "--label", "y", "--memory", "1GB", "-o", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "a file with the separator '::' cannot be read in pieces. Write it as parquet." in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["edges.csv"]


def test_both_ends_of_very_many_edges_are_left_out(payments, monkeypatch):
    edges = read_edges(payments, label="fraud")[:600]
    monkeypatch.setattr("tdlg.memory.MOST_TWO_ENDS", 599)
    assert not PropagationClassifier().fit(edges).two_ends_
    with pytest.raises(ParameterError, match=r"too slow for 600 edges.*at most 599.*Leave out two_ends"):
        PropagationClassifier(two_ends=True).fit(edges)
    with pytest.raises(ParameterError, match=r"must be True, False or 'auto'. Got 'some'"):
        PropagationClassifier(two_ends="some").fit(edges)


def test_info_predicts_temporary_files(payments, tmp_path):
    for features in ([], ["amount"], ["amount", "mcc", "channel"]):
        numbers, _ = classified(payments, tmp_path, features=features)
        scanned = scan_edges(payments, label="fraud", features=features)
        with opened_engine(None) as threads:
            limits, seen = MemoryLimits.of(threads, "2GB"), summarise_table(threads, scanned, scanned.blocks(N))
        needs = files.needs_of_file(scanned, seen, N // 10, 2, limits)
        assert 0.5 < needs.disk / numbers.disk_bytes < 2
        assert needs.memory <= 2e9


def test_info_of_a_table_in_blocks(payments):
    result = CliRunner().invoke(app, ["info", str(payments), "--label", "fraud", "--memory", "2GB"])
    assert result.exit_code == 0, result.output
    assert f"{N:,}, read in blocks" in result.stdout
    assert f"'fraud': 2 values; {N // 10} missing" in result.stdout
    assert "tdlg classify --memory 2GB  on disk, without the similarity features; " in result.stdout
    assert "of temporary files" in result.stdout


def test_the_users_folder_stays(payments, tmp_path):
    scratch = tmp_path / "scratch"
    (scratch / "sub").mkdir(parents=True)
    (scratch / "precious.txt").write_text("kept")
    fill_file(payments, tmp_path / "out.parquet", label="fraud", memory="2GB", folder=scratch)
    assert sorted(path.name for path in scratch.iterdir()) == ["precious.txt", "sub"]
