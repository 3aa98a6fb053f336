"""Units that footers list, such as row groups: what footers say of all files, and the unit file that keeps it."""

from __future__ import annotations

import hashlib
import logging
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast

import numpy as np

from ..core.context import Context
from ..core.operator import Weights
from ..errors import DataError, MissingError, Origin, SourceError
from ..formats.columns import FlatHead
from ..formats.table_format import TableFormat
from ..storage.file import File
from ..storage.manifest import ManifestPlace, open_output
from ..storage.tasks import in_threads
from .open_files import OpenFileCache, OpenFiles
from .units import InputFiles, Numbers, Place, UnitFormat, UnitReader, UnitTable, W

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN = -1
"""The number of rows of a unit that does not know it, such as a stream. It is the only unit of its file."""
VERSION = "2"

_LOG = logging.getLogger("feedpipe")

F = TypeVar("F", bound="CountedFormat")
T = TypeVar("T")


class FileUnit(NamedTuple):
    """A handle on a unit of a file.

    Attributes:
        file: the file.
        number: of the unit in the file; -1 for a stream, which has no units.
        rows: their number; `UNKNOWN` for a stream.
        first: the number of its first row in the file.
        seal: of the footer that lists it.
        compressed: whether its columns are.
        footer_bytes: the length of the footer; 0 if it is not known.
    """

    file: File
    number: int
    rows: int
    first: int
    seal: int
    compressed: bool = False
    footer_bytes: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedFormat(TableFormat, UnitFormat):
    """The base of formats of tables whose footers tell the number of rows of each unit."""

    fields: ClassVar[tuple[str, ...]] = ("file", "number", "rows", "first", "seal")
    counts_rows: ClassVar[bool] = True

    @abstractmethod
    def contents(self, file: File) -> FileContents:
        """Read the footer of a file. Names and types are fixed by then, and the columns of the file fit them."""

    def can_use(self, units: FileUnits) -> bool:
        """Whether the units that were kept tell all that is needed of the files."""
        return True

    def find_units(self, files: Iterable[File]) -> UnitTable:
        return FileUnits.of(in_threads(self.contents, files)).unit_table(self.fields)

    def unit(self, file: File, *numbers: int) -> FileUnit:
        return FileUnit(file, **cast("dict[str, Any]", dict(zip(self.fields[1:], numbers, strict=True))))

    def start(self, unit: FileUnit) -> Origin:
        return Origin(unit.file.path, unit.first + 1)

    def weights(self, units: UnitTable) -> Weights:
        return Weights(units.column("rows"), are_rows=True)

    def length(self, units: UnitTable) -> int | None:
        return units.rows()

    def share_before(self, unit: FileUnit, place: Place) -> float:
        before: int = place[-1]
        return before / unit.rows if unit.rows > 0 else 0.0

    def resolved(self: F, files: InputFiles) -> tuple[F, UnitTable | None]:
        """With names and types, and all units: those that a manifest keeps, if there are such."""
        # Only the place of a manifest tells where its units are.
        source = files.source
        manifest = source.listed_in if isinstance(source, OpenFiles) and files.has_fixed_order else None
        if manifest is None:
            return super().resolved(files)
        kind = f"{self.units}, compression {cast('OpenFiles', source).compression}"
        kept = FileUnits.read(manifest, kind, files.count)
        if kept is not None:
            return self._with_kept(files, kept) if self.can_use(kept) else super().resolved(files)
        form = self.fixed(files)
        units = FileUnits.of(in_threads(form.contents, files))
        units.write(manifest, kind)
        return form, units.unit_table(self.fields)

    def _with_kept(self: F, files: InputFiles, kept: FileUnits) -> tuple[F, UnitTable]:
        """Fix names and types by the schemas that were kept of the files, which must fit them."""
        firsts = files.at(kept.first_files(), Context())
        heads = [FlatHead(file.path, schema) for file, schema in zip(firsts, kept.schemas, strict=True)]
        form = self.fixed_by(iter(heads), files)
        fixed = form.require_fixed_schema(firsts[0].name)
        columns = [fixed.columns_in(head) for head in heads]
        if fixed.folder_types:
            for file, number in zip(files, kept.schema_numbers.tolist(), strict=True):
                fixed.constants(file.path, columns[number])
        return form, kept.unit_table(self.fields)


