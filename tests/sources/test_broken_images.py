"""Many images, some broken: the epoch completes, each broken one is recorded once, and a resume is exact."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import PIL.Image
import pytest

import feedpipe as fp

from ..soak import SOAK

IMAGES, BROKEN = (2000, 40) if SOAK > 1 else (300, 12)


def encoded(number: int, kind: str, dtype: str = "u1") -> bytes:
    output = io.BytesIO()
    PIL.Image.fromarray(np.full((8, 9), number % 200, dtype)).save(output, kind)
    return output.getvalue()


def damaged(png: bytes) -> bytes:
    """With a changed byte in its pixels, which the checksum of the chunk tells."""
    at = png.index(b"IDAT") + 6
    return png[:at] + bytes([png[at] ^ 8]) + png[at + 1 :]


def enlarged(png: bytes) -> bytes:
    """With a head that asks for far more memory than there is."""
    head = b"IHDR" + struct.pack(">II", 60_000, 60_000) + png[24:29]
    return png[:12] + head + struct.pack(">I", crc32(head)) + png[33:]


WAYS: list[Callable[[int], bytes]] = [
    lambda number: b"",
    lambda number: b"<html>404 Not Found</html>",
    lambda number: encoded(number, "JPEG")[:-40],
    lambda number: damaged(encoded(number, "PNG")),
    lambda number: enlarged(encoded(number, "PNG")),
    lambda number: encoded(number, "PNG", "u2"),  # 16 bits a channel
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    (folder / "all").mkdir()
    broken = random.Random(0).sample(range(IMAGES), BROKEN)
    for number in range(IMAGES):
        content = WAYS[broken.index(number) % 6](number) if number in broken else encoded(number, "PNG")
        (folder / "all" / f"{number:04}.png").write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def good() -> set[tuple[int, int]]:
    return {(number, number % 200) for number in {*range(IMAGES)} - {*random.Random(0).sample(range(IMAGES), BROKEN)}}


def number_and_pixel(row: dict[str, Any]) -> tuple[int, int]:
    assert row["image"].shape == (8, 9, 3)
    return int(Path(row["path"]).stem), int(row["image"][7, 8, 2])


def chain(root: Path, kind: str, policy: Any) -> fp.Pipe[Any]:
    rows = fp.read_images(root, on_error=policy).shuffle()
    return (rows if kind == "indexed" else rows.filter(lambda row: True)).map(number_and_pixel).batch(16)


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_an_epoch_with_broken_images(root: Path, good: set[tuple[int, int]], tmp_path: Path, kind: str) -> None:
    pipe = chain(root, kind, fp.Quarantine(tmp_path / "bad", budget=BROKEN))
    shards = None if pipe.indexed else 4
    with fp.Loader(pipe, workers=2, seed=1, shards=shards) as loader:
        pairs = [(batch, info.state_dict()) for batch, info in loader.with_info()]
    assert sorted(row for batch, _ in pairs for row in batch) == sorted(good)
    assert sum(loader.skipped.values()) == BROKEN
    for workers in (0, 2):
        place = len(pairs) // 2 + workers
        with fp.Loader(pipe, workers=workers, seed=1, shards=shards) as resumed:
            resumed.load_state_dict(json.loads(json.dumps(pairs[place - 1][1])))
            assert list(resumed) == [batch for batch, _ in pairs[place:]]
        assert resumed.skipped == loader.skipped
    assert len(records(tmp_path / "bad")) == BROKEN
    assert {int(Path(record["file"]).stem) for record in records(tmp_path / "bad")} == {*range(IMAGES)} - {
        number for number, _ in good
    }
    assert len({record["error"].partition("decoded: ")[2][:20] for record in records(tmp_path / "bad")}) == 5, (
        "text is no image, as nothing is"
    )


@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_on_another_number_of_ranks(root: Path, good: set[tuple[int, int]], tmp_path: Path, kind: str) -> None:
    pipe = chain(root, kind, fp.Quarantine(tmp_path / "bad"))

    def loaders(world_size: int) -> list[fp.Loader[Any]]:
        return [fp.Loader(pipe, seed=1, rank=rank, world_size=world_size, even=None) for rank in range(world_size)]

    first, then = loaders(2), loaders(3)
    rows = [row for loader in first for batch in islice(loader, IMAGES // 70) for row in batch]
    for loader in then:
        loader.load_state_dict([one.state_dict() for one in first])
        rows += [row for batch in loader for row in batch]
    assert sorted(rows) == sorted(good)
    assert len(records(tmp_path / "bad")) == BROKEN
    if kind == "streamed":  # the state of an indexed pipe is the same on all ranks, so it has no counts of one
        assert sum(sum(loader.skipped.values()) for loader in then) == BROKEN
