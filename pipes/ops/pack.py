"""`pack`: rows of equal length made of the tokens of many documents."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.block import Block, group_origins, join_origins
from ..core.checks import check_choice, check_int
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.operator import Columns, Grouping, Input, StageView
from ..core.rows import Array, BlockRows, Column, Rows, grid, is_grid, is_plain_number, read_only, take
from ..engine.calls import map_until_error
from ..errors import ArgumentError, ArgumentTypeError, Origin, UnfitError
from ._shared import data_error
from .group_by import Groups, segment_blocks
from .pad_batch import NUMBERS, Fill, UnfitRowError, check_fill, described, fill_of, filled, list_values

if TYPE_CHECKING:
    from ..pipe import Pipe


Ints = npt.NDArray[np.int64]

TOKENS = "tokens"
"""The name of the tokens if a row is an array."""
ADDED_COLUMNS = "segment_ids", "position_ids"

_RULE = "`pack` takes arrays or lists of numbers, and numbers beside them; convert or drop others before"


def pack(
    pipe: Pipe[object],
    /,
    length: int | Mapping[str, int],
    *,
    column: str | None = None,
    strategy: Literal["cut", "fit"] = "cut",
    window: int = 1_000,
    pad: float | Mapping[str, float] = 0,
    drop_last: bool = False,
) -> Pipe[dict[str, Array]]:
    """Put the tokens of documents into packs of `length` tokens, so that little of a batch is padding.

        [a a a] [b b] [c c c c]   ->   pack(4): [a a a b] [b c c c] [c - - -]
           pack(4, strategy="fit"): [a a a -] [b b - -] [c c c c]

    Element: a dict of arrays of `length` items: the tokens, under the name of their column, or "tokens" if a row is an
    array; "segment_ids", int32, which counts the documents of a pack from 1 and is 0 for padding; "position_ids",
    int32, which counts the tokens of a document from 0. Other columns, such as labels and masks, are packed along. A
    column may have more dimensions, such as embeddings: it is packed along the first. A column with one number for each
    document, such as a weight, gives it to each of its tokens.
    Order: the input's; with "fit" packs come in the order of their first documents. Length: unknown; streamed; columns.
    State: a position in the input, and in a document; with "fit" a resume packs at most `window` rows again. Each
    virtual shard pads its own last pack.

    Args:
        length: tokens of a pack. Or the length of each column, by name, if columns have lengths of their own in a row,
            such as `{"inputs": 1024, "targets": 256}`: a document goes where there is room in all of them, and has one
            number in all of them. "segment_ids" and "position_ids" then begin with the name of their column, as in
            "inputs_segment_ids". It needs `strategy="fit"`, and cuts no document.
        column: the column of the tokens; may be left out if rows are arrays, or have one column.
        strategy: "cut" fills each pack and cuts the document at its end: the rest begins the next pack, where
            positions go on. "fit" keeps documents whole, puts those of `window` rows into as few packs as it can, and
            pads each pack; it cuts only documents above `length`.
        window: with "fit", the number of rows to choose from.
        pad: the value of padding in all columns, or a dict with that of each column by name; others get 0.
        drop_last: with "cut", leave out the last pack of a virtual shard if it is not full.

    Raises:
        DataError: a row is no array or list of numbers, dtypes or further dimensions differ between rows, or columns of
            a row differ in length; a row is longer than one of several lengths; `pad` or `length` names a column that
            rows do not have.
        ArgumentError: a length or `window` is below 1, `drop_last` is given with "fit", or lengths by name are given
            with "cut" or with `column`.

    Source: best-fit decreasing, as in Ding et al., "Fewer Truncations Improve Language Modeling" (2024).

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> documents = fp.from_sequence([[1, 2, 3], [4, 5], [6, 7, 8, 9]])
        >>> for pack in documents.pack(4):
        ...     print(*pack.values())
        [1 2 3 4] [1 1 1 2] [0 1 2 0]
        [5 6 7 8] [1 2 2 2] [1 0 1 2]
        [9 0 0 0] [1 0 0 0] [3 0 0 0]
        >>> [pack["tokens"].tolist() for pack in documents.pack(5, strategy="fit")]
        [[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]]
    """
    return pipe.then(Pack(length, column, strategy, window, pad, drop_last))


@dataclass(frozen=True)
class Pack(Grouping):
    kind: ClassVar[str] = "pack"
    columns: ClassVar[Columns] = Columns.MAKES

    size: int | Mapping[str, int]  # the `length`, which is a method here
    column: str | None = None
    strategy: Literal["cut", "fit"] = "cut"
    window: int = 1_000
    pad: Fill = 0
    drop_last: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.size, Mapping):
            object.__setattr__(self, "size", self._check_lengths(self.size))
        else:
            object.__setattr__(self, "size", check_int("length", self.size, least=1))
        object.__setattr__(self, "window", check_int("window", self.window, least=1))
        if self.column is not None and not isinstance(self.column, str):
            raise ArgumentTypeError(f"`column` must be a name but got: {self.column!r}")
        check_choice("strategy", self.strategy, ("cut", "fit"))
        for value in self.pad.values() if isinstance(self.pad, Mapping) else [self.pad]:
            check_fill("pad", value)
        if self.drop_last and self.strategy == "fit":
            raise ArgumentError('`drop_last` must be left out with `strategy="fit"`, because each pack may be padded')

    def _check_lengths(self, lengths: Mapping[str, int]) -> dict[str, int]:
        if not lengths:
            raise ArgumentError("`length` must name at least one column but got: {}")
        if self.strategy == "cut":
            raise ArgumentError(
                '`length` by column needs `strategy="fit"`, because "cut" would part the columns of a document'
            )
        if self.column is not None:
            raise ArgumentError("`column` must be left out if `length` names columns")
        for name in lengths:
            if not isinstance(name, str):
                raise ArgumentTypeError(f"`length` must have names of columns but has: {name!r}")
        return {name: check_int(f"length[{name!r}]", length, least=1) for name, length in lengths.items()}

    def lookback(self) -> int:
        return 1 if self.strategy == "cut" else self.window

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, packed = (at.token, 0) if self.strategy == "fit" else cast("tuple[Json, int]", at.token or (None, 0))
        check_numbers(packed)
        yield stage.input, source

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        if isinstance(self.size, Mapping):
            reader = DocumentReader(None, self.pad, self.size)
        else:
            reader = DocumentReader(self.column, self.pad)
        if self.strategy == "fit" or isinstance(self.size, Mapping):
            return segment_blocks(stage, at, context, self.window, partial(self._fitted, stage, context, reader))
        return self._filled(stage, at, context, reader, self.size)

    def _filled(
        self, stage: StageView, at: Cursor, context: Context, reader: DocumentReader, length: int
    ) -> Iterator[Block]:
        # The token is the input's cursor at the document in which a pack begins, and how many of its tokens are packed.
        source, packed = cast("tuple[Json, int]", at.token or (None, 0))
        stream = TokenStream(packed, length, self.pad)
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(source), context):
            documents, error = reader.read(block.rows)
            stream.add(documents, block)
            while stream.available >= length:
                output = [stream.take(min(stream.available // length, block_size.rows()), row)]
                row += len(output[0])
                block_size.produced(output[0].rows)
                yield output.pop()
            if error is not None:
                raise self._failed(error, stage, block.at.advance(len(documents)), context)
        if stream.available > 0 and not self.drop_last:
            yield stream.take(1, row)

    def _fitted(self, stage: StageView, context: Context, reader: DocumentReader, segment: list[Block]) -> Groups:
        parts: list[Documents] = []
        for block in segment:
            documents, error = reader.read(block.rows)
            if error is not None:
                raise self._failed(error, stage, block.at.advance(len(documents)), context)
            parts.append(documents)
        documents = Documents.joined(parts)
        if not documents.starts[:, -1].any():
            return [], None
        if isinstance(self.size, Mapping):
            rows, owners = _fitted_columns(documents, self.size, self.pad)
        else:
            rows, owners = _fitted_packs(documents, self.size, self.pad)
        return rows, group_origins(join_origins(segment), owners)

    def _failed(self, error: Exception, stage: StageView, at: Cursor, context: Context) -> Exception:
        return data_error(self, stage.failed(error, at, context))


@dataclass(frozen=True)
class Documents:
    """The tokens of many documents, one after the other, as flat arrays: no token becomes a Python object.

    Attributes:
        columns: for each column the values of all documents.
        starts: the first token of each document, and the end of the last; a row for each column with lengths of its
            own. All other columns are as long as the first.
    """

    columns: Mapping[str, Array]
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts[0]) - 1

    @property
    def total(self) -> int:
        """The number of tokens in the first column."""
        return int(self.starts[0, -1])

    @staticmethod
    def of(columns: Mapping[str, Array], lengths: Sequence[Ints]) -> Documents:
        starts = np.zeros((len(lengths), len(lengths[0]) + 1), np.int64)
        np.cumsum(lengths, axis=1, out=starts[:, 1:])
        return Documents(columns, starts)

    @staticmethod
    def joined(parts: Sequence[Documents]) -> Documents:
        """All documents of all parts."""
        columns: dict[str, list[Array]] = {}
        for part in parts:
            for name, values in part.columns.items():
                columns.setdefault(name, []).append(values)
        lengths = np.concatenate([np.diff(part.starts) for part in parts], axis=1)
        return Documents.of({name: _joined(values) for name, values in columns.items()}, [*lengths])


def _joined(arrays: list[Array]) -> Array:
    """All values. Those of an array without any may have another dtype."""
    full = [array for array in arrays if len(array)] or arrays[:1]
    return full[0] if len(full) == 1 else np.concatenate(full)


class ColumnKind(NamedTuple):
    """The values of a column.

    Attributes:
        dtype: of the values.
        shape: of the items of a document.
        is_number: whether a document has one number, and not an item for each token.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    is_number: bool = False


