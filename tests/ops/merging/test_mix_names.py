"""`mix` of named pipes: their order, draws, messages, and states."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, StateError, StateWarning

from ...support.examples import examples
from ..tables import streamed

WEB, CODE, BOOKS = (fp.from_sequence(range(first, first + rows)) for first, rows in ((0, 30), (100, 12), (200, 5)))


def test_it_is_the_mixture_of_the_pipes_in_the_order_of_their_names() -> None:
    for weights in ({"web": 0.7, "code": 0.3}, {"code": 0.3, "web": 0.7}):
        for pipes in ({"web": WEB, "code": CODE}, {"code": CODE, "web": WEB}):
            assert list(fp.mix(pipes, weights=weights)) == list(CODE.mix(WEB, weights=[0.3, 0.7]))
    stages = {0: {"web": 1, "code": 0}, 9: {"web": 1, "code": 3}}
    assert list(fp.mix({"web": WEB, "code": CODE}, weights=stages)) == list(
        CODE.mix(WEB, weights={0: [0, 1], 9: [3, 1]})
    )
    assert list(fp.mix({"web": WEB})) == list(WEB) and list(fp.mix(WEB, CODE)) == list(WEB.mix(CODE))


branch = st.sampled_from(["plain", "shuffle", "window", "twice", "jitter", "nested"])


def chain(kind: str, first: int) -> fp.Pipe[Any]:
    pipe: fp.Pipe[Any] = fp.from_sequence(range(first, first + 9))
    if kind == "shuffle":
        return pipe.shuffle()
    if kind == "window":
        return pipe.filter(bool).shuffle(window=4)
    if kind == "twice":
        return pipe.shuffle().shuffle().concat(pipe.shuffle())
    if kind == "jitter":
        return pipe.map(lambda row, rng: row + rng.random() / 2, rng=True)
    if kind == "nested":
        return fp.mix({"one": pipe.shuffle(), "two": pipe.map(lambda row: row).shuffle()}, random=True)
    return pipe


@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(st.sampled_from("abcde"), branch, min_size=1), st.dictionaries(st.sampled_from("fgh"), branch))
def test_the_rows_of_a_branch_do_not_depend_on_the_others(kinds: dict[str, str], others: dict[str, str]) -> None:
    def rows(kinds: dict[str, str]) -> dict[str, list[Any]]:
        named = {name: chain(kind, 100 * ord(name)) for name, kind in kinds.items()}
        found: dict[str, list[Any]] = {name: [] for name in kinds}
        for row in fp.Loader(fp.mix(named).filter(lambda row: True), seed=3, shards=1):
            found[chr(int(row) // 100)].append(row)
        return found

    alone, together = rows(kinds), rows({**others, **kinds})
    assert alone == {name: together[name] for name in kinds}


def test_draws_after_the_mixture_do_not_depend_on_its_branches() -> None:
    def order(pipe: fp.Pipe[int]) -> list[int]:
        return list(fp.mix({"web": pipe, "code": CODE}).shuffle())

    assert order(WEB) == order(WEB.map(lambda row: row))
    shuffled = fp.mix({"web": WEB.shuffle(), "code": CODE})
    places = list(fp.from_sequence(range(42)).shuffle())
    assert list(shuffled.shuffle()) == [shuffled[place] for place in places]


def test_pipes_without_names_have_the_draws_that_they_had() -> None:
    assert list(WEB.shuffle().take(4)) == list(WEB.shuffle().mix(CODE, weights=[1, 0]))[:4]


def test_a_state_goes_on_if_the_dict_has_another_order() -> None:
    loader = fp.Loader(fp.mix({"web": streamed(WEB), "code": CODE.shuffle()}).batch(4), seed=1)
    first = next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = fp.Loader(fp.mix({"code": CODE.shuffle(), "web": streamed(WEB)}).batch(4), seed=1)
    resumed.load_state_dict(state)
    assert sorted([*first, *(row for batch in resumed for row in batch)]) == sorted([*WEB, *CODE])
    with pytest.raises(StateError, match=r'`inputs` in `mix\(\)` was \["code", "web"\] and is now \["code", "wiki"\]'):
        fp.Loader(fp.mix({"code": CODE.shuffle(), "wiki": streamed(WEB)}).batch(4), seed=1).load_state_dict(state)


@pytest.mark.parametrize("kind", ["shuffle", "window"])
def test_each_input_goes_on_if_another_one_comes_in(kind: str) -> None:
    """In the rest of the pass, and in the next one, the inputs that stay have the rows that they would have had."""

    def of(pipe: fp.Pipe[int]) -> fp.Pipe[int]:
        return pipe.shuffle() if kind == "shuffle" else streamed(pipe).shuffle(window=6)

    old = fp.mix({"web": of(WEB), "code": of(CODE)}, weights={"web": 2, "code": 1})
    weights = {"web": 1, "code": 2, "books": 1}
    new = fp.mix({"web": of(WEB), "books": of(BOOKS), "code": of(CODE)}, weights=weights)
    shards = None if old.indexed else 1
    whole, loader = (fp.Loader(old.batch(4), seed=3, shards=shards) for _ in range(2))
    expected = [[row for batch in whole for row in batch] for _ in range(2)]
    taken = [row for batch in islice(loader, 3) for row in batch]
    resumed = fp.Loader(new.batch(2), seed=3, shards=shards)
    with pytest.warns(
        StateWarning, match="`books` is new, .*: `code` goes on at its row 4; `web` goes on at its row 8"
    ):
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())), edits="order")
    first, second = ([row for batch in resumed for row in batch] for _ in range(2))
    for rows, of_old in ((taken + first, expected[0]), (second, expected[1])):
        assert sorted(rows) == sorted([*WEB, *CODE, *BOOKS])
        for source in (0, 1):
            assert [row for row in rows if row // 100 == source] == [row for row in of_old if row // 100 == source]


def test_names_are_in_what_a_user_reads(capsys: Any) -> None:
    pipe = fp.mix({"web": WEB.shuffle(), "code": CODE}, weights={"web": 2, "code": 1})
    pipe.explain()
    text = capsys.readouterr().out
    assert "  | code:\n  |   from_sequence(range(100, 112))" in text and "  | web:\n  |   from_sequence" in text
    assert "\n  mix(weights={'code': 1, 'web': 2}) " in text
    assert "takes 12 rows of 'code', 30 of 'web'" in text
    assert eval(repr(pipe), {"fp": fp})[7] == pipe[7]
    assert repr(fp.mix({"a": fp.from_sequence([1])}).batch(2)) == "fp.mix({'a': fp.from_sequence([1])}).batch(2)"
    loader = fp.Loader(fp.mix({"web": streamed(WEB), "code": streamed(CODE).shuffle(window=3)}), shards=1)
    assert len(list(loader)) == 42
    assert "code/shuffle-1" in {operator.name for operator in loader.report().operators}


def test_errors() -> None:
    pipes: Any = {"web": WEB, "code": CODE}
    for weights, message in (
        ({"web": 1}, "`weights` must have the names 'code', 'web', but has none of 'code'"),
        ({"web": 1, "code": 1, "wiki": 1}, "`weights` must have the names 'code', 'web', but has 'wiki' besides"),
        ({0: {"web": 1}}, r"`weights\[0\]` must have the names 'code', 'web', but has none of 'code'"),
        ({"web": -1, "code": 1}, r"`weights` must be >= 0, and one of them > 0, but got: \[1, -1\]"),
    ):
        with pytest.raises(ArgumentError, match=message):
            fp.mix(pipes, weights=weights)
    for weights in ([1, 2], {0: [1, 2]}):
        with pytest.raises(ArgumentTypeError, match="must be a dict by name, as the pipes have names, but got"):
            fp.mix(pipes, weights=weights)
    with pytest.raises(ArgumentTypeError, match="must be pipes, or one dict of pipes by name, but not both"):
        fp.mix(pipes, WEB)  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="must be one pipe at least, but the dict is empty"):
        fp.mix({})
    for name in (1, ""):
        with pytest.raises(
            ArgumentTypeError, match=f"names of the inputs of `mix` must be strings .* but got: {name!r}"
        ):
            fp.mix({name: WEB})  # type: ignore[dict-item]
    for wrong in ([1], {"a": [1]}, {"a": WEB, "b": 3}):
        with pytest.raises(ArgumentTypeError, match="the inputs of `mix` must be pipes but got: "):
            fp.mix(wrong)  # type: ignore[arg-type]
