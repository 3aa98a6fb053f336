"""Files that lie elsewhere: read by ranges, some of them ahead."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import SourceError
from . import tasks as fetching
from .error_messages import describe
from .retry import Ended, retrying, retrying_anew
from .tasks import Task

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from pyarrow import NativeFile

FIRST = 2**18
"""Bytes of the first request: who looks at the head of a file needs no more."""
MOST = 2**23
"""Bytes of any request: at 50 ms a request, four of them at a time are 640 MB/s."""
AHEAD = 4
"""Requests under way ahead of a reader."""
HOLE = 2**18
"""Bytes that are fetched and thrown away rather than asked around."""


class RemoteFile:
    """An open file that is read by ranges, from any thread; closed when nobody holds it any longer.

    Args:
        name: for errors.
        opened: opens it; called again where a request has failed.
    """

    def __init__(self, name: str, opened: Callable[[], NativeFile]) -> None:
        self.name = name
        self._opened = opened
        self._file = opened()
        self.size = self._file.size()
        self._seal = _seal(self._file)

    def read(self, start: int, size: int, ended: Ended) -> bytes:
        """The bytes of a range; fewer are an error.

        Raises:
            SourceError: they cannot be read, or the file is another one now.
        """
        try:
            return retrying_anew(
                lambda: self._read(self._file, start, size), lambda: self._read_anew(start, size), self.name, ended
            )
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read after byte {start}: {describe(error)}") from error

    def check(self, ended: Ended) -> None:
        """Raises a `SourceError` where the file is another one now, as far as its size tells, and on S3 its digest."""
        try:
            retrying(lambda: self._reopened().close(), self.name, ended)
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"{self.name} cannot be looked up at its end: {describe(error)}") from error

    def _read(self, file: Any, start: int, size: int) -> bytes:
        data: bytes = file.read_at(size, start)
        if len(data) < size:
            raise ConnectionError(f"{len(data)} bytes came of {size}")
        return data

    def _read_anew(self, start: int, size: int) -> bytes:
        with self._reopened() as file:
            return self._read(file, start, size)

    def _reopened(self) -> NativeFile:
        file = self._opened()
        if _seal(file) != self._seal:
            file.close()
            raise SourceError(f"{self.name} has changed while it was read: it is another one now; read it anew")
        return file

    def __del__(self) -> None:
        # Not `close`: a request may be under way in another thread, and libhdfs does not survive that.
        if hasattr(self, "_file"):
            self._file.close()


def _seal(file: NativeFile) -> object:
    """What is another where the file is: its size, and on S3 the digest and time that came with it."""
    told: Any = file.metadata() or {}  # the stubs have bytes as keys
    return file.size(), told.get("ETag"), told.get("Last-Modified")


class Fetch(Task[bytes]):
    """A range of a file. Its bytes count as held for as long as it lives."""

    def __init__(self, file: RemoteFile, begin: int, end: int, ended: Ended) -> None:
        super().__init__(lambda: file.read(begin, end - begin, ended))
        self.begin = begin
        self.end = end
        self._budget = fetching.budget
        self._counted = False

    def ahead(self, *, needed: bool = False, leaving: int = 0) -> bool:
        """Lets a thread begin with it, where there is room for it and `leaving` bytes more; whether there is."""
        if not self._counted and self._count(needed=needed, leaving=leaving):
            self.start()
        return self._counted

    def result(self) -> bytes:
        if not self._counted:
            self._count(needed=True)
        return super().result()

    def _count(self, *, needed: bool, leaving: int = 0) -> bool:
        self._counted = self._budget.take(self.end - self.begin, needed=needed, leaving=leaving)
        return self._counted

    def __del__(self) -> None:
        if self._counted:
            self._budget.give(self.end - self.begin)


class _Reader:
    """What reads a file from some place on."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self.file = file
        self._at = 0
        self._ended: Ended = Ended()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = max(0, (0, self._at, self.file.size)[whence] + offset)
        return self._at


