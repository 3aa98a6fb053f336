"""Ours: JPEG files in memory to images of 224 x 224, exactly and with `fast=True`, interleaved in one process."""

from __future__ import annotations

import io
import time
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

import feedpipe as fp

SIZE = 224


def picture(width: int, height: int) -> bytes:
    """Coarse shapes with grain, of about as many bytes as a photograph has."""
    generator = np.random.default_rng(0)
    coarse = Image.fromarray(generator.integers(0, 256, (height // 16, width // 16, 3), np.uint8))
    grain = generator.integers(-6, 7, (height, width, 3))
    pixels = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)) + grain
    buffer = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=88)
    return buffer.getvalue()


def measure(width: int, height: int, rounds: int) -> dict[str, Any]:
    """Seconds of CPU for an image; the difference is the mean of all values, of 255."""
    rows = fp.from_sequence([{"jpg": picture(width, height)}] * max(2, 20_000_000 // (width * height)))
    pipes = {name: rows.decode(resize=(SIZE, SIZE), fast=name == "fast") for name in ("exact", "fast")}
    times: dict[str, list[float]] = {name: [] for name in pipes}
    for _ in range(rounds):
        for name, pipe in pipes.items():
            start = time.process_time()
            count = sum(1 for _ in pipe)
            times[name].append((time.process_time() - start) / count)
    exact, fast = (np.asarray(pipe[0]["jpg"]).astype(int) for pipe in pipes.values())
    return {name: median(taken) for name, taken in times.items()} | {"difference": float(np.abs(exact - fast).mean())}
