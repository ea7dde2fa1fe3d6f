import os

import pytest

from tdlg.memory import CGROUPS, free_bytes


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
