"""The tar files that all contestants of `tar` read: images and labels, as WebDataset groups them."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from .jpeg_tasks import decode, described, paths
from .jpeg_tasks import make as make_images

BATCH = 64
IN_TAR = 256


def tars(folder: str, images: int) -> list[str]:
    return [f"{folder}/pairs-{number:03d}.tar" for number in range(images // IN_TAR)]


def make(folder: str, images: int) -> dict[str, Any]:
    made = make_images(folder, images)
    names = paths(folder, images)
    for number, path in enumerate(tars(folder, images)):
        with tarfile.open(path, "w") as tar:
            for image in range(number * IN_TAR, (number + 1) * IN_TAR):
                tar.add(names[image], f"{image:06d}.jpg")
                label = f"{image % 10}".encode()
                entry = tarfile.TarInfo(f"{image:06d}.cls")
                entry.size = len(label)
                tar.addfile(entry, io.BytesIO(label))
    return made


def raw(row: dict[str, Any]) -> tuple[bytes, int]:
    """What a row has, as it is: then reading takes all the time."""
    return row["jpg"], int(row["__key__"])


def pixels(row: dict[str, Any]) -> tuple[np.ndarray, int]:
    return decode(io.BytesIO(row["jpg"])), int(row["__key__"])


WORKS = {"raw": raw, "pixels": pixels}
PASSES = {"raw": 5, "pixels": 1}


def timed(batches: Iterable[Any], images: int, work: str) -> dict[str, Any]:
    """Whole passes; the first one, which is not counted, starts the workers and fills the disk's cache."""
    for _ in batches:
        pass
    found: list[int] = []
    start = time.perf_counter()
    for _ in range(PASSES[work]):
        for _, numbers in batches:
            found += [int(each) for each in numbers]
    seconds = time.perf_counter() - start
    complete = sorted(found) == sorted(list(range(images)) * PASSES[work])
    return {"seconds_each": seconds / len(found), "complete": complete}


def checked(batches: Iterable[Any], folder: str, images: int, work: str) -> dict[str, Any]:
    if work == "pixels":
        return described(batches, folder, images)
    wrong = 0
    found: list[int] = []
    for data, numbers in batches:
        found += [int(each) for each in numbers]
        with open(paths(folder, images)[int(numbers[0])], "rb") as file:
            wrong += data[0] != file.read()
    return {"wrong": wrong, "complete": sorted(found) == list(range(images))}
