"""The heads of text files: what the names and types of columns are fixed by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .columns import UnifiedSchema

if TYPE_CHECKING:
    import pyarrow as pa


class Head(NamedTuple):
    """What the beginning of a file says of its columns.

    Attributes:
        name: the file's.
        types: of all its columns; null where there is no value, or the column is not read.
        rows: whether there are any.
    """

    name: str
    types: Mapping[str, pa.DataType]
    rows: bool


class Heads(NamedTuple):
    """What the beginnings of files say together.

    Attributes:
        source: the file that names and types come from, or the first of all.
        schema: the columns.
    """

    source: str
    schema: UnifiedSchema


def look_at(heads: Iterable[Head | None], *, unify: bool) -> Heads | None:
    """What all heads say, or where columns are not unified, the first of a file that has rows; None without any."""
    schema = UnifiedSchema("`schema=` gives it a type, `columns=` leaves it out")
    source = None
    for head in heads if unify else _first(heads):
        if head is not None:
            source = source or head.name
            schema.add(head.name, head.types)
    return None if source is None else Heads(source, schema)


def _first(heads: Iterable[Head | None]) -> Iterator[Head]:
    """The first head of a file that has rows; else the first of all."""
    first: Head | None = None
    for head in heads:
        first = first or head
        if head is not None and head.rows:
            first = head
            break
    if first is not None:
        yield first
