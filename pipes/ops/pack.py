"""`pack`: rows of equal length made of the tokens of many documents."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.block import Block, join_origins
from ..core.checks import check_choice, check_int
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.lazy import pa
from ..core.operator import Columns, Grouping, Input, Past, StageView
from ..core.origins import Origins
from ..core.rows import Array, BlockRows, Column, Rows, is_plain_number, read_only
from ..errors import ArgumentError, ArgumentTypeError, UnfitError
from ._shared import convert_until_error, data_error
from .group_by import Groups, segment_blocks
from .pad_batch import NUMBERS, Fill, check_fill, described, fill_of, filled, list_items, number_array

if TYPE_CHECKING:
    from ..pipe import Pipe


Ints = npt.NDArray[np.int64]

TOKENS = "tokens"
"""The name of the tokens if a row is an array."""
ADDED_COLUMNS = "segment_ids", "position_ids"
SEQUENCE_COLUMNS = "cu_seqlens", "max_seqlen"

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
    cu_seqlens: bool = False,
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
        cu_seqlens: add what attention over sequences of different lengths takes, such as FlashAttention's
            `flash_attn_varlen_func`: "cu_seqlens", int32, with the place at which each sequence of the pack begins, and
            the length of the pack; "max_seqlen", int32, the length of the longest. Padding counts as a sequence. Packs
            have different numbers of sequences, so each is a batch: `.batch(1)`, of a greater `length`.

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
        >>> [(pack["cu_seqlens"], pack["max_seqlen"]) for pack in documents.pack(6, cu_seqlens=True)]
        [([0, 3, 5, 6], 3), ([0, 3, 6], 3)]
    """
    return pipe.then(Pack(length, column, strategy, window, pad, drop_last, cu_seqlens))


@dataclass(frozen=True, eq=False, repr=False)
class Pack(Grouping):
    kind: ClassVar[str] = "pack"
    columns: ClassVar[Columns] = Columns.MAKES
    size: int | Mapping[str, int]  # the `length`, which is a method here
    column: str | None = None
    strategy: Literal["cut", "fit"] = "cut"
    window: int = 1_000
    pad: Fill = 0
    drop_last: bool = False
    cu_seqlens: bool = False

    def __post_init__(self) -> None:
        check_choice("cu_seqlens", self.cu_seqlens, (False, True))
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

    @classmethod
    def inputs_at(cls, past: Past, at: Cursor) -> list[Json] | None:
        source, packed = cast("tuple[Json, int]", at.token or (None, 0))
        is_between = "strategy" not in past.facts and not at.skip and not packed
        return [source] if is_between else None

    @classmethod
    def token_for(cls, past: Past, facts: Mapping[str, Json], at: Cursor) -> Json:
        length = past.number("size")
        same = all(past.facts.get(name) == facts.get(name) for name in ("column", "strategy"))
        if length is None or not same or "strategy" in facts:
            return None
        source, packed = cast("tuple[Json, int]", at.token or (None, 0))
        return [source, packed + at.skip * length]

    @property
    def edits(self) -> Literal["groups", "order"]:  # type: ignore[override]
        return "groups" if self.strategy == "cut" else "order"

    def lookback(self) -> int:
        return 1 if self.strategy == "cut" else self.window

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, packed = (at.token, 0) if self.strategy == "fit" else cast("tuple[Json, int]", at.token or (None, 0))
        check_numbers(packed)
        yield stage.input, source

    @property
    def added_columns(self) -> list[str]:
        """The columns beside those of the rows."""
        names = [*ADDED_COLUMNS, *(SEQUENCE_COLUMNS if self.cu_seqlens else ())]
        columns = self.size if isinstance(self.size, Mapping) else {}
        return [f"{column}_{name}" for column in columns for name in names] or names

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        reader = DocumentReader(self)
        if self.strategy == "fit":
            return segment_blocks(stage, at, context, self.window, partial(self._fitted, stage, context, reader))
        return self._cut(stage, at, context, reader, cast("int", self.size))

    def _cut(
        self, stage: StageView, at: Cursor, context: Context, reader: DocumentReader, length: int
    ) -> Iterator[Block]:
        # The token is the input's cursor at the document in which a pack begins, and how many of its tokens are packed.
        source, packed = cast("tuple[Json, int]", at.token or (None, 0))
        stream = TokenStream(packed, length, self.pad, self.cu_seqlens)
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
                raise data_error(self, stage.failed(error, block.at.advance(len(documents)), context))
        if stream.available > 0 and not self.drop_last:
            yield stream.take(1, row)

    def _fitted(self, stage: StageView, context: Context, reader: DocumentReader, segment: list[Block]) -> Groups:
        parts: list[Documents] = []
        for block in segment:
            documents, error = reader.read(block.rows)
            if error is not None:
                raise data_error(self, stage.failed(error, block.at.advance(len(documents)), context))
            parts.append(documents)
        if not any(part.starts[:, -1].any() for part in parts):
            return [], None
        rows, owners = fitted(Documents.joined(parts), self.size, self.pad, self.cu_seqlens)
        return rows, _packed_origins(join_origins(segment), owners)


