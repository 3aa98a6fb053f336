"""Rows that were skipped, as the head of a page of a cache keeps them, and as a later run skips them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias, cast

from ...core.context import Context
from ...core.cursor import Json
from ...core.graph import walk
from ...core.operator import Order
from ...core.policy import Quarantine, skips
from ...core.rows import BlockRows
from ...core.skipped import Skipped, SkippedRow
from ...core.skipped_rows import parted
from ...engine.skip_record import code_without_policy
from ...engine.stage import Stage
from ..parsing._parse_units import ParseUnits

Marks: TypeAlias = Mapping[int, Skipped]
"""Skipped rows by their place."""


class SkippingStep(NamedTuple):
    """An operator before a cache, with what it does with rows that fail.

    Attributes:
        code: its call without policies.
        name: its name in the pipe.
        policy: its policy.
    """

    code: str
    name: str
    policy: Quarantine | str | None


def steps_before(source: Stage) -> tuple[SkippingStep, ...]:
    """The operators up to `source`. All pipes with the same cache have the same, in this order."""
    return tuple(
        SkippingStep(code_without_policy(stage.node), stage.name, stage.op.on_error)
        for stage in walk(source)
        if not stage.op.transparent
    )


def find_renumbering(source: Stage) -> Stage | None:
    """An operator that gives the rows behind a failing one other numbers if that does not fail another time.

    A record that a parser skips is malformed each time, but a function that fails may work the next time.
    """
    may_pass: set[Stage] = set()
    for stage in walk(source):
        is_behind = any(before in may_pass for before in stage.inputs)
        may_fail = skips(stage.op.on_error) and not isinstance(stage.op, ParseUnits)
        regroups = not stage.op.moves_skipped() or stage.op.order is Order.REGROUPS
        if stage.inputs and not stage.indexed and not stage.one_for_one and (may_fail or (is_behind and regroups)):
            return stage
        if may_fail or is_behind:
            may_pass.add(stage)
    return None


def kept_form(marks: Marks, steps: Iterable[SkippingStep]) -> Json:
    """The marks as JSON, with the number of the step that skipped each row; -1 if it was none of them."""
    numbers = {step.name: number for number, step in enumerate(steps)}
    return [
        [place, mark.is_row, [[numbers.get(row.name, -1), row.error, row.record] for row in mark.skips]]
        for place, mark in marks.items()
    ]


def restored(kept: Json, steps: tuple[SkippingStep, ...]) -> dict[int, Skipped] | None:
    """The marks as these steps make them now; None if a policy asks for more than was kept.

    That is an error, or a record that an earlier policy did not ask for.
    """
    marks: dict[int, Skipped] = {}
    for place, is_row, rows in cast("list[tuple[int, bool, list[tuple[int, str, dict[str, Json] | None]]]]", kept):
        skipped: list[SkippedRow] = []
        for number, error, record in rows:
            if not 0 <= number < len(steps) or not skips(steps[number].policy):
                return None
            code, name, policy = steps[number]
            if not isinstance(policy, Quarantine):
                skipped.append(SkippedRow(code, error, name=name))
            elif record is None:
                return None
            else:
                skipped.append(SkippedRow(code, error, policy, {**record, "operator": code, "name": name}, name))
        marks[place] = Skipped(tuple(skipped), None, is_row)
    return marks


def skipped_in(rows: BlockRows, context: Context, part: int | None = None) -> BlockRows:
    """The rows, with this run in the records of those that were skipped, whichever run skipped them first.

    Args:
        rows: as the input makes them, which does not depend on the run.
        context: of this run.
        part: the unit in which positions begin anew.
    """
    parts = parted(rows)
    if not parts.skipped:
        return rows
    run: dict[str, Json] = {"epoch": context.epoch, "rounds": list(context.rounds), "shard": context.shard}
    if part is not None:
        run["part"] = part
    marks = {place: Skipped(_in_run(mark, run), mark.value, mark.is_row) for place, mark in parts.skipped.items()}
    return parts._replace(skipped=marks).merged(parts.values)


def _in_run(mark: Skipped, run: dict[str, Json]) -> tuple[SkippedRow, ...]:
    return tuple(row if row.record is None else row._replace(record={**row.record, **run}) for row in mark.skips)
