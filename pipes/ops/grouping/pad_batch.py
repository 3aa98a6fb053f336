"""`pad_batch`: batches whose lists or arrays are equally long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.checks import check_int
from ...core.code import value_code
from ...core.operator import StageView
from ...errors import ArgumentError, ArgumentTypeError, with_call_site
from ..rows._batch_map import BatchMap
from ._fill import check_fill
from ._padding import Padding

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class PadBatch(BatchMap):
    kind: ClassVar[str] = "pad_batch"

    function: Callable[..., object] = Padding.batch
    value: float = 0
    names: tuple[str, ...] | None = None  # the `columns`, which are a declaration here
    to: int | None = None
    multiple_of: int | None = None
    lengths: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fill("value", self.value)
        for name in ("to", "multiple_of"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_int(name, getattr(self, name), least=1))
        if self.to is not None and self.multiple_of is not None:
            raise ArgumentError(
                with_call_site(
                    "`multiple_of` must be left out if `to` is given, which alone says how long the rows become"
                )
            )
        if self.lengths is not None and not isinstance(self.lengths, str):
            raise ArgumentTypeError(with_call_site(f"`lengths` must be a name but got: {self.lengths!r}"))

    @property
    def row_function(self) -> Callable[..., object]:
        return Padding(self.value, self.names, self.to, self.multiple_of, self.lengths).batch

    def remark(self, stage: StageView) -> None:
        return None

    def call(self) -> str:
        values = {
            "columns": None if self.names is None else list(self.names),
            "to": self.to,
            "multiple_of": self.multiple_of,
            "lengths": self.lengths,
        }
        arguments = [f"{name}={value_code(value)}" for name, value in values.items() if value is not None]
        return f"pad_batch({', '.join([*([value_code(self.value)] if self.value else []), *arguments])})"


def pad_batch(
    pipe: Pipe[Sequence[T]],
    /,
    value: float = 0,
    *,
    columns: Sequence[str] | None = None,
    to: int | None = None,
    multiple_of: int | None = None,
    lengths: str | None = None,
) -> Pipe[Sequence[T]]:
    """Make the lists or arrays in each batch equally long, so that `collate` can make tensors of them.

        [a a a] [b] [c c]   ->   [a a a] [b - -] [c c -]

    Element: the batch with arrays in place of its lists; a batch of a table stays columns, and each padded column
    becomes one array. Rows may be dicts, rows of a table, tuples, lists or arrays. Tensors become arrays. Order and
    length are the input's. Indexed if the input is. State: none.

    Args:
        value: stands for the missing items.
        columns: the names of the columns to pad; None pads all lists of numbers and all one-dimensional arrays. Arrays
            of more dimensions are padded along the first of them if they are named, or if they are rows.
        to: the length of all rows; by default that of the longest row of the batch.
        multiple_of: rounds the length up to a multiple.
        lengths: the name of a new column with the lengths before padding.

    Raises:
        DataError: a row is longer than `to`, items are lists of different lengths, or the dtype of a column cannot hold
            `value`.
        ArgumentError: `to` or `multiple_of` is below 1, or both are given.

    Example:
        >>> import feedpipe as fp
        >>> batches = fp.from_sequence([{"x": [1, 2, 3]}, {"x": [4]}]).batch(2).pad_batch(-1, lengths="n")
        >>> batches.collate()[0]
        {'x': tensor([[ 1,  2,  3],
                [ 4, -1, -1]]), 'n': tensor([3, 1])}
    """
    if isinstance(columns, str) or (columns is not None and not all(isinstance(name, str) for name in columns)):
        raise ArgumentTypeError(with_call_site(f"`columns` must be a list of names but got: {columns!r}"))
    names = None if columns is None else tuple(columns)
    return pipe.then(PadBatch(value=value, names=names, to=to, multiple_of=multiple_of, lengths=lengths))
