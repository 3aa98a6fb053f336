"""Shards that WebDataset's writer wrote are read as WebDataset reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import webdataset as wds

import feedpipe as fp


def write_shards(folder: Path, suffix: str) -> list[dict[str, object]]:
    """Writes samples of several kinds, with keys in folders and in the order of no alphabet."""
    samples = [
        {
            "__key__": f"{'ab'[number % 2]}/{number:03}",
            "png": np.full((2, 3, 3), number, np.uint8),
            "cls": number,
            "json": {"boxes": [number, None]},
            "txt": "ü" * number,
            "npy": np.arange(number),
            "bin": bytes(range(number)),
            "seg.pyd": {"a": number},
        }
        for number in range(11)
    ]
    with wds.ShardWriter(str(folder / f"part-%06d.{suffix}"), maxcount=4, verbose=0) as writer:
        for sample in samples:
            writer.write(sample)
    return samples


@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_shards_of_its_writer(tmp_path: Path, suffix: str) -> None:
    written = write_shards(tmp_path, suffix)
    pipe = fp.read_tar(tmp_path, pattern="*.tar*")
    shards = sorted(map(str, tmp_path.iterdir()))
    theirs = [
        {name: value for name, value in sample.items() if name not in ("__url__", "__local_path__")}
        for sample in wds.WebDataset(shards, shardshuffle=False)
    ]
    assert list(pipe) == theirs and len(shards) == 3
    for row, sample in zip(pipe.decode(), written, strict=True):
        for name in ("__key__", "cls", "json", "txt", "bin"):
            assert row[name] == sample[name]
        assert np.array_equal(row["png"], sample["png"]) and np.array_equal(row["npy"], sample["npy"])
