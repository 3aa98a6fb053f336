"""The row groups of Parquet files: the units that `parse_parquet` is dealt and resumed by."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..block import Block, in_pace
from ..context import Context
from ..cursor import START, Cursor, Json
from ..errors import ArgumentTypeError, DataError, FeedpipeError, Origin, SourceError, located
from ..formats.parquet import Parquet
from ..formats.parquet_file import ParquetFile
from ..formats.parquet_footer import Footer, read_footer
from ..rows import Indices, RowList
from ..storage.file import File
from ..traits import Columns, Operator

if TYPE_CHECKING:
    from ..stage import Stage

T = TypeVar("T")

_READERS = 16  # threads that read footers: most of the time they wait for storage
_FILES = 1024  # whose handles stand as Python objects at a time


class RowGroup(NamedTuple):
    """A handle on a row group.

    Attributes:
        file: the file it is in.
        number: its number there.
        rows: how many it has.
        first: the number in the file of the first of them.
        seal: that of the footer that says so.
    """

    file: File
    number: int
    rows: int
    first: int
    seal: int


@dataclass(frozen=True)
class Table:
    """All row groups, in order, as columns; `files` are positions in the input."""

    files: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    seals: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.files)

    def identity(self) -> Json:
        digest = hashlib.blake2b(digest_size=16)
        for column in (self.files, self.numbers, self.rows, self.seals):
            digest.update(column.tobytes())
        return {"row_groups": len(self), "rows": int(self.rows.sum()), "digest": digest.hexdigest()}


@dataclass(frozen=True, eq=False)
class RowGroups(Operator):
    """A handle for each row group of each file. `parse_parquet` puts it into the chain.

    Where the files come in one order in each run, it is indexed: all footers are read by `resolve`, once for a loader.
    Else files are the units, and a footer is read when its file comes.
    """

    kind: ClassVar[str] = "row_groups"
    columns: ClassVar[Columns] = Columns.LOSES
    expands: ClassVar[bool] = True
    implied: ClassVar[bool] = True

    format: Parquet = field(repr=False)
    settled: bool = field(repr=False)
    table: Table | None = field(default=None, repr=False)

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0] and self.settled

    def resolve(self, stage: Stage) -> Operator:
        if self.format.fixed is not None:
            return self
        try:
            first = next(iter(_files(stage)), None)
            if first is None:
                return replace(self, table=_table([])) if self.settled else self
            later = (self._footer(stage, file) for number, file in enumerate(_files(stage)) if number)
            paths = (cast("File", file).path for file in _files(stage)) if stage.input.indexed else [_path(first)]
            made = replace(self, format=self.format.fix(self._footer(stage, first), later, paths))
            if not self.settled:
                return made
            return replace(made, table=_table(_in_threads(lambda file: made._units(stage, file), _files(stage))))
        except (SourceError, DataError) as error:
            raise relocated(error, stage) from error

    def length(self, stage: Stage) -> int | None:
        return None if self.table is None else len(self.table)

    def total(self) -> int | None:
        """How many rows the row groups have."""
        return None if self.table is None else int(self.table.rows.sum())

    def identity(self) -> Json:
        return None if self.table is None else self.table.identity()

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        (group,) = self._handles(stage, range(index, index + 1), context)
        return Origin(group.file.path, group.first + 1)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> RowList:
        return list[object](self._handles(stage, indices, context))

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        pace = context.pace()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            for index, file in enumerate(block.rows):
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                try:
                    groups = self._units(stage, file)
                except (SourceError, DataError) as error:
                    raise relocated(error, stage) from error
                if groups:
                    start = Cursor(block.at.advance(index).plain, 0, row)
                    row += len(groups)
                    found: list[Origin | None] = [Origin(group.file.path, group.first + 1) for group in groups]
                    origins = found if context.origins else None
                    yield from in_pace(Block(list[object](groups), start, Cursor(after.plain, 0, row), origins), pace)

    def _handles(self, stage: Stage, indices: Indices, context: Context) -> list[RowGroup]:
        table = self._read()
        chosen = np.asarray(indices, np.int64)
        numbers, places = np.unique(table.files[chosen], return_inverse=True)
        files = stage.input.rows(numbers, context) if len(numbers) else []
        columns = (table.numbers, table.rows, table.firsts, table.seals)
        values = zip(places.tolist(), *(column[chosen].tolist() for column in columns), strict=True)
        return [RowGroup(cast("File", files[place]), *rest) for place, *rest in values]

    def _units(self, stage: Stage, file: object) -> list[RowGroup]:
        """The row groups of a file in which rows may match the filter."""
        footer = self._footer(stage, file)
        rows = footer.rows()
        firsts = np.cumsum([0, *rows]).tolist()
        wanted = ParquetFile(self.format, footer).matching()
        return [RowGroup(cast("File", file), k, rows[k], firsts[k], footer.seal) for k in wanted]

    def _footer(self, stage: Stage, file: object) -> Footer:
        if not isinstance(file, File):
            raise ArgumentTypeError(
                located(
                    f"`parse_parquet` reads files but got: {file!r}; `.open_files()` comes before it", stage.node.where
                )
            )
        with file.open(None) as stream:
            return read_footer(stream, file.path)

    def _read(self) -> Table:
        assert self.table is not None, "a run begins with `resolve`"
        return self.table


def relocated(error: FeedpipeError, stage: Stage) -> FeedpipeError:
    return type(error)(located(str(error), stage.node.where))


def _path(file: object) -> str:
    return file.path if isinstance(file, File) else repr(file)


def _files(stage: Stage) -> Iterator[object]:
    """The rows of the input, in the order of `for x in pipe`."""
    for block in stage.input.blocks(START, Context(threads=False)):
        yield from block.rows


def _in_threads(function: Callable[[object], T], items: Iterable[object]) -> Iterator[T]:
    """`map`, with some calls at a time."""
    waiting = iter(items)
    with ThreadPoolExecutor(_READERS) as pool:
        while some := list(islice(waiting, _FILES)):
            yield from pool.map(function, some)


def _table(units: Iterable[Sequence[RowGroup]]) -> Table:
    parts = [np.zeros((0, 5), np.int64)]
    for number, groups in enumerate(units):
        parts.append(np.array([(number, *group[1:]) for group in groups], np.int64).reshape(-1, 5))
    whole = np.concatenate(parts)
    return Table(*(np.ascontiguousarray(column) for column in whole.T))
