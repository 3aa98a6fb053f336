"""Statistics of rows that are kept for validation: training must not see them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from ...core.code import step_code
from ...core.graph import Node, node_code, walk
from ...core.operator import Operator, StageView
from ...errors import PlanWarning, warn
from ..splitting._split_parts import SplitPart

if TYPE_CHECKING:
    from ...engine.stage import Stage


def warn_of_leakage(op: Operator, stage: StageView, fitted_on: str) -> None:
    """Warns if `op` stands behind a `split`, and its statistics are of the same source before that split.

    Args:
        op: the operator that uses the statistics.
        stage: of the operator.
        fitted_on: the fingerprint of the pipe that the statistics are of.
    """
    splits = [node for node in walk(cast("Stage", stage.input).node) if isinstance(node.op, SplitPart)]
    if not splits:
        return
    from ...plan.fingerprint import Fingerprint

    fitted = json.loads(fitted_on)
    divisions = [_division(facts) for call, _, facts in fitted if call.startswith("split(")]
    for split in splits:
        here = json.loads(Fingerprint(split).pipe)
        if _division(here[-1][2]) not in divisions and _share_a_source(here, fitted):
            code = node_code(Node(split.op, split.inputs)).lstrip(".")
            warn(
                f"`{step_code(op, source=False)}`: the statistics are of the rows before `{code}`, so those of the "
                "other parts have a share in them (leakage); fit them on the part for training, `fp.fit(train, ...)`",
                PlanWarning,
                stage.call_site,
            )
            return


def _division(facts: dict[str, Any]) -> dict[str, Any]:
    """What all parts of a split have in common."""
    return {name: value for name, value in facts.items() if name not in ("part", "rows")}


def _share_a_source(entries: list[Any], others: list[Any]) -> bool:
    sources = [entry for entry in entries if not entry[1]]
    return any(entry in sources for entry in others if not entry[1])
