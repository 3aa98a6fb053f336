"""Columns that stand in the names of folders: `.../year=2024/...`, as Hive and Spark write tables."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ...errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?[0-9]{1,19}")


def values_in(path: str) -> dict[str, str | None]:
    """The columns that the folders of `path` give, with their text; None is a missing value."""
    found: dict[str, str | None] = {}
    if "://" in path:
        path = path.partition("?")[0]  # options follow, whose values may hold slashes
    for folder in path.split("/")[:-1]:
        name, equals, text = folder.partition("=")
        if name and equals:
            found[unquote(name)] = None if text == _NULL else unquote(text)
    return found


def folder_types(
    first: str, paths: Iterable[str], taken: Container[str], *, unify: bool = False
) -> dict[str, pa.DataType]:
    """The types of the columns that the folders of `first` give, but for those whose name is taken.

    That is int64 where the values of all `paths` are such integers, else string.

    Args:
        unify: takes the columns that the folders of any path give.
    """
    import pyarrow as pa

    names = dict.fromkeys(values_in(first))
    others: set[str] = set()
    seen: set[tuple[str, str | None]] = set()
    folder = ""
    for path in paths if names or unify else ():
        here = path.rpartition("/")[0]
        if here == folder:  # the files of one folder follow each other
            continue
        folder = here
        for item in values_in(path).items():
            if item not in seen:
                seen.add(item)
                if unify:
                    names.setdefault(item[0])
                if item[1] is not None and not _is_int64(item[1]):
                    others.add(item[0])
    return {name: pa.string() if name in others else pa.int64() for name in names if name not in taken}


def folder_values(path: str, types: Mapping[str, pa.DataType], first: str, *, unify: bool = False) -> dict[str, Any]:
    """The values of the columns that the folders of `path` give, as Arrow's scalars.

    Args:
        types: of the columns wanted.
        first: the file that they were found by.
        unify: takes a missing folder for a null.

    Raises:
        DataError: a folder is missing, or its value is not of that type.
    """
    found = values_in(path) if types else {}
    made: dict[str, Any] = {}
    for name, kind in types.items():
        if name not in found and not unify:
            raise DataError(
                f"{path} is in no folder {name}=..., and {first} is; `unify_schemas=True` takes that for a null, or "
                "`columns=` names columns that all files have"
            )
        text = found.get(name)
        try:
            made[name] = _scalar(text, kind)
        except (ValueError, NotImplementedError) as error:  # Arrow's errors are such
            raise DataError(f"{path}: {text!r} in the name of its folder is no {kind}, as in {first}") from error
    return made


def _is_int64(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _scalar(text: str | None, kind: Any) -> Any:
    """The value that `text` stands for."""
    import pyarrow as pa

    if text is not None and str(kind) == "int64" and not _is_int64(text):  # Arrow would take others, such as 0x7
        raise ValueError(text)
    return pa.scalar(None, kind) if text is None else pa.scalar(text).cast(kind)
