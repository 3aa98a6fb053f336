"""`TableFile`: a handle on a file of a table whose log knows more of it than its path says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import MissingError, SourceError
from .file import File


@dataclass(frozen=True, repr=False)
class TableFile(File):
    """A file that a version of a table consists of. Its folders say nothing: the log has the values of their columns.

    Attributes:
        values: the values of columns that the file does not hold, as Arrow scalars.
        table: the version of the table, for errors.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    table: str = ""

    def _open_error(self, error: OSError) -> SourceError:
        if isinstance(error, FileNotFoundError):
            return MissingError(
                f"{self.name} is not there: {self.table} lists it, so a vacuum has removed it since then; read a newer "
                "version"
            )
        return super()._open_error(error)
