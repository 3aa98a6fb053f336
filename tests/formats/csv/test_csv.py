from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError

from ...support.files import Csv
from ..reading import fix, read_all

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NASTY = st.text(st.sampled_from('a",\n\r é"'), max_size=8)


def read(
    data: bytes, form: Csv | None = None, size: int = 64, *, first: Sequence[bytes] = ()
) -> tuple[list[Any], list[int], DataError | None]:
    """The rows, their lines, and the error that ended them, if one did."""
    return read_all(data, fix(form or Csv(), [*first, data], "csv"), size, "a.csv")


def to_csv(table: Sequence[Sequence[str]], **options: Any) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(table)
    return text.getvalue().encode()


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.lists(TEXT | NASTY, min_size=width, max_size=width), min_size=1, max_size=12))


class TestRoundTrip:
    @given(
        tables(),
        st.integers(1, 80),
        st.sampled_from([",", ";", "\t"]),
        st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        st.sampled_from(["\n", "\r\n"]),
    )
    @example([['"', "\n"], ["a\r\nb", '""']], 1, ",", csv.QUOTE_MINIMAL, "\n")
    def test_reads_what_python_writes(
        self, table: list[list[str]], size: int, delimiter: str, quoting: int, end: str
    ) -> None:
        if any("\r" in value for row in table for value in row):
            quoting = csv.QUOTE_ALL  # before 3.13, Python writes a lone \r without quotes
        data = to_csv(table, delimiter=delimiter, quoting=quoting, lineterminator=end)
        if data.startswith(b"\xef\xbb\xbf"):  # a byte order mark is not part of the text
            return
        names = [f"c{i}" for i in range(len(table[0]))]
        form = Csv(schema=dict.fromkeys(names, "string"), column_names=names, delimiter=delimiter)
        # An empty line is no row: for a row of one empty value, csv writes `""`.
        rows, lines, error = read(data, form, size)
        assert error is None
        assert [list(row.values()) for row in rows] == table
        assert lines == [1 + sum(_count_breaks(row) for row in table[:i]) + i for i in range(len(table))]

    @given(tables(), st.integers(1, 80))
    def test_chunks_may_end_at_any_byte(self, table: list[list[str]], size: int) -> None:
        # This is also text that no writer makes: quotes inside fields, and line breaks of all kinds.
        data = "\n".join(",".join(row) for row in table).encode()
        names = [f"c{i}" for i in range(len(table[0]))]
        form = Csv(schema=dict.fromkeys(names, "string"), column_names=names)
        assert _with_message(read(data, form, size)) == _with_message(read(data, form, 10_000))


def _count_breaks(row: list[str]) -> int:
    return sum(value.count("\n") for value in row)


def _with_message(outcome: tuple[list[Any], list[int], DataError | None]) -> tuple[list[Any], list[int], str]:
    """What `read` gives, with the text of the error in place of it."""
    return outcome[0], outcome[1], str(outcome[2])


class TestAnyBytes:
    @given(st.binary(max_size=80), st.integers(1, 90))
    def test_give_rows_or_an_error(self, data: bytes, size: int) -> None:
        form = Csv(schema={"a": "int64"}, column_names=["a", "b"])
        outcome = read(data, form, size, first=[b"1,x\n"])
        assert _with_message(outcome) == _with_message(read(data, form, 1000, first=[b"1,x\n"]))

    @given(st.data(), st.integers(1, 200))
    def test_a_mutated_file_gives_rows_or_an_error(self, data: st.DataObject, size: int) -> None:
        good = to_csv([["id", "text", "x"], *([str(i), f'a "{i}",\nb', f"{i}.5"] for i in range(8))])
        at = data.draw(st.integers(0, len(good) - 1))
        change = data.draw(st.binary(max_size=3))
        bad = good[:at] + change + good[at + data.draw(st.integers(0, 3)) :]
        form = Csv()
        try:
            rows, lines, error = read(bad, form, size)
        except DataError as header_error:
            assert str(header_error).startswith(("a.csv", "first-0.csv"))
        else:
            assert len(rows) == len(lines)
            assert error is None or "a.csv, line" in str(error)


class TestTypes:
    def test_come_from_the_first_file_that_has_rows(self) -> None:
        rows, _, _ = read(b"a,b\n3,x\n", first=[b"a,b\n"])
        assert rows == [{"a": 3, "b": "x"}]

    def test_missing_values(self) -> None:
        assert read(b"a,b\n,x\nNA,\n1,NA\n")[0] == [
            {"a": None, "b": "x"}, {"a": None, "b": ""}, {"a": 1, "b": "NA"},
        ]  # fmt: skip
        assert read(b"a\n1\n-\n", Csv(null_values=["-"]))[0] == [{"a": 1}, {"a": None}]


