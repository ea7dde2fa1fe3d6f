"""What a model says of edges, as columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdlg.cli.labels import plain_classes, told_place
from tdlg.cli.output import DIGITS

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from tdlg.edges import TemporalEdges

__all__ = ["answers", "meaning", "spread", "told_class", "two_classes"]


def answers(model: Any, edges: TemporalEdges) -> dict[str, Any]:
    """The columns that a model adds to a table.

    Parameters
    ----------
    model
        A classifier or regressor, an outlier detector, a link predictor, or one that gives vectors.
    edges
        The edges asked for.
    """
    import numpy as np

    if hasattr(model, "score_samples"):
        return {"oddness": _short(-model.score_samples(edges)), "outlier": (model.predict(edges) < 0).astype(int)}
    if hasattr(model, "transform"):
        return {f"e{k}": column for k, column in enumerate(model.transform(edges).T)}
    if not hasattr(model, "predict_proba"):
        return {"predicted": _short(model.predict(edges))}
    probability = model.predict_proba(edges)
    best = probability.argmax(axis=1)
    place = _place(model)
    told = probability[np.arange(len(best)), best if place is None else place]
    if not hasattr(model, "predict"):
        return {"score": _short(told)}
    return {"predicted": plain_classes(model.classes_)[best], "probability": _short(told)}


def told_class(model: Any) -> Any:
    """The class that a classifier is asked about: of two the one that `told_place` says; None where there are more.

    Parameters
    ----------
    model
        A fitted model; one of numbers, not of classes, has none.
    """
    place = _place(model) if hasattr(model, "classes_") else None
    return None if place is None else plain_classes(model.classes_).tolist()[place]


def _place(model: Any) -> int | None:
    """The position of the class that is told, of two; classify keeps what --positive says with the model."""
    return told_place(model.classes_, getattr(model, "labels_", model.classes_), getattr(model, "positive_", None))


def two_classes(model: Any) -> tuple[Any, Any] | None:
    """Both classes of a classifier that has two, the one that is told last; None for other models.

    Parameters
    ----------
    model
        A fitted model.
    """
    told = told_class(model)
    if told is None:
        return None
    (other,) = (value for value in plain_classes(model.classes_).tolist() if value != told)
    return other, told


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
    """What the column "probability" tells, in words."""
    told = told_class(model)
    return f"probability: that of {'the predicted class' if told is None else repr(told)}"
