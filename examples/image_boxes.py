"""Join images and their annotations by key, cut out the annotated boxes, and resume in the middle of the epoch.

    python examples/image_boxes.py
    python examples/image_boxes.py caltech101/101_ObjectCategories boxes.jsonl

The files have the form of Caltech101: images in a folder for each class, and for each image a box. The boxes stand in a
file of JSON lines, `{"class": "cat", "number": 7, "box": [top, bottom, left, right]}`, in an order of its own. Without
arguments the example makes both.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import feedpipe as fp

CLASSES = ("cat", "chair", "lotus", "yin_yang")
SIDE = 32
"""Pixels of a crop."""

Row = dict[str, Any]


def with_key(row: Row) -> Row:
    """Add the class and the number of an image: `.../cat/image_0007.jpg` is number 7 of the cats."""
    return {**row, "class": row["label_name"], "number": int(Path(row["path"]).stem.removeprefix("image_"))}


def crop(row: Row, rng: np.random.Generator) -> Row:
    """Cut out the box, scale it, and mirror every second one at random."""
    top, bottom, left, right = row["box"]
    part = Image.fromarray(row["image"][top:bottom, left:right]).resize((SIDE, SIDE))
    pixels = np.asarray(part)
    return {"image": pixels[:, ::-1] if rng.random() < 0.5 else pixels, "label": row["label"], "path": row["path"]}


def boxes_pipe(images: Path, boxes: Path, batch: int) -> fp.Pipe[Any]:
    annotations = fp.read_jsonl(boxes)
    rows = fp.read_images(images, concurrency=2).shuffle().map(with_key)
    return rows.join(annotations, on=["class", "number"], how="error").map(crop, rng=True).batch(batch).collate()


def write_images(folder: Path, count: int) -> Path:
    """Write `count` images: noise with a bright box; return the file of the boxes."""
    rng = np.random.default_rng(0)
    annotations: list[Row] = []
    for index in range(count):
        name, number = CLASSES[index % len(CLASSES)], index // len(CLASSES) + 1
        height, width = (int(side) for side in rng.integers(60, 100, 2))
        top, left = int(rng.integers(height - 30)), int(rng.integers(width - 30))
        pixels = rng.integers(50, size=(height, width, 3), dtype=np.uint8)
        pixels[top : top + 30, left : left + 30] = 250
        path = folder / name / f"image_{number:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, quality=95)
        annotations.append({"class": name, "number": number, "box": [top, top + 30, left, left + 30]})
    rng.shuffle(annotations)
    boxes = folder.with_suffix(".jsonl")
    boxes.write_text("\n".join(map(json.dumps, annotations)))
    return boxes


def run(images: Path, boxes: Path, *, batch: int, workers: int) -> tuple[Counter[str], float]:
    """How many times each image was seen in an epoch that is interrupted, and the least mean of a crop."""
    seen: Counter[str] = Counter()
    darkest = 255.0
    state: str | None = None
    for stop_at in (3, None):
        with fp.Loader(boxes_pipe(images, boxes, batch), workers=workers) as loader:
            if state is not None:
                loader.load_state_dict(json.loads(state))
            for crops in loader:
                seen.update(crops["path"])
                darkest = min(darkest, float(crops["image"].float().mean(dim=(1, 2, 3)).min()))
                if loader.step == stop_at:
                    break
            state = json.dumps(loader.state_dict())
    return seen, darkest


def main() -> int:
    parser = argparse.ArgumentParser(description="Joins images and their annotations by key.")
    parser.add_argument("images", nargs="?", type=Path, help="a folder of images for each class")
    parser.add_argument("boxes", nargs="?", type=Path, help="the boxes, as JSON lines")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images: Path = arguments.images or Path(folder) / "images"
        boxes = arguments.boxes if arguments.images else write_images(images, 200)
        seen, darkest = run(images, boxes, batch=arguments.batch, workers=arguments.workers)
        count = len(fp.read_images(images))
    print(f"images              {count:,}")
    print(f"seen once           {sum(times == 1 for times in seen.values()):,}")
    print(f"darkest crop        {darkest:.0f} of 255")
    return 0 if len(seen) == count and set(seen.values()) == {1} else 1


if __name__ == "__main__":
    sys.exit(main())
