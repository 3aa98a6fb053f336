"""`write_tar`: the rows of a pipe as members of tar files."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np

from ..core.checks import check_callable
from ..errors import ArgumentTypeError, DataError
from ..files.tar import KEY
from ..pipe import Pipe, check_pipe
from ._dataset_writer import Limits, OutputFile, Sink, write_dataset
from ._run import ChunkedRun

_CHUNK_ROWS = 16  # rows that come from a worker at a time; they may hold images
_ENDING = re.compile(r"[^./\0]+(\.[^./\0]+)*")
_RECORD_BYTES = 10240  # the size of an archive is a multiple of this


def write_tar(
    pipe: Pipe[Mapping[str, object]],
    folder: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    file_size: int | str | None = None,
    encoders: Mapping[str, Encode] | None = None,
    filesystem: object = None,
    workers: int = 0,
    progress: bool = True,
    overwrite: bool = False,
) -> str:
    """Write the rows of a pipe into tar files `part-00000.tar` and so on; return the path of their manifest.

    The layout is WebDataset's. Element: a dict with `__key__`, a name such as "train/000017", and a value for each
    extension: the value of `jpg` becomes the member `train/000017.jpg`. Bytes are written as they are. Other values are
    encoded by the last part of the extension: `json`; `txt` and `text`, a string as UTF-8; `cls` and `index`, an int;
    `npy`, an array; `jpg` (quality 95), `jpeg`, `png`, `bmp`, `ppm`, `tif`, `webp`, a uint8 array of (height, width) or
    (height, width, 3 or 4 channels), or a Pillow image. Order, manifest and runs that are killed: as in
    `write_parquet`. Two runs write equal bytes. Memory: a few rows, and the keys of one file. A pipe without rows makes
    an archive without members.

    Args:
        pipe, folder, filesystem, workers, progress, overwrite: as in `write_parquet`.
        rows_per_file, file_size: as there, but no file exceeds the size, unless by a single row.
        encoders: functions that return bytes, by extension; they come before those above.

    Raises:
        ArgumentError: the folder holds another run, or other files.
        RowError: the key of a row or an extension is not allowed, or a value cannot be encoded.
        DataError: a key comes twice in one file.
        SourceError: a file cannot be written.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(3)).map(lambda i: {"__key__": f"{i:06}", "cls": i, "json": {"square": i * i}})
        >>> fp.write_tar(pipe, "squares")
        'squares/_manifest.jsonl'
        >>> fp.read_tar("squares").head(1)
        [{'__key__': '000000', 'cls': b'0', 'json': b'{"square": 0}'}]
    """
    check_pipe(pipe)
    sink = TarSink(Limits.of(rows_per_file, file_size))
    run = ChunkedRun(pipe.map(tar_members(check_encoders(encoders))), _CHUNK_ROWS, workers)
    return write_dataset(run, sink, folder, filesystem, progress=progress, overwrite=overwrite)


class TarRow(NamedTuple):
    """A row as bytes of an archive: its members with their headers."""

    key: str
    data: bytes


@dataclass
class TarSink(Sink[TarRow]):
    """Writes archives."""

    made_by: ClassVar[str] = "write_tar"

    @property
    def ending(self) -> str:
        return "tar"

    def items(self, run: ChunkedRun) -> Iterator[TarRow]:
        return chain.from_iterable(cast("Iterable[Sequence[TarRow]]", run))

    @contextmanager
    def open(self, file: OutputFile, first: TarRow | None) -> Generator[Callable[[TarRow], None]]:
        keys: set[str] = set()

        def write(row: TarRow) -> None:
            if row.key in keys:
                raise DataError(f"the key {row.key!r} comes twice in one file; a `.map` can make keys that differ")
            keys.add(row.key)
            file.write(row.data)

        yield write
        file.write(bytes(_archive_bytes(file.bytes) - file.bytes))

    def is_full(self, file: OutputFile) -> bool:
        return file.rows == self.limits.rows

    def fits(self, file: OutputFile, item: TarRow) -> bool:
        size = self.limits.bytes
        return size is None or _archive_bytes(file.bytes + len(item.data)) <= size


def _archive_bytes(size: int) -> int:
    """The size of an archive whose members take `size` bytes, with the two blocks of zeros at its end."""
    return -(-(size + 2 * tarfile.BLOCKSIZE) // _RECORD_BYTES) * _RECORD_BYTES


@dataclass(frozen=True)
class tar_members:  # noqa: N801 - a function with parameters; errors show its name
    """Encodes a row as a `TarRow`."""

    encoders: Mapping[str, Encode]

    def __call__(self, row: Mapping[str, object]) -> TarRow:
        if not isinstance(row, Mapping):
            raise TypeError(
                f"`write_tar` writes rows that are dicts but got one of type {type(row).__name__}; `.unbatch()` gives "
                "the rows of batches, and `.map` can make dicts"
            )
        key = _check_key(row.get(KEY))
        members = {name: value for name, value in row.items() if name != KEY}
        if not members:
            raise ValueError(f"row {key!r} has no values besides its key")
        return TarRow(key, b"".join(self._member(key, name, value) for name, value in members.items()))

    def _member(self, key: str, ending: object, value: object) -> bytes:
        if not isinstance(ending, str) or not _ENDING.fullmatch(ending) or ending != ending.lower():
            raise ValueError(
                f"row {key!r} must have extensions in lower case, such as 'jpg' or 'seg.png', but has: {ending!r}"
            )
        try:
            data = encode_value(ending, value, self.encoders)
        except Exception as error:
            raise ValueError(f"`{ending}` of row {key!r} cannot be encoded: {error}") from error
        # The header has no time and no owner, so equal rows are equal bytes.
        info = tarfile.TarInfo(f"{key}.{ending}")
        info.size = len(data)
        header = info.tobuf(tarfile.PAX_FORMAT, "utf-8")
        return b"".join((header, data, bytes(-len(data) % tarfile.BLOCKSIZE)))


def _check_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"`{KEY}` of a row must be a string, the name of its members, but is: {key!r}")
    folders = key.split("/")
    if "\0" in key or any(folder in ("", ".", "..") for folder in folders):
        raise ValueError(f"`{KEY}` must be a relative path, without `.` and `..` in it, but is: {key!r}")
    if "." in folders[-1]:
        raise ValueError(
            f"`{KEY}` must have no dot after its last slash, because the extension begins there, but is: {key!r}"
        )
    if re.fullmatch(r"__.*__", folders[0]):
        raise ValueError(f"`{KEY}` must not begin as in `__meta__`, which readers leave out, but is: {key!r}")
    return key


# Encoders, which `decode` undoes


Encode: TypeAlias = Callable[[Any], bytes]


def check_encoders(value: object) -> dict[str, Encode]:
    """Check `encoders=`, and return its functions by extension."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(f'`encoders` must be a dict such as {{"flac": function}} but got: {value!r}')
    for extension, function in value.items():
        if not isinstance(extension, str) or extension != extension.lower().lstrip("."):
            raise ArgumentTypeError(
                f'`encoders` must have extensions in lower case, such as "jpg", but got: {extension!r}'
            )
        check_callable(f"encoders[{extension!r}]", function)
    return dict(value)


