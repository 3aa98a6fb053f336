"""Names and types of columns: what the user says, and what is inferred."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ...errors import ArgumentError, ArgumentTypeError, DataError, with_call_site
from .arrow_types import common

if TYPE_CHECKING:
    import pyarrow as pa

Schema: TypeAlias = "Mapping[str, str | pa.DataType] | pa.Schema"
"""Types by the names of columns, as Arrow types or their names, such as "int64" or "float32"."""

_COMMON = (
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


def check_schema(value: object) -> dict[str, pa.DataType]:
    """The types that `schema=` gives, by name."""
    if value is None:
        return {}
    import pyarrow as pa

    if isinstance(value, pa.Schema):
        return dict(zip(value.names, value.types, strict=True))
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            with_call_site(f"`schema` must map names to types, or be a pyarrow schema, but got: {value!r}")
        )
    return {_name(name): _type(name, kind) for name, kind in value.items()}


def check_names(argument: str, value: object) -> list[str] | None:
    """A list of different names, or None."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise ArgumentTypeError(with_call_site(f"`{argument}` must be a list of names but got: {value!r}"))
    names = list[str](value)
    if not names:
        raise ArgumentError(with_call_site(f"`{argument}` must name at least one column but got: []"))
    if twice := repeated(names):
        raise ArgumentError(with_call_site(f"`{argument}` must name each column once but got {twice!r} twice"))
    return names


def repeated(names: Iterable[str]) -> str | None:
    """The first name that comes a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint at the name that was meant."""
    known = list(names)
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {listed(known)}"


def listed(names: Sequence[str]) -> str:
    """Some names, for an error."""
    said = ", ".join(map(repr, names[:8]))
    return said + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def plain(types: Mapping[str, pa.DataType]) -> list[list[str]]:
    """Names and types as plain values."""
    return [[name, str(kind)] for name, kind in types.items()]


class UnifiedSchema:
    """The columns of some files together, in the order in which they come up.

    Args:
        repair: what to do about a column whose types have nothing in common.
    """

    def __init__(self, repair: str) -> None:
        self._repair = repair
        self._found: dict[str, dict[pa.DataType, str]] = {}  # by name the types, each with the first file that has it

    def add(self, file: str, types: Mapping[str, pa.DataType]) -> None:
        for name, kind in types.items():
            self._found.setdefault(name, {}).setdefault(kind, file)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def type(self, name: str) -> pa.DataType:
        """The narrowest type for the values of all files.

        Raises:
            DataError: there is none.
        """
        kinds = iter(self._found[name].items())
        made, source = next(kinds)
        for kind, file in kinds:
            both = common(made, kind)
            if both is None:
                raise DataError(
                    f"{file}, column {name!r}: its type is {kind}, and {made} in {source}, and no type holds the "
                    f"values of both; {self._repair}"
                )
            made, source = both, source if both == made else file
        return made

    def types(self) -> dict[str, pa.DataType]:
        """Names and types; where no type holds the values of all files, that of the first."""
        made: dict[str, pa.DataType] = {}
        for name, kinds in self._found.items():
            try:
                made[name] = self.type(name)
            except DataError:
                made[name] = next(iter(kinds))
        return made


def lacking(file: str, name: str, has: Sequence[str], source: str) -> DataError:
    """The error where `file` has no column `name`, and `source` has one."""
    return DataError(
        f"{file} has no column {name!r}, and {source} has one; it has {listed(has)}; `unify_schemas=True` takes it for "
        "null there, or `columns=` names those that all files have"
    )


def surplus(file: str, name: str, source: str, *, unified: bool) -> DataError:
    """The error where `file` has a column `name`, and `source` has none; nor has another, if they are unified."""
    has_none = f"{source} has none"
    repair = ", `unify_schemas=True` takes those of all files"
    if unified:
        has_none, repair = "the files of seed 0 and epoch 0, which fix the columns, have none", ""
    return DataError(f"{file} has a column {name!r}, and {has_none}; `columns=` names those to read{repair}")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(with_call_site(f"`schema` must map names to types but got the name: {name!r}"))
    return name


def _type(name: str, kind: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, pa.DataType):
        return kind
    try:
        return cast("pa.DataType", pa.type_for_alias(kind))
    except (ValueError, TypeError, AttributeError):
        hint = nearest(kind, _COMMON) if isinstance(kind, str) else f"there are {listed(_COMMON)}"
        raise ArgumentError(
            with_call_site(
                f"`schema` must give column {name!r} a type of Arrow, or its name, but got: {kind!r}; {hint}"
            )
        ) from None
