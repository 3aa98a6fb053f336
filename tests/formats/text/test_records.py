"""Malformed records are the same ones, whatever is parsed with them."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ...support.examples import examples
from ...support.files import Csv, Jsonl, Lines, TextFormat
from ...support.files import csv_parser as dialect
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
    assert parsed(data, fixed, size) == parsed(data, fixed, 1)


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
    assert parsed(data, fixed, 10_000) == parsed(data, fixed, 1)


@given(st.lists(st.binary(max_size=4), max_size=25))
@settings(max_examples=examples(40), deadline=None)
def test_lines(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    assert parsed(data, Lines(), 10_000) == parsed(data, Lines(), 1)


@given(st.lists(st.text(st.sampled_from('a",\r'), max_size=6), max_size=12))
def test_quotes_that_are_not_closed_are_found_together(lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    form = dialect.Dialect(b",", b'"', (), False)
    one_by_one, start = [], 0
    while found := form.unclosed_quotes(data[start:], last=True):
        one_by_one.append((start + found[0].start, start + found[0].stop))
        start = one_by_one[-1][1]
    assert [(quote.start, quote.stop) for quote in form.unclosed_quotes(data, last=True)] == one_by_one
