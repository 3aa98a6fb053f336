from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.errors import DataError

from ..support.files import MAX_DEPTH, Jsonl
from .reading import fix, read_all


def read(
    data: bytes, form: Jsonl | None = None, size: int = 64, *, first: bytes | None = None
) -> tuple[list[Any], list[int], DataError | None]:
    return read_all(data, fix(form or Jsonl(), [data if first is None else first], "jsonl"), size, "a.jsonl")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
OBJECTS = st.fixed_dictionaries(
    {
        "i": st.integers(-(2**63), 2**63 - 1) | st.none(),
        "f": st.floats(allow_nan=False, allow_infinity=False) | st.none(),
        "s": TEXT | st.none(),
        "l": st.lists(st.integers(0, 9), max_size=3) | st.none(),
        "d": st.fixed_dictionaries({"x": st.booleans() | st.none(), "y": TEXT}) | st.none(),
    }
)
SCHEMA = {
    "i": pa.int64(),
    "f": pa.float64(),
    "s": pa.string(),
    "l": pa.list_(pa.int64()),
    "d": pa.struct([("x", pa.bool_()), ("y", pa.string())]),
}


@given(
    st.lists(OBJECTS, max_size=8), st.integers(1, 200), st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n", " \n"])
)
def test_reads_what_python_writes(objects: list[dict[str, Any]], size: int, escaped: bool, end: str) -> None:
    data = "".join(json.dumps(item, ensure_ascii=escaped) + end for item in objects).encode()
    rows, lines, error = read(data, Jsonl(schema=SCHEMA), size)
    assert error is None
    assert rows == objects
    step = end.count("\n")
    assert lines == [1 + i * step for i in range(len(objects))]


@given(st.data(), st.integers(1, 200))
def test_a_mutated_file_gives_rows_or_an_error(data: st.DataObject, size: int) -> None:
    good = b"".join(
        json.dumps({"i": i, "s": f"é{i}", "d": {"x": [i]}}, ensure_ascii=False).encode() + b"\n" for i in range(6)
    )
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + data.draw(st.binary(max_size=3)) + good[at + data.draw(st.integers(0, 3)) :]
    rows, lines, error = read(bad, size=size, first=good)
    assert len(rows) == len(lines)
    assert all(set(row) == {"i", "s", "d"} for row in rows)
    assert error is None or "a.jsonl, line" in str(error)


@given(st.binary(max_size=60), st.integers(1, 70))
def test_any_bytes_give_rows_or_an_error(data: bytes, size: int) -> None:
    _, _, error = read(data, Jsonl(schema={"a": "int64"}), size, first=b'{"a": 1}\n')
    assert error is None or "a.jsonl, line" in str(error)


class TestTypes:
    def test_a_field_that_is_not_there(self) -> None:
        with pytest.raises(
            DataError, match=r"first-0\.jsonl have no field 'aa', which `columns` names; did you mean 'a'"
        ):
            read(b'{"a": 1}\n', Jsonl(columns=["aa"]))

    @pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\n", b"\xef\xbb\xbf"])
    def test_an_empty_file_has_no_rows(self, data: bytes) -> None:
        assert read(data) == ([], [], None)
        assert read(data, first=b'{"a": 1}\n') == ([], [], None)


class TestMalformed:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b'{"a": 2', "line 3: this is not JSON: Expecting ',' delimiter at character 9"),
            (b"garbage", "line 3: this is not JSON: Expecting value at character 1: 'garbage'"),
            (b"[1]", "line 3: each line must hold an object but this one holds: '[1]'"),
            (b'{"a": "x"}', "line 3, field 'a': '\"x\"' is not int64"),
            (b'{"a": 1.5}', "line 3, field 'a': '1.5' is not int64"),
            (b'{"a": 1, "z": 2}', "line 3: there is a field 'z', and the first lines of first-0.jsonl have none"),
            (b'{"a": 1}{"a": 2}', "line 3: this is not JSON: Extra data at character 9"),
            (b'{"b": "\xff"}', "line 3: byte 0xff is not UTF-8"),
            (b'{"a": 1, "a": 2}', "line 3, field 'a': it comes twice"),
            (b"{" * 5000, "line 3: "),
            (b"[" * 100_000, "line 3: "),
            (b'{"a": 1' + b"0" * 5000 + b"}", "line 3: "),
        ],
    )
    @pytest.mark.parametrize("size", [1, 1000])
    def test_rows_before_come_first(self, line: bytes, message: str, size: int) -> None:
        data = b'{"a": 1, "b": "x"}\n\n' + line + b'\n{"a": 3}\n'
        rows, lines, error = read(data, size=size, first=b'{"a": 1, "b": "x"}\n')
        assert rows == [{"a": 1, "b": "x"}]
        assert lines == [1]
        assert error is not None
        assert str(error).startswith("a.jsonl, " + message)

    def test_a_name_that_is_not_utf8(self) -> None:
        rows, _, error = read(b'{"a": 1}\n{"\xff": 1}\n', size=1000)
        assert rows == [{"a": 1}]
        assert str(error).startswith("a.jsonl, line 2: byte 0xff is not UTF-8")


def nested(depth: int, kind: str = "[") -> str:
    """An object with lists or objects nested to `depth`."""
    begin, end = ("[", "]") if kind == "[" else ('{"a":', "}")
    return '{"x":' + begin * (depth - 1) + "1" + end * (depth - 1) + "}"


@pytest.mark.parametrize("kind", ["[", "{"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000, 100_000])
def test_a_line_that_is_nested_too_deeply_is_an_error(depth: int, kind: str) -> None:
    deep = nested(depth, kind).encode()
    for form in (
        Jsonl(),
        Jsonl(columns=["y"]),
        Jsonl(schema={"x": "int64"}),
        Jsonl(schema={"x": "int64"}, unify_schemas=True),
    ):
        rows, _, error = read(b'{"y": 1, "x": 2}\n' + deep + b"\n", form)
        assert [row["y"] for row in rows] == [1]
        assert str(error).startswith(
            f'a.jsonl, line 2: objects and lists are nested more than {MAX_DEPTH} deep: \'{{"x"'
        )
    rows, _, error = read(b"\n" * 2 * depth + deep + b"\n", first=b'{"x": 1}\n')
    assert not rows and "nested more than" in str(error)
    rows, _, error = read(deep + b'\n{"x": 1}\n')
    assert not rows and "a.jsonl, line 1: objects and lists are nested" in str(error)
    rows, _, error = read(b'{"x": 1}\n' + deep[: depth // 2] + b"\n")
    assert rows == [{"x": 1}] and error is not None
