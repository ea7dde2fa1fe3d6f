"""Machine learning on temporal networks: the time-decayed line graph as something you multiply by.

Names load when first used, so that `import tdlg` stays light.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tdlg.decay import Gaussian, Laplace, Mixture, NoDecay
    from tdlg.edges import TemporalEdges
    from tdlg.exceptions import EdgesError, ParameterError, ReadError, TdlgError, TooLargeError
    from tdlg.io import from_frame, read_edges
    from tdlg.linegraph import LineGraph

__version__ = "0.1.0"

__all__ = [
    "EdgesError",
    "Gaussian",
    "Laplace",
    "LineGraph",
    "Mixture",
    "NoDecay",
    "ParameterError",
    "ReadError",
    "TdlgError",
    "TemporalEdges",
    "TooLargeError",
    "from_frame",
    "read_edges",
]

_MODULE_OF = {
    "EdgesError": "exceptions",
    "Gaussian": "decay",
    "Laplace": "decay",
    "LineGraph": "linegraph",
    "Mixture": "decay",
    "NoDecay": "decay",
    "ParameterError": "exceptions",
    "ReadError": "exceptions",
    "TdlgError": "exceptions",
    "TemporalEdges": "edges",
    "TooLargeError": "exceptions",
    "from_frame": "io",
    "read_edges": "io",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
