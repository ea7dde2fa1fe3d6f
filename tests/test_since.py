"""Time since the last known label of the rarest class, and edges since then: plain loops, streams, withdrawal, words."""

import numpy as np
import pytest

from tdlg import PropagationClassifier, PropagationFeatures, PropagationRegressor, StreamScorer, TemporalEdges
from tdlg._kernels import GAP_UNIT, NO_GAP

ENDS = {"src": ("src",), "dst": ("dst",), "pair": ("src", "dst")}
N = 240
START = 50.0  # of a stream


def network(seed=0, words=False, n=N, late=True):
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(80, size=n))  # several at one time
    label = rng.choice([0.0, 1.0, 2.0], size=n, p=[0.6, 0.3, 0.1]) if words else (rng.random(n) < 0.2).astype(float)
    label[rng.random(n) < 0.2] = np.nan
    delay = rng.integers(0, 30, size=n) if late else None
    return TemporalEdges(
        [f"p{k}" for k in rng.integers(9, size=n)],
        [f"s{k}" for k in rng.integers(5, size=n)],
        time,
        label=label,
        label_time=None if delay is None else time + delay,
    )


def oracle(edges, match, rarest, spread, before=np.inf):
    """The two columns of a match, by their definition."""
    ends, known = [getattr(edges, end) for end in ENDS[match]], edges.known_at
    since, count = np.full(len(edges), NO_GAP), np.zeros(len(edges))
    for i in range(len(edges)):
        same = [k for k in range(len(edges)) if edges.time[k] < edges.time[i] and all(e[k] == e[i] for e in ends)]
        rare = [k for k in same if edges.label[k] == rarest and known[k] < min(edges.time[i], before)]
        rare = [k for k in rare if known[k] < edges.time[i]]
        if rare:
            last = max(edges.time[k] for k in rare)
            since[i] = min((edges.time[i] - last) / spread, NO_GAP)
            count[i] = 1 + np.log1p(sum(edges.time[k] >= last for k in same) - 1)
    return np.log1p(NO_GAP / GAP_UNIT) - np.log1p(since / GAP_UNIT), count


def columns(features, edges):
    return dict(zip(features.get_feature_names_out().tolist(), features.transform(edges).T, strict=True))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("words", [False, True])
def test_definition(words, late):
    edges = network(words=words, late=late)
    features = PropagationFeatures(past_only=True).fit(edges)
    table, rarest = columns(features, edges), 2.0 if words else 1.0
    of = "_2.0" if words else ""
    for match in ENDS:
        since, count = oracle(edges, match, rarest, edges.time[edges.labelled].std())
        np.testing.assert_allclose(table[f"{match}_recency{of}"], since, atol=1e-10)
        np.testing.assert_allclose(table[f"{match}_since{of}"], count, atol=1e-10)
        assert (count > 1).any()
        assert (count == 0).any()


def test_the_rarest_class_counts_where_it_is_the_smaller_number():
    edges = network(late=False)
    other = edges.with_label(1.0 - edges.label)
    mine, theirs = (columns(PropagationFeatures(past_only=True).fit(e), e) for e in (edges, other))
    np.testing.assert_array_equal(theirs["src_recency"], mine["src_recency"])


