import numpy as np
import polars as pl
import pytest

from tdlg import TemporalEdges
from tdlg.exceptions import ReadError
from tdlg_paper import leakage
from tdlg_paper.baselines.timers import TIMERS
from tdlg_paper.recipes import LINEUP
from tdlg_paper.tables import section, write_sections


@pytest.fixture
def small(monkeypatch):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 30, (2, 400))
    edges = TemporalEdges(src, dst, rng.uniform(0, 100, 400), label=(dst + rng.integers(0, 9, 400) > 18).astype(int))
    monkeypatch.setattr(leakage, "is_available", lambda name: name in ("bitcoinalpha", "escorts"))
    asked = []
    monkeypatch.setattr(leakage, "load_dataset", lambda name, **options: asked.append((name, options)) or edges)
    monkeypatch.setattr(leakage, "COMPARED", [entry for entry in LINEUP if entry.key in ("timers", "vgrnn")])
    monkeypatch.setattr(leakage, "make_method", lambda name: prior(name))
    return asked


def prior(name):
    """A small TIMERS; the other method lacks a package."""
    if name != "timers":
        raise ImportError("It needs PyTorch.")
    return TIMERS(4, n_snapshots=3)


@pytest.mark.usefixtures("few_trees_here")
def test_table(small, tmp_path, capsys):
    rows = leakage.run_leakage(tmp_path / "rows.csv")
    assert "vgrnn: not run (It needs PyTorch.)" in capsys.readouterr().err
    assert small == [("bitcoinalpha", {"bipartite": None}), ("escorts", {"bipartite": True})]
    assert len(rows) == 2 * 3 * (3 + 1 + 1) + 2
    table = leakage.leakage_table(rows)
    assert len(table) == 2 + 9 + 2
    assert next(line for line in table if "VGRNN" in line).count("not run") == 4
    assert table[2].startswith("| random, the paper's rows | ")
    assert table[2].count("not run") == 2
    cells = [float(cell) for line in table[2:] for cell in line.split("|")[2:6] if "not run" not in cell]
    assert len(cells) == 18 + 2
    assert all(0 < cell <= 100 for cell in cells)
    fewer = rows.with_columns(
        settings=pl.when(rows["method"] == "TIMERS").then(pl.lit("epochs=7")).otherwise("settings")
    )
    assert "\n".join(leakage.leakage_table(fewer)).count(" (7 epochs) |") == 2


def test_variants_of_a_method_have_lines_of_their_own():
    row = {"dataset": "escorts", "task": "forecast", "method": "EvolveGCN", "embed_seconds": 0.0}
    row |= {"fit_seconds": 0.0, "predict_seconds": 0.0}
    rows = pl.DataFrame([row | {"settings": "", "auc": 0.51}, row | {"settings": "variant='O', epochs=7", "auc": 0.62}])
    table = leakage.leakage_table(rows)
    assert "| forecast, EvolveGCN | not run | not run | 51.0 | not run |" in table
    assert "| forecast, EvolveGCN-O | not run | not run | 62.0 (7 epochs) | not run |" in table


def test_sections_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- one -->\nold\n<!-- /one -->\nafter\n")
    write_sections(page, {"one": ["| new |"]})
    assert page.read_text() == "before\n<!-- one -->\n\n| new |\n\n<!-- /one -->\nafter\n"
    assert section(page.read_text(), "one") == "| new |"
    with pytest.raises(ReadError, match="no place for the section 'two'"):
        write_sections(page, {"one": ["x"], "two": ["y"]})
    assert "| new |" in page.read_text()
    write_sections(tmp_path / "new.md", {"one": ["x"], "two": ["y"]})
    assert section((tmp_path / "new.md").read_text(), "two") == "y"
