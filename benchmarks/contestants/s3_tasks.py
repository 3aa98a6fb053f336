"""The objects that all contestants of `s3` read: lines of text, 8 MiB each. A pass has seen every line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

BUCKET = "bench"
SIZE = 2**23
_LINE = 1023  # bytes without the line break

KEY = {"access_key": "testing", "secret_key": "testing", "region": "us-east-1"}


def name(number: int) -> str:
    return f"{BUCKET}/{number:03d}.txt"


def content(number: int) -> bytes:
    line = f"{number:03d} ".encode() + b"x" * (_LINE - 4) + b"\n"
    return line * (SIZE // len(line))


def lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


def timed(read: Callable[[], Iterable[list[str]]]) -> dict[str, Any]:
    """`read` gives lists of lines."""
    start = time.perf_counter()
    count = wrong = 0
    for some in read():
        count += len(some)
        wrong += sum(len(line) != _LINE for line in (some[0], some[-1]))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "lines": count, "wrong": wrong, "megabytes": count * (_LINE + 1) / 1e6}
