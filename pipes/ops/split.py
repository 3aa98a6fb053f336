"""`split`: the rows divided among several pipes, such as training and validation, once and for all."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ..core.block import Block, Parted, parted
from ..core.checks import check_int
from ..core.code import call_code, value_code
from ..core.context import Context, mixed
from ..core.cursor import START, Json
from ..core.graph import Node, find_reshuffle, node_code, walk
from ..core.operator import Boundary, Operator, Order, StageView
from ..core.rows import BlockRows, Indices, index_array, take
from ..core.skips import Skipped, SkippedRow
from ..engine.seeds import Permutation
from ..errors import ArgumentError, ArgumentTypeError, PlanError, with_call_site
from ._filter_rows import FilterResult, FilterRows
from ._keys import Digests, Key, RowKey, check_key, check_named_key, digests_of_column, key_digests
from ._shared import Rearranged, SameRows, data_error
from .placement import ShardByRank
from .shuffle import Shuffle

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
N = TypeVar("N", bound=Node)
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

_POSITIONS = 2**20
"""Positions that are looked at together."""
_SCALE = 2**63
_LATE = "it failed when the keys were read, and does not fail now; its key is that of another part"


def split(
    pipe: Pipe[T],
    /,
    parts: Mapping[K, float],
    *,
    key: Key | None = None,
    stratify: Key | None = None,
    seed: int = 0,
) -> dict[K, Pipe[T]]:
    """Divide the rows among parts, such as training and validation: a row is in the same part in each epoch and run.

        a b c d e f   ->   split({"train": 4, "val": 2}): b c e f   and   a d

    Element: the rows as they are; together the parts have each row once. Order: the input's. An indexed pipe is divided
    before its shuffles, so a row stays in its part although they change in each epoch; the parts are then indexed.
    Length: that of the part if the pipe is indexed, else unknown. State: a position.

    A digest of its `key`, which is the same on every machine, decides on the part of a row: it lies in the interval of
    one part. So appending data moves no row, and the sizes are near the shares, not exact. Without `key`, it is the
    row's position in an indexed pipe, and in a streamed one its content, so equal rows stay together. `explain()` says
    which. A row that a policy skips when an indexed pipe is divided counts in one of the parts.

    Args:
        parts: the share of each part by its name, which sum to 1; or, for an indexed pipe, numbers of rows, which sum
            to the length.
        key: rows of one key are in one part, such as all images of a person: a column, several, or a function of the
            row. It must not depend on random draws. With a function the parts are streamed; a column of an indexed
            pipe is read once, before the first row.
        stratify: the key of a row's class, for indexed pipes: each class is divided in the same proportions, as nearly
            as whole rows allow, and each part has exactly its share of all rows.
        seed: another seed divides the rows in another way. The loader's seed does not matter.

    Raises:
        ArgumentError: shares that do not sum to 1; a `key` together with numbers of rows, or with `stratify`.
        PlanError: the pipe is streamed, and numbers of rows or `stratify` are given; groups such as those of `batch`
            would be divided; the pipe is shuffled before an operator such as `take`, so that positions change; numbers
            of rows do not sum to the length; there is no such column.
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
    """
    sizes = _check_parts(parts)
    names, classes = check_key("key", key), check_key("stratify", stratify)
    seed = check_int("seed", seed, least=0)
    by_size = _needs_positions(sizes, classes is not None)
    if by_size and names is not None:
        raise ArgumentError(
            with_call_site(f"`key` must not be given with {by_size}, which divides rows by position; leave one out")
        )
    _check_no_groups(pipe)
    place = _place_before_shuffles(pipe, same_rows=not (names is None and classes is None))
    moving = _moving_positions(place.source)
    indexed = place.source.indexed and not callable(names) and (names is None or moving is None)
    if by_size and not indexed:
        raise PlanError(
            with_call_site(
                f"`split` with {by_size} must follow an indexed pipe, because it must know all rows before the first, "
                "and this pipe is streamed; give shares alone, or put `.load()` before it"
            )
        )
    if indexed and moving is not None:
        raise PlanError(
            with_call_site(
                f"`split` must come before `{moving}`, because it divides rows by their position, which changes "
                "there; swap the two, or give `key=`, by which rows keep their part anywhere"
            )
        )
    if not indexed:
        place = Place(pipe, [])
    cls = IndexedSplitPart if indexed else StreamedSplitPart
    source = cast("Pipe[T]", place.source)
    ends: dict[K, Pipe[T]] = {}
    for name in sizes:
        ends[name] = place.followed(source.then(cls(sizes, key=names, stratify=classes, seed=seed, part=name)))
    return ends


def _needs_positions(sizes: Mapping[Any, float], has_classes: bool) -> str | None:
    """The argument that makes `split` count rows, in words."""
    if has_classes:
        return "`stratify`"
    return "numbers of rows" if all(isinstance(size, int) for size in sizes.values()) else None


def _check_parts(parts: Mapping[K, float]) -> dict[K, float]:
    """The sizes by name: all ints, or all floats that sum to 1."""
    sizes: dict[K, float] = dict(parts) if isinstance(cast("object", parts), Mapping) else {}
    values: list[object] = list(sizes.values())
    if not values or any(isinstance(size, bool) or not isinstance(size, (int, float)) for size in values):
        raise ArgumentTypeError(
            with_call_site(
                f'`parts` must map names to shares, such as {{"train": 0.9, "val": 0.1}}, but got: {parts!r}'
            )
        )
    if any(not 0 <= size < math.inf for size in sizes.values()):
        raise ArgumentError(with_call_site(f"each share in `parts` must be >= 0 but got: {parts!r}"))
    if all(isinstance(size, int) for size in sizes.values()):
        return sizes
    total = math.fsum(sizes.values())
    if abs(total - 1) > 1e-6:
        raise ArgumentError(
            with_call_site(
                f"the shares in `parts` must sum to 1, because each row is in one part, but sum to {total:.7g}: "
                f"{parts!r}"
            )
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


def _place_before_shuffles(pipe: Node, *, same_rows: bool) -> Place:
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


def _moving_positions(source: Node) -> str | None:
    """The code of an operator that changes the positions of rows between epochs or shards; None if none does."""
    moving = find_reshuffle(source)
    if moving is None:
        moving = next((n for n in walk(source) if n.op.boundary is Boundary.SHARD or n.op.repeats), None)
    return None if moving is None else node_code(moving).lstrip(".")


def _check_no_groups(pipe: Node) -> None:
    """Raise a `PlanError` if the elements are groups: the rows of one group may belong to several parts."""
    node = pipe
    while len(node.inputs) == 1 and not node.op.expands and node.op.order in (Order.ROW_LOCAL, Order.REORDERS):
        node = node.inputs[0]
    if node.inputs and node.op.order is Order.REGROUPS:
        code = node_code(node).lstrip(".")
        raise PlanError(
            with_call_site(
                f"`split` must come before `{code}`, because it divides rows, and after it come groups of rows; swap "
                "the two"
            )
        )


def _keeps_rows(op: Operator, *, same_rows: bool) -> bool:
    if isinstance(op, (Shuffle, ShardByRank)) or op.transparent:
        return True
    return not same_rows and op.order is Order.ROW_LOCAL and op.seeks and not op.expands


# The operators of the parts.


def _no_positions() -> Positions:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class SplitPart(SameRows):
    """Gives the rows of one of the parts.

    Attributes:
        parts: the share of each part, or its number of rows.
        key: decides on the part of a row; None is its position if the input is indexed, else its content.
        stratify: the key of the classes, each of which is divided.
        part: the name of the part.
    """

    kind: ClassVar[str] = "split"
    order: ClassVar[Order] = Order.ROW_LOCAL

    parts: Mapping[Any, float]
    key: RowKey = field(default=None, kw_only=True)
    stratify: RowKey = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    part: Hashable = field(kw_only=True, repr=False)

    @property
    def has_counts(self) -> bool:
        """True if the parts have exact sizes."""
        return all(isinstance(size, int) for size in self.parts.values())

    def call(self) -> str:
        return f"{call_code(self)}[{value_code(self.part)}]"

    def identity(self) -> Json:
        return {"part": value_code(self.part)}

    def remark(self, stage: StageView) -> str | None:
        if self.stratify is not None:
            return f"divides the rows of each class by their position; the classes are {_described(self.stratify)}"
        if self.has_counts:
            return "divides the rows by their position; with more rows in the data, all may change sides"
        return f"divides the rows by {self.division()}; with more rows in the data, none changes sides"

    @abstractmethod
    def division(self) -> str:
        """The rows' property that decides on their parts, in words."""

    def contains(self, digests: Digests) -> Mask:
        """For each row, if it is in the part, by the digests of keys, positions or contents."""
        (word,) = mixed(np.array([self.seed], np.uint64) + np.uint64(_SCALE))
        numbers = mixed(digests ^ word) >> np.uint64(1)
        before, share = self._before_and_share()
        total = math.fsum(self.parts.values())
        first, stop = (round(bound / total * _SCALE) for bound in (before, math.fsum([before, share])))
        return (numbers >= np.uint64(first)) & (numbers < np.uint64(stop))

    def _before_and_share(self) -> tuple[float, float]:
        """The shares of the parts before this one together, and its own."""
        names = list(self.parts)
        sizes = list(self.parts.values())
        number = names.index(self.part)
        return math.fsum(sizes[:number]), sizes[number]


@dataclass(frozen=True)
class StreamedSplitPart(FilterRows, SplitPart):
    """Looks at the key or the content of each row."""

    kind: ClassVar[str] = "split"

    def resolve(self, stage: StageView) -> Operator:
        check_named_key(self, stage, self.key)
        return self

    def division(self) -> str:
        return "their content, so equal rows stay together" if self.key is None else _described(self.key)

    def select(self, stage: StageView, block: Block) -> FilterResult:
        digests, error = key_digests(block.rows, self.key)
        return FilterResult(*block.select(np.flatnonzero(self.contains(digests))), len(digests), error)


@dataclass(frozen=True)
class IndexedSplitPart(Rearranged, SplitPart):
    """Knows its rows by position. They are found once, before the first row, and sent to the workers as bits.

    A row that is skipped when the keys are read is in the part of its position, so each of them counts in one part.

    Attributes:
        rows_of_part: the positions of its rows in the input.
        without_key: those of them that were skipped when the keys were read. If such a row does not fail later, its key
            may be that of another part.
    """

    rows_of_part: RowSet | None = field(default=None, kw_only=True, repr=False, compare=False)
    without_key: Positions = field(default_factory=_no_positions, kw_only=True, repr=False, compare=False)

    def division(self) -> str:
        return "their position" if self.key is None else _described(self.key)

    def identity(self) -> Json:
        bits = b"" if self.rows_of_part is None else self.rows_of_part.bits.tobytes()
        return {"part": value_code(self.part), "rows": crc32(bits)}

    def resolve(self, stage: StageView) -> Operator:
        for key in (self.key, self.stratify):
            check_named_key(self, stage, key)
        if self.key is None:
            return replace(self, rows_of_part=RowSet.of(self._masks(stage)))
        digests, skipped = self._key_digests(stage, self.key)
        digests[skipped] = digests_of_column(skipped)
        mask = self.contains(digests)
        return replace(self, rows_of_part=RowSet.of([mask]), without_key=skipped[mask[skipped]])

    def length(self, stage: StageView) -> int | None:
        return len(self._rows_of_part)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return self._rows_of_part.positions(indices)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows = super().rows(stage, indices, context)
        if len(self.without_key):
            places = index_array(self.places(stage, indices, context))
            late = np.flatnonzero(np.isin(places, self.without_key))
            if len(late):
                return self._without_rows_of_others(stage, rows, set(late.tolist()), places, context)
        return rows

    def _without_rows_of_others(
        self, stage: StageView, rows: BlockRows, late: set[int], places: Positions, context: Context
    ) -> BlockRows:
        """Skip rows whose keys were not known, and now are those of other parts: a key must not be in two parts."""
        parts = parted(rows)
        numbers = [number for number, place in enumerate(parts.places) if place in late]
        digests, error = key_digests(take(parts.values, np.array(numbers, np.int64)), self.key)
        if error is not None:
            place = parts.places[numbers[len(digests)]]
            raise data_error(self, stage.failed_at(error, int(places[place]), context))
        others = {numbers[number] for number in np.flatnonzero(~self.contains(digests)).tolist()}
        if not others:
            return rows
        own = [number for number in range(len(parts.places)) if number not in others]
        values = take(parts.values, np.array(own, np.int64))
        mark = Skipped((SkippedRow(f".{self.call()}", _LATE),))
        skipped = {**parts.skipped, **{parts.places[number]: mark for number in others}}
        return Parted(values, [parts.places[number] for number in own], skipped, parts.total).merged(values)

    @property
    def _rows_of_part(self) -> RowSet:
        assert self.rows_of_part is not None, "`resolve` finds the rows before a run"
        return self.rows_of_part

    def _masks(self, stage: StageView) -> Iterator[Mask]:
        """For each range of the input's rows, the mask of those in the part."""
        rows = stage.input.length
        assert rows is not None, "an indexed pipe knows its length"
        if self.stratify is not None:
            yield self._stratified(stage, rows)
        elif self.has_counts:
            yield self._permuted(stage, rows)
        else:
            for start in range(0, rows, _POSITIONS):
                positions = np.arange(start, min(rows, start + _POSITIONS))
                yield self.contains(digests_of_column(positions))

    def _permuted(self, stage: StageView, rows: int) -> Mask:
        """A stretch of a random order for each part."""
        self._check_counts(stage, rows)
        before, count = map(int, self._before_and_share())
        order = self._order(rows)
        mask = np.zeros(rows, np.bool_)
        for start in range(before, before + count, _POSITIONS):
            mask[order[range(start, min(before + count, start + _POSITIONS))]] = True
        return mask

    def _stratified(self, stage: StageView, rows: int) -> Mask:
        """Divide the rows class by class, in a random order within each class, so that each part gets its size.

        Rows that are skipped when the classes are read are a class of their own. The parts take turns as in the method
        of Webster, so each class is divided in the proportions of the whole.
        """
        sizes = list(self.parts.values())
        if self.has_counts:
            self._check_counts(stage, rows)
            counts = np.array(sizes, np.int64)
        else:
            counts = _whole(rows, np.array(sizes))
        assert self.stratify is not None
        classes, _ = self._key_digests(stage, self.stratify)
        by_class = np.lexsort((np.argsort(self._order(rows)[range(rows)]), classes))
        places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        turns = np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]
        mask = np.zeros(rows, np.bool_)
        mask[by_class[turns == list(self.parts).index(self.part)]] = True
        return mask

    def _order(self, rows: int) -> Permutation:
        return Permutation(Context(seed=self.seed).key(self.kind), rows)

    def _key_digests(self, stage: StageView, key: RowKey) -> tuple[Digests, Positions]:
        """The digests of the keys of all rows, and the positions of those that are skipped, whose digest is 0."""
        digests = np.zeros(stage.input.length or 0, np.uint64)
        skipped = [_no_positions()]
        with closing(Context()) as context:
            for block in stage.input.blocks(START, context):
                parts = parted(block.rows)
                places = np.array(parts.places, np.int64)
                keyed, error = key_digests(parts.values, key)
                if error is not None:
                    raise data_error(self, stage.failed(error, block.at.advance(int(places[len(keyed)])), context))
                digests[block.at.position + places] = keyed
                holes = [place for place, mark in parts.skipped.items() if mark.is_row]
                skipped.append(block.at.position + np.array(holes, np.int64))
        return digests, np.concatenate(skipped)

    def _check_counts(self, stage: StageView, rows: int) -> None:
        total = sum(cast("Mapping[Any, int]", self.parts).values())
        if total != rows:
            raise PlanError(
                with_call_site(
                    f"`{call_code(self)}`: the sizes of the parts must sum to the number of rows, {rows}, because each "
                    f"row is in one part, but sum to {total}; shares such as 0.9 and 0.1 fit any number of rows",
                    stage.call_site,
                )
            )


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


# Some of the rows of an indexed input, as one bit for each row.


_WORD = 64
"""The number of bits after which the rows so far are counted."""
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # of each byte
_ONES = _BITS.sum(1, dtype=np.uint8)  # in each byte
_PLACES = np.argsort(1 - _BITS, axis=1, kind="stable")  # of each one in a byte


class RowSet:
    """Positions in ascending order. `positions` finds those at any places among them; it costs two bits for each row.

    Attributes:
        bits: one for each row of the input, 64 of them in each row of the array.
    """

    def __init__(self, bits: npt.NDArray[np.uint8]) -> None:
        self.bits = bits
        # The number of rows of the set before each word.
        self._before = np.cumsum(np.append(0, _ONES[bits].sum(1, dtype=np.int64)))

    @staticmethod
    def of(masks: Iterable[npt.NDArray[np.bool_]]) -> RowSet:
        """The rows at which the masks, one after the other, are true; all but the last are multiples of 8 long."""
        packed = np.concatenate([np.zeros(0, np.uint8), *map(np.packbits, masks)])
        words = -(-len(packed) // (_WORD // 8))
        bits = np.zeros(words * (_WORD // 8), np.uint8)
        bits[: len(packed)] = packed
        return RowSet(bits.reshape(words, _WORD // 8))

    def __reduce__(self) -> tuple[object, ...]:
        return RowSet, (self.bits,)

    def __len__(self) -> int:
        return int(self._before[-1])

    def positions(self, indices: Indices) -> npt.NDArray[np.int64]:
        """The positions of the rows at `indices` of the set."""
        if isinstance(indices, range) and indices.step == 1 and indices:
            first = int(np.searchsorted(self._before, indices.start, side="right")) - 1
            last = int(np.searchsorted(self._before, indices.stop - 1, side="right"))
            rows = np.flatnonzero(np.unpackbits(self.bits[first:last])) + first * _WORD
            begin = indices.start - int(self._before[first])
            return rows[begin : begin + len(indices)]
        places = index_array(indices)
        words = np.searchsorted(self._before, places, side="right") - 1
        ranks = (places - self._before[words]).astype(np.uint8)  # among those of the word
        word_bytes = self.bits[words]
        ones = np.cumsum(_ONES[word_bytes], axis=1, dtype=np.uint8)
        byte = (ones > ranks[:, None]).argmax(1)
        each = np.arange(len(places))
        value = word_bytes[each, byte]
        bit = _PLACES[value, ranks - ones[each, byte] + _ONES[value]]
        return index_array(words * _WORD + byte * 8 + bit)
