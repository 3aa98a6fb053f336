"""What workers take over from the program: what a fork server has from its start, and what each worker enters."""

from __future__ import annotations

import io
import os
import pickle
import resource
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple, cast

from ...core.system import create_shared_file

_READ_AT_START = (
    *("LD_", "PYTHON", "MALLOC_", "GLIBC_", "OMP_", "KMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "ARROW_"),
    *("TORCH_", "PYTORCH_", "CUDA_"),
)
"""Variables with these prefixes are read when an interpreter or a library starts, so a running server has read them."""
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def thread_variables(threads: int, io_threads: int) -> dict[str, str]:
    """The environment that limits the threads of numeric libraries, and of Arrow's readers."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(names, str(threads)) | {"ARROW_IO_THREADS": str(io_threads)}


def import_path() -> list[str]:
    """`sys.path`, without the entries that Python skips, too."""
    return [entry for entry in cast("list[object]", sys.path) if isinstance(entry, str)]


class Kind(NamedTuple):
    """What cannot change in a fork server, or seldom does, so that a program with another kind has another server.

    The variables are those that are read at the start.
    """

    variables: dict[str, str]
    user: tuple[int, int]
    cores: set[int]
    limits: list[tuple[int, int]]

    @staticmethod
    def now(threads: int, io_threads: int) -> Kind:
        environment = os.environ | thread_variables(threads, io_threads)
        return Kind(
            variables={name: value for name, value in environment.items() if name.startswith(_READ_AT_START)},
            user=(os.geteuid(), os.getegid()),
            cores=os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(),
            limits=[resource.getrlimit(limit) for limit in _LIMITS],
        )


SURROUNDINGS = 4
"""The descriptors of what `enter` takes over."""


def keep(threads: int, io_threads: int) -> list[int]:
    """Descriptors with which a process of this machine can `enter` what is here now. The caller closes them."""
    environment = os.environ | thread_variables(threads, io_threads)
    fds = [written((environment, import_path(), sys.getrecursionlimit()))]
    try:
        fds.append(os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC))
        fds += [_output(number) for number in (1, 2)]
    except BaseException:
        close(fds)
        raise
    return fds


def enter(content: int, folder: int, *outputs: int) -> None:
    """Take over environment, `sys.path`, recursion limit, working folder and outputs in a process just forked."""
    environment, path, limit = cast("tuple[dict[str, str], list[str], int]", read(content))
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    time.tzset()
    sys.path[:] = path
    sys.setrecursionlimit(limit)  # libraries change it for a while, and no server should start for that
    if not os.path.samestat(os.stat(folder), os.stat(".")):
        os.fchdir(folder)
        sys.path_importer_cache.clear()  # it may have the folders of relative paths
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
    if sys.stdout is not None:
        cast("io.TextIOWrapper", sys.stdout).reconfigure(line_buffering=sys.stdout.isatty())
    close([content, folder, *outputs])


def written(value: object) -> int:
    """A descriptor that brings `value` to a process of ours; a message or an argument would limit its size."""
    fd = create_shared_file()
    with open(fd, "wb", closefd=False) as file:
        pickle.dump(value, file)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def read(fd: int) -> object:
    """The value of a descriptor from `written`."""
    return pickle.loads(os.pread(fd, os.fstat(fd).st_size, 0))


def close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def _output(number: int) -> int:
    try:
        return os.dup(number)
    except OSError:  # the program has closed it
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
