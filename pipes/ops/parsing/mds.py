"""`parse_mds`: the samples of MosaicML's shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.operator import Columns, StageView
from ...core.policy import OnError, check_on_error
from ...errors import ArgumentTypeError, Origin, redacted, with_call_site
from ...formats.mds import MdsReader
from ...storage.file import WHOLE, File
from ._indexed_samples import IndexedSamples
from ._open_files import OpenTask, check_file, check_fixed_order
from ._parse_units import Malformed, ParseUnits, Piece, Place, UnitReader

if TYPE_CHECKING:
    from ...pipe import Pipe


@dataclass(frozen=True, eq=False)
class ParseMds(ParseUnits[File]):
    kind: ClassVar[str] = "parse_mds"
    columns: ClassVar[Columns] = Columns.LOSES

    path_column: str | None = None
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    def check_unit(self, stage: StageView, value: object) -> File:
        return check_file(stage, self.kind, value)

    def reader(self, context: Context, block_size: BlockSize) -> _ShardFileReader:
        return _ShardFileReader(self.path_column, origins=context.tracing.origins)


class _ShardFileReader(UnitReader[File, OpenTask]):
    """A place is [samples of the shard before it]."""

    beginning: ClassVar[Place] = (0,)

    def __init__(self, path_column: str | None, *, origins: bool) -> None:
        self._path_column = path_column
        self._origins = origins

    def is_remote(self, unit: File) -> bool:
        return not unit.is_local()

    def start_reading(self, unit: File, early: bool) -> OpenTask:
        return OpenTask(unit, WHOLE if early else None)  # a user may look at the first rows of a run only

    def pieces(self, unit: File, opened: OpenTask, place: Place) -> Iterator[Piece]:
        (number,) = place
        extra = {} if self._path_column is None else {self._path_column: redacted(unit.path)}
        with opened.result() as stream:
            for rows, first, last, bad, content, error in MdsReader(stream, unit.path, extra).rows(number):
                stop = first + len(rows)
                origins: list[Origin | None] | None = None
                if self._origins:
                    origins = [Origin(unit.path, number + 1) for number in range(first, stop)]
                malformed = None if bad is None else Malformed(bad, Origin(unit.path, stop + 1), content)
                end = None if last else (stop + (bad is not None),)
                yield Piece(rows, (first,), end, origins, malformed, error)


def parse_mds(
    pipe: Pipe[File], /, *, path_column: str | None = None, indexed: bool = False, on_error: OnError | None = None
) -> Pipe[dict[str, object]]:
    """Give the samples of each of MosaicML's shards (MDS).

    Element: a dict with a value for each column, by its encoding: numbers, strings, bytes, arrays, and what JSON holds;
    raw images (`pil`) become arrays, `jpeg` and `png` stay encoded bytes, which `.rename({"image": "jpg"}).decode()`
    decodes; lists of images become lists of these. Order: that of the files, and within each that of its samples.
    Length: unknown, streamed; with `indexed=True` known, indexed. State: the number of a sample in its shard. A resume
    seeks to it, or reads a compressed shard up to it.

    Shards of a loader divide files; with `indexed=True` they divide samples, so a single file serves many workers. The
    file `index.json` is not needed, because each shard describes itself. Memory: 1 MiB of samples, or one sample. The
    layout is that of MosaicML Streaming, version 2.

    Args:
        path_column: the name of an added key with the path of the shard, without a password.
        indexed: makes `len`, `pipe[i]` and a full `shuffle()` work. The heads of all files are read once per pipe, in
            threads; a process reads that of a file again when it first opens it. Files must not be compressed, and come
            in a fixed order. Each process keeps 8 bytes a sample.
        on_error: what happens to a sample that is damaged; see `map`.

    Raises:
        ArgumentError: `indexed` is given, and a file is compressed, or files come in a new order in each epoch.
        SourceError: a file is missing, cannot be read, has changed since its head was read, or ends before the place to
            resume from.
        DataError: names file and sample: a file that is no shard, or is damaged or cut short; or the column whose
            encoding is not read, such as `pkl`, which would run code. The rows before the error come first.

    Example:
        >>> import feedpipe as fp, json, pathlib, struct
        >>> columns = {"column_names": ["x"], "column_encodings": ["int"], "column_sizes": [8]}
        >>> text = json.dumps({"format": "mds", "version": 2, **columns}).encode()
        >>> begin = 16 + len(text)
        >>> head = struct.pack("<4I", 2, begin, begin + 8, begin + 16)
        >>> _ = pathlib.Path("shard.00000.mds").write_bytes(head + text + struct.pack("<2q", 5, 6))
        >>> list(fp.list_files("shard.00000.mds").open_files().parse_mds())
        [{'x': 5}, {'x': 6}]
        >>> fp.list_files("shard.00000.mds").open_files().parse_mds(indexed=True)[-1]
        {'x': 6}
    """
    if path_column is not None and not isinstance(path_column, str):
        raise ArgumentTypeError(with_call_site(f"`path_column` must be the name of a key but got: {path_column!r}"))
    if indexed:
        check_fixed_order(pipe, "parse_mds")
        return pipe.then(IndexedSamples(path_column=path_column, on_error=on_error))
    return pipe.then(ParseMds(path_column, on_error=on_error))
