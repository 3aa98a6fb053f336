from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ..support.core import raised_by_signal_handler


def handle(number: int, frame: object) -> None:
    raise_timeout()


def raise_timeout() -> None:
    raise TimeoutError


class Handler:
    def __call__(self, number: int, frame: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        raise ValueError

    def handle(self, *arguments: object) -> None:
        raise_timeout()


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("handler", [handle, Handler(), Handler().handle, lambda *_: raise_timeout()])
def test_an_exception_of_a_handler(handler: Callable[..., Any]) -> None:
    def run() -> Iterator[int]:
        yield 1
        signal.raise_signal(signal.SIGUSR1)
        yield 2

    signal.signal(signal.SIGUSR1, handler)
    with pytest.raises((TimeoutError, ValueError)) as error:
        list(run())
    assert raised_by_signal_handler(error.value)


def test_another_exception() -> None:
    signal.signal(signal.SIGUSR1, handle)
    with pytest.raises(TimeoutError) as error:
        handle(signal.SIGUSR1, None)
    assert not raised_by_signal_handler(error.value)
