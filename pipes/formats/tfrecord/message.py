"""One `tf.train.Example` at a time, by the rules of protobuf: parsed in any legal encoding, written in the usual one.

The message is `Example {Features features = 1}`, `Features {map<string, Feature> feature = 1}`, and `Feature` is one of
`BytesList bytes_list = 1`, `FloatList float_list = 2`, `Int64List int64_list = 3`, each with `repeated value = 1`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..protobuf import DELIMITED, FIXED64, read_fields, read_varint, write_field, write_varint

EMPTY, BYTES, FLOATS, INTS = range(4)
"""The kinds of a feature, by the field of the list that it has; `EMPTY` for none."""
KIND_NAMES = "no value", "bytes", "floats", "ints"


class Feature(NamedTuple):
    """A feature of an Example: its kind, and its values."""

    kind: int
    values: Sequence[object]


def parse_example(data: bytes) -> dict[str, Feature]:
    """The features of a message.

    Raises:
        ValueError: the bytes are no Example.
    """
    features: dict[str, Feature] = {}
    for number, _, content in read_fields(data):
        if number != 1 or not isinstance(content, bytes):
            raise ValueError(
                f"it has a field {number}, as a SequenceExample has" if number == 2 else "it has other fields"
            )
        for _, _, entry in read_fields(content):
            if not isinstance(entry, bytes):
                raise ValueError("its features are no map")
            key, value = b"", b""
            for number, _, part in read_fields(entry):
                if not isinstance(part, bytes) or number not in (1, 2):
                    raise ValueError("its features are no map")
                key, value = (part, value) if number == 1 else (key, value + part)
            features[key.decode()] = _parse_feature(value)
    return features


def _parse_feature(data: bytes) -> Feature:
    kind, values = EMPTY, b""
    for number, _, content in read_fields(data):
        if not isinstance(content, bytes) or number not in (BYTES, FLOATS, INTS):
            raise ValueError("a feature holds neither bytes nor floats nor ints")
        kind, values = number, values + content if kind == number else content
    parts = [_parse_values(kind, form, part) for number, form, part in read_fields(values) if number == 1]
    return Feature(kind, [value for part in parts for value in part])


def _parse_values(kind: int, form: int, part: bytes | int) -> Sequence[object]:
    """The values in a field of a list: one, or several that are packed."""
    if kind == BYTES and isinstance(part, bytes) and form == DELIMITED:
        return [part]
    if kind == FLOATS and isinstance(part, bytes) and form != FIXED64 and len(part) % 4 == 0:
        return struct.unpack(f"<{len(part) // 4}f", part)
    if kind == INTS and isinstance(part, int):
        return [_signed(part)]
    if kind == INTS and isinstance(part, bytes) and form == DELIMITED:
        values: list[object] = []
        at = 0
        while at < len(part):
            value, at = read_varint(part, at)
            values.append(_signed(value))
        return values
    raise ValueError(f"a feature of {KIND_NAMES[kind]} holds another value")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


# Writing


def write_example(features: Mapping[bytes, bytes]) -> bytes:
    """The message of these features, each as `write_feature` makes it."""
    entries = [write_field(1, write_field(1, name) + write_field(2, feature)) for name, feature in features.items()]
    return write_field(1, b"".join(entries))


def write_feature(kind: int, values: Sequence[Any]) -> bytes:
    """A feature of one kind.

    Raises:
        struct.error, OverflowError: a value does not fit the kind.
    """
    if kind == BYTES:
        return write_field(kind, b"".join([write_field(1, value) for value in values]))
    if kind == FLOATS:
        return write_field(kind, write_field(1, struct.pack(f"<{len(values)}f", *values)) if values else b"")
    return write_field(kind, write_field(1, b"".join(map(write_varint, values))) if values else b"")
