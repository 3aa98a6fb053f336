"""`RankSource`: where a loader asks for its rank and the world size."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from ..core.checks import check_int
from ..errors import ArgumentError, FeedpipeError, PlanWarning, RankError, warn, with_call_site

if TYPE_CHECKING:
    from ..torch.members import Group as Group
    from ..torch.ranks import SideGroup


class Rank(NamedTuple):
    """The number of a rank, and how many there are."""

    number: int
    world_size: int

    def __str__(self) -> str:
        return f"rank {self.number} of {self.world_size}"


def on_rank(error: Exception, rank: Rank) -> Exception:
    """`error`, whose message names the rank if there are several."""
    if rank.world_size > 1 and isinstance(error, FeedpipeError) and not isinstance(error, RankError):
        error.args = (f"{error}\n  on {rank}",)
    return error


class RankSource:
    """Where a loader asks for the rank of this process.

    The arguments say it, else `group`, else the initialised process group, else `RANK` and `WORLD_SIZE`; else it is
    rank 0 of 1. A loader may be made before the process group exists, so the answer may change until it is needed.

    Ranks of a process group communicate; those that the arguments or the environment alone say never do.

    Raises:
        ArgumentError, ArgumentTypeError: the arguments are no rank and world size, or no group that this process
            belongs to.
    """

    def __init__(self, rank: int | None, world_size: int | None, group: Group | None) -> None:
        if (rank is None) != (world_size is None):
            raise ArgumentError(
                with_call_site(f"`rank` and `world_size` must be given together but got: {rank!r} and {world_size!r}")
            )
        if rank is not None and group is not None:
            raise ArgumentError(
                with_call_site(
                    "`group` and `rank` must not be given together, because `group` has a rank; leave out one of them"
                )
            )
        self._arguments: Rank | None = None
        if rank is not None and world_size is not None:
            self._arguments = _checked(check_int("rank", rank, least=0), check_int("world_size", world_size, least=1))
        self._group = group
        if group is not None:
            self.ask()

    @property
    def group(self) -> Group | None:
        """The group that was given."""
        return self._group

    @property
    def given(self) -> bool:
        """Whether the arguments say it."""
        return self._arguments is not None

    def certain(self) -> Rank | None:
        """The rank, or None while a launcher or a process group may still set another.

        Raises:
            ArgumentError: as `ask`.
        """
        if self.given or self._group is not None or _process_group() is not None or "RANK" in os.environ:
            return self.ask()
        return None

    def ask(self) -> Rank:
        """The rank as it is now.

        Raises:
            ArgumentError: the environment has only one of `RANK` and `WORLD_SIZE`, or no numbers.
        """
        if self._arguments is not None:
            return self._arguments
        if self._group is not None:
            return _of_group(self._group)
        return _process_group() or _from_environment()

    def side_group(self) -> SideGroup | None:
        """What this rank says messages to the others with; None if they do not communicate."""
        if self.given or (self._group is None and _process_group() is None):
            return None
        from ..torch.ranks import side_group

        return side_group(self._group)

    def check_mesh(self) -> None:
        """Warns if some ranks of this job may need the same rows, and `group` does not say which."""
        if self._group is not None or self.given or _process_group() is None:
            return
        from ..torch.members import mesh_dimensions

        if names := mesh_dimensions():
            warn(
                f"this job has a device mesh with the dimensions {', '.join(names)}, and without `group` each of its "
                'ranks gets rows of its own; give `group=mesh["dp"]` with the dimension of data parallelism, or '
                "`group=torch.distributed.group.WORLD` if that is meant",
                PlanWarning,
            )


def _checked(number: int, world_size: int) -> Rank:
    if number >= world_size:
        raise ArgumentError(with_call_site(f"`rank` must be below the world size of {world_size} but got: {number}"))
    return Rank(number, world_size)


def _process_group() -> Rank | None:
    """The rank in the initialised process group, if there is one."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size())


def _of_group(group: Group) -> Rank:
    from ..torch.members import members

    ranks, rank = members(group)
    return Rank(rank, len(ranks))


def _from_environment() -> Rank:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and world_size is None:
        return Rank(0, 1)
    if not (rank and world_size and rank.isdecimal() and world_size.isdecimal()):
        raise ArgumentError(
            with_call_site(
                f"`RANK` and `WORLD_SIZE` must both be whole numbers but are: {rank!r} and {world_size!r}; set "
                "both, or give `rank=` and `world_size=`"
            )
        )
    return _checked(int(rank), int(world_size))
