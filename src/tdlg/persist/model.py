"""Fitted models as files: no executable code, written completely or not at all, with bit-identical predictions.

A file is a zip of a manifest in json, arrays in npy, and scikit-learn estimators in the skops format. Members are stored
without compression, so their sizes cannot exceed the file and a small file cannot fill the memory. The comment of the zip,
at the end of the file, is the sha256 of every byte before it.

The manifest has values as json: plain ones as they are, all others as {"kind": ..., ...}, with the members they refer to.
Names from the file are looked up only in the fixed tables below and among the public estimators of this package. Skops alone
does not suffice: it confuses keys of dicts ({True: 5, False: 1} becomes {True: 1}), needs 600 bytes per string, and checks
no array before it is allocated.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
from collections.abc import Callable, Hashable, Iterator
from datetime import timedelta
from importlib import import_module
from typing import IO, Any, BinaryIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo, is_zipfile

import numpy as np
import sklearn
from numpy.lib import format as npy
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tdlg import __version__
from tdlg.atomic import as_path, is_special, new_file, target_of
from tdlg.checks import read_only
from tdlg.clock import UNITS
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, ReadError
from tdlg.tables.edge_table import EdgeTable
from tdlg.tables.features import Features

FORMAT = "tdlg model"
FORMAT_VERSION = 10  # increased when fitted models get other attributes or columns; files of other versions are refused
MANIFEST = "manifest.json"
MARK = b"tdlg model, sha256 "
HEX_DIGITS = 64  # of a sha256 in hexadecimal
HASHED_AT_ONCE = 1 << 20  # bytes
OTHER_FILE = "this is not a tdlg model{}. Pass the path of a saved model."

MEMBER = re.compile(r"[0-9]{6,9}\.(npy|json|skops)")
SCALARS, ARRAYS = "biufcmM", "biufcmMUS"  # numpy kinds that are fully described by their bytes
SHARED = ("edges", "table", "part", "estimator")  # only these kinds, none of which is hashed by its content
JSON_INTEGERS = range(-(2**63), 2**63)
RECORDS = {
    "Calibration": "tdlg.models.surprise",
    "ColumnPlan": "tdlg.propagate.plan",
    "LinkModel": "tdlg.models.links",
    "OwnColumn": "tdlg.propagate.plan",
    "SurprisePlan": "tdlg.propagate.bursts",
    "Trees": "tdlg.models.trees",
}
DECAYS = dict.fromkeys(("Gaussian", "Laplace", "Mixture", "NoDecay"), "tdlg.linegraph.decay")
FIELDS = {"record": RECORDS, "decay": DECAYS}  # NamedTuples and dataclasses, and their modules

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


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted estimator of this package to a file that `load_model` reads; its `save` method calls this.

    An existing file is replaced only when the new one is complete. A slice of edges is saved with its whole table, so that
    the loaded model recognises the edges that it was fitted to.
    """
    class_ = type(model)
    if not is_estimator(class_):
        problem = f"The 'model' must be an estimator of tdlg. Got {class_.__module__}.{class_.__qualname__} instead."
        raise ParameterError(problem, "Save a scikit-learn model with skops.io.dump.", parameter="model")
    try:
        check_is_fitted(model)
    except NotFittedError:
        problem = f"This {class_.__name__} is not fitted, so there is nothing to save. Call fit first."
        raise NotFittedError(problem) from None
    if is_special(target := target_of(path)):
        problem = f"The 'path' of a model must be a file. {str(target)!r} is a device or pipe: pass the name of a file."
        raise ParameterError(problem, parameter="path")
    made_with = {"tdlg": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    manifest = {"format": FORMAT, "format_version": FORMAT_VERSION, "made_with": made_with}
    with new_file(target) as file:
        with ZipFile(file, "w") as zipped:
            zipped.comment = MARK + b"0" * HEX_DIGITS
            encoder = Encoder(zipped)
            root = encoder.encode(model, class_.__name__)
            encoder.write_json(MANIFEST, {**manifest, "model": root, "shared": encoder.shared})
        digest = _checksum(file)
        file.seek(-HEX_DIGITS, os.SEEK_END)
        file.write(digest)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a model that was written by its `save` method; its predictions are bit-identical.

    Nothing in the file is executed: it can only name public estimators of this package, and scikit-learn objects of a fixed
    list of types.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    estimator
        The fitted estimator, of the class that was saved.

    Raises
    ------
    ReadError
        If the file is missing, truncated, damaged, not a model, or of another version of the format.
    ParameterError
        If the path is not a path.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import LineGraphClassifier, TemporalEdges, load_model
    >>> edges = TemporalEdges(["a", "b", "c", "a"], ["x", "y", "x", "y"], [1, 2, 3, 4], label=["good", "bad", "good", None])
    >>> model = LineGraphClassifier(bandwidth=5.0).fit(edges)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ratings.tdlg"
    >>> model.save(path)
    >>> loaded = load_model(path)
    >>> loaded
    LineGraphClassifier(bandwidth=5.0)
    >>> (loaded.predict_proba(edges) == model.predict_proba(edges)).all()
    np.True_
    """
    path = as_path(path)
    if not path.is_file():
        what = "this is a folder or device, not a file" if path.exists() else "there is no such file"
        raise ReadError(f"{path}: {what}. Pass the path of a saved model.")
    with open(path, "rb") as file:
        if complaint := _complaint(file):
            raise ReadError(f"{path}: {complaint}")
        try:
            zipped = ZipFile(file)
            manifest = json.loads(zipped.read(MANIFEST))
            version, made_with = manifest["format_version"], manifest["made_with"]
            made_by = made_with["tdlg"]
            is_ours = manifest["format"] == FORMAT and type(version) is int and version >= 1
        except Exception as error:  # struct.error, NotImplementedError and others, not only BadZipFile
            raise ReadError(f"{path}: {OTHER_FILE.format(f' ({error})')}") from error
        if not is_ours:
            raise ReadError(f"{path}: {OTHER_FILE.format('')}")
        if version != FORMAT_VERSION:
            hint = "Models of older versions lack what this one needs to score. Fit the model again and save it."
            if version > FORMAT_VERSION:
                hint = f"Install tdlg {made_by} or newer: update the clone of tdlg and run pip install . in it."
            raise ReadError(
                f"{path}: the model has version {version} of the format, written by tdlg {made_by}; this is tdlg "
                f"{__version__}, which reads version {FORMAT_VERSION}. {hint}"
            )
        try:
            _check_members(zipped, os.fstat(file.fileno()).st_size)
            model = Decoder(zipped, manifest["shared"]).decode(manifest["model"])
            if not is_estimator(type(model)):
                raise ValueError(f"it holds a {type(model).__name__}, which is not a model")
        except Exception as error:  # whatever a file with a right checksum makes the parsers raise
            versions = ", ".join(f"{name} {version}" for name, version in made_with.items())
            raise ReadError(
                f"{path}: the model cannot be rebuilt: {error}. It was written with {versions}; this is tdlg "
                f"{__version__}. Load it with the versions it was written with, or fit and save it again."
            ) from error
    return model


def _check_members(file: ZipFile, size: int) -> None:
    """Refuse names that `Encoder` does not use, and sizes that do not match uncompressed members."""
    names = file.namelist()
    unknown = [name for name in names if name != MANIFEST and not MEMBER.fullmatch(name)]
    if unknown or len(set(names)) < len(names):
        raise ValueError(f"it has members that no model has: {(unknown or names)[:3]}")
    check_stored(file, size)


def _complaint(file: BinaryIO) -> str | None:
    """What is wrong with the end of a file, where its checksum is, and what to do; None if the checksum is right."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(MARK) - HEX_DIGITS))
    end = file.read()
    if end.startswith(MARK) and len(end) == len(MARK) + HEX_DIGITS:
        if _checksum(file) == end[-HEX_DIGITS:]:
            return None
        problem = "the file is damaged: its checksum does not match"
    elif not size:
        problem = "the file is empty"
    else:
        file.seek(0)
        if file.read(2) != b"PK" or is_zipfile(file):
            return OTHER_FILE.format("")
        problem = "the file is truncated or damaged: its end is missing"
    return f"{problem}. Copy or download it again, or save the model again."


def _checksum(file: BinaryIO) -> bytes:
    """The sha256 of all bytes except the last ones, which contain it."""
    left = file.seek(0, os.SEEK_END) - HEX_DIGITS
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(HASHED_AT_ONCE, left))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()


