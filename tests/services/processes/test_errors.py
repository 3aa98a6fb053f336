"""Errors of users' functions arrive as they were raised, with all that helps to find the cause."""

from __future__ import annotations

import threading
import traceback

import pytest

import feedpipe as fp
from feedpipe.errors import LoaderError, RowError

BAD = 23


def numbers(count=60):
    return fp.from_sequence(range(count))


def raising(error):
    def function(row):
        if int(row) == BAD:
            raise error(row)
        return int(row)

    return function


def failed(pipe, kind=RowError, **options):
    """The rows before the error, and the error."""
    got = []
    with fp.Loader(pipe, **{"workers": 2, **options}) as loader, pytest.raises(kind) as caught:
        got.extend(loader)
    return got, caught.value


class OddError(Exception):
    """Its `args` are not the arguments of its `__init__`."""

    def __init__(self, row, *, unit="rows"):
        super().__init__(f"{row} {unit}")
        self.row = row


class NeedsError(Exception):
    def __init__(self, one, other):
        self.both = one, other


class HoldsError(Exception):
    def __init__(self, row):
        super().__init__(row)
        self.lock = threading.Lock()


class StubbornError(Exception):
    def __reduce__(self):
        raise TypeError("not me")


class MuteError(Exception):
    def __str__(self):
        return ""


class LocalError(ValueError):
    pass


MADE = {
    "ValueError": (ValueError, ValueError),
    "KeyError": (KeyError, KeyError),
    "keyword only": (lambda row: OddError(row, unit="lines"), OddError),
    "two arguments": (lambda row: NeedsError(row, row), NeedsError),
    "attribute": (HoldsError, HoldsError),
    "refuses": (StubbornError, StubbornError),
    "says nothing": (MuteError, MuteError),
    "subclass": (LocalError, LocalError),
    "UnicodeDecodeError": (lambda row: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), UnicodeDecodeError),
    "EOFError": (EOFError, EOFError),
    "OSError": (lambda row: OSError(5, "disk", "file"), OSError),
    "ConnectionResetError": (ConnectionResetError, ConnectionResetError),
    "BrokenPipeError": (BrokenPipeError, BrokenPipeError),
    "MemoryError": (MemoryError, MemoryError),
    "RecursionError": (RecursionError, RecursionError),
    "StopIteration": (StopIteration, RuntimeError),
    "AssertionError": (AssertionError, AssertionError),
}


@pytest.mark.parametrize("name", MADE)
def test_the_cause_keeps_its_type(name):
    make, kind = MADE[name]
    got, error = failed(numbers().map(raising(make)))
    assert got == list(range(BAD))
    assert type(error.__cause__) is kind
    assert kind.__name__ in str(error) and f"from_sequence, row {BAD + 1}" in str(error)


def test_causes_of_causes():
    def function(row):
        try:
            return 1 // (row - BAD)
        except ZeroDivisionError as error:
            raise OddError(row) from error

    cause = failed(numbers().map(function))[1].__cause__
    assert [type(cause), type(cause.__cause__)] == [OddError, ZeroDivisionError]


def test_operator_line_file_and_row(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("".join(f"{row}\n" for row in range(number * 10, number * 10 + 10)))
    pipe = fp.read_lines(f"{tmp_path}/*.txt").map(raising(ValueError))
    _, error = failed(pipe)
    assert error.operator.startswith(".map(") and error.where.file == __file__
    assert error.origin.source == f"{tmp_path}/2.txt" and error.origin.row == 4
    assert str(error).startswith("`.map(") and f"on {tmp_path}/2.txt, line 4" in str(error)


def test_the_traceback_of_the_worker():
    _, error = failed(numbers().map(raising(ValueError)))
    said = "".join(traceback.format_exception(error))
    assert "in worker 1, process " in said
    assert "raise error(row)" in said and f'File "{__file__}", line ' in said


@pytest.mark.parametrize(("raised", "code"), [(SystemExit, 3), (KeyboardInterrupt, "now")])
def test_exceptions_that_end_a_program(raised, code):
    """As in one process: the exception reaches the program, and the iterator reports it afterwards."""

    def leave(row):
        if row == 9:
            raise raised(code)
        return row

    for workers in (0, 2):
        with fp.Loader(numbers().map(leave), workers=workers) as loader:
            iterator = iter(loader)
            got = []
            with pytest.raises(raised) as caught:
                got.extend(iterator)
            assert caught.value.args == (code,) and got == list(range(len(got)))
            with pytest.raises(LoaderError):
                next(iterator)


def test_of_several_errors_the_first_in_order_is_raised():
    def fail(row):
        if row in (11, 12):
            raise ValueError(row)
        return row

    got, error = failed(numbers().map(fail))
    assert got == list(range(11)) and error.__cause__.args == (11,)
