from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.extensions import Context
from feedpipe.testing import check_operator

from ...support.engine import Stage, bind, resolve


def test_law():
    a, b = fp.from_sequence(range(9)), fp.from_sequence(range(10, 15))
    whole = [*range(9), *range(10, 15), *range(9)]
    assert check_operator(a.concat(b, a)) == whole
    assert check_operator(a.filter(lambda x: True).concat(b, a)) == whole
    assert check_operator(a.concat(b, a).shuffle().batch(4)) != whole
    assert check_operator(fp.from_sequence([]).concat(b)) == list(range(10, 15))


def test_length_and_index():
    pipe = fp.from_sequence("ab").concat(fp.from_sequence("c"))
    assert len(pipe) == 3 and pipe[2] == "c"


def test_lengths_are_asked_for_once(monkeypatch):
    asked = []

    def length(stage):
        asked.append(stage)
        return 2

    monkeypatch.setattr(Stage, "length", property(length))
    stage = bind(resolve(fp.from_sequence("ab").concat(fp.from_sequence("cd"), fp.from_sequence("ef"))))
    rows = [stage.rows(range(i, i + 1), Context()) for i in range(6)]
    assert rows == [[letter] for letter in "abcdef"] and len(asked) == 3


def test_only_pipes():
    with pytest.raises(ArgumentTypeError, match="the inputs of `concat` must be pipes but got: "):
        fp.from_sequence("ab").concat([1, 2])


def test_a_chain_of_concats_is_one_concat():
    pipes = [fp.from_sequence([i, -i]) for i in range(300)]
    chained = pipes[0]
    for pipe in pipes[1:]:
        chained = chained.concat(pipe)
    assert len(chained.inputs) == 300
    assert list(chained) == [x for i in range(300) for x in (i, -i)]
    assert chained[599] == -299
    a, b, c = pipes[:3]
    assert list(a.concat(b.concat(c), a.map(abs).concat(b))) == [0, 0, 1, -1, 2, -2, 0, 0, 1, -1]
    assert repr(a.concat(b).concat(c)) == repr(a.concat(b, c))
