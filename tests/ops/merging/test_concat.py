from __future__ import annotations

import feedpipe as fp
from feedpipe.testing import check_operator


def test_law():
    a, b = fp.from_sequence(range(9)), fp.from_sequence(range(10, 15))
    whole = [*range(9), *range(10, 15), *range(9)]
    assert check_operator(a.concat(b, a)) == whole
    assert check_operator(a.filter(lambda x: True).concat(b, a)) == whole
    assert check_operator(a.concat(b, a).shuffle().batch(4)) != whole
    assert check_operator(fp.from_sequence([]).concat(b)) == list(range(10, 15))


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
