"""`Lines`: the options of plain text, and how it is split into lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from ...core.code import value_code
from ...core.cursor import Json
from ...core.rows import BlockRows
from ...errors import ArgumentError, DataError, with_call_site
from .chunks import Chunk, ChunkReader, ParseChunk, TextPlace, last_line_end, shorten


@dataclass(frozen=True)
class Lines:
    r"""The arguments of `parse_lines`. Lines end with `\n` or `\r\n`; the last may lack its end."""

    kind: ClassVar[str] = "parse_lines"

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        try:
            newline = "\n".encode(self.encoding)
        except (LookupError, TypeError):
            raise ArgumentError(
                with_call_site(f"`encoding` must be a text encoding but got: {self.encoding!r}")
            ) from None
        if newline != b"\n":
            raise ArgumentError(
                with_call_site(
                    f"`encoding` must be one in which a newline is the byte 0x0A, such as 'utf-8' or 'latin-1', "
                    f"but got: {self.encoding!r}"
                )
            )

    @property
    def unify_schemas(self) -> bool:
        return False

    def call(self) -> str:
        return f"{self.kind}({'' if self.encoding == 'utf-8' else f'encoding={value_code(self.encoding)}'})"

    def identity(self) -> dict[str, Json]:
        return {"call": self.call(), "types": None}

    def head(self, stream: BinaryIO, path: str) -> None:
        return None

    def fix(self, heads: Iterable[None], paths: Iterable[str]) -> Lines:
        return self

    def why_not_split(self) -> None:
        return None

    def last_record_end(self, data: bytes) -> int:
        return last_line_end(data)

    def start_reading(self, reader: ChunkReader) -> tuple[TextPlace, ParseChunk]:
        def parse(chunk: Chunk, before: int) -> tuple[BlockRows, DataError | None]:
            return self._parse(chunk, reader)

        return TextPlace(), parse

    def row_lines(self, chunk: Chunk) -> list[int]:
        return list(range(chunk.at.line, chunk.end.line + (not chunk.data.endswith(b"\n"))))

    def _parse(self, chunk: Chunk, reader: ChunkReader) -> tuple[BlockRows, DataError | None]:
        try:
            return self._split(chunk.data), None
        except UnicodeDecodeError:
            pass
        start = 0
        for line in _lines(chunk.data):
            try:
                line.decode(self.encoding)
            except UnicodeDecodeError as error:
                place = reader.describe(chunk.place(start))
                return self._split(chunk.data[:start]), DataError(
                    f"{place}: byte 0x{line[error.start]:02x} is not {self.encoding}: {shorten(line)}; "
                    "`encoding=` says how the file is written"
                )
            start += len(line)
        raise AssertionError("text that cannot be decoded has a line that cannot be decoded")

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
