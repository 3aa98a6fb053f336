"""Every flag of a public function and class must be a bool: any other value would count as true, `"no"` too."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError

PIPE: Any = fp.from_sequence(range(3))
OWNERS: list[tuple[str, Any]] = [(name, getattr(fp, name)) for name in fp.__all__]
METHODS = [(name, getattr(PIPE, name)) for name in dir(fp.Pipe) if not name.startswith("_") and name != "graph"]
FLAGS = [
    (name, function, flag.name, flag.annotation)
    for name, function in [*OWNERS, *METHODS]
    if callable(function) and not (isinstance(function, type) and issubclass(function, BaseException))
    for flag in inspect.signature(function).parameters.values()
    if "bool" in str(flag.annotation).split(" | ")
]


@pytest.mark.parametrize(("name", "function", "flag", "kind"), FLAGS, ids=[f"{flag[0]} {flag[2]}" for flag in FLAGS])
def test_every_flag_is_a_bool(name: str, function: Any, flag: str, kind: str) -> None:
    values = ["no", 1, 0, [], None] if kind == "bool" else ["no", 1, 0, []]
    for value in values:
        with pytest.raises(ArgumentTypeError, match=f"`{flag}` must be True or False but got: "):
            function(**{flag: value})


def test_there_are_many() -> None:
    assert len(FLAGS) > 50 and {"drop_last", "padded", "random", "overwrite"} <= {flag[2] for flag in FLAGS}
