"""Answers that hold whatever happens inside: in memory, by file and as a stream, on three small networks.

The numbers are in tests/golden/; `pinned` says how to renew them. Only public names are used here.

Boosted trees are not continuous: where two columns split the rows equally well, the last bit of a value can decide which
one is used, and probabilities move by tenths. So most models here learn from columns that are rounded, as those in files
are. Only the tests of `TestToTheBit` have the usual trees: if they alone fail, columns moved by rounding alone.
"""

import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from filling import Kept, burst_file, fill_file
from pinned import check_answer, check_columns
from tdlg import (
    EdgeOutlierDetector,
    LinkRanker,
    PropagationClassifier,
    PropagationFeatures,
    PropagationRegressor,
    StreamScorer,
    TemporalEdges,
    from_frame,
    load_model,
    make_payments,
)
from tdlg_paper.blocks import make_tsbm

PINNED = re.search(r"scikit-learn==(\d+\.\d+)", (Path(__file__).parents[1] / "constraints.txt").read_text())[1]
pytestmark = [
    pytest.mark.usefixtures("few_trees"),
    pytest.mark.filterwarnings("ignore::tdlg.exceptions.TdlgWarning"),
    pytest.mark.skipif(not version("scikit-learn").startswith(PINNED), reason=f"pinned with scikit-learn {PINNED}"),
]

FEW_EDGES = 100  # of a bucket, where there are to be many


# ---- tables


def payments(n=1200):
    """Card payments with amounts between nodes of two types, at datetimes."""
    made = make_payments(n, 3, n_customers=40, n_terminals=25, hubs=1)
    edges = made.edges
    return pl.DataFrame(
        {
            "source": edges.src.astype(str),
            "target": edges.dst.astype(str),
            "time": edges.time.astype("datetime64[ms]"),
            "label": (made.scenario > 0).astype(np.int64) | (edges.features[:, 0] > 120),
            "known": made.label_time.astype("datetime64[ms]"),
            "amount": edges.features[:, 0],
        }
    )


def blocks():
    """Two communities of one type of nodes, at times with decimals; some nodes turn bad halfway. Three classes."""
    edges = make_tsbm(n_nodes=60, degree=20, random_state=0).edges
    rng = np.random.default_rng(1)
    bad = np.isin(edges.src, rng.choice(60, 6, replace=False)) | np.isin(edges.dst, rng.choice(60, 6, replace=False))
    late = edges.time > np.median(edges.time)
    label = np.where(rng.random(len(edges)) < 0.03, rng.integers(0, 3, len(edges)), bad * (1 + late))
    order = np.argsort(edges.time)
    columns = {"source": edges.src, "target": edges.dst, "time": edges.time, "label": label}
    columns["known"] = edges.time + rng.exponential(0.3, len(edges))
    return pl.DataFrame({name: values[order] for name, values in columns.items()})


