"""Labels, weights and features: which are taken, and what is said of those that are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from tdlg import LineGraphClassifier, PropagationFeatures
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError


def make(**columns):
    return TemporalEdges([3, 1, 3, 7], [1, 7, 3, 3], [4, 2, 2, 9], **columns)


@pytest.mark.parametrize(
    ("label", "expected", "dtype"),
    [
        ([1, 0, 2, 1], [1, 0, 2, 1], "int64"),
        ([True, False, True, True], [True, False, True, True], "bool"),
        ([1, None, 2, 1], [1, None, 2, 1], "float64"),
        (pd.Series([1, None, 2, 1], dtype="Int64"), [1, None, 2, 1], "float64"),
        (pl.Series([1, None, 2, 1]), [1, None, 2, 1], "float64"),
        (pl.Series([True, None, False, True]), [True, None, False, True], "object"),
        (["a", None, "b", "a"], ["a", None, "b", "a"], "object"),
        (pd.Series(["a", None, "b", "a"]), ["a", None, "b", "a"], "object"),
        (["a", float("nan"), "b", "a"], ["a", None, "b", "a"], "object"),
        ([None] * 4, [None] * 4, "object"),
    ],
)
def test_labels_of_every_kind(label, expected, dtype):
    edges = make(label=label)
    assert edges.label.dtype == dtype
    assert [y if known else None for y, known in zip(edges.label, edges.labelled, strict=True)] == expected


BIG = 2**53


@pytest.mark.parametrize(
    "label",
    [
        [BIG, BIG + 1, None, BIG],
        [np.int64(BIG), BIG + 1, None, np.int64(BIG)],
        pd.Series([BIG, BIG + 1, None, BIG], dtype="Int64"),
        pl.Series([BIG, BIG + 1, None, BIG]),
        pa.array([BIG, BIG + 1, None, BIG]),
    ],
)
def test_large_whole_labels_never_become_one(label):
    edges = make(label=label)
    assert edges.label.tolist() == [BIG, BIG + 1, None, BIG]
    assert LineGraphClassifier(bandwidth=1.0).fit(edges).classes_.tolist() == [BIG, BIG + 1]
    features = PropagationFeatures(target="classes").fit(edges)
    assert features.classes_.tolist() == [BIG, BIG + 1]
    assert features.prior_.tolist() == [1 / 3]
    with pytest.raises(EdgesError, match=r"'label' has the whole number 36893488147419103232 in row 1.*beyond 64 bits"):
        make(label=[1, 2**65, None, 1])
    assert make(label=[BIG, BIG + 1, BIG, BIG]).label.tolist() == [BIG, BIG + 1, BIG, BIG]
    assert make(label=[BIG, BIG - 1, None, BIG]).label.tolist()[:2] == [BIG, BIG - 1]


def test_large_whole_numbers_may_be_features_and_weights():
    assert make(features={"x": [BIG + 2, None, 1, 2]}).features[:, 0].tolist()[::2] == [BIG + 2, 1]
    with pytest.raises(EdgesError, match=r"'weight' must be finite\. Got nan in row 1"):
        make(weight=[BIG + 2, None, 1, 2])


def test_what_is_labelled_is_found_once():
    edges = make(label=["a", None, "b", "a"])
    assert edges.labelled is edges.labelled
    assert edges[1:].labelled.tolist() == [False, True, True]
    assert edges.with_label([1, 2, 3, None]).labelled.tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": ["a", "b", "\ud800", "c"]}, r"'src' has text that is not valid Unicode in row 2.*'\\ud800'.*encode"),
        ({"dst": np.array(["a", "b", "x\udfff", "c"])}, r"'dst' has text that is not valid Unicode in row 2"),
        ({"src": ["a", 5, "\ud800", "c"]}, r"'src' has text that is not valid Unicode in row 2"),
        ({"label": ["a", None, "\ud800", "c"]}, r"'label' has text that is not valid Unicode in row 2"),
        ({"features": {"kind": ["a", None, "\ud800", "c"]}}, r"'kind' has text that is not valid Unicode in row 2"),
    ],
)
def test_half_a_character_is_refused_with_its_row(columns, message):
    with pytest.raises(EdgesError, match=message) as caught:
        TemporalEdges(**{"src": [1, 2, 3, 4], "dst": [1, 2, 3, 4], "time": [1, 2, 3, 4], **columns})
    assert caught.value.row == 2


def test_no_labels_are_none():
    assert make().label is None
    assert not make().labelled.any()


def test_labels_of_two_types_are_refused_with_both():
    with pytest.raises(EdgesError, match=r"mixes str and int: 'a', and 3 in row 2.*one type"):
        make(label=["a", None, 3, "b"])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"weight": [1, 2, float("nan"), 1]}, r"'weight' must be finite\. Got nan in row 2"),
        ({"weight": ["a"] * 4}, r"'weight' must hold numbers\. Got 'a'"),
        ({"label": [1, float("inf"), 0, 0]}, r"'label' must be finite.*inf in row 1"),
        ({"features": [1, 2, float("inf"), 3]}, r"'features' must be finite.*'feature_0', row 2"),
        ({"features": np.zeros((4, 2, 2))}, r"'features' must have two dimensions"),
        ({"features": {"a": [1, 2, 3, 4], "b": [1]}}, r"'features' differ in length: \{'a': 4, 'b': 1\}"),
        ({"features": [[1, 2], [3], [4, 5], [6, 7]]}, r"'features' must have 2 values in each row.*Got \[3\] in row 1"),
        (
            {"features": csr_array(np.eye(4))},
            r"'features' must be dense. Got csr_array of shape.*features\.toarray\(\)",
        ),
        ({"features": pd.DataFrame([[1, 2]] * 4, columns=["a", "a"])}, r"'features' must differ in name.*Rename"),
        ({"features": {1: [1] * 4, "1": [2] * 4}}, r"'features' must differ in name. Got \[1, '1'\].*Rename"),
        ({"features": {"when": np.zeros(4, "datetime64[s]")}}, r"'when'.*numbers or strings.*seconds"),
    ],
)
def test_bad_values_are_refused(column, message):
    with pytest.raises(EdgesError, match=message):
        make(**column)


@pytest.mark.parametrize("form", [dict, pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_features_of_a_frame_have_names_and_categories(form):
    edges = make(features=form({"amount": [1, 2, 3, 4], "kind": ["b", "a", None, "b"]}))
    assert edges.feature_names == ("amount", "kind")
    assert edges.feature_categories == {"kind": ("a", "b")}
    np.testing.assert_array_equal(edges.features, [[1, 1], [2, 0], [3, np.nan], [4, 1]])
    assert edges.shape == (4, 5)


def test_a_matrix_of_features():
    edges = make(features=np.arange(8, dtype=np.float32).reshape(4, 2))
    assert edges.features.dtype == np.float32
    assert edges.feature_names == ("feature_0", "feature_1")
    assert make(features=[[1, 2]] * 4).features.shape == (4, 2)
    assert make(features=[1, 2, 3, 4]).features.shape == (4, 1)


@pytest.mark.parametrize("form", [dict, pd.DataFrame])
def test_no_columns_of_features_are_no_features(form):
    assert make(features=form({})).features is None


@pytest.mark.parametrize("form", [pd.Categorical, lambda v: pd.Series(v, dtype="category"), pd.CategoricalIndex])
@pytest.mark.parametrize("values", [[10, 9, 10, 200], ["b", "a", "b", "c"]])
def test_categories_of_pandas_are_codes(form, values):
    edges = make(features={"kind": form(values)})
    assert edges.feature_categories == {"kind": tuple(sorted(set(values)))}
    assert edges.features[:, 0].tolist() == [1, 0, 1, 2]
    unused = pd.Series([7, None, 5, 7], dtype=pd.CategoricalDtype([9, 7, 5]))
    part = make(features=pd.DataFrame({"kind": unused}))
    assert part.feature_categories == {"kind": (5, 7)}
    np.testing.assert_array_equal(part.features[:, 0], [1, np.nan, 0, 1])
