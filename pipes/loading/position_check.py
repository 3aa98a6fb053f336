"""`check_cursors`: whether runs of a plan make the cursors of a position that was loaded."""

from __future__ import annotations

from ..core.cursor import Json
from ..engine.cursor_check import check_cursor
from ..engine.stage import Stage
from ..errors import FeedpipeError
from ..plan.plan import Plan, Position, ShardState
from .state_schema import damaged


def check_cursors(position: Position, plan: Plan) -> None:
    """Checks the cursors of the shards of a rank, with those of inputs in their tokens. It reads nothing.

    Raises:
        StateError: a cursor does not fit the graph of its shard.
    """
    for shard, state in position.shards.items():
        try:
            stage, cursor = _cursor(position, plan, shard, state)
            if stage is not None:
                check_cursor(stage, cursor)
        except FeedpipeError:
            raise
        except Exception as error:
            place = f"position.{'ended' if state.ended else 'cursors'}.{shard}"
            raise damaged(place, f"does not fit this pipe: {error}") from error


def _cursor(position: Position, plan: Plan, shard: int, state: ShardState) -> tuple[Stage | None, Json]:
    """The cursor of a shard, and the stage that it belongs to; no stage if there is no cursor."""
    if shard == plan.tail_shard:
        tail = plan.tail(position)
        return (None, None) if tail is None else (tail.stage, tail.at.plain)
    if not state.ended:
        return plan.shard_stage(shard, position.cut), state.at.plain
    if state.leftover is None or position.cut is not None:
        return None, None
    return plan.leftover_stage(shard), state.leftover
