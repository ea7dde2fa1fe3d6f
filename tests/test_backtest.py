"""Going through time: what is known at the start of each period, budgets of alerts, and columns of windows."""

import datetime
import warnings

import numpy as np
import polars as pl
import pytest

from tdlg import LineGraphClassifier, PropagationClassifier, TemporalEdges, make_payments
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.judge.backtest import alert_precision, backtest, learning_curve, usual_models
from tdlg.judge.references import Windows, window_columns
from tdlg.judge.run import evaluate, run_trial, scores_of
from tdlg.judge.trials import Periods
from tdlg.report import write_curve
from tdlg.report.text import figure

BACKTESTED = ("propagation", "label rates", "windows")
pytestmark = pytest.mark.usefixtures("few_trees")


def payments(n=1500, seed=0):
    sample = make_payments(n, random_state=seed)
    return sample.edges.with_label(sample.edges.label, sample.label_time)


def numbers(n=600, **options):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 20, n), rng.integers(0, 20, n)
    label = (rng.random(n) < np.where(dst < 5, 0.8, 0.1)).astype(float)
    return TemporalEdges(src, dst, np.arange(n), label=label, features={"amount": rng.gamma(2.0, size=n)}, **options)


def scores_of_first_period(edges):
    """The scores of the period from 200 to 400, by the usual methods."""
    task = Periods(edges, 200, start=200)
    return [run_trial(model, task.draw(0))["periods"][0] for model in usual_models(task.day, 0).values()]


class TestBacktest:
    def test_ours_beats_label_rates(self):
        table = backtest(payments(5000), "60d", alerts_per_day=2)
        total = {row["method"]: row for row in table.rows(named=True) if row["start"] is None}
        assert list(total) == list(BACKTESTED)
        assert total["propagation"]["auc"] > total["label rates"]["auc"] + 0.05
        assert total["propagation"]["alert_precision"] > total["label rates"]["alert_precision"]

    def test_periods(self):
        edges = payments()
        table = backtest(edges, "60d", alerts_per_day=2)
        ours = table.filter(method="propagation").rows(named=True)
        starts = [datetime.datetime(2025, 3, 2), datetime.datetime(2025, 5, 1), datetime.datetime(2025, 6, 30)]
        assert [row["start"] for row in ours] == [*starts, None]
        time, label_time = edges.time.astype(object), edges.label_time.astype(object)
        for row in ours[:-1]:
            stop = row["start"] + datetime.timedelta(days=60)
            inside = [k for k in range(len(edges)) if row["start"] <= time[k] < stop]
            assert row["stop"] == stop
            assert (row["n"], row["positives"]) == (len(inside), edges.label[inside].sum())
            assert row["n_train"] == sum(moment < row["start"] for moment in label_time)
        assert ours[-1]["n"] == sum(row["n"] for row in ours[:-1])
        assert ours[-1]["positives"] == sum(row["positives"] for row in ours[:-1])

    def test_a_start(self):
        table = backtest(payments(), "60d", start="2025-04-15", alerts_per_day=2)
        assert table["start"][0] == datetime.datetime(2025, 4, 15)
        table = backtest(numbers(), 200, start=300)
        assert table["start"].to_list()[::3] == [300.0, 500.0, None]

    def test_labels_that_are_not_known_in_a_period_move_no_score(self):
        """The last label of each period becomes known at its end or later."""
        rng = np.random.default_rng(1)
        late = np.where(rng.random(600) < 0.4, 1000, np.arange(600) + 30)
        late[390:400] = 400  # at the end of the first period
        edges = numbers(label_time=late)
        hidden = late >= 400
        other = edges.with_label(np.where(hidden, 1 - edges.label, edges.label))
        first, changed = (scores_of_first_period(e) for e in (edges, other))
        for method, mine, theirs in zip(BACKTESTED, first, changed, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=method)

    def test_labels_that_become_known_in_a_period_count(self):
        edges = numbers(label_time=np.arange(600) + 30)
        inside = (edges.label_time >= 200) & (edges.label_time < 400)
        other = edges.with_label(np.where(inside, 1 - edges.label, edges.label))
        first, changed = (scores_of_first_period(e) for e in (edges, other))
        for method, mine, theirs in zip(BACKTESTED, first, changed, strict=True):
            moved = edges.time[200:400][mine != theirs]
            assert len(moved), method
            assert moved.min() > 200, method  # the first of them is known at 200, and counts strictly later

    def test_unlabelled_edges_of_a_period_are_seen(self):
        label = numbers().label.copy()
        label[250:300] = np.nan
        edges = numbers().with_label(label)
        keep = np.ones(600, bool)
        keep[250:300] = False
        ours = scores_of_first_period(edges)[0]
        without = scores_of_first_period(edges[keep])[0]
        assert len(ours) == len(without) == 150
        assert not np.array_equal(ours, without)

    def test_stops(self):
        calls = []
        table = backtest(numbers(), 100, callback=lambda done, total: calls.append((done, total)) or done == 2)
        assert calls == [(1, 4), (2, 4)]
        assert len(table) == 9
        assert table["n"].to_list() == [100] * 6 + [200] * 3

    def test_other_classes_count_as_one(self):
        words = np.where(numbers().label == 1, "ok", np.where(np.arange(600) % 2, "fine", "bad"))
        table = backtest(numbers().with_label(words), 200, positive="ok")
        assert table["positives"][-1] == (words[200:] == "ok").sum()

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_units(self, unit):
        dates = np.datetime64("2025-01-01", "s") + np.arange(600).astype("timedelta64[h]")
        dated = TemporalEdges(*(getattr(numbers(), end) for end in ("src", "dst")), dates.astype(f"datetime64[{unit}]"))
        table = backtest(dated.with_label(numbers().label, label_delay="1d"), "10d", alerts_per_day=3)
        assert table["start"][0] == datetime.datetime(2025, 1, 11)

    def test_errors(self):
        with pytest.raises(ParameterError, match=r"'every' must be a duration such as '30d'. Got 30"):
            backtest(payments(), 30)
        with pytest.raises(ParameterError, match=r"'every' must be a number above 0.* Got '30d'"):
            backtest(numbers(), "30d")
        with pytest.raises(ParameterError, match=r"'every' must be"):
            backtest(numbers(), 0)
        with pytest.raises(ParameterError, match=r"'start' must be a datetime"):
            backtest(payments(), "30d", start=5)
        with pytest.raises(ParameterError, match=r"periods, more than 10,000"):
            backtest(numbers(), 0.001)
        with pytest.raises(EdgesError, match=r"no period before which labels of two classes were known"):
            backtest(numbers(label_delay=1000), 100)
        with pytest.raises(EdgesError, match=r"no period"):
            backtest(numbers(), 1000)
        with pytest.raises(EdgesError, match=r"have no labels"):
            backtest(numbers().with_label(None), 100)
        with pytest.raises(EdgesError, match=r"at least two classes"):
            backtest(numbers().with_label(np.ones(600)), 100)


