"""Tables for fitted models: read as a model needs them, and the columns that it adds to one."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.utils import get_tags

from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import positive_of
from tdlg.io.read import Table, read_table
from tdlg.tables.labels import plain_classes
from tdlg.tables.text import SCORE_DIGITS

MOST_REASONS = 10_000  # outliers that are told why, those with the highest scores


def kind_of(model: Any) -> str:
    """The kind of a model: "classifier", "regressor", "outlier_detector", "transformer", or "links"."""
    tags = get_tags(model)
    return tags.estimator_type or ("links" if tags.transformer_tags is None else "transformer")


def classes_of(model: Any) -> list[Any]:
    """The classes of a fitted classifier, the positive one last, with whole numbers as integers; empty for other models."""
    if kind_of(model) != "classifier":
        return []
    classes = plain_classes(model.classes_).tolist()
    positive = classes.pop(positive_of(model))
    return [*classes, positive]


def positive_label(model: Any) -> Any:
    """The positive class of a fitted classifier; None for other models."""
    return next(iter(classes_of(model)[-1:]), None)


def read_table_for(model: Any, path: str | os.PathLike[str], **columns: Any) -> Table:
    """Read a table with the features and the names of columns that a fitted model knows, and with its classes as labels.

    Parameters
    ----------
    model
        The model, which decides what is a feature and whether sources and destinations are nodes of two types.
    path
        The file.
    columns
        Further arguments of `read_table`. A condition in `positive` means the positive class of the model.

    Raises
    ------
    ParameterError
        If the times are of another kind than those of the model, or if it does not know a label.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import PropagationClassifier, make_payments
    >>> from tdlg.io import write_table
    >>> edges = make_payments(1000, random_state=0).edges
    >>> model = PropagationClassifier(random_state=0).fit(edges)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "new.csv"
    >>> write_table(edges[:9].with_label(None).to_frame(), path)
    >>> table = read_table_for(model, path)
    >>> table.with_columns(**answer_columns(model, table.edges)).columns[-2:]
    ['predicted', 'probability']
    """
    fitted, classes = model.edges_, classes_of(model)
    of_model = {"features": fitted.feature_names, "categories": tuple(fitted.feature_categories)}
    of_model["usual"] = getattr(model, "columns_", None)
    of_model |= {"bipartite": fitted.bipartite or None, "classes": tuple(classes) if len(classes) == 2 else None}
    table = read_table(path, **{**columns, **of_model})
    edges = table.edges
    if (edges.time_unit is None) != (fitted.time_unit is None):
        here, there, way_out = "dates", "numbers", "Give times as numbers."
        if edges.time_unit is None:
            here, there, way_out = there, here, "Pass the same time_unit= or time_format= as for the model."
        if columns.get("time_unit") is not None:
            way_out = "Leave out time_unit=."
        problem = f"{path}: the times are {here}, but the model was fitted on {there}."
        raise ParameterError(problem, way_out, parameter="edges")
    if classes and edges.label is not None:
        found = plain_classes(np.unique(np.asarray(edges.label)[edges.labelled])).tolist()
        unknown = [value for value in found if value not in classes]
        if unknown:
            known = ", ".join(map(repr, plain_classes(model.classes_).tolist()))
            raise ParameterError(
                f"The column {table.names['label']!r} has the label {unknown[0]!r}, but the model knows only {known}.",
                "Pass the same positive= and missing= as for the model.",
                parameter="label",
            )
    return table


def answer_columns(model: Any, X: TemporalEdges | Scored) -> dict[str, Any]:
    """The columns that a fitted model adds to a table.

    Parameters
    ----------
    model
        A fitted model.
    X
        The rows of the table, or what the model's `scored` returned for them.

    Returns
    -------
    dict
        The columns by name. A classifier adds "predicted", and "probability" of the positive class of two or else of the
        predicted one; a regressor "predicted"; a detector "outlier_score" and "outlier", and what makes an outlier
        unusual, "outlier_notion" and "outlier_reason" (of the 10,000 highest scores); a model of links "score"; a
        transformer its columns as e0, e1, ... Probabilities and scores have six significant digits.
    """
    kind = kind_of(model)
    if kind == "transformer":
        return {f"e{k}": column for k, column in enumerate(model.transform(X).T)}
    if kind == "links":  # the probability that an edge is real; of a model that ranks, the score of its destination
        has_probability = hasattr(model, "predict_proba")
        return {"score": _short(model.predict_proba(X)[:, 1] if has_probability else model.decision_function(X))}
    values = (X if isinstance(X, Scored) else model.scored(X)).values
    if kind == "outlier_detector":
        return {
            "outlier_score": _short(-values),
            "outlier": (values < model.offset_).astype(int),
            **_why(model, X, values),
        }
    if kind == "regressor":
        return {"predicted": _short(values)}
    best = values.argmax(axis=1)
    shown = positive_of(model) if len(model.classes_) == 2 else best
    return {
        "predicted": plain_classes(model.classes_)[best],
        "probability": _short(values[np.arange(len(best)), shown]),
    }


def _why(model: Any, X: TemporalEdges | Scored, values: NDArray[Any]) -> dict[str, Any]:
    """The notion and the strongest reason of each outlier; null for others."""
    detector = getattr(model, "detector_", model)
    flagged = np.flatnonzero(values < model.offset_)
    flagged = np.sort(flagged[np.argsort(values[flagged], kind="stable")[:MOST_REASONS]])
    reasons = detector.explain(X, 1, rows=flagged)
    notions, told = (np.full(len(values), None, object) for _ in range(2))
    notion = {"BurstDetector": "burst", "MisplacedDetector": "misplaced"}.get(type(detector).__name__)
    notions[reasons["edge"]] = notion or reasons["what"].str.split(" ").list.first().to_list()
    told[reasons["edge"]] = reasons["reason"].to_list()
    columns = {"outlier_notion": notions, "outlier_reason": told}
    return {name: pl.Series(column.tolist(), dtype=pl.String) for name, column in columns.items()}


def spread(values: Any, selected: NDArray[np.bool_]) -> pl.Series:
    """A full column with the values in the selected rows, and null in the other rows."""
    place = np.where(selected, np.cumsum(selected) - 1, 0)
    series = pl.Series(values.tolist() if isinstance(values, np.ndarray) and values.dtype == object else values)
    return pl.select(pl.when(pl.Series(selected)).then(series.gather(place))).to_series()


def _short(values: Any) -> pl.Series:
    return pl.Series(values).round_sig_figs(SCORE_DIGITS)
