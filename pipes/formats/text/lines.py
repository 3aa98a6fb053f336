"""`Lines`: the options of plain text, and how it is split into lines."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, ClassVar

from ...core.code import value_code
from ...core.cursor import Json
from ...errors import ArgumentError, DataError, with_call_site
from .chunks import Chunk, ChunkReader, ParseChunk, ParsedPart, TextPlace, last_line_end, line_ends, shorten
from .encoding import REPAIR, check_encoding
from .records import FoundErrors, parse_parts


@dataclass(frozen=True)
class Lines:
    r"""The arguments of `parse_lines`. Lines end with `\n` or `\r\n`; the last may lack its end."""

    kind: ClassVar[str] = "parse_lines"

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if "\n".encode(self.encoding) != b"\n":
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
        def parse(chunk: Chunk, before: int) -> Iterator[ParsedPart]:
            return parse_parts(
                chunk,
                self._split,
                line_ends,
                partial(self._find_errors, reader),
                lambda line: self._explain(line, reader),
            )

        return TextPlace(), parse

    def as_utf8(self, stream: BinaryIO, name: str) -> BinaryIO:
        """The stream itself: lines are decoded when they are parsed."""
        return stream

    def row_lines(self, chunk: Chunk) -> list[int]:
        return list(range(chunk.at.line, chunk.end.line + (not chunk.data.endswith(b"\n"))))

    def _explain(self, line: Chunk, reader: ChunkReader) -> DataError:
        place, data = reader.describe(line.at), line.data
        try:
            data.decode(self.encoding)
            problem = "cannot be decoded"
        except UnicodeDecodeError as error:
            problem = f"byte 0x{data[error.start]:02x} is not {self.encoding}"
        return DataError(f"{place}: {problem}: {shorten(data)}; {REPAIR}")

    def _find_errors(self, reader: ChunkReader, data: bytes, ends: list[int]) -> FoundErrors:
        """The errors of all lines that are not in the encoding."""
        errors: dict[int, Callable[[Chunk], DataError]] = {}
        view = memoryview(data)
        start = 0
        while start < len(data):
            try:
                codecs.decode(view[start:], self.encoding)
                break
            except UnicodeDecodeError as error:
                number = bisect_right(ends, start + error.start)
                errors[number] = lambda line: self._explain(line, reader)
                start = ends[number]
        return FoundErrors(range(len(ends)), errors)

    def _split(self, data: bytes) -> list[object]:
        text = data.decode(self.encoding)
        rows: list[object] = []
        rows.extend(text.split("\n"))
        if text.endswith("\n") or not text:
            rows.pop()
        if "\r" in text:
            rows = [row.removesuffix("\r") for row in rows]  # type: ignore[attr-defined]
        return rows
