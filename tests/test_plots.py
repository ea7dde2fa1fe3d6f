import io

import numpy as np
import polars as pl
import pytest

pytest.importorskip("matplotlib")

import matplotlib
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tdlg import Gaussian, LineGraph
from tdlg.datasets.blocks import make_tsbm
from tdlg_paper import plots

GROUPS = {"ours": "new", "theirs": "old", "plain": "reference"}


def table(**more):
    rows = [
        {"dataset": dataset, "task": task, "method": method, "mean": mean, "half_width": 0.02}
        for dataset in ("a", "b")
        for task in ("first", "second")
        for method, mean in (("ours", 0.9), ("plain", 0.7))
    ]
    return pl.DataFrame(rows).with_columns(**more)


PAPER = pl.DataFrame(
    {"dataset": "a", "task": "first", "method": ["ours", "theirs"], "mean": [0.92, 0.3], "half_width": [0.01, 0.05]}
)


@pytest.fixture(scope="module")
def drawn():
    """A small network of two communities, with all that is drawn of it."""
    sample = make_tsbm(20, 10, random_state=0)
    rng = np.random.default_rng(0)
    H = LineGraph(sample.edges, decay=Gaussian(0.5)).to_csr()
    return sample, H, rng.normal(size=(len(sample.kind), 2)), rng.normal(size=(sample.edges.n_nodes, 2))


def render(figure):
    """Lay out by saving."""
    assert isinstance(figure, Figure)
    figure.savefig(io.BytesIO(), format="png", dpi=figure.dpi)
    return figure


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def legend_labels(legend):
    return [text.get_text() for text in legend.get_texts()]


def clear_of_axes(figure, legend):
    """Whether no word of the legend lies on a panel, its ticks or its labels."""
    words = [text.get_window_extent() for text in legend.get_texts()]
    return not any(word.overlaps(ax.get_tightbbox()) for word in words for ax in figure.axes)


class TestAucBars:
    def test_panels_and_labels(self):
        figure = render(plots.auc_bars(table(), PAPER, groups=GROUPS))
        assert len(figure.axes) == 4
        top, bottom = figure.axes[:2], figure.axes[2:]
        assert [ax.get_title() for ax in figure.axes] == ["a", "b", "", ""]
        assert [top[0].get_ylabel(), bottom[0].get_ylabel()] == ["first", "second"]
        assert [label.get_text() for label in top[0].get_yticklabels()] == ["ours", "plain", "theirs"]
        assert any("AUC" in ax.get_xlabel() for ax in bottom)

    def test_bars_go_from_chance_to_the_mean(self):
        figure = render(plots.auc_bars(table(), groups=GROUPS))
        assert widths(figure.axes[0]) == pytest.approx([40, 20])
        assert [bar.get_x() for bar in figure.axes[0].patches] == [50, 50]
        low = plots.auc_bars(table(mean=pl.lit(0.3)), groups=GROUPS)
        assert widths(low.axes[0]) == pytest.approx([-20, -20])
        assert low.axes[0].get_xlim()[0] < 28

    def test_intervals_and_the_papers_values(self):
        ax = render(plots.auc_bars(table(), PAPER, groups=GROUPS)).axes[0]
        middles = sorted(float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() == "D")
        assert middles == pytest.approx([30, 92])
        segments = sorted(np.ptp(path.vertices[:, 0]) for one in ax.collections for path in one.get_paths())
        assert segments == pytest.approx([2, 4, 4, 10])
        assert ax.get_xlim()[0] < 25

    def test_a_single_trial_has_no_interval(self):
        ax = render(plots.auc_bars(table(half_width=pl.lit(float("nan"))), groups=GROUPS)).axes[0]
        assert not ax.collections
        assert len(widths(ax)) == 2

    def test_a_panel_without_bars_says_why(self):
        asked = {"datasets": ["a", "b", "c", "d"], "missing": {"c": "not run: data"}}
        figure = render(plots.auc_bars(table(), PAPER, **asked))
        said = [[text.get_text() for text in ax.texts if "not run" in text.get_text()] for ax in figure.axes[:4]]
        assert said == [[], [], ["not run: data"], ["not run"]]

    def test_the_legend_lists_what_is_drawn_and_covers_nothing(self):
        figure = render(plots.auc_bars(table(), PAPER, groups=GROUPS))
        (legend,) = figure.legends
        assert legend_labels(legend) == ["new", "reference", "the paper's value, with its 95 % interval"]
        assert clear_of_axes(figure, legend)
        (legend,) = plots.auc_bars(table()).legends
        assert legend_labels(legend) == ["measured"]

    def test_a_group_has_one_colour_in_every_figure(self):
        bars = plots.auc_bars(table(), groups=GROUPS).axes[0].patches
        alone = plots.auc_bars(table().filter(method="plain"), groups=GROUPS).axes[0].patches
        assert to_hex(bars[1].get_facecolor()) == to_hex(alone[0].get_facecolor()) != to_hex(bars[0].get_facecolor())


