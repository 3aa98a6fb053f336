"""Remote files: read in ranges, some of them before the reader asks for them."""

from __future__ import annotations

import io
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import SourceError, shown_cause
from . import tasks
from .filesystem import Cancellation, describe, with_retries
from .tasks import Task

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from pyarrow import NativeFile

FIRST_REQUEST_BYTES = 2**18
"""Enough for a reader that only looks at the head of a file."""
MAX_REQUEST_BYTES = 2**23
"""At 50 ms a request, four of these at a time are 640 MB/s."""
REQUESTS_AHEAD = 4
"""Requests that run ahead of a reader."""
MAX_GAP_BYTES = 2**18
"""A gap of this many bytes is fetched and thrown away; that costs less than a second request."""


class RemoteFile:
    """An open file that any thread may read in ranges. The last holder closes it.

    Args:
        name: for errors.
        open_file: opens the file; called again after a request has failed.
        identity: the size and the version of the file, if they are known. The file is then opened by its first request.

    Attributes:
        version: a value that differs if the file has been replaced.
        reads: the requests for its bytes so far. Those of one request are of one version.
    """

    def __init__(
        self, name: str, open_file: Callable[[], NativeFile], identity: tuple[int, object] | None = None
    ) -> None:
        self.name = name
        self._open_file = open_file
        self._opening = threading.Lock()
        self._file: NativeFile | None = None
        if identity is None:
            self._file = open_file()
            identity = self._file.size(), _version(self._file)
        self.size, self.version = identity
        self.reads = 0

    def changed(self) -> int | None:
        """The second of the last change, as S3 says when the file is opened; None if it does not."""
        metadata: Any = self._opened().metadata() or {}
        try:
            return int(datetime.fromisoformat(metadata["Last-Modified"].decode()).timestamp())
        except (KeyError, ValueError, AttributeError):
            return None

    def read(self, start: int, size: int, cancellation: Cancellation) -> bytes:
        """Read exactly `size` bytes.

        Raises:
            SourceError: they cannot be read, or the file has been replaced.
        """
        try:
            return with_retries(lambda: self._read(start, size), self.name, cancellation)
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read after byte {start}: {describe(error)}") from shown_cause(
                error
            )

    def check_unchanged(self, cancellation: Cancellation) -> None:
        """Raise a `SourceError` if the file has been replaced: its size differs, or on S3 its digest or time."""
        try:
            with_retries(lambda: self._reopen().close(), self.name, cancellation)
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"{self.name} cannot be looked up at its end: {describe(error)}") from shown_cause(error)

    def _opened(self) -> NativeFile:
        with self._opening:
            if self._file is None:
                self._file = self._reopen()
            return self._file

    def _read(self, start: int, size: int) -> bytes:
        file: Any = self._opened()
        self.reads += 1
        try:
            data: bytes = file.read_at(size, start)
            if len(data) < size:
                raise ConnectionError(f"{len(data)} bytes came of {size}")
        except OSError:
            with self._opening:
                if self._file is file:
                    self._file = None  # the next attempt opens it again
            raise
        return data

    def _reopen(self) -> NativeFile:
        file = self._open_file()
        if _version(file) != self.version:
            file.close()
            raise self.changed_error()
        return file

    def changed_error(self) -> SourceError:
        return SourceError(f"{self.name} has changed while it was read: it is another one now; read it again")

    def __del__(self) -> None:
        # There is no `close`: another thread may still read, and libhdfs does not survive that.
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()


def _version(file: NativeFile) -> object:
    """A value that differs when the file has been replaced: its size, and on S3 the digest and time."""
    metadata: Any = file.metadata() or {}  # the stubs have bytes as keys
    return file.size(), metadata.get("ETag"), metadata.get("Last-Modified")


class Fetch(Task[bytes]):
    """A range of a file. Its bytes count against the budget for as long as it lives."""

    def __init__(self, file: RemoteFile, begin: int, end: int, cancellation: Cancellation) -> None:
        super().__init__(lambda: file.read(begin, end - begin, cancellation))
        self.begin = begin
        self.end = end
        self._budget = tasks.budget
        self._counted = False

    def try_start(self, *, needed: bool = False, reserve: int = 0) -> bool:
        """Start the fetch if the budget has room for it and `reserve` bytes more; return True if it has."""
        if not self._counted and self._count(needed=needed, reserve=reserve):
            self.start()
        return self._counted

    def result(self) -> bytes:
        if not self._counted:
            self._count(needed=True)
        return super().result()

    def _count(self, *, needed: bool, reserve: int = 0) -> bool:
        self._counted = self._budget.acquire(self.end - self.begin, needed=needed, reserve=reserve)
        return self._counted

    def __del__(self) -> None:
        if self._counted:
            self._budget.release(self.end - self.begin)


