import os

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_info, threadpool_limits

from tdlg.memory import CGROUPS, FEW_CELLS, fitting_threads, free_bytes
from tdlg.models.training import fit_linear


def write(system, files):
    for name, text in files.items():
        (system / name).parent.mkdir(parents=True, exist_ok=True)
        (system / name).write_text(text, encoding="utf-8")


def put_limit(system, version, limit):
    """A container of this version of cgroups that uses 300,000 bytes, 100,000 of them for files that are in no use."""
    names = [f"sys/fs/cgroup/{name}" for name in version[:3]]
    write(system, dict(zip(names, [f"{limit}\n", "300000\n", f"anon 5\n{version[3]} 100000\n"], strict=True)))


@pytest.fixture
def system(tmp_path):
    write(tmp_path, {"proc/meminfo": "MemTotal: 900 kB\nMemAvailable: 800 kB\nHugePages_Total: 0\n"})
    return tmp_path


def test_what_the_system_has(system):
    assert free_bytes(system) == 800 * 1024


@pytest.mark.parametrize("version", CGROUPS, ids=["2", "1"])
@pytest.mark.parametrize(
    ("limit", "expected"), [(700_000, 500_000), (150_000, 0), (10**9, 800 * 1024), ("max", 800 * 1024)]
)
def test_what_a_container_allows(system, version, limit, expected):
    put_limit(system, version, limit)
    assert free_bytes(system) == expected


def test_pages_where_there_is_no_meminfo(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 16384}.get)
    assert free_bytes(tmp_path) == 1000 * 16384 // 2


def test_this_machine_has_some():
    assert free_bytes() > 0


@pytest.mark.parametrize(
    ("busy", "n_cells", "expected"), [(0.0, 10, 1), (0.0, 10**8, 4), (2.6, 10**8, 1), (9.0, 10**8, 1)]
)
def test_threads_of_a_fit(monkeypatch, busy, n_cells, expected):
    monkeypatch.setenv("TDLG_NUM_THREADS", "4")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr("os.getloadavg", lambda: (busy, 0.0, 0.0))
    assert fitting_threads(n_cells) == expected


class Threads(BaseEstimator):
    def fit(self, X, y):
        self.found_ = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
        return self


@pytest.mark.parametrize(("n_rows", "expected"), [(100, {1}), (FEW_CELLS + 1, {2})])
def test_threads_of_a_linear_fit(n_rows, expected):
    columns = np.zeros((n_rows, 1))
    with threadpool_limits(2, user_api="blas"):
        assert fit_linear(Threads(), columns, columns[:, 0]).steps[-1][1].found_ == expected
