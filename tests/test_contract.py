"""scikit-learn's checks of its own contract, once per class."""

import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from tdlg import (
    BurstDetector,
    EdgeEmbedding,
    EdgeOutlierDetector,
    Gaussian,
    LineGraphClassifier,
    LinkPredictor,
    LinkRanker,
    LowRankFeatures,
    MisplacedDetector,
    NoDecay,
    PropagationClassifier,
    PropagationFeatures,
    PropagationRegressor,
    from_frame,
)

pytestmark = [
    pytest.mark.usefixtures("few_trees"),
    pytest.mark.filterwarnings("ignore::tdlg.exceptions.TdlgWarning", "ignore::sklearn.exceptions.SkipTestWarning"),
]

ANY_ID = {"check_dtype_object": "ids may be any hashables; one that is none is refused by the package's own error"}
OF_OUTLIERS = ANY_ID | dict.fromkeys(
    ["check_outliers_fit_predict", "check_outliers_train"], "has two columns: src, dst and time are needed"
)
TWICE = {
    "check_sample_weight_equivalence_on_dense_data": "an edge that is given twice happened twice, which no weight says"
}
OF_PROPAGATION = {
    **ANY_ID,
    **TWICE,
    "check_classifiers_train": "wants training labels back: here no two edges share a node, and none sees its own label",
}
CLASSES = [
    (PropagationClassifier(), OF_PROPAGATION),
    (PropagationRegressor(setting="stream"), ANY_ID),
    (LineGraphClassifier(decay=NoDecay()), ANY_ID | TWICE),
    (LinkPredictor("linegraph", decay=NoDecay()), ANY_ID),
    (LinkRanker(), ANY_ID),
    (BurstDetector(), OF_OUTLIERS),
    (MisplacedDetector("linegraph", decay=NoDecay()), OF_OUTLIERS),
    (EdgeOutlierDetector("burst"), OF_OUTLIERS),
    (EdgeEmbedding(decay=Gaussian(1.0)), ANY_ID),
    (LowRankFeatures(decay=Gaussian(1.0)), ANY_ID),
    (PropagationFeatures(), ANY_ID),
]
OTHERS = [
    (PropagationClassifier(setting="interpolate"), OF_PROPAGATION),
    (EdgeOutlierDetector("linegraph", decay=NoDecay()), OF_OUTLIERS),
]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("transformer", [one for one, _ in CLASSES if hasattr(one, "set_output")], ids=str)
def test_columns_have_names_and_rows_their_index(transformer, kind):
    table = pd.DataFrame({"src": list("abab"), "dst": list("xxyy"), "time": [1.0, 2, 3, 5]}, index=list("pqrs"))
    fitted = clone(transformer).set_output(transform=kind).fit(table)
    for X in (table, from_frame(table)):
        columns = fitted.transform(X)
        assert type(columns).__module__.startswith(kind)
        assert list(columns.columns) == fitted.get_feature_names_out().tolist()
        assert columns.shape[0] == 4
    if kind == "pandas":
        assert fitted.transform(table).index.tolist() == list("pqrs")


def name_of(case):
    return str(case[0])


@pytest.mark.parametrize("case", CLASSES, ids=name_of)
def test_scikit_learn(case):
    estimator, expected = case
    results = check_estimator(estimator, expected_failed_checks=expected)
    assert len(results) > 40
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(expected)


@pytest.mark.needs("time")
@pytest.mark.parametrize("case", OTHERS, ids=name_of)
def test_other_settings(case):
    test_scikit_learn(case)
