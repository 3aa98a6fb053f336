from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.testing import check_operator


def numbers():
    yield from range(20)


@pytest.mark.parametrize(
    "iterable", [numbers, {3: 1, 4: 1}, lambda: [1, 2], list(range(50))], ids=["function", "dict", "lambda", "list"]
)
def test_law(iterable):
    expected = list(iterable()) if callable(iterable) else list(iterable)
    assert check_operator(fp.from_iterable(iterable)) == expected


def test_an_error_comes_after_the_rows_before_it():
    def broken():
        yield 1
        yield 2
        raise KeyError("gone")

    got: list[int] = []
    with pytest.raises(fp.RowError, match=r"from_iterable.*KeyError") as error:
        got.extend(fp.from_iterable(broken))
    assert got == [1, 2]
    assert isinstance(error.value.__cause__, KeyError)


def test_an_iterator_is_refused():
    with pytest.raises(ArgumentTypeError, match="only once; give the function"):
        fp.from_iterable(iter([1]))
    with pytest.raises(ArgumentTypeError, match="iterable or a function"):
        fp.from_iterable(3)