def hubs():
    """Hubs, repeated pairs, self-loops, many edges at one time, missing features, 25 categories, three classes as words."""
    n, rng = 1200, np.random.default_rng(2)
    src, dst = np.minimum(rng.zipf(1.4, (2, n)), 50)
    again = rng.random(n) < 0.2
    src[1:][again[1:]], dst[1:][again[1:]] = src[:-1][again[1:]], dst[:-1][again[1:]]
    dst = np.where(rng.random(n) < 0.05, src, dst)
    time = np.sort(rng.integers(0, 300, n))
    code = (src * 7 + rng.integers(0, 5, n)) % 25
    label = (dst + code // 9 + (time > 150) + rng.integers(0, 2, n)) % 3
    amount = rng.lognormal(label / 4, 1, n)
    return pl.DataFrame(
        {
            "source": src,
            "target": dst,
            "time": time,
            "label": [f"class {k}" for k in label],
            "known": time + rng.integers(0, 60, n),
            "amount": [None if gone else x for gone, x in zip(rng.random(n) < 0.1, amount.tolist(), strict=True)],
            "balance": rng.normal(size=n),
            "code": [None if gone else f"code {k}" for gone, k in zip(rng.random(n) < 0.05, code, strict=True)],
            "channel": rng.choice(["card", "cash", "web"], n),
        }
    )


TABLES = {"payments": payments, "blocks": blocks, "hubs": hubs}
FEATURES = {"payments": ["amount"], "blocks": [], "hubs": ["amount", "balance", "code", "channel"]}
SCALES = {"payments": "auto", "blocks": [1.0, 0.2, 0.05], "hubs": [1.0, 0.05]}
DELAYS = {"payments": "9d", "blocks": 0.25, "hubs": 20}
SETTINGS = ["interpolate", "forecast", "forecast, late labels", "stream, late labels", "stream, delayed labels"]


@cache
def table(name):
    return TABLES[name]()


def some_hidden(name, setting):
    """The table without the labels to fill in: here and there, or the last quarter."""
    frame = table(name)
    n, rng = len(frame), np.random.default_rng(5)
    hidden = np.arange(n) >= 0.75 * n if "forecast" in setting or "late labels" in setting else rng.random(n) < 0.3
    return frame.with_columns(pl.when(pl.Series(~hidden)).then(pl.col("label")).alias("label"))


def reading(name, setting):
    """How the table is read, from a frame or from a file."""
    late = {"late labels": {"label_time": "known"}, "delayed labels": {"label_delay": DELAYS[name]}}
    options = late.get(setting.partition(", ")[2], {})
    return {"label": "label", "features": FEATURES[name], "bipartite": name == "payments"} | options


def model_of(name, setting, **options):
    return PropagationClassifier(setting=setting.partition(",")[0], scales=SCALES[name], random_state=0, **options)


# ---- probabilities


def as_in_files(columns):
    """Columns rounded to 24 bits."""
    return np.asarray(columns).astype(np.float32).astype(np.float64)


def rounded(trees):
    return make_pipeline(FunctionTransformer(as_in_files), trees)


def few_trees(make, **options):
    return rounded(make(max_iter=10, learning_rate=0.3, early_stopping=False, random_state=0, **options))


@cache
def in_memory(name, setting, two_ends):
    """The edges to score, the fitted model, and the probabilities of the classes."""
    edges = from_frame(some_hidden(name, setting), **reading(name, setting))
    model = model_of(name, setting, two_ends=two_ends, estimator=few_trees(HistGradientBoostingClassifier)).fit(edges)
    return edges[~edges.labelled], model, model.predict_proba(edges[~edges.labelled])


@cache
def by_file(folder, name, setting, bucket=None, engine=None):
    """The columns "predicted" and "probability" where the label is missing, what was kept of the run, and its numbers."""
    path, output, kept = folder / "table.parquet", folder / "filled.parquet", Kept(folder)
    some_hidden(name, setting).write_parquet(path)
    options = {"model": model_of(name, setting, n_threads=1), "memory": "1GB", "callback": kept, "engine": engine}
    with pytest.MonkeyPatch.context() as patch:
        if bucket is not None:
            patch.setattr("tdlg.engines.run.MOST_BUCKET", bucket)
        numbers = fill_file(path, output, **reading(name, setting), **options)
    filled = pl.read_parquet(output).filter(pl.col("label").is_null())["predicted", "probability"]
    return filled, kept, numbers


def as_filled(model, probabilities):
    """The predicted classes, and the probabilities that a file shows: of the positive class, or of the predicted one."""
    shown = probabilities.max(axis=1) if len(model.classes_) > 2 else probabilities[:, 1]
    return model.classes_[probabilities.argmax(axis=1)].tolist(), shown


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", TABLES)
class TestClassifier:
    @pytest.mark.parametrize("two_ends", ["auto", False], ids=["both ends", "each end"])
    def test_in_memory(self, name, setting, two_ends):
        _, _, found = in_memory(name, setting, two_ends)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        check_answer("classifier.json", f"{name}: {setting}, two_ends={two_ends}", found)

    def test_by_file(self, name, setting, folder):
        """In one bucket and in many; the columns in memory give the trees of the file the same answers."""
        found, kept, numbers = by_file(folder, name, setting)
        again, many, _ = by_file(folder, name, setting, FEW_EDGES)
        assert many.n_tasks >= 4 * kept.n_tasks
        assert found.equals(again)
        check_answer("classifier.json", f"{name}: {setting}, by file", found["probability"], atol=2e-6)
        edges, model, _ = in_memory(name, setting, False)
        assert list(numbers.columns) == list(model.features_.get_feature_names_out())
        fitted = kept.model
        predicted, shown = as_filled(fitted, fitted.values_of(as_in_files(model.scored(edges).columns)))
        assert found["predicted"].to_list() == predicted
        np.testing.assert_allclose(found["probability"], shown, rtol=0, atol=1e-6)


class TestToTheBit:
    @pytest.mark.parametrize("setting", ["interpolate", "forecast", "stream, late labels"])
    def test_the_usual_trees(self, setting, folder):
        """In memory and by file the trees learn from the same rows."""
        edges = from_frame(some_hidden("payments", setting), **reading("payments", setting))
        model = model_of("payments", setting, two_ends=False).fit(edges)
        found = model.predict_proba(edges[~edges.labelled])
        check_answer("to-the-bit.json", f"payments: {setting}", found)
        filled, _, numbers = by_file(folder, "payments", setting)
        assert numbers.n_learnt == model.n_rows_
        assert filled["predicted"].to_list() == as_filled(model, found)[0]
        np.testing.assert_allclose(filled["probability"], found[:, 1], rtol=0, atol=1e-6)

    def test_one_against_the_rest(self, folder):
        """With more than five classes, each has its own trees."""
        frame = some_hidden("hubs", "interpolate").select("source", "target", "time", "label")
        words = pl.col("label") + pl.format(" {}", pl.col("target") % 3)
        frame.with_columns(words.alias("label")).write_parquet(path := folder / "classes.parquet")
        options = {"label": "label", "model": model_of("hubs", "interpolate"), "memory": "1GB"}
        numbers = fill_file(path, folder / "classes-filled.parquet", **options)
        assert len(numbers.classes) > 5
        found = pl.read_parquet(folder / "classes-filled.parquet")["probability"].drop_nulls()
        check_answer("to-the-bit.json", "many classes by file", found, atol=2e-6)

    def test_each_of_many_classes_has_its_own_trees(self):
        edges = many_classes(22, 1200)
        model = PropagationClassifier(setting="stream", scales=[1.0], two_ends=False, random_state=0).fit(edges[:1000])
        found = model.predict_proba(edges[1000:])
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        check_answer("to-the-bit.json", "22 classes", found)

    @pytest.mark.parametrize("name", ["payments", "blocks"])
    def test_outliers(self, name):
        edges = from_frame(table(name), bipartite=name == "payments")
        detector = EdgeOutlierDetector("shuffled", random_state=0).fit(edges)
        check_answer("to-the-bit.json", f"shuffled: {name}", detector.scores_, atol=1e-7)

    @pytest.mark.parametrize("method", ["trees", "recency"])
    def test_a_ranking(self, method):
        pytest.importorskip("lightgbm", reason="needs LightGBM")
        ranker = LinkRanker(method, n_trees=20, random_state=0).fit(from_frame(table("hubs"))[:1100])
        for node in (1, 3):
            found = ranker.rank(node, 280)
            check_answer("to-the-bit.json", f"ranking: {method}, next of {node}", found["score"], atol=1e-7)
            check_answer("to-the-bit.json", f"ranking: {method}, who is next of {node}", found["dst"])
        check_answer("to-the-bit.json", f"ranking: {method}, pairs", ranker.top(30)["score"], atol=1e-7)


def test_a_table_of_several_files_and_blocks(folder):
    """Two blocks of rows, and several ranges of rows to score; the files of the folder are one table."""
    frame = payments(12_000)
    frame = frame.with_columns(pl.when(pl.Series(np.arange(12_000) % 3 > 0)).then(pl.col("label")).alias("label"))
    parts = folder / "parts"
    parts.mkdir()
    for start in range(0, 12_000, 5000):
        frame[start : start + 5000].write_parquet(parts / f"part-{start:06}.parquet")
    model, options = model_of("payments", "interpolate", n_threads=1000), reading("payments", "interpolate")
    kept = Kept(folder)
    fill_file(parts, folder / "all.parquet", **options, model=model, memory="1GB", callback=kept)
    found = pl.read_parquet(folder / "all.parquet").filter(pl.col("label").is_null())["probability"]
    check_answer("classifier.json", "payments in two blocks, by file", found, atol=2e-6)
    edges = from_frame(frame, **options)
    columns = PropagationFeatures(two_ends="none", calendar="auto").fit(edges).transform(edges)[~edges.labelled]
    np.testing.assert_allclose(found, kept.model.values_of(as_in_files(columns))[:, 1], rtol=0, atol=1e-6)


def test_two_types_of_nodes_that_nobody_told_of(folder):
    """Matches that find nothing are left out, in memory and by file, and both give the same answers."""
    some_hidden("payments", "forecast").write_parquet(path := folder / "untold.parquet")
    options = {"label": "label", "features": ["amount"]}
    model = model_of("payments", "forecast")
    numbers = fill_file(path, folder / "out.parquet", **options, model=model, memory="1GB")
    found = pl.read_parquet(folder / "out.parquet").filter(pl.col("label").is_null())["probability"]
    check_answer("classifier.json", "payments, untold, by file", found, atol=2e-6)
    edges = from_frame(some_hidden("payments", "forecast"), **options)
    model = model_of("payments", "forecast").set_params(two_ends=False).fit(edges)
    names = model.features_.get_feature_names_out().tolist()
    assert list(numbers.columns) == names
    assert {name.partition("_")[0] for name in names} == {"src", "dst", "pair", "amount", "hour", "day"}
    np.testing.assert_allclose(model.predict_proba(edges[~edges.labelled])[:, 1], found, rtol=0, atol=1e-6)


@pytest.mark.parametrize("late", ["at once", "late labels", "delayed labels"])
@pytest.mark.parametrize("name", TABLES)
def test_as_a_stream(name, late):
    """What comes after the fit, edge by edge and in one table; labels count once they are known."""
    frame, options = table(name), reading(name, f"stream, {late}")
    delay = {"label_delay": options.pop("label_delay")} if "label_delay" in options else {}
    edges = from_frame(frame, **options)
    n_fitted = len(edges) * 3 // 4
    trees = HistGradientBoostingClassifier(max_iter=5, early_stopping=False, random_state=0)
    model, new = model_of(name, "stream", estimator=trees).fit(edges[:n_fitted], **delay), edges[n_fitted:]
    expected = model.scored(new)
    check_answer("stream.json", f"{name}: {late}", expected.columns)
    scorer, parts, sizes = StreamScorer(model), [], np.random.default_rng(0).integers(1, 30, 400)
    for stop, size in zip(np.cumsum(sizes), sizes, strict=True):
        parts.append(scorer.score_update(new[stop - size : min(stop, len(new))]))
        if stop >= len(new):
            break
    for field in ("columns", "values"):
        found = np.concatenate([getattr(part, field) for part in parts])
        np.testing.assert_allclose(found, getattr(expected, field), rtol=0, atol=1e-10, err_msg=field)
    transformed = model.features_.transform(edges[:n_fitted])
    np.testing.assert_array_equal(model.scored(edges[:n_fitted]).columns, transformed)


# ---- many classes


def many_classes(n_classes, n=3000):
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 200, (2, n))
    label = np.append(np.arange(n_classes), (src[n_classes:] * 5 + rng.integers(0, 3, n - n_classes)) % n_classes)
    return TemporalEdges(src, dst, np.sort(rng.integers(0, 500, n)), label=label)


