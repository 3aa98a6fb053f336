from __future__ import annotations

import io
import struct
from contextlib import suppress
from itertools import pairwise
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..support.files import (
    BYTES,
    FLOATS,
    INTS,
    Entries,
    RecordReader,
    UnusualError,
    masked,
    parse_example,
    read_features,
    to_arrow,
    write_example,
    write_feature,
)
from ..support.formats import ChunkSize, write_field, write_varint

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 300)
FEATURES = {
    "i": (INTS, NUMBERS, pa.list_(pa.int64())),
    "f": (FLOATS, st.floats(width=32, allow_nan=False), pa.list_(pa.float32())),
    "b": (BYTES, st.binary(max_size=200), pa.list_(pa.binary())),
}


def framed(*contents: bytes) -> bytes:
    parts: list[bytes] = []
    for content in contents:
        length = struct.pack("<Q", len(content))
        for part in (length, content):
            parts += [part, struct.pack("<I", masked(google_crc32c.value(part)))]
    return b"".join(parts)


def read(data: bytes, start: int = 0, stop: int = 2**63 - 1) -> tuple[list[bytes], Exception | None]:
    """The contents of the records that begin in a range, and the error that ended them."""
    reader = RecordReader(io.BytesIO(data), "a.tfrecord", start, stop)
    contents: list[bytes] = []
    try:
        at = reader.first_record()
        for records in reader.records(at, ChunkSize()) if at is not None else ():
            for a, b, is_right in zip(records.starts, records.ends, records.right, strict=True):
                if not is_right:
                    return contents, ValueError("a wrong checksum")
                contents.append(records.data[a:b])
            if records.error is not None:
                return contents, records.error
    except ValueError as error:
        return contents, error
    return contents, None


@given(
    st.lists(
        st.fixed_dictionaries({}, optional={name: st.lists(v, max_size=4) for name, (_, v, _) in FEATURES.items()}),
        max_size=6,
    )
)
def test_features_are_read_as_they_were_written(rows: list[dict[str, list[Any]]]) -> None:
    """Also if a message among them, with a key after its value, is encoded in another way than usual."""
    contents = [
        write_example({name.encode(): write_feature(FEATURES[name][0], values) for name, values in row.items()})
        for row in rows
    ]
    data = b"?".join([b"", *contents, b""])
    starts = np.cumsum([1, *(len(content) + 1 for content in contents)])[: len(contents)]
    ends = starts + [len(content) for content in contents]
    unusual = write_field(1, write_field(1, write_field(2, write_feature(INTS, [7])) + write_field(1, b"i")))
    starts_too, ends_too = np.int64([*starts, len(data)]), np.int64([*ends, len(data) + len(unusual)])
    for features, unknown, more in (
        (*read_features(data, starts, ends, FEATURES), []),
        (*read_features(data + unusual, starts_too, ends_too, FEATURES), [{"i": [7]}]),
    ):
        assert unknown is None
        for name, (_, _, kind) in FEATURES.items():
            assert to_arrow(name, features[name], kind).to_pylist() == [row.get(name) for row in [*rows, *more]]


def test_any_legal_encoding_is_read() -> None:
    """Values that are not packed, a list in two parts, a value before its key, and unknown fields."""
    ints = write_field(3, b"\x08" + write_varint(-5) + b"\x08\x07") + write_field(3, write_field(1, b"\x01\x02"))
    floats = write_field(2, b"\x0d" + struct.pack("<f", 0.5) + write_field(1, struct.pack("<2f", 1, 2)))
    entries = [write_field(2, ints) + write_field(1, b"i"), write_field(1, b"f") + write_field(2, floats)]
    content = write_field(1, write_field(1, entries[0])) + write_field(1, write_field(1, entries[1]))
    features = parse_example(content)
    assert features["i"] == (INTS, [-5, 7, 1, 2])
    assert features["f"] == (FLOATS, [0.5, 1.0, 2.0])
    with pytest.raises(UnusualError):
        Entries(content, np.array([0]), np.array([len(content)])).feature("i")


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    for parse in (parse_example, lambda data: Entries(data, np.array([0]), np.array([len(data)])).feature("i")):
        with suppress(ValueError):
            parse(data)


CONTENTS = [bytes([number]) * (number * 37 % 200) for number in range(40)]
WHOLE = framed(*CONTENTS)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255), st.lists(st.integers(0, len(WHOLE)), max_size=3))
def test_no_damage_hides_a_record(at: int, change: int, cuts: list[int]) -> None:
    damaged = WHOLE[:at] + bytes([WHOLE[at] ^ change]) + WHOLE[at + 1 :]
    bounds = [0, *sorted(cuts), len(WHOLE)]
    contents: list[bytes] = []
    for start, stop in pairwise(bounds):
        part, error = read(damaged, start, stop)
        contents += part
        if error is not None:
            break
    else:
        raise AssertionError("nothing was noticed")
    assert contents == CONTENTS[: len(contents)]
    assert "checksum" in str(error) or "cut short" in str(error)
