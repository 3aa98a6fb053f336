"""Rows that fail: the policies `on_error` and `retry`, and `Skipped`, the place of a row that was left out.

A skipped row keeps its place as a `Skipped` without a value. So positions, cursors and keys of draws stay what they
are, until an operator regroups the rows: its groups have no such row, and a group is a `Skipped` with a value if rows
before it, or in it, were left out. The consumer takes the elements out, and counts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, TypeAlias, cast

from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    FeedpipeError,
    RowError,
    SourceError,
    redacted,
)
from .checks import check_int, check_seconds
from .cursor import Json


@dataclass(frozen=True)
class Quarantine:
    """A policy for rows that fail: leave them out, and record each of them in a file.

    A record is a line of JSON in a file of `folder`; each process that takes elements writes a file of its own. It has
    the operator, the origin of the row (file and row), a cursor for `fp.replay`, the error, its traceback, and the
    beginning of the row. A record is written once in an epoch, also after a resume.

    Args:
        folder: a local folder; it is made if it is missing.
        budget: the most rows that may be left out in an epoch, on each rank; one more is an error.
        rate: the share of the rows that may be left out, from the first 1,000 rows of an epoch on.

    Raises:
        ArgumentError: `budget` is below 0, `rate` is not between 0 and 1, or `folder` is a URL.
        SourceError: in a run, before the first element: the folder cannot be written.
        DataError: in a run: more rows failed than `budget` or `rate` allows.

    Example:
        >>> import feedpipe as fp, json, pathlib
        >>> pipe = fp.from_sequence(["1", "two", "3"]).map(int, on_error=fp.Quarantine("bad"))
        >>> list(pipe)
        [1, 3]
        >>> (file,) = pathlib.Path("bad").iterdir()
        >>> json.loads(file.read_text())["error"]
        "ValueError: invalid literal for int() with base 10: 'two'"
    """

    folder: str | os.PathLike[str]
    budget: int | None = field(default=None, kw_only=True)
    rate: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.folder, (str, os.PathLike)):
            raise ArgumentTypeError(f"`folder` must be the path of a folder but got: {self.folder!r}")
        folder = os.fspath(self.folder)
        object.__setattr__(self, "folder", folder)
        if "://" in folder:
            message = f"`folder` must be local, because records are appended, but got: {redacted(folder)!r}"
            raise ArgumentError(message)
        if self.budget is not None:
            object.__setattr__(self, "budget", check_int("budget", self.budget, least=0))
        rate: object = self.rate
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, (int, float))):
            raise ArgumentTypeError(f"`rate` must be a number but got: {rate!r}")
        if rate is not None and not 0 <= rate <= 1:
            raise ArgumentError(f"`rate` must be between 0 and 1 but got: {rate!r}")


OnError: TypeAlias = Literal["raise", "skip"] | Quarantine
"""The policy for rows that fail."""


@dataclass(frozen=True)
class Retry:
    """A policy for rows that fail: call the function again, before `on_error` applies.

    Args:
        times: the most further calls.
        backoff: the seconds to wait before the first of them; the wait doubles each time.
        on: the errors after which the call is repeated; all others count at once.
        timeout: the seconds that a call of a coroutine function may take; then it is cancelled, with a `TimeoutError`,
            which is an `OSError`.

    Raises:
        ArgumentError: `times` is below 0, `backoff` below 0, or `timeout` not above 0.
        ArgumentTypeError: `on` is no class of errors, nor a tuple of those.

    Example:
        >>> import feedpipe as fp
        >>> answers = iter([OSError("busy"), OSError("busy"), "ready"])
        >>> def ask(row):
        ...     answer = next(answers)
        ...     if isinstance(answer, OSError):
        ...         raise answer
        ...     return answer
        >>> list(fp.from_sequence([1]).map(ask, retry=fp.Retry(3, backoff=0.001)))
        ['ready']
    """

    times: int = 3
    backoff: float = field(default=0.1, kw_only=True)
    on: type[Exception] | tuple[type[Exception], ...] = field(default=(OSError,), kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", check_int("times", self.times, least=0))
        if self.backoff != 0:
            check_seconds("backoff", self.backoff)
        if self.timeout is not None:
            check_seconds("timeout", self.timeout)
        classes: object = self.on
        listed = cast("tuple[object, ...]", classes if isinstance(classes, tuple) else (classes,))
        if not listed or not all(isinstance(cls, type) and issubclass(cls, Exception) for cls in listed):
            raise ArgumentTypeError(f"`on` must be a class of errors, or several, but got: {classes!r}")
        object.__setattr__(self, "on", listed)


def check_on_error(policy: object) -> None:
    """Check an argument `on_error`; None takes the policy of the next `on_error()` in the chain."""
    if policy is None or isinstance(policy, Quarantine) or policy in ("raise", "skip"):
        return
    raise ArgumentError(f'`on_error` must be "raise", "skip" or a `Quarantine(folder)` but got: {policy!r}')


def check_retry(retry: object) -> Retry:
    """An argument `retry` as a `Retry`; a number is its `times`."""
    return retry if isinstance(retry, Retry) else Retry(check_int("retry", retry, least=0))


def skips(policy: object) -> bool:
    """Whether a policy leaves out rows that fail."""
    return policy == "skip" or isinstance(policy, Quarantine)


def covers(error: Exception) -> bool:
    """Whether an error is one of a row, which a policy may leave out; an exceeded budget, for one, is not."""
    return not isinstance(error, FeedpipeError) or isinstance(error, (DataError, RowError, SourceError))


class SkippedRow(NamedTuple):
    """A row that was left out.

    Attributes:
        operator: the call that failed, such as `.map(parse)`.
        error: its error, in one line.
        quarantine: the policy that records it, if any.
        record: its record.
        name: the operator's name in the pipe.
        place: the rounds of the `repeat`s around it, and the position of the row in its input.
    """

    operator: str
    error: str
    quarantine: Quarantine | None = None
    record: dict[str, Json] | None = None
    name: str = ""
    place: tuple[tuple[int, ...], int] = ((), -1)


Skips: TypeAlias = tuple[SkippedRow, ...]


class Skipped:
    """One or more rows that were left out, and the element that follows them, if there is one.

    Attributes:
        exist: whether this process has any. As long as it has none, nobody looks for one.
        skips: the rows that were left out.
        value: the element.
        is_row: True if no element follows: this is the place of a row.
    """

    __slots__ = ("is_row", "skips", "value")

    exist: ClassVar[bool] = False

    def __init__(self, skips: Skips, value: object = None, is_row: bool = True) -> None:
        Skipped.exist = True
        self.skips = skips
        self.value = value
        self.is_row = is_row

    def __reduce__(self) -> tuple[object, ...]:
        return Skipped, (self.skips, self.value, self.is_row)

    def __repr__(self) -> str:
        return f"Skipped({len(self.skips)} rows)" if self.is_row else f"Skipped({len(self.skips)} rows, {self.value!r})"

    def before(self, value: object) -> Skipped:
        """These rows, and the element that follows them; `value` may be a `Skipped` itself."""
        if isinstance(value, Skipped):
            return Skipped(self.skips + value.skips, value.value, value.is_row)
        return Skipped(self.skips, value, is_row=False)
