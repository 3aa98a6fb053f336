"""The images that all contestants of `images` read, their crop, and how a pass is timed.

Each image is cropped at random and resized to 224 x 224, half of the crops are mirrored, and 64 make a batch: the first
steps of training on ImageNet. The crop is that of torchvision's `RandomResizedCrop`, written here, since not every
environment has torchvision.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import tarfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .jpeg_tasks import picture
from .processes import cpu_seconds

BATCH = 64
SIDE = 224
WORKERS = 2
SIZES = {"500x375": (500, 375, 768), "2048x1536": (2048, 1536, 128)}
#: Images in a folder, which is a class, and in a tar file.
IN_FOLDER = 64


def box(rng: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    """Top, left, height and width of a random part of an image."""
    for _ in range(10):
        area = height * width * rng.uniform(0.08, 1.0)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def by_pillow(data: bytes, rng: np.random.Generator) -> np.ndarray:
    """What `torchvision.transforms.RandomResizedCrop` and `RandomHorizontalFlip` do to a PIL image."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    top, left, height, width = box(rng, image.height, image.width)
    image = image.crop((left, top, left + width, top + height)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.array(image)


_local = threading.local()


def generator() -> np.random.Generator:
    """That of this thread, in this process."""
    if getattr(_local, "pid", None) != os.getpid():
        _local.pid, _local.generator = os.getpid(), np.random.default_rng()
    return _local.generator


def paths(folder: str, size: str) -> list[str]:
    return [f"{folder}/{size}/{number // IN_FOLDER:03d}/{number:06d}.jpg" for number in range(SIZES[size][2])]


def tars(folder: str, size: str) -> list[str]:
    return [f"{folder}/{size}-{number:03d}.tar" for number in range(SIZES[size][2] // IN_FOLDER)]


def timed(batches: Iterable[Any]) -> dict[str, Any]:
    """CPU time of all processes in the second of two passes: the workers are there, and the files in memory."""
    for _ in batches:
        pass
    count = 0
    start, begin = time.perf_counter(), cpu_seconds()
    for images in batches:
        count += len(images)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - begin
    return {"seconds_each": cpu / count, "images_a_second": count / seconds}


def described(batches: Iterable[Any]) -> dict[str, Any]:
    """Of one pass: the number of images, whether each batch has their shape, and their mean."""
    count, shapes, total = 0, set[tuple[int, ...]](), 0.0
    for images in batches:
        images = np.asarray(images)
        count += len(images)
        shapes.add(images.shape[1:])
        total += float(images.mean()) * len(images)
    return {"count": count, "shapes": sorted(shapes), "mean": total / count}


def make(folder: str) -> dict[str, Any]:
    """The files: in folders, and the same in tar files."""
    random = np.random.default_rng(0)
    for size, (width, height, _) in SIZES.items():
        made = [picture(random, width, height) for _ in range(max(24, 2**25 // (width * height)))]
        for path, data in zip(paths(folder, size), itertools.cycle(made), strict=False):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(data)
        for number, tar_path in enumerate(tars(folder, size)):
            with tarfile.open(tar_path, "w") as tar:
                for path in paths(folder, size)[number * IN_FOLDER : (number + 1) * IN_FOLDER]:
                    tar.add(path, Path(path).name)
    return {}
