"""What a fingerprint holds, and how two of them differ."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.fs
import pytest

import feedpipe as fp

from ..support.engine import resolve
from ..support.plan import MAX_FACTS, Fingerprint, code_differences, differences

SOURCE = fp.from_sequence(range(3))


def entries(pipe: fp.Pipe[Any]) -> list[list[Any]]:
    return json.loads(Fingerprint(resolve(pipe)).pipe)


def changes(one: fp.Pipe[Any], other: fp.Pipe[Any]) -> tuple[list[str], list[str]]:
    """What is refused, and what is a warning, if a state of `one` is loaded into `other`."""
    old, new = Fingerprint(resolve(one)), Fingerprint(resolve(other))
    return differences(old.pipe, new.pipe), code_differences(old.code, new.code, new.pipe)


def add(x: int, other: int = 1, *, third: int = 0) -> int:
    return x + other + third


def above(limit: Any, inner: Any = None):
    return lambda x: x > limit and (inner is None or inner(x))


@dataclass(frozen=True)
class Settings:
    low: int = 0
    name: str = "a"


class Limits:
    """Settings of a program; a function reads some of them."""

    def __init__(self, low: int, rank: int = 0) -> None:
        self.low = low
        self.rank = rank


class Keep:
    """A filter that counts its calls."""

    step = 1

    def __init__(self, low: int, folder: str = "") -> None:
        self.low = low
        self.folder = folder
        self.calls = 0

    def __call__(self, x: int) -> bool:
        self.calls += 1
        return self.fits(x)

    def fits(self, x: int) -> bool:
        return x > self.low + self.step


class Slots:
    __slots__ = ("high", "low")

    def __init__(self, low: int) -> None:
        self.low = low

    def __call__(self, x: int) -> bool:
        return self.low < x


class Hostile:
    """An object all of whose code fails."""

    def __init__(self, low: int) -> None:
        object.__setattr__(self, "low", low)

    def __call__(self, x: int) -> bool:
        return x > object.__getattribute__(self, "low")

    def _fails(self, *_: object) -> Any:
        raise AssertionError("the fingerprint must not call this")

    __getattribute__ = __getattr__ = __eq__ = __ne__ = __hash__ = __repr__ = __str__ = __bool__ = _fails  # type: ignore[assignment]
    __reduce__ = __reduce_ex__ = __iter__ = __len__ = __getitem__ = __format__ = __index__ = _fails  # type: ignore[assignment]
    __class__ = property(_fails)  # type: ignore[assignment]


def test_differences_name_what_changed() -> None:
    assert changes(SOURCE.batch(2), SOURCE.batch(2)) == ([], [])
    refused, _ = changes(SOURCE.batch(2), fp.from_sequence(range(4)).batch(3))
    assert refused == [
        "`from_sequence(range(0, 3))` is now `from_sequence(range(0, 4))`",
        "`batch(2)` is now `batch(3)`",
    ]
    assert changes(SOURCE.batch(2), SOURCE)[0] == ["the pipe had 2 operators and now has 1"]
    other = fp.from_sequence(range(3))
    assert changes(SOURCE.concat(SOURCE), other.concat(other, other))[0] == ["`concat()` has other inputs"]


class TestValues:
    """Values decide on rows in a filter, and on none in a map."""

    @pytest.mark.parametrize(
        ("make", "name", "values"),
        [
            (lambda n: above(n), "<lambda>.limit", (3, 4)),
            (lambda n: above(0, above(n)), "<lambda>.inner.limit", (3, 4)),
            (lambda n: functools.partial(add, third=n), "add.third", (3, 4)),
            (lambda n: functools.partial(functools.partial(add, n), third=1), "add.0", (3, 4)),
            (lambda n: lambda x, low=n: x > low, "<lambda>.low", (3, 4)),
            (lambda n: lambda x, *, low=n: x > low, "<lambda>.low", (3, 4)),
            (Keep, "Keep.low", (3, 4)),
            (Slots, "Slots.low", (3, 4)),
            (lambda n: Keep(n).fits, "fits.low", (3, 4)),
            (lambda n: above(n).__call__, "__call__.limit", (3, 4)),
            (lambda n: above(Settings(n)), "<lambda>.limit.low", (3, 4)),
            (lambda n: (lambda limits: lambda x: x > limits.low)(Limits(n)), "<lambda>.limits.low", (3, 4)),
            (lambda n: (lambda at: lambda x: x > at.low)(SimpleNamespace(low=n)), "<lambda>.at.low", (3, 4)),
            (lambda n: above([1, (n, None)]), "<lambda>.limit", ("has changed",)),
            (lambda n: above([1, n]), "<lambda>.limit", ([1, 3], [1, 4])),
            (lambda n: above({"a": n}), "<lambda>.limit", ("has changed",)),
            (lambda n: above({n, 7}), "<lambda>.limit", ("has changed",)),
            (lambda n: above(f"secret{n}"), "<lambda>.limit", ("has changed",)),
            (lambda n: above(np.arange(n)), "<lambda>.limit", ("has changed",)),
            (lambda n: above(np.float32(n)), "<lambda>.limit", ("has changed",)),
            (lambda n: {n, 7}.__contains__, "__contains__", ("has changed",)),
        ],
    )
    def test_a_changed_value_is_refused_in_a_filter_and_a_warning_in_a_map(self, make, name, values):
        if values == ("has changed",):
            expected = f"`{name}` in `%s` has changed"
        else:
            expected = f"`{name}` in `%s` was {values[0]} and is now {values[1]}"
        for method in ("filter", "map"):
            one, same, other = (getattr(SOURCE, method)(make(n)) for n in (3, 3, 4))
            assert changes(one, same) == ([], [])
            call = entries(one)[1][0]
            refused, warned = changes(one, other)
            assert (refused if method == "filter" else warned) == [expected % call]
            assert not (warned if method == "filter" else refused)

    def test_what_code_sets_itself_does_not_count(self):
        def counting():
            count = 0

            def keep(x: int) -> bool:
                nonlocal count
                count += 1
                return True

            return keep

        for used, fresh in ((Keep(3), Keep(3)), (counting(), counting())):
            assert used(7)
            assert changes(SOURCE.filter(used), SOURCE.filter(fresh)) == ([], [])

    def test_attributes_that_no_code_reads_do_not_count(self):
        assert changes(SOURCE.filter(Keep(3, "a")), SOURCE.filter(Keep(3, "b"))) == ([], [])
        one, other = Limits(1, rank=0), Limits(1, rank=1)
        make: Any = lambda limits: lambda x: x > limits.low  # noqa: E731
        assert changes(SOURCE.filter(make(one)), SOURCE.filter(make(other))) == ([], [])

    def test_a_state_holds_no_text_of_a_closure(self):
        pipe = SOURCE.filter(above("password")).map(above({"password": "password"}))
        fingerprint = Fingerprint(resolve(pipe))
        assert "password" not in fingerprint.pipe + fingerprint.code

    def test_no_code_of_the_user_runs(self):
        def hostile(n: int):
            thing = Hostile(n)
            return lambda x: x > thing  # type: ignore[operator]

        for make in (hostile, lambda n: functools.partial(add, third=Hostile(n))):
            refused, _ = changes(SOURCE.filter(make(3)), SOURCE.filter(make(4)))
            assert refused == []  # `low` is read in no way that can be seen

    def test_cycles_come_to_an_end(self):
        items: list[Any] = [1]
        items += [items, items]

        def keep(x: int) -> bool:
            return bool(items) and keep(x)

        assert changes(SOURCE.filter(keep), SOURCE.filter(keep)) == ([], [])
        limits = Limits(3)
        limits.low = limits  # type: ignore[assignment]
        assert changes(SOURCE.filter(lambda x: limits.low), SOURCE.filter(lambda x: limits.low)) == ([], [])

    def test_many_values_count_together(self):
        def pipe(last: int) -> fp.Pipe[int]:
            return SOURCE.filter(functools.partial(add, **{f"a{i}": i for i in range(200)}, last=last))

        (_, (_, _, facts)) = entries(pipe(1))
        assert len(facts) == MAX_FACTS + 1
        assert changes(pipe(1), pipe(2))[0] == ["`...` in `filter(add)` has changed"]
        assert changes(pipe(1), pipe(1)) == ([], [])


class TestData:
    """Data in memory counts by a sample of its rows."""

    @pytest.mark.parametrize(
        "make",
        [
            lambda n: fp.from_sequence([0, n]),
            lambda n: fp.from_sequence(["a"] * 100_000 + [str(n)]),
            lambda n: fp.from_sequence([{"x": [1, n]}]),
            lambda n: fp.from_arrays({"x": np.arange(5), "y": np.full(5, n)}),
            lambda n: fp.from_arrays({"x": np.arange(100_000) + n}),
            lambda n: fp.from_arrays({"x": np.full((3, 2**20), n, np.float32)}),
            lambda n: fp.from_iterable([1, n]),
        ],
    )
    def test_other_data_of_the_same_length_is_refused(self, make):
        assert changes(make(3), make(3)) == ([], [])
        (line,) = changes(make(3), make(4))[0]
        assert "has changed" in line or "is now `" in line

    def test_attributes_of_a_dataset(self):
        class Squares:
            def __init__(self, power: int, folder: str) -> None:
                self.power = power
                self.folder = folder
                self.last = None

            def __len__(self) -> int:
                return 3

            def __getitem__(self, index: int) -> int:
                self.last = index
                return index**self.power

        used = Squares(2, "a")
        list(fp.from_dataset(used))
        assert changes(fp.from_dataset(used), fp.from_dataset(Squares(2, "b"))) == ([], [])
        assert changes(fp.from_dataset(used), fp.from_dataset(Squares(3, "a")))[0] == [
            "`Squares.power` in `from_dataset(<Squares of 3>)` was 2 and is now 3"
        ]


class TestCode:
    def test_methods_of_an_object_count(self) -> None:
        class Other(Keep):
            def fits(self, x: int) -> bool:
                return x > 5

        Other.__name__, Other.__qualname__ = Keep.__name__, Keep.__qualname__
        assert changes(SOURCE.filter(Keep(3)), SOURCE.filter(Other(3)))[1] == [
            "the code of `Keep` in `filter(Keep)` has changed"
        ]


PROGRAM = """
import feedpipe as fp
from feedpipe.plan.fingerprint import Fingerprint

