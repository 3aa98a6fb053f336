"""`cache`: keeps rows in files, for later epochs and runs and other processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from ...core.checks import check_bool, check_bytes
from ...core.graph import node_code, walk
from ...core.operator import Boundary
from ...errors import ArgumentError, ArgumentTypeError, PlanError, with_call_site
from ._cache_operator import Cache, find_draw, parses_files

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


def cache(
    pipe: Pipe[T],
    /,
    path: str | os.PathLike[str] | None = None,
    *,
    version: str = "",
    limit: int | str = "10GiB",
    freeze: bool = False,
) -> Pipe[T]:
    """Keep the rows in files, so that what is before runs once for each row, and not in each epoch.

    Element, order and length are the input's; indexed if the input is. State: a position; it is the same whether the
    cache is full, partial or gone. Rows are written as they are made, and read in any later epoch or run, by all
    workers and ranks of the machine. A damaged file counts as missing. `explain()` says what the cache holds.

    Rows that a policy skips are counted and recorded in each epoch. A cache of a streamed pipe skips the same rows each
    time; before that of an indexed pipe they are tried again.

    Each row is kept if it consists of numbers, text, bytes, dates, NumPy arrays and tensors, columns of tables, and
    lists, tuples and dicts of these. Nothing that is read from a cache can run code.

    The folder has a cache for each pipe: a fingerprint of the operators before it, their arguments, listed files and
    functions' code. If these change, another cache begins beside the old one, with a warning. What the fingerprint does
    not see belongs into `version`: global variables, and the content of files that keep their names and sizes.

    Rows of files that are parsed (`parse_csv` and the like) are kept by parts of files, which shards divide among them.
    Any other streamed input, such as a `filter` of an iterable, is read by each process from its beginning.

    Args:
        path: a local folder. Without it, the rows are in shared memory, and removed with the pipe, at the latest at the
            end of the process; the workers of a loader share them.
        version: any text; another version is another cache.
        limit: the number of bytes that the rows may take, as an int or a string such as "500MB". Beyond it, or if the
            disk is full, rows that are not kept are made in each epoch, after one warning.
        freeze: allows random draws before it, and fixes them as they are with seed 0 in epoch 0.

    Raises:
        PlanError: operators before it draw at random, and `freeze` is not given; `shard_by_rank()` stands before it; or
            an operator of a streamed pipe, such as `filter` or `batch`, follows a function with a policy for errors.
        ArgumentError: `limit` is not a size in bytes, or `path` is empty or a URL.
        SourceError: the folder cannot be written to. It is raised at the first row.
        DataError: a row has a value that no file of a cache holds.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(3)).map(lambda x: x * x).cache("squares")
        >>> list(pipe), list(pipe)
        ([0, 1, 4], [0, 1, 4])
    """
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(with_call_site(f"`path` must be the path of a folder but got: {path!r}"))
    folder = None if path is None else os.fspath(path)
    if folder is not None and (not folder or "://" in folder):
        raise ArgumentError(with_call_site(f"`path` must be the path of a local folder but got: {folder!r}"))
    if not isinstance(version, str):
        raise ArgumentTypeError(with_call_site(f"`version` must be a str but got: {version!r}"))
    check_bytes("limit", limit)
    check_bool("freeze", freeze)
    if any(node.op.boundary is Boundary.SHARD for node in walk(pipe)):
        raise PlanError(
            with_call_site(
                "`cache()` must stand before `shard_by_rank()`, because it keeps rows for all ranks and a shard has "
                "only its part of them; swap the two"
            )
        )
    draw = find_draw(pipe)
    if draw is not None and not freeze:
        raise PlanError(
            with_call_site(
                f"`cache()` must not follow `{node_code(draw).lstrip('.')}`, which draws at random, because "
                "it would keep the rows of one seed and epoch; put it before, or give `freeze=True` to have the same "
                "draws in all epochs"
            )
        )
    by_units = not pipe.indexed and draw is None and parses_files(pipe)
    return pipe.then(
        Cache(folder, version=version, limit=limit, freeze=freeze, by_units=by_units, by_position=pipe.indexed)
    )
