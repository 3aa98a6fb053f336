"""Columns in the names of folders: `.../year=2024/...`, as Hive and Spark write tables."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ...errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder of null values."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")


def parse_folders(path: str) -> dict[str, str | None]:
    """The columns that the folders of `path` give, with their text; None for a missing value."""
    values: dict[str, str | None] = {}
    if "://" in path:
        path = path.partition("?")[0]  # options follow, and their values may hold slashes
    for folder in path.split("/")[:-1]:
        name, equals, text = folder.partition("=")
        if name and equals:
            values[unquote(name)] = None if text == NULL else unquote(text)
    return values


def folder_types(
    first: str, paths: Iterable[str], taken: Container[str], *, unify: bool = False
) -> dict[str, pa.DataType]:
    """The types of the columns that the folders of `first` give.

    That is int64 if the values of all `paths` are such integers, else string.

    Args:
        first: the path of the first file.
        paths: the paths of all files.
        taken: names of columns that the files have; they win.
        unify: whether the folders of any path give columns, not only those of `first`.
    """
    import pyarrow as pa

    names = dict.fromkeys(parse_folders(first))
    text_columns: set[str] = set()
    seen: set[tuple[str, str | None]] = set()
    previous = ""
    for path in paths if names or unify else ():
        folder = path.rpartition("/")[0]
        if folder == previous:  # the files of one folder follow each other
            continue
        previous = folder
        for name, text in parse_folders(path).items():
            if (name, text) not in seen:
                seen.add((name, text))
                if unify:
                    names.setdefault(name)
                if text is not None and not _is_int64(text):
                    text_columns.add(name)
    return {name: pa.string() if name in text_columns else pa.int64() for name in names if name not in taken}


def folder_values(path: str, types: Mapping[str, pa.DataType], first: str, *, unify: bool = False) -> dict[str, Any]:
    """The values of the columns that the folders of `path` give, as Arrow scalars.

    Args:
        path: the path of a file.
        types: of the columns to give.
        first: the file that the columns come from, for errors.
        unify: whether a missing folder stands for null.

    Raises:
        DataError: a folder is missing, or its value is not of that type.
    """
    texts = parse_folders(path) if types else {}
    values: dict[str, Any] = {}
    for name, kind in types.items():
        if name not in texts and not unify:
            raise DataError(
                f"{path} is in no folder {name}=..., and {first} is; `unify_schemas=True` takes that for a null, or "
                "`columns=` names columns that all files have"
            )
        text = texts.get(name)
        try:
            values[name] = _scalar(text, kind)
        except (ValueError, NotImplementedError) as error:  # Arrow's errors are such
            raise DataError(f"{path}: {text!r} in the name of its folder is no {kind}, as in {first}") from error
    return values


def _is_int64(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _scalar(text: str | None, kind: Any) -> Any:
    import pyarrow as pa

    if text is not None and str(kind) == "int64" and not _is_int64(text):  # Arrow would take others, such as 0x7
        raise ValueError(text)
    return pa.scalar(None, kind) if text is None else pa.scalar(text).cast(kind)
