"""Columns that stand in the names of folders: `.../year=2024/...`, as Hive and Spark write tables."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

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


def folder_types(first: str, paths: Iterable[str], taken: Container[str]) -> dict[str, pa.DataType]:
    """The columns that the folders of `first` give, but for those whose name is taken, and their types.

    That is int64 where the values of all `paths` are such integers, else string.
    """
    import pyarrow as pa

    names = [name for name in values_in(first) if name not in taken]
    others: set[str] = set()
    seen: set[tuple[str, str | None]] = set()
    folder = ""
    for path in paths if names else ():
        here = path.rpartition("/")[0]
        if here == folder:  # the files of one folder follow each other
            continue
        folder = here
        for item in values_in(path).items():
            if item not in seen:
                seen.add(item)
                if item[1] is not None and not is_int64(item[1]):
                    others.add(item[0])
    return {name: pa.string() if name in others else pa.int64() for name in names}


def is_int64(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def scalar(text: str | None, kind: pa.DataType) -> Any:
    """The value that `text` stands for."""
    import pyarrow as pa

    value: Any = int(text) if text is not None and pa.types.is_integer(kind) else text
    return pa.scalar(value, kind)
