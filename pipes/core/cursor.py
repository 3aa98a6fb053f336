"""`Cursor`: a position in the output of an operator, from which the operator can go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | dict[str, Json] | None"
"""A plain value, as in JSON. Cursors inside a token are lists (`Cursor.plain`)."""

MAX_COUNT = 2**63 - 1
"""The largest number in a cursor."""


class Cursor(NamedTuple):
    """A position, never data.

    The law: running an operator from `block.at.advance(k)`, for any k >= 0, gives exactly the rows after the first
    k rows of that block and all that follow, also when k reaches beyond the block or the end of an input.

    Cursors are not canonical: two may differ and mean one position. Compare positions or continuations.
    """

    token: Json = None
    """The place where the operator starts, in its own terms; None is the start of its output."""
    skip: int = 0
    """The number of rows to skip from there."""
    row: int = 0
    """The number, in this operator's output, of the row that the token points at."""

    def advance(self, count: int) -> Cursor:
        """The position `count` rows further on."""
        return Cursor(self.token, self.skip + count, self.row)

    @property
    def position(self) -> int:
        """The number of the next row in the operator's output."""
        return self.row + self.skip

    @property
    def plain(self) -> list[Json]:
        """This cursor as JSON, for the token of an operator downstream or for a state."""
        return [self.token, self.skip, self.row]

    def numbered(self) -> tuple[int, Cursor]:
        """The token as a number and a cursor of an input, for operators whose tokens are such pairs."""
        if self.token is None:
            return 0, START
        number, inner = cast("tuple[int, Json]", self.token)
        return number, Cursor.of(inner)

    @staticmethod
    def of(plain: Json) -> Cursor:
        """The cursor that `plain` was made of; None gives the start."""
        if plain is None:
            return START
        values = cast("Sequence[Any]", plain)  # that of a `Step` may have a fourth
        return Cursor(values[0], values[1], values[2])


START = Cursor()


def checked_cursor(plain: Json) -> Cursor:
    """The cursor that `plain` was made of, if it has the form of one; None gives the start.

    Raises:
        TypeError, ValueError: it has another form.
    """
    if plain is None:
        return START
    token, skip, row = cast("tuple[Json, int, int]", plain)
    check_numbers(skip, row)
    return Cursor(token, skip, row)


def check_numbers(*values: Json) -> None:
    """Check that values of a token are numbers of rows or the like.

    Raises:
        ValueError: one is not a whole number >= 0.
    """
    for value in values:
        if type(value) is not int or not 0 <= value <= MAX_COUNT:
            raise ValueError(f"must be a whole number >= 0 but is: {value!r:.80}")
