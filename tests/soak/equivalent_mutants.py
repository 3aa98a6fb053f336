"""Mutants that mean the same as the code, by module: the changed line, and why nothing can tell them apart."""

from __future__ import annotations

_SKIPPED = "the engine takes skipped rows out and puts them back, which only takes longer"
_MOVERS = ("PlacedShard", "RestOfShard", "StreamedShard")
_RUN_AGAIN = "rows before a place are then run again, which takes longer"
_ONE_WAY = "the other way to read gives the same rows"

EQUIVALENT: dict[str, dict[str, str]] = {
    "plan/divide.py": {
        **{
            f"Pieces.rows: cut = np.flatnonzero(self.slots {at_least})": "a unit of one slot has complete turns only"
            for at_least in (">= 1", "> 0")
        },
        "divide: if not count or (weights == weights[-1]).all():": "if all are equal, they are equal to the last",
        "divide: slots = np.clip(-(-weights * SLOTS_PER_SHARE // mean), 2, MAX_SLOTS)": (
            "it matters for a unit of no weight, which is never cut"
        ),
        "_equal: slots = np.full(left, min(shards, -(-SLOTS_PER_SHARE * shards // max(2, count))))": (
            "one unit and two have as many slots as there are shards"
        ),
        "_equal: spans, places, *parts = _divide_at(weights, slots, np.arange(shards + 2) * left, count // near)": (
            "a cut at the end of the line makes an empty span"
        ),
        "_in_turn: owners = np.full(len(weights), -2)": "any number below 0 stands for no shard",
        "_divide_at: slot = (2 * before * slots[at] + weights[at]) // np.maximum(2, 2 * weights[at])": (
            "it matters for a unit of no weight, where the dividend is 0"
        ),
    },
    "loading/job_state.py": {
        "resumed_elsewhere: progress = Progress(states[-1].epoch, sum((one.step for one in states)) // "
        "plan.world_size, passes[0])": "the states of a job have one epoch",
    },
    "plan/shards.py": {
        **{f"{name}: moves_skipped: ClassVar[bool] = False": _SKIPPED for name in _MOVERS},
        **{f": MIN_SLICED_ROWS = {rows}": _ONE_WAY for rows in (63, 65)},
        **{f"{name}: seeks: ClassVar[bool] = False": _RUN_AGAIN for name in ("StreamedShard", "RestOfShard")},
        **{
            f"PlacedShard.trace: yield (stage.input, int(self.places(stage, range(index, index + {stop}), "
            f"context)[{place}]), context.unsharded())": "it takes one place"
            for stop, place in ((2, 0), (1, -1))
        },
        "RemainingShard.places: left, after = cast('Stage', stage.input).memo(('right', self.taken), "
        "self.taken.left)": "it is a name",
        **{
            f"NeighboursShard.places: if isinstance(indices, range) and indices.step == {step} and "
            f"(indices.start {after} in_rounds):": _ONE_WAY
            for step, after in ((0, ">="), (1, ">"))
        },
        **{
            f"PermutedShard.read: if not isinstance(indices, range) or indices.step != {step} or size {less} "
            "MIN_SLICED_ROWS:": _ONE_WAY
            for step, less in ((0, "<"), (1, "<="), (1, ">="))
        },
        "PermutedShard.read: if first > stop:": "a range of no rows is read as one of no rows",
        **{
            f"_rounds: return rows // (NEIGHBOURS * shards) if shards {one} else 0": "one shard has all rows in order"
            for one in (">= 1", "> 0")
        },
    },
}
