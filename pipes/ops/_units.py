"""Units smaller than a file: what the parsers are dealt and resumed by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..block import Block, in_pace
from ..context import Context
from ..cursor import START, Cursor, Json
from ..errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, Origin, SourceError, located
from ..graph import walk
from ..rows import Indices, RowList
from ..storage.file import File
from ..storage.threads import in_threads
from ..traits import Columns, Operator, Order

if TYPE_CHECKING:
    from ..pipe import Pipe
    from ..stage import Stage


class _Parsed(Protocol):
    kind: ClassVar[str]
    """The name of the chain function."""

    @property
    def unify_schemas(self) -> bool:
        """Whether the columns are those of all files together."""
        ...

    def fix(self, heads: Iterable[Any], paths: Iterable[str]) -> object:
        """The format with names and types of columns fixed, by what files say, one after the other, and their paths."""
        ...


F = TypeVar("F", bound=_Parsed)
U = TypeVar("U", bound="tuple[Any, ...]")

_FILES = 1024  # whose handles stand as Python objects at a time


@dataclass(frozen=True, eq=False)
class Units(Operator, Generic[F, U]):
    """The base: a handle for each unit of each file. The call of a parser puts it into the chain, before the parser.

    A unit is a named tuple of a `File` and numbers. Where the files come in one order in each run (`settled`), this is
    indexed: `resolve` finds all units, once for a loader. Else each file is cut when it comes.
    """

    columns: ClassVar[Columns] = Columns.LOSES
    implied: ClassVar[bool] = True

    fields: ClassVar[tuple[str, ...]]
    """Those of a unit."""

    format: F = field(repr=False)
    settled: bool = field(repr=False)
    table: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    """A row for each unit, a column for each of its fields; for the file stands its position in the input."""

    def head(self, file: File) -> object:
        """What a file says of its columns."""
        raise NotImplementedError

    def units(self, files: Sequence[File]) -> Iterable[Sequence[U]]:
        """The units of each of some files, once the format is fixed."""
        raise NotImplementedError

    def unit(self, file: File, *numbers: int) -> U:
        """The unit with these fields."""
        raise NotImplementedError

    def start(self, unit: U) -> Origin:
        """Where a unit begins."""
        raise NotImplementedError

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0] and self.settled

    def resolve(self, stage: Stage) -> Operator:
        if self.table is not None:
            return self
        try:
            made = replace(self, format=self._fixed(stage))
            return replace(made, table=made._all(stage)) if self.settled else made
        except (SourceError, DataError, ArgumentError) as error:
            raise relocated(error, stage) from error

    def length(self, stage: Stage) -> int | None:
        return None if self.table is None else len(self.table)

    def identity(self) -> Json:
        if self.table is None:
            return None
        return {self.kind: len(self.table), "digest": hashlib.blake2b(self.table.tobytes(), digest_size=16).hexdigest()}

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        (unit,) = self._at(stage, range(index, index + 1), context)
        return self.start(unit)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> RowList:
        return list[object](self._at(stage, indices, context))

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        pace = context.pace()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            for index, value in enumerate(block.rows):
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                try:
                    (units,) = self.units([self._file(stage, value)])
                except (SourceError, DataError) as error:
                    raise relocated(error, stage) from error
                if units:
                    start = Cursor(block.at.advance(index).plain, 0, row)
                    row += len(units)
                    found: list[Origin | None] = [self.start(unit) for unit in units]
                    origins = found if context.origins else None
                    yield from in_pace(Block(list[object](units), start, Cursor(after.plain, 0, row), origins), pace)

    def files(self, stage: Stage) -> Iterator[File]:
        """The files of the input, in the order of `for x in pipe`."""
        for block in stage.input.blocks(START, Context(threads=False)):
            for value in block.rows:
                yield self._file(stage, value)

    def paths(self, stage: Stage) -> Iterator[str]:
        """The paths of all files where those can be had without a run, or are had anyway; else of the first."""
        every = stage.input.indexed or self.format.unify_schemas
        return (file.path for file in islice(self.files(stage), None if every else 1))

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """One of the numbers of each unit."""
        return self._table()[:, self.fields.index(name)]

    def _fixed(self, stage: Stage) -> F:
        heads = (in_threads if self.format.unify_schemas else map)(self.head, self.files(stage))
        return cast("F", self.format.fix(heads, self.paths(stage)))

    def _table(self) -> npt.NDArray[np.int64]:
        assert self.table is not None, "a run begins with `resolve`"
        return self.table

    def _at(self, stage: Stage, indices: Indices, context: Context) -> list[U]:
        chosen = self._table()[np.asarray(indices, np.int64)]
        numbers, places = np.unique(chosen[:, 0], return_inverse=True)
        files = [self._file(stage, value) for value in (stage.input.rows(numbers, context) if len(numbers) else ())]
        units = zip(places.tolist(), chosen[:, 1:].tolist(), strict=True)
        return [self.unit(files[place], *fields) for place, fields in units]

    def _all(self, stage: Stage) -> npt.NDArray[np.int64]:
        """The table."""
        parts = [np.zeros((0, len(self.fields)), np.int64)]
        files = self.files(stage)
        number = 0
        while some := list(islice(files, _FILES)):
            found = [(number + k, *unit[1:]) for k, units in enumerate(self.units(some)) for unit in units]
            parts.append(np.array(found, np.int64).reshape(-1, len(self.fields)))
            number += len(some)
        return np.concatenate(parts)

    def _file(self, stage: Stage, value: object) -> File:
        return check_file(stage, self.format.kind, value)


def settled(pipe: Pipe[File]) -> bool:
    """Whether files come in one order in each run."""
    drawn = any(node.op.order is Order.REORDERS or node.op.deals for node in walk(pipe))
    return pipe.indexed and not drawn


def check_file(stage: Stage, kind: str, value: object) -> File:
    """`value`, which must be a file for the parser of that kind."""
    if isinstance(value, File):
        return value
    said = f"`{kind}` reads files but got: {value!r}; `.open_files()` comes before it"
    raise ArgumentTypeError(located(said, stage.node.where))


def relocated(error: FeedpipeError, stage: Stage) -> FeedpipeError:
    """The error, with the line of the user's code."""
    return type(error)(located(str(error), stage.node.where))