def test_a_thousand_classes():
    edges = many_classes(1000)
    known = np.arange(3000) < 2700
    trees = RandomForestClassifier(5, max_depth=6, random_state=0)
    model = PropagationClassifier(trees, setting="interpolate", matches=["src", "pair"], scales=[1.0], two_ends=False)
    model.fit(edges.with_label(np.where(known, edges.label, np.nan)))
    found = model.predict_proba(edges[~known])
    assert found.shape == (300, 1000)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    check_answer("many-classes.json", "1000", found[:, ::37])
    check_answer("many-classes.json", "1000, most probable", found.max(axis=1))


# ---- columns


@pytest.mark.parametrize("past_only", [False, True], ids=["all times", "past"])
@pytest.mark.parametrize("name", TABLES)
def test_columns(name, past_only):
    """Names, order and values of all columns; with the past only, labels are late."""
    setting = "stream, late labels" if past_only else "interpolate"
    edges = from_frame(some_hidden(name, setting), **reading(name, setting))
    features = PropagationFeatures(past_only=past_only, scales=SCALES[name], calendar=name == "payments").fit(edges)
    names = features.get_feature_names_out()
    check_columns("columns.json", f"{name}, past_only={past_only}", names, features.transform(edges))


def test_columns_about_numbers():
    edges = from_frame(table("hubs"), label="label", features=["amount"])
    edges = edges.with_label(np.log(np.arange(len(edges)) % 17 + 1.5))
    features = PropagationFeatures(past_only=True, two_ends="partners", smoothing=2.0).fit(edges, label_delay=10)
    names = features.get_feature_names_out()
    check_columns("columns.json", "hubs, numbers", names, features.transform(edges))


