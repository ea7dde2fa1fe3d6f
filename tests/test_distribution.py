"""The wheel and the source distribution: what is in them, what they say of themselves, and that the wheel runs alone."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from configparser import ConfigParser
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import tdlg

ROOT = Path(__file__).parents[1]
NAME = f"tdlg-{tdlg.__version__}"
LEFT_BY_TOOLS = {
    "__pycache__",
    ".venv",
    ".git",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".DS_Store",
}
COMPILED = {".pyc", ".nbi", ".nbc", ".so"}

LOADED = "loaded:\n"
COMMAND = f"""
import sys
sys.path.insert(0, sys.argv.pop(1))
from tdlg.cli import main
try:
    main()
finally:
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "tdlg"]
    print({LOADED!r} + "\\n".join(module.__file__ for module in ours))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the source distribution and the wheel made from it, and one with the wheel of the checkout."""
    folder = tmp_path_factory.mktemp("built")
    for name, kinds in (("from_sdist", []), ("from_checkout", ["--wheel"])):
        command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "-o", folder / name, ROOT]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    return built / "from_sdist" / f"{NAME}-py3-none-any.whl"


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def metadata(wheel):
    return BytesParser().parsebytes(members(wheel)[f"{NAME}.dist-info/METADATA"])


@pytest.fixture(scope="module")
def sdist(built):
    """The contents of each file, by its path in the source distribution's one folder."""
    with tarfile.open(built / "from_sdist" / f"{NAME}.tar.gz") as archive:
        files = {PurePosixPath(member.name): archive.extractfile(member) for member in archive if member.isfile()}
        return {path.relative_to(NAME): file.read() for path, file in files.items()}


