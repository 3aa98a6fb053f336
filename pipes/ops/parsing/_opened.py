"""Files that are opened before their turn."""

from __future__ import annotations

from functools import partial

from ...storage.file import WHOLE, File, Stream
from ...storage.tasks import Task


class Opened(Task[Stream]):
    """Opens a file; what `part` of it will be read is then on its way, as soon as the budget has room."""

    def __init__(self, file: File, part: range | None = WHOLE, compression: str | None = "infer") -> None:
        super().__init__(partial(file.stream, compression, part))
        self.file = file

    def start(self) -> None:
        stream = self.finished
        if stream is None:
            super().start()
        elif stream.remote is not None:
            stream.remote.begin()
