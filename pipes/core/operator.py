"""The contract of operators: their declarations, their view of the graph, and the checks of both.

The engine and the planner ask for these declarations, never for the type of an operator.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeVar, cast
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentTypeError, CallSite, Origin, PlanError
from .block import Block
from .code import call_code, step_code
from .context import Context, Work
from .cursor import START, Cursor, Json
from .lazy import pa
from .rows import BlockRows, Indices, index_list
from .skips import OnError, Skipped
from .taken import Taken

T = TypeVar("T")


class Order(enum.Enum):
    """The effect of an operator on the order and the number of rows. Decides where shards may divide the rows."""

    ROW_LOCAL = "row-local"
    """Treats each row by itself: it may run on any shard."""
    REORDERS = "reorders"
    """Treats each row by itself, and changes the order."""
    REGROUPS = "regroups"
    """Puts rows into groups: a shard's last group may be incomplete."""
    GLOBAL = "global"
    """Looks at other rows, or at positions among all rows: these are divided only after it."""


class Trait(enum.Enum):
    """What plans and the engine must know of a few operators beside their order."""

    SHARD = "shard"
    """The user wants the rows divided among the shards here."""
    ONE_PROCESS = "one process"
    """One process makes the rows for all workers of a rank."""
    EACH_PROCESS = "each process"
    """Each process that runs it reads its whole input, once for all epochs."""
    READS_ONCE = "reads once"
    """Its input is read once for all epochs and processes."""
    WORKERS = "workers"
    """Workers run everything up to here; the training process runs the rest."""
    MAIN_THREAD = "main thread"
    """It must run in the consumer's thread, because other code of that thread sees its effects."""
    TRANSPARENT = "transparent"
    """It passes its input on unseen, so it may be added or removed between a state and its use."""
    REPEATS = "repeats"
    """It runs its input several times: the leftovers of a round belong to that round."""
    DEALS_UNITS = "deals units"
    """Its rows are units of work: its blocks are short, so that units are opened shortly before their turn."""
    WHOLE_UNITS = "whole units"
    """It expands units, and must see each as a whole, also if another operator before it expands it."""
    FOLLOWS = "follows"
    """What `resolve` fixes follows at no cost from what the inputs have fixed, so each rank finds it by itself."""


READS_FOR_ALL_EPOCHS = frozenset((Trait.EACH_PROCESS, Trait.READS_ONCE))
"""Traits of operators before which draws are the same in all epochs."""


_TRAITS_OF_ROWS = (Trait.SHARD, Trait.TRANSPARENT, Trait.DEALS_UNITS, Trait.WHOLE_UNITS, Trait.FOLLOWS)
"""Traits of operators that treat each row by itself."""


class Columns(enum.Enum):
    """The effect of an operator on the way rows are held."""

    KEEPS = "keeps"
    MAKES = "makes columns"
    LOSES = "makes Python rows"


