import csv
import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from tdlg import Gaussian, Laplace, TemporalEdges
from tdlg.exceptions import ParameterError, ReadError
from tdlg.judge.methods import METHODS
from tdlg.judge.run import COLUMNS, read_results, settings_of
from tdlg_paper import RECIPES, claims, machine, page, reproduce, run, synthetic
from tdlg_paper.__main__ import main
from tdlg_paper.figures import FIGURES
from tdlg_paper.page import judged, write_page
from tdlg_paper.published import Estimate, notebook_auc, paper_auc, paper_datasets
from tdlg_paper.recipes import (
    ABLATED,
    BANDWIDTHS,
    DATASETS,
    EDGE,
    EXTRAPOLATIVE,
    INTERPOLATIVE,
    LINEUP,
    NORMALISATIONS,
    entries,
)
from tdlg_paper.results import Results
from tdlg_paper.rows import keep_row, read_rows
from tdlg_paper.tables import section

TDLG, DENSE, CTDNE, TIMERS, EVOLVE, DYNGEM = LINEUP[:6]


def network(seed):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 20, (2, 200))
    return TemporalEdges(src, dst, rng.uniform(0, 1e6, 200), label=rng.integers(0, 2, 200))


class Cheap(BaseEstimator):
    """Scores by the source's number, and counts how often it was fitted on how many edges."""

    fitted: list = []  # noqa: RUF012

    def fit(self, edges):
        self.fitted.append((self.name, len(edges)))

    def decision_function(self, edges):
        return edges.src_code.astype(float)


def cheap(name, **settings):
    """A class of method by this name, with these parameters and their defaults."""
    if "class_weight" in settings:

        class Weighted(Cheap):
            def __init__(self, decay=None, normalization=None, class_weight="balanced", protocol="paper"):
                self.decay = decay
                self.normalization = normalization
                self.class_weight = class_weight
                self.protocol = protocol

        found = Weighted
    else:
        found = type("Plain", (Cheap,), {})
    found.name = name
    return found


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
    """Drawing takes most of the time; tests that ask for the fixture `figures` have them."""
    if "figures" not in request.fixturenames:
        monkeypatch.setattr(page, "draw_figures", lambda results, folder: {})


@pytest.fixture
def figures(monkeypatch):
    """With figures, of few pixels."""
    monkeypatch.setattr("tdlg_paper.figures.DPI", 20)


@pytest.fixture(autouse=True)
def small_world(monkeypatch):
    """Cheap methods by the known names; made-up networks for four data sets, none for the fifth."""
    asked = []

    def load(name):
        asked.append(name)
        if name == "epinions":
            raise ReadError("The data set 'epinions' is not on this machine.")
        return network(DATASETS.index(name))

    monkeypatch.setattr(run, "load_dataset", load)
    monkeypatch.setattr(run, "WARM_UP", 100)
    run._edges.cache_clear()
    for key in list(METHODS):
        monkeypatch.delitem(METHODS, key)
    monkeypatch.setitem(METHODS, "tdlg", cheap("TDLG", class_weight="balanced"))
    monkeypatch.setitem(METHODS, "tdlg-dense", cheap("TDLG (Dense)"))
    monkeypatch.setitem(METHODS, "label-rates", cheap("label rates"))
    monkeypatch.setitem(METHODS, "edgebank", cheap("EdgeBank"))
    Cheap.fitted.clear()
    yield asked
    run._edges.cache_clear()


# ---- rows that are made up


