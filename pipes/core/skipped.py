"""`Skipped`: a row that failed and was left out by a policy, in the place of that row, or beside a group of others.

A skipped row keeps its place as a `Skipped` without a value. So positions, cursors and keys of draws stay what they
are, until an operator regroups the rows: its groups have no such row, and a group is a `Skipped` with a value if rows
before it, or in it, were left out. The consumer takes the elements out, and counts.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, TypeAlias

from .cursor import Json
from .policy import Quarantine


class SkippedRow(NamedTuple):
    """A row that was left out.

    Attributes:
        operator: the call that failed, such as `.map(parse)`.
        error: its error in a line.
        quarantine: where it is recorded, if anywhere.
        record: what is recorded.
        name: the operator's name in the pipe.
    """

    operator: str
    error: str
    quarantine: Quarantine | None = None
    record: dict[str, Json] | None = None
    name: str = ""


Skips: TypeAlias = tuple[SkippedRow, ...]


class Skipped:
    """One or more rows that were left out, and the element that follows them, if there is one.

    Attributes:
        exist: whether this process has any. As long as it has none, nobody looks for one.
        skips: the rows that were left out.
        value: the element.
        is_row: whether it stands in the place of a row, and has no element.
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
