"""`redivide`: divides the rest of a pass over the data among another number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from ..core.context import Context, Mark
from ..core.graph import Node, walk
from ..core.operator import Operator, Order, Trait
from ..errors import StateError
from .divide import Line, OpenRun, Part, Redivision, Span, divide_rest
from .plan import Plan
from .sharding import DividedStream, Sharding


def redivide(plan: Plan, first: int, runs: Sequence[OpenRun], base: int, data_pass: int) -> list[list[OpenRun]]:
    """The runs of each shard of `plan`, which divide what is left of a pass.

    A run that has begun ends with what it has opened. What nobody has opened is divided among new runs. The result is a
    function of the arguments, so all ranks come to the same.

    Args:
        plan: of the new number of ranks.
        first: the number of shards of the first division of the pass.
        runs: those of all ranks that have not ended.
        base: the origin of the first new run.
        data_pass: the pass.

    Raises:
        StateError: the graph cannot be redivided; the message names the operator.
    """
    sharding = plan.sharding_of(Redivision(first, base, "", {}))
    sharding.subgraph(plan.main, 0)  # numbers the streams
    times = _check(plan, sharding)
    runs = sorted(runs, key=lambda run: run.origin)
    running = [run for run in runs if run.tail_of is None]
    parts: list[dict[str, Part]] = [{} for _ in range(plan.shards)]
    for name, stream in sharding.streams.items() if running else ():
        rest = _Rest(running, name, first, _lines(plan, sharding, stream, data_pass))
        for shard, part in enumerate(rest.divided(plan.shards, times)):
            if part is not None:
                parts[shard][name] = part
    begun = [run.stopped(sharding.streams, first) for run in runs if run.begun]
    return [
        [*begun[shard :: plan.shards], *([OpenRun(base + shard, own)] if own else [])]
        for shard, own in enumerate(parts)
    ]


class _Rest:
    """The rest of one stream.

    Attributes:
        parts, marks: the part of each run, and the mark of what it has opened of that.
        line: makes the line of a round.
    """

    def __init__(self, runs: Sequence[OpenRun], name: str, first: int, line: Callable[[int], Line | None]) -> None:
        self.parts = [run.part(name, first) for run in runs]
        self.marks = [cast("Mark | None", run.marks.get(name)) for run in runs]
        self.line = line

    def divided(self, shards: int, times: int) -> Iterator[Part | None]:
        """The part of each new shard; None if it has nothing of the stream.

        Args:
            shards: how many new shards there are.
            times: the rounds of the `repeat` around.
        """
        rounds = self._rounds()
        later = self._later_rounds_are_whole()
        last = max(rounds) if later else times - 1
        listed: list[list[tuple[int, tuple[Span, ...]]]] = [[] for _ in range(shards)]
        for number in range(min(rounds), last + 1):
            line = self.line(number)
            rest = [
                span
                for part, mark in zip(self.parts, self.marks, strict=True)
                for span in part.rest(number, mark, line)
            ]
            for shard, spans in enumerate(divide_rest(rest, line, shards)):
                listed[shard].append((number, tuple(spans)))
        for shard, of_shard in enumerate(listed):
            goes_on = (shards, shard) if later and last < times - 1 else None
            has_any = any(spans for _, spans in of_shard)
            yield Part(tuple(of_shard), goes_on) if has_any or goes_on else None

    def _rounds(self) -> set[int]:
        """The rounds that have begun or are divided already, and the first one if a part has not begun."""
        begun = {0 if mark is None else cast("int", mark[0]) for mark in self.marks}
        return begun | {number for part in self.parts for number, _ in part.listed}

    def _later_rounds_are_whole(self) -> bool:
        """Whether nobody has begun the rounds after those listed: each shard of a division still has its part."""
        later = {part.later for part in self.parts if part.later is not None and part.until is None}
        return bool(later) and len(later) == next(iter(later))[0] == len({shard for _, shard in later})


def _lines(plan: Plan, sharding: Sharding, stream: DividedStream, data_pass: int) -> Callable[[int], Line | None]:
    """Makes the line of a stream in a round."""
    repeated = any(stream.node in walk(node) for node in _repeats(plan.root, sharding))
    rounds: dict[int, Line | None] = {}

    def line(number: int) -> Line | None:
        if number not in rounds:
            context = Context(seed=plan.seed, epoch=data_pass, rounds=(number,) if repeated else ())
            rounds[number] = sharding.line(stream, context)
        return rounds[number]

    return line


def _check(plan: Plan, sharding: Sharding) -> int:
    """Checks that a shard may end anywhere.

    Returns:
        The number of rounds in which shards run their parts: those of a `repeat`.

    Raises:
        StateError: an operator of the shards looks at positions or at all rows of a shard, or repeats without end.
    """
    for node in _nodes_of_shards(plan.root, sharding):
        op = node.op
        if op.order is Order.GLOBAL:
            raise _refusal(node, sharding, "counts the rows of each shard by itself")
        if op.trait is Trait.COUNTS_ROWS and not node.indexed:
            raise _refusal(node, sharding, "follows a schedule that counts the rows of all shards")
        if node.indexed and op.order is Order.REORDERS:
            raise _refusal(node, sharding, "puts all rows of each shard into one order")
        if type(op).blocks is Operator.blocks:
            raise _refusal(node, sharding, "reads the rows of each shard by position only")
    repeats = _repeats(plan.root, sharding)
    if not repeats:
        return 1
    if len(repeats) > 1:
        raise _refusal(repeats[0], sharding, "is there more than once in each shard")
    (node,) = repeats
    outside = set(_nodes_of_shards(plan.root, sharding, but=node))
    if any(below in outside for below in walk(node) if below is not node):
        raise _refusal(node, sharding, "repeats what each shard reads without it too")
    times = plan.rounds_of(node)
    if times is None:
        raise _refusal(node, sharding, "repeats each shard without end (`steps=` does so without it)")
    return times


def _repeats(root: Node, sharding: Sharding) -> list[Node]:
    return [node for node in _nodes_of_shards(root, sharding) if node.op.trait is Trait.REPEATS]


def _nodes_of_shards(root: Node, sharding: Sharding, but: Node | None = None) -> Iterator[Node]:
    """The nodes that each shard runs on its own rows, those only below `but` left out."""
    seen: set[Node] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node in seen or node is but or not sharding.runs_per_shard(node):
            continue
        seen.add(node)
        yield node
        whole = node.op.order is Order.GLOBAL
        waiting += [child for child in node.inputs if not whole or child.has_user_boundary]


def _refusal(node: Node, sharding: Sharding, reason: str) -> StateError:
    fitting = ", ".join(str(count) for count in range(1, sharding.shards + 1) if sharding.shards % count == 0)
    return StateError(
        f"`{node.op.kind}` {reason}, so in the middle of an epoch these states of {sharding.shards} shards go on only "
        f"on {fitting} ranks; or save at the end of an epoch"
    )
