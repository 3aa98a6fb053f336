"""Which rank this is."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Union

from .checks import check_int
from .errors import ArgumentError, located

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

    Group = Union["ProcessGroup", "DeviceMesh"]


def rank_of(rank: int | None, world_size: int | None, group: Group | None) -> tuple[int, int]:
    """(rank, world size): as given, else of `group`, else of the initialised process group, else from `RANK` and
    `WORLD_SIZE`, else 0 of 1."""
    if (rank is None) != (world_size is None):
        raise ArgumentError(
            located(f"`rank` and `world_size` must be given together but got: {rank!r} and {world_size!r}")
        )
    if rank is not None and world_size is not None:
        if group is not None:
            raise ArgumentError(located("`group` says what `rank` and `world_size` say; give one of both"))
        world_size = check_int("world_size", world_size, least=1)
        rank = check_int("rank", rank, least=0)
    elif group is not None:
        rank, world_size = _of_group(group)
    else:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank, world_size = distributed.get_rank(), distributed.get_world_size()
        else:
            rank, world_size = _from_environment()
    if rank >= world_size:
        raise ArgumentError(located(f"`rank` must be below the world size of {world_size} but got: {rank}"))
    return rank, world_size


def _of_group(group: Group) -> tuple[int, int]:
    from torch import distributed

    if hasattr(group, "get_local_rank"):  # a DeviceMesh
        if group.ndim != 1:
            raise ArgumentError(
                located(f'`group` must be a one-dimensional mesh but has {group.ndim}; take one: `mesh["dp"]`')
            )
        return group.get_local_rank(), group.size()
    return distributed.get_rank(group), distributed.get_world_size(group)


def _from_environment() -> tuple[int, int]:
    said = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if said == (None, None):
        return 0, 1
    try:
        return int(said[0] or ""), int(said[1] or "")
    except ValueError:
        raise ArgumentError(
            located(f"`RANK` and `WORLD_SIZE` must both be whole numbers but are: {said[0]!r} and {said[1]!r}")
        ) from None
