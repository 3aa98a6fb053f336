r"""Dialects of CSV: escapes, comments and lines before the header, against a parser of one character at a time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, DataError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ...support.files import Csv
from ..reading import fix, read_all

TEXT = st.text(st.sampled_from('ab"\\#,\n'), max_size=5)


def written(value: str, style: int) -> str:
    """A value in quotes, with escapes in quotes, or with escapes alone."""
    escaped = "".join(f"\\{c}" if c in '\\"' else c for c in value)
    if style == 0:
        return '"' + escaped.replace('\\"', '""') + '"'
    return f'"{escaped}"' if style == 1 else "".join(f"\\{c}" if c in '\\",\n#' else c for c in value)


@given(
    st.lists(
        st.tuples(TEXT, TEXT, st.integers(0, 2), st.sampled_from(["", '# not "read\n', "\n", "#,,\\\n"])), max_size=12
    ),
    st.integers(0, 3),
    st.sampled_from([1, 20, 10_000]),
)
@settings(max_examples=examples(150), deadline=None)
def test_values_come_out_as_they_were_written(rows: list[tuple[str, str, int, str]], skipped: int, size: int) -> None:
    form = Csv(escape="\\", comment="#", skip_rows=skipped, schema={"x": "string", "y": "string"}, columns=["x", "y"])
    head = "".join(f'line "{k}, \\\n' for k in range(skipped)) + "# of the columns\nx,y\n"
    text = head + "".join(f"{before}{written(x, style)},{written(y, style)}\n" for x, y, style, before in rows)
    fixed = fix(form, [text.encode()], "csv")
    got, lines, error = read_all(text.encode(), fixed, size, "a")
    assert error is None
    assert [(row["x"], row["y"]) for row in got] == [(x, y) for x, y, _, _ in rows]
    begins = [f"{before}{written(x, style)},{written(y, style)}\n" for x, y, style, before in rows]
    ends = itertools.accumulate((text.count("\n") for text in begins), initial=head.count("\n") + 1)
    assert lines == [at + before.count("\n") for at, (*_, before) in zip(ends, rows, strict=False)]


@given(
    st.lists(st.sampled_from(["1,a\n", "2,a\\,b\n", '3,"a\\"b"\n', "#c\n", "4,a\\\n", "5\n", '6,"a\n']), max_size=40)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(20), deadline=None)
def test_law_of_ranges(tmp_path, lines):
    path = tmp_path / "a.csv"
    path.write_text("before, the header\n\nn,s\n" + "".join(lines))
    options = {"newlines_in_values": False, "escape": "\\", "comment": "#", "skip_rows": 2}
    pipe = fp.read_csv(path, schema={"n": "int64", "s": "string"}, on_error="skip", **options)
    expected = {"1,a\n": "a", "2,a\\,b\n": "a,b", '3,"a\\"b"\n': 'a"b'}
    got = check_operator(pipe, samples=2)
    assert [row["s"] for row in got] == [expected[line] for line in lines if line in expected]


def test_errors_name_the_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("# made by\nreport 3\nx,y\n# first\n1,a\n2,b,c\n3,d\\\n")
    pipe = fp.read_csv(path, comment="#", skip_rows=2, escape="\\", newlines_in_values=False)
    with pytest.raises(DataError, match=r"line 6: 3 values for 2 columns"):
        list(pipe)
    path.write_text("x,y\n1,a\n3,d\\\n")
    with pytest.raises(DataError, match=r"line 3: its line break is escaped, and `newlines_in_values=True` reads"):
        list(fp.read_csv(path, escape="\\", newlines_in_values=False))
    assert list(fp.read_csv(path, skip_rows=9, header=False, column_names=["x"])) == []
    with pytest.raises(DataError, match="is empty: it has no line with the names"):
        list(fp.read_csv(path, skip_rows=9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"escape": ","}, "`delimiter` and `escape` must differ but got: ',' for both"),
        ({"comment": '"'}, "`quote` and `comment` must differ"),
        ({"escape": "ab"}, "`escape` must be one ASCII character"),
        ({"skip_rows": -1}, "`skip_rows` must be >= 0 but got: -1"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ArgumentError, match=message):
        fp.read_csv("a.csv", **options)


@pytest.mark.parametrize("last", ['9,"z"', '9,"z","k"', "9,k"])
@pytest.mark.parametrize("lines", [20, 40_000])  # of one chunk, and of several
def test_a_quote_that_swallows_lines_up_to_another_one_is_named(last: str, lines: int, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [*(f"{n},x" for n in range(lines)), f'{lines},"open', *(f"{n},y" for n in range(30)), last, "10,end"]
    path.write_text("\n".join(["a,b", *rows, ""]))
    taken: list[Any] = []
    with pytest.raises(
        fp.DataError, match=rf"a.csv, line {lines + 2}: a quote is opened in the record that begins here"
    ):
        taken.extend(fp.read_csv(path))
    assert len(taken) == lines
    path.write_text("\n".join(["a,b", *rows[:lines], '7,"of\ntwo ""lines"""', '8,5" nails', ""]))
    assert [row["a"] for row in fp.read_csv(path)] == [*range(lines), 7, 8]