# ---- other models


@pytest.mark.parametrize("setting", ["interpolate", "forecast", "stream"])
def test_a_regressor(setting):
    edges = from_frame(table("hubs"), label="label", features=["balance", "code"])
    number = np.log1p(edges.time) + np.sin(edges.dst) + edges.src % 3
    hidden = np.arange(len(edges)) >= 900 if setting != "interpolate" else np.arange(len(edges)) % 4 == 0
    edges = edges.with_label(np.where(hidden, np.nan, number))
    late = {"label_delay": 15} if setting == "stream" else {}
    trees = few_trees(HistGradientBoostingRegressor)
    model = PropagationRegressor(trees, setting=setting).fit(edges, **late)
    check_answer("others.json", f"regressor: {setting}", model.predict(edges[hidden]), atol=1e-7)


@pytest.mark.parametrize("name", TABLES)
def test_bursts(name, tmp_path):
    """In memory, by file in many buckets, and as a stream."""
    edges = from_frame(table(name), bipartite=name == "payments")
    detector = EdgeOutlierDetector("burst").fit(edges)
    check_answer("others.json", f"burst: {name}", detector.scores_)
    table(name).write_parquet(path := tmp_path / "edges.parquet")
    burst_file(path, tmp_path / "out.parquet", bipartite=name == "payments", memory="1GB")
    found = pl.read_parquet(tmp_path / "out.parquet")["outlier_score"].to_numpy()
    np.testing.assert_allclose(found, -detector.scores_, rtol=1e-5, atol=1e-5)
    early = EdgeOutlierDetector("burst").fit(edges[:800])
    live = StreamScorer(early).score_update(edges[800:]).values
    np.testing.assert_allclose(live, early.score_samples(edges[800:]), rtol=0, atol=1e-9)


