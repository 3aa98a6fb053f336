"""Names and types of columns: the user's arguments, and those of several files together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ...errors import ArgumentError, ArgumentTypeError, DataError, with_call_site
from .arrow_types import common_type, storage_type

if TYPE_CHECKING:
    import pyarrow as pa

Schema: TypeAlias = "Mapping[str, str | pa.DataType] | pa.Schema"
"""Types by the names of columns, as Arrow types or their names, such as "int64" or "float32"."""

_FREQUENT_TYPES = (
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "float64",
    "float32",
    "bool",
    "string",
    "binary",
    "date32",
    "timestamp[s]",
)


def check_schema(value: object, argument: str = "schema") -> dict[str, pa.DataType]:
    """The types that an argument gives, by name."""
    if value is None:
        return {}
    import pyarrow as pa

    if isinstance(value, pa.Schema):
        return dict(zip(value.names, value.types, strict=True))
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            with_call_site(f"`{argument}` must map names to types, or be a pyarrow schema, but got: {value!r}")
        )
    return {_check_name(argument, name): _check_type(argument, name, kind) for name, kind in value.items()}


def check_names(argument: str, value: object) -> list[str] | None:
    """A list of different names, or None."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise ArgumentTypeError(with_call_site(f"`{argument}` must be a list of names but got: {value!r}"))
    names = list[str](value)
    if not names:
        raise ArgumentError(with_call_site(f"`{argument}` must name at least one column but got: []"))
    if name := first_duplicate(names):
        raise ArgumentError(with_call_site(f"`{argument}` must name each column once but got {name!r} twice"))
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
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {format_names(names)}"


def format_names(names: Sequence[str]) -> str:
    """The first few of some names, for an error."""
    text = ", ".join(map(repr, names[:8]))
    return text + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def plain_types(types: Mapping[str, pa.DataType]) -> list[list[str]]:
    """Names and types as plain values, the same in each process."""
    return [[name, str(storage_type(kind))] for name, kind in types.items()]


class UnifiedSchema:
    """The columns of several files together, in the order in which they first occur.

    Args:
        repair: what the user can do if no type holds all values of a column.
    """

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
        """The narrowest type for the values of all files.

        Raises:
            DataError: there is none.
        """
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


def _check_name(argument: str, name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(with_call_site(f"`{argument}` must map names to types but got the name: {name!r}"))
    return name


def _check_type(argument: str, name: str, kind: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, pa.DataType):
        return kind
    try:
        return cast("pa.DataType", pa.type_for_alias(kind))
    except (ValueError, TypeError, AttributeError):
        there = f"there are {format_names(_FREQUENT_TYPES)}"
        hint = suggest_name(kind, _FREQUENT_TYPES) if isinstance(kind, str) else there
        raise ArgumentError(
            with_call_site(
                f"`{argument}` must give column {name!r} a type of Arrow, or its name, but got: {kind!r}; {hint}"
            )
        ) from None