class DocumentReader:
    """Reads the rows of a run as documents, which must have the same columns of the same dtypes.

    Args:
        column: the column of the tokens; None if rows have one column.
        pad: fills packs that are not full.
        room: the columns with lengths of their own, and the longest document in each; empty if there are none.

    Attributes:
        kinds: those of the columns with values so far.
    """

    def __init__(self, column: str | None, pad: Fill, room: Mapping[str, int] = MappingProxyType({})) -> None:
        self.kinds: dict[str, ColumnKind] = {}
        self._pad = pad
        self._column = column
        self._room = room
        self._names: tuple[str, ...] = ()  # of the columns, those with lengths of their own first
        self._given: tuple[str, ...] = ()  # the same in the order of the last row

    def read(self, rows: BlockRows) -> tuple[Documents, Exception | None]:
        """The documents before the first row that is none, and the error of that row."""
        if not isinstance(rows, Rows):
            documents, error = map_until_error(self._document, rows)
            return self._of_rows(documents), error
        try:
            return self._table(rows), None
        except UnfitError as error:
            row = error.row if isinstance(error, UnfitRowError) else 0
            if not row:
                return Documents.of({}, [np.zeros(0, np.int64)] * max(1, len(self._room))), error
            before, earlier_error = self.read(take(rows, range(row)))
            return before, earlier_error or error

    def _table(self, rows: Rows) -> Documents:
        self._check_names(rows.columns)
        values: dict[str, Array] = {}
        numbers: dict[str, Array] = {}  # one of each document
        lengths: dict[str, Ints] = {}
        for name in self._names:
            column = rows.columns[name]
            if name != self._names[0] and name not in self._room and _is_number(column):
                numbers[name] = _numbers(column, name)
            else:
                values[name], lengths[name] = _flat(column, name)
                self._check_length(name, lengths)
        own = [lengths[name] for name in self._room] or [lengths[self._names[0]]]
        values |= {name: np.repeat(each, own[0]) for name, each in numbers.items()}
        columns = {name: values[name] for name in self._names}
        for name, each in columns.items():
            if len(each):
                axis = self._axis(name)
                kind = ColumnKind(each.dtype, each.shape[1:], name in numbers)
                self._check_kind(name, kind, int(np.flatnonzero(own[axis])[0]))
        return Documents.of(columns, own)

    def _check_length(self, name: str, lengths: Mapping[str, Ints]) -> None:
        """Check the lengths of the documents in one column."""
        own = lengths[name]
        if not self._room:
            first = lengths[self._names[0]]
            if (own != first).any():
                row = int(np.flatnonzero(own != first)[0])
                raise UnfitRowError(_lengths_differ(self._names[0], first[row], name, own[row]), row)
        elif name not in self._room:
            raise UnfitRowError(_has_no_length(name))
        elif (own > self._room[name]).any():
            row = int(np.flatnonzero(own > self._room[name])[0])
            raise UnfitRowError(_too_long(name, own[row], self._room[name]), row)

    def _document(self, row: object) -> dict[str, Array]:
        if (
            type(row) is np.ndarray
            and row.ndim == 1
            and not self._names
            and self.kinds.get(TOKENS) == (row.dtype, (), False)
        ):
            return {TOKENS: row}  # as the rows before
        if isinstance(row, Mapping):
            self._check_names(cast("Mapping[str, object]", row))
            arrays = {name: _array(row[name], name) for name in self._names}
        elif self._column is not None or self._room:
            argument = "`column`" if self._column is not None else "`length` by column"
            raise UnfitError(
                f"rows must be dicts, because {argument} is given, but one is of type {type(row).__name__}"
            )
        else:
            arrays = {TOKENS: _array(row, TOKENS)}
        first = next(iter(arrays))
        room = self._room
        for name, array in arrays.items():
            shape = array.shape
            if not shape:
                if name == first or name in room:
                    raise UnfitError(f"field `{name}`: a number, {described(array)}; {_RULE}")
            elif not room:
                if shape[0] != len(arrays[first]):
                    raise UnfitError(_lengths_differ(first, len(arrays[first]), name, shape[0]))
            elif name not in room:
                raise UnfitError(_has_no_length(name))
            elif shape[0] > room[name]:
                raise UnfitError(_too_long(name, shape[0], room[name]))
            if shape[:1] != (0,) and self.kinds.get(name) != (array.dtype, shape[1:], not shape):
                self._check_kind(name, ColumnKind(array.dtype, shape[1:], not shape))  # an empty list has no dtype
        return arrays

    def _of_rows(self, documents: list[dict[str, Array]]) -> Documents:
        names = self._names or (TOKENS,)
        columns: dict[str, Array] = {}
        own: list[Ints] = []
        for name in names:
            arrays = [document[name] for document in documents]
            kind = self.kinds.get(name)
            if kind is not None and kind.is_number:  # one for each token; a document without tokens may lack it
                numbers = np.array([0 if array.ndim else array for array in arrays], kind.dtype)
                columns[name] = np.repeat(numbers, own[0])
                continue
            if len(own) < max(1, len(self._room)):
                own.append(np.fromiter(map(len, arrays), np.int64, len(arrays)))
            columns[name] = _joined(arrays) if arrays else np.zeros(0, np.int64)
        return Documents.of(columns, own)

    def _axis(self, name: str) -> int:
        """The number of the column that `name` is as long as."""
        return [*self._room].index(name) if name in self._room else 0

    def _check_names(self, columns: Mapping[str, object]) -> None:
        if self._given == tuple(columns):
            return
        names = self._in_order(columns)
        if self._names and set(names) != set(self._names):
            raise UnfitRowError(f"rows must have the same columns but have {list(self._names)} and {list(names)}")
        if not self._names:
            self._check_pad(list(names))
        self._names, self._given = names, tuple(columns)

    def _in_order(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns, those with lengths of their own first."""
        names = [*columns]
        added: Iterable[str] = ADDED_COLUMNS
        if self._room:
            firsts = [*self._room]
            unknown = [name for name in firsts if name not in names]
            if unknown:
                raise UnfitRowError(f"`length` must have names of columns, which are {names}, but has: {unknown[0]!r}")
            added = [f"{name}_{each}" for name in firsts for each in ADDED_COLUMNS]
        else:
            column = names[0] if self._column is None and len(names) == 1 else self._column
            if column is None:
                raise UnfitRowError(
                    f"`column` must be given if rows have several columns; which of {names} has the tokens?"
                )
            if column not in names:
                raise UnfitRowError(f"`column` must be one of {names} but is: {column!r}")
            firsts = [column]
        for name in added:
            if name in names:
                raise UnfitRowError(f"rows must not have a column `{name}`, because `pack` adds it; rename or drop it")
        return (*firsts, *(name for name in names if name not in firsts))

    def _check_kind(self, name: str, kind: ColumnKind, row: int = 0) -> None:
        before = self.kinds.get(name)
        if before is None:
            if not self._names:
                self._check_pad([TOKENS])
            filled(1, fill_of(self._pad, name), kind.dtype, name)
            self.kinds[name] = kind
        elif before != kind:
            what = f"shapes of items {before.shape} and {kind.shape}"
            if before.dtype != kind.dtype:
                what = f"dtypes {before.dtype} and {kind.dtype}"
            elif before.is_number != kind.is_number:
                what = "numbers and arrays"
            raise UnfitRowError(f"field `{name}`: {what} differ between rows; convert them with a `.map` before", row)

    def _check_pad(self, names: list[str]) -> None:
        unknown = [name for name in self._pad if name not in names] if isinstance(self._pad, Mapping) else []
        if unknown:
            raise UnfitRowError(f"`pad` must have names of columns, which are {names}, but has: {unknown[0]!r}")


def _array(value: object, field: str) -> Array:
    if isinstance(value, list) and not value:
        return np.zeros(0, np.int64)  # a float for NumPy
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UnfitError(f"field `{field}`: {error}; {_RULE}") from error
    if array.dtype.kind not in NUMBERS:
        raise UnfitError(f"field `{field}`: a value of type {type(value).__name__}, {described(array)}; {_RULE}")
    return array


def _is_number(column: Column) -> bool:
    """Whether a column has one number for each row."""
    return column.ndim == 1 if isinstance(column, np.ndarray) else is_plain_number(column)


def _numbers(column: Column, field: str) -> Array:
    if not isinstance(column, np.ndarray):
        if column.null_count:
            raise UnfitRowError(f"field `{field}`: null; {_RULE}", column.is_null().to_pylist().index(True))
        return cast("Array", numpy_array(column))
    if column.dtype.kind not in NUMBERS:
        raise UnfitRowError(f"field `{field}`: a column {described(column)}; {_RULE}")
    return column


def _flat(column: Column, field: str) -> tuple[Array, Ints]:
    """The items in all lists of a column, which may be lists or arrays themselves, and the length of each list."""
    array = grid(column) if not isinstance(column, np.ndarray) and is_grid(column) and not column.null_count else column
    if isinstance(array, np.ndarray) and array.ndim > 2:
        return array.reshape(-1, *array.shape[2:]), np.full(len(array), array.shape[1])
    kind: Any = None if isinstance(column, np.ndarray) else column.type
    if not hasattr(getattr(kind, "value_type", None), "value_field") or column.null_count:  # type: ignore[union-attr]
        return list_values(column, field, _RULE)
    outer: Any = column
    lengths = np.diff(numpy_array(outer.offsets)) if hasattr(outer, "offsets") else None
    if lengths is None:
        lengths = np.full(len(outer), kind.list_size)
    ends = np.cumsum(lengths, dtype=np.int64)
    try:
        values, widths = _flat(outer.flatten(), field)
        different = np.flatnonzero(widths != widths[:1])
        if len(different):
            place = int(different[0])
            raise UnfitRowError(f"field `{field}`: items of {widths[0]} and {widths[place]} numbers; {_RULE}", place)
    except UnfitRowError as error:
        raise UnfitRowError(str(error), int(np.searchsorted(ends, error.row, "right"))) from None
    width = int(widths[0]) if len(widths) else getattr(kind.value_type, "list_size", 0)
    return values.reshape(len(widths), width, *values.shape[1:]), lengths.astype(np.int64)


def _too_long(name: str, size: int, room: int) -> str:
    return (
        f"field `{name}`: {size} items, and `length` has room for {room}; leave such rows out with a `.filter`, or cut "
        "them in a `.map` before"
    )


def _has_no_length(name: str) -> str:
    return f"field `{name}`: an array, and `length` does not name it; give it a length, or drop the column"


def _lengths_differ(first: str, length: int, other: str, other_length: int) -> str:
    return (
        f"fields `{first}` and `{other}` of a row must have as many items but have {length} and {other_length}; drop "
        "columns that do not belong to the tokens"
    )


class _Run(NamedTuple):
    """The documents of one block, the cursors of the first and of the one after the last, and their origins."""

    documents: Documents
    at: Cursor
    end: Cursor
    origins: list[Origin | None] | None


class TokenStream:
    """Documents that are not packed yet.

    Attributes:
        available: the number of their tokens.
    """

    def __init__(self, packed: int, length: int, pad: Fill) -> None:
        self.available = -packed
        self._length = length
        self._pad = pad
        self._packed = packed  # tokens of the first run that are packed
        self._runs: deque[_Run] = deque()
        self._end = START

    def add(self, documents: Documents, block: Block) -> None:
        """Appends documents, the first rows of `block`."""
        if documents.total:
            end = block.end if len(documents) == len(block) else block.at.advance(len(documents))
            self._runs.append(_Run(documents, block.at, end, block.origins))
            self.available += documents.total

    def take(self, count: int, row: int) -> Block:
        """Take the next `count` packs, the first of which is row `row`. The last is padded."""
        at = self._cursor(row)
        size = min(count * self._length, self.available)
        tokens: list[dict[str, Array]] = []
        starts: list[Ints] = []  # of documents, counted from the first token taken
        origins: list[Origin | None] = []
        offset = -self._packed
        while offset < size:
            run = self._runs[0]
            start, stop = max(0, -offset), min(run.documents.total, size - offset)
            first = np.searchsorted(run.documents.starts[0], start, "right") - 1
            last = np.searchsorted(run.documents.starts[0], stop)
            starts.append(run.documents.starts[0][first:last] + offset)
            origins += run.origins[first:last] if run.origins else ()
            tokens.append({name: values[start:stop] for name, values in run.documents.columns.items()})
            offset += run.documents.total
            self._packed = stop
            if stop == run.documents.total:
                self._packed, self._end = 0, run.end
                self._runs.popleft()
        self.available -= size
        documents = np.concatenate(starts)
        edges = np.arange(0, size, self._length)
        packs = _packs_of(tokens, documents, edges, self._length, self._pad)
        owners = np.searchsorted(documents, edges, "right") - 1
        ends = np.searchsorted(documents, edges + self._length)
        spans = map(range, owners.tolist(), ends.tolist())
        return Block(packs, at, self._cursor(row + count), group_origins(origins or None, spans))

    def _cursor(self, row: int) -> Cursor:
        if not self._runs:
            return Cursor([self._end.plain, 0], 0, row)
        run = self._runs[0]
        document = int(np.searchsorted(run.documents.starts[0], self._packed, "right")) - 1
        packed = self._packed - int(run.documents.starts[0][document])
        return Cursor([run.at.advance(document).plain, packed], 0, row)


def _packs_of(parts: list[dict[str, Array]], documents: Ints, edges: Ints, length: int, pad: Fill) -> Rows:
    """Packs of all tokens of all parts.

    Args:
        parts: the tokens.
        documents: the first token of each document; the first document may begin before the tokens.
        edges: the first token of each pack.
        length: tokens of a pack.
        pad: fills the last pack.
    """
    size = sum(len(next(iter(part.values()))) for part in parts)
    missing = -size % length
    if missing:
        parts.append(
            {
                name: filled((missing, *values.shape[1:]), fill_of(pad, name), values.dtype, name)
                for name, values in parts[0].items()
            }
        )
    tokens = {name: _joined([part[name] for part in parts]) for name in parts[0]}
    starts = np.sort(np.concatenate([np.maximum(documents, 0), edges]))  # of pieces; some twice
    starts = starts[np.flatnonzero(np.append(starts[1:], size) > starts)]
    positions = starts - documents[np.searchsorted(documents, starts, "right") - 1]
    firsts = np.searchsorted(starts, edges)  # the first piece of each pack
    segments = np.arange(1, len(starts) + 1) - firsts[starts // length]
    if missing:
        starts, positions, segments = np.append(starts, size), np.append(positions, 0), np.append(segments, 0)
    return _pack_rows(tokens, starts, positions, segments, length)


def _pack_rows(tokens: Mapping[str, Array], starts: Ints, positions: Ints, segments: Ints, length: int) -> Rows:
    """Packs as rows of columns, with the number and the positions of each piece of a document.

    Args:
        tokens: the tokens of all packs with their padding, by column.
        starts: the first token of each piece in `tokens`; the first is 0.
        positions: for each piece the number of its first token in its document.
        segments: the number of each piece in its pack; 0 for padding.
        length: tokens of a pack.
    """
    total = len(next(iter(tokens.values())))
    columns = {**tokens, **dict(zip(ADDED_COLUMNS, _ids(total, starts, positions, segments), strict=True))}
    return _in_packs(columns, length)


def _ids(total: int, starts: Ints, positions: Ints, segments: Ints) -> tuple[Array, Array]:
    """The segment ids and the position ids of `total` tokens; the arguments are those of `_pack_rows`."""
    lengths = np.append(starts[1:], total) - starts
    segment_ids = np.repeat(segments.astype(np.int32), lengths)
    position_ids = np.arange(total, dtype=np.int32)
    position_ids -= np.repeat((starts - positions).astype(np.int32), lengths)
    if not segments.all():
        position_ids[segment_ids == 0] = 0
    return segment_ids, position_ids


def _in_packs(columns: Mapping[str, Array], length: int) -> Rows:
    packs = len(next(iter(columns.values()))) // length
    shaped = {name: values.reshape(packs, length, *values.shape[1:]) for name, values in columns.items()}
    return Rows({name: read_only(values) for name, values in shaped.items()}, packs)


def _fitted_packs(documents: Documents, length: int, pad: Fill) -> tuple[Rows, list[Ints]]:
    """Packs of whole documents, and the documents of each. Documents above `length` are cut first."""
    starts = documents.starts[0]
    sizes = np.diff(starts)
    counts = -(-sizes // length)  # of pieces
    owners = np.repeat(np.arange(len(sizes)), counts)
    positions = length * (np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts))
    lengths = np.minimum(length, sizes[owners] - positions)
    pieces = PackedPieces(best_fit(lengths, length))
    places = pieces.placed(documents.columns, starts[owners] + positions, lengths, length, pad)
    rows = _pack_rows(*pieces.with_padding(places, positions), length)
    return rows, pieces.members(owners)


def _fitted_columns(documents: Documents, room: Mapping[str, int], pad: Fill) -> tuple[Rows, list[Ints]]:
    """Packs of documents whose columns have lengths of their own, and the documents of each."""
    sizes = np.diff(documents.starts)
    owners = np.flatnonzero(sizes.any(0))
    pieces = PackedPieces(best_fit_columns(sizes[:, owners], [*room.values()]))
    columns: dict[str, Array] = {}
    added: dict[str, Array] = {}
    for axis, (name, length) in enumerate(room.items()):
        along = [name] if axis else [each for each in documents.columns if each == name or each not in room]
        places = pieces.placed(
            {each: documents.columns[each] for each in along},
            documents.starts[axis][owners],
            sizes[axis][owners],
            length,
            pad,
        )
        tokens, *rest = pieces.with_padding(places, np.zeros(len(owners), np.int64))
        ids = _ids(len(tokens[name]), *rest)
        in_packs = _in_packs({**tokens, **dict(zip(ADDED_COLUMNS, ids, strict=True))}, length).columns
        columns |= {each: cast("Array", in_packs[each]) for each in along}
        added |= {f"{name}_{each}": cast("Array", in_packs[each]) for each in ADDED_COLUMNS}
    columns = {name: columns[name] for name in documents.columns}
    return Rows({**columns, **added}, pieces.packs), pieces.members(owners)


class PlacedTokens(NamedTuple):
    """The tokens of packs with their padding, and of each piece the place and the length; pieces by pack."""

    tokens: dict[str, Array]
    places: Ints
    used: Ints  # the tokens of each pack
    length: int


class PackedPieces:
    """Pieces of documents, in packs.

    Args:
        bins: the pack of each piece.
    """

    def __init__(self, bins: Ints) -> None:
        self._order = np.argsort(bins, kind="stable")
        self._bins = bins[self._order]
        self._firsts = np.flatnonzero(np.diff(self._bins, prepend=-1))  # the first piece of each pack
        self._segments = np.arange(1, len(bins) + 1) - self._firsts[self._bins]
        self.packs = len(self._firsts)

    def members(self, owners: Ints) -> list[Ints]:
        """The documents of each pack; `owners` has that of each piece."""
        return np.split(owners[self._order], self._firsts[1:])

    def placed(
        self, columns: Mapping[str, Array], sources: Ints, lengths: Ints, length: int, pad: Fill
    ) -> PlacedTokens:
        """Copy the tokens of all pieces into packs.

        Args:
            columns: the tokens of all documents.
            sources: the first token of each piece.
            lengths: its number of tokens.
            length: tokens of a pack.
            pad: fills packs.
        """
        sources, lengths = sources[self._order], lengths[self._order]
        ends = np.cumsum(lengths)
        before = (ends - lengths)[self._firsts]  # tokens in the packs before each pack
        places = self._bins * length + ends - lengths - before[self._bins]
        copies = list(zip(places.tolist(), sources.tolist(), lengths.tolist(), strict=True))
        tokens: dict[str, Array] = {}
        for name, values in columns.items():
            shape = self.packs * length, *values.shape[1:]
            tokens[name] = target = filled(shape, fill_of(pad, name), values.dtype, name)
            for place, source, size in copies:
                target[place : place + size] = values[source : source + size]
        return PlacedTokens(tokens, places, np.diff(before, append=ends[-1:]), length)

    def with_padding(self, placed: PlacedTokens, positions: Ints) -> tuple[dict[str, Array], Ints, Ints, Ints]:
        """Tokens, places, positions and segments of all pieces, and of the padding, which follows those of its pack."""
        padding = np.flatnonzero(placed.used < placed.length)
        after = self._firsts[padding] + np.bincount(self._bins)[padding]
        return (
            placed.tokens,
            np.insert(placed.places, after, padding * placed.length + placed.used[padding]),
            np.insert(positions[self._order], after, 0),
            np.insert(self._segments, after, 0),
        )


def best_fit(lengths: Ints, capacity: int) -> Ints:
    """The bin of each piece: the longest piece goes first, each into the fullest bin that has room for it.

    Bins are numbered by their first pieces. Best-fit decreasing needs at most 11/9 of the least possible number of bins
    (Johnson et al., 1974); packing by it keeps documents whole (Ding et al., "Fewer Truncations Improve Language
    Modeling", 2024).
    """
    order = np.argsort(-lengths, kind="stable")
    room: list[tuple[int, int]] = []  # the room left in each bin that is not full, and its number; sorted
    bins = np.empty(len(lengths), np.int64)
    count = 0
    for piece, size in zip(order.tolist(), lengths[order].tolist(), strict=True):
        place = bisect_left(room, (size,))
        if place < len(room):
            left, number = room.pop(place)
        else:
            left, number, count = capacity, count, count + 1
        bins[piece] = number
        if left > size:
            insort(room, (left - size, number))
    return _by_first_pieces(bins)


def best_fit_columns(sizes: Ints, room: Sequence[int]) -> Ints:
    """The bin of each piece, which has a size in each of several columns, as `best_fit` gives it for one.

    The piece that needs the largest part of any column goes first, each into the bin with the least room left, in all
    columns together, of those that have room for it in each.

    Args:
        sizes: of the pieces; a row for each column.
        room: of an empty bin, in each column.
    """
    capacity = np.array(room, np.int64)[:, None]
    order = np.argsort(-(sizes / capacity).max(0), kind="stable")
    count = 0
    left = [np.empty(sizes.shape[1], np.int64) for _ in room]  # the room in each bin, by column
    total = np.empty(sizes.shape[1])  # the parts of all columns that are left
    bins = np.empty(sizes.shape[1], np.int64)
    for piece, own in zip(order.tolist(), sizes[:, order].T.tolist(), strict=True):
        fits = left[0][:count] >= own[0]
        for free, size in zip(left[1:], own[1:], strict=True):
            fits &= free[:count] >= size
        (places,) = fits.nonzero()
        if len(places):
            number = places[total[places].argmin()]
        else:
            number, count = count, count + 1
            for free, whole in zip(left, room, strict=True):
                free[number] = whole
        part = 0.0
        for free, size, whole in zip(left, own, room, strict=True):
            free[number] -= size
            part += free[number] / whole
        total[number] = part
        bins[piece] = number
    return _by_first_pieces(bins)


def _by_first_pieces(bins: Ints) -> Ints:
    """The same bins, numbered by their first pieces."""
    _, firsts, numbers = np.unique(bins, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[numbers]
