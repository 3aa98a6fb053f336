"""`rank_of`: the rank of this process and the world size."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..core.checks import check_int
from ..errors import ArgumentError, with_call_site

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

    Group = ProcessGroup | DeviceMesh


def rank_of(rank: int | None, world_size: int | None, group: Group | None) -> tuple[int, int]:
    """The rank and the world size.

    They come from the arguments, else from `group`, else from the initialised process group, else from `RANK` and
    `WORLD_SIZE`; else they are 0 of 1.
    """
    if (rank is None) != (world_size is None):
        raise ArgumentError(
            with_call_site(f"`rank` and `world_size` must be given together but got: {rank!r} and {world_size!r}")
        )
    if rank is not None and world_size is not None:
        if group is not None:
            raise ArgumentError(
                with_call_site(
                    "`group` and `rank` must not be given together, because `group` has a rank; leave out one of them"
                )
            )
        rank, world_size = check_int("rank", rank, least=0), check_int("world_size", world_size, least=1)
    else:
        rank, world_size = _of_group(group) if group is not None else _of_this_process()
    if rank >= world_size:
        raise ArgumentError(with_call_site(f"`rank` must be below the world size of {world_size} but got: {rank}"))
    return rank, world_size


def _of_this_process() -> tuple[int, int]:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return _from_environment()


def _of_group(group: Group) -> tuple[int, int]:
    from torch import distributed
    from torch.distributed.device_mesh import DeviceMesh

    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise ArgumentError(
                with_call_site(
                    f"`group` must be a mesh of one dimension but has {group.ndim}; give one of them, such as "
                    '`mesh["dp"]`'
                )
            )
        return group.get_local_rank(), group.size()
    return distributed.get_rank(group), distributed.get_world_size(group)


def _from_environment() -> tuple[int, int]:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and world_size is None:
        return 0, 1
    try:
        return int(rank or ""), int(world_size or "")
    except ValueError:
        raise ArgumentError(
            with_call_site(f"`RANK` and `WORLD_SIZE` must both be whole numbers but are: {rank!r} and {world_size!r}")
        ) from None
