"""What a worker frees it has again without asking the system for it, page by page."""

from __future__ import annotations

import os
import platform
import resource

import pytest

import feedpipe as fp

ROWS, PARTS, SIZE = 60, 16, 2**20

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc of another library")


def faults(row):
    """Takes memory and frees it; how often the process has asked for a page so far."""
    parts = [bytearray(SIZE) for _ in range(PARTS)]
    del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def later_faults(start_method):
    with fp.Loader(fp.from_sequence(range(ROWS)).map(faults), fp.MultiProcess(1, start_method=start_method)) as loader:
        found = list(loader)
    return found[-1] - found[ROWS // 2]


@pytest.mark.parametrize("start_method", ["forkserver", "spawn", "fork"])
def test_freed_memory_is_kept(start_method):
    assert later_faults(start_method) < PARTS * SIZE // os.sysconf("SC_PAGESIZE")


def test_the_users_own_settings_stay(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "0")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    assert later_faults("spawn") > PARTS * SIZE // os.sysconf("SC_PAGESIZE")
