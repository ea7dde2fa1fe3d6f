"""The handbook and the bans: the protocols against plain loops, the rows, the page."""

import os
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

from tdlg import TemporalEdges
from tdlg.datasets import load_dataset
from tdlg_paper import handbook, payments
from tdlg_paper.payments import Row, write_page
from tdlg_paper.rows import keep_row, read_rows

DAY = np.timedelta64(1, "D")


@pytest.fixture(scope="module")
def edges():
    """Payments of April to August 2018, with a tenth of frauds, so that each rule has work to do."""
    rng = np.random.default_rng(0)
    n = 3000
    seconds = np.sort(rng.integers(0, 140 * 24, n) * 3600).astype("timedelta64[s]")  # with ties
    time = np.datetime64("2018-04-15", "s") + seconds
    customer, terminal = rng.integers(0, 300, n), rng.integers(0, 40, n)
    fraud = rng.random(n) < 0.1
    features = {"night": rng.random(n), "amount": rng.uniform(1, 100, n).round(2)}
    return TemporalEdges(customer, terminal, time, label=fraud.astype(int), features=features, bipartite=True)


class TestWeek:
    @pytest.mark.parametrize("fold", handbook.FOLDS)
    def test_rows_of_known_customers_leave(self, edges, fold):
        week, label = handbook.week(edges, fold)
        first = np.datetime64("2018-07-25") + 7 * fold * DAY
        days = edges.time.astype("datetime64[D]")
        frauds = list(zip(edges.src.tolist(), days, edges.label.tolist(), strict=True))
        known = {customer for customer, day, fraud in frauds if fraud and first <= day < first + 7 * DAY}
        kept = []
        for k in range(7):
            known |= {customer for customer, day, fraud in frauds if fraud and day == first + (7 + k - 1) * DAY}
            today = first + (14 + k) * DAY
            kept += [row for row, (customer, day, _) in enumerate(frauds) if day == today and customer not in known]
        assert week.test.tolist() == kept
        assert label.tolist() == edges.label[kept].tolist()
        n_all = np.count_nonzero((days >= first + 14 * DAY) & (days < first + 21 * DAY))
        assert 0 < len(kept) < n_all

    def test_no_label_of_the_test_days_is_visible(self, edges):
        week, _ = handbook.week(edges, 0)
        start = np.datetime64("2018-08-08")
        assert week.start == start
        assert np.array_equal(np.isnan(week.edges.label), week.edges.time >= start)
        assert week.edges.time.max() < start + 7 * DAY
        assert (week.label_time - week.edges.time == 7 * DAY).all()

    def test_rows_to_learn_from(self, edges):
        week, _ = handbook.week(edges, 0)
        seven, everything = week.edges.time[week.known(7)], week.edges.time[week.known()]
        assert seven.min() >= np.datetime64("2018-07-25")
        assert seven.max() < np.datetime64("2018-08-01") == week.start - 7 * DAY
        assert everything.min() == edges.time.min()
        assert everything.max() == seven.max()
        assert (week.label_time[week.known()] < week.start).all()

    @pytest.mark.parametrize("days", [37, 60, None])
    def test_last_days_have_the_same_test_rows(self, edges, days):
        whole, labels = handbook.week(edges, 1)
        part, same = handbook.week(edges, 1, days)
        assert same.tolist() == labels.tolist()
        for name in ("src", "dst", "time"):
            assert getattr(part.edges, name)[part.test].tolist() == getattr(whole.edges, name)[whole.test].tolist()
        assert np.isnan(part.edges.label[part.test]).all()
        assert (part.label_time - part.edges.time == 7 * DAY).all()
        end = np.datetime64("2018-08-22")
        first = edges.time.min() if days is None else end - days * DAY
        assert len(part.edges) == np.count_nonzero((edges.time >= first) & (edges.time < end))


class TestMetrics:
    @pytest.mark.parametrize("seed", range(5))
    def test_card_precision(self, seed):
        rng = np.random.default_rng(seed)
        n, k = 400, 5
        customer, day = rng.integers(0, 30, n), rng.integers(3, 10, n)
        label, score = (rng.random(n) < 0.1).astype(int), rng.random(n)
        found, shares = set(), []
        for today in range(3, 10):
            highest, defrauded = defaultdict(float), set()
            for one in range(n):
                if day[one] == today and customer[one] not in found:
                    highest[customer[one]] = max(highest[customer[one]], score[one])
                    if label[one]:
                        defrauded.add(customer[one])
            top = set(sorted(highest, key=highest.get)[-k:])
            shares.append(len(top & defrauded) / k)
            found |= top & defrauded
        assert handbook.card_precision(customer, day, label, score, k) == pytest.approx(np.mean(shares))

    def test_measures(self, edges):
        week, label = handbook.week(edges, 0)
        score = np.random.default_rng(0).random(len(label))
        found = handbook.measures(week, label, score)
        pairs = [(a > b) for a in score[label == 1] for b in score[label == 0]]
        assert found["auc"] == pytest.approx(np.mean(pairs))
        ranked = label[np.argsort(-score)]
        precisions = [ranked[: at + 1].mean() for at in np.flatnonzero(ranked)]
        assert found["average_precision"] == pytest.approx(np.mean(precisions))
        assert found["card_precision"] == pytest.approx(len(set(week.edges.src[week.test][label == 1])) / 700)


