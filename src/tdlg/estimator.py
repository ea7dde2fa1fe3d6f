"""What all estimators share: their input is temporal edges, or a table with the columns src, dst, time and features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import PackageNotFoundError, metadata
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tdlg.checks import check_choice
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, warn
from tdlg.linegraph.operator import LineGraph, NormalizedLineGraph, check_walks
from tdlg.tables.column import eager_frame

if TYPE_CHECKING:
    import polars as pl

Method = TypeVar("Method", bound=Callable[..., Any])

ENDS, ENDS_AND_TIME = 2, 3  # number of columns that a table of edges must have, and should have
ROLES = ("src", "dst", "time")
ANSWERS = (  # methods that read fitted attributes
    *("predict", "predict_proba", "decision_function", "score", "score_samples", "transform", "get_feature_names_out"),
    *("scored", "explain", "contributions", "rank", "top", "pair_scores"),
)
LABELS_OF_EDGES = "TemporalEdges(..., label=...), read_edges(..., label=...)"
FEW_NODES = 5  # below this number of nodes, new nodes are nothing unusual
# Above this share of new nodes, ids may be written differently: in a network that grows, three fifths are new.
MOSTLY = 2 / 3


def all_or_nothing(change: Method) -> Method:
    """Make a `fit` or `update` that fails or is interrupted leave the estimator unchanged; a `fit` starts from nothing."""

    @wraps(change)
    def whole(self: Any, *args: Any, **options: Any) -> Any:
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__)
        if change.__name__ == "fit":
            for name in [name for name in fresh.__dict__ if name.endswith("_")]:
                del fresh.__dict__[name]
        change(fresh, *args, **options)
        self.__dict__ = fresh.__dict__  # a single assignment: neither an interrupt nor a thread can see half of it
        return self

    return cast(Method, whole)


def of_one_fit(answer: Method) -> Method:
    """Let a method see one fit only, although another thread may fit or update the estimator while it runs."""

    @wraps(answer)
    def whole(self: Any, *args: Any, **options: Any) -> Any:
        seen = object.__new__(type(self))
        seen.__dict__ = self.__dict__  # which `all_or_nothing` replaces and does not change
        return answer(seen, *args, **options)

    return cast(Method, whole)


class EdgesEstimator:
    """A mixin for estimators whose X is `TemporalEdges`, or a 2-D array or dataframe: src, dst, time, features.

    The columns of an array are identified by position. The columns of a dataframe are identified by common names, as in
    `from_frame`, and by position only if it has no common names. A table of two columns has no times: all its edges get
    the same time, and the decay must be `NoDecay()`. For `bipartite` edges use `from_frame(..., bipartite=True)`.
    """

    edges_: TemporalEdges
    _doc_link_module = "tdlg"

    def _get_doc_link(self) -> str:
        """Where scikit-learn's picture of an estimator links to: our API, once the package names its documentation."""
        try:
            urls = dict(entry.split(", ", 1) for entry in metadata("tdlg").get_all("Project-URL") or ())
        except PackageNotFoundError:  # the sources alone
            urls = {}
        return f"{urls['Documentation']}api.html#tdlg.{type(self).__name__}" if "Documentation" in urls else ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ANSWERS:
            if name in vars(cls):
                setattr(cls, name, of_one_fit(vars(cls)[name]))

    def _edges(self, X: Any, *, reset: bool) -> TemporalEdges:
        """X as edges. With `reset` X is fitted; else X needs the columns of `fit`, and its ids are converted to match."""
        if not reset:
            check_is_fitted(self)
        edges = X if isinstance(X, TemporalEdges) else edges_of_table(self, X, reset=reset)
        if not reset:
            return self._in_fitted_ids(edges)
        if len(edges) == 0:
            raise EdgesError(f"{type(self).__name__} got no edges to fit. Pass at least one edge.")
        if edges is X:
            self.n_features_in_ = X.shape[1]
        return edges

    def _in_fitted_ids(self, edges: TemporalEdges) -> TemporalEdges:
        edges = edges.with_ids_of(self.edges_)
        mostly_new = _mostly_new_end(self, edges)
        if mostly_new is not None:
            warn(f"{mostly_new} Check that they are written as in the fitted edges.")
        for name, categories in edges.feature_categories.items():
            fitted = self.edges_.feature_categories.get(name, ())
            if len(categories) > 1 and fitted and not set(categories) & set(fitted):
                warn(
                    f"None of the categories of the feature {name!r} was in the fitted edges, so the model knows nothing "
                    f"about them. Fitted: {fitted[0]!r}; here: {categories[0]!r}."
                )
        return edges

    def save(self, path: Any) -> None:
        """Save the fitted model to a file without executable code. Read it with `tdlg.load_model`."""
        from tdlg.persist.model import save_model

        save_model(self, path)