class RemoteStream(_Reader, io.RawIOBase):
    """A file as a stream: one range after another, each larger than the one before, and some ahead of the reader.

    The first range comes alone. Who needs the second one reads on, so from there some are under way at a time. Where
    the last range was not the only one, a request behind it asks whether the file is still the same.

    Args:
        file: is read.
        part: the bytes that will be read: they are on their way at once, and none behind them is fetched ahead.
    """

    def __init__(self, file: RemoteFile, part: range | None = None) -> None:
        super().__init__(file)
        self._stop = file.size if part is None else min(part.stop, file.size)
        self._size = FIRST if part is None else MOST  # of the next range
        self._end = -1 if part is None else part.start  # of the last range that was made
        self._fetches: deque[Fetch] = deque()  # in order; what is ahead goes when something else is read
        self._check: Task[None] | None = None
        if part is not None:
            self.begin()

    def begin(self) -> None:
        """Lets a thread fetch the first range of the part, if that is not under way, and there is room for it."""
        self._fetch_ahead(1, leaving=AHEAD * MOST)  # for those ahead of whoever reads now

    def read(self, size: int = -1, /) -> bytes:
        self._check_open()
        left = max(0, self.file.size - self._at)
        made = bytearray(left if size < 0 else min(size, left))
        view = memoryview(made)
        while len(view):  # Arrow takes fewer bytes than it asked for as the end
            view = view[self.readinto(view) :]
        return bytes(made)

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fills the buffer; less only at the end, and before a range that cannot be read."""
        self._check_open()
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self.file.size - self._at))
        done = 0
        while done < count:
            fetch = self._current(count - done)
            try:
                part = memoryview(fetch.result())[self._at - fetch.begin :][: count - done]
            except SourceError:
                if done:
                    break  # the next call raises it again
                raise
            if fetch.begin and fetch.end == self.file.size and self._check is None:
                self._check = Task(partial(self.file.check, self._ended))
                self._check.start()
            view[done : done + len(part)] = part
            done += len(part)
            self._at += len(part)
        if self._check is not None and self._at == self.file.size:
            self._check.result()
        return done

    def close(self) -> None:
        if not self.closed:
            self._ended.put(None)
            while self._fetches:
                self._fetches.pop().cancel()
            del self.file  # a request that is under way may hold it for a while
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("read of closed file")

    def _current(self, wanted: int) -> Fetch:
        """The range with the next byte."""
        while self._fetches and self._fetches[0].end <= self._at:
            self._fetches.popleft().cancel()
        if self._fetches and self._fetches[0].begin <= self._at:
            self._fetch_ahead(AHEAD + 1)
        elif self._fetches:  # before what is on its way, such as a header
            end = min(self._at + max(FIRST, wanted), self._fetches[0].begin)
            self._fetches.appendleft(Fetch(self.file, self._at, end, self._ended))
        else:
            reads_on = self._at == self._end < self._stop
            size = max(self._size if reads_on else FIRST, min(wanted, MOST))
            self._end = min(self._at + size, self.file.size)
            self._size = min(4 * size, MOST)
            self._fetches.append(Fetch(self.file, self._at, self._end, self._ended))
            if reads_on:
                self._fetch_ahead(AHEAD + 1)
        return self._fetches[0]

    def _fetch_ahead(self, most: int, leaving: int = 0) -> None:
        while len(self._fetches) < most and self._end < self._stop:
            fetch = Fetch(self.file, self._end, min(self._end + self._size, self._stop), self._ended)
            if not fetch.ahead(leaving=leaving):
                return
            self._fetches.append(fetch)
            self._end = fetch.end
            self._size = min(4 * self._size, MOST)


class RemoteRanges(_Reader):
    """Parts of a file, fetched at the same time, as a file for Arrow; it gives them without a copy where it can.

    Args:
        file: is read.
        parts: where each begins and ends; what is read besides is fetched when it is.
    """

    closed = False

    def __init__(self, file: RemoteFile, parts: Iterable[tuple[int, int]]) -> None:
        super().__init__(file)
        self._fetches = [Fetch(file, begin, end, self._ended) for begin, end in _pieces(parts)]
        self._begins = [fetch.begin for fetch in self._fetches]

    def fetch(self, *, needed: bool) -> None:
        """Lets threads begin with all parts; those that are not needed yet, as far as there is room."""
        for fetch in self._fetches:
            if not fetch.ahead(needed=needed):
                break

    def size(self) -> int:
        return self.file.size

    def read(self, size: int = -1) -> memoryview:
        end = self.file.size if size < 0 else min(self._at + size, self.file.size)
        parts: list[memoryview] = []
        while self._at < end:
            parts.append(self._part(end))
            self._at += len(parts[-1])
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def close(self) -> None:
        self.closed = True
        self._ended.put(None)
        for fetch in self._fetches:
            fetch.cancel()
        self._fetches = []

    def _part(self, end: int) -> memoryview:
        """What comes next, as much as one range has of it."""
        number = bisect_right(self._begins, self._at)
        fetch = self._fetches[number - 1] if number else None
        if fetch is not None and self._at < fetch.end:
            return memoryview(fetch.result())[self._at - fetch.begin : end - fetch.begin]
        end = min([end, *self._begins[number : number + 1]])
        return memoryview(self.file.read(self._at, end - self._at, self._ended))


def _pieces(parts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts in order; those with a small hole between them as one, and long ones in pieces."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(parts):
        if joined and begin - joined[-1][1] <= HOLE:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    for begin, end in joined:
        yield from ((at, min(at + MOST, end)) for at in range(begin, end, MOST))