def precision_by_hand(is_positive, scores, day, k):
    found = alerts = 0
    for today in set(day.tolist()):
        rows = sorted((row for row in range(len(day)) if day[row] == today), key=lambda row: -scores[row])
        found += sum(is_positive[row] for row in rows[:k])
        alerts += len(rows[:k])
    return found / alerts


class TestAlerts:
    @pytest.mark.parametrize("k", [1, 3, 7, 1000])
    def test_equal_a_loop(self, k):
        rng = np.random.default_rng(k)
        is_positive, scores, day = rng.random(300) < 0.2, rng.permutation(300) / 300, rng.integers(0, 40, 300)
        assert alert_precision(is_positive, scores, day, k) == pytest.approx(
            precision_by_hand(is_positive, scores, day, k)
        )

    def test_equal_scores_count_proportionally(self):
        is_positive = np.array([True, False, False, False])
        assert alert_precision(is_positive, np.zeros(4), np.zeros(4, int), 2) == 0.25


def columns_by_hand(edges, is_positive, widths):
    known_at, rows = edges.known_at, []
    for i in range(len(edges)):
        row = []
        for end in ("src", "dst"):
            for width in widths:
                same = [j for j in range(len(edges)) if getattr(edges, end)[j] == getattr(edges, end)[i]]
                now = edges.ticks[i]
                near = [j for j in same if now - width <= edges.ticks[j] < now]
                told = [j for j in same if edges.labelled[j] and now - width <= known_at[j] < now]
                amounts = [edges.features[j, 0] for j in near if not np.isnan(edges.features[j, 0])]
                row += [len(near), np.mean(amounts) if amounts else np.nan]
                row += [np.mean([is_positive[j] for j in told]) if told else np.nan]
        rows.append([*row, *edges.features[i]])
    return np.array(rows)


@pytest.mark.parametrize("kind", [int, float])
def test_windows_equal_a_loop(kind):
    rng = np.random.default_rng(0)
    n = 150
    amount = np.where(rng.random(n) < 0.2, np.nan, rng.random(n))
    edges = TemporalEdges(
        rng.integers(0, 6, n),
        rng.integers(0, 6, n),
        rng.integers(0, 60, n).astype(kind),
        label=np.where(rng.random(n) < 0.8, rng.integers(0, 2, n), np.nan),
        label_time=rng.integers(0, 90, n).astype(kind),
        features={"amount": amount, "channel": rng.choice(["web", "shop"], n)},
    )
    is_positive = edges.label == 1
    np.testing.assert_allclose(
        window_columns(edges, is_positive, (5, 20)), columns_by_hand(edges, is_positive, (5, 20)), atol=1e-9
    )


