"""The ranks of process groups and device meshes, and how long their operations may take."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from torch import distributed
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from ..errors import ArgumentError, ArgumentTypeError, with_call_site

Group: TypeAlias = "ProcessGroup | DeviceMesh"
_c10d: Any = distributed.distributed_c10d  # the members and meshes of groups have no public functions

DEFAULT_TIMEOUT = timedelta(minutes=30)
"""The default of torch's own groups, for a backend that does not say it."""


class Members(NamedTuple):
    """The ranks of a group, and the number of this process among them."""

    ranks: list[int]
    rank: int


def members(group: Group | None) -> Members:
    """The ranks of a process group, of a device mesh of one dimension, or of the whole job.

    Raises:
        ArgumentTypeError: `group` is neither.
        ArgumentError: it is a mesh of several dimensions, this process does not belong to it, or it has ended.
    """
    if isinstance(group, DeviceMesh) and group.ndim != 1:
        raise ArgumentError(
            with_call_site(
                f'`group` must be a mesh of one dimension but has {group.ndim}; give one of them, such as `mesh["dp"]`'
            )
        )
    try:
        process_group = _process_group(group)
        if process_group is None:
            raise _no_member()
        ranks, rank = distributed.get_process_group_ranks(process_group), distributed.get_rank(process_group)
    except (ArgumentError, ArgumentTypeError):
        raise
    except (ValueError, RuntimeError, KeyError) as error:
        raise ArgumentError(
            with_call_site("`group` must be a group of this job, but torch knows it no more: it was destroyed")
        ) from error
    if rank < 0:
        raise _no_member()
    return Members(ranks, rank)


def _process_group(group: Group | None) -> ProcessGroup | None:
    """The process group; None if this process does not belong to it."""
    if isinstance(group, DeviceMesh):
        return None if group.get_coordinate() is None else group.get_group()
    process_group: object = distributed.group.WORLD if group is None else group
    if process_group == _c10d.GroupMember.NON_GROUP_MEMBER:  # what `new_group` gives to those who are left out
        return None
    if not isinstance(process_group, ProcessGroup):
        raise ArgumentTypeError(with_call_site(f"`group` must be a process group or a device mesh but got: {group!r}"))
    return process_group


def _no_member() -> ArgumentError:
    return ArgumentError(
        with_call_site(
            "`group` must have this process as a member, because the loader takes its rank from it; make the loader on "
            "the members only, or give the group of this process"
        )
    )


def mesh_dimensions() -> list[str]:
    """The dimensions of the device mesh of this job, if it has several."""
    groups: list[ProcessGroup] = list(_c10d._world.pg_map)
    names = {name for group in groups if (name := group.group_desc).startswith("mesh_") and group.size() > 1}
    return sorted(name.removeprefix("mesh_").removeprefix("dim_") for name in names) if len(names) > 1 else []


def timeout_of(group: Group | None) -> timedelta:
    """How long the operations of a group that this process belongs to may take."""
    process_group: Any = _process_group(group)
    backends = [process_group._get_backend(device) for device in process_group._device_types]
    timeouts = [getattr(getattr(backend, "options", None), "_timeout", None) for backend in backends]
    return max((timeout for timeout in timeouts if isinstance(timeout, timedelta)), default=DEFAULT_TIMEOUT)