class TestBookColumns:
    def test_against_plain_loops(self, edges):
        week, _ = handbook.week(edges, 0)
        columns = handbook.book_columns(week.edges)
        assert columns.shape == (len(week.edges), 15)
        time, src, dst = week.edges.time, week.edges.src, week.edges.dst
        amount, fraud = week.edges.features[:, 1], week.edges.label
        for row in [0, 1, 500, 1500, len(time) - 1, *week.test[:20]]:
            when = time[row].item()
            expected = [amount[row], when.weekday() >= 5, when.hour <= 6]
            for days in (1, 7, 30):
                own = [j for j in range(row + 1) if src[j] == src[row] and time[j] > time[row] - days * DAY]
                expected += [len(own), amount[own].mean()]
            for days in (1, 7, 30):
                ago = time[row] - time[: row + 1]
                window = np.flatnonzero((dst[: row + 1] == dst[row]) & (ago >= 7 * DAY) & (ago < (7 + days) * DAY))
                expected += [len(window), fraud[window].sum() / max(len(window), 1)]
            assert columns[row] == pytest.approx(np.array(expected, float))

    def test_pandas_makes_the_same(self, edges):
        assert handbook.pandas_columns(edges) == pytest.approx(handbook.book_columns(edges))

    def test_a_later_label_changes_no_earlier_column(self, edges):
        other = edges.with_label(np.where(edges.time < np.datetime64("2018-07-01"), edges.label, 1 - edges.label))
        same = edges.time < np.datetime64("2018-07-08")
        difference = (handbook.book_columns(edges) != handbook.book_columns(other)).any(axis=1)
        assert not difference[same].any()
        assert difference[~same].any()


@pytest.mark.parametrize("name", [name for name, method in handbook.METHODS.items() if method.is_possible])
def test_a_method_gives_one_score_per_test_row(edges, name):
    week, label = handbook.week(edges, 0)
    score, seconds = handbook.METHODS[name].score(week)
    assert score.shape == label.shape
    assert np.isfinite(score).all()
    assert seconds >= 0


@pytest.mark.parametrize("name", [name for name, method in handbook.BY_DAYS.items() if method.is_possible])
def test_a_method_sees_the_days_it_is_given(edges, name):
    week, label = handbook.week(edges, 0, 60)
    score, _ = handbook.BY_DAYS[name].score(week)
    assert score.shape == label.shape
    assert score.tolist() != handbook.BY_DAYS[name].score(handbook.week(edges, 0)[0])[0].tolist()


class TestBans:
    @pytest.mark.parametrize("setting", payments.SETTINGS)
    def test_the_labels_of_scored_rows_do_not_change_their_own_scores(self, setting):
        rng = np.random.default_rng(0)
        edges = TemporalEdges(
            rng.integers(0, 20, 400),
            rng.integers(0, 5, 400),
            np.arange(400),
            label=rng.integers(0, 2, 400),
            bipartite=True,
        )
        shares = payments.VALIDATED, 1.0
        label, score = payments.ban_scores(setting, 0, *shares, edges)
        assert label.tolist() == edges.label[340:].tolist()
        last = edges.label.copy()
        last[-1] = 1 - last[-1]
        assert payments.ban_scores(setting, 0, *shares, edges.with_label(last))[1].tolist() == score.tolist()

    def test_interval(self):
        rng = np.random.default_rng(0)
        label = (rng.random(2000) < 0.1).astype(int)
        low, high = payments.bootstrap_interval(label, label + rng.normal(size=2000))
        assert low < 0.76 < high  # the AUC of a shift by one standard deviation
        assert 0.02 < high - low < 0.1


def asked(folder, parts, method=None, again=False):
    return SimpleNamespace(folder=folder, page=folder / "page.md", parts=parts, method=method, again=again)