class EdgesClassifier(EdgesEstimator, ClassifierMixin):
    """A mixin for classifiers of edges, of which some have no label."""

    classes_: NDArray[Any]

    def card(self, **options: Any) -> Any:
        """Make the model card: what it was fitted on, how good it is on held-out labels and on parts of them, its limits.

        The options are those of `tdlg.report.ModelCard`: `positive`, `label_name`, `alerts_per_day`, `evaluate` and `seed`.
        A card has `content`, `to_html()`, `to_json()` and `save(path)`.
        """
        from importlib import import_module

        return import_module("tdlg.report.card").ModelCard(self, **options)  # which stands above the models

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: the share of labelled edges that are predicted correctly.

        Parameters
        ----------
        X
            The edges.
        y
            Labels, one value per edge. By default the labels of the edges. Edges with a missing label are left out.
        sample_weight
            Weight of each edge. By default all edges have weight 1.
        """
        from sklearn.metrics import accuracy_score

        known, predicted, weight = known_and_predicted(self, X, y, sample_weight)
        return float(accuracy_score(known, predicted, sample_weight=weight))


def check_shapes(model: Any, **shapes: tuple[int, ...]) -> None:
    """Refuse fitted arrays from a file that have the wrong shape."""
    for name, shape in shapes.items():
        if np.shape(getattr(model, name)) != shape:
            raise ValueError(f"{name} has the shape {np.shape(getattr(model, name))} instead of {shape}")


def edges_of_table(model: Any, X: Any, *, reset: bool) -> TemporalEdges:
    """The rows of a table as edges, for an estimator that is fitted to it (`reset`) or was fitted to such a table."""
    columns: list[Any]
    order: list[int] | None = None
    if hasattr(type(X), "columns"):  # a dataframe, whose columns have their own dtypes
        frame = eager_frame(X, "X")
        validate_data(model, frame.to_native(), reset=reset, skip_check_array=True)
        order = _named_order([str(name) for name in frame.columns])
        columns = [frame.get_column(frame.columns[k]).to_native() for k in order]
    else:
        columns = list(validate_data(model, X, reset=reset, dtype=None, ensure_min_features=ENDS if reset else 1).T)
        if not reset and hasattr(model, "feature_names_in_"):  # an array after a dataframe has its columns
            columns = [columns[k] for k in _named_order(model.feature_names_in_.tolist())]
    if len(columns) < ENDS:
        raise EdgesError(f"A table of edges must have at least 2 columns, src and dst. Got {len(columns)} instead.")
    src, dst, time = columns[:ENDS_AND_TIME] if len(columns) > ENDS else (*columns, np.zeros(len(columns[0])))
    if not reset and len(columns) - ENDS_AND_TIME == len(model.edges_.feature_names):
        names = list(model.edges_.feature_names)  # the fitted names, for an array after a fit on a dataframe
    elif order is not None:
        names = [str(frame.columns[k]) for k in order[ENDS_AND_TIME:]]
    else:
        names = [f"feature_{k}" for k in range(len(columns) - ENDS_AND_TIME)]
    features = dict(zip(names, columns[ENDS_AND_TIME:], strict=True))
    for name in _labels_among(names) if reset else []:
        warn(f"The column {name!r} of X is taken as a feature, not as the label.", _as_label(name))
    bipartite = not reset and model.edges_.bipartite
    return TemporalEdges(src, dst, time, features=features, bipartite=bipartite)


def fitted_graph(model: Any, rows: TemporalEdges) -> LineGraph | NormalizedLineGraph:
    """H(rows, fitted edges) of an estimator with a decay, normalised if it has a `normalization`."""
    fitted = model.edges_
    if rows.same_table(fitted) and np.array_equal(rows.rows, fitted.rows):
        rows = fitted
    H = LineGraph(rows, fitted, decay=model.decay_, n_threads=model.n_threads)
    kind = getattr(model, "normalization", None)
    return H if kind is None else H.normalized(kind)


def check_graph(model: Any) -> None:
    """Refuse invalid parameters of the line graph of an estimator."""
    owner = type(model).__name__
    check_choice(owner, "normalization", getattr(model, "normalization", None), (None, "spectral", "edge"))
    check_walks(owner, model.decay, model.n_threads)


def new_nodes(model: Any, edges: TemporalEdges) -> tuple[int, int]:
    """Count the distinct nodes of these edges that a fitted model does not know, and all their distinct nodes."""
    edges = edges.with_ids_of(model.edges_)
    used = np.unique(np.concatenate([edges.src_code, edges.dst_code]))
    return int((~_is_known(model, edges)[used]).sum()), len(used)


def _mostly_new_end(model: Any, edges: TemporalEdges) -> str | None:
    """Say that most sources, or most destinations, are new to a fitted model: their ids may be in another form."""
    known = _is_known(model, edges)
    for end in ("src", "dst"):
        nodes = np.unique(getattr(edges, f"{end}_code"))
        new = nodes[~known[nodes]]
        if len(nodes) >= FEW_NODES and len(new) > MOSTLY * len(nodes):
            fitted, here = getattr(model.edges_, end)[:1].tolist(), edges.node_ids[new[:1]].tolist()
            what = "sources" if end == "src" else "destinations"
            return (
                f"{len(new):,} of {len(nodes):,} {what} are new to the model, so it knows little about them. Fitted, for "
                f"example: {fitted[0]!r}; here: {here[0]!r}."
            )
    return None


def _is_known(model: Any, edges: TemporalEdges) -> NDArray[np.bool_]:
    """Whether the fitted edges have each node of the table of these edges."""
    fitted = model.edges_
    if not edges.same_table(fitted):
        return fitted.knows_nodes_of(edges)
    known = np.zeros(edges.n_nodes, bool)
    known[fitted.src_code] = known[fitted.dst_code] = True
    return known


def _named_order(names: list[str]) -> list[int]:
    """Positions of src, dst, time and the features in a dataframe, by common column names or else by position."""
    from tdlg.io.columns import usual_at

    found = {role: usual_at(names, role) for role in ROLES}
    if len(names) == ENDS and found["src"] == [1] and found["dst"] == [0]:
        return [1, 0]
    if not any(found.values()) or len(names) <= ENDS:
        return list(range(len(names)))
    unclear = [role for role in ROLES if len(found[role]) != 1]
    in_place = all(not at or k in at for k, at in enumerate(found.values()))
    if unclear and not in_place:
        raise EdgesError(
            f"The columns of X are {names}: by position, {names[0]!r} would be the source, {names[1]!r} the destination and "
            f"{names[2]!r} the time. The names contradict this, but do not show which column is {' and '.join(unclear)}. "
            "Put the columns in the order src, dst, time, features.",
            "Or use `from_frame(X, src=..., dst=..., time=...)`.",
        )
    first = [0, 1, 2] if unclear else [found[role][0] for role in ROLES]
    return first + [k for k in range(len(names)) if k not in first]


def check_target(model: Any, X: Any, y: Any) -> None:
    """Refuse a table without y; scikit-learn's checks expect these words."""
    if hasattr(X, "not_in_memory"):  # scanned edges
        raise X.not_in_memory()
    if y is None and not isinstance(X, TemporalEdges):
        hints = [_as_label(name) for name in _labels_among(getattr(X, "columns", []))]
        raise EdgesError(f"{type(model).__name__} requires y to be passed, but the target y is None.", *hints)