class FileUnitReader(UnitReader[FileUnit, W], Generic[W, T]):
    """The base of readers of such units, which keeps the last few files open.

    Args:
        open: opens the file of a unit.
        close: closes what `open` returned.
    """

    def __init__(self, open: Callable[[FileUnit], T], close: Callable[[T], object]) -> None:
        self.files = OpenFileCache(open, close)

    def close(self) -> None:
        self.files.close()


UNKNOWN = -1
"""The number of rows of a unit that does not know it, such as a stream. It is the only unit of its file."""
VERSION = "2"

_LOG = logging.getLogger("feedpipe")


class FileContents(NamedTuple):
    """The content of the footer of one file.

    Attributes:
        schema: names and types of its columns.
        seal: identifies the version of the file.
        rows: of each of its units.
        compressed: whether the columns of each unit are.
        selected: the numbers of the units that a filter leaves; None for all.
        footer_bytes: the length of the footer; 0 if it is not known.
    """

    schema: pa.Schema
    seal: int
    rows: Sequence[int]
    compressed: Sequence[bool]
    selected: Sequence[int] | None = None
    footer_bytes: int = 0


@dataclass(frozen=True, eq=False)
class FileUnits:
    """The contents of all files.

    Attributes:
        schemas: each once, in the order in which they first occur.
        schema_numbers, seals, footer_bytes, counts: of each file, the number of its schema, its seal, the length of its
            footer and the number of its units.
        rows, compressed: of each unit of each file.
        selected: the positions among all units of those that a filter leaves; None for all.
    """

    schemas: Sequence[pa.Schema]
    schema_numbers: Numbers
    seals: Numbers
    footer_bytes: Numbers
    counts: Numbers
    rows: Numbers
    compressed: Numbers
    selected: Numbers | None = None

    @staticmethod
    def of(files: Iterable[FileContents]) -> FileUnits:
        schemas: dict[bytes, tuple[int, pa.Schema]] = {}
        last: tuple[int, pa.Schema] | None = None
        numbers, seals, footers, counts, rows, compressed, selected = (array("q") for _ in range(7))
        filtered = False
        for file in files:
            if last is None or not file.schema.equals(last[1], check_metadata=True):
                last = schemas.setdefault(file.schema.serialize().to_pybytes(), (len(schemas), file.schema))
            numbers.append(last[0])
            seals.append(file.seal)
            footers.append(file.footer_bytes)
            counts.append(len(file.rows))
            filtered = filtered or file.selected is not None
            selected.extend(len(rows) + k for k in (range(len(file.rows)) if file.selected is None else file.selected))
            rows.extend(file.rows)
            compressed.extend(file.compressed)
        columns = (np.array(column, np.int64) for column in (numbers, seals, footers, counts, rows, compressed))
        units = FileUnits([schema for _, schema in schemas.values()], *columns)
        return replace(units, selected=np.array(selected, np.int64)) if filtered else units

    def __len__(self) -> int:
        return len(self.counts)

    def unit_table(self, fields: tuple[str, ...]) -> UnitTable:
        """The units that have rows, by these fields: file, number, rows, first, seal, compressed and footer_bytes."""
        files = np.repeat(np.arange(len(self)), self.counts)
        begins = np.cumsum(self.counts) - self.counts
        before = np.cumsum(self.rows) - self.rows
        unknown = self.rows == UNKNOWN
        firsts = np.append(before, 0)[begins]  # the rows before each file
        columns = {
            "file": files,
            "number": np.where(unknown, -1, np.arange(len(files)) - begins[files]),
            "rows": self.rows,
            "first": before - firsts[files],
            "seal": self.seals[files],
            "compressed": self.compressed,
            "footer_bytes": self.footer_bytes[files],
        }
        numbers = np.stack([columns[name] for name in fields], axis=1)
        chosen = np.arange(len(files)) if self.selected is None else self.selected
        return UnitTable(fields, numbers[chosen[self.rows[chosen] != 0]])

    def first_files(self) -> Numbers:
        """The position of the first file of each schema."""
        return np.unique(self.schema_numbers, return_index=True)[1]

    def digest(self) -> str:
        """A digest of all values, whatever the format that they are written in."""
        digest = hashlib.blake2b(digest_size=16)
        for column in (self.schema_numbers, self.seals, self.footer_bytes, self.counts, self.rows, self.compressed):
            digest.update(len(column).to_bytes(8, "little") + column.tobytes())
        for schema in self.schemas:
            digest.update(schema.serialize())
        return digest.hexdigest()

    def write(self, manifest: ManifestPlace, kind: str) -> None:
        """Write the unit file of a manifest. If that fails, log it; the next run reads the footers again."""
        import pyarrow as pa

        offsets = pa.array(np.append(0, np.cumsum(self.counts)), pa.int64())
        columns: dict[str, Any] = {
            "schema": pa.array(self.schema_numbers),
            "seal": pa.array(self.seals),
            "footer_bytes": pa.array(self.footer_bytes),
            "rows": pa.LargeListArray.from_arrays(offsets, pa.array(self.rows)),
            "compressed": pa.LargeListArray.from_arrays(offsets, pa.array(self.compressed)),
        }
        metadata: dict[str, bytes] = {
            "feedpipe units": VERSION.encode(),
            "kind": kind.encode(),
            "listing": manifest.digest.encode(),
            "digest": self.digest().encode(),
            **{f"schema {number}": schema.serialize().to_pybytes() for number, schema in enumerate(self.schemas)},
        }
        table = pa.table(columns).replace_schema_metadata(metadata)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        try:
            with (
                open_output(manifest.unit_file, manifest.filesystem) as stream,
                pa.ipc.new_file(stream, table.schema, options=options) as writer,
            ):
                writer.write_table(table)
        except (SourceError, pa.ArrowException, OSError) as error:
            _LOG.warning("footers are not kept for the next run: %s", error)

    @staticmethod
    def read(manifest: ManifestPlace, kind: str, files: int) -> FileUnits | None:
        """Read the unit file of a manifest. If none fits these files, log it and return None."""
        path = manifest.unit_file
        try:
            with File(path, filesystem=manifest.filesystem).open(None) as stream:
                data = stream.read()
            units = _parse(data, manifest.digest, kind)
            if len(units) != files:
                raise DataError(f"it has {len(units)} files of {files}")
        except MissingError:
            _LOG.info("%s is not there yet: the footers of %d files are read and kept in it", path, files)
        except (SourceError, DataError) as error:
            _LOG.warning("%s is not used, and written again: %s", path, error)
        else:
            return units
        return None


