"""Parquet: what the user wants of the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.cursor import Json
from ..tables.typed import Head, Typed
from .filter import check_filter, identified, needed_by

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Parquet(Typed):
    """The user's options; `fixed` once the first file has been looked at."""

    kind: ClassVar[str] = "parse_parquet"

    filter: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filter(self.filter)

    def own(self) -> list[str]:
        return [f"filter={' '.join(str(self.filter).split())}"] if self.filter is not None else []

    def identity(self) -> dict[str, Json]:
        return {**super().identity(), "filter": identified(self.filter)}

    def needed(self, first: Head, inside: Mapping[str, pa.DataType], whole: Mapping[str, pa.DataType]) -> Sequence[str]:
        return () if self.filter is None else needed_by(self.filter, inside, whole, first.name)
