"""Stripes of ORC files: the units of `parse_orc`, and how their rows are read in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ...core.context import Context
from ...errors import Origin, SourceError
from ...formats.orc import Orc, OrcFile, OrcFooter
from ...formats.tables.heads import FlatHead
from ...storage.file import File
from ...storage.tasks import Task
from ._counted_units import CountedUnits
from ._file_units import FileContents
from ._open_files import OpenFileCache
from ._parse_units import Piece, Place, UnitReader

if TYPE_CHECKING:
    import pyarrow as pa


class Stripe(NamedTuple):
    """A handle on a stripe.

    Attributes:
        file: the file.
        number: of the stripe in the file.
        rows: how many it has.
        first: the number of its first row in the file.
        seal: of the footer that says so.
    """

    file: File
    number: int
    rows: int
    first: int
    seal: int


@dataclass(frozen=True, eq=False)
class Stripes(CountedUnits[Orc, Stripe]):
    """A handle for each stripe of each file, from the footers."""

    kind: ClassVar[str] = "stripes"
    fields: ClassVar[tuple[str, ...]] = Stripe._fields

    def head(self, file: File) -> OrcFooter:
        with file.open(None) as stream:
            return OrcFile(stream, file.path).footer

    def contents(self, file: File) -> FileContents:
        footer = self.head(file)
        fixed = self.format.require_fixed_schema(file.name)
        fixed.constants(file.path, fixed.columns_in(footer))
        return FileContents(footer.schema, footer.seal, footer.stripe_rows, [False] * len(footer.stripe_rows))

    def kept_head(self, file: File, schema: pa.Schema) -> FlatHead:
        return FlatHead(file.path, schema)

    def unit(self, file: File, *numbers: int) -> Stripe:
        return Stripe(file, *numbers)


class StripeReader(UnitReader[Stripe, Task[OrcFile]]):
    """Reads stripes. A place is [rows of the stripe before it]; a resume reads the stripe again."""

    def __init__(self, options: Orc, context: Context) -> None:
        self._options = options
        self._origins = context.tracing.origins
        self._files = OpenFileCache(partial(_open, options), lambda file: file.close())

    def is_remote(self, unit: Stripe) -> bool:
        return not unit.file.is_local()

    def start_reading(self, unit: Stripe, early: bool) -> Task[OrcFile]:
        return self._files.task(unit)

    def pieces(self, unit: Stripe, opened: Task[OrcFile], place: Place) -> Iterator[Piece]:
        (before,) = place
        file, path = opened.result(), unit.file.path
        fixed = self._options.require_fixed_schema(path)
        names = [name for name in fixed.file_types if name in file.footer.names]
        # A batch without columns does not know its length.
        batch = file.read_stripe(unit.number, unit.rows, names or file.footer.names[:1])
        numbers = range(unit.first + before, unit.first + unit.rows)
        rows = self._options.to_rows(batch.select(names).slice(before), path, numbers)
        origins: list[Origin | None] | None = None
        if self._origins:
            origins = [Origin(path, number + 1) for number in numbers]
        pieces = [Piece(rows, (before,), None, origins)]
        del batch, rows
        yield pieces.pop()

    def close(self) -> None:
        self._files.close()


def _open(options: Orc, stripe: Stripe) -> OrcFile:
    stream = stripe.file.open(None)
    try:
        file = OrcFile(stream, stripe.file.path)
        if file.footer.seal != stripe.seal:
            raise SourceError(
                f"{stripe.file.path} has changed since its footer was read; a pipe reads footers once, so make it anew"
            )
        options.require_fixed_schema(stripe.file.path).columns_in(file.footer)
    except BaseException:
        stream.close()
        raise
    return file