def _packed_origins(origins: Origins | None, packs: Sequence[Sequence[int] | Ints], begun: int = 0) -> Origins | None:
    """The origins of packs of documents. A document counts in the first pack that has a part of it.

    The first `begun` documents have a part in an earlier pack.
    """
    if origins is None:
        return None
    sizes = [len(pack) for pack in packs]
    documents = np.concatenate([np.zeros(0, np.int64), *map(np.asarray, packs)])
    is_first = np.zeros(len(documents), np.bool_)
    is_first[np.unique(documents, return_index=True)[1]] = True
    ends = np.cumsum(sizes).tolist()
    groups = [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return origins.select(documents).counted(is_first & (documents >= begun)).grouped(groups)


# Rows as documents.


@dataclass(frozen=True)
class Documents:
    """The tokens of many documents, one after the other, as flat arrays: no token becomes a Python object.

    `starts` has the first token of each document, and the end of the last; a row for each column with lengths of its
    own. All other columns are as long as the first.
    """

    columns: Mapping[str, Array]
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts[0]) - 1

    @staticmethod
    def of(columns: Mapping[str, Array], lengths: Ints) -> Documents:
        return Documents(columns, np.cumsum(np.pad(lengths, ((0, 0), (1, 0))), axis=1, dtype=np.int64))

    @staticmethod
    def joined(parts: Sequence[Documents]) -> Documents:
        """All documents of all parts."""
        names = dict.fromkeys(name for part in parts for name in part.columns)
        columns = {name: _joined([part.columns[name] for part in parts if name in part.columns]) for name in names}
        return Documents.of(columns, np.concatenate([np.diff(part.starts) for part in parts], axis=1))


def _joined(arrays: list[Array]) -> Array:
    """All values. Those of an array without any may have another dtype."""
    full = [array for array in arrays if len(array)] or arrays[:1]
    return full[0] if len(full) == 1 else np.concatenate(full) if full else np.zeros(0, np.int64)


