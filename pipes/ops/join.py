"""`join`: columns of another table, by key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array, arrow_scalar, numpy_array
from ..core.block import Block, nbytes
from ..core.checks import check_choice, digest
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import START, Cursor, Json
from ..core.graph import Node, chain_code, find_remote
from ..core.lazy import pa
from ..core.operator import Operator, Order, StageView, TokenOfInput
from ..core.rows import BlockRows, Column, Indices, Rows, column_names, concat, pick, scalars, take, to_arrow
from ..core.shared_rows import SharedRows
from ..engine.calls import map_until_error
from ..engine.stage import bind, resolve
from ..errors import ArgumentError, ArgumentTypeError, CallSite, DataError, LimitError, PlanError, UnfitError
from ..formats.columns import check_names, to_column, to_rows
from ._keys import check_hashable, comparable_key, keys_of
from ._shared import as_mapping, data_error, existing_columns, plan_error

if TYPE_CHECKING:
    from ..pipe import Pipe


Ints = npt.NDArray[np.int64]

MAX_BYTES = 2**30
"""The memory that the rows of the other side may take in each process."""
MAX_ROWS_IN_DIGEST = 16
NO_ROW = -1
"""The number of a key that the other side does not have, and the place of its row."""


class ArrowTable(Protocol):
    """A data frame, an Arrow table, or anything else with Arrow's stream protocol."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def join(
    pipe: Pipe[Any],
    /,
    other: Mapping[Any, Mapping[str, object]]
    | Pipe[Any]
    | ArrowTable
    | Callable[[int], Mapping[Any, Mapping[str, object]] | ArrowTable],
    *,
    on: str | Sequence[str],
    other_on: str | Sequence[str] | None = None,
    how: Literal["inner", "left", "error"] = "inner",
    multiple: Literal["error", "first", "all"] = "error",
    suffix: str = "_right",
) -> Pipe[dict[str, object]]:
    """Add the columns of that row of another table that has the same key.

    Element: a row with the columns of the input, then those of the other side without its key. If both are tables, it
    stays columns; else it is a dict. Order is the input's. Length: with `how="left"` or "error", and one row for each
    key, the input's; then indexed if the input is. Else unknown; streamed. State: a position. Memory: each process that
    runs it reads the other side once, up to 1 GiB, with random draws of seed 0 and epoch 0.

    Args:
        other: a pipe whose rows are those of a table or dicts, a data frame or Arrow table, or a dict of rows by key.
            Or a function that returns one of the last three for the number of an epoch, such as negatives that were
            mined before it. Each process calls it once when an epoch begins, a resume too, so it must return the same
            for one epoch: write a file for each, and read that. Columns and their types must stay the same.
        on: the name of the key's column, or several names. A null is never found.
        other_on: the names in `other` if they differ.
        how: "inner" leaves out a row whose key is not found, "left" gives it nulls (None), "error" raises.
        multiple: the choice among several rows of `other` that have one key: "error" raises, "first" takes the first,
            "all" gives a row for each.
        suffix: added to the name of a column of `other` that the input has as well.

    Raises:
        PlanError: a column of the key is missing, its types differ, or two columns would have one name. If only a run
            can tell, a `DataError`. Or `remote()` is in the other side.
        DataError: a key is not found, or found several times; it names the row. Or a function returned other columns
            than in an earlier epoch.
        LimitError: the other side takes more than 1 GiB.

    Example:
        >>> import feedpipe as fp
        >>> names = {0: {"name": "cat"}, 1: {"name": "dog"}}
        >>> list(fp.from_sequence([{"label": 1}, {"label": 0}]).join(names, on="label"))
        [{'label': 1, 'name': 'dog'}, {'label': 0, 'name': 'cat'}]
    """
    check_choice("how", how, ("inner", "left", "error"))
    check_choice("multiple", multiple, ("error", "first", "all"))
    if not isinstance(suffix, str):
        raise ArgumentTypeError(f"`suffix` must be a string but got: {suffix!r}")
    own = check_names("on", [on] if isinstance(on, str) else on) or []
    others = own if other_on is None else check_names("other_on", [other_on] if isinstance(other_on, str) else other_on)
    if not own or len(own) != len(others or ()):
        raise ArgumentError(f"`on` and `other_on` must name as many columns but got: {on!r}, {other_on!r}")
    if isinstance(other, Node) and find_remote(other) is not None:
        raise PlanError(
            "`remote()` must not be in the other side of `join()`, because each process that runs `join()` "
            "reads that side by itself; leave it out"
        )
    if callable(other) and not isinstance(other, type) and not hasattr(other, "__arrow_c_stream__"):
        source = JoinSource(None, tuple(others or ()))
        return pipe.then(Join(source, on=tuple(own), how=how, multiple=multiple, suffix=suffix, function=other))
    is_dict = isinstance(other, Mapping)
    if is_dict and other_on is not None:
        raise ArgumentError("`other_on` names columns of a table, and the keys of a dict have no name")
    source = _join_source(other, () if is_dict else tuple(others or ()))
    return pipe.then(Join(source, on=tuple(own), how=how, multiple=multiple, suffix=suffix))


