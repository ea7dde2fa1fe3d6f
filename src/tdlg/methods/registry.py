"""METHODS: every method that can be evaluated, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tdlg.checks import check_choice
from tdlg.methods.base import Method
from tdlg.methods.ours import TDLG, Propagation, PropagationLinks, TDLGDense
from tdlg.methods.references import EdgeBank, LabelRates

__all__ = ["METHODS", "make_method"]


def _later(module: str, name: str, **preset: Any) -> Callable[..., Method]:
    """A class of `tdlg.methods`, imported when the first object is made, with these settings unless others are passed."""

    def make(**settings: Any) -> Method:
        method: Method = getattr(import_module(f"tdlg.methods.{module}"), name)(**preset | settings)
        return method

    return make


METHODS: dict[str, Callable[..., Method]] = {
    "tdlg": TDLG,
    "tdlg-dense": TDLGDense,
    "propagation": Propagation,
    "propagation-links": PropagationLinks,
    "label-rates": LabelRates,
    "edgebank": EdgeBank,
    "ctdne": _later("ctdne", "CTDNE"),
    "timers": _later("timers", "TIMERS"),
    "evolvegcn": _later("evolvegcn", "EvolveGCN"),
    "evolvegcn-o": _later("evolvegcn", "EvolveGCN", variant="O"),
    "dyngem": _later("dyngem", "DynGEM"),
    "gcrn": _later("gcrn", "GCRN"),
    "vgrnn": _later("vgrnn", "VGRNN"),
    "dylink2vec": _later("dylink2vec", "DyLink2Vec"),
    "dyrep": _later("dyrep", "DyRep"),
}


def make_method(name: str, **settings: Any) -> Method:
    """Create a method by its name in `METHODS`.

    Parameters
    ----------
    name
        The name, for example "tdlg" or "label-rates".
    settings
        The parameters of the method.

    Examples
    --------
    >>> make_method("label-rates", classifier="logistic").settings
    "classifier='logistic'"
    """
    check_choice("make_method", "name", name, METHODS)
    return METHODS[name](**settings)