def encode_value(ending: str, value: object, encoders: Mapping[str, Encode]) -> bytes:
    """Encode a value by the text after the first dot of its file's name; functions of the user come first."""
    extension = ending.rpartition(".")[2]
    encode = encoders.get(ending) or encoders.get(extension)
    if encode is None and isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    encode = encode or _BUILT_IN.get(extension)
    if encode is None:
        raise TypeError(
            f"it is of type {type(value).__name__}, and only bytes can be written as {extension!r} unless `encoders=` "
            "has a function for that extension"
        )
    data = encode(value)
    if not isinstance(data, bytes):
        raise TypeError(f"its encoder must give bytes but gave: {type(data).__name__}")
    return data


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _text(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"it must be a string but is of type {type(value).__name__}")
    return value.encode()


def _number(value: Any) -> bytes:
    number = value.item() if hasattr(value, "item") else value  # NumPy scalars and tensors have `item`
    if not isinstance(number, int):
        raise TypeError(f"it must be an int but is of type {type(value).__name__}")
    return str(int(number)).encode()


def _npy(value: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(value), allow_pickle=False)
    return stream.getvalue()


def _image(kind: str, **options: object) -> Encode:
    def encode(value: Any) -> bytes:
        from PIL import Image

        stream = io.BytesIO()
        image = value if isinstance(value, Image.Image) else Image.fromarray(_pixels(value))
        image.save(stream, kind, **options)
        return stream.getvalue()

    return encode


def _pixels(value: object) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    grey = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 1)
    if array.dtype != np.uint8 or not (grey or (array.ndim == 3 and array.shape[2] in (3, 4))):
        shape = " x ".join(map(str, array.shape))
        raise TypeError(
            f"it must be uint8 of height x width, with 1, 3 or 4 channels last, but is {array.dtype} {shape}"
        )
    return array.reshape(array.shape[:2]) if grey else array


_BUILT_IN: dict[str, Encode] = {
    **dict.fromkeys(("txt", "text", "transcript"), _text),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), _number),
    **dict.fromkeys(("json", "jsn"), _json),
    "npy": _npy,
    **dict.fromkeys(("jpg", "jpeg"), _image("JPEG", quality=95)),
    "png": _image("PNG"),
    "bmp": _image("BMP"),
    **dict.fromkeys(("ppm", "pgm", "pnm"), _image("PPM")),
    **dict.fromkeys(("tif", "tiff"), _image("TIFF")),
    "webp": _image("WEBP", lossless=True),
}
