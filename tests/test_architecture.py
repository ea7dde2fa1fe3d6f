"""The rules of docs/architecture.md, checked on the source of every module."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLOCKS = {"time", "timeit"}  # modules
NOW = {"now", "utcnow", "today"}  # methods of datetime and date
TORCH = {"torch", "torch_geometric"}
DASK = {"dask", "distributed"}
HEAVY = TORCH | DASK | {"matplotlib", "narwhals", "pandas", "polars", "pyarrow", "sklearn"}


@dataclass(frozen=True)
class Import:
    """One imported module, or one name imported from it."""

    name: str  # absolute: tdlg.edges.TemporalEdges, numpy
    line: int
    on_load: bool  # runs when the module loads: neither in a function nor for type checkers alone

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def unit(self) -> str:
        """The file or folder of src/tdlg that is imported; empty for tdlg itself."""
        return self.name.removeprefix("tdlg").removeprefix(".").partition(".")[0]


def read_layers(markdown: str) -> list[list[str]]:
    """The list under "Who may import whom", from the top layer to the bottom one."""
    block = re.search(r"^## Who may import whom$.*?^```\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)
    assert block, "no fenced list under 'Who may import whom'"
    return [line.split(" | ") for line in block[1].splitlines()]


def at_or_below(layers: list[list[str]], unit: str) -> set[str]:
    """The units on the line of this one and on those below it."""
    line = next(number for number, units in enumerate(layers) if unit in units)
    return {unit for units in layers[line:] for unit in units}


def imports(tree: ast.Module, package: str) -> Iterator[Import]:
    """Every import of a module that lives in `package`, wherever it stands."""

    def visit(node: ast.AST, on_load: bool) -> Iterator[Import]:
        match node:
            case ast.Import():
                yield from (Import(alias.name, node.lineno, on_load) for alias in node.names)
            case ast.ImportFrom():
                base = absolute(node, package)
                yield from (Import(f"{base}.{alias.name}", node.lineno, on_load) for alias in node.names)
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                for child in node.body:
                    yield from visit(child, on_load=False)
                for child in node.orelse:
                    yield from visit(child, on_load)
            case _:
                inside = on_load and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                for child in ast.iter_child_nodes(node):
                    yield from visit(child, inside)

    yield from visit(tree, on_load=True)


def absolute(node: ast.ImportFrom, package: str) -> str:
    """The module that `from ... import` names, its leading dots resolved."""
    parents = package.split(".")
    above = parents[: len(parents) - node.level + 1] if node.level else []
    return ".".join([*above, *filter(None, [node.module])])


def violations(source: Path, layers: list[list[str]]) -> list[str]:
    """What the modules under `source`, the folder of the package, do against the rules."""
    rank = {unit: number for number, line in enumerate(layers) for unit in line}
    found = []
    for path in sorted(source.rglob("*.py")):
        where = path.relative_to(source)
        unit = where.parts[0].removesuffix(".py")
        if unit == "__init__":
            continue
        if unit not in rank:
            found.append(f"{where}: not in the list of docs/architecture.md")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        package = ".".join(["tdlg", *where.parts[:-1]])
        complaints = [*of_layers(tree, package, unit, rank), *of_heavy(tree, package, unit)]
        if where.as_posix() != "engines/executors.py":
            complaints += [
                (i.line, f"{i.package} outside engines/executors.py")
                for i in imports(tree, package)
                if i.package in DASK
            ]
        if rank[unit] > rank["judge"]:
            complaints += of_silence(tree, package)
        found += [f"{where}:{line}: {complaint}" for line, complaint in dict.fromkeys(complaints)]
    return found


def of_layers(tree: ast.Module, package: str, unit: str, rank: dict[str, int]) -> Iterator[tuple[int, str]]:
    for item in imports(tree, package):
        if item.package != "tdlg" or item.unit == unit or item.name == "tdlg.__version__":
            continue
        if item.name.count(".") < 2 and item.unit not in rank:
            yield item.line, f"imports {item.name}: name the module that defines it"
        elif item.unit not in rank:
            yield item.line, f"imports {item.unit}, which is not in the list"
        elif rank[item.unit] <= rank[unit]:
            yield item.line, f"{unit} imports {item.unit}, which is not below it"


def of_heavy(tree: ast.Module, package: str, unit: str) -> Iterator[tuple[int, str]]:
    for item in imports(tree, package):
        match item.package:
            case torch if torch in TORCH and unit != "io":
                yield item.line, f"{torch} outside io"
            case "sklearn" if unit in LIGHT:
                yield item.line, f"sklearn in {unit}"
            case heavy if heavy in HEAVY and unit in LIGHT and item.on_load:
                yield item.line, f"{heavy} loads with {unit}: import it inside the function that uses it"


def of_silence(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    for item in imports(tree, package):
        if item.package in CLOCKS:
            yield item.line, f"reads a clock: {item.name}"
        if item.package == "matplotlib":
            yield item.line, "plots"
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                yield node.lineno, "prints"
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in NOW:
                yield node.lineno, f"reads a clock: {attr}()"


LAYERS = read_layers((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
LIGHT = at_or_below(LAYERS, "sampling")  # they load nothing heavy, and know no scikit-learn at all


def test_the_source_keeps_the_rules():
    found = violations(ROOT / "src" / "tdlg", LAYERS)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("edges.py", "from tdlg.linegraph.operator import LineGraph", "edges.py:1: edges imports linegraph"),
        ("edges.py", "def f():\n    from . import linegraph", "edges.py:2: edges imports linegraph"),
        ("edges.py", "if TYPE_CHECKING:\n    from tdlg.io import read_edges", "edges imports io"),
        ("models/__init__.py", "from ..judge.trials import Task", "models imports judge"),
        ("models/rows.py", "from tdlg import LineGraph", "imports tdlg.LineGraph: name the module"),
        ("utils.py", "", "utils.py: not in the list"),
        ("linegraph.py", "def f():\n    import sklearn.linear_model", "sklearn in linegraph"),
        ("models/rows.py", "def f():\n    import torch", "torch outside"),
        ("io.py", "try:\n    import polars as pl\nexcept ImportError:\n    pass", "polars loads with io"),
        ("linegraph.py", "def f():\n    from dask import array", "dask outside engines"),
        ("estimator.py", "print(1)", "estimator.py:1: prints"),
        ("estimator.py", "from datetime import datetime\ndatetime.now()", "estimator.py:2: reads a clock: now()"),
        ("models/rows.py", "def f():\n    import matplotlib.pyplot", "plots"),
        ("tables/times.py", "def f():\n    import polars, narwhals", ""),
        ("judge/run.py", "import time\nprint(time.perf_counter())", ""),
    ],
)
def test_a_violation_is_seen(tmp_path, path, source, complaint):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")
    found = violations(tmp_path, LAYERS)
    assert (len(found) == 1 and complaint in found[0]) if complaint else not found
