"""Ranks of tensor parallelism, which get the elements of one of them; `test_replicas.py` reads what they found."""

from __future__ import annotations

import json
import os
import signal
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as distributed
from torch.distributed.device_mesh import init_device_mesh

import feedpipe as fp

ROWS = 240


def wide(row: int) -> dict[str, Any]:
    return {"n": row, "x": np.full(3000, row, np.float32), "text": f"row {row}"}


def streamed() -> fp.Pipe[Any]:
    return (
        fp.from_sequence(range(ROWS)).filter(lambda row: row % 7 != 3).map(wide).shuffle(window=50).batch(8).collate()
    )


def digest(batch: Any) -> int:
    return zlib.crc32(batch["x"].numpy().tobytes() + repr(batch["text"]).encode() + batch["n"].numpy().tobytes())


def shared(mesh: Any, **arguments: Any) -> fp.Loader[Any]:
    return fp.Loader(streamed(), seed=5, group=mesh["dp"], replicas=mesh["tp"], **arguments)


def elements(mesh: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for workers in (0, 1):
        with shared(mesh, workers=workers) as loader:
            epochs = []
            for _ in range(2):
                kept = list(loader)  # more than the memory of an element at a time
                epochs.append([digest(batch) for batch in kept])
            for _, batch in zip(range(3), loader, strict=False):
                epochs[-1].append(digest(batch))
            state = loader.state_dict()
            rest = [digest(batch) for batch in loader]  # the next epoch, after one that was left
        with shared(mesh, workers=workers) as resumed:
            resumed.load_state_dict(state)
            epochs.append([digest(batch) for batch in resumed])
        found[f"workers {workers}"] = [epochs, rest, zlib.crc32(json.dumps(state).encode())]
    rank = mesh["dp"].get_local_rank()
    with fp.Loader(streamed(), seed=5, rank=rank, world_size=2, even=None) as alone:
        found["alone"] = [digest(batch) for batch in alone]
    return found


def failing(row: int) -> int:
    if row == 40:
        raise ValueError("broken")
    return row


def error(mesh: Any) -> list[Any]:
    pipe = fp.from_sequence(range(ROWS)).map(failing).batch(2)
    rows: list[Any] = []
    with fp.Loader(pipe, rank=0, world_size=1, replicas=mesh["all"]) as loader:
        try:
            rows.extend(loader)
        except fp.RowError as failure:
            return [len(rows), str(failure).splitlines()[0]]
    return rows


def killed(mesh: Any) -> list[Any]:
    """The reader is killed between two steps; the others take what it has read, and stop."""
    return _steps_until_death(mesh["all"], dies=0)[1]


def follower_killed(mesh: Any) -> list[Any]:
    """Another rank is killed; the reader finds out, and the others stop although its loader is open."""
    loader, found = _steps_until_death(mesh["left"], dies=3)
    (mesh["folder"] / f"stopped-{distributed.get_rank()}").touch()
    while not all((mesh["folder"] / f"stopped-{rank}").exists() for rank in (1, 2)):
        os.sched_yield()
    try:
        for _ in loader:
            pass
    except fp.errors.RankError as failure:
        found.append(str(failure).splitlines()[0])
    return found[1:]


def _steps_until_death(group: Any, dies: int) -> tuple[fp.Loader[Any], list[Any]]:
    steps = 0
    loader = fp.Loader(fp.from_sequence(range(ROWS)).map(wide), rank=0, world_size=1, replicas=group)
    try:
        for _ in loader:
            steps += 1
            if distributed.get_rank() == dies and steps == 25:
                os.kill(os.getpid(), signal.SIGKILL)
    except fp.errors.RankError as failure:
        return loader, [steps, str(failure).splitlines()[0]]
    return loader, [steps]


def carried(mesh: Any) -> list[int]:
    """As if the ranks were on several machines."""
    from feedpipe.loading import replicas

    class Machine:
        def exists(self) -> bool:
            return True

        def read_bytes(self) -> bytes:
            return os.urandom(16)

    boot = replicas._BOOT  # pyright: ignore[reportPrivateUsage]
    replicas._BOOT = Machine()  # type: ignore[assignment]  # pyright: ignore[reportPrivateUsage]
    try:
        with shared(mesh) as loader:
            return [digest(batch) for batch in loader]
    finally:
        replicas._BOOT = boot  # pyright: ignore[reportPrivateUsage]


def main(folder: Path, rank: int) -> None:
    distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=4)
    mesh: Any = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    meshes = {"dp": mesh["dp"], "tp": mesh["tp"], "all": distributed.new_group([0, 1, 2, 3]), "folder": folder}
    meshes["left"] = distributed.new_group([1, 2, 3])
    found: dict[str, Any] = {}
    for check in (elements, error, carried, killed, follower_killed):
        found[check.__name__] = check(meshes)
        (folder / f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # the group has lost a rank


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
