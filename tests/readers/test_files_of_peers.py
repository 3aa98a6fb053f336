"""Files that other libraries write are read back equal; those of WebDataset are in tests/clients."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Array2D, ClassLabel, Dataset, Features, Image, Value
from PIL import Image as PilImage

import feedpipe as fp


def picture(number: int) -> np.ndarray:
    return np.full((2, 3, 3), number, np.uint8)


def write_images(path: Path) -> Dataset:
    """Writes images, some encoded by the user, one missing, beside values of other kinds."""
    jpeg = io.BytesIO()
    PilImage.fromarray(picture(7)).save(jpeg, "jpeg")
    images = [PilImage.fromarray(picture(0)), None, {"bytes": jpeg.getvalue(), "path": "seven.jpg"}] * 3
    columns = {
        "image": images,
        "label": [number % 2 for number in range(9)],
        "boxes": [[{"x": number, "name": "ü"}] * (number % 3) for number in range(9)],
        "grid": [np.full((2, 3), number / 2, np.float32).tolist() for number in range(9)],
    }
    features = Features(
        image=Image(),
        label=ClassLabel(names=["cat", "dog"]),
        boxes=[{"x": Value("int32"), "name": Value("string")}],
        grid=Array2D((2, 3), "float32"),
    )
    dataset = Dataset.from_dict(columns, features=features)
    dataset.to_parquet(path)
    return dataset


def test_parquet_of_hugging_face_with_images(tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    written = write_images(tmp_path / "a.parquet").cast_column("image", Image(decode=False))
    pipe = fp.read_parquet(tmp_path / "a.parquet")
    assert list(pipe) == list(written)
    images = pipe.unnest(["image"]).rename({"image.bytes": "image.png"}).decode()
    first, none, _ = images.head(3)
    assert np.array_equal(first["image.png"], picture(0)) and none["image.png"] is None
    batch = pipe.select("label", "grid").batch(9).collate().head(1)[0]
    assert batch["grid"].shape == (9, 2, 3) and batch["label"].tolist() == written["label"][:]


class Celsius(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.float32(), "tests.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
        return cls()


def test_a_state_fits_whether_or_not_a_package_has_registered_its_types(tmp_path: Path) -> None:
    values = pa.ExtensionArray.from_storage(Celsius(), pa.array([1, 2, 3], pa.float32()))
    nested = pa.StructArray.from_arrays([values], ["x"])

    def loader() -> fp.Loader[Any]:
        """Of a file that is written again: a process reads the footer of a file once."""
        pq.write_table(pa.table({"x": values, "nested": nested}), tmp_path / "a.parquet")
        return fp.Loader(fp.read_parquet(tmp_path / "a.parquet").filter(lambda row: True))

    first = loader()
    rows = [next(iter(first))]
    pa.register_extension_type(Celsius())
    try:
        resumed = loader()
        schema = resumed.dataset.schema
        resumed.load_state_dict(first.state_dict())
        rows += resumed
    finally:
        pa.unregister_extension_type("tests.celsius")
    assert [row["x"] for row in rows] == [1, 2, 3]
    assert schema is not None and isinstance(schema.field("x").type, Celsius)
