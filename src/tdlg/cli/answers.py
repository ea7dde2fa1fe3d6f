"""What a model predicts for edges, as columns of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tdlg.cli.labels import plain_classes
from tdlg.cli.output import DIGITS

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from tdlg.edges import TemporalEdges

__all__ = ["answers", "explained", "kind_of", "meaning", "positive_label", "spread", "two_classes"]


def kind_of(model: Any) -> str:
    """What a model does: "classifier", "regressor", "outlier_detector", "transformer", or "links".

    It is what scikit-learn's tags say of the estimator; a link predictor has none of the types that scikit-learn knows.

    Parameters
    ----------
    model
        A model, fitted or not.
    """
    from sklearn.utils import get_tags

    tags = get_tags(model)
    return tags.estimator_type or ("links" if tags.transformer_tags is None else "transformer")


def answers(model: Any, edges: TemporalEdges) -> dict[str, Any]:
    """The columns that a model adds to a table.

    Parameters
    ----------
    model
        A fitted model of any kind.
    edges
        The edges to score.
    """
    columns: dict[str, Callable[[Any, TemporalEdges], dict[str, Any]]] = {
        "classifier": _of_classes,
        "regressor": lambda model, edges: {"predicted": _short(model.predict(edges))},
        "outlier_detector": lambda model, edges: {
            "oddness": _short(-model.score_samples(edges)),
            "outlier": (model.predict(edges) < 0).astype(int),
        },
        "transformer": lambda model, edges: {f"e{k}": column for k, column in enumerate(model.transform(edges).T)},
        "links": lambda model, edges: {"score": _short(model.predict_proba(edges)[:, 1])},
    }
    return columns[kind_of(model)](model, edges)


def _of_classes(model: Any, edges: TemporalEdges) -> dict[str, Any]:
    """The predicted class, and a probability: of the positive class of two, else of the predicted class."""
    import numpy as np

    from tdlg.explain.positive import positive_of

    probability = model.predict_proba(edges)
    best = probability.argmax(axis=1)
    shown = probability[np.arange(len(best)), positive_of(model) if len(model.classes_) == 2 else best]
    return {"predicted": plain_classes(model.classes_)[best], "probability": _short(shown)}


def positive_label(model: Any) -> Any:
    """The positive class of a fitted model as the user reads it; None for a model that does not predict classes.

    Parameters
    ----------
    model
        A fitted model.
    """
    from tdlg.explain.positive import positive_of

    return plain_classes(model.classes_).tolist()[positive_of(model)] if kind_of(model) == "classifier" else None


def two_classes(model: Any) -> tuple[Any, Any] | None:
    """Both classes of a classifier that has two, the positive one last; None for other models.

    Parameters
    ----------
    model
        A fitted model.
    """
    if kind_of(model) != "classifier" or len(model.classes_) != 2:
        return None
    positive = positive_label(model)
    (other,) = (value for value in plain_classes(model.classes_).tolist() if value != positive)
    return other, positive


def _short(values: Any) -> pl.Series:
    """No more digits than are known."""
    import polars as pl

    return pl.Series(values).round_sig_figs(DIGITS)


def spread(values: Any, asked: NDArray[np.bool_]) -> pl.Series:
    """Give values of the rows that are asked as a whole column, with nothing in the other rows."""
    import numpy as np
    import polars as pl

    place = np.where(asked, np.cumsum(asked) - 1, 0)
    series = pl.Series(values.tolist() if isinstance(values, np.ndarray) and values.dtype == object else values)
    return pl.select(pl.when(pl.Series(asked)).then(series.gather(place))).to_series()


def meaning(model: Any) -> str:
    """What the column "probability" of a classifier is about, in words."""
    return f"probability: that of {_class_in_words(model)}"


def explained(model: Any) -> str:
    """What the reasons that a model gives are about, in words."""
    return "the predicted number" if kind_of(model) == "regressor" else f"the score of {_class_in_words(model)}"


def _class_in_words(model: Any) -> str:
    """With two classes the positive one; with more the predicted one."""
    both = two_classes(model)
    return "the predicted class" if both is None else repr(both[1])
