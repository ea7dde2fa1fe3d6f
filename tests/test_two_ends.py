import math
from types import SimpleNamespace

import numpy as np
import pytest

from plans import residuals, two_end_columns, two_end_names
from tdlg import TemporalEdges
from tdlg._kernels import RECENT

WIDTHS = (2.0, 9.0)


# ---- the definitions as plain loops


class ByHand:
    """The columns of one target, edge by edge. An edge is its row in the table; a match is (my end, the other's end)."""

    def __init__(self, edges, y, labelled, widths, past_only, label_ticks=None):
        self.widths, self.past_only = widths, past_only
        self.edges, self.found = {}, {}
        for position, row in enumerate(edges.rows.tolist()):
            is_better = row in self.edges and labelled[position] and not self.edges[row].labelled
            if row in self.edges and not is_better:
                continue
            time = edges.ticks[position].item()
            known = time if label_ticks is None or not past_only else max(time, label_ticks[position].item())
            ends = int(edges.src_code[position]), int(edges.dst_code[position])
            value, is_known = float(y[position]), bool(labelled[position])
            self.edges[row] = SimpleNamespace(ends=ends, time=time, y=value, labelled=is_known, known=known, row=row)
        self.step_1(edges.bipartite)

    def around(self, i, mine, theirs, only_labelled):
        """The edges around i that count, with the time from which on each counts."""
        for j in self.edges.values():
            is_loop, meets = j.ends[0] == j.ends[1], i.ends[mine] == j.ends[theirs]
            if is_loop or not meets or i.ends[1 - mine] == j.ends[1 - theirs] or (only_labelled and not j.labelled):
                continue
            since = j.known if only_labelled else j.time
            if not self.past_only or since < i.time:
                yield j, since

    def mean(self, i, mine, theirs, value, width, only_labelled=True):
        total, count = 0.0, 0.0
        for j, since in self.around(i, mine, theirs, only_labelled):
            weight = math.exp(-abs(i.time - since) / width)
            total, count = total + weight * value(j), count + weight
        return total / (count + 1)

    def step_1(self, bipartite):
        long, everything = self.widths[1], list(self.edges.values())
        for i in everything:
            i.end = [self.mean(i, end, end, lambda j: j.y, long) for end in (0, 1)]
        for i in everything:
            i.residual = [self.mean(i, end, end, lambda j, far=1 - end: j.y - j.end[far], long) for end in (0, 1)]
            i.trust = [self.mean(i, end, end, lambda j, far=1 - end: j.y * j.end[far], long) for end in (0, 1)]
            i.back = [0.0 if bipartite else self.mean(i, end, 1 - end, lambda j: j.y, long) for end in (0, 1)]

    def partners(self, row, match, kind, scale):
        i, width = self.edges[row], self.widths[scale]
        mine = ("src", "dst").index(match[:3])
        theirs = mine if "-" not in match else 1 - mine
        far = 1 - theirs
        value, only_labelled = {
            "partners": (lambda j: j.end[far], False),
            "partners-residual": (lambda j: j.y - j.residual[far], True),
            "partners-trusted": (lambda j: j.y * j.trust[far], True),
            "partners-reputation": (lambda j: j.back[far], False),
            "partners-reputed": (lambda j: j.y * j.back[far], True),
        }[kind]
        return self.mean(i, mine, theirs, value, width, only_labelled)

    def recent(self, i, end, node):
        """The labelled edges of a node that are compared for edge i."""
        if (i.row, end, node) in self.found:
            return self.found[i.row, end, node]
        listed = [j for j in self.edges.values() if j.labelled and j.ends[end] == node and j.ends[0] != j.ends[1]]
        if self.past_only:
            listed = sorted((j for j in listed if j.known < i.time), key=lambda j: (j.known, j.time, j.row))[-RECENT:]
        else:
            listed = sorted((j for j in listed if j is not i), key=lambda j: self.nearness(i, j))[:RECENT]
        self.found[i.row, end, node] = listed
        return listed

    def nearness(self, i, j):
        is_before = j.time < i.time
        return abs(j.time - i.time), not is_before, -j.row if is_before else j.row

    def agreement(self, row, match):
        i, end = self.edges[row], ("src", "dst").index(match)
        far, (u, v) = 1 - end, self.edges[row].ends[:: 1 if match == "src" else -1]
        marks = {}
        for k in self.recent(i, end, u):
            if k.ends[far] != v:
                marks.setdefault(k.ends[far], []).append(k.y - k.end[far])
        total = size = of_common = 0.0
        n_common = 0
        for j in self.recent(i, far, v):
            w = j.ends[end]
            if w == u:
                continue
            both = [k for k in self.recent(i, end, w) if k.ends[far] in marks]
            alike = sum((k.y - k.end[far]) * np.mean(marks[k.ends[far]]) for k in both) / (len(both) + 5)
            r = j.y - j.end[end]
            total, size, of_common = total + alike * r, size + abs(alike), of_common + len(both) * r
            n_common += len(both)
        return {
            "agreement": total / (size + 0.02),
            "agreement-sum": total,
            "agreement-common": of_common / (n_common + 5),
            "common": math.log1p(n_common),
        }

    def column(self, row, column):
        kind = column.name.partition(":")[2].partition("@")[0].partition("[")[0]
        if kind == "trust":
            return self.edges[row].trust[("src", "dst").index(column.match)]
        if column.about in ("agreement", "common"):
            return self.agreement(row, column.match)[kind]
        return self.partners(row, column.match, kind, column.scale)


