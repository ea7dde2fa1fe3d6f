"""StreamScorer: the columns of a stream are those of the whole table, in whatever pieces and order the records come."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from tdlg import EdgeOutlierDetector, PropagationClassifier, PropagationRegressor, TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, TdlgError
from tdlg.live.scorer import StreamScorer, UnknownEventError

TREES = HistGradientBoostingClassifier(max_iter=5, early_stopping=False)
N_FITTED = 150


def network(
    *, n=300, seed=0, bipartite=False, n_classes=2, features=False, late=False, dates=False, fractions=False
) -> TemporalEdges:
    """Random edges with many ties, repeated pairs, self-loops, missing labels and new nodes at the end."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 9, n), rng.integers(0, 11, n)
    src[n // 2 :: 7] += 20
    time = np.sort(rng.integers(0, n // 2, n))
    if fractions:
        time = time * 0.37 - 20
    label = rng.integers(0, n_classes, n).astype(float)
    label[rng.random(n) < 0.1] = np.nan
    columns = None
    if features:
        columns = {
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(size=n)),
            "balance": rng.normal(size=n),
            "kind": rng.choice(list("abc"), n),
            "code": [f"c{k}" for k in rng.integers(0, 25, n)],
        }
    delay = rng.integers(0, 40, n)
    if dates:
        start, unit = np.datetime64("2025-01-01T00:00:00", "s"), np.timedelta64(3600, "s")
        time, delay = start + time * unit, delay * unit
    label_time = time + delay if late else None
    return TemporalEdges(src, dst, time, label=label, label_time=label_time, features=columns, bipartite=bipartite)


def fitted(edges: TemporalEdges, **settings) -> PropagationClassifier:
    return PropagationClassifier(TREES, setting="stream", random_state=0, n_threads=1, **settings).fit(edges)


def in_chunks(scorer, edges, seed=0, longest=15):
    """All columns and values, of chunks of random size."""
    rng, found, at = np.random.default_rng(seed), [], 0
    while at < len(edges):
        size = int(rng.integers(1, longest))
        found.append(scorer.score_update(edges[at : at + size]))
        at += size
    return np.vstack([part.columns for part in found]), np.concatenate([part.values for part in found])


KINDS = [
    {},
    {"bipartite": True},
    {"late": True},
    {"features": True},
    {"n_classes": 3},
    {"dates": True, "late": True},
    {"fractions": True},
    {"bipartite": True, "features": True, "late": True, "n_classes": 3},
    {"features": True, "late": True, "dates": True},
]


class TestColumns:
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: ",".join(kind) or "plain")
    @pytest.mark.parametrize("seed", [0, 1])
    def test_are_those_of_the_batch_in_any_chunks(self, kind, seed):
        edges = network(**kind, seed=seed)
        model = fitted(edges[:N_FITTED], calendar=bool(kind.get("dates")))
        new = edges[N_FITTED:]
        expected = model.scored(new)
        columns, values = in_chunks(StreamScorer(model), new, seed)
        np.testing.assert_allclose(columns, expected.columns, rtol=0, atol=1e-10)
        np.testing.assert_allclose(values, expected.values, rtol=0, atol=1e-10)

    @pytest.mark.parametrize(
        "settings",
        [
            {"two_ends": False},
            {"matches": ["pair", "reversed"]},
            {"matches": ["src-dst"], "scales": [0.1]},
            {"smoothing": 3.0, "scales": [1.0, 0.001]},
        ],
        ids=str,
    )
    def test_follow_the_settings_of_the_model(self, settings):
        edges = network(features=True)
        model = fitted(edges[:N_FITTED], **settings)
        expected = model.scored(edges[N_FITTED:]).columns
        columns, _ = in_chunks(StreamScorer(model), edges[N_FITTED:])
        np.testing.assert_allclose(columns, expected, rtol=0, atol=1e-10)

    def test_of_equal_times(self):
        edges = TemporalEdges([1, 2] * 30, [3, 4, 5] * 20, np.zeros(60), label=[0, 1] * 30)
        model = fitted(edges)
        new = TemporalEdges([1, 2], [3, 3], [0.0, 0.0])
        np.testing.assert_allclose(StreamScorer(model).score(new), model.predict_proba(new), atol=1e-12)

    def test_of_whole_numbers_beyond_floats(self):
        edges = network()
        big = TemporalEdges(edges.src, edges.dst, edges.time + 2**60, label=edges.label)
        model = fitted(big[:N_FITTED])
        columns, _ = in_chunks(StreamScorer(model), big[N_FITTED:])
        np.testing.assert_allclose(columns, model.scored(big[N_FITTED:]).columns, rtol=0, atol=1e-10)

    def test_of_a_regressor(self):
        edges = network()
        label = np.where(np.isnan(edges.label), np.nan, edges.label + np.linspace(0, 1, len(edges)))
        edges = edges.with_label(label)
        trees = HistGradientBoostingRegressor(max_iter=5, early_stopping=False)
        model = PropagationRegressor(trees, setting="stream", n_threads=1).fit(edges[:N_FITTED])
        columns, values = in_chunks(StreamScorer(model), edges[N_FITTED:])
        expected = model.scored(edges[N_FITTED:])
        np.testing.assert_allclose(columns, expected.columns, rtol=0, atol=1e-10)
        np.testing.assert_allclose(values, expected.values)

    def test_of_rows_in_any_order_within_a_batch(self):
        edges = network(late=True)
        model = fitted(edges[:N_FITTED])
        order = np.random.default_rng(0).permutation(len(edges) - N_FITTED)
        new = edges[N_FITTED:]
        found = StreamScorer(model).score_update(new[order])
        expected = model.scored(new[order])
        np.testing.assert_allclose(found.columns, expected.columns, rtol=0, atol=1e-10)
        assert not found.late.any()

    def test_are_bounded_by_what_the_model_knows_of_ids(self):
        edges = network()
        model = fitted(edges[:N_FITTED])
        new = edges[N_FITTED : N_FITTED + 5]
        text = TemporalEdges([str(k) for k in new.src], [str(k) for k in new.dst], new.time)
        np.testing.assert_array_equal(StreamScorer(model).score(text), StreamScorer(model).score(new.with_label(None)))


class TestScore:
    def test_keeps_nothing(self):
        edges = network(features=True, late=True)
        model = fitted(edges[:N_FITTED])
        scorer, new = StreamScorer(model), edges[N_FITTED:]
        before = sums_of(scorer)
        first = scorer.score(new)
        np.testing.assert_array_equal(first, scorer.score(new))
        for name, array in sums_of(scorer).items():
            np.testing.assert_allclose(array, before[name], atol=1e-12, err_msg=name)
        np.testing.assert_allclose(scorer.score_update(new).values, model.predict_proba(new), atol=1e-10)

    def test_is_that_of_the_batch(self):
        edges = network()
        model = fitted(edges[:N_FITTED])
        new = edges[N_FITTED:].with_label(None)
        np.testing.assert_allclose(StreamScorer(model).score(new), model.predict_proba(new), atol=1e-10)


def sums_of(scorer) -> dict[str, np.ndarray]:
    """All decayed sums as of the clock, by key, with keys whose sums are 0 left out."""
    running = scorer._running
    running._absorb(running._waiting.take(running.clock))
    found = {}
    for name in ("_around", "_ends", "_pairs"):
        part = getattr(running, name)
        passed = (running.clock - part.time[: part.n]).astype(float)
        now = part.sums[: part.n] * np.exp(-part.rates[:, np.newaxis] * passed[:, np.newaxis, np.newaxis])
        order = np.argsort(part.keys[: part.n])
        some = order[np.abs(now[order]).max(axis=(1, 2), initial=0) > 0]
        found[name], found[f"{name} keys"], found[f"{name} last"] = now[some], part.keys[some], part.last[some]
    return found


class TestOrder:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**32), st.booleans(), st.booleans())
    def test_of_arrival_does_not_change_the_sums(self, seed, features, one_by_one):
        """Edges and labels in any order: the decayed sums at the end are the same."""
        rng = np.random.default_rng(seed)
        edges = network(n=200, seed=seed % 100, features=features)
        model = order_models(features)
        new = edges[N_FITTED:]
        labelled = np.flatnonzero(new.labelled)
        last = TemporalEdges([1], [2], [new.time.max() + 200], features=None if not features else some_features(1))
        states = []
        for order in (np.arange(len(new)), rng.permutation(len(new))):
            scorer = StreamScorer(model, horizon=1e9)
            for k in order if one_by_one else [order]:
                some = np.atleast_1d(k)
                scorer.update(new[some].with_label(None), ids=[int(i) for i in some])
            for k in labelled:
                scorer.label(int(k), new.label[k], time=float(new.time[k] + 3 + k % 50))
            scorer.update(last)
            states.append(sums_of(scorer))
        excesses = model.features_.plan_.excesses  # of late events they are those over what is usual when they come
        for state in states:
            state["_around"][:, :, excesses] = 0.0
        for name in ("_around", "_around keys", "_around last"):
            np.testing.assert_allclose(states[0][name], states[1][name], rtol=1e-10, atol=1e-10, err_msg=name)

    def test_of_labels_does_not_change_the_sums(self):
        edges = network(n=200)
        model, new = order_models(False), edges[N_FITTED:]
        labelled = np.flatnonzero(new.labelled)
        states = []
        for order in (labelled, np.random.default_rng(0).permutation(labelled)):
            scorer = StreamScorer(model, horizon=1e9)
            scorer.update(new.with_label(None), ids=range(len(new)))
            for k in order.tolist():
                scorer.label(k, new.label[k], time=float(new.time[k] + 5))
            scorer.update(TemporalEdges([1], [2], [new.time.max() + 99.0]))
            states.append(sums_of(scorer))
        for name, array in states[0].items():
            np.testing.assert_allclose(array, states[1][name], rtol=1e-10, atol=1e-10, err_msg=name)

    def test_a_late_edge_is_marked_and_scored_as_of_now(self):
        edges = network()
        scorer = StreamScorer(fitted(edges[:N_FITTED]))
        now = float(edges.time[N_FITTED]) + 30
        scorer.update(TemporalEdges([1], [2], [now]))
        late, punctual = (scorer.score(TemporalEdges([3], [4], [time])) for time in (now - 20, now))
        np.testing.assert_array_equal(late, punctual)
        found = scorer.score_update(TemporalEdges([3, 3], [4, 4], [now - 20, now + 1]))
        assert found.late.tolist() == [True, False]

    def test_labels_at_the_time_they_became_known_are_those_of_the_batch(self):
        """In-order arrival, labels by id: also the columns about both ends equal those of the batch."""
        edges = network(late=True)
        model = fitted(edges[:N_FITTED])
        new = edges[N_FITTED:]
        scorer, columns = StreamScorer(model, horizon=1e9), []
        waiting = sorted((int(new.label_time[k]), int(new.time[k]), int(k)) for k in np.flatnonzero(new.labelled))
        for k in range(len(new)):
            while waiting and waiting[0][0] < new.time[k]:
                known, _, event = waiting.pop(0)
                scorer.label(event, new.label[event], time=known)
            columns.append(scorer.score_update(new[k : k + 1].with_label(None), ids=[k]).columns)
        np.testing.assert_allclose(np.vstack(columns), model.scored(new).columns, rtol=0, atol=1e-10)


