"""What the tests share: the `needs` marker and the count of what was skipped, the data folder, hypothesis."""

import gc
import importlib.util
import os
import shutil
import signal
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # boosting on a few rows: threads would only wait for each other
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# In the background of a shell Ctrl-C is ignored, and what a test starts would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW_PAGES = (
    "quickstart.md",
    "index.md",
    "explain.md",
)  # fits of some thousand payments, as readers would run them
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_data() -> Path:
    if given := os.environ.get("TDLG_DATA"):
        return Path(given)
    neighbour = Path(__file__).parents[2] / "shared" / "data"
    if neighbour.is_dir():
        return neighbour
    import pooch

    return Path(pooch.os_cache("tdlg"))


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def has_data() -> bool:
    folder = find_data()
    return folder.is_dir() and any(folder.iterdir())


# name in the marker: (name in a sentence, how to get it, is it there)
NEEDS = {
    "torch": ("PyTorch", "make test-heavy installs it", lambda: importlib.util.find_spec("torch")),
    "gensim": ("gensim", "make test-heavy installs it", lambda: importlib.util.find_spec("gensim")),
    "pyg": ("PyTorch Geometric", "make test-heavy installs it", lambda: importlib.util.find_spec("torch_geometric")),
    "dask": ("Dask", "make test installs it", lambda: importlib.util.find_spec("distributed")),
    "duckdb": ("DuckDB", "make test installs it", lambda: importlib.util.find_spec("duckdb")),
    "marimo": ("marimo", "make test-heavy installs it", lambda: importlib.util.find_spec("marimo")),
    "mkdocs": ("mkdocs", "make test-heavy installs it", lambda: importlib.util.find_spec("mkdocs")),
    "chromium": ("Chromium", "make test-heavy installs it", find_chromium),
    "axe": ("axe-core", "make test-heavy installs it", lambda: importlib.util.find_spec("axe_playwright_python")),
    "node": ("Node.js or Chromium", "apt-get install nodejs", lambda: shutil.which("node") or find_chromium()),
    "time": ("a minute of time", "make test-heavy gives it", lambda: os.environ.get("TDLG_NO_SKIPS") == "1"),
    "data": ("real data", "set TDLG_DATA to the folder that holds it", has_data),
}
LIGHT = {"dask", "duckdb"}  # what `make test` installs


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; for tests marked `needs("data")`."""
    return find_data()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser; for tests marked `needs("chromium")`."""
    return find_chromium()


@pytest.fixture(scope="module")
def browser(chromium, tmp_path_factory):
    """A headless browser; for tests marked `needs("chromium")`."""
    from browser import Browser

    if chromium is None:
        pytest.skip("needs Chromium: make test-heavy installs it")
    browser = Browser(chromium, tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def service():
    """A client of one service in this process, around a stand-in for a live model; a start takes a fifth of a second."""
    from fake_live import FakeLive
    from serving import serving

    live = FakeLive()
    with serving(live) as client:
        client.live = live
        yield client


@pytest.fixture
def live(service):
    """The stand-in, as new."""
    service.live.__init__()
    return service.live


@pytest.fixture
def client(service, live):
    """A new connection to the service."""
    from serving import Client

    client = Client(service.service)
    client.service = service.service
    yield client
    client.close()


@contextmanager
def fewer_trees():
    """A tenth of the boosted trees by default, and no choice of their number."""
    from tdlg.models import links, training

    many = training.boosting_settings
    with pytest.MonkeyPatch.context() as patch:
        for module in (training, links):
            patch.setattr(module, "boosting_settings", lambda *n: many(*n) | {"max_iter": 20, "learning_rate": 0.3})
        patch.setattr(training, "ENOUGH_ROWS", 10**9)
        yield


@pytest.fixture(scope="module")
def few_trees():
    """Fewer trees in a module that tests what is done with a model, not how good it is."""
    with fewer_trees():
        yield


@pytest.fixture
def few_trees_here():
    """Fewer trees in one test."""
    with fewer_trees():
        yield


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "heavy: needs what only `make test-heavy` installs, or time, and is a job of its own"
    )
    config.addinivalue_line("markers", f"needs(*names): skip where one of {', '.join(NEEDS)} is missing")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in SLOW_PAGES and item.path.parent.name == "docs":
            item.add_marker(pytest.mark.needs("time"))
            noun, remedy, is_there = NEEDS["time"]
            item.add_marker(pytest.mark.skipif(not is_there(), reason=f"needs {noun}: {remedy}"))
        for name in needs_of(item):
            if name not in NEEDS:
                raise pytest.UsageError(f"{item.nodeid} needs {name!r}. Known: {', '.join(NEEDS)}")
            if name not in LIGHT:
                item.add_marker("heavy")


def pytest_collection_finish():
    gc.freeze()  # the modules stay: `evaluate` collects garbage in each trial, and would look through all of them


def pytest_runtest_setup(item):
    for name in needs_of(item):
        noun, remedy, is_there = NEEDS[name]
        if os.environ.get("TDLG_LIGHT") == "1" and name not in LIGHT:
            pytest.skip(f"needs {noun}: make test-heavy runs it")
        if not is_there():
            pytest.skip(f"needs {noun}: {remedy}")


def needs_of(item):
    return [name for mark in item.iter_markers("needs") for name in mark.args]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return fail_where_skips_are_forbidden((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return fail_where_skips_are_forbidden((yield))


def fail_where_skips_are_forbidden(report):
    if os.environ.get("TDLG_NO_SKIPS") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and TDLG_NO_SKIPS=1 forbids it: {reason_of(report)}"
    return report


def reason_of(report) -> str:
    return report.longrepr[2].removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter):
    reasons = Counter(map(reason_of, terminalreporter.stats.get("skipped", [])))
    if reasons:
        terminalreporter.write_line("skipped: " + ", ".join(map(in_words, reasons, reasons.values())))


def in_words(reason: str, count: int) -> str:
    if not reason.startswith("needs "):
        return f"{count} because: {reason}"
    noun = reason.removeprefix("needs ").partition(":")[0]
    return f"{count} {'needs' if count == 1 else 'need'} {noun}"
