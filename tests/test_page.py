"""What a page says, as data: pinned for some subjects, and written as JSON; and what its script does to tables."""

import json
import shutil
import subprocess
from importlib.resources import files

import polars as pl
import pytest

from browser import Browser
from conftest import find_chromium
from pinned import check_text
from tdlg import BurstDetector, LineGraphClassifier, LinkRanker, PropagationClassifier, TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.report import build_report, write_report
from tdlg.report.model import page_model
from test_report import Payments, late_labels, ratings

pytestmark = pytest.mark.usefixtures("few_trees")


def shortened(value):
    """The first three of each long list; versions are left out."""
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items() if key not in ("version", "versions")}
    if isinstance(value, list):
        rest = [f"and {len(value) - 3} more"] if len(value) > 8 else []
        return [shortened(part) for part in (value[:3] if rest else value)] + rest
    return float(f"{value:.6g}") if isinstance(value, float) else value


def propagation():
    return PropagationClassifier(random_state=0)


SUBJECTS = {
    "two-classes": lambda: page_model(LineGraphClassifier(), ratings()),
    "several-classes": lambda: page_model(LineGraphClassifier(), ratings(labels=tuple("abcdefgh"), hidden="mixed")),
    "no-labels-to-judge": lambda: page_model(
        LineGraphClassifier(), TemporalEdges(list("abcd"), list("wxyz"), [1, 2, 3, 4], label=["no", "yes", "no", None])
    ),
    "all-labelled": lambda: page_model(LineGraphClassifier(), ratings(hidden="none", bipartite=True)),
    "payments": lambda: page_model(
        propagation(), Payments.edges, label_name="is_fraud", ids=Payments.ids, unused=["note"], command="tdlg classify"
    ),
    "last-labels-of-one-class": lambda: page_model(
        PropagationClassifier(random_state=0, setting="interpolate"), late_labels()
    ),
}


@pytest.mark.filterwarnings("ignore:Only 1 of the", "ignore:None of the latest")
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_model_of_the_page_is_as_it_was(name):
    check_text(f"page-{name}.json", json.dumps(shortened(SUBJECTS[name]()), indent=1, allow_nan=False) + "\n")


@pytest.mark.parametrize("model", [BurstDetector(), LinkRanker()], ids=["bursts", "links"])
def test_there_is_no_page_about_bursts_or_links(model):
    with pytest.raises(ParameterError, match=f"must be a PropagationClassifier .* Got {type(model).__name__}"):
        page_model(model, ratings())


def test_there_is_no_page_about_nothing():
    with pytest.raises(EdgesError, match="There are no edges to report on"):
        page_model(propagation(), ratings()[:0])


def test_a_name_that_ends_in_json_gets_the_model_of_the_page(tmp_path):
    model = propagation().fit(ratings(hidden="mixed"))
    said = page_model(model)
    for name in ("page.json", "PAGE.JSON"):
        path = write_report(tmp_path / name, model)
        assert json.loads(path.read_text(encoding="utf-8")) == said
    rows = said["interactions"]["rows"]
    table = pl.DataFrame(rows)
    assert table.height == 36
    assert table["probability"].is_sorted(descending=True)
    assert {row["row"] - 1 for row in rows} == {k for k in range(360) if not model.edges_.labelled[k]}
    assert write_report(tmp_path / "page.html", model).read_text(encoding="utf-8") == build_report(model)


# ---- what the script does to tables


@pytest.fixture(scope="module")
def javascript(tmp_path_factory):
    """A function that gives the value of an expression in which `tables` is ours, by Node.js or else by Chromium."""
    source = files("tdlg.report").joinpath("tables.js").read_text(encoding="utf-8")
    if node := shutil.which("node"):

        def run(expression):
            code = f'"use strict";{source};console.log(JSON.stringify({expression}))'
            return json.loads(subprocess.run([node, "-e", code], capture_output=True, check=True, text=True).stdout)

        yield run
        return
    browser = Browser(find_chromium(), tmp_path_factory.mktemp("browser"))
    browser.run(f"void (globalThis.tables = (() => {{{source};return tables;}})())")
    yield browser.run
    browser.close()


@pytest.mark.needs("node")
@pytest.mark.parametrize(
    ("search", "found"),
    [("", [0, 1, 2]), ("shop", [0, 2]), ("SHOP  ann", [2]), ("ann shop", [2]), (" nobody", []), (".*", [])],
)
def test_rows_that_hold_all_words_are_found(javascript, search, found):
    assert javascript(f'tables.matching(["Bob Shop 1", "Ann Web", "ann\\nshop 2"], {json.dumps(search)})') == found


@pytest.mark.needs("node")
@pytest.mark.parametrize(
    ("values", "kind", "falling", "places"),
    [
        ("[2, 10, -1, 1e3]", "number", "false", [2, 0, 1, 3]),
        ("[2, 10, -1, 1e3]", "number", "true", [3, 1, 0, 2]),
        ("[NaN, 2, NaN, 1]", "number", "false", [3, 1, 0, 2]),  # missing ones come last, up and down
        ("[NaN, 2, NaN, 1]", "number", "true", [1, 3, 0, 2]),
        ("[1, 0, 1, 0]", "number", "true", [0, 2, 1, 3]),  # equal ones keep their order
        ('["n10", "n9", "m", ""]', "text", "false", [3, 2, 1, 0]),  # digits in text are numbers
        ('["n10", "n9", "m", ""]', "text", "true", [0, 1, 2, 3]),
    ],
)
def test_rows_are_sorted(javascript, values, kind, falling, places):
    assert javascript(f'tables.sorted({values}, "{kind}", {falling})') == places


@pytest.mark.needs("node")
def test_what_is_downloaded_is_csv(javascript, tmp_path):
    lines = [["id", "why"], ['an "odd", id', "two\nlines"], ["", "=1+1"], ["é", "a;b"]]
    text = javascript(f"tables.asCsv({json.dumps(lines)})")
    assert text.startswith('id,why\r\n"an ""odd"", id","two\nlines"\r\n,=1+1\r\n')
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    table = pl.read_csv(path).fill_null("")
    assert [list(table.columns), *map(list, table.rows())] == lines
