"""The content of a saved model: values as json, each with a kind, and the members of an archive that they refer to.

Plain values are written as they are; all others are {"kind": ..., ...}. Names from the file are looked up only in the fixed
tables below and among the public estimators of this package.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from tdlg.edges import TemporalEdges
from tdlg.exceptions import Hint, ParameterError
from tdlg.linegraph.decay import Decay, Gaussian, Laplace, Mixture, NoDecay
from tdlg.persist.archive import KINDS, ArchiveReader, ArchiveWriter
from tdlg.persist.edges import edges_from, edges_state, table_from, table_state
from tdlg.persist.sklearn_parts import is_part, part_from_bytes, part_to_bytes
from tdlg.tables.column import read_only
from tdlg.tables.edge_table import EdgeTable

__all__ = ["Decoder", "Encoder", "is_estimator"]

PLAIN = (type(None), bool, str)
DECAYS: dict[str, type[Decay]] = {class_.__name__: class_ for class_ in (Gaussian, Laplace, Mixture, NoDecay)}
METHODS = {
    "CTDNE": "tdlg.methods.ctdne",
    "DyLink2Vec": "tdlg.methods.dylink2vec",
    "DyRep": "tdlg.methods.dyrep",
    "DynGEM": "tdlg.methods.dyngem",
    "EvolveGCN": "tdlg.methods.evolvegcn",
    "GCRN": "tdlg.methods.gcrn",
    "TIMERS": "tdlg.methods.timers",
    "VGRNN": "tdlg.methods.vgrnn",
}  # estimators that are not names of the package itself, and their modules
RECORDS = {
    "Code": "tdlg.methods.dylink2vec",
    "LinkModel": "tdlg.models.link_columns",
    "OwnColumn": "tdlg.propagate.own_features",
    "RankingTrees": "tdlg.rank.trees",
}  # NamedTuples and their modules
SHARED = ("edges", "table", "part", "estimator")  # only these kinds, none of which is hashed by its content
JSON_INTEGERS = range(-(2**63), 2**63)


def is_estimator(class_: type) -> bool:
    """Whether this is a public estimator or a method of this package itself, not a subclass of one."""
    return _estimator_named(class_.__name__) is class_


def _estimator_named(name: str) -> Any:
    if name in METHODS:
        return getattr(import_module(METHODS[name]), name)
    package = import_module("tdlg")  # a file may only name its public classes
    found = getattr(package, name) if name in package.__all__ else None
    return found if isinstance(found, type) and issubclass(found, BaseEstimator) else None


def _record_named(name: str) -> Any:
    """A NamedTuple in fitted models; its module, which depends on this one, is imported only when it is needed."""
    return getattr(import_module(RECORDS[name]), name) if name in RECORDS else None


class Encoder:
    """Converts values to json, and arrays to members of an archive. `shared` has the objects referred to by number.

    Each rule takes a value and its place in the model, for error messages, and returns the fields of its kind.
    """

    def __init__(self, archive: ArchiveWriter) -> None:
        self.shared: list[Any] = []
        self._archive = archive
        self._places: dict[Hashable, Any] = {}
        self._kept: list[Any] = []  # keeps shared objects alive, so that no other object gets the same id
        self._rules: dict[type, tuple[str, Callable[[Any, str], Any]]] = {
            tuple: ("tuple", self._tuple),
            dict: ("dict", self._dict),
            range: ("range", lambda value, _: {"start": value.start, "stop": value.stop, "step": value.step}),
            timedelta: ("timedelta", self._timedelta),
            csr_array: ("csr", self._csr),
            **dict.fromkeys(DECAYS.values(), ("decay", self._decay)),
        }

    def encode(self, value: Any, where: str) -> Any:
        """Return the json of a value; `where` names it in the error if its type cannot be saved."""
        class_ = type(value)
        if class_ in PLAIN or (class_ is int and value in JSON_INTEGERS) or (class_ is float and math.isfinite(value)):
            return value
        if class_ is list:
            return [self.encode(item, f"{where}[{k}]") for k, item in enumerate(value)]
        if class_ in self._rules:
            name, rule = self._rules[class_]
            return {"kind": name, **rule(value, where)}
        if class_ in (int, float):
            return {"kind": class_.__name__, "value": hex(value) if class_ is int else struct.pack(">d", value).hex()}
        return self._encode_large(value, where)

    def _encode_large(self, value: Any, where: str) -> Any:
        if type(value) in (np.ndarray, np.memmap):
            return self._array(value, where)
        if isinstance(value, np.generic):
            return self._scalar(value, where)
        if isinstance(value, tuple) and _record_named(type(value).__name__) is type(value):
            fields = self._named(value._asdict(), where)  # type: ignore[attr-defined]  # which a NamedTuple has
            return {"kind": "record", "name": type(value).__name__, "fields": fields}
        if type(value) is TemporalEdges:
            return self._share(value, lambda: self._edges(value, where))
        if is_part(value):
            data = part_to_bytes(value, where)
            return self._share(value, lambda: {"kind": "part", "member": self._archive.add_bytes(data, "skops")})
        if isinstance(value, BaseEstimator) and is_estimator(type(value)):
            return self._share(value, lambda: self._estimator(value, where))
        raise _unsupported(value, where)

    def _share(self, value: Any, encode: Callable[[], Any]) -> Any:
        """A reference, so that an object that occurs twice stays one object."""
        if id(value) not in self._places:
            self._kept.append(value)
            encoded = encode()  # which may share more
            self._places[id(value)] = len(self.shared)
            self.shared.append(encoded)
        return {"kind": "shared", "index": self._places[id(value)]}

    def _tuple(self, value: Any, where: str) -> Any:
        return {"items": self.encode(list(value), where)}

    def _dict(self, value: Any, where: str) -> Any:
        pairs = [
            (self.encode(key, f"{where}'s key"), self.encode(item, f"{where}[{key!r}]")) for key, item in value.items()
        ]
        return {"items": pairs}

    def _timedelta(self, value: timedelta, _: str) -> Any:
        return {"parts": [value.days, value.seconds, value.microseconds]}

    def _decay(self, value: Any, where: str) -> Any:
        given = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"name": type(value).__name__, "fields": self._named(given, where)}

    def _csr(self, value: Any, where: str) -> Any:
        parts = {name: getattr(value, name) for name in ("data", "indices", "indptr")}
        return {"shape": list(map(int, value.shape)), **self._named(parts, where)}

    def _named(self, named: dict[str, Any], where: str) -> dict[str, Any]:
        return {name: self.encode(value, f"{where}.{name}") for name, value in named.items()}

    def _scalar(self, value: Any, where: str) -> Any:
        if isinstance(value, np.str_):
            return {"kind": "string", "value": str(value)}
        if value.dtype.kind not in "biufcmM":
            raise _unsupported(value, where)
        return {"kind": "scalar", "dtype": value.dtype.str, "value": value.tobytes().hex()}

    def _array(self, value: NDArray[Any], where: str) -> Any:
        address = value.__array_interface__["data"][0], value.shape, value.strides, value.dtype.str
        if address not in self._places:
            self._kept.append(value)
            self._places[address] = self._new_array(value, where)
        return self._places[address] | {"frozen": not value.flags.writeable}

    def _new_array(self, value: NDArray[Any], where: str) -> dict[str, Any]:
        if value.dtype.kind == "O":
            encoded = self.encode(value.ravel().tolist(), where)
            return {"kind": "objects", "shape": value.shape, "member": self._archive.add_json(encoded)}
        if value.dtype.kind not in KINDS or not value.dtype.itemsize:
            raise ParameterError(
                f"{where} is an array of {value.dtype}, which cannot be saved. Use another dtype.",
                parameter="model",
                value=value,
            )
        return {"kind": "array", "member": self._archive.add_array(np.asarray(value))}

    def _edges(self, edges: TemporalEdges, where: str) -> Any:
        table, view = edges_state(edges)
        whole = self._share(table, lambda: {"kind": "table", **self._named(table_state(table), where)})
        return {"kind": "edges", "table": whole, **self._named(view, where)}

    def _estimator(self, model: Any, where: str) -> Any:
        params = model.get_params(deep=False)
        left_out = {*params, "_metadata_request"}  # scikit-learn recomputes its metadata routing
        fitted = {name: value for name, value in model.__getstate__().items() if name not in left_out}
        encoded = [self._named(values, where) for values in (params, fitted)]
        return {"kind": "estimator", "class": type(model).__name__, "params": encoded[0], "fitted": encoded[1]}


class Decoder:
    """Converts the result of `Encoder` back to values; raises a ValueError or similar if it is not such a result."""

    def __init__(self, archive: ArchiveReader, shared: list[Any]) -> None:
        self._archive = archive
        self._shared = shared
        self._found: dict[Hashable, Any] = {}
        self._rules: dict[str, Callable[[dict[str, Any]], Any]] = {
            "int": lambda node: int(node["value"], 16),
            "float": lambda node: struct.unpack(">d", bytes.fromhex(node["value"]))[0],
            "tuple": lambda node: tuple(self.decode(node["items"])),
            "dict": lambda node: {self.decode(key): self.decode(item) for key, item in node["items"]},
            "range": lambda node: range(node["start"], node["stop"], node["step"]),
            "timedelta": lambda node: timedelta(*node["parts"]),
            "record": lambda node: _record_named(node["name"])(**self._named(node["fields"])),
            "decay": lambda node: DECAYS[node["name"]](**self._named(node["fields"])),
            "csr": self._csr,
            "string": lambda node: np.str_(node["value"]),
            "scalar": self._scalar,
            "array": self._array,
            "objects": self._array,
            "part": lambda node: part_from_bytes(self._archive.data(node["member"], "skops")),
            "edges": self._edges,
            "table": lambda node: table_from(self._named(node)),
            "estimator": self._estimator,
            "shared": lambda node: self._once(node["index"], lambda: self._shared_value(self._shared[node["index"]])),
        }

    def decode(self, node: Any) -> Any:
        """Return the value of a result of `Encoder.encode`."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        return self._rules[node["kind"]](node) if isinstance(node, dict) else node

    def _once(self, place: Hashable, build: Callable[[], Any]) -> Any:
        if place not in self._found:
            self._found[place] = build()
        return self._found[place]

    def _shared_value(self, node: dict[str, Any]) -> Any:
        """An object that may be referred to repeatedly; nested shared tuples could take forever to hash as dict keys."""
        if node["kind"] not in SHARED:
            raise ValueError(f"a {node['kind']} is never shared")
        return self.decode(node)

    def _named(self, named: dict[str, Any]) -> dict[str, Any]:
        return {name: self.decode(node) for name, node in named.items() if name != "kind"}

    def _csr(self, node: dict[str, Any]) -> Any:
        parts = [self.decode(node[name]) for name in ("data", "indices", "indptr")]
        matrix = csr_array(tuple(parts), shape=tuple(node["shape"]))
        matrix.check_format(full_check=True)
        return matrix

    def _scalar(self, node: dict[str, Any]) -> Any:
        dtype = np.dtype(node["dtype"])
        if dtype.kind not in "biufcmM":
            raise ValueError(f"{dtype} is not a dtype of numbers or times")
        return np.frombuffer(bytes.fromhex(node["value"]), dtype, 1)[0]

    def _array(self, node: dict[str, Any]) -> Any:
        array = self._once(node["member"], lambda: self._new_array(node))
        return read_only(array) if node["frozen"] else array

    def _new_array(self, node: dict[str, Any]) -> NDArray[Any]:
        if node["kind"] == "array":
            return self._archive.array(node["member"])
        items = self.decode(self._archive.json(node["member"]))
        array = np.empty(len(items), object)
        for k, item in enumerate(items):  # array[:] would spread tuples over a second dimension
            array[k] = item
        return array.reshape(tuple(node["shape"]))

    def _edges(self, node: dict[str, Any]) -> TemporalEdges:
        table = self.decode(node["table"])
        if type(table) is not EdgeTable:
            raise ValueError("edges without a table")
        return edges_from(table, *(self.decode(node[name]) for name in ("rows", "label", "label_ticks")))

    def _estimator(self, node: dict[str, Any]) -> Any:
        class_ = _estimator_named(node["class"])
        if class_ is None:
            raise ValueError(f"this version has no estimator {node['class']!r}")
        model = class_(**self._named(node["params"]))
        model.__setstate__(self._named(node["fitted"]))
        getattr(model, "_check_loaded", lambda: None)()
        return model


def _unsupported(value: Any, where: str) -> ParameterError:
    class_ = type(value)
    if class_ in (np.random.RandomState, np.random.Generator):
        hint: str | Hint = Hint(
            "Use a whole number instead, such as {random_state}; no new fit is needed.", random_state=0
        )
    elif isinstance(value, BaseEstimator):
        hint = "Use an estimator of tdlg or scikit-learn itself, not a subclass of one."
    else:
        hint = "Use numbers, strings, arrays, lists, tuples, dicts, decays, edges or estimators."
    return ParameterError(
        f"{where} is a {class_.__module__}.{class_.__qualname__}, which cannot be saved.",
        hint,
        parameter="model",
        value=value,
    )