def make(words):
    def keep(x):
        class Inner:
            names = {"one", "two", "three"}
        return x in {"alpha", "beta", "gamma", "delta"} and x in words and [y for y in x if y in {"p", "q"}]
    return keep

words = {"these", "are", "in", "a", "set", "whose", "order", "differs"}
pipe = fp.from_sequence(["a"]).filter(make(words)).map(make(frozenset(words))).filter(make({w: {w} for w in words}))
fingerprint = Fingerprint(pipe)
print(fingerprint.pipe, fingerprint.code)
"""


@pytest.mark.slow
def test_it_is_the_same_in_every_process_and_file(tmp_path: Path) -> None:
    printed = set()
    for number, hash_seed in enumerate(("0", "1", "2", "4000")):
        file = tmp_path / f"folder{number}" / f"program{number}.py"
        file.parent.mkdir()
        file.write_text("\n" * number + PROGRAM)
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        printed.add(subprocess.run([sys.executable, file], env=environment, check=True, capture_output=True).stdout)
    assert len(printed) == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda folder, files: fp.read_csv(folder / "*.csv", filesystem=files),
        lambda folder, files: fp.read_csv([folder / "1.csv", folder / "2.csv"], delimiter=";", filesystem=files),
        lambda folder, files: fp.list_files(folder / "*.csv").filter(bool).open_files(filesystem=files).parse_lines(),
        lambda folder, files: fp.read_numpy({"x": folder / "x.npy"}, filesystem=files),
        lambda folder, files: fp.read_images(folder, label=None, filesystem=files),
    ],
)
def test_files_may_move(tmp_path: Path, read: Any) -> None:
    pipes = []
    for name, filesystem in (("here", None), ("there", pyarrow.fs.LocalFileSystem())):
        folder = tmp_path / name
        folder.mkdir()
        for number in (1, 2):
            (folder / f"{number}.csv").write_text("x\n1\n")
            (folder / f"{number}.png").write_bytes(b"no image")
        np.save(folder / "x.npy", np.arange(3))
        pipes.append(read(folder, filesystem))
    old, new = (Fingerprint(resolve(pipe)) for pipe in pipes)
    assert (old.pipe, old.code) == (new.pipe, new.code)
