"""Every error that feedpipe raises on its own account.

    FeedpipeError
    ├── ArgumentError        (ValueError)    an argument is out of its range; found when the chain is written
    ├── ArgumentTypeError    (TypeError)     an argument is of the wrong type; found when the chain is written
    ├── PlanError            (ValueError)    a chain that cannot mean what it says, or cannot be divided
    ├── UnknownLengthError   (TypeError)     `len()` of a pipe whose length only a run can tell
    ├── SourceError          (OSError)       a file, table or stream is missing or unreadable, or has vanished
    │   └── MissingError     (FileNotFoundError)
    ├── DataError            (ValueError)    data that do not fit their format or schema
    ├── RowError             (RuntimeError)  a user's function failed on a row; the original error is the cause
    ├── LimitError           (MemoryError)   a budget in bytes is used up
    ├── StateError           (ValueError)    a state that does not fit this loader
    ├── LoaderError          (RuntimeError)  a loader or iterator used after its end
    ├── RankError            (RuntimeError)  another rank has failed or does not answer, or the ranks disagree
    └── WorkerError          (RuntimeError)  a worker process cannot begin, is stuck, or died too often

A message gives the rule, its reason and its repair; errors in a chain add the user's file and line.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import ClassVar, NamedTuple


class CallSite(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


class Origin(NamedTuple):
    """Where a row came from: a file (or a source's name) and a number in it.

    Rows and lines are counted from 1, as editors do; a byte is what `seek` takes, from 0. If a row is a whole file or
    image, its number is that among all of them.

    Attributes:
        source: a path, or the function that makes the pipe.
        row: the number of the row, or of another unit.
        unit: the unit that `row` counts.
        others: of an element made of several rows, the origins of the rows after the first.
    """

    source: str
    row: int
    unit: str = "row"
    others: tuple[Origin, ...] = ()

    def __str__(self) -> str:
        return f"{shown_path(self.source)}, {self.unit} {self.row}"

    def __repr__(self) -> str:
        unit = f", {self.unit!r}" if self.unit != "row" else ""
        others = f", others={self.others}" if self.others else ""
        return f"Origin({redacted_url(self.source)!r}, {self.row}{unit}{others})"

    @property
    def rows(self) -> list[Origin]:
        """The origin of each row that the element is made of."""
        return [self._replace(others=()), *self.others]

    @staticmethod
    def joined(origins: Iterable[Origin | None]) -> Origin | None:
        """The origin of an element made of rows with these origins."""
        rows = [row for origin in origins if origin is not None for row in origin.rows]
        return rows[0]._replace(others=tuple(rows[1:])) if rows else None


_QUOTED = "|".join(rf"(?<={quote})[\w.+:-]*://(?:[^{quote}\\]|\\.)*" for quote in "'\"`")
_URL = re.compile(rf"{_QUOTED}|[\w.+-]+://\S*", re.DOTALL)
_HOST = re.compile(r"(\[[^\]/@]*\]|[^:/?#@]*)(:\d{1,5})?(/|$)")
"""A host, perhaps with a port: what else begins a URL with an `@` in it is a user or a password."""
_OPTION = re.compile(r"[\w.%~-]+=")  # in the URL of a glob, `?` is a wild card
_OPEN_OPTION = re.compile(
    r"(region|scheme|endpoint_override|anonymous|allow_bucket_(creation|deletion)|(connect|request)_timeout|"
    r"tls_verify_certificates|sslmode|mode|version(id)?|v|rev|revision|file(name)?|path|name|id|index|part|page|split|"
    r"format|response-content-type|x-(amz|goog)-(algorithm|date|expires))=(?!.*%40)[^@#?=]*",
    re.IGNORECASE,
)
"""An option of a URL whose value is no secret."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def redacted(text: str) -> str:
    """`text` without the users, passwords and values of options in its URLs: `s3://***@bucket/a.csv?secret_key=***`."""
    # A path of a listing is of a subclass, for which pyarrow would import pandas.
    return _URL.sub(lambda match: redacted_url(match[0]), text) if "://" in text else str(text)


def redacted_url(url: str) -> str:
    """A URL, or a path, as `redacted` shows it; text after its options may be the end of a sentence."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.endswith("file"):
        return url
    if "@" in rest and not _HOST.match(rest):  # a password that is not encoded may have any of `/?#@` in it
        rest = "***@" + rest.rpartition("@")[2]
    place, mark, query = re.split(r"([?#]|$)", rest, maxsplit=1)
    options = query.rstrip("])}>.,:;'\"`")
    if any(map(_OPTION.match, options.split("&"))):
        query = "&".join(map(_redacted_option, options.split("&"))) + query[len(options) :]
    return f"{scheme}://{place}{mark}{query}"


def _redacted_option(option: str) -> str:
    name, separator, _ = option.partition("=")
    return option if _OPEN_OPTION.fullmatch(option) else f"{name}=***" if separator else "***"


def shown(text: str) -> str:
    """`text` for messages and logs: without secrets, and with escapes for characters that a terminal would obey."""
    text = redacted(text)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _escaped(char) for char in text)


def shown_path(path: str) -> str:
    """A path or URL for messages and logs: without secrets, on one line."""
    return _CONTROL.sub(lambda match: _escaped(match[0]), redacted_url(path))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def shown_cause(error: BaseException, url: str = "") -> BaseException | None:
    """`error`, about `url`, as the cause of another one; None if its text, which Python prints, may have a secret."""
    if redacted_url(url) != url:
        return None
    cause: BaseException | None = error
    while cause is not None:
        if redacted(text := text_of(cause)) != text:
            return None
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return error


def text_of(error: BaseException) -> str:
    """`str(error)`, or the reason why there is none: the class may be a user's."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its text cannot be shown: `__str__` raises {type(failure).__name__})"


def _clean_record(record: logging.LogRecord) -> bool:
    record.msg = shown(str(record.msg))
    if isinstance(record.args, tuple):
        record.args = tuple(arg if isinstance(arg, (int, float)) else shown(str(arg)) for arg in record.args)
    return True


logging.getLogger("feedpipe").addFilter(_clean_record)


class FeedpipeError(Exception):
    """The base of all errors of this package; none shows a secret of a URL.

    Attributes:
        cursor: the place of the failing element, if rows of a loader are at fault: `fp.replay(pipe, error.cursor)`
            makes it again.
        place: the shard of that element, and its plain cursor there.
    """

    cursor: dict[str, object] | None = None
    place: tuple[int, object] | None = None
    names_line: ClassVar[bool] = False
    """Whether the message ends with the line of the user's code that is running, unless it names another one."""

    def __init__(self, message: str = "", at: CallSite | None = None) -> None:
        if at is not None or self.names_line:
            message = with_call_site(message, at)
        super().__init__(shown(message))


class ArgumentError(FeedpipeError, ValueError):
    """An argument is out of its range."""

    names_line: ClassVar[bool] = True


class ArgumentTypeError(FeedpipeError, TypeError):
    """An argument is of the wrong type."""

    names_line: ClassVar[bool] = True


class PlanError(FeedpipeError, ValueError):
    """The chain cannot mean what it says, or cannot be divided as asked."""

    names_line: ClassVar[bool] = True


class UnknownLengthError(FeedpipeError, TypeError):
    """The length is not known before a run.

    It is a `TypeError`, as `len()` of an object without a length is: `list(pipe)` then goes on without a hint.
    """


class SourceError(FeedpipeError, OSError):
    """A file, table or stream is missing or unreadable, or has vanished."""


class MissingError(SourceError, FileNotFoundError):
    """A file or folder that is not there.

    It is a `FileNotFoundError` too, which programs catch around anything that opens files.
    """


class DataError(FeedpipeError, ValueError):
    """Data do not fit their format or their schema."""


class RowError(FeedpipeError, RuntimeError):
    """A user's function failed on a row. `__cause__` is the original error.

    Attributes:
        operator: the call as the user wrote it, such as `.map(decode)`.
        where: the user's file and line.
        origin: file and row that the failing row came from, if they could be found again.
    """

    def __init__(self, message: str, *, operator: str, where: CallSite | None, origin: Origin | None) -> None:
        super().__init__(message)
        self.operator = operator
        self.where = where
        self.origin = origin

    def __reduce__(self) -> tuple[object, ...]:
        return _row_error, (str(self), self.operator, self.where, self.origin), self.__dict__


def _row_error(message: str, operator: str, where: CallSite | None, origin: Origin | None) -> RowError:
    return RowError(message, operator=operator, where=where, origin=origin)


def shown_traceback(error: BaseException) -> TracebackType | None:
    """The traceback with which `error` leaves this package.

    The cause of a `RowError` has the user's lines; of these it needs the innermost one, where debuggers stop. An
    interrupt has the user's lines and the innermost one.
    """
    if isinstance(error, KeyboardInterrupt):
        return _without_own_lines(error.__traceback__)
    if not isinstance(error, RowError) or error.__cause__ is None:
        return error.__traceback__
    trace = error.__cause__.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _without_own_lines(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the lines of this package, but for the innermost one."""
    lines: list[TracebackType] = []
    while trace is not None:
        if trace.tb_next is None or not _is_in(trace.tb_frame.f_globals.get("__name__", ""), "feedpipe"):
            lines.append(trace)
        trace = trace.tb_next
    for line, following in pairwise(lines):
        line.tb_next = following
    return lines[0] if lines else None


class LimitError(FeedpipeError, MemoryError):
    """A budget in bytes is used up."""


class StateError(FeedpipeError, ValueError):
    """A state that does not fit this loader."""


class LoaderError(FeedpipeError, RuntimeError):
    """A loader or an iterator was used after its end."""


class RankError(FeedpipeError, RuntimeError):
    """Another rank has failed or does not answer, or the ranks of a job disagree."""


class WorkerError(FeedpipeError, RuntimeError):
    """A worker process cannot begin, is stuck, or has died too often."""


class WorkerWarning(UserWarning):
    """A worker process has died and was started again, with no row lost; or it does not see a change of a global."""


class PlanWarning(UserWarning):
    """A plan does as asked, at a cost that its user may not expect."""


class StateWarning(UserWarning):
    """A state was loaded although something differs."""


ENTRY_POINT_GROUPS = ("feedpipe.operators", "feedpipe.sources")
"""Entry points by which an installed package declares its operators and its sources."""


def call_site() -> CallSite | None:
    """The innermost line on the stack that is the user's: not feedpipe's, nor a package's that declares operators."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        module: str = frame.f_globals.get("__name__", "")
        if module == "__main__" or not (_is_in(module, "feedpipe") or any(_is_in(module, p) for p in _packages())):
            return CallSite(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _packages() -> Iterator[str]:
    """The packages that declare operators or sources and are imported."""
    for name in _entry_point_modules():
        module = sys.modules.get(name)
        if module is not None:
            yield getattr(module, "__package__", None) or name


@functools.cache
def _entry_point_modules() -> frozenset[str]:
    from importlib.metadata import entry_points  # here, so that `import feedpipe` does not pay for it

    return frozenset(point.module for group in ENTRY_POINT_GROUPS for point in entry_points(group=group))


def with_call_site(message: str, where: CallSite | None = None) -> str:
    """`message`, with the line of the user's code that it is about, unless it names one already."""
    where = where or call_site()
    return f"{message}\n  at {where.file}:{where.line}" if where and "\n  at " not in message else message


def warn(message: str, category: type[Warning], where: CallSite | None = None) -> None:
    """Warn with the user's line: by default the innermost on the stack that is not feedpipe's own."""
    message = shown(message)
    where = where or call_site()
    if where is None:
        warnings.warn(message, category, stacklevel=2)
    else:
        warnings.warn_explicit(message, category, where.file, where.line)


class UnfitError(ValueError):
    """Rows or columns that do not fit; the operator adds line and origin, and makes it a `DataError`."""


def raised_by_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler of the program raised `error`.

    It is still installed. A handler that a function has installed and removed again, as a decorator with a time limit
    for each call does, belongs to that function.
    """
    if error.__traceback__ is None or threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {_code_of(handler) for handler in handlers if callable(handler)} - {None}
    interrupted: FrameType | None = None
    trace = error.__traceback__ if codes else None
    while trace is not None:
        frame = trace.tb_frame
        if interrupted is not None and frame.f_code in codes:  # else to look at its variables would keep them
            values = [*frame.f_locals.values()]
            values += [item for value in values if isinstance(value, tuple) for item in value]  # of `*arguments`
            if any(value is interrupted for value in values):
                return True
        interrupted, trace = frame, trace.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    """The code that runs first when a handler is called."""
    if isinstance(handler, functools.partial):
        return _code_of(handler.func)
    function = getattr(handler, "__func__", handler)
    if not isinstance(function, FunctionType):
        function = vars(type(handler)).get("__call__")
    return function.__code__ if isinstance(function, FunctionType) else None


def raise_interrupt(error: BaseException) -> None:
    """Raise `error` if the program has interrupted the run by it, or the KeyboardInterrupt that `error` hides.

    A signal handler of the program, such as that of a time limit, interrupts whatever runs: no row has failed. Code in
    C raises a SystemError because of a KeyboardInterrupt, and a lock that one has found half acquired a RuntimeError.
    """
    if raised_by_signal_handler(error):
        raise error
    if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
        raise error.__cause__ from None
    if type(error) is RuntimeError and "lock" in str(error) and isinstance(error.__context__, KeyboardInterrupt):
        raise error.__context__ from None
