"""README.md runs; the pages of docs/ build without a warning, such as of dead links, and have every public name."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import tdlg

ROOT = Path(__file__).parents[1]


def examples(text):
    """Each ```python block of a page, with the ```text block right after it: what the code prints."""
    return re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", text, re.DOTALL | re.MULTILINE)


def run_page(text):
    """Run the examples of a page in one namespace; gives pairs of what is printed and what the page shows."""
    names, pairs = {}, []
    for code, shown in examples(text):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "page", "exec"), names)
        pairs.append((printed.getvalue(), shown))
    return pairs


def test_the_readme_runs_and_prints_what_it_shows():
    pairs = run_page((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(pairs) == 2
    for printed, shown in pairs:
        assert printed == shown


@pytest.mark.needs("time")
def test_the_commands_of_the_readme_run(tmp_path):
    """The file of the commands is made by a line before them, the report uses the amounts, and all else is said."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (python -c .*|tdlg .*)$", readme, re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["-c", "classify", "backtest"]
    programs = {"python": [sys.executable], "tdlg": [sys.executable, "-m", "tdlg.cli"]}
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    for command in commands:
        name, *arguments = shlex.split(command)
        run = subprocess.run(
            [*programs[name], *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "what is usual" in page
    assert {path.name for path in tmp_path.iterdir()} == {"payments.csv", "page.html", "filled.csv", "periods.csv"}


def test_the_page_on_live_scoring_prints_what_it_shows():
    pairs = run_page((ROOT / "docs" / "live.md").read_text(encoding="utf-8"))
    assert len(pairs) == 2
    for printed, shown in pairs:
        assert printed == shown


def columns_by_kind():
    """The names of all kinds of columns, without match, scale and class, the feature being f."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 6, (2, 60))
    days = np.datetime64("2024-01-01", "s") + rng.integers(0, 60, 60) * np.timedelta64(1, "D")
    features = {"f": rng.uniform(1, 2, 60), "g": [f"g{k % 20}" for k in range(60)]}
    found = set()
    for label in (np.arange(60) % 2, np.arange(60) % 3, rng.random(60)):
        edges = tdlg.TemporalEdges(src, dst, days, label=label, features=features)
        fitted = [tdlg.PropagationFeatures(calendar=True, past_only=past).fit(edges) for past in (False, True)]
        for column in fitted[0].plan_.columns + fitted[1].plan_.columns:
            match, _, what = column.name.rpartition(":")
            found.add(re.sub(r"\[g.*?\]", "_f", match))
            what = (
                re.sub(r"@.*", "", what).replace("g=", "f=").replace("[g]", "_f").replace("[f]", "_f").replace(" ", "_")
            )
            found.add(re.sub(r"\[[\d.]+\]|(?<=f=).*", lambda found: "c" * (found[0][0] == "g"), what))
    return found - {""}


def test_lines_that_install_work_from_a_clone():
    """The package is in no registry, so its name alone cannot be installed."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("paper/*.py")]
    found = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if "pip install" in line]
    assert len(found) > 15
    assert not [line for line in found if re.search(r"""pip install[^#&]*["' ]tdlg(\W|$)""", line)]


def test_every_kind_of_column_is_listed():
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    listed = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall("`(.*?)`", row)}
    assert columns_by_kind() == listed


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built pages; for tests marked `needs("mkdocs")`."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "TDLG_NOTEBOOKS": "plain"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return folder


class Page(HTMLParser):
    """The ids of a page, and the addresses that a browser loads with it."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.loaded = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag in ("img", "script", "iframe") and values.get("src"):
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(values["href"])


def pages_of(folder):
    """Every page but 404.html, whose addresses are those of a server."""
    return {path: Page(path) for path in sorted(folder.rglob("*.html")) if path.name != "404.html"}


def nav_pages(nav):
    """The pages that a nav lists, whatever the depth."""
    for entry in nav:
        for value in entry.values():
            yield from nav_pages(value) if isinstance(value, list) else [value]


@pytest.mark.needs("mkdocs")
def test_every_page_of_the_nav_is_there(site):
    from mkdocs.config import load_config

    names = list(nav_pages(load_config(str(ROOT / "mkdocs.yml"))["nav"]))
    assert {"index.md", "quickstart.md", "api.md", "gallery.md"} <= set(names)
    notebooks = {f"notebooks/{path.stem}.html" for path in (ROOT / "examples" / "notebooks").glob("*.py")}
    there = {path.relative_to(site).as_posix() for path in pages_of(site)}
    assert {name.replace(".md", ".html") for name in names} | notebooks == there
    assert all((site / name.replace(".html", ".ipynb")).exists() for name in notebooks)


@pytest.mark.needs("mkdocs")
def test_language_models_find_every_page(site):
    listed = set(re.findall(r"\]\(([\w-]+)\.html\): \S", (site / "llms.txt").read_text(encoding="utf-8")))
    written = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert listed == written
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert all((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") in whole for name in written)


@pytest.mark.needs("mkdocs")
def test_every_public_name_is_in_the_api(site):
    told = Page(site / "api.html").ids
    assert [name for name in tdlg.__all__ if f"tdlg.{name}" not in told] == []


@pytest.mark.needs("mkdocs")
def test_pages_load_nothing_from_elsewhere(site):
    loaded = {address for page in pages_of(site).values() for address in page.loaded}
    assert len(loaded) > 5
    assert [address for address in loaded if urlsplit(address).netloc] == []


@pytest.mark.needs("mkdocs", "chromium")
def test_search_works_from_disk(site, chromium, tmp_path):
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=20000",
        f"--user-data-dir={tmp_path}",
    ]
    address = (site / "index.html").as_uri() + "?q=bandwidth"
    run = subprocess.run([chromium, *options, "--dump-dom", address], capture_output=True, text=True, timeout=120)
    assert "how-it-works.html?h=bandwidth" in run.stdout
