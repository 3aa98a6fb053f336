"""`FileCache`: a folder on a local disk that keeps copies of remote files."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, field, replace

from ..core.checks import check_bytes
from ..core.code import constructor_code
from ..core.per_process import PerProcess
from ..errors import ArgumentError, ArgumentTypeError, with_call_site
from .cache_folder import CacheFolder


@dataclass(frozen=True, repr=False)
class FileCache:
    """A folder on a local disk that keeps what was read of remote files, for later epochs and other processes.

    Give it to `open_files` or a reader as `cache=`. What a reader asks for is fetched once, in blocks of 64 KiB, and
    then read from the folder; so if only some columns of a file are read, only these are kept. Processes, ranks and
    runs on a machine may use one folder at the same time. Files on this machine are read where they are.

    A process asks storage for the size and the version of a file when a pipe first opens it: the ETag and the time on
    S3, the time elsewhere, which HDFS gives in seconds. A file that has changed is fetched anew. If storage gives
    neither, only the size counts.
    Each block has a checksum, so a damaged copy is fetched again. If the disk is full, or the folder cannot be
    written to later on, the process reads on from the remote files and logs one warning.

    Args:
        folder: a path; the folder is made if it is missing. Nothing else may be in it.
        limit: the bytes that the copies may take. Beyond that, the copies that were used first are removed.

    Raises:
        ArgumentError: `limit` is not a size in bytes, or `folder` is empty or a URL.
        SourceError: the folder cannot be written to. It is raised when the first file is opened.

    Example:
        >>> import feedpipe as fp
        >>> cache = fp.FileCache("copies", limit="200GiB")
        >>> fp.list_files("a.csv").open_files(cache=cache)
        fp.list_files('a.csv').open_files(cache=FileCache('copies', limit='200GiB'))
    """

    folder: str | os.PathLike[str]
    _: KW_ONLY
    limit: int | str = "100GiB"
    _copies: PerProcess[CacheFolder] = field(default_factory=PerProcess, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.folder, (str, os.PathLike)):
            raise ArgumentTypeError(with_call_site(f"`folder` must be a path but got: {self.folder!r}"))
        folder = os.fspath(self.folder)
        if not folder or "://" in folder:
            raise ArgumentError(with_call_site(f"`folder` must be the path of a local folder but got: {folder!r}"))
        object.__setattr__(self, "folder", folder)
        check_bytes("limit", self.limit)

    def __repr__(self) -> str:
        return constructor_code(self)

    @property
    def copies(self) -> CacheFolder:
        """The folder, opened for this process."""
        return self._copies.get(lambda: CacheFolder(os.fspath(self.folder), check_bytes("limit", self.limit)))

    def renewed(self) -> FileCache:
        """The cache for another pipe, which looks up the versions of files anew."""
        return replace(self)


def check_file_cache(value: object) -> None:
    """Raises an `ArgumentTypeError` unless `value` is None or a `FileCache`."""
    if value is not None and not isinstance(value, FileCache):
        raise ArgumentTypeError(
            with_call_site(f"`cache` must be a `FileCache`, such as `fp.FileCache(folder)`, but got: {value!r}")
        )
