"""Lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...core.cursor import Json
from ...core.rows import BlockRows
from ...errors import ArgumentError, DataError, with_call_site
from .chunks import Chunk, ChunkReader, Parse, Place, brief, whole_lines


@dataclass(frozen=True)
class Lines:
    r"""Text in lines that end with `\n` or `\r\n`; the last may lack its end."""

    kind: ClassVar[str] = "parse_lines"

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        try:
            fits = "\n".encode(self.encoding) == b"\n"
        except (LookupError, TypeError):
            raise ArgumentError(
                with_call_site(f"`encoding` must be a text encoding but got: {self.encoding!r}")
            ) from None
        if not fits:
            raise ArgumentError(
                with_call_site(
                    f"`encoding` must be one in which a newline is the byte 0x0A, such as 'utf-8' or 'latin-1', "
                    f"but got: {self.encoding!r}"
                )
            )

    @property
    def unify_schemas(self) -> bool:
        return False

    def head(self, reader: ChunkReader) -> None:
        return None

    def fix(self, heads: Iterable[None], paths: Iterable[str]) -> Lines:
        return self

    def uncut(self) -> None:
        return None

    def types(self) -> Json:
        return None

    def cut(self, data: bytes) -> int:
        return whole_lines(data)

    def begin(self, reader: ChunkReader) -> tuple[Place, Parse]:
        def parse(chunk: Chunk, before: int) -> tuple[BlockRows, DataError | None]:
            return self._parse(chunk, reader)

        return Place(), parse

    def lines(self, chunk: Chunk) -> list[int]:
        return list(range(chunk.at.line, chunk.end.line + (not chunk.data.endswith(b"\n"))))

    def _parse(self, chunk: Chunk, reader: ChunkReader) -> tuple[BlockRows, DataError | None]:
        try:
            return self._split(chunk.data), None
        except UnicodeDecodeError:
            pass
        done = 0
        for line in _lines(chunk.data):
            try:
                line.decode(self.encoding)
            except UnicodeDecodeError as error:
                said = f"{reader.where(chunk.place(done))}: byte 0x{line[error.start]:02x} is not {self.encoding}"
                repair = "`encoding=` says how the file is written"
                return self._split(chunk.data[:done]), DataError(f"{said}: {brief(line)}; {repair}")
            done += len(line)
        raise AssertionError("text that cannot be decoded as a whole has a line that cannot")

    def _split(self, data: bytes) -> list[object]:
        text = data.decode(self.encoding)
        rows: list[object] = []
        rows.extend(text.split("\n"))
        if text.endswith("\n") or not text:
            rows.pop()
        if "\r" in text:
            rows = [row.removesuffix("\r") for row in rows]  # type: ignore[attr-defined]
        return rows


def _lines(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        stop = data.find(b"\n", start) + 1 or len(data)
        yield data[start:stop]
        start = stop
