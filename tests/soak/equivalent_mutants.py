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
}