def write_rows(path, rows):
    """Rows of results: dataset, task, method, auc, and what else differs; one a trial."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = dict.fromkeys(COLUMNS, 1) | {"settings": "", "version": "0", "fingerprint": "", "seed": 0}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(COLUMNS))
        writer.writeheader()
        writer.writerows(plain | row for row in rows)


def trials(auc, dataset="bitcoinalpha", task=EDGE, method="TDLG", n=3, **more):
    return [
        {"dataset": dataset, "task": task, "method": method, "auc": auc + spread, "seed": seed, **more}
        for seed, spread in enumerate(np.linspace(-0.001, 0.001, n))
    ]


def everywhere(auc, datasets=ABLATED, **more):
    return [row for name in datasets for row in trials(auc, name, **more)]


def folder_with(folder, no_data=("epinions",), **files):
    """A folder of rows, of which the fifth data set is known to be missing."""
    for name, rows in files.items():
        write_rows(folder / f"{name.replace('_', '-')}.csv", rows)
    lines = [f"{name},,,,,not run: data" if name in no_data else f"{name},5,6,7,50.0,measured" for name in DATASETS]
    (folder / "datasets.csv").write_text("dataset,n_nodes,n_edges,days,positive,status\n" + "\n".join(lines) + "\n")
    return Results(folder)


def outcome(claim, results, **which):
    return claim(results, **which).outcome


# ---- recipes


class TestRecipes:
    def test_each_of_the_papers_tables_and_figures_has_one(self):
        tables = {"datasets", "edge-classification", "link-prediction", "decay"}
        figures = {"edge-classification-figure", "link-prediction-figure", "means", "runtime"}
        others = {"synthetic-network", "synthetic-method", "bandwidth", "normalisation", "ctdne"}
        assert set(RECIPES) == tables | figures | others
        assert all(need in RECIPES for recipe in RECIPES.values() for need in recipe.needs)

    @pytest.mark.parametrize(
        ("name", "protocol", "count"),
        [
            ("edge-classification", "paper", 10),
            ("edge-classification", "notebook", 5),
            ("link-prediction", "paper", 5),
            ("link-prediction", "notebook", 3),
            ("bandwidth", "paper", 5),
            ("normalisation", "paper", 5),
            ("decay", "paper", 5),
        ],
    )
    def test_trials(self, name, protocol, count):
        slow = {entry.key: entry.trials for entry in LINEUP if entry.trials < count}
        assert all(one.trials == slow.get(one.method, count) for one in RECIPES[name].runs(protocol))
        assert {"tdlg", "tdlg-dense", "ctdne", "timers", "label-rates"}.isdisjoint(slow)

    def test_methods_and_data_sets_are_the_papers(self):
        pairs = {(one.method, one.dataset) for one in RECIPES["edge-classification"].runs("paper")}
        assert ("vgrnn", "wikielect") in pairs
        assert ("timers", "epinions") in pairs
        assert ("evolvegcn", "epinions") not in pairs
        assert ("edgebank", "escorts") not in pairs
        links = {one.method for one in RECIPES["link-prediction"].runs("paper")}
        assert links == {"tdlg", "ctdne", "timers", "evolvegcn", "dyngem", "label-rates", "edgebank"}

    def test_classes_are_balanced_only_in_edge_classification(self):
        edge, link = (RECIPES[name].runs("paper")[0].build() for name in ("edge-classification", "link-prediction"))
        assert (edge.class_weight, link.class_weight) == ("balanced", None)
        assert (settings_of(edge), settings_of(link)) == ("", "class_weight=None")

    def test_the_notebook_balances_both_and_keeps_its_decay(self):
        for name in ("edge-classification", "link-prediction"):
            runs = RECIPES[name].runs("notebook")
            assert {one.method for one in runs} == {"tdlg"}
            method = runs[0].build()
            assert (method.class_weight, method.protocol) == ("balanced", "notebook")

    def test_what_the_ablations_vary(self):
        assert np.allclose(np.log10(BANDWIDTHS), np.arange(-3, 1.01, 0.5), atol=1e-4)
        bandwidth = [one for one in RECIPES["bandwidth"].runs("paper") if one.dataset == "escorts"]
        assert [one.settings["decay"] for one in bandwidth] == [Gaussian(relative=value) for value in BANDWIDTHS]
        normalisation = [one.settings["normalization"] for one in RECIPES["normalisation"].runs("paper")[:3]]
        assert normalisation == [None, "spectral", "edge"]
        decays = [one.settings["decay"] for one in RECIPES["decay"].runs("paper")[:2]]
        assert decays == [Gaussian(relative=0.1), Laplace(relative=0.1)]

    def test_a_method_that_is_added_later_is_run(self, tmp_path, monkeypatch):
        reproduce("edge-classification", folder=tmp_path, trials=1, datasets=["escorts"])
        assert "CTDNE" not in read_results(tmp_path / "edge-classification.csv")["method"]
        monkeypatch.setitem(METHODS, "ctdne", cheap("CTDNE"))
        written = reproduce("edge-classification", folder=tmp_path, trials=1, datasets=["escorts"])
        assert "CTDNE" in read_results(tmp_path / "edge-classification.csv")["method"]
        assert Results(tmp_path).auc(EDGE, CTDNE, "escorts") is not None
        assert "run here: CTDNE; not run: TIMERS" in written.read_text()


class TestPaper:
    def test_shapes(self):
        by_task = {
            task: [key for key in paper_auc() if key[0] == task] for task in (EDGE, INTERPOLATIVE, EXTRAPOLATIVE)
        }
        assert [len(keys) for keys in by_task.values()] == [8 * 5 - 4, 5 * 5 - 2, 5 * 5 - 2]
        assert {key[2] for key in paper_auc()} == set(DATASETS) == set(paper_datasets())
        assert {key[1] for key in paper_auc()} == {
            entry.name for entry in LINEUP if entry.kind in ("TDLG", "prior method")
        }
        assert all(0 < estimate.half_width < 0.3 < 1 for estimate in paper_auc().values())

    @pytest.mark.parametrize(
        ("task", "method", "dataset", "mean", "half_width"),
        [
            (EDGE, "TDLG", "escorts", 75.44, 0.29),
            (EDGE, "TDLG (Dense)", "wikielect", 65.16, 0.24),
            (EDGE, "VGRNN", "bitcoinotc", 67.24, 1.00),
            (INTERPOLATIVE, "TDLG", "wikielect", 98.44, 0.05),
            (INTERPOLATIVE, "TIMERS", "epinions", 73.27, 0.11),
            (EXTRAPOLATIVE, "DynGEM", "bitcoinalpha", 39.75, 28.75),
        ],
    )
    def test_values(self, task, method, dataset, mean, half_width):
        estimate = paper_auc()[task, method, dataset]
        assert (estimate.mean, estimate.half_width) == pytest.approx((mean / 100, half_width / 100), abs=1e-9)

    def test_the_notebook(self):
        assert len(notebook_auc()) == 12
        assert notebook_auc()[EDGE, "bitcoinalpha"] == 0.9245


# ---- running


class TestReproduce:
    def test_rows_page_and_figure(self, tmp_path, figures):
        written = reproduce("edge-classification-figure", folder=tmp_path, trials=2, datasets=["wikielect", "escorts"])
        rows = read_results(tmp_path / "edge-classification.csv")
        assert rows.height == 2 * 2 * 3
        assert set(rows["dataset"]) == {"wikielect", "escorts"}
        assert set(rows["method"]) == {"TDLG", "TDLG (Dense)", "label rates"}
        assert written == tmp_path / "reproduction.md"
        assert (tmp_path / "images" / "reproduction" / "edge-classification-figure.png").stat().st_size > 1000
        text = written.read_text()
        assert "images/reproduction/edge-classification-figure.png" in text
        assert "(2 of 10 trials)" in text
        mean = 100 * rows.filter((rows["dataset"] == "escorts") & (rows["method"] == "TDLG"))["auc"].mean()
        assert f"| {mean:.2f} ± " in text

    def test_the_page_may_be_elsewhere(self, tmp_path, figures):
        target = tmp_path / "docs" / "page.md"
        asked = {"folder": tmp_path / "rows", "trials": 1, "datasets": ["escorts"]}
        assert reproduce("edge-classification", page=target, **asked) == target
        assert list((tmp_path / "docs" / "images" / "reproduction").glob("*.png"))

    def test_a_run_resumes(self, tmp_path):
        asked = {"folder": tmp_path, "datasets": ["escorts"]}
        reproduce("link-prediction", trials=1, **asked)
        Cheap.fitted.clear()
        reproduce("link-prediction", trials=3, **asked)
        whole = [name for name, n in Cheap.fitted if n > 150]  # the others warm up
        assert sorted(whole) == sorted(["TDLG", "label rates", "EdgeBank"] * 2)
        rows = read_results(tmp_path / "link-prediction.csv")
        assert rows.height == 3 * 3 * 2
        assert rows.unique().height == rows.height
        before = (tmp_path / "link-prediction.csv").read_bytes()
        Cheap.fitted.clear()
        reproduce("link-prediction", trials=3, **asked)
        assert (tmp_path / "link-prediction.csv").read_bytes() == before
        assert Cheap.fitted == []

    def test_rows_of_an_older_version_are_kept(self, tmp_path, monkeypatch):
        asked = {"folder": tmp_path, "datasets": ["escorts"]}
        reproduce("runtime", trials=1, **asked)
        path = tmp_path / "runtime.csv"
        before = read_results(path)
        monkeypatch.setattr("tdlg.judge.run.__version__", "9.9")
        reproduce("runtime", trials=2, **asked)
        after = read_results(path)
        assert after.filter(after["version"] != "9.9").equals(before)
        assert after.height == 2 * before.height

    def test_a_callback_stops_and_the_page_is_there(self, tmp_path):
        told = []

        def stop(step):
            told.append((step.done, step.total))
            return step.done >= 3

        written = reproduce("edge-classification", folder=tmp_path, trials=2, datasets=["escorts"], callback=stop)
        assert told[-1] == (3, 6)
        assert read_results(tmp_path / "edge-classification.csv").height == 3
        assert written.exists()
        reproduce("edge-classification", folder=tmp_path, trials=2, datasets=["escorts"])
        assert read_results(tmp_path / "edge-classification.csv").height == 6

    def test_data_that_is_missing_is_said_and_asked_for_once(self, tmp_path, small_world):
        written = reproduce(
            ["datasets", "edge-classification", "runtime"], folder=tmp_path, trials=1, datasets=["epinions"]
        )
        assert small_world == ["epinions"]
        assert not (tmp_path / "edge-classification.csv").exists()
        assert not Results(tmp_path).has_data("epinions")
        assert "|  | ours | not run | not run | not run | not run | not run: data |" in written.read_text()

    def test_what_was_counted_is_not_forgotten(self, tmp_path, monkeypatch):
        reproduce("datasets", folder=tmp_path)
        counted = Results(tmp_path).datasets
        expected = {"dataset": "escorts", "n_nodes": "20", "n_edges": "200", "days": "11", "status": "measured"}
        assert {**counted["escorts"], **expected} == counted["escorts"]
        assert 30 < float(counted["escorts"]["positive"]) < 70

        def nothing(name):
            raise ReadError("No network.")

        monkeypatch.setattr(run, "load_dataset", nothing)
        run._edges.cache_clear()
        reproduce("datasets", folder=tmp_path)
        assert Results(tmp_path).datasets == counted

    def test_a_method_that_lacks_a_package_is_left_out(self, tmp_path, monkeypatch):
        class Heavy(Cheap):
            name = "CTDNE"

            def fit(self, edges):
                raise ImportError("No module named 'gensim'")

        monkeypatch.setitem(METHODS, "ctdne", Heavy)
        reproduce("edge-classification", folder=tmp_path, trials=1, datasets=["escorts"])
        assert set(read_results(tmp_path / "edge-classification.csv")["method"]) == {
            "TDLG",
            "TDLG (Dense)",
            "label rates",
        }

    def test_again_forgets_only_what_is_asked(self, tmp_path):
        reproduce("runtime", folder=tmp_path, trials=1, datasets=["escorts", "wikielect"])
        path = tmp_path / "runtime.csv"
        old = [{**row, "auc": "0.123"} for row in csv.DictReader(path.read_text().splitlines())]
        write_rows(path, old)
        reproduce("runtime", folder=tmp_path, trials=1, datasets=["escorts"], again=True)
        rows = read_results(path)
        assert rows.height == len(old)
        assert set(rows.filter(rows["dataset"] == "wikielect")["auc"]) == {0.123}
        assert 0.123 not in set(rows.filter(rows["dataset"] == "escorts")["auc"])

    def test_again_forgets_the_rows_of_its_own_protocol(self, tmp_path):
        asked = {"folder": tmp_path, "trials": 1, "datasets": ["escorts"]}
        path = tmp_path / "edge-classification.csv"
        for protocol in ("paper", "notebook"):
            reproduce("edge-classification", protocol=protocol, **asked)
        old = [{**row, "auc": "0.123"} for row in csv.DictReader(path.read_text().splitlines())]
        other = {**old[0], "settings": "decay=\"protocol='notebook'\""}  # of no run: it is not measured anew
        write_rows(path, [*old, other])
        reproduce("edge-classification", protocol="notebook", again=True, **asked)
        found = read_results(path)
        assert set(found.filter(found["auc"] != 0.123)["settings"]) == {"protocol='notebook'"}
        assert found.height == len(old) + 1

    def test_data_sets_are_counted_again(self, tmp_path):
        for again in (False, True):
            reproduce("datasets", folder=tmp_path, datasets=["escorts"], again=again)
        assert Results(tmp_path).datasets["escorts"]["status"] == "measured"

    def test_recipes_bring_what_they_need(self, tmp_path, figures, monkeypatch):
        monkeypatch.setattr("tdlg_paper.figures.FIGURES", {"means": FIGURES["means"]})
        reproduce("means", folder=tmp_path, trials=1)
        assert {path.name for path in tmp_path.glob("*.csv")} == {
            "edge-classification.csv", "link-prediction.csv", "machines.csv",
        }  # fmt: skip
        assert (tmp_path / "images" / "reproduction" / "means.png").exists()

    def test_the_notebooks_rows_are_its_own(self, tmp_path):
        asked = {"folder": tmp_path, "trials": 1, "datasets": ["escorts"]}
        reproduce("edge-classification", **asked)
        without = (tmp_path / "reproduction.md").read_text()
        assert "notebook's" not in without
        written = reproduce(protocol="notebook", **asked)
        settings = read_results(tmp_path / "edge-classification.csv")["settings"]
        assert settings.to_list().count("protocol='notebook'") == 1
        assert Results(tmp_path).auc(EDGE, TDLG, "escorts").trials == 1
        assert Results(tmp_path).auc(EDGE, TDLG, "escorts", "notebook").trials == 1
        assert "| edge classification | notebook's | 92.45 | 93.58 | 75.74 | 90.77 |" in written.read_text()

    def test_ablations(self, tmp_path, figures):
        reproduce(["bandwidth", "normalisation", "decay"], folder=tmp_path, trials=1, datasets=["escorts"])
        found = Results(tmp_path)
        assert list(found.ablation("bandwidth")["escorts"]) == [f"{value:g}" for value in BANDWIDTHS]
        assert list(found.ablation("normalisation")["escorts"]) == list(NORMALISATIONS)
        assert list(found.ablation("decay")["escorts"]) == ["Gaussian", "Laplace"]
        assert found.ablation("bandwidth")["wikielect"] == {}
        assert (tmp_path / "images" / "reproduction" / "ablations.png").exists()

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"name": "table-9"}, "'name' parameter of reproduce must be one of .*edge-classification.*Got 'table-9'"),
            ({"datasets": ["reddit"]}, "'datasets' parameter of reproduce must be one of .*bitcoinalpha.*Got 'reddit'"),
            ({"protocol": "mine"}, "'protocol' parameter of reproduce must be one of .*Got 'mine'"),
            (
                {"name": "bandwidth", "protocol": "notebook"},
                "'bandwidth' has no protocol 'notebook'.*edge-classification",
            ),
        ],
    )
    def test_errors(self, tmp_path, asked, message):
        with pytest.raises(ParameterError, match=message):
            reproduce(folder=tmp_path / "rows", **asked)
        assert not (tmp_path / "rows").exists()

    def test_without_matplotlib_it_says_so_before_the_work(self, tmp_path, monkeypatch):
        monkeypatch.setattr(run, "find_spec", lambda name: None)
        with pytest.raises(ImportError, match=r"\.\[plots\]"):
            reproduce("edge-classification", folder=tmp_path)
        assert Cheap.fitted == []


class TestCommand:
    def test_it_prints_the_page_and_tells_its_progress(self, tmp_path, capsys):
        asked = ["edge-classification", "--folder", str(tmp_path), "--trials", "1", "--datasets", "escorts"]
        assert main(asked) == 0
        out, err = capsys.readouterr()
        assert out.strip() == str(tmp_path / "reproduction.md")
        assert "[0/3] edge-classification: escorts, tdlg" in err
        assert "[3/3] edge-classification: escorts, label-rates" in err

    def test_what_cannot_be(self, tmp_path, capsys):
        assert main(["table-9", "--folder", str(tmp_path)]) == 2
        assert "Got 'table-9'" in capsys.readouterr().err
        with pytest.raises(SystemExit, match="2"):
            main(["--trials", "0"])
        assert "must be positive. Got 0" in capsys.readouterr().err

    def test_help_lists_the_recipes(self, capsys):
        with pytest.raises(SystemExit, match="0"):
            main(["--help"])
        out = capsys.readouterr().out
        assert all(name in out for name in RECIPES)


# ---- claims


class TestBest:
    def test_against_the_papers_figures(self, tmp_path):
        claim = {"task": EDGE, "rivals": "paper"}
        assert outcome(claims.best, folder_with(tmp_path, edge_classification=everywhere(0.95)), **claim) == "held"
        low = everywhere(0.95, ABLATED[:3]) + trials(0.66, "wikielect")  # TIMERS has 66.16
        verdict = claims.best(folder_with(tmp_path, edge_classification=low), **claim)
        assert verdict.outcome == "not held"
        assert "wikielect 66.00 against 66.16 (TIMERS)" in verdict.why
        assert "epinions not run: data" in verdict.why

    def test_it_is_not_held_before_every_data_set_was_looked_at(self, tmp_path):
        claim = {"task": EDGE, "rivals": "paper"}
        three = folder_with(tmp_path, edge_classification=everywhere(0.95, ABLATED[:3]))
        assert outcome(claims.best, three, **claim) == "not run"
        assert (
            outcome(claims.best, folder_with(tmp_path, edge_classification=everywhere(0.5, ABLATED[:1])), **claim)
            == "not held"
        )
        at_hand = folder_with(tmp_path, no_data=(), edge_classification=everywhere(0.95))
        assert outcome(claims.best, at_hand, **claim) == "not run"
        assert outcome(claims.best, folder_with(tmp_path, edge_classification=[]), **claim) == "not run"

    @pytest.mark.parametrize(("theirs", "expected"), [(0.9, "held"), (0.96, "not held"), (None, "not run")])
    def test_against_prior_methods_that_were_run(self, tmp_path, monkeypatch, theirs, expected):
        monkeypatch.setitem(METHODS, "ctdne", cheap("CTDNE"))
        rows = everywhere(0.95) + ([] if theirs is None else everywhere(theirs, method="CTDNE"))
        verdict = claims.best(folder_with(tmp_path, edge_classification=rows), task=EDGE, rivals="prior method")
        assert verdict.outcome == expected
        assert ("run here: CTDNE" in verdict.why) == (theirs is not None)
        assert "not run: " in verdict.why

    def test_references_are_no_prior_methods(self, tmp_path):
        rows = everywhere(0.95) + everywhere(0.99, method="label rates")
        found = folder_with(tmp_path, edge_classification=rows)
        assert outcome(claims.best, found, task=EDGE, rivals="prior method") == "not run"
        assert outcome(claims.best, found, task=EDGE, rivals="reference") == "not held"

    @pytest.mark.parametrize("task", [INTERPOLATIVE, EXTRAPOLATIVE])
    def test_each_setting_of_links_is_judged_by_its_own(self, tmp_path, task):
        other = INTERPOLATIVE if task == EXTRAPOLATIVE else EXTRAPOLATIVE
        plain = {"settings": "class_weight=None"}
        rows = everywhere(0.99, task=task, **plain) + everywhere(0.3, task=other, **plain)
        found = folder_with(tmp_path, link_prediction=rows)
        assert outcome(claims.best, found, task=task, rivals="paper") == "held"
        assert outcome(claims.best, found, task=other, rivals="paper") == "not held"

    def test_rows_with_other_settings_do_not_count(self, tmp_path):
        rows = (
            everywhere(0.95)
            + everywhere(0.1, settings="normalization='edge'")
            + everywhere(0.1, settings="protocol='notebook'")
        )
        found = folder_with(tmp_path, edge_classification=rows)
        assert found.auc(EDGE, TDLG, "escorts").mean == pytest.approx(0.95)
        assert found.auc(EDGE, TDLG, "escorts", "notebook").mean == pytest.approx(0.1)


class TestMeans:
    @pytest.mark.parametrize(
        ("auc", "expected"), [(0.74, "held"), (0.69, "not held")]
    )  # the best prior mean: DynGEM, 70.15
    def test_dense_against_the_papers_figures(self, tmp_path, auc, expected):
        found = folder_with(tmp_path, edge_classification=everywhere(auc, method="TDLG (Dense)"))
        verdict = claims.dense_beats_prior(found, rivals="paper")
        assert verdict.outcome == expected
        assert "70.15 (DynGEM)" in verdict.why

    def test_dense_needs_all_four(self, tmp_path):
        found = folder_with(tmp_path, edge_classification=everywhere(0.9, ABLATED[:3], method="TDLG (Dense)"))
        assert outcome(claims.dense_beats_prior, found, rivals="paper") == "not run"

    @pytest.mark.parametrize(("theirs", "expected"), [(0.7, "held"), (0.9, "not held"), (None, "not run")])
    def test_dense_against_those_that_were_run(self, tmp_path, monkeypatch, theirs, expected):
        monkeypatch.setitem(METHODS, "timers", cheap("TIMERS"))
        rows = everywhere(0.8, method="TDLG (Dense)") + ([] if theirs is None else everywhere(theirs, method="TIMERS"))
        found = folder_with(tmp_path, edge_classification=rows)
        assert outcome(claims.dense_beats_prior, found, rivals="prior method") == expected

    @pytest.mark.parametrize(("dyngem", "expected"), [(0.8, "held"), (0.55, "not held"), (None, "not run")])
    def test_deep_methods(self, tmp_path, monkeypatch, dyngem, expected):
        aucs = {"EvolveGCN": 0.8, "CTDNE": 0.5, "TIMERS": 0.6} | ({} if dyngem is None else {"DynGEM": dyngem})
        for name in aucs:
            monkeypatch.setitem(METHODS, name.lower(), cheap(name))
        rows = [row for name, auc in aucs.items() for row in everywhere(auc, task=INTERPOLATIVE, method=name)]
        found = folder_with(tmp_path, link_prediction=rows)
        assert outcome(claims.deep_beat_others, found, task=INTERPOLATIVE) == expected
        assert outcome(claims.deep_beat_others, found, task=EXTRAPOLATIVE) == "not run"


class TestFastest:
    @pytest.mark.parametrize(("theirs", "expected"), [(9.0, "held"), (0.5, "not held"), (None, "not run")])
    def test_outcomes(self, tmp_path, monkeypatch, theirs, expected):
        monkeypatch.setitem(METHODS, "ctdne", cheap("CTDNE"))
        rows = everywhere(0.9) + (
            [] if theirs is None else everywhere(0.9, method="CTDNE", fit_seconds=theirs, embed_seconds=0)
        )
        rows += everywhere(0.9, method="label rates", fit_seconds=0, embed_seconds=0)  # no method of the paper
        assert outcome(claims.fastest, folder_with(tmp_path, runtime=rows)) == expected

    @pytest.mark.parametrize(("others", "fair"), [("0.05", True), ("0.50", False), ("", False)])
    def test_other_work_is_told(self, tmp_path, others, fair):
        folder_with(tmp_path, runtime=everywhere(0.9))
        session = machine.Watch("runtime").session(3)
        keep_row(tmp_path / "machines.csv", machine.replace(session, others=others))
        assert ("to be measured again" not in claims.fastest(Results(tmp_path)).why) == fair
        write_page(tmp_path, tmp_path / "page.md")
        assert ("**To be measured again:**" not in (tmp_path / "page.md").read_text()) == fair


def ablation(name, means):
    """Rows of an ablation from AUCs by value, the same on each data set unless given by data set."""
    rows = []
    for one in RECIPES[name].runs("paper"):
        auc = means[one.dataset].get(one.value) if one.dataset in means else means.get(one.value)
        if auc is not None:
            rows += trials(auc, one.dataset, settings=settings_of(one.build()))
    return rows


class TestAblations:
    flat = {f"{value:g}": 0.9 for value in BANDWIDTHS}  # noqa: RUF012

    def test_bandwidth_loss(self, tmp_path):
        held = ablation("bandwidth", self.flat | {"0.1": 0.92, "escorts": self.flat | {"10": 0.5}})
        verdict = claims.bandwidth_loss(folder_with(tmp_path, bandwidth=held))
        assert verdict.outcome == "held"
        assert "bitcoinalpha 2.2 %" in verdict.why
        assert "(escorts 44.4 %)" in verdict.why
        missed = ablation("bandwidth", self.flat | {"wikielect": self.flat | {"10": 0.85}})
        assert outcome(claims.bandwidth_loss, folder_with(tmp_path, bandwidth=missed)) == "not held"
        part = ablation("bandwidth", {key: auc for key, auc in self.flat.items() if key != "10"})
        assert outcome(claims.bandwidth_loss, folder_with(tmp_path, bandwidth=part)) == "not run"
        assert outcome(claims.bandwidth_loss, Results(tmp_path / "nowhere")) == "not run"

    @pytest.mark.parametrize(
        ("best", "expected"), [("0.1", "held"), ("0.3162", "held"), ("1", "not held"), (None, "not run")]
    )
    def test_best_bandwidth(self, tmp_path, best, expected):
        rows = (
            []
            if best is None
            else ablation("bandwidth", self.flat | {"0.03162": 0.91, "escorts": self.flat | {best: 0.95}})
        )
        assert outcome(claims.bandwidth_best, folder_with(tmp_path, bandwidth=rows)) == expected

    @pytest.mark.parametrize(
        ("spectral", "loss", "best"),
        [(0.86, "held", "held"), (0.8, "not held", "held"), (0.92, "held", "not held"), (None, "not run", "not run")],
    )
    def test_normalisation(self, tmp_path, spectral, loss, best):
        found = folder_with(
            tmp_path, normalisation=ablation("normalisation", {"none": 0.9, "edge": 0.87, "spectral": spectral})
        )
        assert outcome(claims.normalisation_loss, found) == loss
        assert outcome(claims.normalisation_best, found) == best


class TestSynthetic:
    def measured(self, folder, **values):
        good = {
            "kinds": 0.6,
            "kinds_blind": 0.2,
            "separable": 1,
            "separable_blind": 0,
            "nodes": 1.0,
            "nodes_blind": 0.5,
        }
        for seed in range(3):
            keep_row(folder / "synthetic-method.csv", synthetic.Draw(seed, **good | values))
        return Results(folder)

    @pytest.mark.parametrize(
        ("claim", "spoiled"),
        [
            (claims.kinds_apart, {"kinds": 0.4}),
            (claims.nodes_separable, {"separable": 0}),
            (claims.blind_not_separable, {"separable_blind": 1}),
            (claims.blind_not_separable, {"nodes_blind": 0.8}),
        ],
    )
    def test_outcomes(self, tmp_path, claim, spoiled):
        assert outcome(claim, Results(tmp_path)) == "not run"
        assert outcome(claim, self.measured(tmp_path)) == "held"
        assert outcome(claim, self.measured(tmp_path, **spoiled)) == "not held"

    def test_one_draw_with_a_node_on_the_wrong_side_is_enough(self, tmp_path):
        self.measured(tmp_path)
        draws = read_rows(tmp_path / "synthetic-method.csv", synthetic.Draw)
        keep_row(tmp_path / "synthetic-method.csv", machine.replace(draws[2], separable=0))
        assert outcome(claims.nodes_separable, Results(tmp_path)) == "not held"

    def test_separable(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 2)), np.repeat([0, 1], 30)
        assert not synthetic.is_separable(X, y)
        assert synthetic.is_separable(X + 1e6 + 10 * y[:, None], y)
        assert synthetic.is_separable(1e-9 * (X + 10 * y[:, None]), y)

    def test_the_papers_network_is_measured_once(self, tmp_path):
        path = tmp_path / "synthetic-method.csv"
        assert list(synthetic.measure(path, 1)) == [0]
        (row,) = Results(tmp_path).draws.iter_rows(named=True)
        assert row["separable"] == 1
        assert row["separable_blind"] == 0
        assert row["kinds"] > 0.25 > row["kinds_blind"]
        assert row["nodes"] > 0.95
        assert 0.3 < row["nodes_blind"] < 0.7
        text = path.read_text()
        path.write_text(text.replace("\n0,", "\n0,0.25,", 1).replace(f",{row['kinds']},", ",", 1))  # a mark
        assert list(synthetic.measure(path, 1)) == [0]
        assert Results(tmp_path).draws["kinds"].to_list() == [0.25]


class TestDatasets:
    def write(self, folder, **wrong):
        lines = ["dataset,n_nodes,n_edges,days,positive,status"]
        for name, counts in paper_datasets().items():
            counts = {**counts, **(wrong if name == "escorts" else {})}
            lines.append(f"{name},{counts['n_nodes']},{counts['n_edges']},{counts['days']},50.0,measured")
        (folder / "datasets.csv").write_text("\n".join(lines) + "\n")
        return Results(folder)

    def test_outcomes(self, tmp_path):
        assert outcome(claims.datasets_agree, Results(tmp_path)) == "not run"
        assert outcome(claims.datasets_agree, self.write(tmp_path)) == "held"
        verdict = claims.datasets_agree(self.write(tmp_path, n_nodes=16730))
        assert verdict.outcome == "not held"
        assert "n_nodes 16730, not 10106" in verdict.why
        write_page(tmp_path, tmp_path / "page.md")
        assert "| escorts | 10,106 / 16,730 |" in (tmp_path / "page.md").read_text()


# ---- the page


class TestPage:
    @pytest.mark.parametrize(
        ("task", "method", "ours", "paper", "expected"),
        [
            (EDGE, "TDLG", (0.911, 0.01), (0.92, 0.01), "-0.90, within 1.0"),
            (EDGE, "TDLG", (0.909, 0.05), (0.92, 0.05), "**-1.10, outside 1.0**"),
            (EDGE, "TDLG (Dense)", (0.814, 0.0), (0.80, 0.0), "+1.40, within 1.5"),
            (INTERPOLATIVE, "TDLG", (0.94, 0.1), (0.92, 0.1), "**+2.00, outside 1.0**"),
            (EXTRAPOLATIVE, "TDLG", (0.80, 0.0), (0.82, 0.0), "-2.00, within 2.5"),
            (EXTRAPOLATIVE, "TDLG", (0.78, 0.03), (0.82, 0.02), "-4.00, intervals overlap"),
            (EXTRAPOLATIVE, "TDLG", (0.78, 0.01), (0.82, 0.02), "**-4.00, outside 2.5**"),
            (EDGE, "CTDNE", (0.5, 0.0), (0.8, 0.0), "**-30.00, outside 4.0**"),
            (EDGE, "VGRNN", (0.78, 0.01), (0.8, 0.015), "-2.00"),
            (EDGE, "VGRNN", (0.77, 0.01), (0.8, 0.015), "**-3.00**"),
            (EDGE, "VGRNN", (0.79, float("nan")), (0.8, 0.015), "-1.00"),
        ],
    )
    def test_differences(self, task, method, ours, paper, expected):
        assert judged(task, method, Estimate(*ours, 5), Estimate(*paper, 5)) == expected

    def test_prior_methods_that_differ_are_named(self, tmp_path, monkeypatch):
        for entry in (CTDNE, TIMERS, EVOLVE, DYNGEM):
            monkeypatch.setitem(METHODS, entry.key, cheap(entry.name))
        rows = everywhere(0.95) + trials(0.8, "bitcoinalpha", method="CTDNE") + trials(0.9, "escorts", method="CTDNE")
        rows += trials(0.5, "escorts", method="EvolveGCN") + trials(0.76, "bitcoinotc", method="DynGEM")
        folder_with(tmp_path, edge_classification=rows + trials(0.9, "wikielect", method="DynGEM"))
        write_page(tmp_path, tmp_path / "page.md")
        text = (tmp_path / "page.md").read_text()
        assert (
            "\nHigher than in the paper: CTDNE (escorts), DynGEM (wikielect). Lower than in the paper: EvolveGCN (esco"
            in text
        )

    def test_one_trial_has_no_interval(self):
        assert (
            judged(EXTRAPOLATIVE, "TDLG", Estimate(0.5, math.nan, 1), Estimate(0.8, 0.1, 5))
            == "**-30.00, outside 2.5**"
        )

    def test_it_is_made_of_rows_alone(self, tmp_path, figures, monkeypatch):
        folder_with(tmp_path, edge_classification=everywhere(0.9), bandwidth=ablation("bandwidth", TestAblations.flat))
        TestSynthetic().measured(tmp_path)
        keep_row(tmp_path / "machines.csv", machine.Watch("edge-classification").session(12))
        written = []
        for place in ("one", "two"):
            write_page(tmp_path, tmp_path / place / "page.md")
            written.append({path.name: path.read_bytes() for path in (tmp_path / place).rglob("*.*")})
        assert written[0] == written[1]
        assert {"page.md", "synthetic-network.png", "synthetic-method.png", "ablations.png"} <= set(written[0])
        before = written[0]["page.md"]
        monkeypatch.setattr("tdlg_paper.figures.FIGURES", {})
        write_rows(tmp_path / "edge-classification.csv", everywhere(0.7))
        write_page(tmp_path, tmp_path / "one" / "page.md")
        after = (tmp_path / "one" / "page.md").read_bytes()
        assert after != before
        assert b"outside 1.0**" in after

    def test_nothing_was_run(self, tmp_path, figures):
        write_page(tmp_path / "nowhere", tmp_path / "page.md")
        text = (tmp_path / "page.md").read_text()
        assert f"0 held, 0 not held, {len(claims.CLAIMS)} not run, 0 undecided." in text
        assert "![" not in text
        assert text.count("92.16 ± 0.52") == 1

    def test_every_method_has_its_lines(self, tmp_path):
        folder_with(tmp_path)
        write_page(tmp_path, tmp_path / "page.md")
        text = (tmp_path / "page.md").read_text()
        part = section(text, "edge-classification")
        for entry in entries(EDGE):
            assert f"| {entry.name} |" in part
        assert "| EvolveGCN | paper | 71.29 ± 0.84 | 74.50 ± 0.58 | 69.62 ± 0.31 | 64.51 ± 0.16 | NA |" in part
        assert "|  | ours | not run | not run | not run | not run | NA |" in part
        assert "EdgeBank" not in part

    def test_tables_are_even(self, tmp_path):
        folder_with(tmp_path, edge_classification=everywhere(0.9), runtime=everywhere(0.9))
        keep_row(tmp_path / "machines.csv", machine.Watch("runtime").session(1))
        write_page(tmp_path, tmp_path / "page.md")
        blocks = (tmp_path / "page.md").read_text().split("\n\n")
        tables = [block.splitlines() for block in blocks if block.startswith("|")]
        assert len(tables) > 8
        for table in tables:
            assert len({line.count("|") for line in table}) == 1, table[0]


class TestMachine:
    def test_a_session(self):
        session = machine.Watch("runtime").session(7)
        assert (session.recipe, session.rows) == ("runtime", "7")
        assert session.processor
        assert int(session.cores) >= 1
        assert session.numpy == np.__version__
        assert session.others == "" or 0 <= float(session.others) <= 1

    def test_a_session_is_kept_once(self, tmp_path):
        path, watch = tmp_path / "machines.csv", machine.Watch("runtime")
        keep_row(path, machine.replace(watch.session(1), started="2020-01-01 00:00:00"))
        keep_row(path, watch.session(1))
        keep_row(path, watch.session(5))
        assert [session.rows for session in read_rows(path, machine.Session)] == ["1", "5"]

    def test_work_of_others(self, monkeypatch):
        clock = SimpleNamespace(now=0.0, own=0.0, busy=0.0)
        monkeypatch.setattr(machine, "perf_counter", lambda: clock.now)
        monkeypatch.setattr(machine, "process_time", lambda: clock.own)
        monkeypatch.setattr(machine, "_busy_seconds", lambda: clock.busy)
        monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
        watch = machine.Watch("runtime")
        clock.now, clock.own, clock.busy = 10.0, 8.0, 28.0
        assert watch.session(1).others == "0.50"
        assert not watch.session(1).is_quiet
        clock.busy = 9.0
        assert watch.session(1).is_quiet
        clock.busy = None
        assert watch.session(1).others == ""
        assert not watch.session(1).is_quiet

    def test_a_resumed_run_without_new_rows_is_no_session(self, tmp_path):
        for _ in range(2):
            reproduce("edge-classification", folder=tmp_path, trials=1, datasets=["escorts"])
        (session,) = read_rows(tmp_path / "machines.csv", machine.Session)
        assert session.rows == "3"
