"""Arguments that do not fit a signature are errors that name the argument that was meant, or is missing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError

PIPE: Any = fp.from_sequence(range(3))
Any_fp: Any = fp

CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "buffer_size": (
        lambda: PIPE.shuffle(buffer_size=3),
        "`shuffle` has no argument .*; did you mean `window`",
    ),
    "batch_size": (lambda: PIPE.batch(batch_size=3), "did you mean `size`"),
    "batch_size of a loader": (lambda: Any_fp.Loader(PIPE, batch_size=3), r"`\.batch\(n\)` in the chain"),
    "drop_remainder": (lambda: PIPE.batch(3, drop_remainder=True), "did you mean `drop_last`"),
    "num_workers": (lambda: Any_fp.Loader(PIPE, num_workers=3), "`Loader` has no argument .*; did you mean `workers`"),
    "num_parallel_calls": (lambda: PIPE.map(str, num_parallel_calls=3), r"workers=n|concurrency"),
    "pin_memory": (lambda: Any_fp.MultiProcess(2, pin_memory=True), "`MultiProcess` has no argument `pin_memory`"),
    "on_bad_rows": (lambda: Any_fp.read_csv("a.csv", on_bad_rows="skip"), "`read_csv` has no argument"),
    "statistics": (lambda: Any_fp.index("a", "a.index", statistics=["x"]), "`filter=` leaves out folders such as"),
    "one that went": (lambda: Any_fp.fit(PIPE, {}, resume="a.json"), "the statistics are the same floats"),
    "and that nobody else had": (lambda: Any_fp.Loader(PIPE, resume=True), "it takes `pipe`"),
    "handler": (lambda: PIPE.map(str, handler=print), "`map` has no argument `handler`; "),
    "batched": (lambda: PIPE.map(str, batched=True), r"`\.map_batches\(function, n\)` calls it"),
    "ahead": (lambda: PIPE.prefetch(ahead=2), "did you mean `count`"),
    "a slip": (lambda: PIPE.take(cuont=2), "did you mean `count`"),
    "nothing near": (lambda: PIPE.map(str, zzz=2), "it takes `function`, `rng`"),
    "no arguments": (lambda: PIPE.unbatch(zzz=2), "it takes none by name"),
    "too many": (
        lambda: PIPE.resample("label", {0: 1}),
        "`resample` takes only `key` by position but got 2; name the others, such as `target=`",
    ),
    "too many of several": (
        lambda: PIPE.enumerate("row", 0, 1),
        "`enumerate` takes only .* by position but got 3\n",
    ),
    "too many for none": (lambda: PIPE.dispatch(3), "`dispatch` takes nothing by position but got 1\n"),
    "missing": (lambda: PIPE.map(), "`map` needs `function`\n"),
    "missing by name": (lambda: PIPE.index_of("city"), "`index_of` needs `values=`\n"),
    "several missing": (lambda: PIPE.zip_by_key(), "`zip_by_key` needs .*` and `"),
    "missing for a class": (lambda: Any_fp.Loader(), "`Loader` needs `pipe`\n"),
    "too many for a class": (lambda: Any_fp.MultiProcess(2, 3, 4, 5, 6, 7, 8), "`MultiProcess` takes only `workers`"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_names_what_was_meant(name: str) -> None:
    call, words = CALLS[name]
    with pytest.raises(ArgumentTypeError, match=rf"(?s){words}.*  at .*test_wrong_arguments\.py:"):
        call()


def test_other_errors_stay() -> None:
    with pytest.raises(TypeError, match=r"multiple values for argument 'function'"):
        PIPE.map(str, function=str)

    def inside(pipe: Any) -> None:
        int(pipe)

    with pytest.raises(TypeError, match=r"^int\(\) argument must be"):
        PIPE.pipe(inside)


def test_signatures_stay() -> None:
    assert list(inspect.signature(fp.Loader).parameters)[:3] == ["pipe", "service", "workers"]
    assert list(inspect.signature(fp.Pipe.batch).parameters)[:3] == ["pipe", "size", "drop_last"]
    assert fp.read_csv.__module__ == "feedpipe.sources.read_files"
