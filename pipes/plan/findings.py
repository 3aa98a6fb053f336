"""What a plan alone shows to be costly: a loader warns of it, and `explain` and `check` say it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..core.findings import Finding
from ..core.graph import Node, find_reshuffle, node_code, walk
from ..core.operator import Order, Trait
from ..core.process import bytes_text
from ..ops.shuffle import Shuffle, divides_window
from ..ops.slice import SliceBase
from .division import SharedRead
from .plan import Plan

MAX_READ_AGAIN, MAX_BYTES_READ_AGAIN = 0.1, 2**20
"""The part of an input, and its bytes, that may be read again in each epoch without a word."""


def read_again(plan: Plan, workers: int, *, in_threads: bool = False) -> Iterator[Finding]:
    """Inputs of which several processes read the same; workers that are threads share what their process reads."""
    for node, read in plan.shared_reads().items():
        is_shared = in_threads and (read.units is None or node.op.trait is Trait.EACH_PROCESS)
        again = read.repeated(plan.world_size, 0 if is_shared else plan.busy_workers(workers))
        if again <= MAX_READ_AGAIN or (read.size is not None and again * read.size <= MAX_BYTES_READ_AGAIN):
            continue
        cost = "" if read.size is None else f", {bytes_text(int(again * read.size))},"
        advice, repair = _read_less(plan, node, read, workers)
        text = f"{again:.0%} of the input{cost} is read again in each epoch, because {read.reason}; {advice}"
        yield Finding("few-units" if read.units else "read-again", "warning", node.call_site, text, repair)


def _read_less(plan: Plan, node: Node, read: SharedRead, workers: int) -> tuple[str, str]:
    """How to read it less often, in words and as code."""
    write = 'fp.write_parquet(source, "rows", rows_per_file=10_000)\npipe = fp.read_parquet("rows")'
    if read.units is None:
        if read.can_dispatch and workers > 1:
            advice = f"put `dispatch()` after it, so that one process of each rank reads it, or {read.repair}"
            return advice, f"{node_code(node) if node.inputs else ''}.dispatch()"
        return read.repair, write
    shards = plan.shards_for_whole_units(workers, MAX_READ_AGAIN)
    if shards is None:
        return "write it in smaller files or row groups", write
    reading = f"workers={workers}, " if workers else ""
    advice = f"give the loader `shards={shards}`, or write it in smaller files or row groups"
    return advice, f"fp.Loader(pipe, {reading}shards={shards})"


def idle_workers(plan: Plan, workers: int) -> Iterator[Finding]:
    """Workers of a rank that have no shard; of rows in source order `explain` says why one worker makes them."""
    shards = len(plan.rank_shards)
    idle = workers - plan.busy_workers(workers)
    if not idle or shards == 1:
        return
    text = (
        f"{idle} of {workers} workers have nothing to do, because a rank has {shards} shards and each runs "
        f"in one worker; give the loader `shards={workers * plan.world_size}`, which is another order"
    )
    repair = f"fp.Loader(pipe, workers={workers}, shards={workers * plan.world_size})"
    yield Finding("idle-workers", "warning", None, text, repair)


def other_rows(plan: Plan, *, of_chains: bool = False) -> Iterator[Finding]:
    """Slices of rows that are shuffled again in each epoch.

    Args:
        of_chains: only if nothing but one chain of operators lies between: `take` of a mixture or of rounds sets the
            length of an epoch, and is no part of the data.
    """
    slices: dict[Node, list[str]] = {}
    for node in walk(plan.root):
        if isinstance(node.op, SliceBase) and (shuffle := find_reshuffle(node.inputs[0])) is not None:
            if of_chains and not _is_in_chain(shuffle, node.inputs[0]):
                continue
            slices.setdefault(shuffle, []).append(f"`{node_code(node).lstrip('.')}`")
    for shuffle, calls in slices.items():
        text = (
            f"{', '.join(dict.fromkeys(calls))}: gives other rows in each epoch, because the rows before it are "
            "shuffled again; for fixed parts of the data use `split`, or `shuffle(each_epoch=False)`"
        )
        window = shuffle.op.window if isinstance(shuffle.op, Shuffle) else None
        arguments = f"window={window}, each_epoch=False" if window else "each_epoch=False"
        yield Finding("other-rows", "warning", shuffle.call_site, text, f".shuffle({arguments})")


def _is_in_chain(node: Node, end: Node) -> bool:
    while end is not node and len(end.inputs) == 1 and end.op.trait is not Trait.REPEATS:
        end = end.inputs[0]
    return end is node and len(node.inputs) == 1


class Windows(NamedTuple):
    """The rows that an operator holds.

    Attributes:
        node: the operator.
        rows: the number of rows that a rank holds; or each of its processes, if they run it on all rows.
        shards: of a rank; 0 if each process runs the operator on all rows.
    """

    node: Node
    rows: int
    shards: int


def windows(plan: Plan) -> Iterator[Windows]:
    """The operators that hold rows to change their order."""
    undivided = {node for point in plan.shard_points() for node in walk(point)}  # such as what `load` reads
    for node in walk(plan.root):
        window = node.op.lookback()
        if not node.inputs or node.op.order is not Order.REORDERS or node.indexed or not window:
            continue
        shards = 0 if node in undivided else len(plan.rank_shards)
        if shards and not divides_window(node.op):
            window *= shards
        length = plan.stage_of(node).input.length
        if length is not None:
            window = min(window, -(-length // (plan.world_size if shards else 1)))
        yield Windows(node, window, shards)
