"""What an operator declares about itself, for the engine and the planner: they ask these, never the type."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from ..errors import Origin
from .block import Block
from .cursor import Cursor, Json
from .rows import BlockRows, Indices

if TYPE_CHECKING:
    from ..engine.readahead import Work
    from ..engine.stage import Stage
    from .context import Context


class Order(enum.Enum):
    """What an operator does to the order and the number of rows: decides where the work may be dealt to shards."""

    ROW_LOCAL = "row-local"
    """Each row is treated by itself: it may run on any shard."""
    REORDERS = "reorders"
    """As above, in another order."""
    REGROUPS = "regroups"
    """Puts rows into groups: a shard's last group may be incomplete."""
    GLOBAL = "global"
    """Looks at the position among all rows: the work is dealt only after it."""


class Boundary(enum.Enum):
    """Where a plan divides the work, or runs a part whole."""

    SHARD = "shard"
    """The user wants the rows divided among the shards here."""
    ONE_PROCESS = "one process"
    """One process makes its rows for all workers of a rank."""
    EACH_PROCESS = "each process"
    """Each process that runs it reads its whole input."""


class Columns(enum.Enum):
    """What an operator does to the way rows are held."""

    KEEPS = "keeps"
    MAKES = "makes columns"
    LOSES = "makes Python rows"


class Operator:
    """One operator: a frozen value, and the code that runs it.

    A subclass is a frozen dataclass of the call's arguments, checked in `__post_init__`; it answers one or both of
    `rows` and `blocks`. It holds no data of a run and no position.
    """

    kind: ClassVar[str]
    """The name of the chain function."""
    order: ClassVar[Order]
    """What it does to the order of rows. It has no default: a source may leave it out, all others must state it."""
    columns: ClassVar[Columns] = Columns.KEEPS
    seeks: ClassVar[bool] = False
    """Whether `blocks` takes a cursor's `skip` upstream; else the engine drops the rows skipped."""
    expands: ClassVar[bool] = False
    """Whether one row, such as a file, becomes many: the input's rows are then the units of work."""
    boundary: ClassVar[Boundary | None] = None
    """Whether rows are divided here, or which processes run all of it."""
    transparent: ClassVar[bool] = False
    """Whether it hands on its input without looking at it: it may be added or removed between a state and its use."""
    repeats: ClassVar[bool] = False
    """Whether it runs its input several times: what a round leaves over belongs to that round."""
    main_thread: bool = False
    """Whether it must run in the consumer's thread, because other code of that thread sees what it does."""
    waits: ClassVar[bool] = False
    """Whether rows that are asked for by position may mostly wait for storage: `begin` tells for each."""
    name: str | None = None
    """The user's own name for it, the key of its randomness in place of its kind and count."""
    buffer: int = 0
    """How many elements a thread makes before they are asked for."""

    def indexed(self, inputs: Sequence[bool]) -> bool:
        """Whether `rows` answers, given which inputs do: by default if it is defined and all inputs are indexed."""
        return type(self).rows is not Operator.rows and all(inputs)

    def resolve(self, stage: Stage) -> Operator:
        """This operator with all that must be fixed before the first row: a listing, names and types."""
        return self

    def length(self, stage: Stage) -> int | None:
        """How many rows come out, if that is known without running."""
        return None

    def lookback(self) -> int:
        """How many input rows a resume runs again."""
        return 0

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        """The rows at `indices` of the output, in that order."""
        raise AssertionError(f"{self.kind} is not indexed")

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        """The rows from `at` on, in blocks; obeys the law of `Cursor`. `at.skip` is 0 unless `seeks`."""
        raise AssertionError(f"{self.kind} is not streamed")

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        """Where row `index` of an indexed output comes from: row `index` of each input, of which the first may know."""
        origins = [source.origin(index, context) for source in stage.inputs]
        return origins[0] if origins else None

    def begin(self, stage: Stage, index: int, context: Context) -> Work | None:
        """What row `index` waits for, if anything: a thread may begin with it, and `rows` finds it by `stage.begun`."""
        return None

    def identity(self) -> Json:
        """What the fingerprint of a state adds to the call: lengths, types, a digest of the units; plain and small."""
        return None

    def dropping(self) -> Operator:
        """Of an operator that regroups: the same, without an incomplete last group."""
        return self

    def left_over(self, rows: int) -> int:
        """Of an operator that regroups: how many of `rows` input rows are left for an incomplete last group."""
        return 0

    def sent(self) -> Operator:
        """This operator as the last of a chain whose elements go to another process; its name and cursors stay."""
        return self

    def remark(self) -> str | None:
        """What `explain` should say of it beside its traits."""
        return None

    def call(self) -> str | None:
        """The call as the user wrote it, such as `batch(256)`; the chain's `repr` is made of these.

        None if the call of another operator puts this one into the chain.
        """
        from .code import call_code

        return call_code(self)