@dataclass(frozen=True, eq=False, repr=False)
class Join(TokenOfInput):
    """A token is the input's cursor at the first row of a block; the rows that it gives before are skipped."""

    kind: ClassVar[str] = "join"
    order: ClassVar[Order] = Order.ROW_LOCAL

    other: JoinSource = field(repr=False)
    on: tuple[str, ...] = field(kw_only=True)
    how: str = field(default="inner", kw_only=True)
    multiple: str = field(default="error", kw_only=True)
    suffix: str = field(default="_right", kw_only=True)
    function: Callable[[int], object] | None = field(default=None, kw_only=True)
    memory: SideOfEpoch = field(default_factory=lambda: SideOfEpoch(), repr=False, compare=False)

    @property
    def _one_to_one(self) -> bool:
        """True if each row of the input gives one row."""
        return self.how != "inner" and self.multiple != "all"

    def call(self) -> str:
        arguments: dict[str, object] = {"on": _shortest(self.on)}
        if self.other.key not in ((), self.on):
            arguments["other_on"] = _shortest(self.other.key)
        options = {"how": "inner", "multiple": "error", "suffix": "_right"}
        arguments |= {name: getattr(self, name) for name, default in options.items() if getattr(self, name) != default}
        other = self.other.code if self.function is None else value_code(self.function)
        return f"join({other}, {', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    def identity(self) -> Json:
        return {"other": self.other.identity()}

    def within(self, rows: range) -> Operator:
        return self

    def reshuffles(self) -> bool:
        return self.function is not None

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0] and self._one_to_one

    def length(self, stage: StageView) -> int | None:
        return stage.input.length if self._one_to_one else None

    def resolve(self, stage: StageView) -> Operator:
        resolved = replace(self, other=self.other.resolved())
        resolved.schema(stage)  # so that a wrong name fails here
        return resolved

    def schema(self, stage: StageView) -> pa.Schema | None:
        schema, other = stage.input.schema, self.other.schema()
        try:
            if schema is not None:
                self.other.check_key(self.on, schema, other)
            return (
                None if schema is None or other is None else _join_schemas(schema, other, self.other.key, self.suffix)
            )
        except UnfitError as error:
            raise plan_error(self, stage, error) from None

    def remark(self, stage: StageView) -> str:
        how_often = "once" if self.function is None else "once in each epoch"
        return f"each process that runs it reads the other side {how_often}, and keeps it in memory"

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows = stage.input.rows(indices, context)
        side = self._side(stage, context.epoch)
        matches, tested, error = self._match(side, rows)
        if error is None:
            try:
                return self._join(side, rows, matches)
            except UnfitError as unfit:
                error, tested = unfit, 0
        raise data_error(self, stage.failed_at(error, int(indices[tested]) if len(indices) else 0, context))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            side = self._side(stage, context.epoch)
            matches, tested, error = self._match(side, block.rows)
            end = block.end if tested == len(block) else block.at.advance(tested)
            start = 0
            while start < len(matches.left):
                # Many rows of the other side may have the key of one row.
                stop = min(len(matches.left), start + max(block_size.rows(), len(block)))
                part = Matches(matches.left[start:stop], matches.right[start:stop])
                here = self._cursor(block, matches, start, row)
                try:
                    rows = self._join(side, block.rows, part)
                except UnfitError as unfit:
                    at_row = block.at.advance(int(part.left[0]))
                    raise data_error(self, stage.failed(unfit, at_row, context)) from None
                after = Cursor(end.plain, 0, row + len(rows))
                if stop < len(matches.left):
                    after = self._cursor(block, matches, stop, row + len(rows))
                block_size.produced(rows)
                origins = block.origins and block.origins.select(part.left)
                yield Block(rows, here, after, origins)
                row += len(rows)
                start = stop
            if error is not None:
                raise data_error(self, stage.failed(error, end, context))

    def _cursor(self, block: Block, matches: Matches, place: int, row: int) -> Cursor:
        """The cursor of the pair at `place`, which is row `row` of the output."""
        left = int(matches.left[place])
        skipped = place - int(np.searchsorted(matches.left, left))
        return Cursor(block.at.advance(left).plain, skipped, row - skipped)

    def _match(self, side: OtherSide, rows: BlockRows) -> tuple[Matches, int, Exception | None]:
        """The pairs of the rows before the first that fails, the number of these rows, and the error."""
        numbers, error = side.find(rows, self.on)
        missing = np.flatnonzero(numbers == NO_ROW)
        if self.how == "error" and len(missing):
            numbers = numbers[: missing[0]]
            error = self.other.no_match(take(rows, range(len(numbers), len(numbers) + 1)), self.on)
        matches = side.match(numbers, keeps_all=self.how == "left", gives_all=self.multiple == "all")
        return matches, len(numbers), error

    def _join(self, side: OtherSide, rows: BlockRows, matches: Matches) -> BlockRows:
        return _join_rows(rows, side, matches, self.suffix, nulls=self.how == "left")

    def _side(self, stage: StageView, epoch: int) -> OtherSide:
        function = self.function

        def read() -> OtherSide:
            source = self.other if function is None else self.other.of_epoch(function(epoch), epoch, stage)
            return source.read(self, stage, nulls=self.how == "left", one_row=self.multiple == "error")

        return self.memory.get(0 if function is None else epoch, read, stage.call_site)


