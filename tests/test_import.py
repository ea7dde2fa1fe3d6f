"""`import tdlg` is light, and its names load when first used."""

import json
import subprocess
import sys

import pytest

import tdlg

HEAVY = {"sklearn", "torch", "dask", "distributed", "pandas", "polars", "pyarrow", "matplotlib", "networkx"}


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after the statement."""
    code = f"import json, sys; {statement}; print(json.dumps(sorted(m for m in sys.modules if '.' not in m)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_the_import_is_light():
    loaded = loaded_by("import tdlg")
    assert "tdlg" in loaded
    assert not loaded & (HEAVY | {"numpy", "scipy", "numba", "narwhals"})


def test_a_product_is_light():
    loaded = loaded_by(
        "import tdlg; tdlg.LineGraph(tdlg.TemporalEdges([0], [1], [2.0]), decay=tdlg.Gaussian(1)) @ [1.0]"
    )
    assert "numba" in loaded
    assert not loaded & HEAVY


@pytest.mark.needs("torch")
def test_torch_stays_out_where_it_is_installed():
    assert "torch" in loaded_by("import torch")
    assert "torch" not in loaded_by("import tdlg; [getattr(tdlg, name) for name in tdlg.__all__]")


@pytest.mark.parametrize("name", tdlg.__all__)
def test_public_names_resolve(name):
    value = getattr(tdlg, name)
    assert value.__name__ == name
    assert value.__module__.startswith("tdlg.")
    assert name in dir(tdlg)


def test_unknown_name():
    with pytest.raises(AttributeError, match="No tdlg attribute Graph"):
        tdlg.Graph  # noqa: B018