@pytest.mark.parametrize("late", [False, True])
def test_windows_score_new_edges_by_what_was_known(late):
    """The columns of edges to score, with labels that become known over time, are those of all edges in one table."""
    edges = payments(800) if late else payments(800).with_label(payments(800).label)
    first, rest = edges[:500], edges[500:]
    method = Windows(random_state=0)
    method.fit(first)
    columns = window_columns(edges, edges.label == 1, method.widths_)
    expected = method.model_.predict_proba(columns[500:])[:, 1]
    np.testing.assert_allclose(scores_of(method, rest), expected, atol=1e-12)
    fresh = TemporalEdges(
        rest.src,
        rest.dst,
        rest.time,
        label=rest.label,
        label_time=rest.label_time,
        features=pl.DataFrame(rest.features, schema=list(rest.feature_names)),
        bipartite=True,
    )
    np.testing.assert_allclose(scores_of(method, fresh), expected, atol=1e-12)  # of another table
    assert not np.allclose(scores_of(method, rest.with_label(None)), expected)


def test_periods_are_the_trials_of_a_task():
    edges, model = numbers(), PropagationClassifier(random_state=0)
    rows = evaluate(model, Periods(edges, 200), trials=1)
    table = backtest(edges, 200, models={"ours": model})
    assert rows["auc"].to_list() == table["auc"].to_list()[:-1]
    assert rows["n_test"].to_list() == table["n"].to_list()[:-1]
    assert rows["n_train"].to_list() == table["n_train"].to_list()[:-1]


class TestModels:
    def test_any_classifier_of_edges(self):
        """One that takes in labels as they come has the setting "stream"; another is fitted again for each block."""
        edges = payments()
        given = {"trees": PropagationClassifier(random_state=0), "lines": LineGraphClassifier()}
        table = backtest(edges, "60d", models=given)
        assert table["method"].unique(maintain_order=True).to_list() == ["trees", "lines"]
        usual = backtest(edges, "60d").filter(method="propagation")
        assert table.filter(method="trees")["auc"].to_list() == usual["auc"].to_list()
        assert table.filter(method="lines")["auc"][-1] > 0.5
        assert not hasattr(given["lines"], "edges_")  # what is given stays unfitted


@pytest.fixture(scope="module")
def curve(few_trees):
    with warnings.catch_warnings(action="ignore"):  # of few labels in 28 days
        return learning_curve(payments(3000), "61d", start="2025-05-01")


class TestLearningCurve:
    def test_all_of_the_history_is_the_backtest(self, curve):
        table = backtest(payments(3000), "61d", start="2025-05-01")
        figures = ["method", "n", "positives", "auc", "average_precision", "alert_precision"]
        assert (
            curve.filter(history="all").select(figures).equals(table.filter(table["start"].is_null()).select(figures))
        )
        assert curve.filter(history="all")["days"].null_count() == len(BACKTESTED)

    @pytest.mark.filterwarnings("ignore:Only 19 of the:tdlg.exceptions.TdlgWarning")  # in 28 days
    @pytest.mark.parametrize("days", [28, 56])
    def test_a_history_is_a_backtest_of_the_last_days(self, curve, days):
        edges, start = payments(3000), np.datetime64("2025-05-01")
        table = backtest(edges[edges.time >= start - np.timedelta64(days, "D")], "61d", start=start)  # one period
        figures = ["method", "n", "auc", "average_precision", "alert_precision"]
        mine = curve.filter(days=float(days)).select(figures)
        assert mine.equals(table.filter(table["start"].is_null()).select(figures))
        assert not mine.equals(curve.filter(history="all").select(figures))

    def test_a_history_without_labels_is_left_out(self):
        sample = make_payments(3000, random_state=0)
        edges = sample.edges.with_label(sample.edges.label, label_delay="10d")
        histories = learning_curve(edges, "60d", start="2025-05-01")["history"].to_list()
        assert "7 days" not in histories
        assert "all" in histories

    def test_page(self, curve, tmp_path):
        page = write_curve(tmp_path / "curve.html", curve, positive="<fraud>", command="tdlg backtest").read_text()
        assert page.count('<td data-head="history">') == len(curve)
        assert page.count("data-tip=") == curve["average_precision"].count()
        assert all(figure(value) in page for value in curve["average_precision"].to_list())
        assert "&lt;fraud&gt;" in page
        assert "<fraud>" not in page

    def test_numbers_as_times(self):
        curve = learning_curve(numbers(), 150, alerts_per_day=1)
        assert set(curve["method"]) == set(BACKTESTED)
        assert curve["days"].drop_nulls().is_sorted()
