"""Every reader: how it is called, files for it, and the rows that it promises for them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

import feedpipe as fp

from .contents import (
    UNIT_ROWS,
    Content,
    arrow_file,
    bytes_file,
    column_file,
    csv_file,
    delta_log,
    folders,
    hdf5_file,
    image_file,
    jsonl_file,
    lines_file,
    mds_file,
    npy_file,
    npz_file,
    numbers_file,
    parquet_file,
    tar_file,
    tfrecord_file,
    tfrecord_index,
    windows_file,
)


@dataclass(frozen=True)
class Case:
    """A reader with files.

    Attributes:
        read: makes the pipe from the folder with the files.
        layout: makes each file, by its path below the folder, in the order of the pipe; True makes other content. The
            last file is large and not compressed: faults strike this one.
        numbered: whether rows have the column `row`, their number in the file.
        filesystem: whether the reader takes `filesystem=`.
        storages: where the reader finds files.
    """

    read: Callable[..., fp.Pipe[Any]]
    layout: Mapping[str, Callable[[bool], Content]]
    numbered: bool = False
    filesystem: bool = True
    storages: Sequence[str] = ("local", "memory", "remote", "s3", "hdfs")

    @property
    def last(self) -> str:
        return list(self.layout)[-1]

    def file(self, path: str, *, other: bool = False) -> bytes:
        data = self.layout[path](other)[0]
        if path.endswith((".gz", ".tgz")):
            return gzip.compress(data, mtime=0)
        return bytes(pa.Codec("zstd").compress(data)) if path.endswith(".zst") else data

    def files(self) -> dict[str, bytes]:
        return {path: self.file(path) for path in self.layout}

    def rows(self, *, other: bool = False) -> list[Any]:
        """The rows of all files; with `other`, after the last one has been replaced."""
        return [row for path in self.layout for row in self._rows(path, other and path == self.last)]

    def _rows(self, path: str, other: bool) -> list[Any]:
        rows = self.layout[path](other)[1]
        if path.startswith("year="):
            rows = [{**row, "year": int(path[5:9])} for row in rows]
        if self.numbered:
            rows = [{**row, "row": number} for number, row in enumerate(rows)]
        return [{**row, "path": path} if isinstance(row, dict) and "path" in row else row for row in rows]

    def places(self) -> list[int]:
        """The rows at which states are taken: the first ones, at the edges of files and units, within them, the end."""
        end = len(self.rows())
        last = end - len(self._rows(self.last, False))
        places = {
            0,
            1,
            last - 1,
            last,
            last + 1,
            last + UNIT_ROWS - 1,
            last + UNIT_ROWS,
            last + 2 * UNIT_ROWS + 7,
            end - 1,
            end,
        }
        return sorted(place for place in places if 0 <= place <= end)


def _read_arrow_in_order(root: str, **options: Any) -> fp.Pipe[Any]:
    files = fp.list_files(root, recursive=True, **options).open_files(**options)
    return files.parse_arrow(row_column="row")


def _tars(*, decoded: bool) -> Any:
    tar = partial(tar_file, decoded=decoded)
    return {
        "a.tar": partial(tar, range(5)),
        "b.tar.zst": partial(tar, range(5, 15)),
        "c.tgz": partial(tar, range(15, 16)),
        "d.tar": partial(tar, range(0)),
        "deep/e.tar": partial(tar, range(16, 20)),
        "deep/f.tar": partial(tar, range(20, 35)),
    }


CASES = {
    "lines": Case(
        partial(fp.read_lines, recursive=True),
        {
            "a.txt": partial(lines_file, range(300)),
            "b.txt.gz": partial(lines_file, range(300, 500)),
            "c.txt": partial(lines_file, range(0)),
            "deep/d.txt": partial(lines_file, range(500, 900)),
        },
    ),
    "csv": Case(
        partial(fp.read_csv, recursive=True, newlines_in_values=False),
        folders("csv", partial(csv_file, words=("north", "süd", "", "w e, s t")), packed=".gz"),
    ),
    "csv with line breaks": Case(
        partial(fp.read_csv, recursive=True, row_column="row"),
        folders("csv", partial(csv_file, words=("nor\nth", 'sü"d')), packed=".zst"),
        numbered=True,
    ),
    "jsonl": Case(
        partial(fp.read_jsonl, recursive=True),
        folders("jsonl", jsonl_file, packed=".gz"),
    ),
    "tfrecord": Case(partial(fp.read_tfrecord, recursive=True), folders("tfrecord", tfrecord_file, packed=".gz")),
    "tfrecord by position": Case(
        partial(fp.read_tfrecord, recursive=True, indexed=True, row_column="row"),
        dict(sorted({**folders("tfrecord", tfrecord_file), **folders("index", tfrecord_index)}.items())),
        numbered=True,
    ),
    "parquet": Case(
        partial(fp.read_parquet, recursive=True, row_column="row"), folders("parquet", parquet_file), numbered=True
    ),
    "delta": Case(
        fp.read_delta,
        {"_delta_log/00000000000000000000.json": delta_log, **folders("parquet", parquet_file)},
        filesystem=False,
        storages=("local", "s3"),
    ),
    "mds": Case(
        partial(fp.read_mds, recursive=True),
        {
            "a.mds": partial(mds_file, range(70)),
            "b.mds.zst": partial(mds_file, range(70, 140)),
            "c.mds": partial(mds_file, range(0)),
            "deep/d.mds": partial(mds_file, range(200, 500)),
        },
    ),
    "mds by position": Case(
        partial(fp.read_mds, recursive=True, indexed=True),
        {
            "a.mds": partial(mds_file, range(40)),
            "c.mds": partial(mds_file, range(0)),
            "deep/d.mds": partial(mds_file, range(200, 260)),
        },
    ),
    "arrow": Case(
        partial(fp.read_arrow, recursive=True, row_column="row"),
        folders("arrow", partial(arrow_file, form="lz4"), last=partial(arrow_file, form="uncompressed")),
        numbered=True,
    ),
    "arrow in order": Case(
        _read_arrow_in_order,
        folders(
            "arrow", partial(arrow_file, form="uncompressed"), packed=".gz", last=partial(arrow_file, form="stream")
        ),
        numbered=True,
    ),
    "tar": Case(partial(fp.read_tar, recursive=True), _tars(decoded=False)),
    "decode": Case(lambda root, **options: fp.read_tar(root, recursive=True, **options).decode(), _tars(decoded=True)),
    "bytes": Case(
        partial(fp.read_bytes, recursive=True),
        {
            "a.bin": partial(bytes_file, range(100)),
            "b.bin.gz": partial(bytes_file, range(9000)),
            "c.bin": partial(bytes_file, range(0)),
            "deep/d.bin": partial(bytes_file, range(20_000)),
        },
    ),
    "numpy": Case(
        lambda root, **options: fp.read_numpy(f"{root}/*.npy", **options),
        {
            "a.npy": partial(npy_file, range(4)),
            "b.npy": partial(npy_file, range(4, 8), order="F"),
            "c.npy": partial(npy_file, range(0)),
            "d.npy": partial(npy_file, range(20, 32)),
        },
    ),
    "tokens": Case(
        lambda root, **options: fp.read_tokens(root, length=5, step=4, **options),
        {
            "a.npy": partial(windows_file, range(21)),
            "b.npy": partial(windows_file, range(3)),
            "c.npy": partial(windows_file, range(100, 117)),
        },
    ),
    "numpy table": Case(
        lambda root, **options: fp.read_numpy({"x": f"{root}/x/*.npy", "y": f"{root}/y/*.npy"}, **options),
        {
            "y/a.npy": partial(numbers_file, range(6)),
            "y/b.npy": partial(numbers_file, range(6, 16)),
            "x/a.npy": partial(column_file, range(4)),
            "x/b.npy": partial(column_file, range(4, 16)),
        },
    ),
    "npz": Case(
        lambda root, **options: fp.read_numpy({"x": f"{root}/*.npz", "y": f"{root}/*.npz"}, **options),
        {
            "a.npz": partial(npz_file, range(4), packed=True),
            "b.npz": partial(npz_file, range(4, 16)),
        },
    ),
    "hdf5": Case(
        lambda root, **options: fp.read_hdf5(root, ["x", "y"], **options),
        {
            "a.h5": partial(hdf5_file, range(4)),
            "b.h5": partial(hdf5_file, range(4, 16), chunks=(5, 200)),
        },
    ),
    "images": Case(
        fp.read_images,
        {
            "cat/1.png": partial(image_file, 1, form="png", name="cat", label=0),
            "dog/2.bmp": partial(image_file, 2, form="bmp", name="dog", label=1),
            "dog/deep/3.png": partial(image_file, 3, form="png", name="dog", label=1),
            "süd/4.bmp": partial(image_file, 4, form="bmp", name="süd", label=2),
        },
    ),
}
