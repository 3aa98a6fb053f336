"""The example at a small size: each image meets its own box, once, also across a resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from .loading import loaded_example


@pytest.mark.parametrize("workers", [0, 2])
def test_each_image_meets_its_box(tmp_path: Path, workers: int) -> None:
    with loaded_example("image_boxes") as example:
        boxes = example.write_images(tmp_path / "images", 50)
        seen, darkest = example.run(tmp_path / "images", boxes, batch=8, workers=workers)
        assert len(seen) == 50 and set(seen.values()) == {1}
        assert darkest > 240  # the boxes are bright, and all else is dark