class TestMeanBars:
    def test_panels(self):
        means = table().group_by("task", "method", maintain_order=True).agg(pl.col("mean").mean())
        figure = render(plots.mean_bars(means, PAPER.select("task", "method", "mean"), groups=GROUPS))
        assert [ax.get_title() for ax in figure.axes] == ["first", "second"]
        assert widths(figure.axes[0]) == pytest.approx([40, 20])
        assert "90.0" in [text.get_text() for text in figure.axes[0].texts]
        assert all("mean AUC" in ax.get_xlabel() for ax in figure.axes)
        assert clear_of_axes(figure, figure.legends[0])


class TestRuntimeBars:
    def test_the_scale_is_logarithmic(self):
        seconds = pl.DataFrame(
            {"dataset": ["a", "a", "b"], "method": ["ours", "theirs", "ours"], "seconds": [0.5, 40.0, 3.0]}
        )
        figure = render(plots.runtime_bars(seconds, datasets=["a", "b", "c"], groups=GROUPS))
        assert [ax.get_title() for ax in figure.axes] == ["a", "b", "c"]
        assert {ax.get_xscale() for ax in figure.axes} == {"log"}
        assert all("seconds" in ax.get_xlabel() for ax in figure.axes)
        ends = [bar.get_x() + bar.get_width() for bar in figure.axes[0].patches]
        assert ends == pytest.approx([0.5, 40])
        assert [text.get_text() for text in figure.axes[0].texts] == ["0.50", "40"]
        assert [text.get_text() for text in figure.axes[2].texts] == ["not run"]


class TestAblations:
    bandwidth = pl.DataFrame({"dataset": ["a"] * 3 + ["b"] * 3, "value": [0.01, 0.1, 1.0] * 2,
                              "mean": [0.8, 0.9, 0.45, 0.6, 0.5, 0.54]})  # fmt: skip
    normalisation = pl.DataFrame({"dataset": ["a"] * 2, "value": ["none", "edge"], "mean": [0.9, 0.81]})

    def test_shares_of_the_best(self):
        figure = render(plots.ablations(self.bandwidth, self.normalisation))
        left, right = figure.axes
        lines = {line.get_label(): line for line in left.lines if not line.get_label().startswith("_")}
        assert lines["a"].get_ydata() == pytest.approx([800 / 9, 100, 50])
        assert lines["b"].get_ydata() == pytest.approx([100, 500 / 6, 90])
        assert left.get_xscale() == "log"
        assert "bandwidth" in left.get_xlabel()
        assert "% of the best" in left.get_ylabel()
        assert right.lines[0].get_ydata() == pytest.approx([100, 90])
        assert right.get_xlabel() == "normalisation"

    def test_lines_differ_by_more_than_colour(self):
        lines = [
            line
            for line in plots.ablations(self.bandwidth, None).axes[0].lines
            if line.get_marker() not in ("", "None")
        ]
        assert len({line.get_marker() for line in lines}) == 2
        assert len({to_hex(line.get_color()) for line in lines}) == 2

    def test_either_panel_may_be_missing(self):
        assert len(plots.ablations(self.bandwidth, None).axes) == 1
        (only,) = render(plots.ablations(None, self.normalisation)).axes
        assert only.get_xlabel() == "normalisation"

    def test_the_legend_covers_nothing(self):
        figure = render(plots.ablations(self.bandwidth, self.normalisation))
        assert legend_labels(figure.legends[0]) == ["a", "b"]
        assert clear_of_axes(figure, figure.legends[0])


