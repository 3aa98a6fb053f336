"""`collate`: turns batches of rows into tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

from ...core.checks import check_choice
from ...core.code import value_code
from ...core.operator import StageView
from ...errors import ArgumentError, with_call_site
from ..rows._batch_map import BatchMap
from .collating import rules
from .collating.batches import collate_batch
from .collating.rules import Rules, ToTensor

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ...pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@cache
def _from_array() -> ToTensor:
    from ...torch.collate import from_array

    return from_array


def tensors(batch: object, *, nan: bool = False) -> object:
    """`batch` as tensors, by the rules of torch's `default_collate`. The first call imports torch."""
    return collate_batch(batch, Rules(_from_array(), nan))


def tensor_data(batch: object, *, nan: bool = False) -> object:
    """As `tensors`, with a `TensorData` in place of each: imports torch only for values that it alone can collate."""
    return collate_batch(batch, Rules(rules.tensor_data, nan))


@dataclass(frozen=True)
class Collate(BatchMap):
    kind: ClassVar[str] = "collate"

    function: Callable[..., object] = tensors
    nulls: Literal["error", "nan"] = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("nulls", self.nulls, ("error", "nan"))
        if self.nulls != "error" and not self._by_rules:
            raise ArgumentError(
                with_call_site(
                    f"`nulls` must be left out if `function` is given but got: {self.nulls!r}; "
                    "`function` itself decides what becomes of nulls"
                )
            )

    @property
    def _by_rules(self) -> bool:
        """Whether torch's default rules make the tensors, not a function of the user."""
        return self.function in (tensors, tensor_data)

    @property
    def row_function(self) -> Callable[..., object]:
        return partial(self.function, nan=True) if self.nulls == "nan" else self.function

    def sent(self) -> Collate:
        return replace(self, function=tensor_data) if self.function is tensors else self

    def remark(self, stage: StageView) -> None:
        return None

    def call(self) -> str:
        if not self._by_rules:
            return f"collate({value_code(self.function)})"
        return "collate()" if self.nulls == "error" else f"collate(nulls={self.nulls!r})"


@overload
def collate(
    pipe: Pipe[Sequence[Mapping[str, object]]], /, *, nulls: Literal["error", "nan"] = "error"
) -> Pipe[dict[str, torch.Tensor]]: ...
@overload
def collate(
    pipe: Pipe[Sequence[torch.Tensor]] | Pipe[Sequence[float]] | Pipe[Sequence[np.ndarray[Any, Any]]],
    /,
    *,
    nulls: Literal["error", "nan"] = "error",
) -> Pipe[torch.Tensor]: ...
@overload
def collate(
    pipe: Pipe[Sequence[tuple[object, ...]]], /, *, nulls: Literal["error", "nan"] = "error"
) -> Pipe[list[Any]]: ...
@overload
def collate(pipe: Pipe[Sequence[object]], /, *, nulls: Literal["error", "nan"] = "error") -> Pipe[Any]: ...
@overload
def collate(pipe: Pipe[T], /, function: Callable[[T], U]) -> Pipe[U]: ...
def collate(
    pipe: Pipe[Any],
    /,
    function: Callable[[Any], object] | None = None,
    *,
    nulls: Literal["error", "nan"] = "error",
) -> Pipe[Any]:
    """Turn each batch of rows into tensors, or into what `function(batch)` returns.

    Element: by the rules of torch's `default_collate`, numbers, arrays and tensors become one tensor whose first
    dimension is the batch; dicts, tuples and lists become one dict or list of tensors; text and bytes stay lists. A
    batch of table rows becomes a dict of tensors, column by column, without a dict for any row: a tensor has the dtype
    of its column, and a column of arrays, or of lists of one length, becomes a tensor of more dimensions. Tensors can
    be written to and share no memory. Order and length are the input's. Indexed if the input is. State: none.

    Args:
        function: called with each batch, a list of rows or a `feedpipe.Rows`; its errors come with file, line and row
            (`RowError`).
        nulls: "nan" turns a null among numbers into NaN, also inside lists and structs. Floats keep their dtype;
            integers and bools become float64 in the batches and fields that have a null. A null in place of a whole
            list or struct stays an error; a null among text becomes None.

    Raises:
        DataError: the rows of a batch do not fit together, or a null stands in place of a number; the error names the
            field and the row.
        ArgumentError: both `function` and `nulls="nan"` are given.

    Source: `torch.utils.data.default_collate`, which gives the same results.

    Example:
        >>> import feedpipe as fp
        >>> fp.from_sequence([{"x": 1.0, "y": "a"}, {"x": 2.0, "y": "b"}]).batch(2).collate()[0]
        {'x': tensor([1., 2.], dtype=torch.float64), 'y': ['a', 'b']}
        >>> fp.from_sequence([1, 2, 3]).batch(2).collate(sum)[0]
        3
        >>> fp.from_sequence([{"x": 1}, {"x": None}]).batch(2).collate(nulls="nan")[0]
        {'x': tensor([1., nan], dtype=torch.float64)}
    """
    return pipe.then(Collate(tensors if function is None else function, nulls=nulls))
