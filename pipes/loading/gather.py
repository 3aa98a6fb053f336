"""`gather`: the states of all ranks, over their process group."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from ..errors import LoaderError
from .job_state import gathered
from .rank import RankSource
from .state import State

if TYPE_CHECKING:
    from .rank import Group


def gather(state: State, ranks: RankSource, group: Group | None) -> State:
    """One state of all ranks. All of them call it together, each with its own state.

    Raises:
        LoaderError: there is no process group, or its ranks are not those of the loader.
        StateError: the states are not those of all ranks of one job.
        RankError: a rank does not answer.
    """
    rank = ranks.ask()
    if rank.world_size == 1:
        return state
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        raise LoaderError(
            f"`gather_state` needs a process group to hear of the other ranks, and this is {rank} without one; call "
            "`torch.distributed.init_process_group`, or give `load_state_dict` the states of all ranks as a list"
        )
    from ..torch.members import members
    from ..torch.ranks import side_group

    group = group or ranks.group
    place = members(group)
    if (place.rank, len(place.ranks)) != rank:
        raise LoaderError(
            f"this loader is {rank}, and this process is rank {place.rank} of {len(place.ranks)} in the process group; "
            "give `gather_state` the group whose ranks share the data"
        )
    side = side_group(group)
    if side is None:
        raise LoaderError(
            "`gather_state` needs gloo and the store of the process group, and one of them is missing; give "
            "`load_state_dict` the states of all ranks as a list"
        )
    return gathered([json.loads(text) for text in side.gather("gather_state", json.dumps(state).encode())])
