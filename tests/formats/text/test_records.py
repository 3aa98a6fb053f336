"""Malformed records are found together, and as if they were found by halving."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ...support.examples import examples
from ...support.files import Csv, Jsonl, Lines, TextFormat, jsonl
from ...support.files import csv_parser as dialect
from ...support.files import csv_parser as faults
from ...support.formats import text as records
from ..reading import Always, fix, open_reader

VALUES = st.sampled_from(["1", "-20", " 3", "1.5", "300", "", "NA", "x", "é", '"7"', '"a,b"', '"c\nd"', '5"', '"open'])
RECORDS = st.lists(VALUES, min_size=1, max_size=3).map(",".join)
SCHEMA = {"a": "int64", "b": "int8", "c": "string"}


def parsed(data: bytes, form: TextFormat, size: int) -> list[object]:
    """The rows, and the errors in place of malformed records; the error that ends them, if one does."""
    reader = open_reader(data, form, "a")
    start, parse = form.start_reading(reader)
    outcome: list[object] = []
    try:
        for chunk in reader.chunks(start, Always(size)):
            for part in parse(chunk, 0):
                outcome.extend(part.rows if part.error is None else [(part.chunk.at, str(part.error))])
                assert len(part.rows) == (len(form.row_lines(part.chunk)) if part.error is None else 0)
    except ValueError as error:
        outcome.append(str(error))
    return outcome


def by_halving(data: bytes, form: TextFormat, size: int) -> list[object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_parse_around", lambda *arguments: None)
        return parsed(data, form, size)


@given(
    st.lists(RECORDS | st.just(""), max_size=25),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([{"a": "int64", "b": "int8", "c": "string"}, {"a": "float64", "c": "date32"}, {"b": "string"}]),
    st.booleans(),
    st.sampled_from([None, '"']),
    st.sampled_from(["utf-8", "latin-1"]),
    st.sampled_from([40, 10_000]),
)
@settings(max_examples=examples(60), deadline=None)
def test_csv(
    lines: list[str], end: str, schema: dict[str, str], newlines: bool, quote: str | None, encoding: str, size: int
) -> None:
    form = Csv(
        column_names=["a", "b", "c"],
        schema={**dict.fromkeys("abc", "string"), **schema},
        columns=list(schema),
        quote=quote,
        newlines_in_values=newlines,
    )
    data = "".join(line + end for line in lines).encode(encoding)
    fixed = fix(form, [b"1,1,1\n"], "csv")
    assert parsed(data, fixed, size) == by_halving(data, fixed, size)


FIELDS = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from([1, -3, 1.5, 300, "x", "é", None, [1], {"z": 1}]), max_size=3
)
JSON_LINES = FIELDS.map(json.dumps) | st.sampled_from(["", "  ", "junk", "[1]", '{"a": 1', "{}}", '{"a": 1, "a": 2}'])


@given(st.lists(JSON_LINES, max_size=25), st.booleans(), st.sampled_from(["utf-8", "utf-16-le"]))
@settings(max_examples=examples(60), deadline=None)
def test_jsonl(lines: list[str], selects: bool, encoding: str) -> None:
    form = Jsonl(schema={"a": "int64", "b": "int8", "c": "string"}, columns=["a", "b"] if selects else None)
    data = b"\n".join(line.encode(encoding if k % 5 == 3 else "utf-8") for k, line in enumerate(lines))
    fixed = fix(form, [b'{"a": 1, "b": 1, "c": "x"}\n'], "jsonl")
    assert parsed(data, fixed, 10_000) == by_halving(data, fixed, 10_000)


@given(st.lists(st.binary(max_size=4), max_size=25))
@settings(max_examples=examples(40), deadline=None)
def test_lines(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    assert parsed(data, Lines(), 10_000) == by_halving(data, Lines(), 10_000)


@given(st.lists(st.text(st.sampled_from('a",\r'), max_size=6), max_size=12))
def test_quotes_that_are_not_closed_are_found_together(lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    form = dialect.Dialect(b",", b'"', (), False)
    one_by_one, start = [], 0
    while found := form.unclosed_quotes(data[start:], last=True):
        one_by_one.append((start + found[0].start, start + found[0].stop))
        start = one_by_one[-1][1]
    assert [(quote.start, quote.stop) for quote in form.unclosed_quotes(data, last=True)] == one_by_one


def count_questions(
    monkeypatch: pytest.MonkeyPatch, name: str, modules: list[ModuleType], form: TextFormat, lines: list[str]
) -> int:
    """How often the function `name` of these modules asks Arrow about 2,000 lines, of which 40 are malformed."""
    asked = 0
    read = getattr(modules[0], name)

    def counting(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return read(*arguments)

    for module in modules:
        monkeypatch.setattr(module, name, counting)
    outcome = parsed("".join(lines).encode("latin-1"), form, 10**6)
    assert len(outcome) == 2000
    assert sum(isinstance(row, tuple) for row in outcome) == 40
    return asked


def test_arrow_is_asked_few_times_about_json(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f'{{"a": {x}, "b": {x % 100}, "c": "text"}}\n' for x in range(2000)]
    for x in range(0, 2000, 50):
        lines[x] = '{"a": 1, "b\n' if x % 100 else f'{{"a": "many", "b": {x % 100}}}\n'
    form = fix(Jsonl(schema=SCHEMA), [b'{"a": 1, "b": 1, "c": "x"}\n'], "jsonl")
    asked = count_questions(monkeypatch, "_read_lines", [jsonl], form, lines)
    # One for a line that is no JSON, three for a value that does not fit; halving asks 500 times.
    assert asked < 3 * 40


def test_arrow_is_asked_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{x},{x % 100},text {x}\n" for x in range(2000)]
    for x in range(0, 2000, 50):
        lines[x] = "1,2\n" if x % 100 else f"{x},many,text\n"
    form = fix(Csv(column_names=["a", "b", "c"], schema=SCHEMA), [b"1,1,1\n"], "csv")
    asked = count_questions(monkeypatch, "read_records", [dialect, faults], form, lines)
    assert asked < 40  # 20 values that do not fit, and a few times all records; halving asks 500 times


def test_arrow_is_not_asked_about_bytes_that_are_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{x},{x % 100},{'no text ' + chr(255) if x % 50 == 0 else x}\n" for x in range(2000)]
    form = fix(Csv(column_names=["a", "b", "c"], schema=SCHEMA), [b"1,1,1\n"], "csv")
    assert count_questions(monkeypatch, "read_records", [dialect, faults], form, lines) < 10
