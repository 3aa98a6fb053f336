"""A worker reuses freed memory, and does not get it from the system again, page by page."""

from __future__ import annotations

import os
import platform
import resource

import pytest

import feedpipe as fp

ROWS, PARTS, SIZE = 60, 16, 2**20

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc of another library")


def faults(row):
    """Allocates memory and frees it; returns the number of page faults of the process so far."""
    parts = [bytearray(SIZE) for _ in range(PARTS)]
    del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def later_faults(start_method):
    with fp.Loader(fp.from_sequence(range(ROWS)).map(faults), fp.MultiProcess(1, start_method=start_method)) as loader:
        counts = list(loader)
    return counts[-1] - counts[ROWS // 2]


@pytest.mark.parametrize("start_method", ["forkserver", "fork"])
def test_freed_memory_is_kept(start_method):
    assert later_faults(start_method) < PARTS * SIZE // os.sysconf("SC_PAGESIZE")
