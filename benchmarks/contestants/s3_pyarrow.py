"""pyarrow by hand: one object after another, or sixteen at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyarrow.fs import S3FileSystem

from .s3_tasks import KEY, lines, name, timed


def measure(endpoint: str, slow: str, objects: int, latency: bool, threads: int) -> dict[str, Any]:
    storage = S3FileSystem(**KEY, scheme="http", endpoint_override=slow if latency else endpoint)

    def one(number: int) -> bytes:
        with storage.open_input_file(name(number)) as file:
            return bytes(file.read())

    def read() -> Iterator[list[str]]:
        if threads == 1:
            yield from map(lines, map(one, range(objects)))
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from map(lines, pool.map(one, range(objects)))

    return timed(read)