def some_features(n):
    return {"amount": np.ones(n), "balance": np.ones(n), "kind": ["a"] * n, "code": ["c1"] * n}


_MODELS: dict[bool, PropagationClassifier] = {}


def order_models(features: bool) -> PropagationClassifier:
    if features not in _MODELS:
        _MODELS[features] = fitted(network(n=200, features=features)[:N_FITTED])
    return _MODELS[features]


class TestLabels:
    def scorer(self):
        edges = network()
        scorer = StreamScorer(fitted(edges[:N_FITTED]))
        self.now = float(edges.time[N_FITTED])
        scorer.update(TemporalEdges([1], [2], [self.now]), ids=["e1"])
        return scorer

    def asked(self, scorer, later=5.0):
        return scorer._running.columns(*self.entered(scorer, later), keep=False)

    def entered(self, scorer, later):
        arrived = scorer.reader.arrived(TemporalEdges([1], [3], [self.now + later]))
        return scorer._running.enter(arrived), arrived.own

    def test_by_id_count_from_when_they_became_known(self):
        scorer = self.scorer()
        before = self.asked(scorer)
        scorer.label("e1", 1, time=self.now + 2)
        scorer.update(TemporalEdges([7], [8], [self.now + 3]))
        assert not np.array_equal(before, self.asked(scorer))

    def test_a_second_label_replaces_the_first(self):
        states = []
        for labels in ([1], [0, 1], [0, None, 1], [1, 1]):
            scorer = self.scorer()
            scorer.update(TemporalEdges([7], [8], [self.now + 3]))
            for label in labels:
                scorer.label("e1", label, time=self.now + 1)
            states.append(self.asked(scorer))
        for state in states[1:]:
            np.testing.assert_allclose(state, states[0], rtol=0, atol=1e-12)

    def test_taken_back_are_as_if_they_had_not_been(self):
        one, other = self.scorer(), self.scorer()
        for scorer in (one, other):
            scorer.update(TemporalEdges([7], [8], [self.now + 3]))
        one.label("e1", 1, time=self.now + 1)
        one.label("e1", None)
        np.testing.assert_allclose(self.asked(one), self.asked(other), rtol=0, atol=1e-12)
        one.label("e1", 1, time=self.now + 50)  # waits, and is taken back before it counts
        one.label("e1", None)
        np.testing.assert_allclose(self.asked(one, 60), self.asked(other, 60), rtol=0, atol=1e-12)

    def test_taken_back_are_those_of_the_event(self):
        """Two events of one pair whose labels became known together."""
        rings = []
        for labels in ({"e2": 0}, {"e1": 1, "e2": 0}):
            scorer = self.scorer()
            scorer.update(TemporalEdges([1, 7], [2, 8], [self.now, self.now + 3]), ids=["e2", "e3"])
            for id, label in labels.items():
                scorer.label(id, label, time=self.now + 1)
            if "e1" in labels:
                scorer.label("e1", None)
            kept = scorer._running._rings
            ring = kept.of_node[scorer.nodes.find(1, 0), 0]
            rings.append(kept.residual[ring, : kept.n_edges[ring]].copy())
        np.testing.assert_array_equal(*rings)

    def test_of_unknown_events_are_refused_by_name(self):
        with pytest.raises(UnknownEventError, match="'nobody'"):
            self.scorer().label("nobody", 1)

    def test_of_events_beyond_the_horizon_are_refused(self):
        edges = network()
        scorer = StreamScorer(fitted(edges[:N_FITTED]), horizon=10)
        now = float(edges.time[N_FITTED])
        scorer.update(TemporalEdges([1, 1], [2, 2], [now, now + 11]), ids=["old", "new"])
        with pytest.raises(UnknownEventError, match="'old'"):
            scorer.label("old", 1)
        scorer.label("new", 1)

    def test_that_were_not_fitted_are_refused(self):
        with pytest.raises(TdlgError, match="one of"):
            self.scorer().label("e1", "maybe")

    def test_of_fitted_edges_can_come_later(self):
        edges = network()
        model = fitted(edges[:N_FITTED])
        missing, last = int(np.flatnonzero(~edges[:N_FITTED].labelled)[0]), int(edges.time[N_FITTED - 1])
        scorer = StreamScorer(model, ids=range(N_FITTED), horizon=1e9)
        scorer.label(missing, 1, time=last)
        new = np.arange(N_FITTED, len(edges))
        label, label_time = np.full(1 + len(new), np.nan), np.full(1 + len(new), np.nan)
        label[0], label_time[0] = 1, last
        expected = model.scored(edges[np.append(missing, new)].with_label(label, label_time)).columns[1:]
        found = scorer.score_update(edges[new].with_label(None)).columns
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


