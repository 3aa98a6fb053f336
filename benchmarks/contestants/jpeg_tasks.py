"""The images that all contestants of `jpeg` decode, the function that does it, and how a pass is timed.

The images are made: clouds, shapes and grain, of as many bytes as photographs of 500x375 have. An image's label is its
number, so that the order can be seen.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageDraw

BATCH = 64
IN_TAR = 256


def decode(file: str | BinaryIO) -> np.ndarray:
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR))


def load(path: str) -> tuple[np.ndarray, int]:
    return decode(path), int(path[-10:-4])


def paths(folder: str, images: int) -> list[str]:
    return [f"{folder}/images/{number:06d}.jpg" for number in range(images)]


def timed(batches: Iterable[Any], images: int) -> dict[str, Any]:
    """The second of two whole passes: the workers are there, and the files are in the disk's cache."""
    for _ in batches:
        pass
    labels: list[Any] = []
    start = time.perf_counter()
    for _, label in batches:
        labels.append(label)
    seconds = time.perf_counter() - start
    return {"seconds_each": seconds / images, **_described(labels, images)}


def _described(labels: list[Any], images: int) -> dict[str, Any]:
    found = [int(each) for batch in labels for each in batch]
    return {"complete": sorted(found) == list(range(images)), "in_order": found == sorted(found)}


def described(batches: Iterable[Any], folder: str, images: int) -> dict[str, Any]:
    """Whether the images of one pass are all there, in order, and the right ones."""
    expected = paths(folder, images)
    labels: list[Any] = []
    wrong = 0
    for pixels, label in batches:
        labels.append(label)
        wrong += not np.array_equal(pixels[0], decode(expected[int(label[0])]))
    return {"wrong": wrong, **_described(labels, images)}


def make(folder: str, images: int) -> dict[str, Any]:
    """The files: `images/000000.jpg` and on, and the same in tar files of 256 each."""
    root = Path(folder)
    generator = np.random.default_rng(0)
    (root / "images").mkdir(exist_ok=True)
    total = 0
    for number, path in enumerate(paths(folder, images)):
        data = picture(generator)
        total += len(data)
        Path(path).write_bytes(data)
        if number % IN_TAR == IN_TAR - 1:
            with tarfile.open(root / f"{number // IN_TAR:03d}.tar", "w") as tar:
                for each in paths(folder, number + 1)[-IN_TAR:]:
                    tar.add(each, Path(each).name)
    return {"mean_bytes": total / images}


def picture(generator: np.random.Generator, width: int = 500, height: int = 375) -> bytes:
    pixels = np.full((height, width, 3), 128.0)
    for cells, strength in ((3, 70), (9, 30), (40, 14)):
        low = generator.normal(0, strength, (cells, cells + cells // 3, 3)).astype(np.float32)
        layers = [Image.fromarray(low[..., c]).resize((width, height), Image.Resampling.BICUBIC) for c in range(3)]
        pixels += np.stack(layers, axis=-1)
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for shape in (draw.ellipse, draw.rectangle) * 6:
        x, y, w, h = generator.integers((0, 0, 10, 10), (450, 330, 160, 120)).tolist()
        shape((x, y, x + w, y + h), fill=tuple(generator.integers(0, 256, 3).tolist()))
    grain = generator.normal(0, 4, (height, width, 1))
    buffer = io.BytesIO()
    Image.fromarray((np.asarray(image) + grain).clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
