"""`make test-pythons` tries every version, names those that are missing, and fails where one fails."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

# Stands for an interpreter: answers whether it fits, makes a venv of itself, installs nothing; its tests end with a code.
INTERPRETER = """#!/bin/sh
case "$1 $2" in
  "-c "*) exit {fits} ;;
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pytest") exit {tests} ;;
esac
"""


@pytest.fixture
def run(tmp_path):
    """Runs the target beside a copy of the Makefile, with interpreters that are mere scripts."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)

    def make(versions, **interpreters):
        (folder := tmp_path / "bin").mkdir()
        for name, codes in interpreters.items():
            (script := folder / name.replace("_", ".")).write_text(INTERPRETER.format(**codes))
            script.chmod(0o755)
        kept = {
            name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "PYENV_ROOT")
        }
        return subprocess.run(
            ["make", "test-pythons", f"PYTHONS={versions}"],
            cwd=tmp_path,
            env=kept | {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )

    return make


def test_versions_that_are_missing_are_named(run, tmp_path):
    done = run("3.97 3.98 3.99", python3_97={"fits": 0, "tests": 0}, python3_98={"fits": 1, "tests": 0})
    assert done.stdout.endswith("== summary\nPython 3.97: passed\nPython 3.98: not found\nPython 3.99: not found\n")
    assert done.returncode == 0
    assert [path.name for path in tmp_path.glob(".venv*")] == [".venv-3.97"]


def test_one_that_fails_fails_all_and_the_others_are_run(run):
    done = run("3.97 3.98", python3_97={"fits": 0, "tests": 1}, python3_98={"fits": 0, "tests": 0})
    assert done.stdout.endswith("== summary\nPython 3.97: failed\nPython 3.98: passed\n")
    assert done.returncode != 0


def test_nothing_run_is_no_success(run):
    done = run("3.99")
    assert "Python 3.99: not found\nNo tests were run" in done.stdout
    assert done.returncode != 0