def _labels_among(names: Iterable[Any]) -> list[str]:
    """The names of columns that are called label."""
    return [str(name) for name in names if str(name).lower() == "label"]


def _as_label(name: str) -> str:
    return f"Leave it out of X and pass it as y, or use `from_frame(X, label={name!r})`."


def known_labels(edges: TemporalEdges, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """The labels (y, by default those of the edges), the mask of known labels, and the known labels."""
    if y is not None:
        edges = edges.with_label(y if hasattr(y, "to_list") else column_or_1d(y, warn=True))
    if edges.label is None:
        raise EdgesError(
            "The edges have no labels to learn from.",
            f"Pass them as y, or with the edges: `{LABELS_OF_EDGES}`.",
            "Use a missing label (NaN, None) for an edge whose label is to be predicted.",
        )
    return edges.label, edges.labelled, _in_own_type(edges.label[edges.labelled], y, edges.labelled)


def known_and_predicted(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """For `score`: the known labels (y, by default those of X), what a model predicts for them, and their weights."""
    check_is_fitted(model)
    check_target(model, X, y)
    edges = X if isinstance(X, TemporalEdges) else model._edges(X, reset=False)
    _, known, values = known_labels(edges, y)
    if not known.any():
        raise EdgesError("All labels are missing: there is nothing to compare with. Pass the labels of some edges.")
    return values, model.predict(X)[known], None if sample_weight is None else np.asarray(sample_weight)[known]


def _in_own_type(labels: NDArray[Any], y: Any, known: NDArray[np.bool_]) -> NDArray[Any]:
    """Known labels in their own type: booleans or integers, if only missing labels turned them into objects or floats."""
    types = set(map(type, labels)) if labels.dtype == object else set()
    if types in ({bool}, {int}):  # integers beyond 2**53 with missing labels are stored as objects
        return labels.astype(types.pop())
    were_floats = str(getattr(y, "dtype", "")).lower().startswith("float")
    if labels.dtype.kind != "f" or were_floats or known.all():
        return labels
    given = y.to_list() if hasattr(y, "to_list") else y
    if not isinstance(given, list | np.ndarray):
        return labels
    found = [value for value, keep in zip(given, known, strict=True) if keep]
    return np.array(found) if all(isinstance(value, Integral) for value in found) else labels


# ---- models that give reasons


@dataclass(frozen=True, eq=False)
class Scored:
    """Edges that a model has scored, with all that it computed for them.

    `explain`, `node_scores` and the report take it in place of the edges, so that nothing is computed twice.
    """

    edges: TemporalEdges  # with ids as the model has them
    values: NDArray[np.float64]  # probabilities, (n_edges, n_classes), or the numbers of a regressor, (n_edges,)
    query: Any = None  # of a propagation model: what is known when the whole is scored
    columns: Any = None  # and the columns of these edges
    whole: TemporalEdges | None = None  # all edges that were scored together; None if these are all
    at: NDArray[np.int64] | None = None  # the positions of these edges among them

    def some(self, which: NDArray[np.int64]) -> Scored:
        """Some of the edges, by position."""
        columns = None if self.columns is None else self.columns[which]
        whole = self.edges if self.whole is None else self.whole
        return Scored(self.edges[which], self.values[which], self.query, columns, whole, self.places(which))

    def places(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of some of these edges among all that were scored together."""
        return which if self.at is None else self.at[which]


class Explainable(ABC):
    """A model that gives reasons for its predictions: what `node_scores`, the report and `tdlg explain` rely on."""

    @abstractmethod
    def scored(self, X: Any, *, label_time: Any = None) -> Scored:
        """Score edges, and keep what was computed for them; see `PropagationClassifier.scored`."""

    def report(self, edges: Any = None, **options: Any) -> Any:
        """Make the report on this model, which a notebook shows inline; `tdlg.report.write_report` writes it to a file.

        Parameters
        ----------
        edges
            The edges to report on; by default those that the model was fitted on.
        **options
            Those of `tdlg.report.write_report`: `label_name`, `title`, `positive`, `ids`, `evaluate`, `seed` and others.

        Returns
        -------
        tdlg.report.page.Page
            The page; its text is `page.html`.
        """
        from importlib import import_module

        page = import_module("tdlg.report.page")  # which stands above the models
        return page.Page(page.build_report(self, edges, **options))

    @abstractmethod
    def explain(
        self, X: Any, top: int = 3, *, rows: Any = None, positive: Any = None, label_time: Any = None
    ) -> pl.DataFrame:
        """The reasons that moved each prediction most, one row per reason; see `tdlg.explain.explain_propagation`."""

    @abstractmethod
    def _node_reasons(
        self, scored: Scored, riskiest: NDArray[np.int64], sampled: NDArray[np.int64], code: int | None
    ) -> list[str | None]:
        """One reason per node, given its riskiest edge and some sampled ones; None where nothing raised the score."""