class _RemoteReader:
    """The position of a reader in a file."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self.file = file
        self._position = 0
        self._cancellation: Cancellation = Cancellation()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._position = max(0, (0, self._position, self.file.size)[whence] + offset)
        return self._position


class RemoteStream(_RemoteReader, io.RawIOBase):
    """A file as a stream: ranges that grow, some of them fetched ahead of the reader.

    The first range is fetched alone. A reader that needs the second one probably reads on, so from there several ranges
    are fetched at a time. A file of more than one range is looked up again at its end, to see if it has been replaced.

    Args:
        file: is read.
        part: the bytes that will be read. Their fetch starts at once, and nothing after them is fetched ahead.
    """

    def __init__(self, file: RemoteFile, part: range | None = None) -> None:
        super().__init__(file)
        self._stop = file.size if part is None else min(part.stop, file.size)
        self._next_size = FIRST_REQUEST_BYTES if part is None else MAX_REQUEST_BYTES
        self._end = -1 if part is None else part.start  # of the last range
        self._fetches: deque[Fetch] = deque()  # in order; a seek to another place drops those ahead
        self._check: Task[None] | None = None
        if part is not None:
            self.start_reading()

    def start_reading(self) -> bool:
        """Start the fetch of the first range of the part unless the budget is used up; return True if it is started."""
        self._fetch_ahead(1, reserve=REQUESTS_AHEAD * MAX_REQUEST_BYTES)  # for the stream that is read now
        return bool(self._fetches) or self._end >= self._stop

    def read(self, size: int = -1, /) -> bytes:
        self._check_open()
        left = max(0, self.file.size - self._position)
        data = bytearray(left if size < 0 else min(size, left))
        view = memoryview(data)
        while len(view):  # to Arrow, fewer bytes than it asked for mean the end
            view = view[self.readinto(view) :]
        return bytes(data)

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer, except at the end of the part or file, and before a range that cannot be read."""
        self._check_open()
        view = memoryview(buffer).cast("B")
        end = self._stop if self._position < self._stop else self.file.size  # a buffer may ask for more than is needed
        count = max(0, min(len(view), end - self._position))
        done = 0
        while done < count:
            fetch = self._current(count - done)
            try:
                part = memoryview(fetch.result())[self._position - fetch.begin :][: count - done]
            except SourceError:
                if done:
                    break  # the next call raises it again
                raise
            if fetch.begin and fetch.end == self.file.size and self._check is None:
                self._check = Task(partial(self.file.check_unchanged, self._cancellation))
                self._check.start()
            view[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        if self._check is not None and self._position == self.file.size:
            self._check.result()
        return done

    def check_unchanged(self) -> None:
        """Raise a `SourceError` if the file has been replaced."""
        self.file.check_unchanged(self._cancellation)

    def close(self) -> None:
        if not self.closed:
            self._cancellation.put(None)
            while self._fetches:
                self._fetches.pop().cancel()
            del self.file  # a running request may hold it for a while
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("read of closed file")

    def _current(self, size: int) -> Fetch:
        """The range with the next byte; `size` bytes of it are needed."""
        while self._fetches and self._fetches[0].end <= self._position:
            self._fetches.popleft().cancel()
        if self._fetches and self._fetches[0].begin <= self._position:
            self._fetch_ahead(REQUESTS_AHEAD + 1)
        elif self._fetches:  # bytes before the fetched part, such as a header
            end = min(self._position + max(FIRST_REQUEST_BYTES, size), self._fetches[0].begin)
            self._fetches.appendleft(Fetch(self.file, self._position, end, self._cancellation))
        else:
            reads_on = self._position == self._end < self._stop
            size = max(self._next_size if reads_on else FIRST_REQUEST_BYTES, min(size, MAX_REQUEST_BYTES))
            self._end = min(self._position + size, self.file.size)
            self._next_size = min(4 * size, MAX_REQUEST_BYTES)
            self._fetches.append(Fetch(self.file, self._position, self._end, self._cancellation))
            if reads_on:
                self._fetch_ahead(REQUESTS_AHEAD + 1)
        return self._fetches[0]

    def _fetch_ahead(self, count: int, reserve: int = 0) -> None:
        """Start fetches until `count` are there, the part ends or the budget is used up."""
        while len(self._fetches) < count and self._end < self._stop:
            fetch = Fetch(self.file, self._end, min(self._end + self._next_size, self._stop), self._cancellation)
            if not fetch.try_start(reserve=reserve):
                return
            self._fetches.append(fetch)
            self._end = fetch.end
            self._next_size = min(4 * self._next_size, MAX_REQUEST_BYTES)


class RemoteRanges(_RemoteReader):
    """A file for Arrow, some parts of which are fetched at the same time and given without a copy if possible.

    Args:
        file: is read.
        parts: begin and end of each part; other bytes are fetched when they are read.
    """

    closed = False

    def __init__(self, file: RemoteFile, parts: Iterable[tuple[int, int]]) -> None:
        super().__init__(file)
        self._fetches = [Fetch(file, begin, end, self._cancellation) for begin, end in _requests(parts)]
        self._begins = [fetch.begin for fetch in self._fetches]

    def fetch(self, *, needed: bool) -> bool:
        """Start the fetches of all parts, or only those that fit the budget; return True if all are started."""
        return all(fetch.try_start(needed=needed) for fetch in self._fetches)

    def size(self) -> int:
        return self.file.size

    def read(self, size: int = -1) -> memoryview:
        end = self.file.size if size < 0 else min(self._position + size, self.file.size)
        parts: list[memoryview] = []
        while self._position < end:
            parts.append(self._part(end))
            self._position += len(parts[-1])
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def close(self) -> None:
        self.closed = True
        self._cancellation.put(None)
        for fetch in self._fetches:
            fetch.cancel()
        self._fetches = []

    def _part(self, end: int) -> memoryview:
        """The next bytes, as many as one range has."""
        number = bisect_right(self._begins, self._position)
        fetch = self._fetches[number - 1] if number else None
        if fetch is not None and self._position < fetch.end:
            return memoryview(fetch.result())[self._position - fetch.begin : end - fetch.begin]
        end = min([end, *self._begins[number : number + 1]])
        return memoryview(self.file.read(self._position, end - self._position, self._cancellation))


def _requests(parts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sort the parts, join those with a small gap between them, and cut long ones."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(parts):
        if joined and begin - joined[-1][1] <= MAX_GAP_BYTES:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    for begin, end in joined:
        yield from ((at, min(at + MAX_REQUEST_BYTES, end)) for at in range(begin, end, MAX_REQUEST_BYTES))
