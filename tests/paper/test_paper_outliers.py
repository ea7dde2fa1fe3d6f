"""paper/outliers.py: the protocols, the rows, the page."""

from types import SimpleNamespace

import numpy as np

from tdlg import TemporalEdges
from tdlg_paper import outliers
from tdlg_paper.outliers import Row, injected, outlier_auc, slow_scan, write_page
from tdlg_paper.rows import read_rows


def messages(n=2000, n_nodes=80):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, n_nodes, (2, n)) // rng.integers(1, 5, (2, n))
    return TemporalEdges(src, dst, rng.uniform(0, 100, n))


def test_random_pairs_never_occur_and_are_in_the_later_half():
    edges = messages()
    mixed = injected(edges, 0.1, 0)
    pairs = [frozenset(pair) for pair in zip(edges.src.tolist(), edges.dst.tolist(), strict=True)]
    real = {pair for pair in pairs if len(pair) == 2}
    found = [frozenset(pair) for pair in zip(mixed.src.tolist(), mixed.dst.tolist(), strict=True)]
    assert len(set(found)) == len(found)
    label = np.asarray(mixed.label)
    is_random = label == 1
    assert {pair for pair, odd in zip(found, is_random, strict=True) if not odd} == real
    assert not {pair for pair, odd in zip(found, is_random, strict=True) if odd} & real
    assert is_random.sum() == round(0.1 * (label == 0).sum())
    assert (np.diff(mixed.time) >= 0).all()
    half = len(real) // 2
    assert np.isnan(label[:half]).all()
    assert not np.isnan(label[half:]).any()
    first = {}
    for at in np.argsort(edges.time, kind="stable").tolist():
        first.setdefault(pairs[at], edges.time[at])
    assert all(mixed.time[k] == first[found[k]] for k in np.flatnonzero(~is_random))
    assert not np.array_equal(injected(edges, 0.1, 1).src, mixed.src)


def test_outliers_have_labels_that_the_detector_does_not_see():
    class Detector:
        def fit(self, edges):
            assert edges.label is None
            self.scores_ = np.array([3.0, 1.0, 2.0, 0.0, -9.0])
            return self

    edges = TemporalEdges(list("abcde"), list("bcdae"), range(5), label=[0, 1, 0, 1, np.nan])
    assert outlier_auc(Detector(), edges) == 1.0
    assert outlier_auc(Detector(), edges.with_label([0, 0, 1, 1, np.nan])) == 0.75


def test_a_scan_is_what_it_says():
    edges = slow_scan(5, 0)
    scans = edges[np.asarray(edges.label) == 1]
    assert len(set(scans.src.tolist())) == 1
    assert 5 * 72 * 0.8 < len(scans) < 5 * 72 * 1.2
    assert scans.time.min() >= 3 * 86_400
    assert np.array_equal(slow_scan(5, 0).time, edges.time)


def test_rows_are_measured_once(tmp_path, monkeypatch):
    run = ("collegemsg", "0.1", 0, ["EdgeOutlierDetector()"], lambda: injected(messages(), 0.1, 0))
    monkeypatch.setattr(outliers, "networks", lambda: iter([run]))
    given = SimpleNamespace(folder=tmp_path, page=tmp_path / "page.md", method=None, again=False)
    outliers.main(given)
    rows = read_rows(tmp_path / "outliers.csv", Row)
    assert [row.key for row in rows] == [("collegemsg", "0.1", "0", "EdgeOutlierDetector()")]
    mean = f"{float(rows[0].auc):.3f}"
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert f"| EdgeOutlierDetector() | collegemsg | not run | not run | {mean} |" in text
    monkeypatch.setattr(outliers, "outlier_auc", None)
    outliers.main(given)


def test_the_page_is_that_of_the_rows(tmp_path, request):
    root = request.config.rootpath
    page = (root / "docs" / "results.md").read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    write_page(read_rows(root / "results" / "outliers.csv", Row), tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page
