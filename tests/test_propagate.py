import math
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from oracle import line_graph
from tdlg import Laplace, NoDecay, PropagationFeatures, TemporalEdges, load_model
from tdlg._kernels import COUNT_UNIT, GAP_UNIT, NO_GAP
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph.match import NODE_MATCHES
from tdlg.propagate.features import gather_evidence, table_columns
from tdlg.propagate.match import decayed_sums
from tdlg.propagate.plan import LEAST_AMOUNT, SMOOTHING_ACROSS


def network(n_edges=60, n_nodes=6, seed=0, n_times=25, **options):
    """Few nodes and few times: ties, self-loops, edges that repeat."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    return TemporalEdges(src, dst, rng.integers(0, n_times, n_edges), **options)


def labelled(n_edges=60, seed=0, share=0.7, **options):
    rng = np.random.default_rng(seed + 100)
    label = np.where(rng.random(n_edges) < share, rng.integers(0, 2, n_edges), np.nan)
    return network(n_edges, seed=seed, label=label, **options)


def nearest_by_hand(rows, cols, match, past_only):
    """Ticks to the nearest other matching edge before and after."""
    present = line_graph(rows, cols, NoDecay(), match, include_self=False) > 0
    distance = rows.time[:, None] - cols.time[None, :]
    other = rows.rows[:, None] != cols.rows[None, :] if rows.same_table(cols) else np.full(distance.shape, True)
    before, after = [], []
    for i in range(len(rows)):
        d = distance[i][present[i] & other[i]]
        earlier, later = d[d > 0] if past_only else d[d >= 0], -d[d <= 0]
        before.append(earlier.min() if len(earlier) else np.inf)
        after.append(later.min() if len(later) and not past_only else np.inf)
    return np.array(before), np.array(after)


class TestDecayedSums:
    @pytest.mark.parametrize("match", NODE_MATCHES)
    @pytest.mark.parametrize("past_only", [False, True])
    @pytest.mark.parametrize("bipartite", [False, True])
    @pytest.mark.parametrize("shape", ["square", "part", "overlap", "other table"])
    def test_are_products_with_the_line_graph(self, match, past_only, bipartite, shape):
        cols = network(bipartite=bipartite)
        rows = {
            "square": cols,
            "part": cols[[5, 3, 59, 3]],
            "overlap": cols[::2],
            "other table": network(40, 8, 1, bipartite=bipartite),
        }[shape]
        cols = cols[10:] if shape == "overlap" else cols
        values = np.random.default_rng(2).normal(size=(len(cols), 3))
        widths = [0.5, 3.0, 40.0]
        sums, _ = decayed_sums(rows, cols, values, match, widths, past_only=past_only)
        for k, width in enumerate(widths):
            H = line_graph(rows, cols, Laplace(width), match, past_only, include_self=False)
            np.testing.assert_allclose(sums[:, k], H @ values, atol=1e-12)

    @pytest.mark.parametrize("match", NODE_MATCHES)
    @pytest.mark.parametrize("past_only", [False, True])
    def test_nearest(self, match, past_only):
        edges = network(n_nodes=4)
        _, gaps = decayed_sums(edges, edges, np.ones((60, 1)), match, [1.0], past_only=past_only)
        before, after = nearest_by_hand(edges, edges, match, past_only)
        np.testing.assert_array_equal(gaps[0], before)
        np.testing.assert_array_equal(gaps[1], after)

    def test_without_decay(self):
        edges = network()
        sums, _ = decayed_sums(edges, edges, np.ones((60, 1)), "src", [np.inf])
        np.testing.assert_array_equal(sums[:, 0, 0], [np.sum(edges.src == s) - 1 for s in edges.src])

    def test_other_times_of_the_same_nodes(self):
        edges, rng = network(), np.random.default_rng(3)
        late, values = edges.at_ticks(edges.ticks + rng.integers(0, 10, 60)), rng.normal(size=(60, 1))
        other = TemporalEdges(edges.src, edges.dst, late.time)
        assert not late.same_table(edges)
        for match in NODE_MATCHES:
            mine, expected = (
                decayed_sums(edges[::2], cols, values, match, [4.0], past_only=True) for cols in (late, other)
            )
            np.testing.assert_array_equal(mine[0], expected[0])

    def test_copies_count_as_often(self):
        edges = network()
        twice = edges[np.r_[0:60, 5, 5]]
        sums, _ = decayed_sums(edges, twice, np.ones((62, 1)), "src", [np.inf])
        same = (edges.src == edges.src[5]) & (np.arange(60) != 5)
        counts = np.array([np.sum(edges.src == s) - 1 for s in edges.src])
        np.testing.assert_array_equal(sums[:, 0, 0], counts + 2 * same)


def columns_by_hand(edges, mu, match, width, spread, past_only):
    """rate, known, count, before, after of each edge, as plain loops."""
    known = edges.labelled
    H = line_graph(edges, edges, Laplace(width), match, past_only, include_self=False)
    before, after = nearest_by_hand(edges, edges, match, past_only)
    rows = []
    for i in range(len(edges)):
        s1, sy, sa = 0.0, 0.0, 0.0
        for j in range(len(edges)):
            sa += H[i, j]
            if known[j]:
                s1 += H[i, j]
                sy += H[i, j] * (edges.label[j] - mu)
        gaps = [math.log1p(min(gap / spread, NO_GAP) / GAP_UNIT) for gap in (before[i], after[i])]
        rows.append([sy / (s1 + 1), math.log1p(s1 / COUNT_UNIT), math.log1p(sa / COUNT_UNIT), *gaps])
    return np.array(rows)


class TestColumns:
    @pytest.mark.parametrize("past_only", [False, True])
    def test_are_those_of_the_definition(self, past_only):
        edges = labelled(n_times=10**6)
        spread = edges.time[edges.labelled].std() if past_only else edges.time.std()
        features = PropagationFeatures(scales=[0.1], past_only=past_only, two_ends="none").fit(edges)
        table = dict(zip(features.get_feature_names_out(), features.transform(edges).T, strict=True))
        for match in NODE_MATCHES:
            expected = columns_by_hand(edges, features.prior_[0], match, 0.1 * spread, spread, past_only)
            names = [f"{match}_{name}" for name in ("rate_0.1", "known_0.1", "count_0.1", "before", "after")]
            for k, name in enumerate(names[:4] if past_only else names):
                np.testing.assert_allclose(table[name], expected[:, k], atol=1e-6, err_msg=name)
        assert len(table) == (6 * 4 + 3 * 2 if past_only else 6 * 5), "and the last label, see test_since.py"

    def test_late_labels_count_from_when_they_became_known(self):
        edges, rng = labelled(n_times=100), np.random.default_rng(3)
        features = PropagationFeatures(["dst"], scales=[0.5], past_only=True).fit(edges)
        query = gather_evidence(features, edges)
        known_at = edges.ticks + rng.integers(0, 30, 60)
        query = query._replace(evidence=query.evidence._replace(label_ticks=known_at))
        columns = table_columns(features.plan_, query)
        width, mu = 0.5 * edges.time[edges.labelled].std(), features.prior_[0]
        for i in range(60):
            seen = (edges.dst == edges.dst[i]) & (known_at < edges.time[i]) & edges.labelled
            weight = np.exp(-(edges.time[i] - known_at[seen]) / width)
            assert columns[i, 0] == pytest.approx(weight @ (edges.label[seen] - mu) / (weight.sum() + 1), abs=1e-8)
            assert columns[i, 1] == pytest.approx(math.log1p(weight.sum() / COUNT_UNIT), abs=1e-6)

    def test_two_types_of_nodes_have_no_matches_across(self):
        names = PropagationFeatures(scales=[1.0]).fit(labelled(bipartite=True)).get_feature_names_out()
        assert {name.partition("_")[0] for name in names} == {"src", "dst", "pair"}

    def test_two_types_of_nodes_need_not_be_declared(self):
        edges = labelled()
        apart = TemporalEdges(edges.src, edges.dst + 100, edges.time, label=edges.label)
        told = TemporalEdges(edges.src, edges.dst + 100, edges.time, label=edges.label, bipartite=True)
        found, expected = (PropagationFeatures().fit(e) for e in (apart, told))
        assert found.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()
        np.testing.assert_allclose(found.transform(apart), expected.transform(told), rtol=0, atol=1e-12)
        assert PropagationFeatures(["reversed"], two_ends="none").fit(apart).transform(apart).shape[0] == 60

    def test_each_column_is_described(self):
        edges = labelled(features={"amount": np.arange(1.0, 61.0), "code": [f"code {k % 25}" for k in range(60)]})
        for past_only in (False, True):
            features = PropagationFeatures(past_only=past_only).fit(edges)
            assert len(features.plan_.columns) == features.transform(edges).shape[1]
            names = features.get_feature_names_out().tolist()
            assert len(set(names)) == len(names)

    def test_names_are_what_other_libraries_accept(self):
        """LightGBM refuses the special characters of JSON and joins words, XGBoost refuses brackets and "<"."""
        odd = {
            'a, "b": [c] {d}': np.arange(1.0, 61.0),
            "a b c d": np.ones(60),
            "<é>": [f"x:{k % 20}" for k in range(60)],
        }
        edges = labelled(features=odd).with_label([f"[{k % 3}]" for k in range(60)])
        for calendar in (False, True):
            dated = TemporalEdges(
                edges.src, edges.dst, np.datetime64("2025-01-01") + np.arange(60), label=edges.label, features=odd
            )
            features = PropagationFeatures(calendar=calendar).set_output(transform="pandas").fit(dated)
            names = features.transform(dated).columns.tolist()
            assert len(set(names)) == len(names)
            assert all(re.fullmatch(r"[\w.+=-]+", name) for name in names)
        assert {"a_b_c_d", "a_b_c_d_2", "é_=x_1"} <= set(names)

    def test_no_labels_no_rates(self):
        names = PropagationFeatures(scales=[0.1, 1.0]).fit(network()).get_feature_names_out()
        assert len(names) == 6 * 4
        assert not any("rate" in name or "known" in name for name in names)

    def test_a_rate_for_each_of_several_classes(self):
        edges = network().with_label(np.array(["a", "b", "c"])[np.arange(60) % 3])
        features = PropagationFeatures(["src"], scales=[1.0], two_ends="none").fit(edges)
        names = features.get_feature_names_out().tolist()
        rates = ["src_rate_a_1", "src_rate_b_1", "src_rate_c_1"]
        assert names == [*rates, "src_known_1", "src_count_1", "src_before", "src_after"]
        np.testing.assert_allclose(features.transform(edges)[:, :3].sum(axis=1), 0, atol=1e-12)

    def test_the_mean_of_a_number(self):
        edges = network().with_label(np.random.default_rng(0).normal(5, 2, 60))
        features = PropagationFeatures(["src"], scales=[1.0]).fit(edges)
        H = line_graph(edges, edges, Laplace(edges.time.std()), "src", include_self=False)
        scaled = (edges.label - edges.label.mean()) / edges.label.std()
        assert features.get_feature_names_out()[0] == "src_mean_1"
        np.testing.assert_allclose(features.transform(edges)[:, 0], H @ scaled / (H.sum(axis=1) + 1), atol=1e-12)

    def test_durations_and_datetimes(self):
        plain = labelled(n_times=10**6)
        dated = TemporalEdges(plain.src, plain.dst, plain.time.astype("datetime64[s]"), label=plain.label)
        one = PropagationFeatures(["src"], scales=[0.5]).fit(plain).transform(plain)
        two = PropagationFeatures(["src"], scales=[0.5]).fit(dated).transform(dated)
        np.testing.assert_allclose(one, two)
        days = PropagationFeatures(["src"], scales=["2d"]).fit(dated)
        assert days.get_feature_names_out()[0] == "src_rate_2d"
        absolute = PropagationFeatures(["src"], scales=[2 * 86400 / plain.time.std()]).fit(plain).transform(plain)
        np.testing.assert_allclose(days.transform(dated), absolute)

    def test_edges_of_a_finer_clock(self):
        plain = labelled(n_times=10**6)
        time = plain.time.astype("datetime64[s]")
        features = PropagationFeatures().fit(TemporalEdges(plain.src, plain.dst, time, label=plain.label))
        asked = [TemporalEdges([1], [2], np.array(["1970-01-03"], f"datetime64[{unit}]")) for unit in ("s", "us")]
        np.testing.assert_allclose(features.transform(asked[0]), features.transform(asked[1]))

    def test_all_at_one_time(self):
        edges = TemporalEdges([1, 1, 2], [3, 4, 3], [7, 7, 7], label=[1, 0, 1])
        features = PropagationFeatures(["src"]).fit(edges)
        names = features.get_feature_names_out()[:3].tolist()
        assert names == ["src_rate_all", "src_known_all", "src_count_all"]
        mu = features.prior_[0]
        np.testing.assert_allclose(features.transform(edges)[:, 0], [-mu / 2, (1 - mu) / 2, 0])

    def test_set_output(self):
        table = PropagationFeatures().set_output(transform="polars").fit(labelled()).transform(labelled())
        assert isinstance(table, pl.DataFrame)
        assert table.columns[0] == "src_rate_1"

    def test_bad_parameters(self):
        for options, message in (
            ({"matches": ["any"]}, r"'matches' .* Got \['any'\]"),
            ({"matches": ["src", "src"]}, "each once"),
            ({"matches": []}, r"'matches' .* Got \[\]"),
            ({"scales": []}, r"'scales' .* Got \[\]"),
            ({"scales": [-1.0]}, "relative"),
            ({"target": "y"}, r"'target' .* Got 'y'"),
            ({"smoothing": 0}, r"'smoothing' .* Got 0"),
        ):
            with pytest.raises(ParameterError, match=message):
                PropagationFeatures(**options).fit(labelled())


class TestOwnFeatures:
    def edges(self, **options):
        rng = np.random.default_rng(5)
        amount = rng.lognormal(3, 1, 60)
        amount[7] = np.nan
        channel = np.array(["web", "shop", "phone"])[rng.integers(0, 3, 60)]
        return network(features={"amount": amount, "channel": channel}, **options)

    def test_mean_and_deviation_of_a_number(self):
        edges = self.edges()
        features = PropagationFeatures(["src", "dst-src"], scales=[1.0]).fit(edges)
        table = dict(zip(features.get_feature_names_out(), features.transform(edges).T, strict=True))
        amount = edges.features[:, 0]
        low, middle, high = np.nanquantile(amount, [0.25, 0.5, 0.75])
        scaled = (amount - middle) / (high - low)
        there = ~np.isnan(amount)
        H = line_graph(edges, edges, Laplace(edges.time.std()), "src", include_self=False)
        n = H[:, there].sum(axis=1) + 1  # and a pseudo-edge of median amount and variance 1
        mean = H[:, there] @ scaled[there] / n
        variance = (H[:, there] @ scaled[there] ** 2 + 1) / n - mean**2
        for name, expected in (
            ("mean", np.arcsinh(mean)),
            ("deviation", np.where(there, np.arcsinh(scaled - mean), 0)),
            ("score", np.where(there, (scaled - mean) / np.sqrt(variance), 0)),
            ("ratio", np.where(there, np.log(amount / (middle + (high - low) * mean)), 0)),
        ):
            np.testing.assert_allclose(table[f"src_{name}_amount_1"], expected, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(table["amount"], np.where(there, np.arcsinh(scaled), 0))
        H = line_graph(edges, edges, Laplace(edges.time.std()), "dst-src", include_self=False)
        sent = middle + (high - low) * (H[:, there] @ scaled[there]) / (H[:, there].sum(axis=1) + SMOOTHING_ACROSS)
        ratio = np.where(there, np.log(amount / np.maximum(sent, LEAST_AMOUNT * middle)), 0)
        np.testing.assert_allclose(table["dst-src_ratio_amount_1"], ratio, atol=1e-11)
        assert not any(name.startswith(("dst-src_mean", "dst-src_unusual", "dst-src_lately")) for name in table)

    def test_share_of_the_own_category(self):
        edges = self.edges()
        features = PropagationFeatures(["dst"], scales=[1.0]).fit(edges)
        table = dict(zip(features.get_feature_names_out(), features.transform(edges).T, strict=True))
        H = line_graph(edges, edges, Laplace(edges.time.std()), "dst", include_self=False)
        code = edges.features[:, 1]
        share = (H * (code[:, None] == code)).sum(axis=1) / (H.sum(axis=1) + 1)
        np.testing.assert_allclose(table["dst_share_channel_1"], share, atol=1e-12)
        np.testing.assert_array_equal(table["channel=web"], code == edges.feature_categories["channel"].index("web"))

    def test_new_edges_with_other_categories(self):
        features = PropagationFeatures(["src"], scales=[1.0]).fit(self.edges())
        columns = {"amount": [1.0, 2.0, 2.0], "channel": ["web", "pigeon", None]}
        new = TemporalEdges([1, 1, 1], [2, 2, 2], [9, 9, 9], features=columns)
        table = dict(zip(features.get_feature_names_out(), features.transform(new).T, strict=True))
        assert table["channel=web"].tolist() == [1, 0, 0]
        share = table["src_share_channel_1"]
        assert share[0] != share[1] == share[2] > 0, "a new category is as if missing, and no unusual one"

    def test_weight_is_a_feature(self):
        names = PropagationFeatures(["src"]).fit(network(weight=np.arange(60.0))).get_feature_names_out()
        assert "weight" in names
        assert "src_deviation_weight_1" in names
        assert "src_ratio_weight_1" in names

    def test_edges_without_the_features(self):
        with pytest.raises(EdgesError, match="lack 'amount', 'channel'"):
            PropagationFeatures().fit(self.edges()).transform(network(seed=9))


AMOUNT = np.where(np.arange(60) % 3, 1.0, 900.0) * np.arange(60)
CODE = [f"code {k % 25}" for k in range(60)]


class TestFeaturesOfKnownEdges:
    """An edge with the source, destination and time of a fitted one has features of its own."""

    @staticmethod
    def edges(amount, code=CODE):
        edges = labelled(n_times=10**6)
        return TemporalEdges(
            edges.src, edges.dst, edges.time, label=edges.label, features={"amount": amount, "code": code}
        )

    def test_number(self):
        features = PropagationFeatures().fit(self.edges(AMOUNT))
        names = features.get_feature_names_out().tolist()
        asked = self.edges(AMOUNT + 500)[7:8].with_label(None)
        compared = r"amount|.*_(deviation|score|ratio)_amount_.*|.*_unusual_amount"
        own = [k for k, name in enumerate(names) if re.fullmatch(compared, name)]
        fitted, changed = features.transform(self.edges(AMOUNT)[7:8]), features.transform(asked)
        assert (changed[:, own] > fitted[:, own]).all()
        rest = np.setdiff1d(np.arange(len(names)), own)
        np.testing.assert_allclose(changed[:, rest], fitted[:, rest], atol=1e-12)

    def test_category(self):
        features = PropagationFeatures().fit(self.edges(AMOUNT))
        names = features.get_feature_names_out().tolist()
        other = [*CODE[:7], CODE[8], *CODE[8:]]
        row = dict(zip(names, features.transform(self.edges(AMOUNT, other)[7:8])[0], strict=True))
        # as an edge of that category, which the fitted edge at the same place is not
        here = [k for k in range(60) if CODE[k] == CODE[8]]
        gap = np.sort(np.abs(features.edges_.time[here] - features.edges_.time[7]))[0]
        assert min(np.exp([row["category_code_before"], row["category_code_after"]])) == pytest.approx(
            1 + gap / features.edges_.time.std() / 1e-6
        )


class TestManyCategories:
    edges = staticmethod(lambda **more: TestFeaturesOfKnownEdges.edges(AMOUNT, **more))

    @pytest.mark.parametrize("past_only", [False, True])
    def test_rates_and_counts_over_the_edges_of_the_same_category(self, past_only):
        edges = self.edges()
        features = PropagationFeatures(past_only=past_only, scales=[0.3]).fit(edges)
        names = features.get_feature_names_out().tolist()
        columns = features.transform(edges)
        by_category = TemporalEdges(CODE, ["all"] * 60, edges.time, label=edges.label)
        expected = PropagationFeatures(["src"], past_only=past_only, scales=[0.3], two_ends="none").fit(by_category)
        of_src = expected.get_feature_names_out().tolist()
        kept = [k for k, name in enumerate(of_src) if not re.match("src_(recency|since)", name)]
        mine = [k for k, name in enumerate(names) if name.startswith("category_code_")]
        same = [names[k].removeprefix("category_code_") for k in mine]
        assert same == [of_src[k].removeprefix("src_") for k in kept]
        np.testing.assert_allclose(columns[:, mine], expected.transform(by_category)[:, kept], atol=1e-12)

    def test_few_categories_need_none(self):
        edges = self.edges(code=[code[-1] for code in CODE])
        assert not any(name.startswith("category") for name in PropagationFeatures().fit(edges).get_feature_names_out())

    def test_new_and_missing_categories(self):
        features = PropagationFeatures().fit(self.edges())
        other = self.edges(code=["code 3", "new", None, "new"] * 15)
        moved = TemporalEdges(other.src, other.dst, other.time + 1, features={"amount": AMOUNT, "code": ["new"] * 60})
        assert np.isfinite(features.transform(other)).all()
        assert np.isfinite(features.transform(moved)).all()

    def test_a_bootstrap_does_not_see_its_own_labels(self):
        edges = self.edges().with_label(np.arange(60) % 2)
        twice = edges[np.r_[0:40, 0:40]]
        features = PropagationFeatures(scales=[1.0]).fit(twice)
        at = features.get_feature_names_out().tolist().index("category_code_rate_1")
        once = PropagationFeatures(scales=[1.0]).fit(edges[:40])
        alone = [k for k in range(40) if CODE[:40].count(CODE[k]) == 1]
        assert alone
        np.testing.assert_array_equal(features.transform(twice)[alone, at], once.transform(edges[:40])[alone, at])

    def test_features_of_any_size_stay_finite(self):
        for amount in ([1e308, -1e308] * 30, [1.0, 2.0] * 29 + [1e308, -1e308]):
            features = PropagationFeatures().fit(TestFeaturesOfKnownEdges.edges(np.array(amount)))
            assert np.isfinite(features.transform(features.edges_)).all()


class TestLabelTimes:
    @staticmethod
    def rates_by_hand(edges, known_at, rows, width):
        """Number of labels that a source has known before a time, and the sum of the labels minus the prior, by loops."""
        prior = edges.label[edges.labelled].mean()
        found = []
        for src, time in rows:
            known = total = 0.0
            for j in np.flatnonzero(edges.labelled):
                if edges.src[j] == src and known_at[j] < time:
                    known += math.exp((known_at[j] - time) / width)
                    total += math.exp((known_at[j] - time) / width) * (edges.label[j] - prior)
            found.append([total / (known + 1), np.log1p(known / COUNT_UNIT)])
        return np.array(found)

    @pytest.mark.parametrize("delay", [0, 3, 100])
    def test_labels_count_from_when_they_became_known(self, delay):
        edges = labelled()
        new = TemporalEdges([0, 1], [1, 9], [20.5, 30.0])
        features = PropagationFeatures(["src"], scales=[0.5], past_only=True, two_ends="none")
        width = 0.5 * edges.ticks[edges.labelled].std()
        for given in ({"label_delay": delay}, {"label_time": edges.time + delay}):
            features.fit(edges, **given)
            for some in (edges, new):
                rows = zip(some.src, some.time, strict=True)
                expected = self.rates_by_hand(edges, edges.time + delay, rows, width)
                np.testing.assert_allclose(features.transform(some)[:, :2], expected, atol=1e-8)

    def test_edges_on_a_finer_clock(self):
        edges = labelled()
        days = np.datetime64("2024-01-01", "s") + edges.time * np.timedelta64(1, "D")
        edges = TemporalEdges(edges.src, edges.dst, days, label=edges.label)
        features = PropagationFeatures(past_only=True).fit(edges, label_delay="3d")
        coarse, fine = TemporalEdges([1], [2], days[-1:]), TemporalEdges([1], [2], days[-1:].astype("datetime64[ms]"))
        np.testing.assert_allclose(features.transform(coarse), features.transform(fine), atol=1e-9)

    def test_saved_and_loaded(self, tmp_path):
        edges = labelled()
        features = PropagationFeatures(past_only=True).fit(edges, label_delay=3)
        features.save(tmp_path / "features.tdlg")
        np.testing.assert_array_equal(
            load_model(tmp_path / "features.tdlg").transform(edges), features.transform(edges)
        )

    @pytest.mark.parametrize("given", [{"label_time": np.arange(60)}, {"label_delay": 3}])
    def test_only_with_the_past(self, given):
        with pytest.raises(ParameterError, match=r"The 'label_\w+' says when .* Use past_only=True, or leave it out\."):
            PropagationFeatures().fit(labelled(), **given)


class TestScaleNames:
    def test_datetimes_have_durations(self):
        edges = labelled()
        days = np.datetime64("2024-01-01", "s") + edges.time * np.timedelta64(1, "D")
        dated = TemporalEdges(edges.src, edges.dst, days, label=edges.label)
        features = PropagationFeatures().fit(dated)
        assert features.scale_names_[:2] == ["7.3d", "1.8d"]
        assert {"src_rate_7.3d", "dst_partners_7.3d", "dst_partners_5.3h"} <= set(features.get_feature_names_out())
        assert PropagationFeatures(scales=["7d", 0.1]).fit(dated).scale_names_ == ["7d", "0.1"]
        assert PropagationFeatures().fit(edges).scale_names_[:2] == ["1", "0.25"]

    def test_names_are_unique(self):
        """Standard deviations of a nanosecond."""
        edges = labelled()
        dated = TemporalEdges(edges.src, edges.dst, (edges.time % 2).astype("datetime64[ns]"), label=edges.label)
        names = PropagationFeatures().fit(dated).get_feature_names_out()
        assert len(set(names)) == len(names)
        assert "src_rate_0.25" in names


class TestNoLeak:
    def test_the_prior_is_the_share(self):
        edges = network().with_label(np.arange(60) < 6)
        assert PropagationFeatures().fit(edges).prior_[0] == pytest.approx(0.1)

    @pytest.mark.parametrize("n_ones", [5, 30, 34, 41])
    def test_the_own_label_is_seen_only_in_the_prior_of_all(self, n_ones):
        edges = network().with_label(np.random.default_rng(3).permutation(np.arange(60) < n_ones).astype(int))
        features = PropagationFeatures().fit(edges)
        for i in range(0, 60, 7):
            flipped = edges.label.copy()
            flipped[i] = 1 - flipped[i]
            other = PropagationFeatures().fit(edges.with_label(flipped))
            before, after = (f.transform(edges[i : i + 1]) for f in (features, other))
            assert np.abs(before - after).max() <= 2 / 60  # of columns about both ends; of others at most 1 / 60
            other.plan_ = replace(other.plan_, prior=features.plan_.prior)
            np.testing.assert_array_equal(other.transform(edges[i : i + 1]), before)

    def test_labels_of_edges_asked_for_do_not_matter(self):
        edges = labelled()
        features = PropagationFeatures().fit(edges)
        other = edges.with_label(np.where(edges.labelled, edges.label, 1.0))
        np.testing.assert_array_equal(features.transform(edges), features.transform(other))

    @pytest.mark.parametrize("more", [{}, {"weight": AMOUNT}, {"features": {"amount": AMOUNT, "code": CODE}}])
    def test_the_future_does_not_change_the_past(self, more):
        edges = labelled()
        edges = TemporalEdges(edges.src, edges.dst, edges.time, label=edges.label, **more)
        edges = edges.with_label(np.where(edges.time < 12, edges.label, np.nan))
        early = edges[edges.time < 12]
        whole = PropagationFeatures(past_only=True).fit(edges)
        part = PropagationFeatures(past_only=True).fit(early)
        one, two = part.transform(early), whole.transform(early)
        is_exact = [re.search("partners|trust|agreement", name) is None for name in part.get_feature_names_out()]
        np.testing.assert_array_equal(one[:, is_exact], two[:, is_exact])
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-12)  # sums over partners in another order

    def test_a_fitted_edge_is_known_however_it_is_passed(self):
        edges = labelled(n_times=10**6)
        features = PropagationFeatures().fit(edges)
        expected = features.transform(edges)
        again = TemporalEdges(edges.src, edges.dst, edges.time)
        np.testing.assert_allclose(features.transform(again), expected, atol=1e-12)
        np.testing.assert_allclose(features.transform(again[::-1]), expected[::-1], atol=1e-12)
        as_table = np.column_stack([edges.src, edges.dst, edges.time])
        np.testing.assert_allclose(PropagationFeatures().fit(as_table, edges.label).transform(as_table), expected)

    def test_copies_too_many_are_the_same_edge(self):
        edges = labelled(n_times=10**6, share=1.0)
        features = PropagationFeatures().fit(edges)
        twice = np.column_stack([np.tile(column, 2) for column in (edges.src, edges.dst, edges.time)])
        rows = features.transform(TemporalEdges(*twice.T))
        np.testing.assert_allclose(rows[60:], rows[:60], atol=1e-12)

    def test_a_bootstrap_does_not_see_its_own_labels_beside_new_edges(self):
        edges = labelled(n_times=10**6, share=1.0)
        some = edges[np.r_[0:40, 0:20]]
        features = PropagationFeatures().fit(some)
        pair = features.get_feature_names_out().tolist().index("pair_rate_1")
        alone, beside = features.transform(edges[:40]), features.transform(edges)[:40]
        np.testing.assert_allclose(beside[:, pair], alone[:, pair], atol=1e-9)

    def test_new_edges_see_each_other_but_not_their_labels(self):
        edges = labelled()
        features = PropagationFeatures().fit(edges)
        new = TemporalEdges([1, 1], [2, 2], [30, 31], label=[1, 0])
        alone, together = features.transform(new[:1]), features.transform(new)[:1]
        names = features.get_feature_names_out().tolist()
        assert together[0, names.index("pair_count_1")] > alone[0, names.index("pair_count_1")]
        rates = [k for k, name in enumerate(names) if "_rate_" in name]
        np.testing.assert_array_equal(together[:, rates], alone[:, rates])

    def test_a_slice_of_the_same_table_is_new_where_it_was_not_fitted(self):
        edges = labelled()
        features = PropagationFeatures().fit(edges[:40])
        fresh = TemporalEdges(edges.src[40:], edges.dst[40:], edges.time[40:] + 0)
        both = features.transform(edges[40:])
        assert len(both) == 20
        in_first = {(s, d, t) for s, d, t in zip(edges.src[:40], edges.dst[:40], edges.time[:40], strict=True)}
        if not any((s, d, t) in in_first for s, d, t in zip(fresh.src, fresh.dst, fresh.time, strict=True)):
            np.testing.assert_allclose(features.transform(fresh), both, atol=1e-12)
