"""Elements packed, written to memory as a worker writes them, and unpacked as a consumer does."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
import textwrap
from typing import Any

from ...support.services import PackedElement, Packer, unpack


def region(size: int) -> Any:
    """Shared memory as a consumer leases it: the object lives as long as any view of it."""
    return (ctypes.c_char * max(size, 1)).from_buffer(mmap.mmap(-1, max(size, 1)))


def write_regions(packed: PackedElement) -> list[Any]:
    memories = [region(one.nbytes) for one in packed.regions]
    for one, memory in zip(packed.regions, memories, strict=True):
        one.write(memoryview(memory).cast("B"))
    return memories


def round_trip(element: Any, packer: Packer | None = None) -> Any:
    packed = (packer or Packer()).pack(element)
    return unpack(packed.stream, write_regions(packed))


def nbytes(packed: PackedElement) -> int:
    return sum(one.nbytes for one in packed.regions)


def python(code: str) -> bytes:
    """What `code` prints as the `__main__` of another process."""
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout
