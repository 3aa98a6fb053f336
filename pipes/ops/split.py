"""`split`: the rows divided among several pipes, such as training and validation, once and for all."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast, overload
from weakref import ref
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ..core.block import Block, parted
from ..core.checks import check_int
from ..core.code import call_code, value_code
from ..core.context import Context, mixed
from ..core.cursor import Json
from ..core.findings import Finding
from ..core.graph import Node, find_reshuffle, node_code, walk
from ..core.operator import Operator, Order, StageView, Trait
from ..engine.seeds import Permutation
from ..errors import ArgumentError, ArgumentTypeError, PlanError
from ._filter_rows import FilterResult, FilterRows
from ._keys import (
    Digests,
    Ints,
    Key,
    RowKey,
    check_key,
    check_named_key,
    digests_of_column,
    key_digests,
    keys_of,
    read_key_digests,
)
from ._row_set import ChosenRows, RowSet
from ._shared import SameRows
from .placement import ShardByRank
from .shuffle import Shuffle

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
N = TypeVar("N", bound=Node)
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

_POSITIONS = 2**20
"""Positions that are looked at together."""
_SCALE = 2**63


class Parts(dict[K, "Pipe[T]"], Generic[K, T]):
    """The parts of `split`, by name."""

    def __init__(self, parts: Mapping[K, Pipe[T]], others: Callable[[K], Pipe[T]]) -> None:
        super().__init__(parts)
        self._others = others

    def others(self, name: K) -> Pipe[T]:
        """Return the rows of all other parts together, in the order of the input: the training rows of a fold.

        Args:
            name: of the part that is left out.

        Raises:
            KeyError: there is no such part.

        Example:
            >>> import feedpipe as fp
            >>> folds = fp.from_sequence(range(10)).split(5)
            >>> [(len(folds.others(k)), len(folds[k])) for k in folds]
            [(8, 2), (8, 2), (8, 2), (8, 2), (8, 2)]
        """
        if name not in self:
            raise KeyError(f"{name!r} is none of the parts: {', '.join(map(repr, self))}")
        return self._others(name)


@overload
def split(
    pipe: Pipe[T], /, parts: int, *, key: Key | None = None, stratify: Key | None = None, seed: int = 0
) -> Parts[int, T]: ...


@overload
def split(
    pipe: Pipe[T], /, parts: Mapping[K, float], *, key: Key | None = None, stratify: Key | None = None, seed: int = 0
) -> Parts[K, T]: ...


def split(
    pipe: Pipe[T],
    /,
    parts: Mapping[Any, float] | int,
    *,
    key: Key | None = None,
    stratify: Key | None = None,
    seed: int = 0,
) -> Parts[Any, T]:
    """Divide the rows among parts, such as training and validation: a row is in the same part in each epoch and run.

        a b c d e f   ->   split({"train": 4, "val": 2}): b c e f   and   a d

    Element: the rows as they are; together the parts have each row once. Order: the input's. An indexed pipe is divided
    before its shuffles, so a row stays in its part although they change in each epoch; the parts are then indexed.
    Length: that of the part if the pipe is indexed, else unknown. State: a position. Memory: of an indexed pipe, a bit
    for each row and part, and two bytes for each row at most.

    A digest of its `key`, which is the same on every machine, decides on the part of a row: it lies in the interval of
    one part. So appending data moves no row, and the sizes are near the shares, not exact. Without `key`, it is the
    row's position in an indexed pipe, and in a streamed one its content, so equal rows stay together. `explain()` says
    which. A row that a policy skips when an indexed pipe is divided counts in one of the parts.

    **Groups.** With a `key` and an int, numbers of rows, or `stratify`, the rows of one key stay together, and the
    sizes, of all rows and of each class, are goals: the groups are taken from the largest to the smallest, and each
    goes to the part that misses most. More rows in the data may then move all rows. A group that is more than twice as
    large as its part should be is a warning.

    **Folds.** `folds = pipe.split(5)` divides an indexed pipe into five parts of equal size, and `folds.others(k)` has
    the rows of the other four.

    Args:
        parts: the share of each part by its name, which sum to 1; or, for an indexed pipe, numbers of rows, which sum
            to the length, or a number of parts of equal size, with the names 0, 1 and so on.
        key: rows of one key are in one part, such as all images of a person: a column, several, or a function of the
            row. It must not depend on random draws. Of an indexed pipe the keys are read once, before the first row.
        stratify: the key of a row's class, for indexed pipes: each class is divided in the same proportions, as nearly
            as whole rows allow, and without `key` each part has exactly its share of all rows.
        seed: another seed divides the rows in another way. The loader's seed does not matter.

    Raises:
        ArgumentError: shares that do not sum to 1; an int below 2.
        PlanError: the pipe is streamed, and a number of parts, numbers of rows or `stratify` are given; groups such as
            those of `batch` would be divided; the pipe is shuffled before an operator such as `take`, so that positions
            change; numbers of rows do not sum to the length; there are fewer rows or groups than parts; there is no
            such column.
        DataError: a key, or a row without one, has no digest that is the same in each process.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(1000)).shuffle()
        >>> train, val = pipe.split({"train": 0.9, "val": 0.1}).values()
        >>> len(train), len(val), {*train} & {*val}
        (894, 106, set())
        >>> rows = fp.from_sequence([{"user": k % 5, "label": k % 2} for k in range(20)])
        >>> parts = rows.split({"train": 15, "val": 5}, stratify="label")
        >>> sum(row["label"] for row in parts["train"])
        8
        >>> folds = rows.split(2, key="user")
        >>> {row["user"] for row in folds[0]} & {row["user"] for row in folds.others(0)}
        set()
    """
    sizes = check_int("parts", parts, least=2) if isinstance(parts, int) else _check_parts(parts)
    names, classes = check_key("key", key), check_key("stratify", stratify)
    seed = check_int("seed", seed, least=0)
    by_size = _needs_positions(sizes, classes is not None)
    _check_no_groups(pipe)
    place = place_before_shuffles(pipe, same_rows=not (names is None and classes is None))
    moving = moving_positions(place.source)
    indexed = place.source.indexed and (names is None or moving is None or by_size is not None)
    if by_size and not indexed:
        raise PlanError(
            f"`split` with {by_size} must follow an indexed pipe, because it must know all rows before the first, "
            "and this pipe is streamed; give shares alone, or put `.load()` before it"
        )
    if indexed and moving is not None:
        raise PlanError(
            f"`split` must come before `{moving}`, because it divides rows by their position, which changes "
            "there; swap the two, or give shares and `key=`, by which rows keep their part anywhere"
        )
    if not indexed:
        place = Place(pipe, [])
    cls = IndexedSplitPart if indexed else StreamedSplitPart
    source = cast("Pipe[T]", place.source)
    shared = SharedDivision()

    def part(name: Any, others: bool = False) -> Pipe[T]:
        op = cls(sizes, key=names, stratify=classes, seed=seed, part=name, others=others, shared=shared)
        return place.followed(source.then(op))

    return Parts({name: part(name) for name in _names(sizes)}, lambda name: part(name, others=True))


def _names(parts: Mapping[Any, float] | int) -> list[Any]:
    return list(range(parts) if isinstance(parts, int) else parts)


def _needs_positions(sizes: Mapping[Any, float] | int, has_classes: bool) -> str | None:
    """The argument that makes `split` count rows, in words."""
    if has_classes:
        return "`stratify`"
    if isinstance(sizes, int):
        return "a number of parts"
    return "numbers of rows" if all(isinstance(size, int) for size in sizes.values()) else None


def _check_parts(parts: Mapping[K, float]) -> dict[K, float]:
    """The sizes by name: all ints, or all floats that sum to 1."""
    sizes: dict[K, float] = dict(parts) if isinstance(cast("object", parts), Mapping) else {}
    values: list[object] = list(sizes.values())
    if not values or any(isinstance(size, bool) or not isinstance(size, (int, float)) for size in values):
        raise ArgumentTypeError(
            f'`parts` must map names to shares, such as {{"train": 0.9, "val": 0.1}}, or be a number of parts, but '
            f"got: {parts!r}"
        )
    if any(not 0 <= size < math.inf for size in sizes.values()):
        raise ArgumentError(f"each share in `parts` must be >= 0 but got: {parts!r}")
    if all(isinstance(size, int) for size in sizes.values()):
        return sizes
    total = math.fsum(sizes.values())
    if abs(total - 1) > 1e-6:
        raise ArgumentError(
            f"the shares in `parts` must sum to 1, because each row is in one part, but sum to {total:.7g}: {parts!r}"
        )
    return {name: float(size) for name, size in sizes.items()}


# The place in a chain where `split` divides the rows: before the shuffles, which change positions.


class Place(NamedTuple):
    """The place where rows are divided.

    Attributes:
        source: the rows that are divided.
        later: the nodes between the source and the end of the chain, in their order.
    """

    source: Node
    later: list[Node]

    def followed(self, node: N) -> N:
        """`node`, followed by the later operators."""
        for later in self.later:
            node = type(node)(later.op, (node,), later.call_site)
        return node


def place_before_shuffles(pipe: Node, *, same_rows: bool) -> Place:
    """The place before the shuffles and the sharding at the end of the chain.

    The operators between give one row for each row; if `same_rows` is set, they give the row itself.
    """
    place = Place(pipe, [])
    later: list[Node] = []
    node = pipe
    while len(node.inputs) == 1 and _keeps_rows(node.op, same_rows=same_rows):
        later.insert(0, node)
        node = node.inputs[0]
        if isinstance(later[0].op, (Shuffle, ShardByRank)):
            place = Place(node, list(later))
    return place


def moving_positions(source: Node) -> str | None:
    """The code of an operator that changes the positions of rows between epochs or shards; None if none does."""
    moving = find_reshuffle(source)
    if moving is None:
        moving = next((n for n in walk(source) if n.op.trait in (Trait.SHARD, Trait.REPEATS)), None)
    return None if moving is None else node_code(moving).lstrip(".")


def _check_no_groups(pipe: Node) -> None:
    """Raise a `PlanError` if the elements are groups: the rows of one group may belong to several parts."""
    node = pipe
    while len(node.inputs) == 1 and not node.op.expands and node.op.order in (Order.ROW_LOCAL, Order.REORDERS):
        node = node.inputs[0]
    if node.inputs and node.op.order is Order.REGROUPS:
        code = node_code(node).lstrip(".")
        raise PlanError(
            f"`split` must come before `{code}`, because it divides rows, and after it come groups of rows; swap "
            "the two"
        )


def _keeps_rows(op: Operator, *, same_rows: bool) -> bool:
    if isinstance(op, (Shuffle, ShardByRank)) or op.trait is Trait.TRANSPARENT:
        return True
    return not same_rows and op.order is Order.ROW_LOCAL and op.seeks and not op.expands


# The operators of the parts.


def _no_positions() -> Positions:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class SplitPart(SameRows):
    """Gives the rows of one of the parts.

    Attributes:
        parts: the share of each part, or its number of rows; or the number of parts of equal size.
        key: decides on the part of a row; None is its position if the input is indexed, else its content.
        stratify: the key of the classes, each of which is divided.
        part: the name of the part.
        others: gives the rows of all other parts instead.
        shared: the division, which all parts share.
    """

    kind: ClassVar[str] = "split"
    order: ClassVar[Order] = Order.ROW_LOCAL

    parts: Mapping[Any, float] | int
    key: RowKey = field(default=None, kw_only=True)
    stratify: RowKey = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    part: Hashable = field(kw_only=True, repr=False)
    others: bool = field(default=False, kw_only=True, repr=False)
    shared: SharedDivision = field(default_factory=lambda: SharedDivision(), kw_only=True, repr=False, compare=False)

    @property
    def has_counts(self) -> bool:
        """True if the parts have exact sizes."""
        return isinstance(self.parts, int) or all(isinstance(size, int) for size in self.parts.values())

    @property
    def number(self) -> int:
        """The number of the part among all."""
        return _names(self.parts).index(self.part)

    @property
    def sizes(self) -> list[float]:
        """The share of each part, or its number of rows."""
        return [1.0] * self.parts if isinstance(self.parts, int) else list(self.parts.values())

    @property
    def keeps_groups(self) -> bool:
        """True if the groups of the key are whole, and sizes are goals."""
        return self.key is not None and (self.stratify is not None or self.has_counts)

    def call(self) -> str:
        name = value_code(self.part)
        return f"{call_code(self)}.others({name})" if self.others else f"{call_code(self)}[{name}]"

    def identity(self) -> Json:
        return {"without" if self.others else "part": value_code(self.part)}

    def remark(self, stage: StageView) -> str | None:
        if self.keeps_groups:
            classes = "" if self.stratify is None else f", also for the classes, {_described(self.stratify)}"
            return (
                f"keeps the rows of a group together, by {_described(self.key)}; sizes are goals{classes}; with more "
                "rows in the data, all may change sides"
            )
        if self.stratify is not None:
            return f"divides the rows of each class by their position; the classes are {_described(self.stratify)}"
        if self.has_counts:
            return "divides the rows by their position; with more rows in the data, all may change sides"
        return f"divides the rows by {self.divided_by()}; with more rows in the data, none changes sides"

    @abstractmethod
    def divided_by(self) -> str:
        """The rows' property that decides on their parts, in words."""

    def contains(self, digests: Digests) -> Mask:
        """For each row, if it is given, by the digests of keys, positions or contents."""
        (word,) = mixed(np.array([self.seed], np.uint64) + np.uint64(_SCALE))
        numbers = mixed(digests ^ word) >> np.uint64(1)
        sizes, number = self.sizes, self.number
        before, total = math.fsum(sizes[:number]), math.fsum(sizes)
        first, stop = (round(bound / total * _SCALE) for bound in (before, math.fsum([before, sizes[number]])))
        return ((numbers >= np.uint64(first)) & (numbers < np.uint64(stop))) ^ self.others


class RowParts(NamedTuple):
    """The division of all rows.

    Attributes:
        parts: the number of the part of each row.
        skipped: the rows that were skipped when the keys were read.
    """

    parts: npt.NDArray[Any]
    skipped: Positions


class SharedDivision:
    """Divides the rows once for all parts. It keeps the result as long as the input is the same."""

    def __init__(self) -> None:
        self._last: tuple[ref[Node], RowParts] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return SharedDivision, ()

    def of(self, stage: StageView, make: Callable[[], RowParts]) -> RowParts:
        """The division of the rows of the input of `stage`."""
        node = cast("Stage", stage.input).node
        if self._last is None or self._last[0]() is not node:
            self._last = ref(node), make()
        return self._last[1]


@dataclass(frozen=True, eq=False, repr=False)
class StreamedSplitPart(FilterRows, SplitPart):
    """Looks at the key or the content of each row."""

    kind: ClassVar[str] = "split"

    def resolve(self, stage: StageView) -> Operator:
        check_named_key(self, stage, self.key)
        return self

    def divided_by(self) -> str:
        return "their content, so equal rows stay together" if self.key is None else _described(self.key)

    def select(self, stage: StageView, block: Block, context: Context) -> FilterResult:
        digests, error = key_digests(block.rows, self.key)
        return FilterResult(*block.select(np.flatnonzero(self.contains(digests))), len(digests), error)


@dataclass(frozen=True, eq=False, repr=False)
class IndexedSplitPart(ChosenRows, SplitPart):
    """Knows its rows by position. They are found once, before the first row, and sent to the workers as bits.

    A row that is skipped when the keys are read is in the part of its position, so each of them counts in one part.
    """

    def divided_by(self) -> str:
        return "their position" if self.key is None else _described(self.key)

    def identity(self) -> Json:
        bits = b"" if self.chosen is None else self.chosen.bits.tobytes()
        length = 0 if self.chosen is None else len(self.chosen)
        return {"without" if self.others else "part": value_code(self.part), "length": length, "rows": crc32(bits)}

    def resolve(self, stage: StageView) -> Operator:
        for key in (self.key, self.stratify):
            check_named_key(self, stage, key)
        if self.key is None and not self.has_counts and self.stratify is None:
            return replace(self, chosen=RowSet.of(self._masks_by_position(stage)))
        divided = self.shared.of(stage, lambda: self._divided(stage))
        return self.with_rows((divided.parts == self.number) ^ self.others, divided.skipped)

    def within(self, rows: range) -> Operator:
        mask = np.unpackbits(self.row_set.bits)[rows.start : rows.stop].view(np.bool_)
        without_key = self.without_key[(self.without_key >= rows.start) & (self.without_key < rows.stop)]
        return self.with_rows(mask, without_key - rows.start)

    def _masks_by_position(self, stage: StageView) -> Iterator[Mask]:
        """For each range of the input's rows, the mask of those to give, by the digests of positions."""
        for start in range(0, _rows(stage), _POSITIONS):
            positions = np.arange(start, min(_rows(stage), start + _POSITIONS))
            yield self.contains(digests_of_column(positions))

    def _divided(self, stage: StageView) -> RowParts:
        """The part of each row, by keys, classes or numbers of rows."""
        rows = _rows(stage)
        counts = self._counts(stage, rows)
        parts = np.zeros(rows, np.min_scalar_type(len(counts)))
        nobody = _no_positions()
        if self.keeps_groups:
            parts[:], nobody = self._in_groups(stage, counts)
        elif self.stratify is not None:
            parts[self._by_class(stage, rows)] = _turns(counts)
        elif self.key is None:
            parts[self._order(rows)[range(rows)]] = np.repeat(np.arange(len(counts)), counts)
        else:
            digests, nobody = self._key_digests(stage)
            for number, name in enumerate(_names(self.parts)):
                parts[replace(self, part=name, others=False).contains(digests)] = number
        return RowParts(parts, nobody)

    def _key_digests(self, stage: StageView) -> tuple[Digests, Positions]:
        """The digests of the keys of all rows. A row that is skipped is a group of its own."""
        digests, skipped = read_key_digests(self, stage, self.key)
        digests[skipped] = digests_of_column(skipped)
        return digests, skipped

    def _in_groups(self, stage: StageView, counts: Positions) -> tuple[Positions, Positions]:
        """The part of each row, and the rows without a key."""
        digests, skipped = self._key_digests(stage)
        classes = None if self.stratify is None else read_key_digests(self, stage, self.stratify)[0]
        goals = counts if isinstance(self.parts, Mapping) and self.has_counts else np.array(self.sizes)
        groups = put_into_parts(digests, classes, goals, self.seed)
        if len(groups.digests) < np.count_nonzero(goals):
            raise PlanError(
                f"`{call_code(self)}` must have a group for each of its {np.count_nonzero(goals)} parts, because "
                f"groups stay whole, but there are {len(groups.digests)}, by {_described(self.key)}; divide into "
                "fewer parts",
                at=stage.call_site,
            )
        self._warn_of_large_group(stage, digests, groups, goals / goals.sum() * len(digests))
        return groups.parts[np.searchsorted(groups.digests, digests)], skipped

    def _warn_of_large_group(self, stage: StageView, digests: Digests, groups: Groups, goals: Any) -> None:
        large = np.flatnonzero(groups.sizes > 2 * goals[groups.parts])
        if not len(large):
            return
        group = int(large[groups.sizes[large].argmax()])
        first = int((digests == groups.digests[group]).argmax())
        with closing(Context()) as context:
            keys, _ = keys_of(parted(stage.input.rows(range(first, first + 1), context)).values, self.key)
        text = (
            f"`{call_code(self)}`: the group {keys[0]!r} has {groups.sizes[group]} rows, more than twice the "
            f"{goals[groups.parts[group]]:.0f} of its part; groups stay whole, so this part is too large and others "
            "are too small"
        )
        parts = max(2, int(len(digests) // groups.sizes[group]))
        Finding("large-group", "warning", stage.call_site, text, f".split({parts}, key={self.key!r})").warn()

    def _by_class(self, stage: StageView, rows: int) -> Positions:
        """The rows class by class, in a random order within each class.

        Rows that are skipped when the classes are read are a class of their own.
        """
        classes, _ = read_key_digests(self, stage, self.stratify)
        return np.lexsort((np.argsort(self._order(rows)[range(rows)]), classes))

    def _order(self, rows: int) -> Permutation:
        return Permutation(Context(seed=self.seed).key(self.kind), rows)

    def _counts(self, stage: StageView, rows: int) -> Positions:
        """The number of rows of each part."""
        if isinstance(self.parts, Mapping) and self.has_counts:
            self._check_counts(stage, rows)
            return np.array(self.sizes, np.int64)
        if isinstance(self.parts, int) and rows < self.parts:
            raise PlanError(
                f"`{call_code(self)}` must have a row for each part but has {rows}; divide into fewer parts",
                at=stage.call_site,
            )
        return _whole(rows, np.array(self.sizes))

    def _check_counts(self, stage: StageView, rows: int) -> None:
        total = sum(cast("Mapping[Any, int]", self.parts).values())
        if total != rows:
            raise PlanError(
                f"`{call_code(self)}`: the sizes of the parts must sum to the number of rows, {rows}, because each "
                f"row is in one part, but sum to {total}; shares such as 0.9 and 0.1 fit any number of rows",
                at=stage.call_site,
            )


def _rows(stage: StageView) -> int:
    assert stage.input.length is not None, "an indexed pipe knows its length"
    return stage.input.length


def _turns(counts: Positions) -> Positions:
    """The part of each row, if the parts take turns as in the method of Webster until each has its number of rows.

    So the rows of each class, which lie together, are divided in the proportions of the whole.
    """
    places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    return np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]


def _whole(rows: int, shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Whole numbers in these proportions that sum to `rows`: the largest remainders are rounded up."""
    quotas = shares / shares.sum() * rows
    counts: npt.NDArray[np.int64] = np.floor(quotas).astype(np.int64)
    counts[np.argsort(counts - quotas, kind="stable")[: rows - counts.sum()]] += 1
    return counts


def _described(key: RowKey) -> str:
    if isinstance(key, tuple):
        return f"the column{'s' * (len(key) > 1)} {', '.join(map(repr, key))}"
    return f"the function {value_code(cast('Callable[..., object]', key))}"


class Groups(NamedTuple):
    """The part of each group.

    Attributes:
        digests: of the key of each group, in ascending order.
        parts, sizes: the number of its part, and that of its rows.
    """

    digests: Digests
    parts: Ints
    sizes: Ints


def put_into_parts(groups: Digests, classes: Digests | None, goals: npt.NDArray[Any], seed: int) -> Groups:
    """Put groups into parts, whole: from the largest to the smallest, each into the part that misses most.

    That is the part in which the squares of the distances to the goals grow least: those of all rows and of each class,
    in parts of the goal. Groups of one size come in an order that depends on the seed.

    Args:
        groups, classes: digests, one for each row.
        goals: the sizes of the parts, in any unit.
        seed: another one puts groups of one size into other parts.

    Returns:
        The parts, which are the same on every machine.
    """
    digests, of_row, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    kinds = np.zeros(len(groups), np.int64) if classes is None else np.unique(classes, return_inverse=True)[1]
    count = int(kinds.max(initial=0)) + 1
    pairs, rows = np.unique(of_row * count + kinds, return_counts=True)
    bounds = np.searchsorted(pairs, np.arange(len(digests) + 1) * count).tolist()
    (word,) = mixed(np.array([seed], np.uint64))
    order = np.lexsort((mixed(digests ^ word), -sizes))
    totals = np.bincount(kinds, minlength=count).tolist()
    parts = _parts_in_order(order.tolist(), bounds, (pairs % count).tolist(), rows.tolist(), totals, goals.tolist())
    return Groups(digests, np.array(parts, np.int64), sizes)


def _parts_in_order(
    order: list[int], bounds: list[int], kinds: list[int], rows: list[int], totals: list[int], goals: Sequence[float]
) -> list[int]:
    """The part of each group.

    If a part has h of g rows and n more come, its square grows by (2h + n) n - 2gn. Over a goal that is in proportion
    to the size of the part, the last term is the same for all parts, so that it is left out. All sums are of floats in
    a fixed order.

    Args:
        order: the groups, from the first to the last.
        bounds: the classes of group k are those from `bounds[k]` to `bounds[k + 1]` of `kinds` and `rows`.
        kinds, rows: the number of a class, and of its rows in the group.
        totals: the rows of each class.
        goals: the sizes of the parts.
    """
    result = [0] * len(order)
    had = [[0] * len(goals) for _ in totals]  # the rows of each class in each part
    all_had, all_rows = [0] * len(goals), sum(totals)
    for group in order:
        own = range(bounds[group], bounds[group + 1])
        size = sum(rows[k] for k in own)
        costs = [(2 * part + size) * size / all_rows for part in all_had]
        for k in own:
            count, total = rows[k], totals[kinds[k]]
            costs = [cost + (2 * part + count) * count / total for cost, part in zip(costs, had[kinds[k]], strict=True)]
        costs = [cost / goal if goal else math.inf for cost, goal in zip(costs, goals, strict=True)]
        best = costs.index(min(costs))
        result[group] = best
        all_had[best] += size
        for k in own:
            had[kinds[k]][best] += rows[k]
    return result
