"""scikit-learn estimators inside a model: saved in the skops format, with a fixed list of trusted types."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from sklearn.base import BaseEstimator

from tdlg.exceptions import ParameterError

_LOSS, _LINK, _TREES = "sklearn._loss.loss.", "sklearn._loss.link.", "sklearn.ensemble._hist_gradient_boosting."
# Trusted types: those of skops itself (scikit-learn's estimators, numpy) and these. The file has no influence on the list.
TRUSTED = (
    *(_LOSS + name for name in ("HalfBinomialLoss", "HalfMultinomialLoss", "HalfSquaredError")),
    *(_LINK + name for name in ("IdentityLink", "Interval", "LogitLink", "MultinomialLogit")),
    _TREES + "binning._BinMapper",
    _TREES + "predictor.TreePredictor",  # skops leaves it out as its indices are not checked: `_check_trees` does
    "functools.partial",  # with categorical features, of check_array; what a partial calls must be trusted as well
    "sklearn.utils.validation.check_array",
)


def is_part(value: Any) -> bool:
    """Whether this is an estimator of scikit-learn itself."""
    return isinstance(value, BaseEstimator) and type(value).__module__.partition(".")[0] == "sklearn"


def part_to_bytes(estimator: Any, where: str) -> bytes:
    """Write an estimator; refuse one that could not be read again."""
    from skops.io import dumps, get_untrusted_types

    problem = f"{where}, a {type(estimator).__name__}, cannot be saved:"
    try:
        data = _without_addresses(bytes(dumps(estimator)))
        unknown = sorted(set(get_untrusted_types(data=data)) - set(TRUSTED))
    except (AttributeError, TypeError, ValueError) as error:
        raise ParameterError(f"{problem} skops says {error}", parameter="model") from error
    if unknown:
        problem += f" it holds types that are not trusted on loading, {', '.join(unknown)}."
        hint = "Use another estimator, such as HistGradientBoostingClassifier or LogisticRegression."
        raise ParameterError(problem, hint, parameter="model")
    return data


def part_from_bytes(data: bytes) -> Any:
    """Read an estimator; refuse types that are not trusted, and trees with invalid nodes."""
    from skops.io import loads

    with ZipFile(io.BytesIO(data)) as file:
        check_stored(file, len(data))
    estimator = loads(data, trusted=list(TRUSTED))
    if not is_part(estimator):
        raise ValueError(f"{type(estimator).__name__} is not a scikit-learn estimator")
    for part in _objects(estimator):
        if type(part).__name__.startswith("HistGradientBoosting") and hasattr(part, "_predictors"):
            _check_trees(part)
    return estimator


def check_stored(file: ZipFile, size: int) -> None:
    """Refuse a zip that compresses its members or declares more bytes than it has."""
    members = file.infolist()
    packed = [m.filename for m in members if m.compress_type != ZIP_STORED or m.file_size != m.compress_size]
    if packed or sum(member.file_size for member in members) > size:
        raise ValueError(f"its members declare more bytes than the file has: {packed[:3]}")


def _without_addresses(data: bytes) -> bytes:
    """Number the objects and members, which skops names by memory address or at random: same model, same bytes."""
    with ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    schema = json.loads(members.pop("schema.json"))
    numbers: dict[Any, int] = {}
    names: dict[str, str] = {}
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if isinstance(node.get("__id__"), int):
                node["__id__"] = numbers.setdefault(node["__id__"], len(numbers))
            if (old := node.get("file")) in members:
                node["file"] = names.setdefault(old, f"{len(names)}.{old.rpartition('.')[2]}")
        todo += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    with ZipFile(written := io.BytesIO(), "w") as file:
        for old, name in names.items():
            file.writestr(ZipInfo(name), members[old])
        file.writestr(ZipInfo("schema.json"), json.dumps(schema))
    return written.getvalue()


def _objects(value: Any) -> Iterator[Any]:
    """Every object of scikit-learn inside a value, itself included."""
    todo, seen = [value], set()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype == object):
            todo += list(value)
        elif type(value).__module__.startswith("sklearn.") and hasattr(value, "__dict__"):
            yield value
            todo += vars(value).values()


def _check_trees(part: Any) -> None:
    """Refuse boosted trees that read outside their arrays or have cycles: scikit-learn does not check this."""
    categorical = np.asarray(part._bin_mapper.is_categorical_, bool)
    if categorical.shape != (part._n_features,):
        raise ValueError("the trees' features are not those of the model")
    for predictor in (tree for trees in part._predictors for tree in trees):
        nodes, bitsets = predictor.nodes, predictor.raw_left_cat_bitsets
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        at = nodes[inner]
        ahead = np.minimum(at["left"], at["right"]) > inner  # a child comes after its parent: every walk ends
        inside = np.maximum(at["left"], at["right"]) < len(nodes)
        known = (at["feature_idx"] >= 0) & (at["feature_idx"] < len(categorical))
        sound = nodes.ndim == 1 and len(nodes) > 0 and (ahead & inside & known).all()
        if sound and len(split := at[at["is_categorical"] != 0]):
            fits = bitsets.ndim == 2 and bitsets.shape[1] == 8 and bitsets.dtype == np.uint32
            sound = fits and (split["bitset_idx"] < len(bitsets)).all() and categorical[split["feature_idx"]].all()
        if not sound:
            raise ValueError("a tree's nodes lead outside the tree")
