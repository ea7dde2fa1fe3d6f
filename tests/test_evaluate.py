from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from scipy.stats import t
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

import tdlg
from tdlg import Gaussian, LineGraph, LineGraphClassifier, PropagationClassifier, TemporalEdges
from tdlg.exceptions import ParameterError, ReadError
from tdlg.judge.methods import METHODS, TDLG, TDLGDense, make_method
from tdlg.judge.metrics import class_metrics, precision_recall_at
from tdlg.judge.run import COLUMNS, _streaming, evaluate, read_results, settings_of, summarise
from tdlg.judge.trials import EdgeClassification, ForecastClassification, LinkPrediction
from tdlg_paper import RECIPES


def network(n_edges=600, n_nodes=40, seed=0):
    """Labels that depend on who meets whom when."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    time = rng.uniform(0, 100, n_edges)
    label = (np.sin(src + time / 20) + rng.normal(0, 0.5, n_edges) > 0).astype(int)
    return TemporalEdges(src, dst, time, label=label)


class Spy(BaseEstimator):
    """Scores at random, and keeps what it was shown."""

    name = "spy"
    shown: ClassVar[list] = []

    def __init__(self, level=1.0, random_state=None):
        self.level = level
        self.random_state = random_state

    def embed(self, edges):
        self.shown.append(("embed", edges))

    def fit(self, edges):
        self.shown.append(("fit", edges))

    def decision_function(self, edges):
        self.shown.append(("score", edges))
        return np.random.default_rng(self.random_state).random(len(edges))


@pytest.fixture(autouse=True)
def nothing_shown():
    Spy.shown.clear()


class TestEvaluate:
    def test_a_row_a_trial(self):
        rows = evaluate(Spy(level=2), EdgeClassification(network()), trials=3, random_state=5, dataset="made up")
        assert rows.columns == list(COLUMNS)
        assert rows["seed"].to_list() == [5, 6, 7]
        first = rows.row(0, named=True)
        assert (first["dataset"], first["task"], first["method"]) == ("made up", "edge classification", "spy")
        assert (first["settings"], first["version"]) == ("level=2", tdlg.__version__)
        assert (first["n_train"], first["n_test"]) == (420, 180)
        assert rows["auc"].n_unique() == 3
        for step in ("embed", "fit", "predict"):
            assert (rows[f"{step}_seconds"] >= 0).all()

    def test_metrics(self):
        edges = network()
        row = evaluate("label-rates", EdgeClassification(edges), trials=1).row(0, named=True)
        trial = EdgeClassification(edges).draw(0)
        method = make_method("label-rates", random_state=0)
        method.fit(trial.seen())
        test = trial.tests["edge classification"]
        scores = method.decision_function(trial.edges[test])
        assert row["auc"] == pytest.approx(roc_auc_score(trial.y[test], scores), rel=1e-12)
        assert row["average_precision"] == pytest.approx(average_precision_score(trial.y[test], scores), rel=1e-12)

    def test_alerts_are_of_one_class_in_every_trial(self):
        labels = np.array([0, 1, 1, 0, 1, 0])
        scores = np.array([0.9, 0.8, 0.1])
        for train, test in (
            ([0, 1, 2], [3, 4, 5]),
            ([0, 3, 4], [1, 2, 5]),
        ):  # each has another rarest
            alerts = class_metrics(labels, np.array(train), np.array(test), scores)[2:]
            assert alerts == precision_recall_at(labels[test] == 1, scores, 100)

    def test_alerts_are_of_the_positive_class(self):
        edges = network()
        edges = edges.with_label((edges.label == 0) | (np.arange(len(edges)) % 3 > 0))  # most are True
        task = EdgeClassification(edges)
        default, true, false = (
            evaluate("label-rates", task, trials=1, positive=positive).row(0, named=True)
            for positive in (None, True, False)
        )
        assert default["alert_precision"] == true["alert_precision"] > false["alert_precision"]
        assert default["auc"] == true["auc"] == false["auc"]
        with pytest.raises(
            ParameterError, match=r"'positive' class must be one of the classes \[False, True\]\. Got 2"
        ):
            evaluate("label-rates", task, trials=1, positive=2)

    def test_rows_of_another_positive_class_are_refused(self, tmp_path):
        task, path = EdgeClassification(network()), tmp_path / "rows.csv"
        evaluate("label-rates", task, trials=1, path=path)
        with pytest.raises(ParameterError, match="another positive class"):
            evaluate("label-rates", task, trials=1, path=path, positive=0)

    def test_link_prediction_has_two_settings_and_one_fit(self):
        rows = evaluate(Spy(), LinkPrediction(network()), trials=2)
        assert rows["task"].to_list() == ["link prediction, interpolative", "link prediction, extrapolative"] * 2
        assert [step for step, _ in Spy.shown] == ["embed", "fit", "score", "score"] * 2
        assert rows["fit_seconds"].n_unique() == 2

    @pytest.mark.parametrize("task", [EdgeClassification, LinkPrediction])
    def test_no_label_asked_for_is_shown(self, task):
        evaluate(Spy(), task(network()), trials=1)
        trial = task(network()).draw(0)
        for step, edges in Spy.shown:
            shown = edges.rows[edges.labelled]
            assert set(shown) == (set() if step == "score" else set(trial.train))

    def test_more_than_two_classes(self):
        edges = network()
        edges = edges.with_label(np.array(["a", "b", "c"])[edges.dst % 3])
        assert evaluate("label-rates", EdgeClassification(edges), trials=1)["auc"][0] > 0.9
        assert evaluate("tdlg", EdgeClassification(edges), trials=1)["auc"][0] > 0.7

    def test_labels_that_become_known(self):
        edges = network()
        task = ForecastClassification(edges, stream=True)
        evaluate(Spy(), task, trials=1)
        assert [step for step, _ in Spy.shown] == ["embed", "fit", "score"] * 6
        for _, seen in Spy.shown[1::3]:
            assert seen.labelled.any()
            assert edges.time[seen.rows[seen.labelled]].max() < edges.time[seen.rows[~seen.labelled]].min()
        assert all(asked.label is None for step, asked in Spy.shown if step == "score")

    def test_labels_that_become_known_to_a_method_that_takes_them(self):
        class Streamer(Spy):
            def streaming(self):
                return clone(self).set_params(level=9)

        edges = network()
        evaluate(Streamer(), ForecastClassification(edges, stream=True), trials=1)
        assert [step for step, _ in Spy.shown] == ["embed", "fit", "score"]
        _, asked = Spy.shown[-1]
        np.testing.assert_array_equal(asked.label, edges.label[asked.rows])

    @pytest.mark.parametrize("name", ["propagation", "label-rates"])
    def test_streaming_methods_use_labels_only_for_later_edges(self, name):
        edges = network()
        trial = ForecastClassification(edges, stream=True).draw()
        asked = np.sort(trial.tests["stream"])
        method = _streaming(make_method(name, random_state=0))
        method.fit(trial.seen())
        middle = asked[np.argsort(edges.time[asked])[len(asked) // 2]]
        other = trial.y.copy()
        other[middle] = 1 - other[middle]
        one, two = (method.decision_function(edges.with_label(y)[asked]) for y in (trial.y, other))
        changed = asked[one != two]
        assert (edges.time[changed] > edges.time[middle]).all()
        rows = [evaluate(name, ForecastClassification(edges, stream=flag), trials=1) for flag in (True, False)]
        assert rows[0]["auc"][0] != rows[1]["auc"][0]

    def test_a_callback_stops(self):
        calls = []
        rows = evaluate(Spy(), EdgeClassification(network()), callback=lambda *a: calls.append(a) or len(calls) == 2)
        assert calls == [(1, 10), (2, 10)]
        assert len(rows) == 2

    def test_memory_is_that_of_the_trial(self):
        class Hog(Spy):
            def fit(self, edges):
                np.ones(25_000_000).sum()

        rows = evaluate(Hog(), EdgeClassification(network()), trials=2)
        spared = evaluate(Spy(), EdgeClassification(network()), trials=1)
        if not np.isnan(rows["peak_bytes"][0]):
            assert (rows["peak_bytes"] > 190e6).all()
            assert spared["peak_bytes"][0] < 50e6

    def test_bad_input(self):
        task = EdgeClassification(network())
        with pytest.raises(ParameterError, match=r"'trials' .* Got 0"):
            evaluate(Spy(), task, trials=0)
        with pytest.raises(ParameterError, match=r"'random_state' .* Got None"):
            evaluate(Spy(), task, random_state=None)
        with pytest.raises(ParameterError, match=r"one of \['tdlg', .* Got 'magic'"):
            evaluate("magic", task)


class TestFile:
    def run(self, path, trials=3, method=None, **options):
        return evaluate(method or Spy(), EdgeClassification(network()), trials, path=path, **options)

    def test_rows_are_appended_and_not_run_again(self, tmp_path):
        path = tmp_path / "new" / "rows.csv"
        first = self.run(path, 2)
        Spy.shown.clear()
        both = self.run(path, 3)
        assert len(Spy.shown) == 3  # one trial
        assert len(path.read_text().splitlines()) == 4
        assert both["auc"][:2].to_list() == pytest.approx(first["auc"].to_list(), rel=1e-5)
        assert read_results(path)["seed"].to_list() == [0, 1, 2]

    def test_other_settings_datasets_and_seeds_are_run(self, tmp_path):
        path = tmp_path / "rows.csv"
        self.run(path, 1)
        self.run(path, 1, Spy(level=2))
        self.run(path, 1, dataset="other")
        self.run(path, 1, random_state=9)
        assert len(read_results(path)) == 4

    @pytest.mark.parametrize(
        "change",
        [
            lambda edges: network(seed=1),
            lambda edges: edges.with_label(1 - edges.label),
            lambda edges: TemporalEdges(edges.src, edges.dst, edges.time, label=edges.label, weight=np.ones(600)),
            lambda edges: TemporalEdges(edges.src.astype(str), edges.dst.astype(str), edges.time, label=edges.label),
        ],
        ids=["other edges", "other labels", "weights", "other ids"],
    )
    def test_rows_of_other_edges_of_the_same_number_are_refused(self, tmp_path, change):
        path = tmp_path / "rows.csv"
        self.run(path, 1)
        before = path.read_text()
        with pytest.raises(ParameterError, match=r"rows.csv'.*seed 0 .*was measured on other edges, labels.*dataset="):
            evaluate(Spy(), EdgeClassification(change(network())), 1, path=path, any_version=True)
        assert path.read_text() == before

    def test_equal_edges_of_another_table_are_the_same(self, tmp_path):
        edges = network().with_label(np.where(network().label == 1, "good", "bad"))
        for given in (edges, TemporalEdges(list(edges.src), edges.dst, edges.time, label=list(edges.label))):
            evaluate(Spy(), EdgeClassification(given), 1, path=tmp_path / "rows.csv")
        assert len(Spy.shown) == 3

    def test_rows_of_another_version_are_reused_only_where_asked_for(self, tmp_path, monkeypatch):
        path = tmp_path / "rows.csv"
        self.run(path, 2)
        monkeypatch.setattr("tdlg.judge.run.__version__", "9.9")
        with pytest.raises(
            ParameterError, match=rf"tdlg {tdlg.__version__} measured; this is tdlg 9\.9\. .*any_version"
        ):
            self.run(path)
        assert len(read_results(path)) == 2
        assert self.run(path, any_version=True)["version"].to_list() == [tdlg.__version__, tdlg.__version__, "9.9"]

    def test_rows_without_a_fingerprint_are_kept(self, tmp_path):
        path = tmp_path / "rows.csv"
        first = self.run(path, 2)
        header, *lines = path.read_text().splitlines()
        lines = [line.rpartition(",")[0] + "," for line in lines]
        path.write_text("\n".join([header, *lines]) + "\n")
        assert read_results(path)["fingerprint"].to_list() == ["", ""]
        with pytest.raises(ParameterError, match=r"does not say which edges it was measured on\. .*any_version=True"):
            self.run(path)
        self.run(path, any_version=True)
        kept = read_results(path)
        assert [bool(text) for text in kept["fingerprint"]] == [False, False, True]
        assert path.read_text().splitlines()[1:3] == lines
        assert kept["auc"][:2].to_list() == pytest.approx(first["auc"].to_list(), rel=1e-5)

    def test_rows_are_there_when_a_run_is_interrupted(self, tmp_path):
        def interrupt(done, total):
            if done == 2:
                raise KeyboardInterrupt

        path = tmp_path / "rows.csv"
        with pytest.raises(KeyboardInterrupt):
            self.run(path, callback=interrupt)
        assert len(read_results(path)) == 2
        assert len(self.run(path)) == 3

    def test_an_unfinished_line_is_run_again(self, tmp_path):
        path = tmp_path / "rows.csv"
        self.run(path, 2)
        whole = path.read_text()
        path.write_text(whole[:-15])
        assert read_results(path)["seed"].to_list() == [0]
        self.run(path, 2)
        assert read_results(path)["seed"].to_list() == [0, 1]

    def test_a_header_alone_that_is_unfinished(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text("dataset,ta")
        self.run(path, 1)
        assert len(read_results(path)) == 1

    def test_foreign_files_are_refused_and_kept(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text("a,b\n1,2\n")
        with pytest.raises(ReadError, match="does not hold results"):
            self.run(path)
        assert path.read_text() == "a,b\n1,2\n"
        path.write_text(",".join(COLUMNS) + "\nx,y\n")
        with pytest.raises(ReadError, match="Line 2 of"):
            read_results(path)
        with pytest.raises(ReadError, match="There is no file"):
            read_results(tmp_path / "none.csv")


class TestSummarise:
    def test_means_and_intervals(self):
        auc = np.array([0.8, 0.9, 0.7, 0.85])
        rows = pl.DataFrame({"method": ["x"] * 4 + ["y"], "auc": [*auc, 0.5]}).with_columns(
            embed_seconds=pl.lit(1.0), fit_seconds=pl.lit(2.0), predict_seconds=pl.lit(3.0)
        )
        x, y = summarise(rows, by=["method"]).to_dicts()
        assert x["mean"] == pytest.approx(auc.mean())
        assert x["half_width"] == pytest.approx(t.ppf(0.975, 3) * auc.std(ddof=1) / 2)
        assert (x["trials"], x["seconds"]) == (4, 6.0)
        assert np.isnan(y["half_width"])


class TestPrecisionRecallAt:
    def test_of_the_highest_scores(self):
        is_positive = np.array([True, True, False, False, True])
        scores = np.array([5.0, 1.0, 4.0, 3.0, 2.0])
        assert precision_recall_at(is_positive, scores, 2) == (0.5, pytest.approx(1 / 3))
        assert precision_recall_at(is_positive, scores, 100) == (0.6, 1.0)

    def test_ties_count_for_their_share(self):
        is_positive = np.array([True, False, False, True])
        assert precision_recall_at(is_positive, np.array([9.0, 1.0, 1.0, 1.0]), 2) == pytest.approx((2 / 3, 2 / 3))

    def test_nothing_to_find(self):
        assert np.isnan(precision_recall_at(np.zeros(3, bool), np.arange(3.0), 2)).all()


def without_epochs(settings):
    """A run whose trials would take too long has fewer epochs, and its rows say so."""
    return ", ".join(part for part in settings.split(", ") if not part.startswith("epochs="))


class TestEstimators:
    def test_any_classifier_of_edges(self):
        edges = TemporalEdges(["a", "b", "c"] * 40, ["x", "y", "z", "x"] * 30, range(120), label=[0, 1, 1, 0] * 30)
        task = EdgeClassification(edges)
        rows = evaluate(LineGraphClassifier(class_weight="balanced"), task, trials=2)
        assert set(rows["method"]) == {"LineGraphClassifier"}
        assert set(rows["settings"]) == {"class_weight='balanced'"}
        assert rows["auc"].to_list() == evaluate("tdlg", task, trials=2)["auc"].to_list()

    def test_one_that_forecasts(self):
        edges = TemporalEdges(["a", "b", "c"] * 40, ["x", "y", "z", "x"] * 30, range(120), label=[0, 1, 1, 0] * 30)
        task = ForecastClassification(edges)
        model = PropagationClassifier(setting="forecast", random_state=0)
        rows = evaluate(model, task)
        assert rows["auc"][0] > 0.9
        assert rows["method"].to_list() == ["PropagationClassifier"]


class TestMethods:
    def test_all_can_be_made_and_told_apart(self):
        methods = {name: make_method(name) for name in METHODS}
        assert len({(method.name, settings_of(method)) for method in methods.values()}) == len(METHODS)
        assert {name: settings_of(method) for name, method in methods.items() if settings_of(method)} == {
            "evolvegcn-o": "variant='O'"
        }
        assert settings_of(make_method("tdlg", normalization="edge")) == "normalization='edge'"

    @pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.runs("paper")])
    def test_settings_are_those_of_the_rows_that_are_kept(self, name):
        """Hours were spent on them: other words for the same settings would lose them."""
        recipe, rows = RECIPES[name], read_results(Path(__file__).parents[1] / "results" / f"{name}.csv")
        runs = [run for protocol in recipe.protocols for run in recipe.runs(protocol) if run.is_possible]
        built = {(method.name, settings_of(method)) for method in (run.build() for run in runs)}
        found = set(rows.select("method", "settings").iter_rows())
        kept = {key if key in built else (key[0], without_epochs(key[1])) for key in found}
        assert kept <= built
        assert {method for method, _ in built - kept}.isdisjoint(rows["method"])

    @pytest.mark.parametrize(
        ("level", "settings"),
        [
            (1.0, ""),
            (np.float64(1.0), ""),
            (np.int64(3), "level=3"),
            ("a, b", "level='a, b'"),
            (Gaussian(relative=0.3), "level=Gaussian(relative=0.3)"),
            ([TDLG(protocol="notebook"), (1, None)], "level=[TDLG(protocol='notebook'), (1, None)]"),
            ({"C": LogisticRegression(C=0.5, tol=1)}, "level={'C': LogisticRegression(C=0.5, tol=1)}"),
        ],
    )
    def test_settings_show_values(self, level, settings):
        assert settings_of(Spy(level)) == settings

    def test_settings_know_generators_by_their_state_and_arrays_by_their_values(self):
        for make in (np.random.default_rng, np.random.RandomState):
            first, same, other = (settings_of(Spy(random_state=make(seed))) for seed in (0, 0, 1))
            assert first == same != other
            assert "0x" not in first
        long = np.arange(2000.0)
        assert (
            settings_of(Spy(long)) == settings_of(Spy(long.copy())) != settings_of(Spy(np.where(long == 1000, 0, long)))
        )

    def test_a_generator_does_not_hinder_resumption(self, tmp_path):
        for _ in range(2):
            method = Spy(random_state=np.random.default_rng(0))
            evaluate(method, EdgeClassification(network()), 2, path=tmp_path / "rows.csv")
        assert len(Spy.shown) == 2 * 3

    def test_tdlg_is_logistic_regression_on_the_rows(self):
        edges = network()
        trial = EdgeClassification(edges).draw(0)
        test = trial.tests["edge classification"]
        H = LineGraph(edges, decay=Gaussian(relative=0.1)).to_csr()
        model = LogisticRegression(class_weight="balanced", max_iter=10_000, tol=1e-8)
        expected = model.fit(H[trial.train], trial.y[trial.train]).decision_function(H[test])
        method = TDLG().fit(trial.seen())
        np.testing.assert_allclose(method.decision_function(trial.edges[test]), expected, atol=0.05)

    def test_the_notebook_has_a_wider_decay(self):
        edges = network()
        method = TDLG(protocol="notebook")
        method.fit(edges)
        assert method.decay_.bandwidth == pytest.approx(0.1 * 2**0.5 * edges.time.std())
        with pytest.raises(ParameterError, match=r"'protocol' .* Got 'thesis'"):
            TDLG(protocol="thesis").fit(edges)

    def test_dense_takes_the_vectors_of_the_edges_embedded(self):
        edges = network()
        method = TDLGDense(n_components=8, random_state=0)
        method.embed(edges[:500])
        method.fit(edges[:500])
        vectors = method._vectors(edges[[499, 3, 550]])
        np.testing.assert_array_equal(vectors[:2], method.embedding_.embedding_[[499, 3]])
        np.testing.assert_allclose(vectors[2:], method.embedding_.transform(edges[550:551]))
        fresh = TemporalEdges(edges.src, edges.dst, edges.time)
        np.testing.assert_allclose(method.decision_function(fresh), method.decision_function(edges), atol=1e-4)
