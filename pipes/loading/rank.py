"""Which rank this is."""

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
    """Rank and world size.

    As given, else those of `group`, else of the initialised process group, else `RANK` and `WORLD_SIZE`, else 0 of 1.
    """
    if (rank is None) != (world_size is None):
        raise ArgumentError(
            with_call_site(f"`rank` and `world_size` must be given together but got: {rank!r} and {world_size!r}")
        )
    if rank is not None and world_size is not None:
        if group is not None:
            raise ArgumentError(with_call_site("`group` says what `rank` and `world_size` say; give one of both"))
        found = check_int("rank", rank, least=0), check_int("world_size", world_size, least=1)
    else:
        found = _of_group(group) if group is not None else _of_this_process()
    if found[0] >= found[1]:
        raise ArgumentError(with_call_site(f"`rank` must be below the world size of {found[1]} but got: {found[0]}"))
    return found


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
                with_call_site(f'`group` must be a one-dimensional mesh but has {group.ndim}; take one: `mesh["dp"]`')
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
            with_call_site(f"`RANK` and `WORLD_SIZE` must both be whole numbers but are: {said[0]!r} and {said[1]!r}")
        ) from None
