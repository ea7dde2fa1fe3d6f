import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from tdlg import LineGraph, TemporalEdges
from tdlg.checks import as_generator, as_seed, check_choice, check_count, check_number, is_number, set_missing_seed
from tdlg.exceptions import ParameterError
from tdlg.judge.references import LabelRates


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(3)])
def test_counts(value):
    check_count("top", "k", value, 1)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, None, "3", np.float64(3), np.bool_(True), [3]])
def test_what_is_not_a_count(value):
    with pytest.raises(
        ParameterError, match=r"The 'k' parameter of top must be a whole number, at least 1\. Got .* instead"
    ):
        check_count("top", "k", value, 1)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int16(2)])
def test_numbers(value):
    check_number("Model", "C", value)
    assert is_number(value)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, True, np.bool_(True), "1", None, 1j, [1.0]])
def test_what_is_not_a_positive_number(value):
    with pytest.raises(ParameterError, match=r"The 'C' parameter of Model must be a positive number\. Got .* instead"):
        check_number("Model", "C", value)


@pytest.mark.parametrize("value", [0, 1, 1.5, "half"])
def test_what_is_not_a_share(value):
    check_number("Model", "tol", 0.999, below=1)
    with pytest.raises(ParameterError, match=r"The 'tol' parameter of Model must be between 0 and 1\. Got .* instead"):
        check_number("Model", "tol", value, below=1)


def test_choices():
    check_choice("Model", "method", "a", ("a", "b", None))
    check_choice("Model", "method", None, ("a", "b", None))
    check_choice("Model", "method", np.str_("b"), {"a": 1, "b": 2})


@pytest.mark.parametrize("value", ["c", None, 0, ["a"], np.array(["a", "b"])])
def test_what_is_not_a_choice(value):
    with pytest.raises(
        ParameterError, match=r"The 'method' parameter of Model must be one of \['a', 'b'\]\. Got .* instead"
    ):
        check_choice("Model", "method", value, ("a", "b"))


def test_one_rule_for_the_number_of_threads():
    edges = TemporalEdges(["a", "b"], ["b", "c"], [0, 1])
    for wrong in (0, True, 1.5):
        with pytest.raises(
            ParameterError, match=r"'n_threads' parameter of LineGraph must be a whole number, at least 1"
        ):
            LineGraph(edges, n_threads=wrong)


# ---- random states


@pytest.mark.parametrize("make", [int, np.random.default_rng, np.random.RandomState, np.random.SeedSequence])
def test_the_same_seed_gives_the_same_generator(make):
    first, again, other = (as_generator(make(seed)).random(3).tolist() for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_a_generator_stays_itself():
    rng = np.random.default_rng(0)
    assert as_generator(rng) is rng
    assert as_generator(None).random() != as_generator(None).random()


@pytest.mark.parametrize("wrong", ["x", -1, 1.5])
def test_a_wrong_seed(wrong):
    with pytest.raises(ParameterError, match=r"'random_state'.*Got .* instead"):
        as_generator(wrong)


def test_seeds_that_scikit_learn_accepts():
    state = np.random.RandomState(0)
    assert [as_seed(value) for value in (None, 3, state)] == [None, 3, state]
    first, again = (as_seed(np.random.default_rng(5)) for _ in range(2))
    assert first == again
    HistGradientBoostingClassifier(random_state=first).fit([[0], [1]], [0, 1])


def test_label_rates_take_a_generator():
    edges = TemporalEdges(["a", "b"] * 20, ["x", "y"] * 20, range(40), label=[0, 1] * 20)
    scores = []
    for _ in range(2):
        method = LabelRates(random_state=np.random.default_rng(0))
        method.fit(edges)
        scores.append(method.decision_function(edges))
    np.testing.assert_array_equal(*scores)


def test_a_seed_is_set_only_where_it_is_missing():
    for given, expected in ((None, 4), (9, 9), (0, 0)):
        model = Ridge(random_state=given)
        set_missing_seed(model, 4)
        assert model.random_state == expected
    set_missing_seed(StandardScaler(), 4)  # which has no random_state