def columns_by_hand(edges, at, targets, labelled, widths, *, past_only, label_ticks=None, only_partners=False):
    by_hand = [ByHand(edges, y, labelled, widths, past_only, label_ticks) for y in targets.T]
    classes = range(len(by_hand)) if len(by_hand) > 1 else ()
    named = two_end_names(classes, bipartite=edges.bipartite, only_partners=only_partners)
    rows = edges.rows[at].tolist()
    return np.array([[by_hand[max(0, column.of_class)].column(row, column) for column in named] for row in rows])


# ---- networks


def network(n_edges=70, n_nodes=7, n_times=25, seed=0, bipartite=False, n_targets=1, late=False):
    """Few nodes and few times: ties, self-loops, pairs that repeat in both directions; a third is unlabelled."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    edges = TemporalEdges(src, dst, rng.integers(0, n_times, n_edges), bipartite=bipartite)
    codes = rng.integers(0, max(2, n_targets), n_edges)
    targets = (codes[:, None] == np.arange(max(2, n_targets))[-n_targets:]) - 0.4
    labelled = rng.random(n_edges) < 0.67
    label_ticks = edges.ticks + rng.integers(-2, 9, n_edges) if late else None
    return edges, np.where(labelled[:, None], targets, 0.0), labelled, label_ticks


def check(edges, at, targets, labelled, widths=WIDTHS, **options):
    found = two_end_columns(edges, at, targets, labelled, widths, **options)
    expected = columns_by_hand(edges, at, targets, labelled, widths, **options)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=2e-9)
    return found


class TestColumns:
    @pytest.mark.parametrize("past_only", [False, True])
    @pytest.mark.parametrize("bipartite", [False, True])
    @pytest.mark.parametrize("seed", range(3))
    def test_equal_plain_loops(self, past_only, bipartite, seed):
        edges, targets, labelled, _ = network(seed=seed, bipartite=bipartite, n_nodes=5 + 3 * seed)
        columns = check(edges, np.arange(len(edges)), targets, labelled, past_only=past_only)
        assert columns.shape[1] == (22 if bipartite else 34)
        assert (np.abs(columns).max(axis=0) > 0).all()

    @pytest.mark.parametrize("seed", range(3))
    def test_late_labels(self, seed):
        edges, targets, labelled, label_ticks = network(seed=seed, late=True)
        label_ticks[:5] = np.iinfo(np.int64).max  # never known
        options = {"past_only": True, "label_ticks": label_ticks}
        columns = check(edges, np.arange(len(edges)), targets, labelled, **options)
        on_time = two_end_columns(edges, np.arange(len(edges)), targets, labelled, WIDTHS, past_only=True)
        assert not np.allclose(columns, on_time)

    @pytest.mark.parametrize("past_only", [False, True])
    def test_three_classes(self, past_only):
        edges, targets, labelled, _ = network(n_targets=3)
        columns = check(edges, np.arange(len(edges)), targets, labelled, past_only=past_only)
        assert columns.shape[1] == 3 * 32 + 2

    @pytest.mark.parametrize("past_only", [False, True])
    def test_only_partners(self, past_only):
        edges, targets, labelled, _ = network()
        at = np.array([4, 9, 9, 0])
        columns = check(edges, at, targets, labelled, past_only=past_only, only_partners=True)
        everything = two_end_columns(edges, at, targets, labelled, WIDTHS, past_only=past_only)
        names = [column.name for column in two_end_names(bipartite=False)]
        kept = [column.name for column in two_end_names(bipartite=False, only_partners=True)]
        np.testing.assert_array_equal(columns, everything[:, [names.index(name) for name in kept]])

    @pytest.mark.parametrize("past_only", [False, True])
    def test_more_than_32_edges_per_node(self, past_only):
        edges, targets, labelled, label_ticks = network(260, 5, n_times=60, late=past_only)
        at = np.arange(0, 260, 29)
        columns = check(edges, at, targets, labelled, past_only=past_only, label_ticks=label_ticks)
        fewer = np.arange(260) % 4 == 0  # so that the limit matters in the columns above
        other = two_end_columns(edges, at, targets, labelled & fewer, WIDTHS, past_only=past_only)
        assert not np.allclose(columns[:, -1], other[:, -1])

    def test_many_edges_at_one_time(self):
        edges, targets, labelled, _ = network(200, 4, n_times=2)
        for past_only in (False, True):
            check(edges, np.arange(0, 200, 23), targets, labelled, past_only=past_only)

    def test_copies_count_once(self):
        edges, targets, labelled, _ = network()
        again = np.concatenate([np.arange(70), [3, 5, 8, 8]])
        held, mask = edges[again], labelled[again]
        mask[[3, 8]] = False  # of these only the copies are labelled
        check(held, np.array([0, 3, 8, 70, 71, 73]), targets[again], mask, past_only=False)
        columns = two_end_columns(held, np.arange(74), targets[again], labelled[again], WIDTHS, past_only=False)
        once = two_end_columns(edges, np.arange(70), targets, labelled, WIDTHS, past_only=False)
        np.testing.assert_array_equal(columns, once[again])

    @pytest.mark.parametrize("widths", [(1e-3, 0.5), (3.0, np.inf), (np.inf, np.inf)])
    def test_widths(self, widths):
        edges, targets, labelled, _ = network()
        for past_only in (False, True):
            check(edges, np.arange(0, 70, 7), targets, labelled, widths, past_only=past_only)

    def test_decimals_as_times(self):
        edges, targets, labelled, _ = network()
        moved = TemporalEdges(edges.src, edges.dst, edges.ticks * 0.37)
        check(moved, np.arange(0, 70, 7), targets, labelled, past_only=False)
        never = np.where(np.arange(70) < 9, np.finfo(float).max, moved.ticks + 0.5)
        check(moved, np.arange(0, 70, 7), targets, labelled, past_only=True, label_ticks=never)

    @pytest.mark.parametrize("past_only", [False, True])
    def test_nothing_known(self, past_only):
        edges, targets, labelled, _ = network()
        nothing = np.zeros(70, bool)
        assert not two_end_columns(edges, np.arange(70), targets, nothing, WIDTHS, past_only=past_only).any()
        empty = two_end_columns(edges, np.arange(0), targets, labelled, WIDTHS, past_only=past_only)
        assert empty.shape == (0, 34)
        loops = TemporalEdges([1, 1], [1, 1], [0, 1])
        at, ones = np.arange(2), np.ones(2, bool)
        assert not two_end_columns(loops, at, np.ones((2, 1)), ones, WIDTHS, past_only=past_only).any()

    @pytest.mark.parametrize("past_only", [False, True])
    def test_threads_change_nothing(self, past_only):
        edges, targets, labelled, label_ticks = network(20_000, 900, n_times=5000, late=past_only)
        at = np.random.default_rng(1).permutation(20_000)[:15_000]
        found = [
            two_end_columns(
                edges, at, targets, labelled, WIDTHS, past_only=past_only, label_ticks=label_ticks, n_threads=n
            )
            for n in (1, 2, 4)
        ]
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


class TestLeaks:
    @pytest.mark.parametrize("past_only", [False, True])
    @pytest.mark.parametrize("bipartite", [False, True])
    def test_own_label_moves_no_bit_of_the_own_row(self, past_only, bipartite):
        edges, targets, labelled, _ = network(400, 9, n_times=150, bipartite=bipartite)
        columns = two_end_columns(edges, np.arange(400), targets, labelled, WIDTHS, past_only=past_only)
        n_moved = 0
        for row in np.flatnonzero(labelled)[::5]:
            flipped = targets.copy()
            flipped[row] = 0.2 - flipped[row]
            moved = two_end_columns(edges, np.arange(400), flipped, labelled, WIDTHS, past_only=past_only)
            np.testing.assert_array_equal(moved[row], columns[row])
            n_moved += (moved != columns).any(axis=1).sum()
            hidden = labelled.copy()
            hidden[row] = False
            unknown = two_end_columns(edges, np.array([row]), flipped, hidden, WIDTHS, past_only=past_only)
            np.testing.assert_allclose(unknown[0], columns[row], rtol=0, atol=1e-15)  # rows come between: rounding
        assert n_moved > 1000

    @pytest.mark.parametrize("past_only", [False, True])
    def test_values_of_unlabelled_edges_move_no_bit(self, past_only):
        edges, targets, labelled, _ = network(300, 12)
        other = np.where(labelled[:, None], targets, 9.0)
        found = [
            two_end_columns(edges, np.arange(300), y, labelled, WIDTHS, past_only=past_only) for y in (targets, other)
        ]
        np.testing.assert_array_equal(*found)

    @pytest.mark.parametrize("late", [False, True])
    def test_later_labels_move_no_bit(self, late):
        edges, targets, labelled, label_ticks = network(400, 12, n_times=60, late=late)
        known = edges.ticks if label_ticks is None else np.maximum(label_ticks, edges.ticks)
        after = np.flatnonzero(known >= 30)
        shuffled = np.random.default_rng(3).permutation(after)
        other, mask = targets.copy(), labelled.copy()
        other[after], mask[after] = targets[shuffled], labelled[shuffled]
        options = {"past_only": True, "label_ticks": label_ticks}
        columns = two_end_columns(edges, np.arange(400), targets, labelled, WIDTHS, **options)
        moved = two_end_columns(edges, np.arange(400), other, mask, WIDTHS, **options)
        upto = edges.ticks <= 30
        np.testing.assert_array_equal(moved[upto], columns[upto])
        assert (moved[~upto] != columns[~upto]).any()

    def test_later_edges_change_nothing(self):
        edges, targets, labelled, _ = network(400, 12, n_times=60)
        early = np.flatnonzero(edges.ticks <= 30)
        columns = two_end_columns(edges, early, targets, labelled, WIDTHS, past_only=True)
        alone = edges[early], np.arange(len(early)), targets[early], labelled[early]
        np.testing.assert_allclose(two_end_columns(*alone, WIDTHS, past_only=True), columns, atol=1e-12)

    @pytest.mark.parametrize("past_only", [False, True])
    def test_other_rows_do_not_matter(self, past_only):
        edges, targets, labelled, _ = network(300, 12)
        columns = two_end_columns(edges, np.arange(300), targets, labelled, WIDTHS, past_only=past_only)
        some = np.array([17, 2, 250])
        found = two_end_columns(edges, some, targets, labelled, WIDTHS, past_only=past_only)
        np.testing.assert_allclose(found, columns[some], rtol=0, atol=1e-14)

    @pytest.mark.parametrize("past_only", [False, True])
    def test_order_of_rows_and_names_of_nodes(self, past_only):
        edges, targets, labelled, _ = network(150, 15, n_times=30)  # fewer than 32 labels per node, and ties
        rng = np.random.default_rng(5)
        order, names = rng.permutation(150), rng.permutation(1000)
        other = TemporalEdges(names[edges.src][order], names[edges.dst][order], edges.ticks[order])
        columns = two_end_columns(edges, np.arange(150), targets, labelled, WIDTHS, past_only=past_only)
        moved = two_end_columns(other, np.arange(150), targets[order], labelled[order], WIDTHS, past_only=past_only)
        np.testing.assert_allclose(moved, columns[order], atol=1e-11)


class TestNames:
    def test_two_classes(self):
        named = two_end_names(bipartite=False)
        assert len({column.name for column in named}) == len(named) == 34
        assert named[1] == ("dst:partners@1", "dst", "partners", "", -1, 1)
        assert [column.name for column in two_end_names(bipartite=True, only_partners=True)] == [
            "dst:partners@0.03",
            "dst:partners@1",
            "src:partners@0.03",
            "src:partners@1",
        ]

    def test_classes_and_scales(self):
        named = two_end_names(["fine", "fraud", "spam"], bipartite=True, scale_names=["1h", "7d"])
        assert ("src:agreement[fraud]", "src", "agreement", "", 1, -1) in named
        assert ("src:partners-residual[spam]@7d", "src", "rate", "", 2, 1) in named
        assert named[-1] == ("dst:common", "dst", "common", "", -1, -1)


@pytest.mark.parametrize("past_only", [False, True])
def test_residuals(past_only):
    edges, targets, labelled, label_ticks = network(n_targets=3, late=True)
    found = residuals(edges, targets, labelled, 9.0, past_only=past_only, label_ticks=label_ticks)
    for c in range(3):
        by_hand = ByHand(edges, targets[:, c], labelled, WIDTHS, past_only, label_ticks)
        for end in (0, 1):
            expected = [j.y - j.end[end] if j.labelled else 0.0 for j in by_hand.edges.values()]
            np.testing.assert_allclose(found[end][:, c], expected, atol=1e-12)
