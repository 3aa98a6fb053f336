"""`SavedRun`: what a database keeps of a run of `write_sql`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..errors import StateError

if TYPE_CHECKING:
    import pyarrow as pa


class SavedRun(NamedTuple):
    """Where a run stands, for another run of the same pipe.

    Attributes:
        loader: the state of its loader.
        chunk: how many rows the loader gives at a time.
        schema: names and types of the rows.
    """

    loader: Mapping[str, object]
    chunk: int
    schema: pa.Schema

    def text(self) -> str:
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        return json.dumps([self.loader, self.chunk, schema], separators=(",", ":"))

    @staticmethod
    def of_text(text: str) -> SavedRun:
        """The run that `text` was made of.

        Raises:
            StateError: it is no such text.
        """
        import pyarrow as pa

        try:
            loader, chunk, schema = json.loads(text)
            return SavedRun(loader, chunk, pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))))
        except (ValueError, TypeError, OSError, pa.ArrowException) as error:
            raise StateError("the saved progress is damaged") from error
