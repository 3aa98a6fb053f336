"""Files that are opened before their turn."""

from __future__ import annotations

from functools import partial
from typing import BinaryIO

from ..storage.fetch import Task
from ..storage.file import WHOLE, File


class Opened(Task[BinaryIO]):
    """Opens a file; what `part` of it will be read is then on its way, as far as the budget has room."""

    def __init__(self, file: File, part: range | None = WHOLE) -> None:
        super().__init__(partial(file.stream, part=part))
        self.file = file
