"""`RangedFormat`: a format whose files are cut into ranges of bytes, since it shows where a record begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

from ..core.cursor import Json
from ..core.rows import BlockRows
from ..errors import DataError, FeedpipeError
from .window import ChunkSize

F = TypeVar("F", covariant=True)

MAX_CONTENT_BYTES = 2**10
"""So much of a malformed record is kept for its record."""

Place: TypeAlias = "tuple[int, ...]"
"""A position in a range: the byte of the file, and what else the format needs to go on from there."""


class MalformedRecord(NamedTuple):
    """A record that cannot be read, though those behind it can.

    Attributes:
        error: what is wrong with it.
        offset: the byte of the file at which it begins, or the block that it is in.
        content: its first bytes, if they are known.
    """

    error: DataError
    offset: int
    content: bytes | None = None


class RangePart(NamedTuple):
    """Rows of a range that follow each other.

    Attributes:
        rows: the rows.
        at: the place from which they were read.
        end: the place behind them, and behind a malformed record; None at the end of the range.
        offsets: the byte of the file at which each row begins.
        malformed: the record that follows, if it is malformed.
        error: why nothing behind these rows can be read.
    """

    rows: BlockRows
    at: Place
    end: Place | None
    offsets: list[int]
    malformed: MalformedRecord | None = None
    error: FeedpipeError | None = None


class RangedFormat(Protocol[F]):
    """A format: a frozen value that holds the user's options, and once fixed names and types of columns."""

    kind: ClassVar[str]
    """The name of the chain function."""

    @property
    def unify_schemas(self) -> bool:
        """Whether the columns are those of all files together."""
        ...

    def call(self) -> str:
        """The call of the chain function with these options, as code."""
        ...

    def identity(self) -> dict[str, Json]:
        """What a state is checked against."""
        ...

    def head(self, stream: BinaryIO, path: str) -> object:
        """What the beginning of a file shows of its columns."""
        ...

    def fix(self, heads: Iterable[Any], paths: Iterable[str]) -> F:
        """Fix names and types by the heads of all files, read lazily, and by the names of their folders."""
        ...

    def why_not_split(self) -> str | None:
        """Why files are not split into ranges; None if they are."""
        ...


class RecordFormat(RangedFormat[F], Protocol[F]):
    """A format of records in bytes."""

    def parts(
        self, stream: BinaryIO, path: str, unit: range, place: Place, chunk_size: ChunkSize
    ) -> Iterator[RangePart]:
        """The rows that begin in a range of a file, from a place on; `chunk_size` is that of the run."""
        ...