class TestRowsAndPage:
    @pytest.fixture(autouse=True)
    def small(self, edges, monkeypatch):
        """Only the handbook is there, and it is small."""
        monkeypatch.setattr(payments, "load_dataset", lambda name, dates: {("handbook", True): edges}[name, dates])
        monkeypatch.setattr(payments, "is_available", lambda name: name == "handbook")
        payments._edges.cache_clear()
        yield
        payments._edges.cache_clear()

    def test_rows_come_back_and_the_last_counts(self, tmp_path):
        path = tmp_path / "results" / "rows.csv"
        assert read_rows(path, Row) == []
        first, second = Row("darpa", "a, b", "0", auc="0.5"), Row("darpa", "c", "0", auc="0.75", seconds="3")
        for row in (first, second, Row("darpa", "a, b", "0", auc="0.6")):
            keep_row(path, row)
        assert read_rows(path, Row) == [Row("darpa", "a, b", "0", auc="0.6"), second]

    def test_what_has_a_row_is_not_run_again(self, tmp_path, monkeypatch):
        calls = []
        runs = [(name, "0", lambda edges: calls.append(1) or {"auc": 0.5}) for name in "ab"]
        monkeypatch.setitem(payments.DATASETS, "handbook", lambda: iter(runs))
        path = tmp_path / "payments.csv"
        payments.main(asked(tmp_path, ["handbook"], "a"))
        assert [row.method for row in read_rows(path, Row)] == ["a"]
        payments.main(asked(tmp_path, ["handbook"]))
        assert len(calls) == 2
        payments.main(asked(tmp_path, ["handbook"], again=True))
        assert len(calls) == 4
        assert len(read_rows(path, Row)) == 2

    def test_rows_by_days_have_their_own_file_and_table(self, tmp_path, monkeypatch):
        monkeypatch.setattr(handbook, "DAYS", (37, None))
        name = "the book's columns, our boosting"
        payments.main(asked(tmp_path, ["handbook-days"], f"{name}, last 37 days"))
        rows = read_rows(tmp_path / "handbook-days.csv", Row)
        assert [(row.method, row.part) for row in rows] == [(f"{name}, last 37 days", str(fold)) for fold in range(4)]
        assert not (tmp_path / "payments.csv").exists()
        text = (tmp_path / "page.md").read_text()
        mean = f"{np.mean([float(row.auc) for row in rows]):.3f}".removeprefix("0")
        assert f"| last 37 days | {name} | {mean} |" in text
        assert f"| all days | {name} | not run | not run | not run |  |" in text

    def test_a_page_without_rows(self, tmp_path):
        write_page([], tmp_path / "page.md")
        text = (tmp_path / "page.md").read_text()
        assert f"| {handbook.OURS} | not run | not run | not run |" in text
        assert "published | .879 | .687 | .305 |" in text

    def test_figures_are_means_of_the_rows(self, tmp_path):
        rows = [
            Row(
                "handbook",
                handbook.OURS,
                part,
                auc=auc,
                average_precision="0.7",
                card_precision="0.3",
                column_seconds="9",
            )
            for part, auc in (("0", "0.8"), ("1", "0.9"))
        ]
        rows += [Row("wikipedia-bans", "stream", str(seed), auc="0.87", low="0.8", high="0.9") for seed in range(3)]
        rows += [
            Row("wikipedia-bans", f"{s}, validation", "0", auc=a) for s, a in (("stream", "0.9"), ("forecast", "0.8"))
        ]
        write_page(rows, tmp_path / "page.md")
        text = (tmp_path / "page.md").read_text()
        assert f"| {handbook.OURS} | .850 | .700 | .300 | 2 of 4 |" in text
        assert "| ours, PropagationClassifier(setting='stream') | 87.0 | 80.0 to 90.0 |" in text
        assert "`forecast` 80.0 and `stream` 90.0, so `stream` is the figure to compare" in text

    def test_the_page_is_that_of_the_rows(self, tmp_path, request):
        root = request.config.rootpath
        page = (root / "docs" / "results.md").read_text(encoding="utf-8")
        (tmp_path / "page.md").write_text(page, encoding="utf-8")
        write_page(payments.all_rows(root / "results"), tmp_path / "page.md")
        assert (tmp_path / "page.md").read_text(encoding="utf-8") == page


@pytest.mark.needs("data")
def test_the_folds_of_the_book(data_dir, monkeypatch):
    monkeypatch.setenv("TDLG_DATA", os.fspath(data_dir))
    if not (data_dir / "handbook.parquet").exists():
        pytest.skip("needs real data: set TDLG_DATA to the folder that holds it")
    edges = load_dataset("handbook", dates=True)
    sizes = [(len(label), int(label.sum())) for _, label in (handbook.week(edges, fold) for fold in handbook.FOLDS)]
    assert sizes[0] == (58264, 385)  # the size in the book
    assert sizes[1:] == [(57937, 387), (58337, 408), (57604, 422)]