class TestIds:
    def test_repeated_events_get_the_first_answer_and_count_once(self):
        edges = network()
        model = fitted(edges[:N_FITTED])
        new = edges[N_FITTED : N_FITTED + 30]
        once, twice = StreamScorer(model), StreamScorer(model)
        expected = once.score_update(new, ids=range(30))
        first = twice.score_update(new, ids=range(30))
        again = twice.score_update(new[::-1], ids=range(29, -1, -1))
        np.testing.assert_array_equal(first.values, expected.values)
        np.testing.assert_array_equal(again.values[::-1], expected.values)
        assert again.repeated.all()
        for name, array in sums_of(once).items():
            np.testing.assert_array_equal(sums_of(twice)[name], array)

    def test_repeated_within_a_batch(self):
        edges = network()
        scorer = StreamScorer(fitted(edges[:N_FITTED]))
        now = float(edges.time[N_FITTED])
        found = scorer.score_update(TemporalEdges([1, 1], [2, 2], [now, now]), ids=["a", "a"])
        assert found.repeated.tolist() == [False, True]
        np.testing.assert_array_equal(found.values[0], found.values[1])
        assert scorer.n_pending == 1


class TestMemory:
    def test_is_bounded_on_an_endless_stream_of_new_ids(self):
        edges = network()
        scorer = StreamScorer(fitted(edges[:N_FITTED], scales=[0.01, 0.1]), horizon=5)
        scorer_sizes, now = [], float(edges.time[N_FITTED])
        import tdlg.live.scorer as module

        module_every, module.FORGET_EVERY = module.FORGET_EVERY, 2_000
        try:
            for k in range(60):
                n = 200
                src = [f"s{k}-{i}" for i in range(n)]
                dst = [f"d{k}-{i}" for i in range(n)]
                time = now + k * 2_000 + np.arange(n)
                scorer.update(TemporalEdges(src, dst, time, label=[0, 1] * (n // 2)), ids=src)
                scorer_sizes.append((scorer.n_nodes, scorer._running.n_keys, scorer.n_pending, scorer.nbytes))
        finally:
            module.FORGET_EVERY = module_every
        nodes, keys, pending, n_bytes = np.array(scorer_sizes).T
        assert nodes[40:].max() < 4_000
        assert keys[40:].max() < 8_000
        assert pending[40:].max() < 4_000
        assert n_bytes[50:].max() <= n_bytes[20:50].max()

    def test_what_is_forgotten_is_not_noticed(self):
        edges = network(n=400)
        model = fitted(edges[:N_FITTED], scales=[0.02])
        forgets, keeps = StreamScorer(model), StreamScorer(model)
        middle = edges[N_FITTED:300]
        new = edges[300:]
        far = TemporalEdges(new.src, new.dst, new.time + 100_000, label=new.label)
        for scorer in (forgets, keeps):
            scorer.update(middle)
        forgets.update(far[:5])
        keeps.update(far[:5])
        before = forgets._running.n_keys
        forgets.forget()
        assert forgets._running.n_keys < before
        names = model.features_.get_feature_names_out()
        sums = [k for k, name in enumerate(names) if "agreement" not in name and "common" not in name]
        found, expected = (scorer.score_update(far[5:]).columns for scorer in (forgets, keeps))
        np.testing.assert_allclose(found[:, sums], expected[:, sums], rtol=0, atol=1e-9)

    def test_categories_are_forgotten_too(self):
        edges = network(features=True)
        model = fitted(edges[:N_FITTED], scales=[0.02])
        forgets, keeps = StreamScorer(model), StreamScorer(model)
        names = model.features_.get_feature_names_out()
        sums = [k for k, name in enumerate(names) if "agreement" not in name and "common" not in name]
        for k in range(4):
            start = float(edges.time[N_FITTED]) + k * 100_000
            codes = [*(f"new {k}-{i}" for i in range(50)), "c1", *(f"new {k}-{i}" for i in range(50))]
            given = [
                {
                    "src": i % 7,
                    "dst": i % 5,
                    "time": start + i,
                    "amount": 1.0,
                    "balance": 0.0,
                    "kind": "a",
                    "code": code,
                }
                for i, code in enumerate(codes)
            ]
            found, expected = (scorer.process(scorer.read(given)[0]) for scorer in (forgets, keeps))
            np.testing.assert_allclose(found.columns[:, sums], expected.columns[:, sums], rtol=0, atol=1e-9)
            forgets.forget()
            forgets = StreamScorer.restore(model, forgets.state())
        n_kept, n_all = (scorer.reader._categories["code"].n_codes for scorer in (forgets, keeps))
        assert n_kept < 150
        assert n_all > 200

    def test_forget_after(self):
        edges = network()
        scorer = StreamScorer(fitted(edges[:N_FITTED]), forget_after=10)
        now = float(edges.time[N_FITTED])
        scorer.update(TemporalEdges(["x"], ["y"], [now]))
        scorer.update(TemporalEdges(["p"], ["q"], [now + 11]))
        scorer.forget()
        assert scorer.nodes.find("x", 0) is None
        assert scorer.nodes.find("p", 0) is not None

    def test_a_label_of_what_is_forgotten_is_taken_back_without_a_trace(self):
        edges = network()
        model = fitted(edges[:N_FITTED])
        now = float(edges.time[N_FITTED])
        columns = []
        for is_labelled in (True, False):
            scorer = StreamScorer(model, forget_after=10)
            scorer.update(TemporalEdges(["x"], ["y"], [now]), ids=["e"])
            if is_labelled:
                scorer.label("e", 1)
            scorer.update(TemporalEdges(["p"], ["q"], [now + 11]))
            scorer.forget()
            if is_labelled:
                scorer.label("e", None)
            columns.append(scorer.score_update(TemporalEdges(["x"], ["y"], [now + 12])).columns)
        np.testing.assert_allclose(*columns, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("kind", [{}, {"features": True, "late": True, "bipartite": True}], ids=str)
    def test_state_goes_on_where_it_stopped(self, kind):
        edges = network(**kind)
        model = fitted(edges[:N_FITTED])
        first, rest = edges[N_FITTED:220], edges[220:]
        scorer = StreamScorer(model)
        scorer.update(first, ids=range(len(first)))
        again = StreamScorer.restore(model, {name: array.copy() for name, array in scorer.state().items()})
        for one in (scorer, again):
            one.label(3, 1.0)
        expected, found = (one.score_update(rest) for one in (scorer, again))
        np.testing.assert_array_equal(found.columns, expected.columns)
        assert again.n_pending == scorer.n_pending
        assert again.clock == scorer.clock


class TestBursts:
    @pytest.mark.parametrize("kind", [{}, {"bipartite": True}, {"dates": True}], ids=str)
    def test_are_those_of_the_batch(self, kind):
        edges = network(**kind)
        widths = {"fast": "5h", "slow": "3d"} if kind.get("dates") else {"fast": 5.0, "slow": 60.0}
        model = EdgeOutlierDetector("burst", **widths).fit(edges[:N_FITTED])
        new = edges[N_FITTED:]
        scorer, found = StreamScorer(model), []
        np.testing.assert_allclose(scorer.score(new), model.score_samples(new), atol=1e-10)
        found += [scorer.score_update(new[k : k + 7].with_label(None)).values for k in range(0, len(new), 7)]
        np.testing.assert_allclose(np.concatenate(found), model.score_samples(new), atol=1e-10)

    def test_use_no_labels(self):
        edges = network()
        scorer = StreamScorer(EdgeOutlierDetector("burst", fast=5, slow=60).fit(edges))
        scorer.update(TemporalEdges([1], [2], [1e4]), ids=["a"])
        with pytest.raises(TdlgError, match="labels"):
            scorer.label("a", 1)

    def test_labels_are_refused_in_words(self):
        scorer = StreamScorer(EdgeOutlierDetector("burst", fast=5.0, slow=60.0).fit(network()[:N_FITTED]))
        scorer.update(TemporalEdges([1], [2], [1000]), ids=["a"])
        for label in (1, None):
            with pytest.raises(EdgesError, match="no labels"):
                scorer.label("a", label)

    def test_state_goes_on_where_it_stopped(self):
        edges = network()
        model = EdgeOutlierDetector("burst", fast=5.0, slow=60.0).fit(edges[:N_FITTED])
        scorer = StreamScorer(model)
        scorer.update(edges[N_FITTED:200])
        again = StreamScorer.restore(model, scorer.state())
        np.testing.assert_array_equal(scorer.score(edges[200:]), again.score(edges[200:]))


class TestEvents:
    def scorer(self, **kind):
        edges = network(features=True, **kind)
        return StreamScorer(fitted(edges[:N_FITTED], calendar=bool(kind.get("dates")))), edges[N_FITTED:]

    @pytest.mark.parametrize("kind", [{}, {"dates": True, "late": True}, {"bipartite": True}], ids=str)
    def test_give_the_scores_of_tables(self, kind):
        scorer, new = self.scorer(**kind)
        events = [as_event(new, k) for k in range(len(new))]
        read, errors = scorer.read(events)
        assert not errors
        expected = StreamScorer(scorer.model).score_update(new)
        np.testing.assert_array_equal(scorer.process(read).columns, expected.columns)

    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("src", None, "missing"),
            ("src", [1], "text or a number"),
            ("dst", float("nan"), "missing"),
            ("time", None, "missing"),
            ("time", "yesterday", "number"),
            ("time", float("inf"), "finite"),
            ("time", 10**400, "finite"),
            ("amount", 10**400, "finite"),
            ("amount", "a lot", "number"),
            ("amount", float("inf"), "finite"),
            ("kind", {"a": 1}, "category"),
            ("kind", True, "category"),
            ("src", True, "text or a number"),
            ("src", "", "missing"),
            ("dst", " ", "missing"),
            ("src", "a\ud800", "surrogate"),
            ("id", "a\ud800", "surrogate"),
            ("id", True, "text or a number"),
            ("amount", "1_000", "number"),
            ("amount", "\u0663", "number"),
            ("amount", True, "number"),
            ("amount", 1e16, "between"),
            ("amount", "-1e300", "between"),
            ("label", "maybe", "one of"),
            ("label_time", "soon", "number"),
            ("id", ["x"], "id"),
        ],
    )
    def test_with_a_fault_are_reported_with_the_field_and_left_out(self, field, value, words):
        scorer, new = self.scorer()
        good = as_event(new, 0)
        read, errors = scorer.read([good, {**good, "label_time": 1e9, field: value}, good])
        assert [(error.position, error.field) for error in errors] == [(1, field)]
        assert words in errors[0].message
        assert read.positions == [0, 2]

    def test_with_numbers_as_text(self):
        scorer, new = self.scorer()
        good = as_event(new, 0)
        read, errors = scorer.read([{**good, "amount": amount} for amount in (12.5, "12.5", " +1.25e1 ", "12.50")])
        assert not errors
        assert (read.own == read.own[0]).all()

    def test_with_truth_values_where_they_were_fitted(self):
        edges = network()
        night = np.arange(len(edges)) % 3 == 0
        edges = TemporalEdges(edges.src, edges.dst, edges.time, label=edges.label, features={"night": night})
        scorer = StreamScorer(fitted(edges[:N_FITTED]))
        event = {"src": 1, "dst": 2, "time": 1000}
        read, errors = scorer.read([{**event, "night": night} for night in (True, False, 1, 0)])
        assert not errors
        np.testing.assert_array_equal(read.own[:2], read.own[2:])

    @pytest.mark.parametrize("offset", ["+99:00", "-24:00", "+2530"])
    def test_with_impossible_offsets_are_refused(self, offset):
        scorer, new = self.scorer(dates=True)
        event = as_event(new, 0)
        _, errors = scorer.read([{**event, "time": str(event["time"]) + offset}])
        assert [error.field for error in errors] == ["time"]
        assert not scorer.read([{**event, "time": str(event["time"]) + "+05:30"}])[1]

    def test_that_are_refused_or_only_scored_leave_nothing(self):
        scorer, new = self.scorer()
        before = scorer.n_nodes, scorer.nodes.n_codes, scorer.reader.categories()
        bad = [{**as_event(new, 0), "src": f"new {k}", "code": f"new {k}", "label": "none"} for k in range(500)]
        assert len(scorer.read(bad)[1]) == 500
        scorer.read([{**event, "label": None} for event in bad])
        features = {"amount": [1.0, 2.0], "balance": [0.0, 0.0], "kind": ["a", "b"], "code": ["new 1", "new 2"]}
        strangers = TemporalEdges(["x", "y"], ["y", "z"], [1000, 1001], features=features)
        first = scorer.score(strangers)
        assert (scorer.n_nodes, scorer.nodes.n_codes, scorer.reader.categories()) == before
        np.testing.assert_array_equal(scorer.score(strangers), first)
        np.testing.assert_allclose(scorer.score_update(strangers).values, first, rtol=0, atol=1e-12)
        assert scorer.n_nodes == before[0] + 3

    def test_that_are_repeated_leave_no_nodes(self):
        scorer, new = self.scorer()
        event = {**as_event(new, 0), "id": "a"}
        scorer.process(scorer.read([event])[0])
        n_nodes = scorer.n_nodes
        scorer.process(scorer.read([{**event, "src": "another"}, {**event, "dst": "other"}])[0])
        assert scorer.n_nodes == n_nodes

    def test_that_are_not_mappings_are_reported(self):
        scorer, _ = self.scorer()
        _, errors = scorer.read(["hello"])
        assert "object" in errors[0].message

    def test_with_missing_features_are_scored_if_null_or_allowed(self):
        scorer, new = self.scorer()
        lacks = ("amount", "kind", "code")
        event = {name: value for name, value in as_event(new, 0).items() if name not in lacks}
        read, errors = scorer.read([{**event, "Amount": 5}, event])
        assert not read.positions
        assert [error.field for error in errors] == ["amount", "amount"]
        for words in ("'amount', 'kind', 'code'", "'Amount'", "renamed", "null", "allow_missing"):
            assert words in errors[0].message
        assert "renamed" not in errors[1].message
        read, errors = scorer.read([{**event, **dict.fromkeys(lacks)}])
        assert not errors
        values = scorer.process(read).values
        assert np.isfinite(values).all()
        lenient = StreamScorer(scorer.model, allow_missing=True)
        read, errors = StreamScorer.restore(scorer.model, lenient.state()).read([event])
        assert not errors
        np.testing.assert_array_equal(lenient.process(read).values, values)

    def test_times_as_text_or_datetimes_are_the_same(self):
        scorer, new = self.scorer(dates=True)
        event = as_event(new, 0)
        same = [
            str(event["time"]),
            event["time"].item(),
            str(event["time"]) + "Z",
            str(event["time"]).replace("T", " "),
        ]
        read, errors = scorer.read([{**event, "time": time} for time in same])
        assert not errors
        assert len(set(read.ticks.tolist())) == 1


class TestFittedEdges:
    def test_do_not_count_again(self):
        """A table that begins with fitted edges at the border is as in batch."""
        edges = network(features=True)
        cut = int(np.flatnonzero(np.diff(edges.time[: N_FITTED + 20]) == 0)[-1]) + 1  # within a tie
        model = fitted(edges[:cut])
        tied = np.flatnonzero(edges.time == edges.time[cut])
        again = edges[tied[0] :].with_label(None)
        assert tied[0] < cut
        want = model.predict_proba(again)
        scorer = StreamScorer(model)
        np.testing.assert_allclose(scorer.score(again), want, rtol=0, atol=1e-12)
        found = scorer.score_update(again)
        np.testing.assert_allclose(found.values, want, rtol=0, atol=1e-12)
        assert found.repeated.tolist() == (np.arange(tied[0], len(edges)) < cut).tolist()
        restored = StreamScorer.restore(model, StreamScorer(model).state())
        np.testing.assert_allclose(restored.score_update(again).values, want, rtol=0, atol=1e-12)

    def test_with_ids_are_known_by_these(self):
        edges = network()[:N_FITTED]
        scorer = StreamScorer(fitted(edges), ids=[f"e{k}" for k in range(N_FITTED)])
        last = edges[N_FITTED - 1 :].with_label(None)
        assert not scorer.score_update(last, ids=["another"]).repeated[0]
        assert scorer.score_update(last).repeated[0]


class TestCategories:
    """A category is one category in every form in which a program sends it, however rare it is."""

    N, N_FITTED = 360, 260

    def table(self):
        rng = np.random.default_rng(3)
        src, dst = rng.integers(0, 9, self.N), rng.integers(0, 11, self.N)
        shops = 5000 + np.minimum(rng.integers(0, 40, self.N), rng.integers(0, 40, self.N))
        label = (shops % 3 == 0).astype(float)
        return src, dst, np.arange(self.N), shops, label

    def edges(self, form=str):
        src, dst, time, shops, label = self.table()
        features = {"mcc": [form(k) for k in shops.tolist()]}
        return TemporalEdges(src, dst, time, label=label, features=features, bipartite=True)

    def fitted(self):
        edges = self.edges()[: self.N_FITTED]
        model = fitted(edges)
        assert len(edges.feature_categories["mcc"]) > 16, "some have no indicator"
        return model

    @pytest.mark.parametrize("form", [str, int, float, np.int64, lambda k: f"{k}".encode()])
    def test_in_every_form_are_those_of_the_batch(self, form):
        model = self.fitted()
        want = model.predict_proba(self.edges()[self.N_FITTED :].with_label(None))
        src, dst, time, shops, _ = self.table()
        events = [
            {"src": int(src[k]), "dst": int(dst[k]), "time": int(time[k]), "mcc": form(int(shops[k]))}
            for k in range(self.N_FITTED, self.N)
        ]
        scorer = StreamScorer(model)
        read, errors = scorer.read(events)
        assert not errors
        np.testing.assert_allclose(scorer.process(read).values, want, rtol=0, atol=1e-12)
        assert scorer.n_unseen == 0
        again = StreamScorer.restore(model, scorer.state())
        np.testing.assert_array_equal(again.score(self.edges()[-5:]), scorer.score(self.edges()[-5:]))

    @pytest.mark.parametrize("form", [int, float])
    def test_as_numbers_of_a_table_are_those_that_were_text(self, form):
        model = self.fitted()
        want = model.predict_proba(self.edges()[self.N_FITTED :].with_label(None))
        new = self.edges(form)[self.N_FITTED :].with_label(None)
        np.testing.assert_array_equal(model.predict_proba(new), want)
        np.testing.assert_allclose(StreamScorer(model).score_update(new).values, want, rtol=0, atol=1e-12)
        model.update(new)
        assert set(model.edges_.feature_categories["mcc"]) <= set(self.edges().feature_categories["mcc"])

    @pytest.mark.parametrize("n_kinds", [3, 25])
    def test_that_no_fitted_edge_has_are_as_if_missing(self, n_kinds):
        """In batch and stream, so that a new word is no risk of its own."""
        rng = np.random.default_rng(0)
        n = 300
        src, dst, kind = rng.integers(0, 9, n), rng.integers(0, 11, n), rng.integers(0, n_kinds, n)
        label = (rng.random(n) < 0.2).astype(float)

        def edges(kinds, rows):
            return TemporalEdges(src[rows], dst[rows], np.arange(n)[rows], features={"kind": kinds}, bipartite=True)

        words, fit, rest = np.array([f"k{k}" for k in kind], object), slice(0, 200), slice(200, n)
        model = fitted(edges(words[fit], fit).with_label(label[fit]))
        new, missing = words[rest].copy(), words[rest].copy()
        new[50], missing[50] = "never seen", None
        want, found = (model.features_.transform(edges(kinds, rest)) for kinds in (missing, new))
        np.testing.assert_array_equal(found[50], want[50])
        scorer = StreamScorer(model)
        events = [
            {"src": int(src[k]), "dst": int(dst[k]), "time": k, "kind": word}
            for k, word in zip(range(200, n), new.tolist(), strict=True)
        ]
        columns = scorer.process(scorer.read(events)[0]).columns
        np.testing.assert_allclose(columns, found, rtol=0, atol=1e-12)
        assert scorer.n_unseen == 1
        assert StreamScorer.restore(model, scorer.state()).n_unseen == 1

    def test_the_share_of_a_new_category_is_a_typical_one(self):
        n = 240
        kinds = np.array(["a", "b", "a", "c"] * 60, object)
        label = (kinds == "c").astype(float)
        past = TemporalEdges(["x"] * n, ["y"] * n, np.arange(n), label=label, features={"kind": kinds})
        model = fitted(past)
        names = model.features_.get_feature_names_out().tolist()
        shares = [k for k, name in enumerate(names) if name.startswith("src:share")]
        rows = {}
        for kind in ("a", "b", "c", "new", None):
            edge = TemporalEdges(["x"], ["y"], [n], features={"kind": np.array([kind], object)})
            rows[kind] = model.features_.transform(edge)[0, shares]
        typical = sum(rows[kind] ** 2 for kind in "abc")
        np.testing.assert_allclose(rows["new"], typical, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(rows["new"], rows[None])

    def test_that_start_with_zeros_are_others(self):
        model = self.fitted()
        scorer = StreamScorer(model)
        event = {"src": 1, "dst": 2, "time": 1000, "mcc": "05001"}
        scorer.process(scorer.read([event])[0])
        assert scorer.n_unseen == 1

    @pytest.mark.parametrize("value", [True, False])
    def test_true_is_none(self, value):
        _, errors = StreamScorer(self.fitted()).read([{"src": 1, "dst": 2, "time": 1000, "mcc": value}])
        assert errors[0].field == "mcc"


def as_event(edges, k):
    event = {"src": edges.src[k].item(), "dst": edges.dst[k].item(), "time": edges.time[k]}
    if edges.time_unit is None:
        event["time"] = event["time"].item()
    for name, value in zip(edges.feature_names, edges.features[k].tolist(), strict=True):
        categories = edges.feature_categories.get(name)
        event[name] = value if categories is None else categories[int(value)]
    event["label"] = edges.label[k].item()
    if edges.label_time is not None:
        event["label_time"] = edges.label_time[k]
    return event


class TestRefused:
    def test_models_of_another_setting(self):
        edges = network()
        model = PropagationClassifier(TREES, setting="forecast", n_threads=1).fit(edges)
        with pytest.raises(ParameterError, match="'stream'"):
            StreamScorer(model)

    def test_other_models(self):
        with pytest.raises(ParameterError, match="EdgeOutlierDetector"):
            StreamScorer(EdgeOutlierDetector("shuffled", cv=2, random_state=0).fit(network(n=60)))

    def test_edges_of_another_kind(self):
        scorer = StreamScorer(fitted(network()[:N_FITTED]))
        with pytest.raises(EdgesError, match="bipartite"):
            scorer.score(TemporalEdges([1], [2], [3], bipartite=True))
        with pytest.raises(EdgesError, match="numbers"):
            scorer.score(TemporalEdges([1], [2], ["2025-01-01"]))

    def test_labels_that_were_not_fitted(self):
        scorer = StreamScorer(fitted(network()[:N_FITTED]))
        with pytest.raises(EdgesError, match="not one of the fitted labels"):
            scorer.update(TemporalEdges([1], [2], [1e3]), [7])

    @pytest.mark.parametrize(("name", "value"), [("horizon", "7d"), ("horizon", -1), ("forget_after", "x")])
    def test_durations_in_the_wrong_form(self, name, value):
        with pytest.raises(ParameterError, match=name):
            StreamScorer(fitted(network()[:N_FITTED]), **{name: value})