class ColumnKind(NamedTuple):
    """The dtype of the values of a column, the shape of a document's items, and if it has one number instead."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_number: bool


class DocumentReader:
    """Reads the rows of a run as documents, which must have the same columns of the same dtypes."""

    def __init__(self, op: Pack) -> None:
        self._column, self._pad, self._added = op.column, op.pad, op.added_columns
        self._room = op.size if isinstance(op.size, Mapping) else {}  # of the columns with lengths of their own
        self._names: tuple[str, ...] = ()  # of all columns, those with lengths of their own first
        self._kinds: dict[str, ColumnKind] = {}  # of the columns with values so far

    def read(self, rows: BlockRows) -> tuple[Documents, Exception | None]:
        """The documents before the first row that is none, and the error of that row."""
        documents, error = convert_until_error(self._documents, cast("Rows", rows))
        return documents or Documents.of({}, np.zeros((max(1, len(self._room)), 0), np.int64)), error

    def _documents(self, rows: BlockRows) -> Documents:
        columns = rows.columns if isinstance(rows, Rows) else self._columns_of(rows)
        self._check_names(list(columns))
        values: dict[str, Array] = {}
        lengths: dict[str, Ints] = {}
        for name in self._names:
            values[name], lengths[name] = self._flat(name, columns[name])
            self._check_lengths(name, lengths)
        own = np.stack([lengths[name] for name in self._room or self._names[:1]])
        numbers = [name for name, kind in self._kinds.items() if kind.is_number]
        return Documents.of(values | {name: np.repeat(values[name], own[0]) for name in numbers}, own)

    def _columns_of(self, rows: list[Any]) -> dict[str, list[Any]]:
        other = next((row for row in rows if not isinstance(row, Mapping)), None)
        if other is not None:
            if self._column is None and not self._room and not any(isinstance(row, Mapping) for row in rows):
                return {TOKENS: rows}
            reason = (
                "`length` by column is given" if self._room else "`column` is given" if self._column else "others are"
            )
            raise UnfitError(f"rows must be dicts, because {reason}, but one is of type {type(other).__name__}")
        for row in rows:
            if row.keys() != rows[0].keys():
                raise self._other_columns(self._in_order(list(rows[0])), self._in_order(list(row)))
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _flat(self, name: str, column: Column | list[Any]) -> tuple[Array, Ints]:
        """The items of all documents, and the length of each; -1 of one that has a number instead."""
        needs_items = name in self._room or name == self._names[0]
        if isinstance(column, list):
            arrays = [number_array(value, name, _RULE, least=0) for value in column]
            for array in arrays:
                if needs_items and not array.ndim:
                    raise UnfitError(f"field `{name}`: a number, {described(array)}; {_RULE}")
            kinds = (ColumnKind(a.dtype, a.shape[1:], not a.ndim) for a in arrays if a.shape[:1] != (0,))
            for kind in dict.fromkeys(kinds):  # an empty list has no dtype
                self._check_kind(name, kind)
            if name in self._kinds and self._kinds[name].is_number:
                numbers = np.array([0 if array.ndim else array for array in arrays], self._kinds[name].dtype)
                return numbers, np.array([-(not array.ndim) for array in arrays])
            return _joined(arrays), np.fromiter(map(len, arrays), np.int64, len(arrays))
        if is_number := not needs_items and _is_number(column):
            values, lengths = _numbers(column, name), np.full(len(column), -1)
        else:
            values, lengths = list_items(column, name, _RULE, _RULE)
        if len(values):
            self._check_kind(name, ColumnKind(values.dtype, values.shape[1:], is_number))
        return values, lengths

    def _check_lengths(self, name: str, lengths: Mapping[str, Ints]) -> None:
        own, first = lengths[name], lengths[self._names[0]]
        if name in self._room:
            if (own > self._room[name]).any():
                raise UnfitError(
                    f"field `{name}`: {own.max()} items, and `length` has room for {self._room[name]}; leave such rows "
                    "out with a `.filter`, or cut them in a `.map` before"
                )
        elif self._room and (own >= 0).any():
            raise UnfitError(
                f"field `{name}`: an array, and `length` does not name it; give it a length, or drop the column"
            )
        elif not self._room and len(different := np.flatnonzero((own != first) & (own >= 0))):
            raise UnfitError(
                f"fields `{self._names[0]}` and `{name}` of a row must have as many items but have "
                f"{first[different[0]]} and {own[different[0]]}; drop columns that do not belong to the tokens"
            )

    def _check_names(self, columns: list[str]) -> None:
        names = self._in_order(columns)
        if self._names and set(names) != set(self._names):
            raise self._other_columns(self._names, names)
        unknown = [name for name in self._pad if name not in names] if isinstance(self._pad, Mapping) else []
        if unknown:
            raise UnfitError(f"`pad` must have names of columns, which are {list(names)}, but has: {unknown[0]!r}")
        self._names = names

    def _in_order(self, names: list[str]) -> tuple[str, ...]:
        """The columns, those with lengths of their own first."""
        column = names[0] if self._column is None and len(names) == 1 else self._column
        if column is None and not self._room:
            raise UnfitError(f"`column` must be given if rows have several columns; which of {names} has the tokens?")
        firsts = [*self._room] or [column or ""]
        for name in firsts:
            if name not in names and self._room:
                raise UnfitError(f"`length` must have names of columns, which are {names}, but has: {name!r}")
            if name not in names:
                raise UnfitError(f"`column` must be one of {names} but is: {name!r}")
        for name in self._added:
            if name in names:
                raise UnfitError(f"rows must not have a column `{name}`, because `pack` adds it; rename or drop it")
        return tuple(dict.fromkeys([*firsts, *names]))

    def _other_columns(self, names: Sequence[str], others: Sequence[str]) -> UnfitError:
        return UnfitError(f"rows must have the same columns but have {list(names)} and {list(others)}")

    def _check_kind(self, name: str, kind: ColumnKind) -> None:
        before = self._kinds.get(name)
        if before is None:
            filled(1, fill_of(self._pad, name), kind.dtype, name)
            self._kinds[name] = kind
        elif before != kind:
            what = f"shapes of items {before.shape} and {kind.shape}"
            if before.dtype != kind.dtype:
                what = f"dtypes {before.dtype} and {kind.dtype}"
            elif before.is_number != kind.is_number:
                what = "numbers and arrays"
            raise UnfitError(f"field `{name}`: {what} differ between rows; convert them with a `.map` before")


def _is_number(column: Column) -> bool:
    """Whether a column has one number for each row."""
    return column.ndim == 1 if isinstance(column, np.ndarray) else is_plain_number(column)


def _numbers(column: Column, field: str) -> Array:
    if not isinstance(column, np.ndarray):
        if column.null_count:
            raise UnfitError(f"field `{field}`: null; {_RULE}")
        return cast("Array", numpy_array(column))
    if column.dtype.kind not in NUMBERS:
        raise UnfitError(f"field `{field}`: a column {described(column)}; {_RULE}")
    return column


# Packs: pieces of documents, and padding.


def _ids(total: int, starts: Ints, positions: Ints, segments: Ints) -> dict[str, Array]:
    """The added columns of `total` tokens, which are pieces of documents, or of padding.

    Each piece has its first token, the place of that in its document, and its number in its pack; 0 for padding.
    """
    lengths = np.append(starts[1:], total) - starts
    segment_ids = np.repeat(segments.astype(np.int32), lengths)
    position_ids = np.arange(total, dtype=np.int32)
    position_ids -= np.repeat((starts - positions).astype(np.int32), lengths)
    position_ids[segment_ids == 0] = 0
    return dict(zip(ADDED_COLUMNS, (segment_ids, position_ids), strict=True))


def _in_packs(columns: Mapping[str, Array], length: int) -> dict[str, Array]:
    return {name: read_only(values.reshape(-1, length, *values.shape[1:])) for name, values in columns.items()}


def _sequences(segment_ids: Array) -> dict[str, Column]:
    """The columns "cu_seqlens" and "max_seqlen" of packs with these segments."""
    packs, length = segment_ids.shape
    is_edge = np.ones((packs, length + 1), np.bool_)
    is_edge[:, 1:-1] = segment_ids[:, 1:] != segment_ids[:, :-1]
    edges = np.nonzero(is_edge)[1].astype(np.int32)
    ends = np.cumsum(is_edge.sum(1))
    lengths = np.diff(edges, append=np.int32(0))  # below 0 from the end of a pack to the next one
    longest = np.maximum.reduceat(lengths, np.append(0, ends[:-1])) if packs else lengths
    offsets: Any = pa.array(np.append(0, ends))
    lists = pa.LargeListArray.from_arrays(offsets, pa.array(edges))
    return dict(zip(SEQUENCE_COLUMNS, (lists, read_only(longest)), strict=True))


class TokenStream:
    """Documents that are not packed yet, with `available` tokens."""

    def __init__(self, packed: int, length: int, pad: Fill, cu_seqlens: bool) -> None:
        self.available = -packed
        self._length = length
        self._cu_seqlens = cu_seqlens
        self._pad = pad
        self._packed = packed  # tokens of the first run that are packed
        self._runs: deque[tuple[Documents, Block]] = deque()
        self._end = START

    def add(self, documents: Documents, block: Block) -> None:
        """Appends documents, the first rows of `block`."""
        if total := int(documents.starts[0, -1]):
            self._runs.append((documents, block.slice(0, len(documents))))
            self.available += total

    def take(self, count: int, row: int) -> Block:
        """Take the next `count` packs, the first of which is row `row`. The last is padded."""
        at = self._cursor(row)
        size = min(count * self._length, self.available)
        parts: list[dict[str, Array]] = []
        starts: list[Ints] = []  # of documents, counted from the first token taken
        taken: list[Block] = []  # of the documents
        offset = -self._packed
        while offset < size:
            documents, block = self._runs[0]
            total = int(documents.starts[0, -1])
            begin, stop = max(0, -offset), min(total, size - offset)
            first = np.searchsorted(documents.starts[0], begin, "right") - 1
            last = np.searchsorted(documents.starts[0], stop)
            starts.append(documents.starts[0][first:last] + offset)
            taken.append(block.slice(int(first), int(last)))
            parts.append({name: values[begin:stop] for name, values in documents.columns.items()})
            offset += total
            self._packed = stop
            if stop == total:
                self._packed, self._end = 0, block.end
                self._runs.popleft()
        self.available -= size
        if missing := -size % self._length:
            shapes = {name: (missing, *values.shape[1:]) for name, values in parts[0].items()}
            parts.append({n: filled(s, fill_of(self._pad, n), parts[0][n].dtype, n) for n, s in shapes.items()})
        tokens = {name: _joined([part[name] for part in parts]) for name in parts[0]}
        begins, edges = np.concatenate(starts), np.arange(0, size, self._length)
        ids = self._ids(begins, edges, size, missing)
        owners, ends = np.searchsorted(begins, edges, "right") - 1, np.searchsorted(begins, edges + self._length)
        spans = map(range, owners.tolist(), ends.tolist())
        begun = int(np.searchsorted(begins, 0))  # documents with tokens in an earlier pack
        columns = _in_packs(tokens | ids, self._length)
        packs = Rows({**columns, **(_sequences(columns["segment_ids"]) if self._cu_seqlens else {})}, count)
        return Block(packs, at, self._cursor(row + count), _packed_origins(join_origins(taken), [*spans], begun))

    def _ids(self, documents: Ints, edges: Ints, size: int, missing: int) -> dict[str, Array]:
        """The added columns of packs that begin at `edges`; the first document may begin before them."""
        starts = np.sort(np.concatenate([np.maximum(documents, 0), edges]))  # of pieces; some twice
        starts = starts[np.flatnonzero(np.append(starts[1:], size) > starts)]
        positions = starts - documents[np.searchsorted(documents, starts, "right") - 1]
        segments = np.arange(1, len(starts) + 1) - np.searchsorted(starts, edges)[starts // self._length]
        if missing:
            starts, positions, segments = np.append(starts, size), np.append(positions, 0), np.append(segments, 0)
        return _ids(size + missing, starts, positions, segments)

    def _cursor(self, row: int) -> Cursor:
        if not self._runs:
            return Cursor([self._end.plain, 0], 0, row)
        documents, block = self._runs[0]
        document = int(np.searchsorted(documents.starts[0], self._packed, "right")) - 1
        packed = self._packed - int(documents.starts[0, document])
        return Cursor([block.at.advance(document).plain, packed], 0, row)


def fitted(documents: Documents, size: int | Mapping[str, int], pad: Fill, cu_seqlens: bool) -> tuple[Rows, list[Ints]]:
    """Packs of whole documents, and the documents of each. Without lengths by column, long documents are cut first."""
    sizes = np.diff(documents.starts)
    if isinstance(size, Mapping):
        owners = np.flatnonzero(sizes.any(0))  # of each piece
        positions = np.zeros(len(owners), np.int64)
        lengths = sizes[:, owners]
        room, bins = size, best_fit_columns(lengths, [*size.values()])
    else:
        counts = -(-sizes[0] // size)
        owners = np.repeat(np.arange(len(counts)), counts)
        positions = size * (np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts))
        lengths = np.minimum(size, sizes[:, owners] - positions)
        room, bins = {next(iter(documents.columns)): size}, best_fit(lengths[0], size)
    order = np.argsort(bins, kind="stable")
    bins, owners, positions = bins[order], owners[order], positions[order]
    firsts = np.flatnonzero(np.diff(bins, prepend=-1))  # the first piece of each pack
    columns: dict[str, Array] = {}
    added: dict[str, Column] = {}
    for axis, (name, length) in enumerate(room.items()):
        along = {
            each: values
            for each, values in documents.columns.items()
            if each == name or (axis == 0 and each not in room)
        }
        sources, own = documents.starts[axis][owners] + positions, lengths[axis][order]
        tokens, ids = _placed(along, sources, own, positions, bins, firsts, length, pad)
        columns |= _in_packs(tokens, length)
        prefix = f"{name}_" if isinstance(size, Mapping) else ""
        grids = _in_packs(ids, length)
        sequences = _sequences(grids["segment_ids"]) if cu_seqlens else {}
        added |= {prefix + each: values for each, values in {**grids, **sequences}.items()}
    rows = Rows({**{name: columns[name] for name in documents.columns}, **added}, len(firsts))
    return rows, np.split(owners, firsts[1:])


def _placed(
    columns: Mapping[str, Array],
    sources: Ints,
    lengths: Ints,
    positions: Ints,
    bins: Ints,
    firsts: Ints,
    length: int,
    pad: Fill,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The tokens of packs with their padding, and the added columns.

    Each piece, pack by pack, has its first token, its tokens, its place in its document, and its pack. `firsts` are the
    first pieces of the packs.
    """
    packs = len(firsts)
    ends = np.cumsum(lengths)
    before = (ends - lengths)[firsts]  # tokens in the packs before each pack
    places = bins * length + ends - lengths - before[bins]
    tokens: dict[str, Array] = {}
    for name, values in columns.items():
        target = filled((packs * length, *values.shape[1:]), fill_of(pad, name), values.dtype, name)
        for place, source, size in zip(places.tolist(), sources.tolist(), lengths.tolist(), strict=True):
            target[place : place + size] = values[source : source + size]
        tokens[name] = target
    used = np.diff(before, append=ends[-1:])
    padded = np.flatnonzero(used < length)
    after = firsts[padded] + np.bincount(bins)[padded]  # padding follows the pieces of its pack
    places = np.insert(places, after, padded * length + used[padded])
    segments = np.insert(np.arange(1, len(bins) + 1) - firsts[bins], after, 0)
    return tokens, _ids(packs * length, places, np.insert(positions, after, 0), segments)


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
    """The bin of each piece, which has a size in each of several columns (rows of `sizes`), as in `best_fit`.

    The piece that needs the largest part of any column goes first, each into the bin with the least room left, in all
    columns together, of those that have room for it in each.
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