# ---- values as json and members


def is_estimator(class_: type) -> bool:
    """Whether this is a public estimator of this package itself, not a subclass of one."""
    return _estimator_named(class_.__name__) is class_


def _estimator_named(name: str) -> Any:
    package = import_module("tdlg")  # a file may only name its public classes
    found = getattr(package, name) if name in package.__all__ else None
    return found if isinstance(found, type) and issubclass(found, BaseEstimator) else None


def _named_in(modules: dict[str, str], name: str) -> Any:
    """The class of this name; its module, which may depend on this one, is imported only when it is needed."""
    return getattr(import_module(modules[name]), name) if name in modules else None


class Encoder:
    """Converts values to json, and arrays to members of a zip. `shared` has the objects referred to by number."""

    def __init__(self, file: ZipFile) -> None:
        self.shared: list[Any] = []
        self._file = file
        self._n_members = 0
        self._places: dict[Hashable, Any] = {}
        self._kept: list[Any] = []  # keeps shared objects alive, so that no other object gets the same id

    def encode(self, value: Any, where: str) -> Any:
        """Return the json of a value; `where` names it in the error if its type cannot be saved."""
        class_ = type(value)
        if class_ is str or class_ is bool or value is None:
            return value
        if (class_ is int and value in JSON_INTEGERS) or (class_ is float and math.isfinite(value)):
            return value
        if class_ is list:
            return [self.encode(item, f"{where}[{k}]") for k, item in enumerate(value)]
        if class_ in (np.ndarray, np.memmap):
            return self._array(value, where)
        kind = _kind_of(value)
        if kind is None:
            hint = "Use numbers, strings, arrays, lists, tuples, dicts, decays, edges or estimators."
            if class_ in (np.random.RandomState, np.random.Generator):
                hint = "Use a whole number instead, such as random_state=0; no new fit is needed."
            elif isinstance(value, BaseEstimator):
                hint = "Use an estimator of tdlg or scikit-learn itself, not a subclass of one."
            problem = f"{where} is a {class_.__module__}.{class_.__qualname__}, which cannot be saved."
            raise ParameterError(problem, hint, parameter="model")
        if kind not in SHARED:
            return {"kind": kind, **self._fields(kind, value, where)}
        if id(value) not in self._places:  # an object that occurs twice stays one object
            self._kept.append(value)
            encoded = {"kind": kind, **self._fields(kind, value, where)}  # which may share more
            self._places[id(value)] = len(self.shared)
            self.shared.append(encoded)
        return {"kind": "shared", "index": self._places[id(value)]}

    def write_json(self, name: str, value: Any) -> None:
        """Add a member of json."""
        with self._open(name) as member:
            member.write(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())

    def _open(self, name: str) -> IO[bytes]:
        return self._file.open(ZipInfo(name), "w", force_zip64=True)  # without the current time: same model, same bytes

    def _next(self, suffix: str) -> str:
        self._n_members += 1
        return f"{self._n_members:06}.{suffix}"

    def _named(self, values: dict[str, Any], where: str) -> dict[str, Any]:
        return {name: self.encode(value, f"{where}.{name}") for name, value in values.items()}

    def _fields(self, kind: str, value: Any, where: str) -> dict[str, Any]:
        if kind == "tuple":
            return {"items": self.encode(list(value), where)}
        if kind == "dict":
            pairs = value.items()
            return {"items": [(self.encode(k, f"{where}'s key"), self.encode(v, f"{where}[{k!r}]")) for k, v in pairs]}
        if kind in FIELDS:
            fields = {name: getattr(value, name) for name in value.__match_args__}
            return {"name": type(value).__name__, "fields": self._named(fields, where)}
        if kind == "part":
            data = part_to_bytes(value, where)
            with self._open(name := self._next("skops")) as member:
                member.write(data)
            return {"member": name}
        if kind == "estimator":
            params = value.get_params(deep=False)
            left_out = {*params, "_metadata_request"}  # scikit-learn recomputes its metadata routing
            fitted = {name: item for name, item in value.__getstate__().items() if name not in left_out}
            named = {"params": self._named(params, where), "fitted": self._named(fitted, where)}
            return {"class": type(value).__name__, **named}
        return self._named(STATES[kind](value), where)

    def _array(self, value: NDArray[Any], where: str) -> Any:
        address = value.__array_interface__["data"][0], value.shape, value.strides, value.dtype.str
        if address not in self._places:
            self._kept.append(value)
            self._places[address] = self._new_array(value, where)
        return self._places[address] | {"frozen": not value.flags.writeable}

    def _new_array(self, value: NDArray[Any], where: str) -> dict[str, Any]:
        if value.dtype.kind == "O":
            items = self.encode(value.ravel().tolist(), where)
            self.write_json(name := self._next("json"), items)
            return {"kind": "objects", "shape": value.shape, "member": name}
        if value.dtype.kind not in ARRAYS or not value.dtype.itemsize:
            problem = f"{where} is an array of {value.dtype}, which cannot be saved. Use another dtype."
            raise ParameterError(problem, parameter="model")
        with self._open(name := self._next("npy")) as member:
            npy.write_array(member, np.asarray(value), version=(1, 0), allow_pickle=False)  # in the same memory order
        return {"kind": "array", "member": name}


