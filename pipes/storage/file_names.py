"""`FileNames`: the names and sizes of many files, in little memory, and their digest."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, cast

from .filesystem import not_utf8_error, split_options

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_FILES = 2**14
"""Files whose names are Python strings at the same time. A digest takes the names of so many, then their sizes."""


def add_to_digest(digest: hashlib.blake2b, names: list[str], sizes: pa.Int64Array) -> None:
    """Adds files, by their names below the root, to the digest of a `Listing`."""
    digest.update("\0".join([*names, ""]).encode())
    digest.update(sizes.to_numpy().tobytes())


class FileNames:
    """Names and sizes: Arrow arrays, but for the last few."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder  # for errors
        self._parts: list[pa.RecordBatch] = []
        self._names: list[str] = []
        self._sizes: list[int] = []
        self.count = 0

    def add(self, name: str, size: int) -> None:
        self._names.append(name)
        self._sizes.append(size)
        self.count += 1
        if len(self._names) == BATCH_FILES:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        try:
            names = pa.array(self._names, pa.large_string())
        except UnicodeEncodeError as error:
            raise not_utf8_error(self._folder + str(error.object)) from None
        self._parts.append(pa.RecordBatch.from_arrays([names, pa.array(self._sizes, pa.int64())], ["name", "size"]))
        self._names, self._sizes = [], []

    def to_batch(self, digest: hashlib.blake2b, *, prefix: str | None, suffix: str = "") -> pa.RecordBatch:
        """The paths and sizes: sorted by name if there is a `prefix`, which begins each path; else as they came."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._flush()
        table = pa.Table.from_batches(self._parts).combine_chunks()
        if prefix is not None:
            table = table.take(pc.sort_indices(table["name"]))
        for batch in table.to_batches(max_chunksize=BATCH_FILES):
            names = cast("list[str]", batch.column("name").to_pylist())
            relative = names if prefix is not None else [os.path.basename(split_options(name)[0]) for name in names]
            add_to_digest(digest, relative, cast("Any", batch.column("size")))
        paths: Any = table["name"]
        if prefix or suffix:
            parts = [pa.scalar(part, pa.large_string()) for part in (prefix or "", suffix, "")]
            join: Any = pc.binary_join_element_wise
            paths = join(parts[0], paths, *parts[1:])
        columns = [pa.concat_arrays(paths.chunks), pa.concat_arrays(table["size"].chunks)]
        return pa.RecordBatch.from_arrays(columns, ["name", "size"])
