"""How unusual numbers are for a node, and how unusual they were lately: plain loops, and what must not leak."""

import numpy as np
import pytest

from tdlg import PropagationClassifier, PropagationFeatures, TemporalEdges

SCALE = 0.5
ENDS = {"src": ("src",), "dst": ("dst",), "pair": ("src", "dst")}


def payments(n=200, seed=0, **more):
    rng = np.random.default_rng(seed)
    amount = rng.lognormal(size=n) * np.where(rng.random(n) < 0.1, 20.0, 1.0)
    amount[rng.random(n) < 0.1] = np.nan
    columns = {
        "src": [f"p{k}" for k in rng.integers(8, size=n)],
        "dst": [f"s{k}" for k in rng.integers(5, size=n)],
        "time": rng.integers(60, size=n),  # several at one time
        "features": {"amount": amount, "change": rng.normal(size=n)},
        "label": rng.integers(2, size=n),
    }
    return TemporalEdges(**{**columns, **more})


def level(edges, name, k):
    """How high a number is: the log of an amount over the median, the arsinh of a number that can be below 0."""
    values = edges.features[:, edges.feature_names.index(name)]
    known = values[np.isfinite(values)]
    low, centre, high = np.quantile(known, [0.25, 0.5, 0.75])
    if known.min() >= 0:
        return np.log(values[k] / centre)
    return np.arcsinh((values[k] - centre) / (high - low))


def oracle(edges, match, name, past_only, spread):
    """The columns "unusual" and "lately" of one match, by their definition."""
    ends, n = [getattr(edges, end) for end in ENDS[match]], len(edges)
    same = [[k for k in range(n) if k != i and all(end[k] == end[i] for end in ends)] for i in range(n)]
    levels = [level(edges, name, k) for k in range(n)]
    above = np.zeros(n)
    for i in range(n):
        past = [levels[k] for k in same[i] if edges.time[k] < edges.time[i] and np.isfinite(levels[k])]
        above[i] = levels[i] - sum(past) / (len(past) + 1) if np.isfinite(levels[i]) else 0.0
    lately = np.zeros(n)
    for i in range(n):
        total = known = 0.0
        for k in same[i]:
            if np.isfinite(levels[k]) and (edges.time[k] < edges.time[i] or not past_only):
                decay = np.exp(-abs(edges.time[k] - edges.time[i]) / (SCALE * spread))
                total, known = total + decay * max(above[k] - 1, 0), known + decay
        lately[i] = total / (known + 1)
    return above, lately


@pytest.mark.parametrize("past_only", [True, False])
@pytest.mark.parametrize("name", ["amount", "change"])
def test_definition(past_only, name):
    edges = payments()
    features = PropagationFeatures(scales=[SCALE], past_only=past_only, two_ends="none").fit(edges)
    table = dict(zip(features.get_feature_names_out(), features.transform(edges).T, strict=True))
    for match in ENDS:
        above, lately = oracle(edges, match, name, past_only, edges.time.std())
        np.testing.assert_allclose(table[f"{match}_unusual_{name}"], above, atol=1e-10)
        np.testing.assert_allclose(table[f"{match}_lately_{name}_0.5"], lately, atol=1e-10)
        assert (lately > 0).any()


def test_copies_of_an_edge_count_each():
    edges = payments(60)
    twice = np.append(np.arange(60), [3, 3, 7])
    repeated = TemporalEdges(
        edges.src[twice],
        edges.dst[twice],
        edges.time[twice],
        features=dict(zip(edges.feature_names, edges.features[twice].T, strict=True)),
        label=edges.label[twice],
    )
    features = PropagationFeatures(["src"], scales=[SCALE], past_only=True, two_ends="none").fit(repeated)
    rows = dict(zip(features.get_feature_names_out(), features.transform(repeated).T, strict=True))
    above, lately = oracle(repeated, "src", "amount", True, repeated.time.std())
    np.testing.assert_allclose(rows["src_unusual_amount"], above, atol=1e-10)
    np.testing.assert_allclose(rows["src_lately_amount_0.5"], lately, atol=1e-10)


def test_the_future_has_no_influence():
    edges = payments()
    order = np.argsort(edges.time, kind="stable")
    edges = edges[order]
    features = PropagationFeatures(past_only=True).fit(edges)
    amount = edges.features[:, 0].copy()
    last = edges.time == edges.time.max()
    amount[last] = 1e6
    changed = TemporalEdges(
        edges.src, edges.dst, edges.time, features={"amount": amount, "change": edges.features[:, 1]}, label=edges.label
    )
    for fitted in (features, PropagationFeatures(past_only=True).fit(changed)):
        fitted.plan_ = features.plan_  # medians are those of the fitted edges
    again = PropagationFeatures(past_only=True).fit(changed)
    again.plan_ = features.plan_
    before = ~last
    np.testing.assert_array_equal(again.transform(changed)[before], features.transform(edges)[before])


def test_absurd_numbers_count_as_the_largest_fitted():
    edges = payments(100)
    features = PropagationFeatures(["src"], scales=[SCALE], past_only=True, two_ends="none").fit(edges)
    names = features.get_feature_names_out().tolist()

    def after(amount):
        new = TemporalEdges(
            ["p1", "p1"], ["s1", "s1"], [100, 101], features={"amount": [amount, 1.0], "change": [0.0, 0.0]}
        )
        return features.transform(new)[1, names.index("src_lately_amount_0.5")]

    assert after(1e300) == after(np.nanmax(edges.features[:, 0])) > after(1.0)


def test_reasons_say_how_unusual_it_was_lately():
    rng = np.random.default_rng(0)
    n = 4000
    card, day = rng.integers(60, size=n), np.sort(rng.random(n) * 60)
    stolen = (card < 12) & (day > 5 * (card + 1)) & (day < 5 * (card + 1) + 4)
    amount = rng.lognormal(3, 0.2, size=n) * np.where(stolen, 8.0, 1.0)
    edges = TemporalEdges(
        [f"card {k}" for k in card],
        [f"shop {k}" for k in rng.integers(30, size=n)],
        day,
        features={"amount": amount},
        label=stolen.astype(int),
    )
    model = PropagationClassifier(setting="stream", random_state=0).fit(edges)
    found = model.explain(edges[np.flatnonzero(stolen)], top=20)
    said = [text for text in found["reason"].to_list() if "what was usual then" in text]
    assert said
    assert any(
        "interactions from 'card" in text and "of more than 2.7 times what was usual then" in text for text in said
    )
