"""What notebooks show: reasons with arrows, the report and the card inside the page, links to the docs."""

import html
import re
from email.message import Message

import polars as pl
import pytest

import tdlg
from tdlg import LineGraphClassifier, TemporalEdges
from tdlg.explain.notebook import EDGES_SHOWN, Reasons


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
