"""Mutants that mean the same as the code, by module: the changed line, and why nothing can tell them apart."""

from __future__ import annotations

_LISTED = "a round that is listed does not come here, and no round is negative"
_SORTED = "segments with a place have different starts"

EQUIVALENT: dict[str, dict[str, str]] = {
    "plan/parts.py": {
        "Part.segments: if self.later is not None and number >= max(rounds, default=-1):": _LISTED,
        "Part.segments: if self.later is not None and number > max(rounds, default=-2):": _LISTED,
        "places_after: rest.append(segment._replace(cursor=cursor[-1]) if taken and cursor else segment)": (
            "a mark has one cursor at most"
        ),
        **{
            "divide_rest: segments = sorted((s for s in rest if s.stop is None or s.start < s.stop), "
            f"key=lambda s: (s.start, {stop}))": _SORTED
            for stop in ("s.stop and 0", "s.stop or 1", "s.stop or -1")
        },
        "_divide_rows: edge = max([-1, *(s.start - s.step + 1 for s in endless), "
        "*(cast('int', s.stop) for s in holes)])": (
            "the endless segments are all rows from some row on, so one of them has the start `step - 1` or a later one"
        ),
        "_divide_rows: holes += [segment._replace(stop=edge) for segment in endless if segment.start <= edge]": (
            "an empty segment at the edge lies behind all holes, and no part has room for it"
        ),
    },
    "plan/pieces.py": {
        **{
            f"Pieces.rows: cut = np.flatnonzero(self.slots {at_least})": "a unit of one slot has complete turns only"
            for at_least in (">= 1", "> 0")
        },
        "divide: if not count or (weights == weights[-1]).all():": "if all are equal, they are equal to the last",
        "divide: slots = np.clip(-(-weights * SLOTS_PER_SHARE // mean), 2, MAX_SLOTS)": (
            "it matters for a unit of no weight, which is never cut"
        ),
        "divide: borders = np.arange(shards + 2) * int(weights.sum()) // shards": (
            "a cut at the end of the line makes an empty segment"
        ),
        "_equal: slots = np.full(left, min(shards, -(-SLOTS_PER_SHARE * shards // max(2, count))))": (
            "one unit and two have as many slots as there are shards"
        ),
        "_equal: segments, places, *parts = _cut(weights, slots, np.arange(shards + 2) * left, count // near)": (
            "a cut at the end of the line makes an empty segment"
        ),
        "_equal: return _table(shards, rounds, _owners(shards)[segments], places + rounds * shards, *parts, "
        "by_place=True)": "a share is less than a unit, so no shard has a whole unit beside a part of another",
        "_in_turn: owners = np.full(len(weights), -2)": "any number below 0 stands for no shard",
        "_cut: slot = (2 * before * slots[at] + weights[at]) // np.maximum(2, 2 * weights[at])": (
            "it matters for a unit of no weight, where the dividend is 0"
        ),
        "_reduced: starts = np.flatnonzero(np.diff(places[order], prepend=-2))": "no place is below 0",
    },
    "plan/cutting.py": {
        **{
            f"cut: sharding.subgraph(plan.main, {shard})": "the streams have the same numbers whichever shard it is"
            for shard in (1, -1)
        },
        "_refusal: fitting = ', '.join((str(count) for count in range(1, sharding.shards + 2) "
        "if sharding.shards % count == 0))": "no number is divided by a larger one",
    },
    "loading/resume.py": {
        "resumed_elsewhere: progress = Progress(states[-1].epoch, sum((one.step for one in states)) // "
        "plan.world_size, passes[0])": "the states of a job have one epoch",
        "_position_in_pass: if number <= one.data_epoch:": "if it is equal, the function has returned before",
    },
}
