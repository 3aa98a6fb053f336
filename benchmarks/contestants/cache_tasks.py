"""The Arrow files that the contestants of `cache` read, and how later epochs are timed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

import feedpipe as fp

BATCH = 1024
FILES = 8


def paths(folder: str) -> list[str]:
    return [f"{folder}/{number}.arrow" for number in range(FILES)]


def make(folder: str, rows: int) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import feather

    generator = np.random.default_rng(0)
    each = rows // FILES
    for number, path in enumerate(paths(folder)):
        values = {f"f{k}": generator.standard_normal(each, dtype=np.float32) for k in range(8)}
        table = pa.table({**values, "id": np.arange(number * each, (number + 1) * each)})
        feather.write_feather(table, path, compression="uncompressed", chunksize=65_536)
    return {"bytes": sum(Path(path).stat().st_size for path in paths(folder))}


def measure(folder: str, passes: int, cached: bool, shuffled: bool) -> dict[str, Any]:
    """Epochs after the first, which fills the cache; by a pipe of its own, as another run would make it."""
    kept = Path(folder, f"cache-{shuffled}")
    shutil.rmtree(kept, ignore_errors=True)

    def loader() -> fp.Loader[Any]:
        pipe = fp.read_arrow(paths(folder))
        pipe = pipe.cache(kept) if cached else pipe
        return fp.Loader((pipe.shuffle() if shuffled else pipe).batch(BATCH).collate())

    for _ in loader():
        pass
    loaded = loader()
    rows = total = 0
    start = time.perf_counter()
    for _ in range(passes):
        for batch in loaded:
            rows += len(batch["id"])
            total += int(batch["id"].sum())
    seconds = time.perf_counter() - start
    shutil.rmtree(kept, ignore_errors=True)
    each = rows // passes
    if total != passes * each * (each - 1) // 2:
        raise ValueError("an epoch has not each row once")
    return {"seconds_each": seconds / rows}
