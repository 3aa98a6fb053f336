"""A user's script, run and type-checked in an environment in which feedpipe and the package are installed."""

import inspect
import sys
from collections.abc import Sequence
from typing import assert_type, cast

from feedpipe_example import Background, Differences, Noise, differences, noise

import feedpipe as fp
from feedpipe.testing import check_operator


def far(number: float) -> bool:
    return abs(number) > 0.5


pipe = noise(100, scale=2.0).pipe(differences, lag=3)
assert_type(pipe, fp.Pipe[float])
batches = pipe.filter(far).shuffle(window=16).batch(8)
assert_type(batches, fp.Pipe[Sequence[float]])
loader = fp.Loader(batches, Background(prefetch=4), seed=7)
assert_type(loader, fp.Loader[Sequence[float]])


def check_the_package() -> None:
    for count in (0, 1, 3, 40):
        check_operator(noise(count))
        check_operator(noise(count).pipe(differences, lag=3))
        check_operator(noise(count).filter(far).pipe(differences))
    assert list(fp.Loader(batches, Background(prefetch=3), seed=1)) == list(fp.Loader(batches, seed=1))


def check_its_entry_point() -> None:
    numbers: fp.Pipe[float] = noise(100, scale=2.0).ext.differences(lag=3)
    assert list(numbers) == list(pipe)
    assert "differences" in dir(pipe.ext)


def check_a_resume() -> None:
    with loader, fp.Loader(batches, workers=2, seed=7) as workers:
        elements = iter(loader)
        first = [next(elements) for _ in range(3)]
        state = loader.state_dict()
        rest = list(elements)
        assert len(first) == 3 and rest
        for other in (loader, workers):
            other.load_state_dict(state)
            assert list(other) == rest


def check_the_code_of_a_pipe() -> None:
    assert repr(pipe) == "fp.Pipe.source(Noise(100, scale=2.0)).then(Differences(lag=3))"
    again = eval(repr(pipe), {"fp": fp, "Noise": Noise, "Differences": Differences})
    assert list(again) == list(pipe)


def check_an_error() -> None:
    numbers = cast("list[float]", [1.0, 2.0, "three"])
    pipe = fp.from_iterable(numbers).pipe(differences)
    (lines, first) = inspect.getsourcelines(check_an_error)
    line = first + next(number for number, text in enumerate(lines) if ".pipe(differences)" in text)
    differing = iter(pipe)
    assert next(differing) == 1.0
    try:
        next(differing)
    except fp.RowError as error:
        message = str(error)
    else:
        raise AssertionError("there should have been an error")
    assert message.startswith("`.then(Differences())` failed with TypeError"), message
    assert "on from_iterable, row 3" in message, message
    assert f"use.py:{line}" in message, message


if __name__ == "__main__":
    check_the_package()
    check_its_entry_point()
    check_a_resume()
    check_the_code_of_a_pipe()
    check_an_error()
    assert str(fp.__file__).startswith(sys.prefix), "feedpipe is not the wheel's"