def test_forecasts_know_the_labels_of_their_cut():
    from tdlg.propagate.features import gather_evidence, table_columns

    edges = network(late=False)
    features = PropagationFeatures(past_only=True, two_ends="none").fit(edges)
    rows, names = np.arange(N // 2, N), features.get_feature_names_out().tolist()
    cut = edges.time[N // 2]
    found = table_columns(features.plan_, gather_evidence(features, edges), [(rows, cut)])
    for match in ENDS:
        _, count = oracle(edges, match, 1.0, 1.0, before=cut)
        np.testing.assert_allclose(found[:, names.index(f"{match}_since")], count[rows], atol=1e-10)


def test_there_are_none_without_classes_or_where_the_future_counts():
    edges = network(late=False)
    numbers = edges.with_label(np.random.default_rng(0).normal(size=N))
    for features in (PropagationFeatures().fit(edges), PropagationFeatures(past_only=True).fit(numbers)):
        assert not [name for name in features.get_feature_names_out() if "since" in name]
    assert not [c for c in PropagationRegressor().fit(numbers).features_.plan_.columns if c.about == "since"]


def test_absurd_times_count_as_none():
    """A label so long ago that nothing else is left of it, as in a stream that has forgotten it."""
    edges = TemporalEdges(["a"] * 4, ["x"] * 4, [0.0, 1.0, 2.0, 3.0], label=[0, 1, 0, 0])
    features = PropagationFeatures(past_only=True).fit(edges)
    found = columns(features, TemporalEdges(["a"], ["x"], [1e6]))
    assert found["src_since"] == 0


def streamed(model, edges, labels_of):
    """The columns of edges as they come one by one; labels_of : what happens to labels before the edge with a number."""
    scorer, found = StreamScorer(model), []
    for k in range(len(edges)):
        for event, label, known in labels_of.get(k, ()):
            scorer.label(event, label, time=known)
        found.append(scorer.score_update(edges[k : k + 1].with_label(None), ids=[k]).columns)
    return np.vstack(found)


def test_labels_taken_back_in_a_stream():
    edges = network(late=False)
    model = PropagationClassifier(setting="stream", random_state=0).fit(edges[edges.time < START])
    new = TemporalEdges(["p1"] * 6, ["s1"] * 6, START + np.arange(6.0))
    names = model.features_.get_feature_names_out().tolist()
    count = names.index("src_since")
    kept = streamed(model, new, {1: [(0, 1, START + 0)], 3: [(2, 1, START + 2)]})
    back = streamed(model, new, {1: [(0, 1, START + 0)], 3: [(2, 1, START + 2)], 4: [(2, None, None)]})
    never = streamed(model, new, {1: [(0, 1, START + 0)]})
    corrected = streamed(model, new, {1: [(0, 1, START + 0)], 3: [(2, 1, START + 2)], 4: [(2, 0, START + 2)]})
    assert np.expm1(kept[:, count] - 1).round(6)[2:].tolist() == [1, 0, 1, 2]
    assert np.expm1(back[:, count] - 1).round(6)[2:].tolist() == [1, 0, 3, 4]
    np.testing.assert_allclose(back[5], never[5], atol=1e-10)
    np.testing.assert_array_equal(corrected[4:, count], never[4:, count])
    expected = model.scored(new.with_label([1, np.nan, 0, np.nan, np.nan, np.nan])).columns
    np.testing.assert_allclose(corrected[5], expected[5], atol=1e-10)


def test_labels_that_come_late_in_a_stream():
    """What a label is told after its time: the edges since are those of the table."""
    edges = network(late=False)
    model = PropagationClassifier(setting="stream", random_state=0).fit(edges[edges.time < START])
    new = TemporalEdges(["p1"] * 6, ["s1"] * 6, START + np.arange(6.0))
    found = streamed(model, new, {4: [(3, 1, START + 3)], 5: [(0, 1, START + 0.5)]})
    expected = model.scored(
        new.with_label([1, np.nan, np.nan, 1, np.nan, np.nan], [START + 0.5, None, None, START + 3, None, None])
    )
    np.testing.assert_allclose(found[5], expected.columns[5], atol=1e-10)


def test_reasons_say_when_it_was_and_what_came_after():
    rng = np.random.default_rng(0)
    n = 3000
    card, time = rng.integers(30, size=n), np.arange(n)
    label = np.zeros(n, int)
    left = np.zeros(30, int)
    for k in range(n):  # a card whose fraud is known is replaced: nothing happens to it for 40 payments
        if left[card[k]] == 0 and rng.random() < 0.3:
            label[k], left[card[k]] = 1, 40
        left[card[k]] = max(left[card[k]] - 1, 0)
    edges = TemporalEdges(
        [f"card {k}" for k in card], [f"shop {k}" for k in rng.integers(20, size=n)], time, label=label
    )
    model = PropagationClassifier(setting="stream", random_state=0).fit(edges[:2500])
    model.label_name_ = "is_fraud"
    found = model.explain(edges[2500:], top=2)
    said = found.filter(found["what"] == "src since")
    assert len(said) > 50
    k = said["edge"][0] + 2500
    same = np.flatnonzero((card == card[k]) & (np.arange(n) < k))
    last = same[label[same] == 1].max()
    assert f"from 'card {card[k]}' that had is_fraud = 1 was {k - last:,} time units before, and" in said["reason"][0]
    assert f" and {(same > last).sum()} interactions came after it" in said["reason"][0]
    assert last in said["neighbours"][0]
    del model.label_name_
    new = TemporalEdges(["card 99"] * 3, ["shop 1"] * 3, [2500, 2501, 2502], label=[0, 0, None])
    text = model.explain(new, top=40, rows=[2])
    assert "so far no labelled interaction from 'card 99' had label 1" in text["reason"].to_list()
