"""Columns of tables: their types, their names, and the errors of reading them with Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, Literal, Protocol, TypeAlias, cast

from ..core.arrow import number_dtype, numpy_array
from ..core.checks import similar_name
from ..core.lazy import pa
from ..core.rows import Column, Rows
from ..errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, SourceError
from .text import MAX_RECORD_BYTES


# pyarrow's stubs do not say which attributes belong to which type, hence `Any`.
def decoded_type(kind: Any) -> Any:
    """The type in which a column is read: that of the values for dictionaries and run ends, the plain one for views.

    Each file, even each row group, may have its own dictionary, and Arrow cannot take rows of the others.
    """
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return decoded_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    # Other files may have nulls within.
    return with_fields(kind, lambda field: field.with_type(decoded_type(field.type)).with_nullable(True))


def value_type(kind: Any) -> Any:
    """The type of the values, if it is one of dictionaries; else the type itself."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: Any) -> bool:
    """Whether values are text or bytes of any length, or codes of such."""
    types: Any = pa.types
    tests = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    return any(test(value_type(kind)) for test in tests)


def plain_values(array: Any) -> Any:
    """The values of an array of dictionaries; any other array as it is."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def with_codes(array: Any, kind: Any) -> Any:
    """Values of text as codes, of the type `kind`, which is one of dictionaries."""
    if not pa.types.is_dictionary(array.type):
        array = array.cast(kind.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(array.indices.cast(kind.index_type), array.dictionary.cast(kind.value_type))


def storage_type(kind: Any) -> Any:
    """The type without extensions of Python packages: a process that has not imported the package knows none."""
    if isinstance(kind, pa.ExtensionType):
        return storage_type(kind.storage_type)
    return with_fields(kind, lambda field: field.with_type(storage_type(field.type)))


def with_fields(kind: Any, change: Callable[[Any], Any]) -> Any:
    """The type with each field of a struct or a list changed; any other type as it is."""
    if not kind.num_fields:
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([change(field) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(change(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(change(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(change(kind.value_field))
    return kind


def widens_to(kind: Any, fixed: Any) -> bool:
    """Whether all values of type `kind` become the type `fixed` without loss.

    They do if the types are the same; if a column has only nulls; from narrower to wider integers or floats; between
    text or bytes with short or long offsets, views and dictionaries; and for lists and structs of such.
    """
    types: Any = pa.types
    texts = types.is_string, types.is_large_string, types.is_string_view
    blobs = types.is_binary, types.is_large_binary, types.is_binary_view
    lists = types.is_list, types.is_large_list

    def both(family: Iterable[Callable[[Any], bool]]) -> bool:
        return any(test(kind) for test in family) and any(test(fixed) for test in family)

    if kind == fixed or types.is_null(kind):
        return True
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return widens_to(kind.value_type, fixed)
    if both(texts) or both(blobs):
        return True
    if types.is_integer(kind) and types.is_integer(fixed):
        if types.is_signed_integer(kind) == types.is_signed_integer(fixed):
            return bool(kind.bit_width <= fixed.bit_width)
        return bool(types.is_signed_integer(fixed) and kind.bit_width < fixed.bit_width)
    if types.is_floating(kind) and types.is_floating(fixed):
        return bool(kind.bit_width <= fixed.bit_width)
    if both(lists):
        return widens_to(kind.value_type, fixed.value_type)
    if types.is_struct(kind) and types.is_struct(fixed):
        names = [field.name for field in kind]
        return names == [field.name for field in fixed] and all(
            widens_to(kind.field(name).type, fixed.field(name).type) for name in names
        )
    return False


def common_type(one: Any, other: Any) -> Any:
    """The narrowest type for the values of both types; None if there is none. A value may still not fit."""
    if widens_to(other, one):
        return one
    if widens_to(one, other):
        return other
    schemas = [pa.schema([("column", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def text_for(what: Literal["null", "timestamp"], kind: Any) -> Any:
    """The type with nulls or timestamps replaced by text, also within lists and structs."""
    if pa.types.is_null(kind) if what == "null" else pa.types.is_timestamp(kind):
        return pa.string()
    return with_fields(kind, lambda field: field.with_type(text_for(what, field.type)))


Schema: TypeAlias = "Mapping[str, str | pa.DataType] | pa.Schema"
"""Types by the names of columns, as Arrow types or their names, such as "int64" or "float32"."""

_FREQUENT_TYPES = (
    "int64", "int32", "int16", "int8", "uint8", "float64", "float32", "bool", "string", "binary", "date32",
    "timestamp[s]",
)  # fmt: skip


def check_schema(value: object, argument: str = "schema") -> dict[str, pa.DataType]:
    """The types that an argument gives, by name."""
    if value is None:
        return {}
    if isinstance(value, pa.Schema):
        return dict(zip(value.names, value.types, strict=True))
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(f"`{argument}` must map names to types, or be a pyarrow schema, but got: {value!r}")
    return {name: _check_type(argument, name, kind) for name, kind in value.items()}


def check_names(argument: str, value: object) -> list[str] | None:
    """A list of different names, or None."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise ArgumentTypeError(f"`{argument}` must be a list of names but got: {value!r}")
    names = list[str](value)
    if not names:
        raise ArgumentError(f"`{argument}` must name at least one column but got: []")
    if name := first_duplicate(names):
        raise ArgumentError(f"`{argument}` must name each column once but got {name!r} twice")
    return names