class Decoder:
    """Converts the result of `Encoder` back to values; raises a ValueError or similar if it is not such a result."""

    def __init__(self, file: ZipFile, shared: list[Any]) -> None:
        self._file = file
        self._shared = shared
        self._found: dict[Hashable, Any] = {}

    def decode(self, node: Any) -> Any:
        """Return the value of a result of `Encoder.encode`."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        match node:
            case {"kind": "shared", "index": int(index)}:
                if (kind := self._shared[index]["kind"]) not in SHARED:  # nested tuples could take forever to hash
                    raise ValueError(f"a {kind} is never shared")
                return self._once(index, lambda: self.decode(self._shared[index]))
            case {"kind": "array" | "objects" as kind, "member": str(name), "frozen": frozen}:
                array = self._once(
                    name, lambda: self._array(name) if kind == "array" else self._objects(name, node["shape"])
                )
                return read_only(array) if frozen else array
            case {"kind": "part", "member": str(name)}:
                return part_from_bytes(self._member(name, "skops"))
            case {"kind": "record" | "decay" as kind, "name": str(name), "fields": dict(fields)}:
                return _named_in(FIELDS[kind], name)(**self._named(fields))
            case {"kind": "estimator", "class": str(name), "params": dict(params), "fitted": dict(fitted)}:
                if (class_ := _estimator_named(name)) is None:
                    raise ValueError(f"this version has no estimator {name!r}")
                model = class_(**self._named(params))
                model.__setstate__(self._named(fitted))
                getattr(model, "_check_loaded", lambda: None)()
                return model
            case {"kind": str(kind), **state}:
                return BUILDERS[kind](**self._named(state))
        raise ValueError("a value has no kind")

    def _named(self, nodes: dict[Any, Any]) -> dict[str, Any]:
        return {name: self.decode(node) for name, node in nodes.items()}

    def _once(self, place: Hashable, build: Callable[[], Any]) -> Any:
        if place not in self._found:
            self._found[place] = build()
        return self._found[place]

    def _member(self, name: str, suffix: str) -> bytes:
        if not MEMBER.fullmatch(name) or not name.endswith(f".{suffix}"):
            raise ValueError(f"{name!r} is not a member of type {suffix}")
        return self._file.read(name)

    def _array(self, name: str) -> NDArray[Any]:
        """An array whose header matches its size: numpy would allocate what the header declares."""
        stream = io.BytesIO(data := self._member(name, "npy"))
        if npy.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} is of another version of npy")
        shape, _, dtype = npy.read_array_header_1_0(stream)
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in ARRAYS or not dtype.itemsize or size != len(data) - stream.tell():
            raise ValueError(f"{name} declares {shape} of {dtype}, but has other content")
        stream.seek(0)
        return npy.read_array(stream, allow_pickle=False)

    def _objects(self, name: str, shape: list[int]) -> NDArray[Any]:
        items = self.decode(json.loads(self._member(name, "json")))
        array = np.empty(len(items), object)
        for k, item in enumerate(items):  # array[:] would spread tuples over a second dimension
            array[k] = item
        return array.reshape(tuple(shape))


def _kind_of(value: Any) -> str | None:
    class_, name = type(value), type(value).__name__
    if class_ in KIND_OF:
        return KIND_OF[class_]
    if isinstance(value, np.generic):
        return "scalar" if value.dtype.kind in SCALARS else None
    for kind, modules in FIELDS.items():
        if _named_in(modules, name) is class_:
            return kind
    if is_part(value):
        return "part"
    return "estimator" if isinstance(value, BaseEstimator) and is_estimator(class_) else None


# ---- estimators of scikit-learn inside a model: in the skops format, with a fixed list of trusted types


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
    for part in _sklearn_objects(estimator):
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


def _sklearn_objects(value: Any) -> Iterator[Any]:
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


# ---- what kernels trust: checked when it comes from a file


def _table_state(table: EdgeTable) -> dict[str, Any]:
    """The columns of a whole table, with the token by which a loaded model recognises the edges that it was fitted to."""
    state = {name: getattr(table, name) for name in ("token", "src", "dst", "ticks", "unit", "weight", "bipartite")}
    has_spaces = table.src is None or table.dst is None  # nodes follow from integer ids
    state["spaces"] = [list(space) for space in table.spaces] if has_spaces else None
    return {**state, "features": None if table.features is None else table.features._asdict()}


def _table_from(
    token: Any, src: Any, dst: Any, ticks: Any, unit: Any, weight: Any, bipartite: Any, spaces: Any, features: Any
) -> EdgeTable:
    _require(_is_column(ticks, "if") and ticks.itemsize == 8, "times that are not numbers")
    _require(bool(np.isfinite(ticks).all()), "times that are not numbers")
    _require(unit is None or (unit in UNITS and ticks.dtype.kind == "i"), "times of an unknown unit")
    _require(isinstance(bipartite, bool) and isinstance(token, str), "no table")
    _require(spaces is not None or not (src is None or dst is None), "ends without ids")
    state = {"token": token, "ticks": read_only(ticks), "unit": unit, "bipartite": bipartite}
    for name, column, kind in (("src", src, "i"), ("dst", dst, "i"), ("weight", weight, "f")):
        _require(column is None or (_is_column(column, kind) and len(column) == len(ticks)), f"{name} of other edges")
        state[name] = None if column is None else read_only(column)
    if features is not None:
        features = _features_from(len(ticks), **features)
    if spaces is not None:
        _check_codes(spaces, bipartite, len(ticks))
        spaces = [tuple(map(read_only, space)) for space in spaces]
    table = EdgeTable.__new__(EdgeTable)
    table.__setstate__({**state, "features": features, "_spaces": spaces})
    return table


def _check_codes(spaces: Any, bipartite: bool, n_edges: int) -> None:
    """Refuse ids and codes of the types of nodes unless every code is the position of an id."""
    _require(len(spaces) == 1 + bipartite, "ids of the wrong number of node types")
    start = 0
    for side, (ids, *codes) in enumerate(spaces):
        _require(_is_column(ids, "ifO"), "ids of an unknown type")
        lengths = [0, 0] if bipartite else [n_edges, n_edges]
        lengths[side] = n_edges
        for code, length in zip(codes, lengths, strict=True):
            _require(_is_column(code, "i") and code.dtype == np.int32 and len(code) == length, "codes of other edges")
            _require(not length or (code.min() >= start and code.max() < start + len(ids)), "codes without ids")
        start += len(ids)


def _features_from(n_edges: int, matrix: Any, names: Any, categories: Any) -> Features:
    _require(
        isinstance(matrix, np.ndarray) and matrix.dtype in (np.float32, np.float64), "features that are not numbers"
    )
    _require(isinstance(names, tuple) and matrix.shape == (n_edges, len(names)), "features of other edges")
    _require(isinstance(categories, dict) and set(categories) <= set(names), "categories of other features")
    return Features(read_only(matrix), names, categories)


def _edges_from(table: Any, rows: Any, label: Any, label_ticks: Any) -> TemporalEdges:
    _require(type(table) is EdgeTable, "edges without a table")
    if not isinstance(rows, range):
        _require(_is_column(rows, "i") and rows.dtype == np.int64, "rows that are not positions")
        rows = read_only(rows)
    if len(rows):
        ends = (rows[0], rows[-1]) if isinstance(rows, range) else (rows.min(), rows.max())
        _require(all(0 <= row < len(table.ticks) for row in ends), "rows outside the table")
    _require(label is None or (_is_column(label, "iufbO") and len(label) == len(rows)), "labels of other edges")
    if label_ticks is not None:
        known = _is_column(label_ticks, table.ticks.dtype.kind) and label_ticks.itemsize == 8
        _require(known and len(label_ticks) == len(rows), "times of labels that are not those of the edges")
    edges = TemporalEdges.__new__(TemporalEdges)
    edges.__setstate__((table, rows, label, label_ticks))
    return edges


def _scalar_from(dtype: str, value: str) -> Any:
    _require(np.dtype(dtype).kind in SCALARS, f"a number of the dtype {dtype}")
    return np.frombuffer(bytes.fromhex(value), dtype, 1)[0]


def _is_column(array: Any, kinds: str) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in kinds and array.dtype.isnative


def _require(is_right: bool, complaint: str) -> None:
    if not is_right:
        raise ValueError(f"it holds {complaint}")


KIND_OF = {int: "int", float: "float", tuple: "tuple", dict: "dict", range: "range", timedelta: "timedelta"}
KIND_OF |= {np.str_: "string", TemporalEdges: "edges", EdgeTable: "table"}
STATES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "int": lambda v: {"value": hex(v)},
    "float": lambda v: {"value": struct.pack(">d", v).hex()},
    "range": lambda v: {"start": v.start, "stop": v.stop, "step": v.step},
    "timedelta": lambda v: {"parts": [v.days, v.seconds, v.microseconds]},
    "string": lambda v: {"value": str(v)},
    "scalar": lambda v: {"dtype": v.dtype.str, "value": v.tobytes().hex()},
    "edges": lambda v: dict(zip(("table", "rows", "label", "label_ticks"), v.__getstate__(), strict=True)),
    "table": _table_state,
}
BUILDERS: dict[str, Callable[..., Any]] = {
    "int": lambda value: int(value, 16),
    "float": lambda value: struct.unpack(">d", bytes.fromhex(value))[0],
    "tuple": lambda items: tuple(items),
    "dict": lambda items: dict(items),
    "range": lambda start, stop, step: range(start, stop, step),
    "timedelta": lambda parts: timedelta(*parts),
    "string": lambda value: np.str_(value),
    "scalar": _scalar_from,
    "edges": _edges_from,
    "table": _table_from,
}