class TestSyntheticNetwork:
    def test_four_panels(self, drawn):
        sample = drawn[0]
        figure = render(plots.synthetic_network(sample))
        assert [ax.get_title() for ax in figure.axes] == ["early edges", "late edges", "all edges", "times"]
        early, late, union = (np.asarray(ax.images[0].get_array()) for ax in figure.axes[:3])
        assert np.array_equal(early + late, union)
        assert union.sum() == 2 * sample.edges.n_edges
        assert np.array_equal(early, early.T)
        within = early[:10, :10].sum() + early[10:, 10:].sum()
        assert within == pytest.approx(0.9 * early.sum())
        assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["U", "V"]

    def test_histogram(self, drawn):
        ax = plots.synthetic_network(drawn[0]).axes[3]
        assert sum(bar.get_height() for bar in ax.patches) == drawn[0].edges.n_edges
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "edges")
        assert legend_labels(ax.get_legend()) == ["early", "late"]

    def test_the_legend_stands_above_the_bars(self, drawn):
        figure = render(plots.synthetic_network(drawn[0]))
        ax = figure.axes[3]
        box = ax.get_legend().get_window_extent()
        assert not any(box.overlaps(bar.get_window_extent()) for bar in ax.patches if bar.get_height())


class TestSyntheticMethod:
    def test_three_panels(self, drawn):
        figure = render(plots.synthetic_method(*drawn))
        graph, edges, nodes = figure.axes[:3]
        assert graph.get_title() == "line graph, early edges first"
        assert (edges.get_title(), nodes.get_title()) == ("edge embeddings", "node embeddings")
        assert (edges.get_xlabel(), edges.get_ylabel()) == ("second eigenvector", "third eigenvector")
        assert legend_labels(edges.get_legend()) == list(drawn[0].model.kinds)
        assert legend_labels(nodes.get_legend()) == ["node of U", "node of V"]

    def test_points_have_the_colour_of_their_kind(self, drawn):
        sample, _, vectors, _ = drawn
        (points,) = plots.synthetic_method(*drawn).axes[1].collections
        colours = {
            tuple(place): to_hex(colour)
            for place, colour in zip(points.get_offsets(), points.get_facecolors(), strict=True)
        }
        assert len(colours) == len(vectors)
        by_kind = [{colours[tuple(place)] for place in vectors[sample.kind == kind]} for kind in range(6)]
        assert all(len(found) == 1 for found in by_kind)
        assert len(set.union(*by_kind)) == 6

    def test_nodes_of_each_community(self, drawn):
        sample, *_, vectors = drawn
        first, second = plots.synthetic_method(*drawn).axes[2].collections
        assert np.array_equal(first.get_offsets(), vectors[sample.community == 0])
        assert np.array_equal(second.get_offsets(), vectors[sample.community == 1])

    def test_cells_are_means(self, monkeypatch):
        H = np.arange(36.0).reshape(6, 6)
        assert np.array_equal(plots._cells(H), H)
        monkeypatch.setattr(plots, "CELLS", 2)
        assert plots._cells(H) == pytest.approx(H.reshape(2, 3, 2, 3).mean(axis=(1, 3)))

    def test_legends_cover_nothing(self, drawn):
        figure = render(plots.synthetic_method(*drawn))
        for ax in figure.axes[1:3]:
            box = ax.get_legend().get_window_extent()
            assert not any(box.overlaps(other.get_window_extent()) for other in figure.axes)


def style():
    """What is set for all figures; to ask for the backend would choose one."""
    return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}


class TestState:
    def test_nothing_global_is_left(self):
        before = style()
        figure = plots.auc_bars(table())
        assert figure.canvas.manager is None
        assert style() == before

    def test_it_can_be_saved(self, tmp_path):
        plots.auc_bars(table(), PAPER, groups=GROUPS).savefig(tmp_path / "figure.png", dpi=50)
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_question_bars():
    table = pl.DataFrame(
        [
            {"dataset": dataset, "task": task, "method": method, "mean": mean, "half_width": 0.0}
            for dataset in ("one", "two")
            for task in ("a", "b")
            for method, mean in (("x", 0.6), ("y", 0.9))
            if (dataset, task, method) != ("two", "b", "y")
        ]
    )
    figure = plots.question_bars(table, {"a": "first", "b": "second"}, {"x": "old", "y": "new"})
    assert [ax.get_title() for ax in figure.axes] == ["first", "second"]
    heights = [[bar.get_height() for bar in ax.patches] for ax in figure.axes]
    assert heights[0] == [60, 60, 90, 90]
    assert heights[1][:3] == [60, 60, 90]
    assert np.isnan(heights[1][3])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["old", "new"]
