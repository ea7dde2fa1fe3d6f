"""Where compiled code is kept, and that the package works where it cannot be kept, or was damaged."""

import ctypes
import errno
import importlib.util
import logging
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import numba
import pytest

import tdlg
from tdlg._kernels import compiled

KERNEL = "from tdlg._kernels.compiled import compiled\n\n@compiled\ndef twice(x):\n    return 2 * x\n"
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1  # of linux/prctl.h and linux/capability.h


@pytest.fixture(autouse=True)
def nothing_said():
    """What is said once per process may be said again."""
    for once in (compiled._announce, compiled._warn_once):
        once.cache_clear()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder where compiled code is kept."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def no_folder(tmp_path, monkeypatch):
    """A system where nothing but its temporary directory can be written."""
    monkeypatch.setattr(compiled._Locations, "_locator_classes", (compiled._PrivateFolder,))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def new_kernel(folder):
    """The kernel as a new process would see it: not compiled in this one."""
    file = folder / "one_kernel.py"
    if not file.exists():
        file.write_text(KERNEL, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("one_kernel", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice


def is_loaded(kernel):
    assert kernel(21) == 42
    return sum(kernel.stats.cache_hits.values()) == 1


class TestCache:
    def test_a_kernel_is_compiled_once(self, tmp_path, kept):
        assert not is_loaded(new_kernel(tmp_path))
        assert is_loaded(new_kernel(tmp_path))

    @pytest.mark.parametrize("ending", ["nbi", "nbc"])
    @pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
    def test_a_damaged_file_is_made_anew(self, tmp_path, kept, ending, share):
        new_kernel(tmp_path)(21)
        (file,) = kept.rglob(f"*.{ending}")
        whole = file.read_bytes()
        file.write_bytes(whole[: int(share * len(whole))])
        assert not is_loaded(new_kernel(tmp_path))
        assert is_loaded(new_kernel(tmp_path))

    def test_a_change_of_any_kernel_makes_all_stale(self, tmp_path, kept, monkeypatch):
        new_kernel(tmp_path)(21)
        monkeypatch.setattr(compiled, "_digest_of_sources", lambda folder: b"other")
        assert not is_loaded(new_kernel(tmp_path))

    def test_a_full_disk_is_no_error(self, tmp_path, kept, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._open_for_write", full)
        assert not is_loaded(new_kernel(tmp_path))
        assert not is_loaded(new_kernel(tmp_path))

    def test_an_interrupt_while_loading_is_an_interrupt(self, tmp_path, kept, monkeypatch):
        def interrupted(*_):
            raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

        monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.load", interrupted)
        with pytest.raises(KeyboardInterrupt):
            new_kernel(tmp_path)(21)


class TestNoFolder:
    def test_a_private_folder_of_the_temporary_directory(self, no_folder):
        assert not is_loaded(new_kernel(no_folder))
        assert is_loaded(new_kernel(no_folder))
        (folder,) = no_folder.glob("tdlg-compiled-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_a_folder_that_others_may_write_is_not_used(self, no_folder):
        new_kernel(no_folder)(21)
        (folder,) = no_folder.glob("tdlg-compiled-*")
        folder.chmod(0o777)
        with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
            assert not is_loaded(new_kernel(no_folder))

    def test_a_link_is_not_followed(self, no_folder):
        new_kernel(no_folder)(21)
        (folder,) = no_folder.glob("tdlg-compiled-*")
        folder.rename(no_folder / "elsewhere")
        folder.symlink_to(no_folder / "elsewhere")
        with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
            assert not is_loaded(new_kernel(no_folder))

    def test_without_any_folder_it_works_and_warns_once(self, no_folder, monkeypatch):
        monkeypatch.setattr(compiled._Locations, "_locator_classes", ())
        with pytest.warns(UserWarning, match=r"compiles anew.*NUMBA_CACHE_DIR"):
            kernel = new_kernel(no_folder)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not is_loaded(kernel)
            assert not is_loaded(new_kernel(no_folder))


class TestAnnouncement:
    def test_people_are_told_once_that_it_compiles(self, tmp_path, kept, monkeypatch, capsys):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        new_kernel(tmp_path)(21)
        new_kernel(tmp_path)(2.5)
        assert capsys.readouterr().err.count("compiling") == 1
        compiled._announce.cache_clear()
        assert is_loaded(new_kernel(tmp_path))
        assert capsys.readouterr() == ("", "")

    def test_pipes_are_not_told_but_the_log_is(self, tmp_path, kept, capsys, caplog):
        with caplog.at_level(logging.INFO, "tdlg"):
            new_kernel(tmp_path)(21)
        assert capsys.readouterr() == ("", "")
        (record,) = caplog.records
        assert str(kept) in record.getMessage()


FIT = """
import numpy as np, tdlg
assert tdlg.__file__.startswith({package!r}), tdlg.__file__
rng = np.random.default_rng(0)
src, dst = rng.integers(0, 20, (2, 200))
edges = tdlg.TemporalEdges(src, dst, np.arange(200), label=src < 10)
tdlg.PropagationClassifier(random_state=0).fit(edges).save("model.tdlg")
"""


def unprivileged():
    """How to start a process that writes only where permissions allow it, which root does not need to ask."""
    if os.geteuid() != 0:
        return {}
    with suppress(PermissionError):  # of a Python in root's home
        if subprocess.run([sys.executable, "-c", "import numpy"], **NOBODY, check=False).returncode == 0:
            return NOBODY
    return {"preexec_fn": drop_override}


def drop_override():
    if ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        raise PermissionError("this root cannot give up writing everywhere")


@pytest.mark.needs("time")
def test_a_read_only_installation_without_a_home():
    """Only the folder for answers and temporary files can be written."""
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path, which other users cannot enter
        package, work = Path(folder, "package"), Path(folder, "work")
        shutil.copytree(Path(tdlg.__file__).parent, package / "tdlg", ignore=shutil.ignore_patterns("__pycache__"))
        work.mkdir()
        (work / "new.csv").write_text("src,dst,time\n3,4,200\n15,16,201\n", encoding="utf-8")
        for path in (package, *package.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        Path(folder).chmod(0o755)
        work.chmod(0o777)
        env = {"PATH": os.defpath, "HOME": str(package), "PYTHONPATH": str(package), "TMPDIR": str(work)}
        user = unprivileged()

        def run(*arguments):
            command = [sys.executable, "-W", "error::UserWarning", *arguments]
            done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False, **user)
            assert done.returncode == 0, done.stderr
            return done

        run("-c", f"import os; assert not os.access({str(package)!r}, os.W_OK)")
        run("-c", FIT.format(package=str(package)))
        scored = run("-m", "tdlg", "score", "model.tdlg", "new.csv")
        assert len(scored.stdout.splitlines()) == 3
        assert list(work.glob("tdlg-compiled-*/*/*.nbc"))
        assert not list(package.rglob("__pycache__"))
