"""Figures: bars go from chance to the mean, intervals and the paper's values are there, nothing covers anything."""

import io

import polars as pl
import pytest
from matplotlib import rcParams

from tdlg_paper import figures
from tdlg_paper.published import Estimate
from tdlg_paper.recipes import EDGE, LINEUP
from tdlg_paper.results import Results

TDLG, CTDNE, RATES = (
    next(entry for entry in LINEUP if entry.name == name) for name in ("TDLG", "CTDNE", "label rates")
)


class Known(Results):
    """Results that are set by the test."""

    def __init__(self, folder, aucs):
        super().__init__(folder)
        self.aucs = aucs

    def auc(self, task, entry, dataset, protocol="paper"):
        return self.aucs.get((task, entry, dataset))

    def runtime(self, entry, dataset):
        return self.aucs.get((EDGE, entry, dataset))


@pytest.fixture
def results(tmp_path):
    aucs = {
        (EDGE, TDLG, "bitcoinalpha"): Estimate(0.9, 0.02, 5, 0.5),
        (EDGE, CTDNE, "bitcoinalpha"): Estimate(0.3, float("nan"), 1, 40.0),
        (EDGE, RATES, "escorts"): Estimate(0.7, 0.01, 5, 0.2),
    }
    return Known(tmp_path, aucs)


def saved(figure):
    """Lay out by saving."""
    figure.savefig(io.BytesIO(), format="png")
    return figure


def test_bars_of_auc(results):
    figure = saved(figures.FIGURES["edge-classification-figure"](results))
    first = figure.axes[0]
    assert [bar.get_x() for bar in first.patches] == [50, 50]
    assert [bar.get_width() for bar in first.patches] == pytest.approx([40, -20])
    assert first.get_xlim()[0] < 28
    assert [ax.get_title() for ax in figure.axes][:2] == ["bitcoinalpha", "bitcoinotc"]
    assert "not run" in [text.get_text() for text in figure.axes[1].texts]
    papers = [float(line.get_xdata()[0]) for line in first.lines if line.get_marker() == "D"]
    assert 92.16 in papers
    intervals = [path for one in first.collections for path in one.get_paths()]
    assert len(intervals) == 1 + len(papers)  # a single trial has no interval
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["TDLG", "prior methods", "references", "the paper's value, with its 95 % interval"]
    words = [text.get_window_extent() for text in legend.get_texts()]
    assert not any(word.overlaps(ax.get_tightbbox()) for word in words for ax in figure.axes)


def test_bars_of_seconds(results):
    figure = saved(figures.FIGURES["runtime"](results))
    assert [ax.get_title() for ax in figure.axes] == ["bitcoinalpha", "escorts"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.50", "40"]
    assert figure.axes[0].get_xscale() == "log"


def test_questions():
    rows = [
        {"task": task, "dataset": dataset, "method": method, "mean": 0.8}
        for task in ("one", "two")
        for dataset in "ab"
        for method in "xy"
    ]
    questions, methods = {"one": "One?", "two": "Two?"}, {"x": "X", "y": "Y"}
    figure = saved(figures.question_bars(pl.DataFrame(rows), questions, methods))
    assert [ax.get_title() for ax in figure.axes] == ["One?", "Two?"]
    assert [bar.get_height() for bar in figure.axes[1].patches] == pytest.approx([80] * 4)


def test_what_has_no_rows_is_not_drawn(tmp_path):
    before = dict(rcParams)
    assert figures.draw_figures(Results(tmp_path / "nowhere"), tmp_path) == {}
    assert dict(rcParams) == before
