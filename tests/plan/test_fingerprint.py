"""What a fingerprint holds, and how two of them differ."""

from __future__ import annotations

import functools
import json

import numpy as np

import feedpipe as fp
from feedpipe.engine.stage import resolve
from feedpipe.plan.fingerprint import code_digest, differences, fingerprint


def double(x: int) -> int:
    return 2 * x


def add(x: int, other: int = 1) -> int:
    return x + other


def test_an_entry_is_a_call_its_inputs_and_its_identity() -> None:
    pipe = fp.from_sequence(range(3)).map(double).batch(2)
    assert [entry[:2] for entry in fingerprint(resolve(pipe))] == [
        ["from_sequence(sequence=range(0, 3))", []],
        [f"map(function={__name__}.double, rng=False, name=None)", [0]],
        ["batch(size=2, drop_last=False)", [1]],
    ]
    assert fingerprint(resolve(pipe))[0][2] == {"length": 3}


def test_it_is_plain_json() -> None:
    entries = fingerprint(resolve(fp.from_arrays({"x": np.arange(4)}).shuffle(window=2, seed=3)))
    assert json.loads(json.dumps(entries)) == entries


def test_a_transparent_operator_has_no_entry() -> None:
    source = fp.from_sequence(range(3))
    plain, with_prefetch = source.batch(2), source.prefetch(2).batch(2).prefetch(1)
    assert fingerprint(with_prefetch) == fingerprint(plain)


def test_a_node_that_is_read_twice_has_one_entry() -> None:
    source = fp.from_sequence(range(3))
    entries = fingerprint(source.concat(source))
    assert [entry[1] for entry in entries] == [[], [0, 0]]


def test_a_partial_function_counts_as_its_function() -> None:
    source = fp.from_sequence(range(3))
    assert fingerprint(source.map(functools.partial(add, other=2))) == fingerprint(source.map(add))


def test_the_digest_follows_the_code() -> None:
    def scope(number: int) -> fp.Pipe[int]:
        source = fp.from_sequence(range(3))
        return source.map(lambda x: x + 1) if number == 1 else source.map(lambda x: x + 2)

    assert code_digest(scope(1)) == code_digest(scope(1))
    assert code_digest(scope(1)) != code_digest(scope(2))
    assert fingerprint(scope(1)) == fingerprint(scope(2))


def test_differences_name_what_changed() -> None:
    source = fp.from_sequence(range(3))
    one, other = fingerprint(source.batch(2)), fingerprint(fp.from_sequence(range(4)).batch(3))
    assert differences(one, one) == []
    lines = differences(one, other)
    assert len(lines) == 2
    assert '{"length": 3} is now' in lines[0] and '{"length": 4}' in lines[0]
    assert lines[1] == "`batch(size=2, drop_last=False)` is now `batch(size=3, drop_last=False)`"
    assert differences(one, fingerprint(source)) == ["the pipe had 2 operators and now has 1"]
