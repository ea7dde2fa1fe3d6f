"""What notebooks show: reasons with arrows, the report and the card inside the page, links to the docs."""

import html
import re
import sys
from email.message import Message
from types import SimpleNamespace

import polars as pl
import pytest

import tdlg
from tdlg import LineGraphClassifier, TemporalEdges
from tdlg.explain.notebook import EDGES_SHOWN, Reasons
from tdlg.progress import progress_bar


@pytest.fixture(scope="module")
def edges():
    src = ["<b>ann</b>", "bob", "cat", "dan"] * 25
    return TemporalEdges(src, ["good", "bad"] * 50, range(100), label=[*["fine", "fraud"] * 48, *[None] * 4])


@pytest.fixture(scope="module")
def model(edges):
    return LineGraphClassifier(class_weight="balanced").fit(edges)


def test_reasons_come_edge_by_edge_with_arrows(model, edges):
    table = model.explain(edges[96:], top=2)
    shown = table._repr_html_()
    assert shown.count("<tr>") == 1 + 4
    assert shown.count("▲</b>") == (table["effect"] >= 0).sum()
    assert shown.count("▼</b>") == (table["effect"] < 0).sum()
    assert "<b>ann" not in shown  # ids are data, not markup
    assert "&lt;b&gt;ann" in shown


def test_many_edges_are_cut(model, edges):
    assert f"and {100 - EDGES_SHOWN} more" in model.explain(edges, top=1)._repr_html_()


def test_sorted_and_chosen_rows_keep_their_arrows_and_all_else_is_a_plain_table(model, edges):
    table = model.explain(edges[96:])
    for some in (table.sort("score", descending=True), table.filter(pl.col("rank") == 1), table.head(2)):
        assert isinstance(some, Reasons)
        assert "▲" in some._repr_html_()
    assert table["src", "reason"]._repr_html_().startswith("<div>")
    assert table.clear()._repr_html_().startswith("<div>")


def test_the_report_and_the_card_are_shown_inside_the_page(model, edges):
    for page in (model.report(evaluate=None), model.card()):
        shown = page._repr_html_()
        inside = html.unescape(re.fullmatch(r'<iframe [^>]*srcdoc="([^"]*)"></iframe>', shown, re.DOTALL)[1])
        assert inside.lower().startswith("<!doctype html>")


def test_an_estimator_links_to_the_documentation_that_the_package_names(monkeypatch):
    named = Message()
    monkeypatch.setattr("tdlg.estimator.metadata", lambda name: named)
    assert tdlg.LineGraphClassifier()._get_doc_link() == ""
    named["Project-URL"] = "Documentation, https://docs.example/"
    assert 'href="https://docs.example/api.html#tdlg.LineGraphClassifier"' in tdlg.LineGraphClassifier()._repr_html_()


class TestProgressBar:
    def test_on_a_terminal(self, monkeypatch, capsys):
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        with progress_bar() as show:
            show(1, 3, "first")
        assert "1/3" in capsys.readouterr().err

    def test_elsewhere_nothing(self, capsys):
        with progress_bar() as show:
            show(1, 3)
        assert capsys.readouterr().err == ""

    def test_in_a_notebook_one_bar_is_drawn_again_and_again(self, monkeypatch):
        drawn = []
        display = SimpleNamespace(
            HTML=lambda text: text,
            display=lambda bar, display_id: drawn.append(bar) or SimpleNamespace(update=drawn.append),
        )
        shell = SimpleNamespace(kernel=object())
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        with progress_bar() as show:
            show(1, 3, "<period>")
            show(3, 3)
        assert drawn == [
            '<progress value="1" max="3"></progress> 1 of 3 &lt;period&gt;',
            '<progress value="3" max="3"></progress> 3 of 3 ',
        ]
