"""`tf.train.Example`: one at a time, many as columns, and columns written as records.

The message is `Example {Features features = 1}`, `Features {map<string, Feature> feature = 1}`, and `Feature` is one of
`BytesList bytes_list = 1`, `FloatList float_list = 2`, `Int64List int64_list = 3`, each with `repeated value = 1`.

Writers encode a message in one way, and such messages are read many at a time. Protobuf allows other ways: messages
that `parse_example` has read, one at a time, are encoded again as usual.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array
from ..core.lazy import pa
from ..core.rows import scalars
from ..errors import DataError
from ..formats.columns import is_text
from ..formats.protobuf import DELIMITED, FIXED64, read_fields, read_varint, write_field, write_varint
from .tfrecord_records import crc32c, gather, masked

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

_KEY_TAG, _VALUE_TAG = 0x0A, 0x12
_SHORT_BYTES = 32
"""Up to this mean size, NumPy joins parts of different sizes faster, byte by byte, than Python does."""
EMPTY, BYTES, FLOATS, INTS = range(4)
"""The kinds of a feature, by the field of the list that it has; `EMPTY` for none."""
KIND_NAMES = "no value", "bytes", "floats", "ints"


# Many Examples as columns.


class UnusualError(ValueError):
    """Messages are encoded in another way than usual, or damaged."""


class Spans(NamedTuple):
    """Parts of the data.

    Attributes:
        owners: the number of the record, or of the other span, that each belongs to, in rising order.
        starts, ends: the bounds of each.
    """

    owners: Places
    starts: Places
    ends: Places

    def __len__(self) -> int:
        return len(self.owners)


class FeatureValues(NamedTuple):
    """The values of one feature in all records.

    Attributes:
        kind: of the feature; `EMPTY` if no record has a value.
        counts: the number of values of each record; -1 if it lacks the feature.
        values: of all records.
    """

    kind: int
    counts: Places
    values: Any


def _varints(data: Bytes, at: Places) -> tuple[Places, Places]:
    """The numbers at some places, and their ends."""
    byte = data.take(at, mode="clip")
    values, at = byte.astype(np.int64) & 0x7F, at + 1
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(more):
        if shift > 56:
            raise UnusualError
        byte = data.take(at[more], mode="clip")
        values[more] |= (byte.astype(np.int64) & 0x7F) << shift
        at[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    return values, at


def _delimited(data: Bytes, at: Places, ends: Places, tag: int) -> tuple[Places, Places]:
    """The bounds of the contents of the fields at some places. All must have this tag, and end before `ends`."""
    if (data.take(at, mode="clip") != tag).any():
        raise UnusualError
    sizes, starts = _varints(data, at + 1)
    stops = starts + sizes
    if (stops > ends).any():
        raise UnusualError
    return starts, stops


def _repeated(data: Bytes, starts: Places, ends: Places) -> Spans:
    """The contents of the fields of messages that have only fields 1."""
    owners, begins, stops = [], [], []
    owner = np.flatnonzero(starts < ends)
    at = starts[owner]
    while len(owner):
        begin, stop = _delimited(data, at, ends[owner], _KEY_TAG)
        owners.append(owner)
        begins.append(begin)
        stops.append(stop)
        more = np.flatnonzero(stop < ends[owner])
        owner, at = owner[more], stop[more]
    if len(owners) == 1:
        return Spans(owners[0], begins[0], stops[0])
    if not owners:
        return Spans(owner, owner, owner)
    joined = np.concatenate(owners)
    order = np.argsort(joined, kind="stable")
    return Spans(joined[order], np.concatenate(begins)[order], np.concatenate(stops)[order])


class Entries:
    """The entries of the maps of features of many records; an `UnusualError` if one is encoded in another way."""

    def __init__(self, data: bytes, starts: Places, ends: Places) -> None:
        self.memory = memoryview(data)
        self.count = len(starts)
        self.data = np.frombuffer(data, np.uint8)
        full = np.flatnonzero(starts < ends)  # an Example without features may have no bytes
        begins, stops = _delimited(self.data, starts[full], ends[full], _KEY_TAG)
        entries = _repeated(self.data, begins, stops)
        key_starts, key_ends = _delimited(self.data, entries.starts, entries.ends, _KEY_TAG)
        value_starts, value_ends = _delimited(self.data, key_ends, entries.ends, _VALUE_TAG)
        if (stops != ends[full]).any() or (value_ends != entries.ends).any():
            raise UnusualError
        owners = full[entries.owners]
        self.keys = Spans(owners, key_starts, key_ends)
        self.values = Spans(owners, value_starts, value_ends)
        self._unknown = np.ones(len(owners), np.bool_)

    def unknown_name(self) -> str | None:
        """A name that `places` was not asked for; None if there is none."""
        unknown = np.flatnonzero(self._unknown)
        if not len(unknown):
            return None
        start, end = self.keys.starts[unknown[0]], self.keys.ends[unknown[0]]
        return bytes(self.memory[start:end]).decode(errors="backslashreplace")

    def places(self, name: str) -> Places:
        """The entries with this name, at most one in each record."""
        key = np.frombuffer(name.encode(), np.uint8)
        places = np.flatnonzero(self.keys.ends - self.keys.starts == len(key))
        if len(key):
            places = places[(gather(self.data, self.keys.starts[places], len(key)) == key).all(axis=1)]
        owners = self.keys.owners[places]
        if (owners[1:] == owners[:-1]).any():
            raise UnusualError
        self._unknown[places] = False
        return places

    def feature(self, name: str) -> FeatureValues:
        """The values of a feature."""
        data, places = self.data, self.places(name)
        starts, ends = self.values.starts[places], self.values.ends[places]
        counts = np.full(self.count, -1, np.int64)
        full = np.flatnonzero(starts < ends)
        if not len(full):
            return FeatureValues(EMPTY, counts, [])
        owners, starts, ends = self.values.owners[places[full]], starts[full], ends[full]
        tag = int(data[starts[0]])
        kind = tag >> 3
        begins, stops = _delimited(data, starts, ends, tag)
        if tag not in (0x0A, 0x12, 0x1A) or (stops != ends).any():
            raise UnusualError
        if kind == BYTES:
            spans = _repeated(data, begins, stops)
            counts[owners] = np.bincount(spans.owners, minlength=len(owners))
            return FeatureValues(kind, counts, self._binary(spans.starts, spans.ends))
        filled = np.flatnonzero(begins < stops)  # a list without values may have no bytes
        begins, packed_ends = _delimited(data, begins[filled], stops[filled], _KEY_TAG)
        if (packed_ends != stops[filled]).any():
            raise UnusualError
        packed = self._join(begins, packed_ends)
        sizes = packed_ends - begins
        counts[owners] = 0
        if kind == FLOATS:
            if (sizes % 4).any():
                raise UnusualError
            counts[owners[filled]] = sizes // 4
            return FeatureValues(kind, counts, np.frombuffer(packed, "<f4"))
        values, last_bytes = _unpack_ints(packed)
        counts[owners[filled]] = _counts_within(last_bytes, sizes)
        return FeatureValues(kind, counts, values)

    def _join(self, starts: Places, ends: Places) -> bytes:
        sizes = ends - starts
        total = int(sizes.sum())
        if total and (sizes == sizes[0]).all():
            return gather(self.data, starts, int(sizes[0])).tobytes()
        if total <= _SHORT_BYTES * len(sizes):
            shifts = starts - (np.cumsum(sizes) - sizes)
            joined: bytes = self.data[np.arange(total) + np.repeat(shifts, sizes)].tobytes()
            return joined
        memory = self.memory
        return b"".join([memory[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])

    def _binary(self, starts: Places, ends: Places) -> pa.Array[Any]:
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(self._join(starts, ends))]
        return pa.Array.from_buffers(pa.large_binary(), len(starts), buffers)


def _unpack_ints(packed: bytes) -> tuple[npt.NDArray[np.int64], Places]:
    """The numbers of some bytes, and the place of the last byte of each."""
    data = np.frombuffer(packed, np.uint8)
    lasts = np.flatnonzero(data < 0x80)
    if len(data) and (not len(lasts) or lasts[-1] != len(data) - 1):
        raise UnusualError
    if len(lasts) == len(data):  # all numbers have one byte
        return data.astype(np.int64), lasts
    firsts = np.empty_like(lasts)
    firsts[:1] = 0
    firsts[1:] = lasts[:-1] + 1
    sizes = lasts - firsts + 1
    if sizes.max() > 10:
        raise UnusualError
    shifts = (np.arange(len(data)) - np.repeat(firsts, sizes)).astype(np.uint64) * np.uint64(7)
    parts = (data & 0x7F).astype(np.uint64) << shifts
    return np.add.reduceat(parts, firsts).view(np.int64), lasts


def _counts_within(lasts: Places, sizes: Places) -> Places:
    """Count the numbers that end in each of some parts of these sizes, which follow each other."""
    bounds = np.cumsum(sizes)
    before = np.searchsorted(lasts, bounds, "left")
    if len(bounds) and (not len(lasts) or not np.isin(bounds - 1, lasts).all()):
        raise UnusualError
    return np.diff(before, prepend=0)


def read_features(
    data: bytes, starts: Places, ends: Places, names: Iterable[str]
) -> tuple[dict[str, FeatureValues], str | None]:
    """The features with these names of many records, however they are encoded, and the name of one that is another.

    Raises:
        ValueError: a record is no Example, or a feature has values of several kinds.
    """
    try:
        return _usual_features(data, starts, ends, names)
    except UnusualError:
        records = [parse_example(data[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    for name in names:
        try:
            kinds_of(record[name] for record in records if name in record)
        except ValueError as error:
            raise ValueError(f"feature {name!r} {error}") from None
    usual = [
        write_example({name.encode(): write_feature(*feature) for name, feature in record.items()})
        for record in records
    ]
    ends = np.cumsum([len(record) for record in usual])
    return _usual_features(b"".join(usual), np.append(0, ends[:-1]), ends, names)


def _usual_features(
    data: bytes, starts: Places, ends: Places, names: Iterable[str]
) -> tuple[dict[str, FeatureValues], str | None]:
    entries = Entries(data, starts, ends)
    return {name: entries.feature(name) for name in names}, entries.unknown_name()


def _cast(name: str, feature: FeatureValues, kind: pa.DataType) -> Any:
    values = feature.values if feature.kind == BYTES else arrow_array(feature.values)
    problem = f"feature {name!r} holds {KIND_NAMES[feature.kind]}, which do not fit {kind}"
    if not _are_alike(feature.kind, kind):  # Arrow would parse text as numbers
        raise ValueError(problem)
    try:
        return values if values.type == kind else values.cast(kind)
    except pa.ArrowException as error:
        raise ValueError(f"{problem}: {error}") from error


def _are_alike(feature: int, kind: Any) -> bool:
    types = pa.types
    if feature == BYTES:
        return types.is_fixed_size_binary(kind) or (is_text(kind) and not types.is_dictionary(kind))
    if types.is_floating(kind):
        return True
    return feature == INTS and bool(types.is_integer(kind) or types.is_boolean(kind))


def _count_error(name: str, count: int, kind: object) -> ValueError:
    return ValueError(f"feature {name!r} has {count} values, which do not fit {kind}")


def kinds_of(features: Iterator[Feature]) -> tuple[int, bool]:
    """The kind of a feature in some records, and whether each has one value; a `ValueError` if kinds differ."""
    kinds: set[int] = set()
    single = True
    for feature in features:
        if feature.kind != EMPTY:
            kinds.add(feature.kind)
            single = single and len(feature.values) == 1
    if len(kinds) > 1:
        raise ValueError(f"holds {' and '.join(KIND_NAMES[kind] for kind in sorted(kinds))}")
    return (kinds.pop() if kinds else EMPTY), single


def to_arrow(name: str, feature: FeatureValues, kind: Any) -> Any:
    """The column of a feature, in an Arrow type; a `ValueError` if a value does not fit it."""
    import pyarrow

    pa: Any = pyarrow  # its stubs know no masks of this kind
    count = len(feature.counts)
    missing = feature.counts < 0
    if feature.kind == EMPTY:
        return pa.nulls(count, kind)
    tensor = isinstance(kind, pa.FixedShapeTensorType)
    storage = kind.storage_type if tensor else kind
    counts = np.maximum(feature.counts, 0)
    if pa.types.is_list(storage) or pa.types.is_large_list(storage):
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        items = _cast(name, feature, storage.value_type)
        lists = pa.LargeListArray.from_arrays(
            arrow_array(offsets), items, mask=arrow_array(missing) if missing.any() else None
        )
        return lists if storage == lists.type else lists.cast(storage)
    if pa.types.is_fixed_size_list(storage):
        wrong = np.flatnonzero((counts != storage.list_size) & ~missing)
        if len(wrong):
            raise _count_error(name, int(counts[wrong[0]]), kind)
        items = _cast(name, feature, storage.value_type)
        if missing.any():
            places = np.repeat(np.cumsum(~missing) - 1, storage.list_size) * storage.list_size
            places += np.tile(np.arange(storage.list_size), count)
            items = items.take(arrow_array(np.maximum(places, 0)))
        arrays = pa.FixedSizeListArray.from_arrays(
            items, type=storage, mask=arrow_array(missing) if missing.any() else None
        )
        return pa.ExtensionArray.from_storage(kind, arrays) if tensor else arrays
    wrong = np.flatnonzero(counts > 1)
    if len(wrong):
        raise _count_error(name, int(counts[wrong[0]]), kind)
    values = _cast(name, feature, kind)
    if (feature.counts == 1).all():
        return values
    places = arrow_array(np.cumsum(counts) - 1, missing=counts == 0)
    return values.take(places)


# One Example at a time, in any legal encoding.


class Feature(NamedTuple):
    """A feature of an Example: its kind, and its values."""

    kind: int
    values: Sequence[object]


def parse_example(data: bytes) -> dict[str, Feature]:
    """The features of a message; a `ValueError` if the bytes are no Example."""
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


# Rows as records.


def write_records(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Each row as the bytes of a record; a `DataError` if an Example cannot hold the type of a column."""
    checksum = crc32c()
    columns = [_features(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    names = [name.encode() for name in batch.schema.names]
    for row in zip(*columns, strict=True):
        data = write_example({name: value for name, value in zip(names, row, strict=True) if value is not None})
        yield _record(data, checksum)


def _record(data: bytes, checksum: Callable[[bytes], int]) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join((
        length,
        struct.pack("<I", masked(checksum(length))),
        data,
        struct.pack("<I", masked(checksum(data))),
    ))  # fmt: skip


def _features(name: str, column: Any) -> list[bytes | None]:
    """The feature of each row of a column; None for a missing value."""
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        column, kind = column.storage, kind.storage_type
    values = scalars(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner, convert = _kind_of(name, kind.value_type)
        if any(None in value for value in values if value is not None):  # type: ignore[operator]
            raise DataError(f"column {name!r} has a list with a missing value, and an Example holds no such lists")
        return [None if value is None else write_feature(inner, [*map(convert, value)]) for value in values]  # type: ignore[call-overload]
    inner, convert = _kind_of(name, kind)
    return [None if value is None else write_feature(inner, [convert(value)]) for value in values]


def _kind_of(name: str, kind: Any) -> tuple[int, Callable[[Any], Any]]:
    """The kind of feature for values of a type, and the function that makes a value of it."""
    types = pa.types
    if types.is_boolean(kind) or (types.is_integer(kind) and kind != pa.uint64()):
        return INTS, int
    if types.is_floating(kind):
        return FLOATS, float
    if types.is_string(kind) or types.is_large_string(kind):
        return BYTES, str.encode
    if any(
        is_kind(kind) for is_kind in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_null)
    ):
        return BYTES, bytes
    raise DataError(
        f"column {name!r} has the type {kind}, and an Example holds bytes, ints of 64 bits, floats, and lists of them; "
        "`.map` can make these"
    )


def write_example(features: Mapping[bytes, bytes]) -> bytes:
    """The message of these features, each as `write_feature` makes it."""
    entries = [write_field(1, write_field(1, name) + write_field(2, feature)) for name, feature in features.items()]
    return write_field(1, b"".join(entries))


def write_feature(kind: int, values: Sequence[Any]) -> bytes:
    """A feature of one kind; a `struct.error` or an `OverflowError` if a value does not fit it."""
    if kind == EMPTY:
        return b""
    if kind == BYTES:
        return write_field(kind, b"".join([write_field(1, value) for value in values]))
    if kind == FLOATS:
        return write_field(kind, write_field(1, struct.pack(f"<{len(values)}f", *values)) if values else b"")
    return write_field(kind, write_field(1, b"".join(map(write_varint, values))) if values else b"")
