"""Files that claim to be, or unpack to, far more than they are. Each is a function of a folder that gives a reader."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import PIL.Image
import pyarrow as pa
from pyarrow import feather, parquet

import feedpipe as fp

from ..support.formats import write_varint
from .contents import mds

Rows = Callable[[], Iterable[Any]]
Reader = Callable[[Path], Iterable[Any]]
_HUGE = 2**31 - 2**20
"""Just below the limit of a row: what unpacks to this is refused for its size in the file."""


def _zeros(
    pack: Callable[[bytes], bytes], size: int, begin: bytes = b"", end: bytes = b"", fill: bytes = b"0"
) -> bytes:
    """Many equal bytes, packed a piece at a time: the formats take several packed parts in a row."""
    piece = pack(fill * 2**24)
    return pack(begin) + piece * (size >> 24) + pack(end)


def _file(path: Path, data: bytes, read: Reader) -> Rows:
    path.write_bytes(data)
    return lambda: read(path)


def _zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data))


_PACKS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": _zstd,
}


def _text(ending: str, packing: str, folder: Path) -> Rows:
    """A text file that is one line of 2 GiB."""
    begin = {"jsonl": b'{"x": "a"}\n{"x": "', "csv": b'x\na\n"', "txt": b"a\n"}[ending]
    readers: dict[str, Reader] = {"jsonl": fp.read_jsonl, "csv": fp.read_csv, "txt": fp.read_lines}
    return _file(folder / f"a.{ending}.{packing}", _zeros(_PACKS[packing], _HUGE, begin), readers[ending])


def _bytes(packing: str, folder: Path) -> Rows:
    return _file(folder / f"a.bin.{packing}", _zeros(_PACKS[packing], _HUGE), fp.read_bytes)


def _wide_csv(folder: Path) -> Rows:
    names, row = ([text.format(k) for k in range(40_000)] for text in ("c{}", "1"))
    return _file(folder / "a.csv", (",".join(names) + "\n" + (",".join(row) + "\n") * 2).encode(), fp.read_csv)


def _wide_jsonl(folder: Path) -> Rows:
    line = "{" + ",".join(f'"k{k}":1' for k in range(40_000)) + "}\n"
    return _file(folder / "a.jsonl", (line * 2).encode(), fp.read_jsonl)


def _tar_member(ending: str, folder: Path) -> Rows:
    """A member of 2 GiB of zeros in a packed archive, or one that only claims to be so large."""
    head = tarfile.TarInfo("a.bin")
    head.size = _HUGE
    block = head.tobuf()
    data = _zeros(gzip.compress, _HUGE, block, fill=b"\0") if ending == "tgz" else block + bytes(2**20)
    return _file(folder / f"a.{ending}", data, fp.read_tar)


def _many_members(folder: Path) -> Rows:
    """A packed archive whose one row has many members of equal bytes."""

    def member(number: int) -> bytes:
        head = tarfile.TarInfo(f"a.{number}")
        head.size = 2**23
        return gzip.compress(head.tobuf() + bytes(2**23))

    return _file(folder / "a.tgz", b"".join(map(member, range(200))) + gzip.compress(bytes(1024)), fp.read_tar)


def _npz(folder: Path) -> Rows:
    path = folder / "a.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (1, 2**31)})
        member.write(head.getvalue())
        for _ in range(2**31 >> 24):
            member.write(bytes(2**24))
    return lambda: fp.read_numpy({"x": path})


def _npz_claim(folder: Path) -> Rows:
    """An archive whose directory claims 16 GiB for a member of some bytes."""
    path = folder / "a.npz"
    np.savez_compressed(path, x=np.zeros((4, 4)))
    data = bytearray(path.read_bytes())
    place = data.rfind(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(data)
    return lambda: fp.read_numpy({"x": path})


def _zip_text(folder: Path) -> Rows:
    path = folder / "a.jsonl.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open("a", "w") as member:
        member.write(b'{"x": "')
        for _ in range(_HUGE >> 24):
            member.write(b"0" * 2**24)
    return lambda: fp.read_jsonl(path)


def _hdf5(folder: Path, chunks: tuple[int, ...] | None, shape: tuple[int, ...]) -> Rows:
    import h5py

    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", shape, "u1", chunks=chunks, compression="gzip" if chunks else None)
    return lambda: fp.read_hdf5(path, ["x"]).slice(0, 3)


def _hdf5_chunk(folder: Path) -> Rows:
    """A chunk of 2 GiB of zeros, packed."""
    import h5py

    path = folder / "a.h5"
    packer = zlib.compressobj(1)
    data = b"".join(packer.compress(bytes(2**24)) for _ in range(2**31 - 2**24 >> 24)) + packer.flush()
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (4, 2**31 - 2**24), "u1", chunks=(1, 2**31 - 2**24), compression="gzip")
        x.id.write_direct_chunk((0, 0), data)
    return lambda: fp.read_hdf5(path, ["x"])


def _parquet(folder: Path, number: int, claimed: int) -> Rows:
    """A file whose row group claims other sizes, in the numbers of its footer."""
    path = folder / "a.parquet"
    parquet.write_table(pa.table({"x": list(range(1000))}), path)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[-8:-4], "little")
    footer = bytes(data[-8 - size : -8])
    old, new = write_varint(number << 1), write_varint(claimed << 1)
    changed = footer.replace(old, new)
    return _file(path, data[: -8 - size] + changed + struct.pack("<I", len(changed)) + b"PAR1", fp.read_parquet)


def _parquet_runs(folder: Path) -> Rows:
    """A hundred million equal values in one row group, which take some bytes."""
    path = folder / "a.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**8, np.int8)), pa.array(["x" * 100]))
    parquet.write_table(pa.table({"x": column}), path, row_group_size=10**8)
    return lambda: fp.read_parquet(path).slice(0, 10)


def _arrow(folder: Path, codec: str, *, stream: bool = False) -> Rows:
    """A packed column that claims to have 2 GiB."""
    path = folder / ("a.arrows" if stream else "a.arrow")
    table = pa.table({"x": np.zeros(10**5)})
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, table.schema, options=options) as writer:
        writer.write_table(table)
    data = path.read_bytes()
    assert data.count(struct.pack("<q", 8 * 10**5)) >= 1
    return _file(path, data.replace(struct.pack("<q", 8 * 10**5), struct.pack("<q", 2**40)), fp.read_arrow)


def _arrow_rows(folder: Path) -> Rows:
    """A column of nulls with more rows than any memory has room for."""
    path = folder / "a.arrow"
    feather.write_feather(pa.table({"x": pa.nulls(12_345_678)}), path, compression="uncompressed")
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<q", 12_345_678), struct.pack("<q", 2**40)))
    return lambda: fp.read_arrow(path).slice(0, 10)


def _image(form: str, folder: Path) -> Rows:
    """A picture that claims to have 60,000 x 60,000 pixels."""
    (folder / "a").mkdir()
    path = folder / f"a/a.{form}"
    PIL.Image.new("RGB", (8, 8)).save(path)
    data = path.read_bytes()
    if form == "png":
        head = b"IHDR" + struct.pack(">II", 60_000, 60_000) + data[24:29]
        data = data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]
    else:
        place = data.find(b"\xff\xc0")
        data = data[: place + 5] + struct.pack(">HH", 60_000, 60_000) + data[place + 9 :]
    path.write_bytes(data)
    return lambda: fp.read_images(folder)


def _png_text(folder: Path) -> Rows:
    """A picture with a text of 1 GiB, packed."""
    (folder / "a").mkdir()
    path = folder / "a/a.png"
    PIL.Image.new("RGB", (8, 8)).save(path)
    data = path.read_bytes()
    packer = zlib.compressobj(1)
    body = b"zTXtkey\0\0" + b"".join(packer.compress(bytes(2**24)) for _ in range(64)) + packer.flush()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    path.write_bytes(data[:33] + chunk + data[33:])
    return lambda: fp.read_images(folder)


def _mds(folder: Path, data: bytes, ending: str = "mds") -> Rows:
    return _file(folder / f"a.{ending}", data, fp.read_mds)


def _mds_array(folder: Path) -> Rows:
    shape = struct.pack("<4I", 2**31, 2**31, 2**31, 1)
    return _mds(folder, mds({"x": "ndarray"}, [[bytes([66, (3 << 2) | 2]) + shape]]))


def _tfrecord(folder: Path, packing: str) -> Rows:
    """A record of almost 2 GiB, which is there in the packed file; the checksum of its length is right."""
    head = struct.pack("<Q", _HUGE)
    crc = google_crc32c.value(head)
    head += struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    data = _zeros(gzip.compress, _HUGE, head, fill=b"\0") if packing else head + bytes(100)
    return _file(folder / f"a.tfrecord{packing}", data, fp.read_tfrecord)


def _delta(folder: Path) -> Rows:
    log = folder / "_delta_log"
    log.mkdir()
    (log / "00000000000000000000.json").write_text('{"metaData":' + '{"a":' * 100_000)
    return lambda: fp.read_delta(folder)


BOMBS: dict[str, Callable[[Path], Rows]] = {
    **{f"{end} {pack}": partial(_text, end, pack) for end in ("jsonl", "csv", "txt") for pack in _PACKS},
    **{f"bytes {packing}": partial(_bytes, packing) for packing in _PACKS},
    "csv of many columns": _wide_csv,
    "jsonl of many keys": _wide_jsonl,
    "tar member": partial(_tar_member, "tar"),
    "tgz": partial(_tar_member, "tgz"),
    "tgz of many members": _many_members,
    "npz of zeros": _npz,
    "npz that claims": _npz_claim,
    "zip": _zip_text,
    "hdf5 without data": partial(_hdf5, chunks=None, shape=(2**20, 2**20)),
    "hdf5 of huge rows": partial(_hdf5, chunks=(1, 2**20), shape=(4, 2**40)),
    "hdf5 of huge chunks": partial(_hdf5, chunks=(2**10, 2**20 * 3), shape=(2**12, 2**20 * 3)),
    "hdf5 chunk": _hdf5_chunk,
    "parquet of many rows": partial(_parquet, number=1000, claimed=2**40),
    "parquet of equal values": _parquet_runs,
    **{f"arrow {codec}": partial(_arrow, codec=codec) for codec in ("lz4", "zstd")},
    "arrow stream": partial(_arrow, codec="zstd", stream=True),
    "arrow of many rows": _arrow_rows,
    **{form: partial(_image, form) for form in ("png", "jpg")},
    "png of long text": _png_text,
    "mds of many samples": partial(_mds, data=struct.pack("<I", 2**28) + bytes(2**10)),
    "mds of many samples, packed": partial(
        _mds, data=_zeros(_zstd, 2**30, struct.pack("<I", 2**28), fill=b"\0"), ending="mds.zst"
    ),
    "mds of a long head": partial(_mds, data=struct.pack("<3I", 1, 2**32 - 2, 2**32 - 1) + bytes(2**10)),
    "mds of a huge array": _mds_array,
    "mds of a nested head": partial(_mds, data=struct.pack("<2I", 0, 8 + 10**5) + b"[" * 10**5),
    "tfrecord": partial(_tfrecord, packing=""),
    "tfrecord, packed": partial(_tfrecord, packing=".gz"),
    "delta": _delta,
}