def first_duplicate(names: Iterable[str]) -> str | None:
    """The first name that comes a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def suggest_name(name: str, names: Iterable[str]) -> str:
    """A hint at the name that was meant, for an error."""
    names = list(names)
    near = similar_name(name, names)
    return f"did you mean {near!r}?" if near else f"there are {format_names(names)}"


def format_names(names: Sequence[str]) -> str:
    """The first few of some names, for an error."""
    text = ", ".join(map(repr, names[:8]))
    return text + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def plain_types(types: Mapping[str, pa.DataType]) -> list[list[str]]:
    """Names and types as plain values, the same in each process."""
    return [[name, str(storage_type(kind))] for name, kind in types.items()]


class UnifiedSchema:
    """The columns of several files, in the order in which they occur; `repair` helps if types do not unify."""

    def __init__(self, repair: str) -> None:
        self._repair = repair
        # By name the types, each with the first file that has it; types of extensions may have no hash.
        self._kinds: dict[str, list[tuple[pa.DataType, str]]] = {}

    def add(self, file: str, types: Mapping[str, pa.DataType]) -> None:
        """Add the columns of a file."""
        for name, kind in types.items():
            kinds = self._kinds.setdefault(name, [])
            if all(kind != other for other, _ in kinds):
                kinds.append((kind, file))

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def type(self, name: str) -> pa.DataType:
        """The narrowest type for the values of all files; a `DataError` if there is none."""
        kinds = iter(self._kinds[name])
        unified, source = next(kinds)
        for kind, file in kinds:
            common = common_type(unified, kind)
            if common is None:
                raise DataError(
                    f"{file}, column {name!r}: its type is {kind}, and {unified} in {source}, and no type holds the "
                    f"values of both; {self._repair}"
                )
            unified, source = common, source if common == unified else file
        return unified

    def types(self) -> dict[str, pa.DataType]:
        """Names and types; if no type holds the values of all files, the type in the first."""
        types: dict[str, pa.DataType] = {}
        for name, kinds in self._kinds.items():
            try:
                types[name] = self.type(name)
            except DataError:
                types[name], _ = kinds[0]
        return types


def missing_column_error(file: str, name: str, names: Sequence[str], source: str) -> DataError:
    """The error if `file`, with the columns `names`, lacks a column that `source` has."""
    return DataError(
        f"{file} has no column {name!r}, and {source} has one; it has {format_names(names)}; `unify_schemas=True` "
        "takes it for null there, or `columns=` names those that all files have"
    )


def unexpected_column_error(file: str, name: str, source: str, *, unified: bool) -> DataError:
    """The error if `file` has a column that `source` lacks, or that all files lack if they are unified."""
    lacking = f"{source} has none"
    repair = ", `unify_schemas=True` takes those of all files"
    if unified:
        lacking, repair = "the files of seed 0 and epoch 0, which fix the columns, have none", ""
    return DataError(f"{file} has a column {name!r}, and {lacking}; `columns=` names those to read{repair}")


def _check_type(argument: str, name: object, kind: Any) -> pa.DataType:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"`{argument}` must map names to types but got the name: {name!r}")
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return cast("pa.DataType", pa.type_for_alias(kind))
    except (ValueError, TypeError, AttributeError):
        there = f"there are {format_names(_FREQUENT_TYPES)}"
        hint = suggest_name(kind, _FREQUENT_TYPES) if isinstance(kind, str) else there
        raise ArgumentError(
            f"`{argument}` must give column {name!r} a type of Arrow, or its name, but got: {kind!r}; {hint}"
        ) from None


HEAD_BYTES = 2**20
"""Bytes of a text file from which names and types are inferred."""
BLOCK_BYTES = 2 * MAX_RECORD_BYTES
"""The block size of Arrow's readers: larger than any chunk, since chunks already end where a record ends."""


