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
    moves: ClassVar[bool] = True
    """Whether it changes rows or positions; one that does not may come and go between a state and its use."""
    looks: ClassVar[bool] = True
    """Whether it looks at rows; one that does not hands on what it is given."""
    rounds: ClassVar[bool] = False
    """Whether it runs its input several times: what a round leaves over belongs to that round."""
    alone: bool = False
    """Whether it must run in the consumer's thread, as what it does there can be seen by others."""
    implied: ClassVar[bool] = False
    """Whether another call of the user's puts it into the chain: it is not part of the chain as code."""
    varies: ClassVar[bool] = False
    """Whether the length of one shard's part may be another in each epoch, as its units are not of one length."""
    waits: ClassVar[bool] = False
    """Whether rows that are asked for by position may mostly wait for storage: `begin` tells for each."""
    holds: ClassVar[bool] = False
    """Whether each process that runs it reads its whole input."""
    deals: ClassVar[bool] = False
    """Whether the user wants the work dealt here."""
    dispatches: ClassVar[bool] = False
    """Whether one process is to make its rows for all workers of a rank."""
    name: str | None = None
    """The user's own name for it, the key of its randomness in place of its kind and count."""
    ahead: int = 0
    """How many elements a thread makes ahead."""

    def indexed(self, inputs: Sequence[bool]) -> bool:
        """Whether `rows` answers, given which inputs do."""
        return False

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

    def call(self) -> str:
        """The call as the user wrote it, such as `batch(256)`; the chain's `repr` is made of these."""
        from .code import call_code

        return call_code(self)