def members(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sources(folder):
    """The paths under a folder of the checkout that are not made by a tool."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {path.as_posix() for path in found if not is_left_by_tools(path)}


def is_left_by_tools(path):
    return path.suffix in COMPILED or not LEFT_BY_TOOLS.isdisjoint(path.parts)


def run(folder, *arguments, cwd):
    """The command from the unpacked wheel: what it says, and the files of the package that it loaded."""
    command = [sys.executable, "-I", "-c", COMMAND, folder, *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, _, loaded = done.stdout.partition(LOADED)
    return said, loaded.splitlines()


class TestWheel:
    def test_both_ways_to_make_it_give_the_same(self, built, wheel):
        assert members(wheel) == members(built / "from_checkout" / wheel.name)

    def test_it_holds_the_package_and_nothing_else(self, wheel):
        inside = {name for name in members(wheel) if not name.startswith(f"{NAME}.dist-info/")}
        assert inside == {f"tdlg/{name}" for name in sources(ROOT / "src" / "tdlg")}

    @pytest.mark.parametrize(
        "name", ["py.typed", "report/parts.css", "report/charts.js", "report/page.html", "serve/desk/desk.js"]
    )
    def test_files_that_are_not_python_are_in_it(self, wheel, name):
        assert members(wheel)[f"tdlg/{name}"] == (ROOT / "src" / "tdlg" / name).read_bytes()

    def test_it_is_for_every_machine(self, wheel):
        found = BytesParser().parsebytes(members(wheel)[f"{NAME}.dist-info/WHEEL"])
        assert (found["Root-Is-Purelib"], found.get_all("Tag")) == ("true", ["py3-none-any"])

    def test_its_command(self, wheel):
        points = ConfigParser()
        points.read_string(members(wheel)[f"{NAME}.dist-info/entry_points.txt"].decode())
        assert {section: dict(points[section]) for section in points.sections()} == {
            "console_scripts": {"tdlg": "tdlg.cli:main"}
        }


class TestMetadata:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def test_name_version_and_licence(self, wheel, metadata):
        assert (metadata["Name"], metadata["Version"]) == ("tdlg", tdlg.__version__)
        assert (metadata["License-Expression"], metadata.get_all("License-File")) == ("BSD-3-Clause", ["LICENSE"])
        assert members(wheel)[f"{NAME}.dist-info/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()

    def test_what_it_needs(self, metadata):
        needed = {Requirement(line) for line in metadata.get_all("Requires-Dist")}
        assert {need for need in needed if need.marker is None} == set(map(Requirement, self.project["dependencies"]))
        assert set(metadata.get_all("Provides-Extra")) == set(self.project["optional-dependencies"])
        assert SpecifierSet(metadata["Requires-Python"]) == SpecifierSet(">=3.11")

    def test_the_makefile_reads_each_lower_bound(self):
        pattern = re.search(r'findall\(r"(.*)", open', (ROOT / "Makefile").read_text(encoding="utf-8"))[1]
        text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        needs = map(Requirement, sum(self.project["optional-dependencies"].values(), self.project["dependencies"]))
        bounds = {(need.name, low.version) for need in needs for low in need.specifier if low.operator == ">="}
        assert bounds - set(re.findall(pattern.replace('\\"', '"'), text)) == set()

    def test_the_conda_recipe_needs_the_same(self):
        recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
        listed = re.findall(r"- (.+)", recipe[recipe.index("  run:") : recipe.index("tests:")])
        assert listed[0] == "python >=${{ python_min }}"
        assert set(map(Requirement, listed[1:])) == set(map(Requirement, self.project["dependencies"]))
        assert f'version: "{tdlg.__version__}"' in recipe

    def test_the_page_is_the_readme(self, metadata):
        assert metadata["Description-Content-Type"] == "text/markdown"
        assert metadata.get_payload().strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()

    def test_the_source_distribution_says_the_same(self, wheel, sdist):
        assert sdist[PurePosixPath("PKG-INFO")] == members(wheel)[f"{NAME}.dist-info/METADATA"]


class TestSourceDistribution:
    @pytest.mark.parametrize("name", ["src", "tests", "docs", "benchmarks", "examples"])
    def test_folders_are_whole(self, sdist, name):
        inside = {path.relative_to(name).as_posix() for path in sdist if path.parts[0] == name}
        assert inside == sources(ROOT / name)

    @pytest.mark.parametrize(
        "name", ["README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile", "constraints.txt"]
    )
    def test_files_beside_them(self, sdist, name):
        assert sdist[PurePosixPath(name)] == (ROOT / name).read_bytes()

    def test_nothing_that_tools_leave(self, sdist):
        assert list(filter(is_left_by_tools, sdist)) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--version"], f"tdlg {tdlg.__version__}"),
        (["--help"], "Score, explain and predict timed interactions"),
        (["info", "payments.csv", "--label", "is_fraud"], "3 at 3 different times"),
    ],
    ids=["version", "help", "info"],
)
def test_the_wheel_runs_alone(unpacked, tmp_path, arguments, words):
    (tmp_path / "payments.csv").write_text("src,dst,time,is_fraud\nann,shop,1,0\nbob,scam,2,1\nann,scam,3,\n")
    said, loaded = run(unpacked, *arguments, cwd=tmp_path)
    assert words in said
    assert str(unpacked / "tdlg" / "cli" / "__init__.py") in loaded
    assert [path for path in loaded if not Path(path).is_relative_to(unpacked)] == []


@pytest.mark.needs("time")
def test_the_wheel_in_a_clean_environment(wheel, tmp_path):
    """Installed with what it needs and nothing else, run from another folder."""
    venv.create(tmp_path / "clean", with_pip=True)
    scripts = tmp_path / "clean" / ("Scripts" if os.name == "nt" else "bin")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def said(*command):
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    said(scripts / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    assert "No broken requirements" in said(scripts / "python", "-m", "pip", "check")
    said(scripts / "python", "-c", "import tdlg; tdlg.write_payments('payments.csv', 1000, random_state=2)")
    said(scripts / "tdlg", "classify", "payments.csv", "--label", "fraud", "--report", "page.html", "-o", "filled.csv")
    assert len((tmp_path / "filled.csv").read_text(encoding="utf-8").splitlines()) == 1001
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")
