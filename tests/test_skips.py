"""A skip is counted by its reason, and fails where skips are forbidden: shown on small suites."""

import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
    import pytest

    @pytest.mark.needs("torch")
    def test_one(): pass

    @pytest.mark.needs("torch")
    def test_two(): pass

    @pytest.mark.needs("data")
    def test_three(): pass

    @pytest.mark.needs("chromium")
    def test_four(chromium): pass

    def test_five(): pass
"""


@pytest.fixture
def bare(pytester, monkeypatch):
    """A folder with our conftest, on a machine without PyTorch, Chromium and data."""
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.mkdir("empty")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("TDLG_DATA", str(pytester.path / "empty"))
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delenv("TDLG_NO_SKIPS", raising=False)
    monkeypatch.delenv("TDLG_LIGHT", raising=False)
    return pytester


def test_skips_are_counted_by_reason(bare):
    bare.makepyfile(SUITE)
    result = bare.runpytest("-rs")
    result.assert_outcomes(passed=1, skipped=4)
    result.stdout.fnmatch_lines(["*needs PyTorch: make test-heavy installs it"])
    result.stdout.fnmatch_lines(["skipped: 2 need PyTorch, 1 needs real data, 1 needs Chromium"])


def test_what_is_there_is_left_to_the_heavy_tests(bare, monkeypatch):
    (bare.path / "empty" / "edges.csv").touch()
    monkeypatch.setenv("TDLG_LIGHT", "1")
    bare.makepyfile("""
        import pytest

        @pytest.mark.needs("data")
        def test_data(): pass
    """)
    bare.runpytest("-rs").stdout.fnmatch_lines(["*needs real data: make test-heavy runs it"])


def test_nothing_is_skipped_where_all_is_there(bare, monkeypatch):
    (bare.path / "empty" / "edges.csv").touch()
    browser = bare.path / "bin" / "google-chrome"
    browser.parent.mkdir()
    browser.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(browser.parent))
    bare.makepyfile("""
        import os, pytest

        @pytest.mark.needs("data", "chromium")
        def test_both(data_dir, chromium):
            assert (data_dir / "edges.csv").exists()
            assert os.path.basename(chromium) == "google-chrome"
    """)
    result = bare.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("skipped:*")


def test_forbidden_skips_fail_with_their_reason(bare, monkeypatch):
    monkeypatch.setenv("TDLG_NO_SKIPS", "1")
    bare.makepyfile(SUITE)
    result = bare.runpytest()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, errors=4)
    result.stdout.fnmatch_lines(["*TDLG_NO_SKIPS=1 forbids it: needs real data: set TDLG_DATA*"])


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\ndef test_it(): pytest.skip('no moon')",
        "import pytest\npytest.skip('no moon', allow_module_level=True)",
        "import pytest\n@pytest.mark.skip('no moon')\ndef test_it(): pass",
    ],
    ids=["call", "module", "mark"],
)
def test_other_skips_count_and_fail_too(bare, monkeypatch, source):
    bare.makepyfile(source)
    bare.runpytest().stdout.fnmatch_lines(["skipped: 1 because: no moon"])
    monkeypatch.setenv("TDLG_NO_SKIPS", "1")
    result = bare.runpytest()
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    result.stdout.fnmatch_lines(["*forbids it: no moon*"])


def test_what_needs_more_than_make_test_installs_is_heavy(bare):
    bare.makepyfile(SUITE)
    bare.runpytest("-m", "not heavy").assert_outcomes(passed=1, deselected=4)
    assert bare.runpytest("-m", "heavy and not needs").ret == pytest.ExitCode.NO_TESTS_COLLECTED
