"""Predictions of a model, as columns of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tdlg.cli.output import DIGITS

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from tdlg.edges import TemporalEdges
    from tdlg.estimator import Scored


def kind_of(model: Any) -> str:
    """The kind of a model: "classifier", "regressor", "outlier_detector", "transformer", or "links".

    The kind comes from the scikit-learn tags of the estimator; scikit-learn has no estimator type for link predictors.
    """
    from sklearn.utils import get_tags

    tags = get_tags(model)
    return tags.estimator_type or ("links" if tags.transformer_tags is None else "transformer")


def answers(model: Any, edges: TemporalEdges | Scored) -> dict[str, Any]:
    """The columns that a model adds to a table."""
    columns: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
        "classifier": _class_columns,
        "regressor": lambda model, edges: {"predicted": _short(_values(model, edges))},
        "outlier_detector": _outlier_columns,
        "transformer": lambda model, edges: {f"e{k}": column for k, column in enumerate(model.transform(edges).T)},
        "links": lambda model, edges: {"score": _short(_link_scores(model, edges))},
    }
    return columns[kind_of(model)](model, edges)


def _values(model: Any, edges: TemporalEdges | Scored) -> Any:
    from tdlg.estimator import Scored

    return (edges if isinstance(edges, Scored) else model.scored(edges)).values


def _link_scores(model: Any, edges: Any) -> Any:
    """The probability that each edge is real; of a model that ranks, the score of its destination."""
    return model.predict_proba(edges)[:, 1] if hasattr(model, "predict_proba") else model.decision_function(edges)


def _outlier_columns(model: Any, edges: TemporalEdges | Scored) -> dict[str, Any]:
    scores = _values(model, edges)
    return {"outlier_score": _short(-scores), "outlier": (scores < model.offset_).astype(int)}


def _class_columns(model: Any, edges: TemporalEdges | Scored) -> dict[str, Any]:
    """The predicted class and a probability: with two classes of the positive class, else of the predicted class."""
    import numpy as np

    from tdlg.explain.positive import positive_of
    from tdlg.tables.labels import plain_classes

    probability = _values(model, edges)
    best = probability.argmax(axis=1)
    shown = probability[np.arange(len(best)), positive_of(model) if len(model.classes_) == 2 else best]
    return {"predicted": plain_classes(model.classes_)[best], "probability": _short(shown)}


def positive_label(model: Any) -> Any:
    """The positive class of a fitted classifier, with whole numbers as integers; None for other models."""
    from tdlg.explain.positive import positive_of
    from tdlg.tables.labels import plain_classes

    return plain_classes(model.classes_).tolist()[positive_of(model)] if kind_of(model) == "classifier" else None


def two_classes(model: Any) -> tuple[Any, Any] | None:
    """Both classes of a classifier with two classes, the positive class last; None for other models."""
    if kind_of(model) != "classifier" or len(model.classes_) != 2:
        return None
    from tdlg.tables.labels import plain_classes

    positive = positive_label(model)
    (other,) = (value for value in plain_classes(model.classes_).tolist() if value != positive)
    return other, positive


def _short(values: Any) -> pl.Series:
    """The values, rounded to the significant digits that are shown."""
    import polars as pl

    return pl.Series(values).round_sig_figs(DIGITS)


def spread(values: Any, selected: NDArray[np.bool_]) -> pl.Series:
    """A full column with the values in the selected rows, and null in the other rows."""
    import numpy as np
    import polars as pl

    place = np.where(selected, np.cumsum(selected) - 1, 0)
    series = pl.Series(values.tolist() if isinstance(values, np.ndarray) and values.dtype == object else values)
    return pl.select(pl.when(pl.Series(selected)).then(series.gather(place))).to_series()


def meaning(model: Any) -> str:
    """A note that says what the column "probability" of a fitted classifier is the probability of.

    Its `label_name_` is the name of the label, or a condition such as "(stars > 3)", see `LabelRule.named`.
    """
    both, label = two_classes(model), getattr(model, "label_name_", None)
    if both is not None and label is not None:
        return meaning_of_two(label, both[1])
    return f'"probability" is the probability of {_class_in_words(model)}'


def meaning_of_two(label: str, positive: Any) -> str:
    """`meaning`, given the name of the label or a condition, and the positive class of two."""
    of = label[1:-1] if label.startswith("(") else f"{label} = {positive}"
    return f'"probability" is the probability of {of}'


def explained(model: Any) -> str:
    """A phrase for what the reasons of a model explain."""
    if kind_of(model) == "outlier_detector":
        return "the outlier score, which is the surprise of a burst in digits: higher is more surprising"
    return "the predicted number" if kind_of(model) == "regressor" else f"the score of {_class_in_words(model)}"


def _class_in_words(model: Any) -> str:
    """The positive class of two classes; with more classes, the predicted class."""
    both = two_classes(model)
    return "the predicted class" if both is None else f"class {both[1]!r}"
