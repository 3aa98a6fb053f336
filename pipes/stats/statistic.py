"""`Statistic`: what `fit` finds out about a column, from summaries of some of its rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from ..core.column import Column

S = TypeVar("S", bound="Summary")


class Summary(ABC):
    """What is known of a column after some of its rows. It is small, and joins with summaries of other rows."""

    nbytes: int = 0
    """The memory that it takes, if that grows with the rows."""

    @classmethod
    @abstractmethod
    def merged(cls, parts: Sequence[Any]) -> Summary:
        """The summary of the rows of all parts: one or more summaries of this type.

        Raises:
            UnfitError: the parts have values of different types.
        """

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """Plain values, for other ranks and for a later run."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summary:
        """What `to_json` was called on."""


class Fitted(ABC):
    """What `fit` has found out about a column: a frozen dataclass of plain values.

    Attributes:
        kind: the name of the function of `fp.stats`.
    """

    kind: ClassVar[str]

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """The fields as JSON has them."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: Mapping[str, Any]) -> Fitted:
        """What `to_json` was called on."""


class Statistic(ABC, Generic[S]):
    """What `fit` finds out about a column: a frozen dataclass of the arguments."""

    kind: ClassVar[str]
    summary_type: ClassVar[type[Summary]]

    @abstractmethod
    def summary(self, column: Column) -> S:
        """The summary of the values of a column.

        Raises:
            UnfitError: the column is of a type that does not have this statistic.
        """

    @abstractmethod
    def result(self, summary: S) -> Fitted:
        """What is known after all rows.

        Raises:
            UnfitError: there is no value.
        """
