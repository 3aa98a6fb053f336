"""The limit: two plain processes that call the same functions, and keep as many images as a batch has."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import simplejpeg
import torch

from .images_tasks import BATCH, SIDE, WORKERS, box, described, generator, paths, timed


def crop(data: bytes) -> np.ndarray:
    """Decode no more than a random crop needs, and resize it."""
    rng = generator()
    height, width, *_ = simplejpeg.decode_jpeg_header(data)
    top, left, h, w = box(rng, height, width)
    scale = next((each for each in (8, 4, 2) if min(h, w) // SIDE >= each), 1)
    if scale > 1:
        pixels = simplejpeg.decode_jpeg(data, min_height=-(-height // scale), min_width=-(-width // scale))
    else:
        pixels = simplejpeg.decode_jpeg(data)
    top, left, h, w = (value // scale for value in (top, left, h, w))
    part = torch.from_numpy(np.ascontiguousarray(pixels[top : top + h, left : left + w])).permute(2, 0, 1)[None]
    small = torch.nn.functional.interpolate(part, size=(SIDE, SIDE), mode="bilinear", antialias=True)
    small = small.flip(-1) if rng.random() < 0.5 else small
    return small[0].permute(1, 2, 0).numpy()


def _work(files: list[str], begin: Any, done: Any) -> None:
    from feedpipe.services.processes.fork_server import keep_freed_memory

    keep_freed_memory()  # as the workers do
    torch.set_num_threads(1)
    kept: deque[Any] = deque(maxlen=BATCH)
    while True:
        begin.acquire()
        for path in files:
            with open(path, "rb") as file:
                kept.append(crop(file.read()))
        done.put((len(files), np.stack(kept)))


class Batches:
    """Gives one array a process, which has its last images, and says that it has as many as the process has made."""

    def __init__(self, folder: str, size: str) -> None:
        files = paths(folder, size)
        context = multiprocessing.get_context("spawn")
        self.done = context.Queue()
        self.begin = [context.Semaphore(0) for _ in range(WORKERS)]
        for number, begin in enumerate(self.begin):
            context.Process(target=_work, args=(files[number::WORKERS], begin, self.done), daemon=True).start()

    def __iter__(self) -> Iterator[Any]:
        for begin in self.begin:
            begin.release()
        for _ in range(WORKERS):
            count, last = self.done.get()
            yield np.broadcast_to(last[0], (count, *last.shape[1:]))


def measure(folder: str, size: str) -> dict[str, Any]:
    return timed(Batches(folder, size))


def check(folder: str, size: str) -> dict[str, Any]:
    return described(Batches(folder, size))
