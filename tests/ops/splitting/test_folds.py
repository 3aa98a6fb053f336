"""`split` into parts of equal size, and by groups that stay whole; `others`."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, PlanWarning
from feedpipe.testing import check_operator

from ...support.core import mixed
from ...support.examples import examples
from ...support.operators import digest_of
from ..exactness import check_elastic, check_ranks, check_resumes, digest

pytestmark = pytest.mark.filterwarnings("ignore:.*more than twice the.*:feedpipe.errors.PlanWarning")


def rows_of(groups: list[int], classes: list[int] | None = None) -> list[dict[str, int]]:
    return [{"n": n, "group": group, "class": classes[n] if classes else n % 2} for n, group in enumerate(groups)]


def brute_force(rows: list[dict[str, int]], goals: list[int], *, stratify: bool, seed: int) -> dict[int, set[int]]:
    """The parts into which each group may go, by the rule: the sum of squared distances to goals grows least."""
    word = int(mixed(np.array([seed], np.uint64))[0])
    sizes = Counter(row["group"] for row in rows)
    keys = {group: digest_of(group) for group in sizes}
    ties = {group: int(mixed(np.array([key ^ word], np.uint64))[0]) for group, key in keys.items()}
    of_class = Counter(row["class"] if stratify else 0 for row in rows)
    had: dict[tuple[int, Any], int] = Counter()
    allowed: dict[int, set[int]] = {}
    found = parts_of(rows, goals, stratify=stratify, seed=seed)
    for group in sorted(sizes, key=lambda group: (-sizes[group], ties[group])):
        own = Counter(row["class"] if stratify else 0 for row in rows if row["group"] == group)
        costs = []
        for part, goal in enumerate(goals):
            share = Fraction(goal, sum(goals))
            cost = Fraction(0)
            for kind, count in [*own.items(), ("all", sizes[group])]:
                total = len(rows) if kind == "all" else of_class[kind]
                missing = had[part, kind] - share * total
                cost += ((missing + count) ** 2 - missing**2) / (total * share) if share else 0
            costs.append(cost if goal else Fraction(10**9))
        allowed[group] = {part for part, cost in enumerate(costs) if cost - min(costs) < Fraction(1, 10**9)}
        for kind, count in [*own.items(), ("all", sizes[group])]:
            had[found[group], kind] += count
    return allowed


def parts_of(rows: list[dict[str, int]], goals: list[int], *, stratify: bool, seed: int) -> dict[int, int]:
    split = fp.from_sequence(rows).split(
        dict(enumerate(goals)), key="group", stratify="class" if stratify else None, seed=seed
    )
    return {row["group"]: part for part, pipe in split.items() for row in pipe}


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=60),
    st.integers(2, 4),
    st.booleans(),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_groups_go_where_most_is_missing(
    pairs: list[tuple[int, int]], parts: int, stratify: bool, seed: int, random: Any
) -> None:
    rows = rows_of([group for group, _ in pairs], [kind for _, kind in pairs])
    cuts = sorted(random.randint(0, len(rows)) for _ in range(parts - 1))
    goals = [stop - start for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    if len({row["group"] for row in rows}) < np.count_nonzero(goals):
        with pytest.raises(PlanError, match="must have a group for each of its . parts, because groups stay whole"):
            parts_of(rows, goals, stratify=stratify, seed=seed)
        return
    found = parts_of(rows, goals, stratify=stratify, seed=seed)
    allowed = brute_force(rows, goals, stratify=stratify, seed=seed)
    assert all(part in allowed[group] for group, part in found.items()) and found.keys() == allowed.keys()
    split = fp.from_sequence(rows).split(dict(enumerate(goals)), key="group", stratify="class" if stratify else None)
    assert sorted(row["n"] for part in split.values() for row in part) == list(range(len(rows)))
    for part in split:
        assert not {row["group"] for row in split[part]} & {row["group"] for row in split.others(part)}


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(2, 60), st.integers(2, 7), st.booleans(), st.integers(0, 3))
def test_folds_have_equal_sizes(count: int, parts: int, stratify: bool, seed: int) -> None:
    rows = rows_of([0] * count, [n % 3 for n in range(count)])
    folds = fp.from_sequence(rows).shuffle().split(parts, stratify="class" if stratify else None, seed=seed)
    if count < parts:
        with pytest.raises(PlanError, match=rf"`split\({parts}.*\)` must have a row for each part but has {count}"):
            len(folds[0])
        return
    assert list(folds) == list(range(parts))
    assert [len(fold) for fold in folds.values()] == [count // parts + (k < count % parts) for k in range(parts)]
    for k, fold in folds.items():
        assert sorted(row["n"] for row in [*fold, *folds.others(k)]) == list(range(count))
        if stratify:
            for kind, total in Counter(row["class"] for row in rows).items():
                assert abs(sum(row["class"] == kind for row in fold) - total * len(fold) / count) < 2


def zipf(count: int) -> list[dict[str, int]]:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, count // 12, count)
    classes = (groups * 2654435761 % 7 < 2) ^ (rng.random(count) < 0.1)
    return rows_of(groups.tolist(), classes.astype(int).tolist())


def test_others_of_any_split() -> None:
    source: fp.Pipe[int] = fp.from_sequence(range(90))
    shares = {"a": 0.5, "b": 0.3, "c": 0.2}
    for pipe in (source, source.filter(lambda row: True)):
        for arguments in ({}, {"key": lambda row: row // 4}):
            parts = pipe.split(shares, **arguments)
            for name in shares:
                others = check_operator(parts.others(name), samples=3)
                assert others == sorted(row for part in parts if part != name for row in parts[part])
                assert parts.others(name).indexed == pipe.indexed
    parts = source.split(shares)
    with pytest.raises(KeyError, match="'d' is none of the parts: 'a', 'b', 'c'"):
        parts.others("d")
    assert repr(parts.others("a")).endswith(".split({'a': 0.5, 'b': 0.3, 'c': 0.2}).others('a')")
    assert {**parts}.keys() == shares.keys()


@pytest.mark.parametrize("count", [0, 1, 4, 60])
def test_law(count: int) -> None:
    rows = rows_of([n // 3 for n in range(count)])
    table = fp.from_table(
        pa.Table.from_pylist(rows, pa.schema([(name, pa.int64()) for name in ("n", "group", "class")]))
    )
    for pipe in (fp.from_sequence(rows), table):
        folds = pipe.split(2, key="group", stratify="class")
        if count < 4:
            with pytest.raises(PlanError, match="must have a (row|group) for each"):
                list(folds[0])
            continue
        found = [row["n"] for k in folds for row in check_operator(folds[k], samples=4)]
        assert sorted(found) == list(range(count))
        assert sorted(found + [row["n"] for row in check_operator(folds.others(1))][: len(folds.others(1))])
        whole = pipe.split({"none": 0, "all": count}, key="group")
        assert len(whole["none"]) == 0 and len(whole["all"]) == len(whole.others("none")) == count


FOLDS = fp.from_sequence(zipf(240)).split(3, key="group", stratify="class")


@pytest.mark.slow
def test_resumes_ranks_and_workers() -> None:
    for pipe in (FOLDS[1].shuffle().batch(4), FOLDS.others(1).shuffle().select("n")):
        check_resumes(pipe, epochs=2, every=3)
        check_elastic(pipe, 7)
    check_ranks(FOLDS.others(2).select("n"))


def test_the_division_never_changes() -> None:
    """Another one would move rows of running projects to another part."""
    assert digest([[row["n"] for row in FOLDS[k]] for k in FOLDS]) == "9a41570ff26796874b41826e8ac24b5c"
    assert (
        digest([list(fold) for fold in fp.from_sequence(range(50)).split(4).values()])
        == "37deb6f61f0d07f5b622d6f1a9374205"
    )


def test_a_group_that_is_too_large() -> None:
    folds = fp.from_sequence(rows_of([7] * 60 + list(range(100, 140)))).split(4, key="group")
    with pytest.warns(
        PlanWarning, match=r"`split\(4, key=\('group',\)\)`: the group 7 has 60 rows, more than twice the 25 of"
    ) as caught:
        sizes = [len(fold) for fold in folds.values()]
    assert sorted(sizes) == [13, 13, 14, 60] and len(caught) == 1 and caught[0].filename == __file__


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    source = fp.from_sequence(rows_of([n // 2 for n in range(10)]))
    for parts in (1, 0, -3):
        with pytest.raises(ArgumentError, match=f"`parts` must be >= 2 but got: {parts}"):
            source.split(parts)
    for parts in (True, 2.0, None):
        with pytest.raises(ArgumentTypeError, match="`parts` must"):
            source.split(parts)  # type: ignore[call-overload]
    for arguments in ({}, {"key": "group"}, {"stratify": "class"}):
        with pytest.raises(PlanError, match=r"must follow an indexed pipe, because .* put `.load\(\)` before it"):
            source.filter(bool).split(2, **arguments)
    with pytest.raises(PlanError, match=r"`split` must come before `shuffle\(\)`"):
        source.shuffle().take(5).split(2, key="group")
    with pytest.raises(PlanError, match="the sizes of the parts must sum to the number of rows, 10, .* but sum to 9"):
        len(source.split({"a": 5, "b": 4}, key="group")["a"])
    with pytest.raises(
        PlanError, match=r"must have a group for each of its 6 parts, .* there are 5, by the column 'group'"
    ) as caught:
        len(source.split(6, key="group")[0])
    assert __file__ in str(caught.value)
    with pytest.raises(DataError, match="type object has no digest that is the same in each process"):
        len(source.split(2, key=lambda row: object())[0])
    with pytest.raises((DataError, PlanError), match="there is no column 'gruop'"):
        len(source.split(2, key="gruop")[0])
    source.split(2, key="group", stratify="class")[0].explain()
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "keeps the rows of a group together, by the column 'group'; sizes are goals, also for the classes, the" in text
    )
    source.split(2)[0].explain()
    assert "divides the rows by their position; with more rows in the data, all may change" in capsys.readouterr().out