def arrow_source(data: bytes) -> IO[bytes]:
    """Wrap bytes for Arrow's readers, without a copy."""
    return cast("IO[bytes]", pa.BufferReader(data))


def to_rows(table: pa.Table) -> Rows:
    """The columns of a table, each as one array."""
    columns = {name: _contiguous(table.column(i)) for i, name in enumerate(table.column_names)}
    return Rows(columns, table.num_rows)


def to_column(array: Any) -> Column:
    """Numbers without nulls as a NumPy array, whose gathers (as in a shuffle) are faster; others as they are."""
    dtype = number_dtype(array.type)
    if dtype is None or dtype.kind == "b" or array.null_count:
        return cast("Column", array)
    return numpy_array(array)


def arrow_errors() -> tuple[type[Exception], ...]:
    """The exceptions that pyarrow raises for bytes that are damaged or cannot be read."""
    return pa.ArrowException, OSError, ValueError, MemoryError, KeyError, TypeError, IndexError, OverflowError


def read_error(error: Exception, name: str) -> FeedpipeError:
    """Translate one of `arrow_errors()` but our own, of reading the file or the part of one `name`."""
    if isinstance(error, OSError) and error.errno:
        return SourceError(f"{name} cannot be read: {error.strerror or error}")
    message = " ".join(str(error).split())
    if "crypt" in message:
        return DataError(f"{name} is encrypted, and cannot be read without a key: {message}; decrypt the file first")
    if isinstance(error, NotImplementedError) or "out of range" in message:  # damage can look like that, too
        return DataError(f"{name} holds what pyarrow {pa.__version__} cannot read, or is damaged: {message}")
    return DataError(f"{name} is damaged, or has changed while it was read: {message}")


def _contiguous(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return cast("pa.Array[Any]", column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())


def check_encoding_of_names(types: Iterable[Any]) -> None:
    """Raise a `UnicodeDecodeError` if a name inside a type is not UTF-8, which rows would raise much later."""
    for kind in types:
        if pa.types.is_primitive(kind):
            continue
        if isinstance(kind, pa.BaseExtensionType):  # whose class may give other attributes any meaning
            check_encoding_of_names([kind.storage_type])
            continue
        fields = [*kind] if pa.types.is_struct(kind) else []
        _ = [field.name for field in fields]
        inner = (getattr(kind, name) for name in ("value_type", "item_type") if hasattr(kind, name))
        check_encoding_of_names([*(field.type for field in fields), *inner])


class TableHead(Protocol):
    """Names and types of the columns of one file, known before its rows are read."""

    name: str
    """The name of the file, for errors."""
    schema: pa.Schema

    def existing(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that the file has."""
        ...

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """Names and types of these columns as they are read; None for all."""
        ...


class FlatHead:
    """The head of a file whose columns are read as a whole, structs included."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        check_encoding_of_names(schema.types)
        self.name = name
        self.schema = schema
        self.names: list[str] = schema.names

    def existing(self, names: Iterable[str]) -> list[str]:
        existing = set(self.names)
        return [name for name in names if name in existing]

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