def _parse(data: bytes, listing: str, kind: str) -> FileUnits:
    """The content of a unit file.

    Raises:
        DataError: it is damaged, or belongs to other files.
    """
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
        metadata = {key.decode(): value for key, value in (table.schema.metadata or {}).items()}
        expected = {"feedpipe units": VERSION, "kind": kind, "listing": listing}
        for key, value in expected.items():
            if metadata.get(key) != value.encode():
                raise DataError(f"its {key!r} is {metadata.get(key, b'').decode()!r} and should be {value!r}")
        count = sum(key.startswith("schema ") for key in metadata)
        schemas = [pa.ipc.read_schema(pa.py_buffer(metadata[f"schema {number}"])) for number in range(count)]
        names = ("schema", "seal", "footer_bytes", "rows", "compressed")
        schema, seal, footers, rows, compressed = (cast("Any", table.column(name).combine_chunks()) for name in names)
        flat = [schema, seal, footers, rows.value_lengths(), rows.flatten(), compressed.flatten()]
        units = FileUnits(schemas, *(np.asarray(column.to_numpy(zero_copy_only=False), np.int64) for column in flat))
    except DataError:
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"it is damaged: {' '.join(str(error).split())}") from error
    if units.digest() != metadata.get("digest", b"").decode():
        raise DataError("it is damaged: its digest is another one")
    return units