# ---- the own label


def with_far_pairs(kind):
    """A small table with every kind of neighbour, and as many pairs of nodes that meet once and nobody else.

    To flip a label of the first ones and one of the second ones leaves the shares of the labels as they are.
    """
    rng = np.random.default_rng(7)
    n, n_far = 260, 40
    src, dst = rng.integers(0, 7, (2, n))
    src[1::5], dst[1::5] = src[0:-1:5][: len(src[1::5])], dst[0:-1:5][: len(dst[1::5])]  # repeated pairs
    time = np.sort(rng.integers(0, 90, n))
    time[1::5] = time[0:-1:5][: len(time[1::5])]  # copies in all but the label, too
    far = 1000 + np.arange(2 * n_far).reshape(2, -1)
    label = np.append(rng.integers(0, 2, n), np.arange(n_far) % 2)
    label = label * 2.5 if kind == "number" else label
    code = np.append([f"code {k}" for k in rng.integers(0, 20, n)], [f"far {k}" for k in range(n_far)])
    times = np.append(time, rng.integers(0, 90, n_far))
    features = {"code": code, "amount": rng.lognormal(size=n + n_far)}
    ends = np.append(src, far[0]), np.append(dst, far[1])
    return TemporalEdges(*ends, times, label=label.astype(float), features=features), n


def flipped(edges, row, n):
    """The labels with that of a row flipped, and the opposite change far away."""
    label, values = edges.label.copy(), np.unique(edges.label)
    other = values.sum() - label[row]
    far = n + int(np.argmax(label[n:] == other))
    label[row], label[far] = other, label[row]
    return label


PLACES = [
    pytest.param(past_only, delay, two_ends, id=f"{name}, {two_ends}")
    for name, past_only, delay in (("all times", False, None), ("past", True, None), ("late", True, 7))
    for two_ends in ("all", "partners", "none")
]