class TestHeader:
    def test_quoted_names_and_a_byte_order_mark(self) -> None:
        data = b'\xef\xbb\xbf\r\n"a\nb","c,""d"""\r\n1,2\r\n'
        rows, lines, _ = read(data)
        assert rows == [{"a\nb": 1, 'c,"d"': 2}]
        assert lines == [4]

    @pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf"])
    def test_an_empty_file_has_none(self, data: bytes) -> None:
        with pytest.raises(DataError, match=r"first-0\.csv is empty: .*header=False"):
            read(data)

    def test_two_columns_of_one_name(self) -> None:
        with pytest.raises(DataError, match=r"line 1: two columns have the name 'a'; `column_names="):
            read(b"a,b,a\n1,2,3\n")

    @pytest.mark.parametrize(
        ("data", "options", "message"),
        [
            (b"a\n1\n", {}, r"a\.csv has no column 'b', and first-0\.csv has one; it has 'a'"),
            (b"a,b,c\n1,2,3\n", {}, r"a\.csv has a column 'c', and first-0\.csv has none; `columns=`"),
            (
                b"a,b\n",
                {"columns": ["aa"]},
                r"first-0\.csv has no column 'aa', which `columns` names; there are 'a', 'b'; did you mean 'a'",
            ),
            (b"a,b\n", {"schema": {"z": "int8"}}, r"first-0\.csv has no column 'z', which `schema` names"),
        ],
    )
    def test_other_columns(self, data: bytes, options: dict[str, Any], message: str) -> None:
        with pytest.raises(DataError, match=message):
            read(data, Csv(**options), first=[b"a,b\n1,2\n"])


class TestMalformed:
    @pytest.mark.parametrize(
        ("data", "count", "message"),
        [
            (b"a,b\n1,2\n3\n4,5\n", 1, "a.csv, line 3: 1 value for 2 columns: '3'"),
            (b'a,b\n1,"x\ny"\n3,4,5\n', 1, "a.csv, line 4: 3 values for 2 columns: '3,4,5'"),
            (b"a,b\n1,2\n3,4\n\n5,x\n", 2, "a.csv, line 5, column 'b': 'x' is not int64"),
            (b"a,b\n1,2\n3,4.5\n", 1, "`schema={'b': 'float64'}`"),
            (b'a,b\n1,2\n3,"4\n5,6\n', 1, "a.csv, line 3: a quote is opened"),
            (b"a,b\n1,2\n3,\xff\n", 1, "a.csv, line 3, column 'b': '\\\\xff' is not int64"),
        ],
    )
    @pytest.mark.parametrize("size", [1, 10, 1000])
    def test_rows_before_come_first(self, data: bytes, count: int, message: str, size: int) -> None:
        rows, lines, error = (
            read(data, size=size, first=[b"a,b\n1,2\n"]) if b'"x' not in data else read(data, size=size)
        )
        assert (len(rows), len(lines)) == (count, count)
        assert message in str(error)

    @pytest.mark.parametrize(
        ("kind", "value", "repair"),
        [
            ("int8", "300", "'int64'"),
            ("int64", "1e3", "'float64'"),
            ("int8", "1.5", "'float64'"),
            ("float32", "x", "'string'"),
        ],
    )
    def test_a_type_that_fits_is_named(self, kind: str, value: str, repair: str) -> None:
        _, _, error = read(f"a\n{value}\n".encode(), Csv(schema={"a": kind}))
        assert f"`schema={{'a': {repair}}}`" in str(error)

    def test_text_that_is_not_utf8(self) -> None:
        rows, _, error = read(b"a\nok\ncaf\xe9\n")
        assert rows == [{"a": "ok"}]
        assert "a.csv, line 3, column 'a': 'caf\\\\xe9' is not UTF-8; `encoding=` says how the file is" in str(error)
        assert "`schema={'a': 'binary'}` takes the bytes as they are" in str(error)
        assert read(b"a\ncaf\xe9\n", Csv(schema={"a": "binary"}))[0] == [{"a": b"caf\xe9"}]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"delimiter": ""}, ArgumentError, "`delimiter` must be one ASCII character"),
        ({"delimiter": "\n"}, ArgumentError, "`delimiter` must be one ASCII character and no line break"),
        ({"delimiter": 1}, ArgumentTypeError, "`delimiter` must be one character but got: 1"),
        ({"quote": ","}, ArgumentError, "`delimiter` and `quote` must differ"),
        ({"columns": "abc"}, ArgumentTypeError, "`columns` must be a list of names but got: 'abc'"),
        ({"columns": []}, ArgumentError, "`columns` must name at least one column"),
        ({"columns": ["a", "a"]}, ArgumentError, "`columns` must name each column once but got 'a' twice"),
        ({"schema": {"a": "int6"}}, ArgumentError, "did you mean 'int64'"),
        ({"schema": {"a": int}}, ArgumentError, "must give column 'a' a type of Arrow"),
        ({"schema": ["a"]}, ArgumentTypeError, "`schema` must map names to types"),
        ({"null_values": "NA"}, ArgumentTypeError, "`null_values` must be a list of strings"),
        ({"header": "yes"}, ArgumentTypeError, "`header` must be True, False or None"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Csv(**options)
