"""Labels that become known later than their rows, on the command line."""

import csv

import numpy as np
import pytest

from tdlg import load_model
from test_cli import ok, rows_of, run

pytestmark = pytest.mark.usefixtures("few_trees")

AT_ONCE = "labels are taken as known at the time of their interaction; use --label-time or --label-delay"
N, TO_SCORE = 300, 200  # rows, and the first row to score


def write(path, label_time, *, label=None, time=str, rows=range(N)):
    """Payments, one per time unit; two of ten shops are bad."""
    rng = np.random.default_rng(0)
    user, shop, amount = rng.integers(0, 30, N), rng.integers(0, 10, N), rng.random(N)
    bad = [int(value) for value in shop < 2]
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "shop", "time", "amount", "bad", "known"])
        for k in rows:
            verdict = bad[k] if label is None else label(k, bad[k])
            out.writerow([f"u{user[k]}", f"s{shop[k]}", time(k), f"{amount[k]:.3f}", verdict, label_time(k)])
    return path


def as_date(k):
    return str(np.datetime64("2024-01-01", "s") + np.timedelta64(k, "h"))


def probabilities(result):
    return [row["probability"] for row in rows_of(result.stdout)]


FAR = {
    "year 9999": (as_date, "9999-12-31"),
    "1e19": (str, "1e19"),
    "infinity": (str, "inf"),
    "infinity, decimals": (lambda k: f"{k}.5", "inf"),
}


class TestScore:
    @pytest.mark.parametrize("kind", FAR)
    def test_labels_far_ahead_stay_hidden(self, tmp_path, kind):
        time, far = FAR[kind]
        known = write(tmp_path / "known.csv", lambda k: time(k + 5), time=time, rows=range(TO_SCORE))
        model = tmp_path / "m.tdlg"
        options = ["--label", "bad", "--label-time", "known"]
        ok("classify", known, *options, "--save", model)
        asked = range(TO_SCORE, N)
        later = write(tmp_path / "later.csv", lambda k: far, time=time, rows=asked)
        flipped = write(tmp_path / "flipped.csv", lambda k: far, time=time, rows=asked, label=lambda k, bad: 1 - bad)
        soon = write(tmp_path / "soon.csv", lambda k: time(k + 1), time=time, rows=asked)
        hidden = probabilities(ok("score", model, later))
        assert probabilities(ok("score", model, later, *options)) == hidden
        assert probabilities(ok("score", model, flipped, *options)) == hidden
        assert probabilities(ok("score", model, soon, *options)) != hidden
        explained = ["explain", model, "--row", 90, *options]
        assert ok(*explained[:2], later, *explained[2:]).stdout == ok(*explained[:2], flipped, *explained[2:]).stdout
        assert ok("nodes", model, later, *options).stdout == ok("nodes", model, flipped, *options).stdout
        assert ok("nodes", model, later, *options).stdout != ok("nodes", model, soon, *options).stdout

    def test_the_delay_of_the_model_holds(self, tmp_path):
        known = write(tmp_path / "known.csv", lambda k: "", rows=range(TO_SCORE))
        model = tmp_path / "m.tdlg"
        ok("classify", known, "--label", "bad", "--label-delay", "40", "--save", model)
        assert load_model(model).label_delay_ == 40
        later = write(tmp_path / "later.csv", lambda k: k + 40, rows=range(TO_SCORE, N))
        by_model = probabilities(ok("score", model, later, "--label", "bad"))
        assert by_model == probabilities(ok("score", model, later, "--label", "bad", "--label-time", "known"))
        assert by_model != probabilities(ok("score", model, later, "--label", "bad", "--label-delay", "1"))


class TestClassify:
    def test_evaluates_with_labels_known_at_the_cut(self, tmp_path):
        file = write(tmp_path / "a.csv", lambda k: k + 50)
        result = ok("classify", file, "--label", "bad", "--label-time", "known", "--evaluate", "stream")
        assert "trained on 160 labels, tested on 90 labels (the latest ones)" in result.stderr
        assert AT_ONCE not in result.stderr
        result = ok("classify", file, "--label", "bad", "--label-delay", "50", "--evaluate", "stream")
        assert "trained on 160" in result.stderr
        result = ok("classify", file, "--label", "bad", "--evaluate", "forecast")
        assert "trained on 210" in result.stderr
        assert result.stderr.count(AT_ONCE) == 1
        assert AT_ONCE not in ok("classify", file, "--label", "bad", "--evaluate", "random").stderr

    def test_the_setting(self, tmp_path):
        file = write(tmp_path / "a.csv", lambda k: k + 50, label=lambda k, bad: "" if k % 10 == 0 else bad)
        result = ok("classify", file, "--label", "bad", "--label-time", "known")
        assert (
            "setting: stream, because the times at which labels became known are given (change with --setting)"
            in result.stderr
        )

    def test_a_label_that_is_a_word_for_missing_needs_no_time(self, tmp_path):
        def verdict(k, bad):
            return "offen" if k >= 280 else ("gut", "schlecht")[bad]

        file = write(tmp_path / "a.csv", lambda k: "" if k >= 280 else k + 5, label=verdict)
        result = ok("classify", file, "--label", "bad", "--label-time", "known", "--missing", "offen")
        assert "280 known labels, 20 missing" in result.stderr
        result = run("classify", file, "--label", "bad", "--label-time", "known")
        assert result.exit_code == 1
        assert "a.csv: The 'label_time' is missing in data row 281" in result.stderr
        assert "whose label is known" in result.stderr


def test_compare(tmp_path):
    file = write(tmp_path / "a.csv", lambda k: k + 50)
    options = ["--label", "bad", "--methods", "propagation,label-rates", "--evaluate", "forecast"]
    result = ok("compare", file, *options, "--label-time", "known")
    assert "trained on 160 labels, tested on 90 labels (the latest ones)" in result.stderr
    assert AT_ONCE not in result.stderr
    result = ok("compare", file, *options)
    assert "trained on 210 labels, tested on 90 labels (the latest ones)" in result.stderr
    assert result.stderr.count(AT_ONCE) == 1


class TestBacktest:
    def test_rows(self, tmp_path):
        file, out = write(tmp_path / "a.csv", lambda k: k + 20), tmp_path / "periods.csv"
        options = ["--label", "bad", "--label-time", "known", "--every", 100, "--alerts-per-day", 1]
        result = ok("backtest", file, *options, "-o", out)
        rows = rows_of(out.read_text())
        assert [row["start"] for row in rows] == [*["100.0"] * 3, *["200.0"] * 3, *["total"] * 3]
        assert [row["method"] for row in rows[:3]] == ["propagation", "label rates", "windows"]
        assert [row["n_train"] for row in rows[::3]] == ["80", "180", ""]
        assert AT_ONCE not in result.stderr
        assert "positive class: 1; at most 1 alert per day" in result.stderr

    def test_dates(self, tmp_path):
        file = write(tmp_path / "a.csv", lambda k: "", time=as_date)
        result = ok("backtest", file, "--label", "bad", "--every", "4d", "--start", "2024-01-05", "--alerts-per-day", 2)
        assert [row["start"] for row in rows_of(result.stdout)][::3] == [
            "2024-01-05",
            "2024-01-09",
            "2024-01-13",
            "total",
        ]
        assert result.stderr.count(AT_ONCE) == 1

    def test_more_than_two_classes(self, tmp_path):
        file = write(tmp_path / "a.csv", lambda k: k, label=lambda k, bad: k % 3)
        result = run("backtest", file, "--label", "bad", "--every", 100)
        assert "Give the positive class with --positive" in result.stderr
