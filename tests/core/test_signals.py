"""An exception of a signal handler of the program interrupts the loop; it is no failure of the row that runs."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import RowError


class TimeLimitError(Exception):
    pass


def handle(number: int, frame: object) -> None:
    raise_error()


def raise_error() -> None:
    raise TimeLimitError


class Handler:
    def __call__(self, number: int, frame: object) -> None:
        raise TimeLimitError

    def handle(self, *arguments: object) -> None:
        raise_error()


MOMENTS: list[int] = []
HANDLERS = [handle, Handler(), Handler().handle, lambda *_: raise_error(), functools.partial(handle)]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def pipes(function: Callable[[int], Any]) -> dict[str, fp.Pipe[Any]]:
    numbers = fp.from_sequence(range(40))
    return {
        "map": numbers.map(function),
        "skip": numbers.map(function, on_error="skip"),
        "retry": numbers.map(function, retry=2),
        "filter": numbers.filter(lambda x: function(x) is not None, on_error="skip"),
        "flat_map": numbers.flat_map(lambda x: [function(x)], on_error="skip"),
        "streamed": numbers.filter(lambda x: True).map(function, on_error="skip", retry=1).shuffle(window=4).batch(3),
    }


@pytest.mark.parametrize("name", pipes(abs))
@pytest.mark.parametrize("handler", HANDLERS)
def test_it_reaches_the_loop_and_no_row_is_lost(handler: Callable[..., Any], name: str) -> None:
    MOMENTS[:] = [3, 17, 30]

    def function(x: int) -> int:
        if x in MOMENTS:
            MOMENTS.remove(x)
            signal.raise_signal(signal.SIGUSR1)
        return x

    signal.signal(signal.SIGUSR1, handler)
    pipe = pipes(function)[name]
    rows: list[object] = []
    state = None
    while True:
        with fp.Loader(pipe, seed=1) as loader:
            if state is not None:
                loader.load_state_dict(state)
            try:
                for row in loader:
                    rows.append(row)
                    state = loader.state_dict()
            except TimeLimitError:
                continue
            break
    assert not MOMENTS
    assert rows == list(fp.Loader(pipes(lambda x: x)[name], seed=1))
    assert not loader.skipped


def test_a_handler_that_a_function_installs_for_its_call_belongs_to_the_row() -> None:
    def limited(x: int) -> int:
        before = signal.signal(signal.SIGUSR1, handle)
        try:
            if x == 1:
                signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)
        return x

    numbers = fp.from_sequence(range(3))
    assert list(numbers.map(limited, on_error="skip")) == [0, 2]
    with pytest.raises(RowError):
        list(numbers.map(limited))


def test_an_error_that_a_function_raises_by_calling_the_handler_is_its_own() -> None:
    signal.signal(signal.SIGUSR1, handle)
    assert list(fp.from_sequence(range(3)).map(lambda x: x and handle(10, None), on_error="skip")) == [0]