class SideOfEpoch:
    """The other side that a process holds: that of all epochs, or of the last one that was asked for.

    A copy or a pickle is empty, so another process reads it itself.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: tuple[int, OtherSide] | None = None
        self._columns: object = None  # of the first side

    def get(self, epoch: int, read: Callable[[], OtherSide], at: CallSite | None) -> OtherSide:
        """The side of `epoch`; the first caller reads it while others wait. If `read` raises, the next tries again.

        Raises:
            DataError: its columns are not those of the first side; it names the line `at`.
        """
        with self._lock:
            if self._last is None or self._last[0] != epoch:
                self._last = None  # frees it before the next is read
                side = read()
                columns = side.columns()
                if self._columns not in (None, columns):
                    raise DataError(
                        f"the other side of `join`: in epoch {epoch} its columns are {columns}, and were "
                        f"{self._columns} before; return the same columns, of the same types, in each epoch",
                        at=at,
                    )
                self._columns, self._last = columns, (epoch, side)
            return self._last[1]

    def __reduce__(self) -> tuple[object, ...]:
        return SideOfEpoch, ()


# The other side, as it is given and as it is read.


@dataclass(frozen=True, eq=False)
class JoinSource:
    """The other side of a join, before it is read.

    Attributes:
        source: a pipe, a table, or a dict of rows by key; None if a function gives it for each epoch.
        key: the columns of the key; a dict has none.
    """

    source: Node | pa.Table | Mapping[Any, Any] | None
    key: tuple[str, ...]

    @property
    def code(self) -> str:
        if isinstance(self.source, Node):
            return chain_code(self.source)
        if self.source is None:
            return "<function>"
        rows = len(self.source) if isinstance(self.source, Mapping) else self.source.num_rows
        return f"<{'dict' if isinstance(self.source, Mapping) else 'Table'} of {rows}>"

    def identity(self) -> Json:
        """The identity of the other side in a state: the chain of a pipe, or some rows."""
        if self.source is None:
            return None
        if isinstance(self.source, Node):
            return chain_code(self.source)
        if isinstance(self.source, Mapping):
            return [len(self.source), digest(list(self.source.items())[:MAX_ROWS_IN_DIGEST])]
        rows = self.source.num_rows
        step = max(1, rows // MAX_ROWS_IN_DIGEST)
        return [rows, str(self.source.schema), digest(self.source.take([*range(0, rows, step)]).to_pylist())]

    def resolved(self) -> JoinSource:
        return replace(self, source=resolve(self.source)) if isinstance(self.source, Node) else self

    def schema(self) -> pa.Schema | None:
        """Names and types of the columns, if they are known without a run."""
        if isinstance(self.source, Node):
            return bind(self.source).schema
        return None if self.source is None or isinstance(self.source, Mapping) else self.source.schema

    def of_epoch(self, result: object, epoch: int, stage: StageView) -> JoinSource:
        """The source that a function has returned for an epoch."""
        if isinstance(result, Mapping):
            return JoinSource(result, ())
        try:
            if isinstance(result, Node):
                raise ArgumentTypeError("a function must return a table or a dict of rows by key but returned a pipe")
            return _join_source(result, self.key)
        except ArgumentTypeError as error:
            message = str(error).splitlines()[0]
            raise DataError(f"the other side of `join`: in epoch {epoch}, {message}", at=stage.call_site) from None

    def check_key(self, key: tuple[str, ...], schema: pa.Schema, other: pa.Schema | None) -> None:
        """Raise an `UnfitError` if a column of the key is missing, or no two values can be equal."""
        existing_columns(key, schema.names)
        if other is None:
            return
        existing_columns(self.key, other.names)
        for name, other_name in zip(key, self.key, strict=True):
            own, others = schema.field(name).type, other.field(other_name).type
            kinds = _comparable(pa, own), _comparable(pa, others)
            if None not in kinds and kinds[0] != kinds[1]:
                raise UnfitError(
                    f"column {name!r} is of type {own} and {other_name!r} of the other side of type {others}, so no "
                    "key would be found; `.cast` one of them"
                )

    def no_match(self, row: BlockRows, key: tuple[str, ...]) -> UnfitError:
        """The error of a row whose key the other side does not have."""
        ((value, *_), _) = keys_of(row, key)
        name = key[0] if len(key) == 1 else list(key)
        return UnfitError(
            f'no row of the other side has the key {value!r:.80} of {name!r}; `how="inner"` leaves out such rows, and '
            '`how="left"` gives them nulls'
        )

    def read(self, op: Operator, stage: StageView, *, nulls: bool, one_row: bool) -> OtherSide:
        """Read all of it.

        Args:
            op: the join, for errors.
            nulls: if columns must be held in Arrow, where they can be null.
            one_row: if no two rows may have one key.
        """
        try:
            side = self._read(nulls=nulls)
            if one_row:
                side.check_one_row_each()
        except (UnfitError, LimitError) as error:
            kind = DataError if isinstance(error, UnfitError) else LimitError
            raise kind(f"the other side of `{op.kind}`: {error}", at=stage.call_site) from None
        return side

    def _read(self, *, nulls: bool) -> OtherSide:
        if isinstance(self.source, Node):
            with closing(Context()) as context:
                return _index_rows(_read_rows(bind(self.source).blocks(START, context)), self.key, nulls=nulls)
        if isinstance(self.source, Mapping):
            return _index_dicts(list(map(comparable_key, self.source)), list(self.source.values()))
        assert self.source is not None, "a function has given the source of this epoch"
        return _index_rows(to_rows(self.source), self.key, nulls=nulls)


def _join_source(other: object, key: tuple[str, ...]) -> JoinSource:
    """The other side that the user gave, checked.

    Args:
        other: a pipe, a table, or a dict of rows by key.
        key: the columns of the key; empty for a dict.
    """
    if isinstance(other, (Node, Mapping)):
        return JoinSource(other, key)
    if not hasattr(other, "__arrow_c_stream__") or isinstance(other, type):
        raise ArgumentTypeError(
            "`other` must be a pipe, a data frame or Arrow table, or a dict of rows by key, but got: "
            f"{type(other).__name__}"
        )
    from ..formats.chunked import with_takeable_types

    return JoinSource(with_takeable_types(pa.table(cast("Any", other))), key)


_KINDS = {
    "number": ("is_integer", "is_floating", "is_boolean", "is_decimal"),
    "text": ("is_string", "is_large_string", "is_string_view"),
    "bytes": ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary"),
    "date": ("is_date",),
    "time of day": ("is_time",),
    "duration": ("is_duration",),
}


def _comparable(pa: Any, kind: Any) -> str | None:
    """The kind of values of a type, within which values may be equal; None if it is unknown."""
    if pa.types.is_dictionary(kind):
        return _comparable(pa, kind.value_type)
    if pa.types.is_timestamp(kind):
        return "time without a zone" if kind.tz is None else "time"
    return next((name for name, tests in _KINDS.items() if any(getattr(pa.types, test)(kind) for test in tests)), None)


def _shortest(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


class Matches(NamedTuple):
    """Pairs of rows that belong together: `left` are places among the rows of the input, `right` in the other side."""

    left: Ints
    right: Ints


@dataclass(frozen=True)
class OtherSide:
    """All rows of the other side, and an index of their keys.

    Attributes:
        rows: as columns, or as dicts; without the columns of the key.
        names: the names of the columns.
        numbers: the number of each key; null and NaN are no keys.
        starts: the rows of key number k are at the places `order[starts[k] : starts[k + 1]]`.
    """

    rows: Rows | SharedRows
    names: tuple[str, ...]
    numbers: Mapping[Hashable, int]
    starts: Ints
    order: Ints

    def columns(self) -> object:
        """The names of the columns; with types, if the rows are those of a table."""
        if not isinstance(self.rows, Rows):
            return sorted(self.names)
        return [f"{name}: {to_arrow(column[:0]).type}" for name, column in self.rows.columns.items()]

    def find(self, rows: BlockRows, key: tuple[str, ...]) -> tuple[Ints, Exception | None]:
        """The number of the key of each row before the first that has none, and the error of that row."""
        if not isinstance(rows, Rows) or len(key) > 1:
            keys, error = keys_of(rows, key)
            numbers, unhashable = self._numbers_of(keys)
            return numbers, unhashable or error
        try:
            (name,) = existing_columns(key, column_names(rows))
        except UnfitError as error:
            return np.zeros(0, np.int64), error
        column = rows[name]
        if isinstance(column, np.ndarray) and column.ndim > 1:
            return np.zeros(0, np.int64), UnfitError(f"a key must be one value for each row but is: {column[:1]!r:.80}")
        try:
            encoded: Any = (arrow_array(column) if isinstance(column, np.ndarray) else column).dictionary_encode()
        except pa.ArrowNotImplementedError:  # of structs and lists
            return self._numbers_of(scalars(column))
        # Each value is looked up once. The last number is that of a null.
        numbers, unhashable = self._numbers_of(scalars(encoded.dictionary))
        null = arrow_scalar(len(encoded.dictionary), encoded.indices.type)
        places = numpy_array(encoded.indices.fill_null(null))
        return (numbers, unhashable) if unhashable else (np.append(numbers, NO_ROW)[places], None)

    def check_one_row_each(self) -> None:
        """Raise an `UnfitError` if two rows have one key."""
        counts = np.diff(self.starts)
        if len(counts) and counts.max() > 1:
            doubled = int(counts.argmax())
            key = next(key for key, number in self.numbers.items() if number == doubled)
            raise UnfitError(
                f'{int(counts[doubled])} rows have the key {key!r:.80}; `multiple="first"` takes the first, and '
                '`multiple="all"` gives a row for each'
            )

    def _numbers_of(self, keys: Sequence[Any]) -> tuple[Ints, Exception | None]:
        numbers, error = map_until_error(lambda key: self.numbers.get(key, NO_ROW), keys)
        if error is not None:
            error = check_hashable(keys[len(numbers)]) or error
        return np.array(numbers, np.int64), error

    def match(self, numbers: Ints, *, keeps_all: bool, gives_all: bool) -> Matches:
        """The pairs of rows that belong together.

        Args:
            numbers: those of the keys of some rows of the input.
            keeps_all: if a row without a partner stays.
            gives_all: if a row comes with each row of its key; else it comes with the first.
        """
        left = np.arange(len(numbers)) if keeps_all else np.flatnonzero(numbers != NO_ROW)
        own = numbers[left]
        # One more key follows the last, for the rows without a partner: its only row is `NO_ROW`.
        starts, order = np.append(self.starts, len(self.order) + 1), np.append(self.order, NO_ROW)
        own = np.where(own == NO_ROW, len(self.starts) - 1, own)
        first = starts[own]
        if not gives_all:
            return Matches(left, order[first])
        counts = starts[own + 1] - first
        inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return Matches(np.repeat(left, counts), order[np.repeat(first, counts) + inside])

    def take_columns(self, places: Ints, *, nulls: bool) -> dict[str, Column]:
        """The columns of the rows at `places`. With `nulls` they are held in Arrow, and null at the place `NO_ROW`."""
        assert isinstance(self.rows, Rows), "only a table has columns"
        if not nulls:
            return dict(cast("Rows", take(self.rows, places)).columns)

        indices = arrow_array(places, missing=places == NO_ROW)
        return {name: to_column(cast("Any", column).take(indices)) for name, column in self.rows.columns.items()}

    def take_dicts(self, places: Ints) -> list[Mapping[str, object] | None]:
        """The rows at `places` as dicts; None at the place `NO_ROW`."""
        exists = places != NO_ROW
        own = places[exists]
        rows = iter(self.rows.take(own) if isinstance(self.rows, SharedRows) else take(self.rows, own))
        return [as_mapping(next(rows)) if has_row else None for has_row in exists.tolist()]


def _read_rows(blocks: Iterable[Block]) -> BlockRows:
    """All rows of a run.

    Raises:
        LimitError: they take more than `MAX_BYTES`.
    """
    parts: list[BlockRows] = []
    used = 0
    for block in blocks:
        used += nbytes(block.rows)
        if used > MAX_BYTES:
            raise LimitError(
                f"the other side takes more than 1 GiB after {sum(map(len, parts))} rows; `.select` fewer columns of "
                "it, or use `.zip_by_key` if both sides come in nearly the same order"
            )
        parts.append(block.rows)
    return concat(parts) if parts else []


def _index_rows(rows: BlockRows, key: tuple[str, ...], *, nulls: bool) -> OtherSide:
    """The other side of these rows.

    Args:
        key: the columns of the key.
        nulls: if columns must be held in Arrow, where they can be null.

    Raises:
        UnfitError: a row has no key.
    """
    keys, error = keys_of(rows, key)
    if error is not None:
        raise error
    if not isinstance(rows, Rows):
        dicts = [{name: value for name, value in as_mapping(row).items() if name not in key} for row in rows]
        return _index_dicts(keys, dicts)
    table = Rows.from_arrow(rows.arrow) if nulls else rows
    columns = {name: column for name, column in table.columns.items() if name not in key}
    return OtherSide(Rows(columns, len(rows)), tuple(columns), *_index(keys))


def _index_dicts(keys: Sequence[Hashable], dicts: Sequence[object]) -> OtherSide:
    """The other side of rows that are dicts, without their keys."""
    for row in dicts:
        if not isinstance(row, Mapping):
            raise UnfitError(
                f"a row must be a dict, whose keys name the columns, but one is of type {type(row).__name__}; give "
                "`{'name': value}` instead of a value"
            )
    names = dict.fromkeys(name for row in dicts for name in as_mapping(row))
    return OtherSide(SharedRows(list(dicts)), tuple(names), *_index(keys))


def _index(keys: Sequence[Hashable]) -> tuple[dict[Hashable, int], Ints, Ints]:
    """The number of each key, the first place of each number, and the rows in the order of their numbers."""
    numbers: dict[Hashable, int] = {}
    own, error = map_until_error(lambda key: NO_ROW if _is_null(key) else numbers.setdefault(key, len(numbers)), keys)
    if error is not None:
        raise check_hashable(keys[len(own)]) or error
    owners = np.array(own, np.int64)
    order = np.argsort(owners, kind="stable")
    return numbers, np.searchsorted(owners[order], np.arange(len(numbers) + 1)), order


def _is_null(key: object) -> bool:
    if isinstance(key, tuple):
        return any(map(_is_null, cast("tuple[object, ...]", key)))
    return key is None or key != key  # NaN is not equal to itself


# Two rows side by side.


def _join_rows(rows: BlockRows, side: OtherSide, matches: Matches, suffix: str, *, nulls: bool) -> BlockRows:
    """The pairs of `matches`: columns if both sides are, else dicts.

    Args:
        nulls: if some rows have no partner, for which the columns of the other side are null.

    Raises:
        UnfitError: a row is no dict, or two columns have one name.
    """
    if isinstance(rows, Rows) and isinstance(side.rows, Rows):
        left = take(rows, range(len(rows)) if len(matches.left) == len(rows) and _is_whole(matches) else matches.left)
        assert isinstance(left, Rows)
        names = _new_names(left.columns, side.names, suffix)
        right = side.take_columns(matches.right, nulls=nulls)
        return Rows({**left.columns, **{names[name]: column for name, column in right.items()}}, len(left))
    nothing = dict.fromkeys(side.names)
    joined: list[object] = []
    pairs = zip(pick(list(rows), matches.left.tolist()), side.take_dicts(matches.right), strict=True)
    for row, other in pairs:
        own = as_mapping(row)
        added: Mapping[str, object] = nothing if other is None else other
        names = _new_names(own, added, suffix)
        joined.append({**own, **{names[name]: value for name, value in added.items()}})
    return joined


def _join_schemas(schema: pa.Schema, other: pa.Schema, key: Iterable[str], suffix: str) -> pa.Schema:
    """The columns of both, without the key of the other side."""
    keys = set(key)
    fields = [field for field in other if field.name not in keys]
    names = _new_names(schema.names, [field.name for field in fields], suffix)
    return pa.schema([*schema, *(field.with_name(names[field.name]) for field in fields)])


def _new_names(names: Iterable[str], others: Iterable[str], suffix: str) -> dict[str, str]:
    """The names of the other columns beside `names`. Those that both have get the suffix."""
    own = set(names)
    renamed = {name: name + suffix if name in own else name for name in others}
    for name, new in renamed.items():
        if new in own:
            raise UnfitError(f"both sides have a column {name!r}, and {new!r} is taken; give another `suffix`")
    return renamed


def _is_whole(matches: Matches) -> bool:
    return bool((matches.left[1:] > matches.left[:-1]).all())