class TestOwnLabel:
    @pytest.mark.parametrize("kind", ["classes", "number"])
    @pytest.mark.parametrize(("past_only", "delay", "two_ends"), PLACES)
    def test_moves_no_bit_of_the_own_columns(self, past_only, delay, two_ends, kind):
        edges, n = with_far_pairs(kind)
        options = {} if delay is None else {"label_delay": delay}
        features = PropagationFeatures(past_only=past_only, two_ends=two_ends, scales=[1.0, 0.1], target=kind)
        rows = range(0, n, 19)
        before, n_moved = features.fit(edges, **options).transform(edges), 0
        alone = {row: features.transform(edges[row : row + 1]) for row in rows}
        for row in rows:
            features.fit(edges.with_label(flipped(edges, row, n)), **options)
            after = features.transform(edges)
            np.testing.assert_array_equal(after[row], before[row])
            np.testing.assert_array_equal(features.transform(edges[row : row + 1]), alone[row])
            n_moved += (after != before).any(axis=1).sum()
        assert n_moved > 200

    @pytest.mark.parametrize("setting", ["interpolate", "forecast", "stream", "stream, delayed"])
    def test_moves_no_bit_of_what_a_model_sees(self, setting):
        edges, n = with_far_pairs("classes")
        options = {"label_delay": 7} if "delayed" in setting else {}
        model = PropagationClassifier(DummyClassifier(), setting=setting.partition(",")[0])
        before, n_moved = model.fit(edges, **options).scored(edges).columns, 0
        for row in range(6, n, 23):
            other = edges.with_label(flipped(edges, row, n))
            after = model.fit(other, **options).scored(other).columns
            np.testing.assert_array_equal(after[row], before[row])
            n_moved += (after != before).any(axis=1).sum()
        assert n_moved > 100

    def test_moves_only_what_comes_later_in_a_stream(self):
        edges, n = with_far_pairs("classes")
        edges = edges[np.argsort(edges.time[:n], kind="stable")]
        model = PropagationClassifier(DummyClassifier(), setting="stream").fit(edges[:130])
        new = edges[130:]
        before, n_moved = StreamScorer(model).score_update(new).columns, 0
        for row in range(0, len(new), 11):
            label = new.label.copy()
            label[row] = 1 - label[row]
            after = StreamScorer(model).score_update(new.with_label(label)).columns
            moved = (after != before).any(axis=1)
            assert not moved[new.time <= new.time[row]].any()
            n_moved += moved.sum()
        assert n_moved > 50


# ---- saved models


def fitted_models():
    edges = from_frame(table("hubs"), **reading("hubs", "stream, late labels"))
    plain, number = from_frame(table("blocks"), label="label"), np.sin(edges.dst) + edges.time / 100
    numbers = edges.with_label(number, label_delay=10)
    few = {"scales": [1.0, 0.05], "random_state": 0}
    yield "stream", PropagationClassifier(setting="stream", **few).fit(edges[:900]), edges[800:]
    yield "forecast", PropagationClassifier(setting="forecast", **few).fit(edges[:900]), edges[800:]
    yield "interpolate", PropagationClassifier(setting="interpolate", **few).fit(plain[:800]), plain
    yield "numbers", PropagationRegressor(setting="stream", **few).fit(numbers[:900]), numbers[800:]
    yield "features", PropagationFeatures(past_only=True).fit(edges[:900]), edges[800:]


@pytest.fixture(scope="module")
def models():
    return {name: (model, edges) for name, model, edges in fitted_models()}


@pytest.mark.parametrize("name", ["stream", "forecast", "interpolate", "numbers", "features"])
def test_a_loaded_model_gives_the_same_bits(name, models, tmp_path):
    model, edges = models[name]
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for method in ("predict", "predict_proba", "transform"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(loaded, method)(edges), getattr(model, method)(edges))
    if name != "features":
        assert loaded.explain(edges[:5]).equals(model.explain(edges[:5]))
    if name in ("stream", "numbers"):
        one, two = (StreamScorer(each).score_update(edges[100:]) for each in (model, loaded))
        np.testing.assert_array_equal(one.columns, two.columns)
        np.testing.assert_array_equal(one.values, two.values)
        one, two = (each.update(edges[100:200]).predict(edges[200:]) for each in (model, loaded))
        np.testing.assert_array_equal(one, two)


def test_a_loaded_ranking_gives_the_same_bits(tmp_path):
    pytest.importorskip("lightgbm", reason="needs LightGBM")
    ranker = LinkRanker("trees", n_trees=10, random_state=0).fit(from_frame(table("hubs"))[:1100])
    ranker.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.rank(1, 280).equals(ranker.rank(1, 280))
    assert loaded.top(20).equals(ranker.top(20))
