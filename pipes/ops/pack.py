"""`pack`: rows of equal length made of the tokens of many documents."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block, group_origins, join_origins
from ..core.checks import check_choice, check_int
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.operator import Columns, Input, Operator, Order, StageView
from ..core.rows import Array, BlockRows, Rows, read_only, take
from ..engine.calls import map_until_error
from ..errors import ArgumentError, ArgumentTypeError, Origin, UnfitError, with_call_site
from ._shared import data_error
from .group_by import Groups, segment_blocks
from .pad_batch import NUMBERS, Fill, UnfitRowError, check_fill, described, fill_of, filled, list_values

if TYPE_CHECKING:
    from ..pipe import Pipe


Ints = npt.NDArray[np.int64]

TOKENS = "tokens"
"""The name of the tokens if a row is an array."""
ADDED_COLUMNS = "segment_ids", "position_ids"

_RULE = "`pack` takes one-dimensional arrays or lists of numbers; convert or drop others before"


def pack(
    pipe: Pipe[object],
    /,
    length: int,
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
    int32, which counts the tokens of a document from 0. Other columns, such as labels and masks, are packed along.
    Order: the input's; with "fit" packs come in the order of their first documents. Length: unknown; streamed; columns.
    State: a position in the input, and in a document; with "fit" a resume packs at most `window` rows again. Each
    virtual shard pads its own last pack.

    Args:
        length: tokens of a pack.
        column: the column of the tokens; may be left out if rows are arrays, or have one column.
        strategy: "cut" fills each pack and cuts the document at its end: the rest begins the next pack, where
            positions go on. "fit" keeps documents whole, puts those of `window` rows into as few packs as it can, and
            pads each pack; it cuts only documents above `length`.
        window: with "fit", the number of rows to choose from.
        pad: the value of padding in all columns, or a dict with that of each column by name; others get 0.
        drop_last: with "cut", leave out the last pack of a virtual shard if it is not full.

    Raises:
        DataError: a row is no one-dimensional array or list of numbers, dtypes differ between rows, or columns of a row
            differ in length; or `pad` names a column that rows do not have.
        ArgumentError: `length` or `window` is below 1, or `drop_last` is given with "fit".

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
class Pack(Operator):
    kind: ClassVar[str] = "pack"
    order: ClassVar[Order] = Order.REGROUPS
    columns: ClassVar[Columns] = Columns.MAKES

    size: int  # the `length`, which is a method here
    column: str | None = None
    strategy: Literal["cut", "fit"] = "cut"
    window: int = 1_000
    pad: Fill = 0
    drop_last: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("length", self.size, least=1))
        object.__setattr__(self, "window", check_int("window", self.window, least=1))
        if self.column is not None and not isinstance(self.column, str):
            raise ArgumentTypeError(with_call_site(f"`column` must be a name but got: {self.column!r}"))
        check_choice("strategy", self.strategy, ("cut", "fit"))
        for value in self.pad.values() if isinstance(self.pad, Mapping) else [self.pad]:
            check_fill("pad", value)
        if self.drop_last and self.strategy == "fit":
            raise ArgumentError(
                with_call_site('`drop_last` must be left out with `strategy="fit"`, because each pack may be padded')
            )

    def lookback(self) -> int:
        return 1 if self.strategy == "cut" else self.window

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, packed = (at.token, 0) if self.strategy == "fit" else cast("tuple[Json, int]", at.token or (None, 0))
        check_numbers(packed)
        yield stage.input, source

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        reader = DocumentReader(self.column, self.pad)
        if self.strategy == "fit":
            return segment_blocks(stage, at, context, self.window, partial(self._fitted, stage, context, reader))
        return self._filled(stage, at, context, reader)

    def _filled(self, stage: StageView, at: Cursor, context: Context, reader: DocumentReader) -> Iterator[Block]:
        # The token is the input's cursor at the document in which a pack begins, and how many of its tokens are packed.
        source, packed = cast("tuple[Json, int]", at.token or (None, 0))
        stream = TokenStream(packed, self.size, self.pad)
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(source), context):
            documents, error = reader.read(block.rows)
            stream.add(documents, block)
            while stream.available >= self.size:
                output = [stream.take(min(stream.available // self.size, block_size.rows()), row)]
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
        if not documents.total:
            return [], None
        rows, owners = _fitted_packs(documents, self.size, self.pad)
        return rows, group_origins(join_origins(segment), owners)

    def _failed(self, error: Exception, stage: StageView, at: Cursor, context: Context) -> Exception:
        return data_error(self, stage.failed(error, at, context))


@dataclass(frozen=True)
class Documents:
    """The tokens of many documents, one after the other, as flat arrays: no token becomes a Python object.

    Attributes:
        columns: for each column the values of all documents; there are none if no document has a token.
        starts: the first token of each document, and the end of the last.
    """

    columns: Mapping[str, Array]
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def total(self) -> int:
        """The number of tokens."""
        return int(self.starts[-1])

    @staticmethod
    def of(columns: Mapping[str, Array], lengths: Ints) -> Documents:
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        return Documents(columns if starts[-1] else {}, starts)

    @staticmethod
    def joined(parts: Sequence[Documents]) -> Documents:
        """All documents of all parts."""
        tables = [part.columns for part in parts if part.columns]
        return Documents.of(_joined_columns(tables), np.concatenate([np.diff(part.starts) for part in parts]))


class DocumentReader:
    """Reads the rows of a run as documents, which must have the same columns of the same dtypes.

    Attributes:
        pad: fills packs that are not full.
        dtypes: the columns, the tokens first; empty before the first token.
    """

    def __init__(self, column: str | None, pad: Fill) -> None:
        self.pad = pad
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self._column = column
        self._names: tuple[str, ...] = ()

    def read(self, rows: BlockRows) -> tuple[Documents, Exception | None]:
        """The documents before the first row that is none, and the error of that row."""
        if not isinstance(rows, Rows):
            documents, error = map_until_error(self._document, rows)
            return self._joined(documents), error
        try:
            return self._table(rows), None
        except UnfitError as error:
            row = error.row if isinstance(error, UnfitRowError) else 0
            if not row:
                return Documents.of({}, np.zeros(0, np.int64)), error
            before, earlier_error = self.read(take(rows, range(row)))
            return before, earlier_error or error

    def _table(self, rows: Rows) -> Documents:
        self._check_names(rows.columns)
        lists = {name: list_values(rows.columns[name], name, _RULE) for name in self._names}
        lengths = lists[self._names[0]][1]
        for name, (_, others) in lists.items():
            if (others != lengths).any():
                row = int(np.flatnonzero(others != lengths)[0])
                raise UnfitRowError(_lengths_differ(self._names[0], lengths[row], name, others[row]), row)
        columns = {name: values for name, (values, _) in lists.items()}
        if lengths.any():
            self._check_dtypes(columns, int(np.flatnonzero(lengths)[0]))
        return Documents.of(columns, lengths)

    def _document(self, row: object) -> dict[str, Array]:
        if type(row) is np.ndarray and row.ndim == 1 and row.dtype is self.dtypes.get(TOKENS) and not self._names:
            return {TOKENS: row}  # as the rows before
        if isinstance(row, Mapping):
            self._check_names(cast("Mapping[str, object]", row))
            arrays = {name: _array(row[name], name) for name in self._names}
        elif self._column is not None:
            raise UnfitError(f"rows must be dicts, because `column` is given, but one is of type {type(row).__name__}")
        else:
            arrays = {TOKENS: _array(row, TOKENS)}
        first, *others = arrays
        for name in others:
            if len(arrays[name]) != len(arrays[first]):
                raise UnfitError(_lengths_differ(first, len(arrays[first]), name, len(arrays[name])))
        if len(arrays[first]):  # an empty list has no dtype
            self._check_dtypes(arrays)
        return arrays

    def _joined(self, documents: list[dict[str, Array]]) -> Documents:
        tokens = map(itemgetter(self._names[0] if self._names else TOKENS), documents)
        lengths = np.fromiter(map(len, tokens), np.int64, len(documents))
        return Documents.of(_joined_columns(list(compress(documents, lengths.tolist()))), lengths)

    def _check_names(self, columns: Mapping[str, object]) -> None:
        if self._names and self._names == tuple(columns):
            return
        names = self._tokens_first(columns)
        if self._names and set(names) != set(self._names):
            raise UnfitRowError(f"rows must have the same columns but have {list(self._names)} and {list(names)}")
        self._names = names

    def _tokens_first(self, columns: Iterable[str]) -> tuple[str, ...]:
        names = [*columns]
        column = names[0] if self._column is None and len(names) == 1 else self._column
        if column is None:
            raise UnfitRowError(
                f"`column` must be given if rows have several columns; which of {names} has the tokens?"
            )
        if column not in names:
            raise UnfitRowError(f"`column` must be one of {names} but is: {column!r}")
        for name in ADDED_COLUMNS:
            if name in names:
                raise UnfitRowError(f"rows must not have a column `{name}`, because `pack` adds it; rename or drop it")
        return (column, *(name for name in names if name != column))

    def _check_dtypes(self, columns: Mapping[str, Array], row: int = 0) -> None:
        dtypes = {name: values.dtype for name, values in columns.items()}
        if not self.dtypes:
            self._check_pad(list(columns))
            for name, dtype in dtypes.items():
                filled(1, fill_of(self.pad, name), dtype, name)
            self.dtypes = dtypes
        elif dtypes != self.dtypes:
            name = next(name for name in dtypes if dtypes[name] != self.dtypes[name])
            raise UnfitRowError(
                f"field `{name}`: dtypes {self.dtypes[name]} and {dtypes[name]} differ between rows; convert them with "
                "a `.map` before",
                row,
            )

    def _check_pad(self, names: list[str]) -> None:
        unknown = [name for name in self.pad if name not in names] if isinstance(self.pad, Mapping) else []
        if unknown:
            raise UnfitRowError(f"`pad` must have names of columns, which are {names}, but has: {unknown[0]!r}")


def _joined_columns(tables: Sequence[Mapping[str, Array]]) -> Mapping[str, Array]:
    """The values of all tables, which have the same columns; none if there is no table."""
    if len(tables) == 1:
        return tables[0]
    return {name: np.concatenate([table[name] for table in tables]) for name in (tables[0] if tables else ())}


def _array(value: object, field: str) -> Array:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UnfitError(f"field `{field}`: {error}; {_RULE}") from error
    if array.ndim != 1 or (array.dtype.kind not in NUMBERS):
        raise UnfitError(f"field `{field}`: a value of type {type(value).__name__}, {described(array)}; {_RULE}")
    return array


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
            first = np.searchsorted(run.documents.starts, start, "right") - 1
            last = np.searchsorted(run.documents.starts, stop)
            starts.append(run.documents.starts[first:last] + offset)
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
        document = int(np.searchsorted(run.documents.starts, self._packed, "right")) - 1
        packed = self._packed - int(run.documents.starts[document])
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
            {name: filled(missing, fill_of(pad, name), values.dtype, name) for name, values in parts[0].items()}
        )
    tokens = _joined_columns(parts)
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
    lengths = np.append(starts[1:], total) - starts
    segment_ids = np.repeat(segments.astype(np.int32), lengths)
    position_ids = np.arange(total, dtype=np.int32)
    position_ids -= np.repeat((starts - positions).astype(np.int32), lengths)
    if not segments.all():
        position_ids[segment_ids == 0] = 0
    columns = {**tokens, "segment_ids": segment_ids, "position_ids": position_ids}
    packs = total // length
    return Rows({name: read_only(values.reshape(packs, length)) for name, values in columns.items()}, packs)


def _fitted_packs(documents: Documents, length: int, pad: Fill) -> tuple[Rows, list[Ints]]:
    """Packs of whole documents, and the documents of each. Documents above `length` are cut first."""
    sizes = np.diff(documents.starts)
    counts = -(-sizes // length)  # of pieces
    owners = np.repeat(np.arange(len(sizes)), counts)
    positions = length * (np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts))
    lengths = np.minimum(length, sizes[owners] - positions)
    bins = best_fit(lengths, length)
    order = np.argsort(bins, kind="stable")
    owners, positions, lengths, bins = owners[order], positions[order], lengths[order], bins[order]
    firsts = np.flatnonzero(np.diff(bins, prepend=-1))  # the first piece of each pack
    packs = len(firsts)
    segments = np.arange(1, len(bins) + 1) - firsts[bins]
    ends = np.cumsum(lengths)
    before = (ends - lengths)[firsts]  # tokens in the packs before each pack
    places = bins * length + ends - lengths - before[bins]
    copies = list(zip(places.tolist(), (documents.starts[owners] + positions).tolist(), lengths.tolist(), strict=True))
    tokens: dict[str, Array] = {}
    for name, values in documents.columns.items():
        tokens[name] = target = filled(packs * length, fill_of(pad, name), values.dtype, name)
        for place, source, size in copies:
            target[place : place + size] = values[source : source + size]
    used = np.diff(before, append=ends[-1:])
    padding = np.flatnonzero(used < length)
    after = firsts[padding] + np.bincount(bins)[padding]  # the padding follows the last piece of its pack
    places = np.insert(places, after, padding * length + used[padding])
    rows = _pack_rows(tokens, places, np.insert(positions, after, 0), np.insert(segments, after, 0), length)
    return rows, np.split(owners, firsts[1:])


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
    _, firsts, numbers = np.unique(bins, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[numbers]