class Operator:
    """One operator: a frozen value, and the code that runs it.

    A subclass is a frozen dataclass of the call's arguments, checked in `__post_init__`; it answers one or both of
    `rows` and `blocks`. It holds no data of a run and no position. Nothing compares or prints operators, and with
    `eq` and `repr` `import feedpipe` would take a tenth longer.
    """

    kind: ClassVar[str]
    """The name of the chain function."""
    order: ClassVar[Order]
    """Its effect on the order of rows. It has no default: a source may leave it out, all others must state it."""
    columns: ClassVar[Columns] = Columns.KEEPS
    seeks: ClassVar[bool] = False
    """`blocks` takes a cursor's `skip` upstream; else the engine drops the skipped rows."""
    expands: ClassVar[bool] = False
    """One row, such as a file, becomes many: the input's rows are then the units of work."""
    moves_skipped: ClassVar[bool] = False
    """Its code takes a `Skipped` like any other row; else it gets none, and the engine puts them back."""
    needs_positions: bool = True
    """A row may depend on its position among those of the input; if not, a shard, or a worker that makes a span of one,
    runs it on its own rows."""
    trait: ClassVar[Trait | None] = None
    name: str | None = None
    """The user's own name for it: the key of its randomness, instead of its kind and count."""
    input_names = cast("tuple[str, ...]", ())
    """The user's own names for its inputs: keys of the randomness below them, instead of their number."""
    buffer: int = 0
    """The number of elements that a thread makes ahead."""
    on_error = cast("OnError | None", None)
    """The policy for a row whose function fails; None takes that of the next `on_error()` in the chain."""

    edits: ClassVar[Literal["groups", "order"] | None] = None
    """A pass can go on although this operator is new in it, or another one, which then gives the rest of its input:
    "groups" if rows keep their order, else "order". None if its rows depend on those before."""
    blind: ClassVar[bool] = False
    """The content of the input's rows affects neither which rows come nor their order."""

    def indexed(self, inputs: Sequence[bool]) -> bool:
        """Whether `rows` answers, given which inputs do: by default if it is defined and all inputs are indexed."""
        return type(self).rows is not Operator.rows and all(inputs)

    def resolve(self, stage: StageView) -> Operator:
        """This operator with all that must be fixed before the first row: a listing, names and types."""
        return self

    def length(self, stage: StageView) -> int | None:
        """The number of output rows, if it is known without a run."""
        return None

    def schema(self, stage: StageView) -> pa.Schema | None:
        """Names and types of the output columns, if they are known without a run."""
        return None

    def weights(self, stage: StageView, context: Context) -> Weights | None:
        """The weights of the rows of an indexed output; by default those of the only input."""
        if len(stage.inputs) != 1 or self.order is not Order.ROW_LOCAL:
            return None
        return stage.inputs[0].weights(context)

    def lookback(self) -> int:
        """The number of input rows that a resume runs again."""
        return 0

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        """Each input that `blocks` begins to read at `at`, with its plain cursor there; by default none.

        So a state is checked when it is loaded, and not only when its shard begins. It reads nothing. Any error that
        it raises means that the token is not one of this operator.
        """
        return iter(())

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        """The data that is read before `at`; None if the data has no end, or nobody knows how much it is.

        By default the sum of the inputs that `input_cursors` names. It reads nothing, and never falls from one cursor
        of a run to a later one.
        """
        return amount_of_inputs(self, stage, at, context)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        """The rows at `indices` of the output, in that order."""
        raise AssertionError(f"{self.kind} is not indexed")

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        """The rows from `at` on, in blocks; obeys the law of `Cursor`. `at.skip` is 0 unless `seeks`."""
        raise AssertionError(f"{self.kind} is not streamed")

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        """The input rows that row `index` of an indexed output is made of; by default row `index` of each input.

        Errors name the origin of the first of them.
        """
        return ((source, index, context) for source in stage.inputs)

    def traced(
        self, stage: StageView, indices: Indices, context: Context
    ) -> Iterator[tuple[int, Indices, Indices | None, Context]]:
        """As `trace`, for many rows: the number of an input, rows of it, and for each the place in `indices`.

        No places if they are one row for each of `indices`, in that order.
        """
        if type(self).trace is Operator.trace:
            yield from ((number, indices, None, context) for number in range(len(stage.inputs)))
            return
        inputs = [*stage.inputs]
        for place, index in enumerate(index_list(indices)):
            for source, row, inner in self.trace(stage, index, context):
                yield inputs.index(source), range(row, row + 1), range(place, place + 1), inner

    def inputs_of(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        """The number of the input of each row at `indices`, if the inputs have names."""
        raise AssertionError(f"the inputs of {self.kind} have no names")

    def reads(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        """Those rows of `trace` that must be read now, to make row `index`; by default all of them."""
        return self.trace(stage, index, context)

    @classmethod
    def run_length(cls, past: Past) -> int | None:
        """The number of neighbours in the input that each row is made of, if that is fixed; None if it is not."""
        return None

    @classmethod
    def inputs_at(cls, past: Past, at: Cursor) -> Sequence[Json] | None:
        """The plain cursor of each input at `at`, or `ENDED`, for an operator that the pipe no longer has.

        It says where the inputs go on in a pass in which the pipe has changed; None if nobody knows. It reads nothing.
        """
        return None

    @classmethod
    def token_for(cls, past: Past, facts: Mapping[str, Json], at: Cursor) -> Json:
        """The token at which it goes on with other arguments, at the place of `at` in the same input.

        For an operator that may stand within a row of its input. `facts` are those that it has now. None if it does not
        go on so.
        """
        return None

    @classmethod
    def inputs_taken(cls, past: Past, taken: Taken) -> Sequence[Taken] | None:
        """As `inputs_at`, for an indexed output: the rows of each input that rows of the output are made of.

        Rows beyond the end of an input do not matter.
        """
        length = cls.run_length(past)
        return None if length is None else [taken.runs(lambda row: row * length)]

    def ahead(self) -> Ahead | None:
        """How far `begin` runs ahead of `rows`; None if it does not."""
        return None

    def begin(self, stage: StageView, indices: Indices, context: Context) -> Iterable[Work | None]:
        """The work that each row at `indices` of an indexed output waits for; None for a row that need not wait.

        For functions that run several at a time, and for sources on remote storage. A call is begun here; requests
        begin with `Work.start`. `rows` gets the work back by `context.take_started`. An error ends the work that is
        begun; `rows` raises it in its turn.
        """
        return ()

    def identity(self) -> Json:
        """The part of a state's fingerprint beside the call: lengths, types, a digest of the units; plain and small."""
        return None

    def within(self, rows: range) -> Operator | None:
        """This operator for some neighbours among its input's rows, or among its own if it has no input.

        All parts together give the rows of the whole, so a pass can take in rows that were appended to its source. None
        if they would not. What `resolve` has fixed stays fixed.
        """
        parts = (Order.ROW_LOCAL, Order.REORDERS)
        is_alone = type(self).resolve is Operator.resolve and self.trait in (None, *_TRAITS_OF_ROWS)
        return self if is_alone and getattr(self, "order", None) in parts else None

    @classmethod
    def rows_of(cls, facts: Mapping[str, Json]) -> int | None:
        """The number of output rows by the facts in a fingerprint; None if they do not say."""
        length = facts.get("length")
        return length if isinstance(length, int) else None

    def in_shard(self, shards: int) -> Operator:
        """This operator as one of `shards` shards runs it, if it depends on the number of rows of the pass."""
        return self

    def from_row(self, row: int) -> Operator | None:
        """This operator of a shard from a row on, for a pass in which the pipe has changed there.

        None if it cannot go on: it counts something else than rows.
        """
        return self

    def reshuffles(self) -> bool:
        """Whether it draws another order, or other rows, in each epoch."""
        return self.order is Order.REORDERS

    def remark(self, stage: StageView) -> str | None:
        """A remark for `explain`, beside its traits."""
        return None

    def call(self) -> str | None:
        """The call as the user wrote it, such as `batch(256)`; the chain's `repr` is made of these.

        None if the call of another operator puts this one into the chain.
        """
        return call_code(self)


ENDED: Json = "ended"
"""In place of a plain cursor: an input of which no row is left."""


class Past(NamedTuple):
    """An operator that a pipe no longer has, as a state describes it.

    Attributes:
        facts: its arguments and its identity, by name, as in the fingerprint.
        inputs: the number of its inputs.
        name: the key of its randomness.
        context: seed, epoch and shard of the rows; the shard is None if it was indexed.
        shards: the number of shards; 1 if it was indexed.
        given: the rows of the shard that were given before the pipe changed in the pass, if it counts these.
        lengths: of its inputs, if it was indexed; None if nobody knows one.
    """

    facts: Mapping[str, Json]
    inputs: int
    name: str
    context: Context
    shards: int = 1
    given: int = 0
    lengths: Sequence[int] | None = None

    def number(self, name: str) -> int | None:
        """An argument that is a whole number; None if it is anything else."""
        text = self.facts.get(name)
        return int(text) if isinstance(text, str) and text.isdecimal() else None


class Source(Operator, ABC):
    """An operator that knows where its rows come from. Those of others are traced to rows of these.

    It may have inputs, such as the files that its rows are in.
    """

    @abstractmethod
    def origin(self, stage: StageView, index: int, context: Context) -> Origin | None:
        """The origin of row `index` of an indexed output."""

    def within(self, rows: range) -> Operator | None:
        return None

    def cut(self, unit: object, first: int, stop: int, slots: int) -> object | None:
        """The part [first, stop) of the `slots` of a row, which the next operator expands, as another row.

        None if the row cannot be cut; shards then divide the rows that the next operator makes of it.
        """
        return None


class UnitSource(Source):
    """A source of units, such as files or ranges, which `resolve` finds once for all ranks and for a resume."""

    @abstractmethod
    def saved(self) -> str | None:
        """The findings that data that grows would not give again: a state keeps them whole."""

    @abstractmethod
    def restored(self, saved: str) -> Operator:
        """This operator, not resolved yet, with the findings that a state has saved.

        Raises:
            ValueError: the text is damaged.
        """

    def one_view_repair(self) -> str | None:
        """Advice for ranks without a process group, if one rank must resolve the operator for all.

        None if each rank may resolve it itself.
        """
        return None


class Grouping(Operator):
    """An operator that puts rows into groups. A rank makes groups of the rows that its shards leave over."""

    order: ClassVar[Order] = Order.REGROUPS

    def dropping(self) -> Operator:
        """The same operator; the rows of an incomplete last group go to `context.leftovers[stage.name]`."""
        return self

    def left_over(self, rows: int) -> int:
        """The number of `rows` input rows that are left for an incomplete last group."""
        return 0

    def after(self, rows: int) -> Operator:
        """This operator for what shards leave over after `rows` rows each."""
        return self


class ElementForm(Operator, ABC):
    """An operator whose elements have another form if they go to another process."""

    @abstractmethod
    def sent(self) -> Operator:
        """This operator as the last of a chain whose elements go there; its name and cursors stay."""


class TokenOfInput(Operator):
    """An operator whose token is a cursor of the only input."""

    @classmethod
    def inputs_at(cls, past: Past, at: Cursor) -> Sequence[Json] | None:
        length = cls.run_length(past)
        return None if length is None else [Cursor.of(at.token).advance(at.skip * length).plain]

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield stage.input, at.token


class CursorOfInput(Operator):
    """An operator whose cursors are those of the only input."""

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield stage.input, at.plain


class StageView(Protocol):
    """The view that the code of an operator has of the graph around it."""

    @property
    def name(self) -> str:
        """The operator's name, the key of its randomness and of its leftovers."""
        ...

    @property
    def call_site(self) -> CallSite | None:
        """The user's line that put the operator into the chain."""
        ...

    @property
    def inputs(self) -> Sequence[Input]:
        """The inputs, in the order of the call."""
        ...

    @property
    def input(self) -> Input:
        """The only input."""
        ...

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make()` for `key`; the last few keys are kept. For costly functions of their key."""
        ...

    def failed(self, error: Exception, at: Cursor, context: Context) -> Exception:
        """The error to raise if a user's function failed on the input row at `at`."""
        ...

    def failed_at(self, error: Exception, index: int, context: Context) -> Exception:
        """As `failed`, for row `index` of an indexed input."""
        ...

    def failed_on(self, error: Exception, origin: Origin | None) -> Exception:
        """As `failed`, for a source, which knows the origin of its rows."""
        ...

    def skip(
        self, error: Exception, place: Cursor | int, row: object, context: Context, origin: Origin | None = None
    ) -> Skipped | None:
        """The `Skipped` for a row on which a function failed; None if the error must be raised.

        `place` is the cursor of the row in the input, or its number if the input is indexed.
        """
        ...


class Input(Protocol):
    """An input of an operator."""

    @property
    def op(self) -> Operator:
        """The operator that makes these rows."""
        ...

    @property
    def length(self) -> int | None:
        """The number of rows, if it is known without a run."""
        ...

    @property
    def schema(self) -> pa.Schema | None:
        """Names and types of the columns, if the rows are those of a table and these are known without a run."""
        ...

    @property
    def indexed(self) -> bool:
        """Whether `rows` gives the rows at any positions; else they come in order only."""
        ...

    @property
    def may_skip(self) -> bool:
        """Whether a policy may leave out rows."""
        ...

    def weights(self, context: Context) -> Weights | None:
        """The weights of the rows, if they are known and the input is indexed."""
        ...

    def amount_before(self, plain: Json, context: Context) -> Amount | None:
        """The data that is read before a plain cursor; None if it is not known."""
        ...

    def rows(self, indices: Indices, context: Context) -> BlockRows:
        """The rows at `indices`, in that order."""
        ...

    def blocks(self, at: Cursor, context: Context) -> Iterator[Block]:
        """The rows from `at` on, in blocks."""
        ...


class Ahead(NamedTuple):
    """How far the work of an operator runs ahead of its consumer.

    Attributes:
        most: the pieces of work that are begun or done and not used yet, of all shards of a process.
        together: whether the work of several rows is begun together, also if an operator such as `batch` asks for them
            together. Else one call of `rows` makes the rows of a batch, because that costs less.
    """

    most: int
    together: bool = False


class Weights(NamedTuple):
    """The cost of each work unit: of each row of an indexed output, from which an operator may make many rows.

    Attributes:
        values: the weight of each row, or granule, by position; a negative weight is unknown.
        are_rows: whether a weight is the number of rows; else it is a number of bytes or the like.
        granule: the number of neighbouring rows whose weights a value adds up; the last may have fewer. Above 1, the
            rows are dealt in such granules.
        each: looks up the weights of neighbouring rows one by one, if `granule` is above 1.
    """

    values: npt.NDArray[np.int64]
    are_rows: bool = False
    granule: int = 1
    each: Callable[[range], npt.NDArray[np.int64]] | None = None


def each_row(parts: Sequence[Weights]) -> bool:
    """Whether all weights are those of single rows."""
    return all(part.granule == 1 for part in parts)


def fill_unknown(weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The weights; those below 0 are unknown, and become the mean of the others."""
    unknown = weights < 0
    if not unknown.any():
        return weights
    others = weights[~unknown]
    return np.where(unknown, int(others.sum()) // len(others) if len(others) else 1, weights)


class Amount(NamedTuple):
    """An amount of data that is read, of all: both in rows, bytes, or the like."""

    done: float
    total: float

    @property
    def fraction(self) -> float:
        """From 0 to 1; of nothing, all is read."""
        return min(1.0, self.done / self.total) if self.total > 0 else 1.0

    @staticmethod
    def sum(amounts: Sequence[Amount]) -> Amount:
        return Amount(sum(amount.done for amount in amounts), sum(amount.total for amount in amounts))


def amount_of_inputs(op: Operator, stage: StageView, at: Cursor, context: Context, rows: int = 0) -> Amount | None:
    """The data that the inputs of `op` have read before `at`.

    Args:
        op, stage, at, context: as for `amount_before`.
        rows: the least number of rows of each input in the `at.skip` rows, if `input_cursors` does not count them.
    """
    now = list(op.input_cursors(stage, at))
    amounts: list[Amount] = []
    for source, begin in op.input_cursors(stage, START):
        has_ended = not now or now[0][0] is not source
        plain = begin if has_ended else Cursor.of(now.pop(0)[1]).advance(rows).plain
        if (amount := source.amount_before(plain, context)) is not None:
            amounts.append(amount._replace(done=amount.total) if has_ended else amount)
    return Amount.sum(amounts) if amounts else None


# Checks of the contract


MAX_DEPTH = 150
"""Operators in a row: up to four calls each, of the thousand that Python allows."""
_accepted: WeakSet[type] = WeakSet()  # classes: each is checked once


def check_contract(op: object, *, reads_inputs: bool, call_site: CallSite | None) -> None:
    """Raise an `ArgumentTypeError` that names the broken rule, its reason and its repair."""
    kind = type(op)
    if kind not in _accepted:
        broken = _broken_rule(op)
        if broken is not None:
            raise ArgumentTypeError(broken, at=call_site)
        _accepted.add(kind)
    if reads_inputs and not isinstance(getattr(op, "order", None), Order):
        raise ArgumentTypeError(_order_rule(op), at=call_site)
    if reads_inputs and cast("Operator", op).order is Order.REGROUPS and not isinstance(op, Grouping):
        raise ArgumentTypeError(
            f"`{kind.__name__}` puts rows into groups, so it must say what becomes of an incomplete last group; "
            "derive its class from `Grouping`",
            at=call_site,
        )


def check_streamed(op: Operator, call_site: CallSite | None) -> None:
    """Raise a `PlanError` if an operator that gives rows by position only reads from a streamed pipe."""
    if type(op).blocks is Operator.blocks:
        raise PlanError(
            f"`{step_code(op, source=False)}` gives rows by position only, so it needs a pipe that is indexed, "
            "and this one is streamed; put `.load()` before it, or define `blocks`",
            at=call_site,
        )


def check_depth(op: Operator, depth: int, call_site: CallSite | None) -> None:
    """Raise a `PlanError` if a chain is too long for Python's recursion limit."""
    if depth > MAX_DEPTH:
        raise PlanError(
            f"`{step_code(op, source=False)}` is operator {depth} in a row, and {MAX_DEPTH} are most, because each "
            "calls the one before it; call several functions in one `.map`, or join many pipes in one call",
            at=call_site,
        )


def _broken_rule(op: object) -> str | None:
    name = type(op).__name__
    if not isinstance(op, Operator):
        if isinstance(op, type) and issubclass(op, Operator):
            return (
                f"a link of a chain must be an operator but got the class `{op.__name__}`; call it: "
                f"`{op.__name__}(...)`"
            )
        return f"a link of a chain must be an operator but got one of type {name}; derive its class from `Operator`"
    if not _is_frozen_dataclass(type(op)):
        return (
            f"`{name}` must be a frozen dataclass, because loaders share and compare operators by their fields; "
            "decorate the class with `@dataclass(frozen=True)`"
        )
    kind = getattr(op, "kind", None)
    if not isinstance(kind, str) or not kind.isidentifier():
        got = "" if kind is None else f" that is an identifier but has: {kind!r}"
        return (
            f"`{name}` must have a `kind`{got}, because the chain's code, its states and the keys of its random draws "
            f'name operators by it; set `kind = "{name.lower()}"`'
        )
    if type(op).rows is Operator.rows and type(op).blocks is Operator.blocks:
        return (
            f"`{name}` must define `rows` or `blocks`, because it has no other way to give rows; define `blocks` to "
            "give them in order, `rows` to give them by position"
        )
    return None


def _is_frozen_dataclass(cls: type) -> bool:
    """Whether `cls`, or the base that makes its instances, is decorated."""
    for base in cls.__mro__:
        parameters = vars(base).get("__dataclass_params__")
        if parameters is not None:
            return bool(parameters.frozen)
        if "__init__" in vars(base):
            return False
    return False


def _order_rule(op: object) -> str:
    name = type(op).__name__
    order = getattr(op, "order", None)
    got = "" if order is None else f" as a member of `Order` but has: {order!r}"
    return (
        f"`{name}` must state its `order`{got}, because that decides where its rows may be divided among shards; set "
        "`order = Order.ROW_LOCAL` if it treats each row by itself, and `order = Order.GLOBAL` if it looks at other "
        "rows or at positions"
    )
