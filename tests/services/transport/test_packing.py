"""Elements arrive as they were packed, as views of the memory they were written to, and free that memory."""

from __future__ import annotations

import ctypes
import dataclasses
import decimal
import enum
import mmap
import pathlib
import pickle
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from feedpipe.core.rows import Rows
from feedpipe.core.tensor_data import Stack, TensorData
from feedpipe.errors import CallSite, DataError, LoaderError
from feedpipe.services.transport.class_registry import class_of, number_of
from feedpipe.services.transport.packing import MIN_OWN_REGION_BYTES, PackedElement, Packer, unpack, unpack_body
from feedpipe.services.transport.region import ALIGNMENT


def region(size: int) -> Any:
    """Shared memory as a consumer leases it: the object lives as long as any view of it."""
    return (ctypes.c_char * max(size, 1)).from_buffer(mmap.mmap(-1, max(size, 1)))


def write_regions(packed: PackedElement) -> list[Any]:
    memories = [region(one.nbytes) for one in packed.regions]
    for one, memory in zip(packed.regions, memories, strict=True):
        one.write(memoryview(memory).cast("B"))
    return memories


def round_trip(element: Any, packer: Packer | None = None) -> Any:
    packed = (packer or Packer()).pack(element)
    return unpack(packed.stream, write_regions(packed))


class Transfer:
    """An element that has been packed and unpacked; tells which of its regions are still in use."""

    def __init__(self, element: object) -> None:
        packed = Packer().pack(element)
        memories = write_regions(packed)
        self._memories = [weakref.ref(memory) for memory in memories]
        self.element: Any = unpack(packed.stream, memories)

    @property
    def used(self) -> list[bool]:
        return [memory() is not None for memory in self._memories]

    @property
    def in_use(self) -> bool:
        return any(self.used)


def nbytes(packed: PackedElement) -> int:
    return sum(one.nbytes for one in packed.regions)


# ---- NumPy

LAYOUTS = {
    "c": lambda a: a,
    "transposed": lambda a: a.T,
    "fortran": lambda a: np.asfortranarray(a),
    "every other": lambda a: a[::2] if a.ndim else a,
    "backwards": lambda a: a[..., ::-1] if a.ndim else a,
    "axes moved": lambda a: np.moveaxis(a, 0, -1) if a.ndim else a,
    "one row many times": lambda a: np.broadcast_to(a, (3, *a.shape)),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) if a.dtype.itemsize else a,
}
dtypes = st.one_of(hnp.scalar_dtypes(), hnp.array_dtypes(), hnp.nested_dtypes(max_itemsize=200))
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)


@given(st.lists(st.tuples(arrays, st.sampled_from(sorted(LAYOUTS))), max_size=4))
def test_arrays_of_every_dtype_shape_and_layout(layouts: list[tuple[Any, str]]) -> None:
    sent = [LAYOUTS[layout](array) for array, layout in layouts]
    for array, arrived in zip(sent, round_trip(sent), strict=True):
        assert type(arrived) is np.ndarray
        assert arrived.dtype == array.dtype and arrived.shape == array.shape
        assert repr(arrived.tolist()) == repr(array.tolist())
        assert arrived.flags.writeable


@pytest.mark.parametrize("size", [1, 63, 64, 65, 40_000])
@pytest.mark.parametrize("dtype", ["f4", ">i2", "M8[ns]", "U5", "G", [("a", "i1"), ("b", "f8")]])
def test_arrays_small_and_big(size: int, dtype: Any) -> None:
    array = np.arange(2 * size).astype("i8").astype(dtype if isinstance(dtype, str) else "i1").astype(dtype)
    sent = {"whole": array, "every other": array[::2], "fortran": array.reshape(2, size).T, "one": array[3 % size]}
    arrived = round_trip(sent)
    for name, value in sent.items():
        assert arrived[name].dtype == value.dtype and arrived[name].shape == value.shape
        np.testing.assert_array_equal(arrived[name], value)


def test_each_array_is_aligned() -> None:
    arrived = round_trip([np.zeros(n, "u1") for n in range(1, 200)])
    assert all(array.ctypes.data % ALIGNMENT == 0 for array in arrived)


def test_the_order_of_axes_stays() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    arrived = round_trip([np.asfortranarray(array), array.transpose(0, 2, 1), array[:, :, ::2]])
    assert arrived[0].flags.f_contiguous
    assert arrived[1].transpose(0, 2, 1).flags.c_contiguous
    assert arrived[2].flags.c_contiguous


def test_arrays_of_objects() -> None:
    array = np.array([{"a": 1}, None, "x"], dtype=object)
    mixed = np.array([(1, "x")], [("n", "i4"), ("o", "O")])
    arrived = round_trip([array, mixed])
    assert arrived[0].tolist() == array.tolist() and arrived[1].tolist() == mixed.tolist()
    assert round_trip(np.array(["text", "of any length"], np.dtypes.StringDType())).tolist() == [
        "text",
        "of any length",
    ]


def test_kinds_of_arrays(tmp_path: pathlib.Path) -> None:
    masked = np.ma.MaskedArray([1, 2, 3], [False, True, False])
    assert round_trip(masked).tolist() == [1, None, 3]
    records = np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")])
    assert round_trip(records).a.tolist() == [1]
    np.save(tmp_path / "a.npy", np.arange(10))
    arrived = round_trip(np.load(tmp_path / "a.npy", mmap_mode="r")[2:5])
    assert type(arrived) is np.ndarray and arrived.tolist() == [2, 3, 4]
    assert round_trip(np.float32(1.5)) == np.float32(1.5)


def test_an_object_that_is_there_twice_arrives_as_one() -> None:
    array, tensor = np.zeros(3), torch.zeros(3)
    a, b, (c, d), e = round_trip([array, array, (tensor, {"x": tensor}), array[:2]])
    assert a is b and c is d["x"] and a is not e


# ---- Tensors

TENSORS = [
    torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.complex128,
    torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32,
    torch.int64,
]  # fmt: skip


def same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.to(torch.complex128), b.to(torch.complex128))


@pytest.mark.parametrize("dtype", TENSORS, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0, 2), (2, 3, 4)], ids=str)
def test_tensors_of_every_dtype(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.randint(0, 2, shape).to(dtype)
    arrived = round_trip({"x": tensor, "t": tensor.T if tensor.ndim == 2 else tensor.mT if tensor.ndim > 2 else tensor})
    assert type(arrived["x"]) is torch.Tensor and same_tensor(arrived["x"], tensor)
    assert arrived["t"].stride() == (tensor.mT if tensor.ndim > 1 else tensor).stride() or not tensor.numel()


def test_a_dtype_that_is_half_a_complex_number() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that the type is experimental
        arrived = round_trip(torch.tensor([1 + 2j], dtype=torch.complex32))
        assert arrived.dtype is torch.complex32 and arrived[0].item() == 1 + 2j


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4)[:, ::2],
        torch.arange(12.0).reshape(3, 4).t(),
        torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(1).expand(4),
        torch.arange(200_000.0).reshape(2, -1)[:, 1::2],
        torch.tensor([1 + 2j, 3j]).conj(),
        torch.tensor([1 + 2j, 3j]).conj().imag,
    ],
    ids=["strided", "transposed", "channels last", "expanded", "big", "conjugate", "negated"],
)
def test_layouts_of_tensors(tensor: torch.Tensor) -> None:
    arrived = round_trip(tensor)
    assert same_tensor(arrived, tensor)
    if tensor.ndim == 4:
        assert arrived.is_contiguous(memory_format=torch.channels_last)


@dataclasses.dataclass
class Sample:
    image: torch.Tensor
    label: int
    more: Any = None


Pair = namedtuple("Pair", "a b")


class Plain:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Color(enum.Enum):
    RED = 1


def test_tensors_inside_other_things() -> None:
    x = torch.arange(3)
    sample, pair, mapping, plain = round_trip(
        [Sample(x, 1, [x + 1]), Pair(x, (x + 2,)), OrderedDict(x=x), Plain(x=[Sample(x + 3, 2)])]
    )
    assert sample.image.tolist() == [0, 1, 2] and sample.more[0].tolist() == [1, 2, 3]
    assert type(pair) is Pair and pair.b[0].tolist() == [2, 3, 4] and pair.a is sample.image is mapping["x"]
    assert plain.x[0].image.tolist() == [3, 4, 5]


def test_tensors_of_autograd() -> None:
    leaf = torch.ones(3, requires_grad=True)
    half = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    weights = torch.nn.Parameter(torch.ones(2, 2))
    arrived = round_trip([leaf, half, weights, leaf.detach()])
    assert arrived[0].requires_grad and arrived[0].is_leaf and torch.equal(arrived[0], leaf)
    assert arrived[1].requires_grad and arrived[1].is_leaf and arrived[1].dtype is torch.bfloat16
    assert type(arrived[2]) is torch.nn.Parameter and arrived[2].requires_grad and torch.equal(arrived[2], weights)
    assert not arrived[3].requires_grad
    (arrived[0] * 2).sum().backward()
    assert arrived[0].grad.tolist() == [2, 2, 2]
    with pytest.raises(DataError, match=r"`element\['x'\]`, of type torch.Tensor.* `tensor.detach\(\)`"):
        round_trip({"x": leaf * 2})


@pytest.mark.filterwarnings("ignore")  # torch warns about some of these
def test_other_tensors_go_as_torch_pickles_them() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert round_trip(x.to_sparse()).to_dense().tolist() == x.tolist()
    assert round_trip(x.to_sparse_csr()).to_dense().tolist() == x.tolist()
    assert round_trip(torch.nested.nested_tensor([x[0], x[1, :2]])).unbind()[1].tolist() == [3, 4]
    quantized = torch.quantize_per_tensor(x, 0.5, 0, torch.qint8)
    assert round_trip(quantized).dequantize().tolist() == x.tolist()
    assert round_trip(torch.ones(2, device="meta")).device.type == "meta"


def test_a_tensor_keeps_its_attributes() -> None:
    tensor = torch.ones(2)
    tensor.label = "ones"  # type: ignore[attr-defined]
    assert round_trip(tensor).label == "ones"


def test_no_descriptor_is_opened() -> None:
    before = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    arrived = round_trip([torch.ones(1000), torch.ones(2, requires_grad=True)])
    assert len(list(pathlib.Path("/proc/self/fd").iterdir())) == before
    assert not any(tensor.is_shared() for tensor in arrived)


def test_an_arrays_content_becomes_a_tensor() -> None:
    x = np.arange(6).reshape(2, 3)
    arrived = round_trip(
        [TensorData(x), TensorData(x.T), TensorData(x.astype(">f4")), TensorData(x[:0]), TensorData(x == 1)]
    )
    assert [tensor.tolist() for tensor in arrived] == [x.tolist(), x.T.tolist(), x.tolist(), [], (x == 1).tolist()]
    assert all(tensor.is_contiguous() for tensor in arrived)
    assert arrived[2].dtype is torch.float32 and arrived[3].shape == (0, 3) and arrived[4].dtype is torch.bool
    with pytest.raises(DataError, match=r"`element`, of type feedpipe\.core.*TensorData.*no dtype for datetime64"):
        round_trip(TensorData(np.array(["2020"], "M8[s]")))


@pytest.mark.parametrize("dtype", ["u1", ">f4", "c8", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4), (1000, 600)], ids=str)
@pytest.mark.parametrize("layout", ["c", "transposed", "backwards", "read-only"])
def test_arrays_to_be_stacked_become_one_tensor(dtype: str, shape: tuple[int, ...], layout: str) -> None:
    arrays = [LAYOUTS[layout](np.full(shape, n).astype(dtype)) for n in range(3)]
    first, arrived, last = round_trip([np.arange(5), TensorData(Stack(arrays)), torch.arange(3)])
    expected = np.stack(arrays)
    assert arrived.dtype == torch.from_numpy(expected.astype(expected.dtype.newbyteorder("="))).dtype
    assert arrived.is_contiguous() and arrived.shape == expected.shape
    np.testing.assert_array_equal(arrived.numpy(), expected)
    assert first.tolist() == [0, 1, 2, 3, 4] and last.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(np.asarray(Stack(arrays)), expected)


def test_a_worker_without_torch() -> None:
    """Packs in a process that has imported neither torch nor pyarrow, and does not import them either."""
    code = """
        import pickle, sys
        import numpy as np
        from feedpipe.core.tensor_data import TensorData
        from feedpipe.services.transport.packing import Packer

        imported = {"torch", "pyarrow"} & set(sys.modules)
        packed = Packer().pack({"x": TensorData(np.arange(3.0)), "y": np.arange(4)})
        assert {"torch", "pyarrow"} & set(sys.modules) == imported and "torch" not in imported
        [region] = packed.regions
        memory = bytearray(region.nbytes)
        region.write(memoryview(memory))
        sys.stdout.buffer.write(pickle.dumps((packed.stream, [memory])))
    """
    arrived: Any = unpack(*pickle.loads(python(code)))
    assert torch.equal(arrived["x"], torch.arange(3.0, dtype=torch.float64)) and arrived["y"].tolist() == [0, 1, 2, 3]


def python(code: str) -> bytes:
    """What `code` prints as the `__main__` of another process."""
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout


# ---- Arrow

NUMBERS = pa.array(range(100_000))
TEXT = pa.array([f"text long enough not to be inlined {i}" for i in range(20_000)])
ARROW = {
    "numbers": NUMBERS,
    "nulls": pa.array([1, None, 3] * 1000),
    "bools": pa.array([True, None, False] * 1000),
    "text": TEXT,
    "large text": TEXT.cast(pa.large_string()),
    "text views": TEXT.cast(pa.string_view()),
    "byte views": TEXT.cast(pa.binary()).cast(pa.binary_view()),
    "decimals": pa.array([decimal.Decimal("1.50"), None] * 500),
    "times": pa.array(range(1000), pa.timestamp("us", "UTC")),
    "lists": pa.array([[i, None] for i in range(1000)]),
    "fixed lists": pa.array([[i, i] for i in range(1000)], pa.list_(pa.int16(), 2)),
    "structs": pa.array([{"a": i, "b": [str(i)]} for i in range(1000)]),
    "maps": pa.array([[("k", i)] for i in range(1000)], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["a", "b", None] * 1000).dictionary_encode(),
    "none": pa.nulls(1000),
    "tensors": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(6000.0).reshape(1000, 2, 3)),
    "views of nothing": pa.array(["long enough for a buffer of its own", None], pa.string_view())[2:],
}


@pytest.mark.parametrize("name", ARROW)
@pytest.mark.parametrize("cut", [slice(None), slice(500, 523), slice(7, 7)], ids=["whole", "slice", "empty"])
def test_arrow_arrays(name: str, cut: slice) -> None:
    array = ARROW[name][cut]
    arrived = round_trip([array, pa.chunked_array([array, array])])
    arrived[0].validate(full=True)
    assert arrived[0].type == array.type and arrived[0].equals(array)
    assert arrived[1].type == array.type and arrived[1].equals(pa.chunked_array([array, array]))
    columns = pa.RecordBatch.from_arrays([array, array], ["a", "b"])
    assert round_trip(columns).equals(columns)
    assert (
        round_trip(pa.Table.from_batches([columns] * 2)).to_batches()
        == pa.Table.from_batches([columns] * 2).to_batches()
    )


def test_schemas_arrive_with_their_metadata() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False, metadata={"k": "v"})], metadata={"m": "n"})
    batch = pa.RecordBatch.from_arrays([NUMBERS], schema=schema)
    table = pa.Table.from_batches([batch, batch[:5]])
    for sent in (batch, table, table[:0], schema.empty_table(), pa.Table.from_batches([], schema)):
        arrived = round_trip(sent)
        assert arrived.schema.equals(schema, check_metadata=True) and arrived.equals(sent)
    assert round_trip(batch.select([])).num_rows == len(NUMBERS)


def test_chunks_with_dictionaries_of_their_own() -> None:
    column = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()])
    assert round_trip(column).to_pylist() == ["a", "b", "c", "a"]
    assert round_trip(pa.table({"d": column}))["d"].to_pylist() == ["a", "b", "c", "a"]


@pytest.mark.parametrize("name", ["numbers", "text", "text views", "byte views"])
def test_a_slice_travels_without_its_parent(name: str) -> None:
    cut = ARROW[name][10_000:10_010]
    for sent in (cut, pa.chunked_array([cut]), pa.RecordBatch.from_arrays([cut], ["x"]), pa.table({"x": cut})):
        packed = Packer().pack(sent)
        assert sum(packed.sizes) < 2500


def test_arrow_data_is_written_once_and_not_copied_on_arrival() -> None:
    batch = pa.RecordBatch.from_arrays([NUMBERS, NUMBERS.cast(pa.float32())], ["a", "b"])
    packed = Packer().pack(batch)
    memories = write_regions(packed)
    arrived: Any = unpack(packed.stream, memories)
    [start] = map(ctypes.addressof, memories)
    for column in arrived.columns:
        assert start < column.buffers()[1].address < start + nbytes(packed)


# ---- Rows


@pytest.mark.parametrize("how", ["numpy", "arrow", "both", "sliced", "chosen", "no columns"])
def test_rows(how: str) -> None:
    x, grid = np.arange(6), np.arange(12.0).reshape(6, 2)
    text, number = pa.array(["a", "bc", None, "d", "e", "f"]), pa.array([1, None, 3, 4, 5, 6])
    rows = {
        "numpy": lambda: Rows({"x": x, "grid": grid}),
        "arrow": lambda: Rows({"text": text, "number": number}),
        "both": lambda: Rows({"text": text, "x": x, "number": number, "grid": grid}),
        "sliced": lambda: Rows({"text": text, "x": x, "number": number})[2:5],
        "chosen": lambda: Rows.selected({"text": text, "x": x, "grid": grid.T.copy().T}, np.array([5, 0, 2])),
        "no columns": lambda: Rows({}, 3),
    }[how]()
    arrived = round_trip(rows)
    assert type(arrived) is Rows and len(arrived) == len(rows)
    assert list(arrived.columns) == list(rows.columns)
    for a, b in zip(arrived.columns.values(), rows.columns.values(), strict=True):
        assert isinstance(a, np.ndarray) == isinstance(b, np.ndarray)
        assert a.dtype == b.dtype if isinstance(a, np.ndarray) else a.type == b.type
    assert repr(list(arrived)) == repr(list(rows))


def test_rows_travel_without_their_source() -> None:
    assert nbytes(Packer().pack(Rows({"n": NUMBERS[:20_000], "t": TEXT})[50:60])) < 2000
    assert nbytes(Packer().pack(Rows.selected({"x": np.zeros((100_000, 4))}, np.arange(3)))) < 200


# ---- Everything else


@pytest.mark.parametrize(
    "element",
    [
        None,
        5,
        {"a": {1, 2}, "b": (1.5, None, ..., 1 + 2j)},
        pathlib.PurePosixPath("/a/b"),
        range(3),
        b"\0" * 1_000_000,
        bytearray(b"\1" * 1_000_000),
        "ä" * 200_000,
        [b"\0" * 70_000, {"x": list(range(100_000))}, b""],
        slice(1, 2),
        np.dtype("f4"),
        torch.float32,
        torch.Size([1, 2]),
        pa.schema([("a", pa.int64())]),
        pa.scalar(5),
        ValueError("no"),
    ],
    ids=lambda element: type(element).__name__,
)
def test_objects_that_pickle_supports(element: Any) -> None:
    arrived = round_trip(element)
    assert type(arrived) is type(element)
    assert arrived == element or repr(arrived) == repr(element)


def test_small_elements_need_no_memory() -> None:
    packed = Packer().pack({"a": 1, "empty": np.zeros((0, 3)), "tensor": torch.zeros(0)})
    assert not packed.regions
    arrived: Any = unpack(packed.stream, ())
    assert arrived["empty"].shape == (0, 3) and arrived["tensor"].shape == (0,)


def test_a_long_stream_lies_in_the_region() -> None:
    image, small = bytes(range(256)) * 4000, np.arange(5)
    packed = Packer().pack({"image": image, "small": small, "text": "x" * 100_000})
    assert len(packed.stream) < 200 and nbytes(packed) > len(image)
    arrived: Any = unpack(packed.stream, write_regions(packed))
    assert arrived["image"] == image and arrived["small"].tolist() == small.tolist() and len(arrived["text"]) == 100_000


class Buffered:
    """Pickles itself as pandas does, with a buffer that may be out of the stream."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Buffered, (pickle.PickleBuffer(self.buffer),)


@pytest.mark.parametrize("size", [3, 300_000])
def test_buffers_of_other_libraries(size: int) -> None:
    writable, fixed, big = round_trip([Buffered(bytearray(size)), Buffered(bytes(size)), np.zeros(size)])
    assert type(writable.buffer) is bytearray and len(writable.buffer) == size
    assert type(fixed.buffer) is bytes and len(fixed.buffer) == size
    assert len(big) == size
    fortran = round_trip(Buffered(np.asfortranarray(np.arange(size * 2.0).reshape(2, size))))
    assert np.frombuffer(fortran.buffer).tolist()[:4] == [0.0, size, 1.0, size + 1]


def test_images() -> None:
    image = Image.new("RGB", (300, 200), (1, 2, 3))
    arrived = round_trip(image)
    assert arrived.size == (300, 200) and arrived.tobytes() == image.tobytes()


def test_tables_of_other_libraries() -> None:
    frame = pd.DataFrame({"a": np.arange(100_000), "b": ["x"] * 100_000})
    assert round_trip(frame).equals(frame)
    other = pl.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert round_trip(other).equals(other)


def test_without_shared_memory() -> None:
    packed = Packer().pack(
        {
            "x": torch.arange(5.0),
            "big": np.arange(MIN_OWN_REGION_BYTES),
            "t": pa.table({"a": [1, 2]}),
            "b": bytes(100_000),
        }
    )
    assert len(packed.regions) == 3
    body = b"".join(packed.body())
    for start in range(4):  # the body of a message may begin at any address
        message = bytearray(start) + body
        arrived: Any = unpack_body(memoryview(message)[start:], packed.sizes)
        assert arrived["x"].data_ptr() % 16 == 0 and arrived["t"]["a"].to_pylist() == [1, 2]
        arrived["x"] += 1
        assert arrived["x"].tolist() == [1, 2, 3, 4, 5] and len(arrived["b"]) == 100_000
        assert (arrived["big"] == np.arange(MIN_OWN_REGION_BYTES)).all() and arrived["big"].flags.writeable


def test_one_packer_packs_many() -> None:
    packer = Packer()
    kept = [packer.pack({"x": np.full(100, n), "t": torch.full((3,), n)}) for n in range(5)]
    for n, packed in enumerate(kept):
        arrived: Any = unpack(packed.stream, write_regions(packed))
        assert arrived["x"].tolist() == [n] * 100 and arrived["t"].tolist() == [n] * 3


def test_a_packer_keeps_nothing() -> None:
    packer = Packer()
    array = Tracked(4)
    end = weakref.ref(array)
    packed = packer.pack({"x": np.asarray(array.view(np.ndarray)), "owner": [array]})
    del array, packed
    assert end() is None


class Tracked(np.ndarray):  # type: ignore[type-arg]
    """An array that a weak reference can watch."""

    def __new__(cls, size: int) -> Tracked:
        return np.zeros(size).view(cls)


# ---- The life of a region


def test_a_region_ends_with_the_last_array() -> None:
    transfer = Transfer({"x": np.arange(10), "y": np.arange(10.0), "n": 3})
    x, y = transfer.element.pop("x"), transfer.element.pop("y")
    del transfer.element
    assert transfer.in_use
    view = x[2:5].reshape(3, 1)
    del x
    assert transfer.in_use
    del y
    assert transfer.in_use
    view[0] = 7
    del view
    assert not transfer.in_use


def test_a_region_ends_with_the_last_tensor() -> None:
    transfer = Transfer([torch.arange(10.0), torch.ones(3, dtype=torch.bfloat16), TensorData(np.ones(3))])
    a, b, c = transfer.element
    del transfer.element
    view, other = a[2:].view(2, 4).t(), c.numpy()
    del a, c
    assert transfer.in_use
    del b
    assert transfer.in_use
    view.add_(1)
    del view
    assert transfer.in_use and other.tolist() == [1, 1, 1]
    del other
    assert not transfer.in_use


def test_a_region_ends_with_the_last_of_arrow() -> None:
    transfer = Transfer([pa.table({"a": [1, 2, 3]}), Rows({"t": pa.array(["x", "y"]), "n": np.arange(2)})])
    table, rows = transfer.element
    del transfer.element
    column = table["a"].chunk(0)[1:]
    numbers = column.to_numpy()
    del table, column
    assert transfer.in_use
    text = rows.columns["t"]
    del rows
    assert transfer.in_use and numbers.tolist() == [2, 3]
    del numbers
    assert transfer.in_use and text.to_pylist() == ["x", "y"]
    del text
    assert not transfer.in_use


def test_large_parts_have_regions_of_their_own() -> None:
    image, table = np.zeros(MIN_OWN_REGION_BYTES, np.uint8), pa.table({"a": range(MIN_OWN_REGION_BYTES // 8)})
    transfer = Transfer({"n": np.arange(3), "image": image, "m": torch.ones(3), "table": table, "turned": image[::-1]})
    assert transfer.used == [True] * 4
    kept = transfer.element.pop("m")
    image = transfer.element.pop("image")
    del transfer.element
    assert transfer.used == [True, True, False, False]
    del image
    assert transfer.used == [True, False, False, False] and kept.tolist() == [1, 1, 1]


def test_a_long_stream_has_a_region_of_its_own() -> None:
    transfer = Transfer([np.zeros(MIN_OWN_REGION_BYTES), bytes(100_000), np.arange(3)])
    assert transfer.used == [False, True, True]
    large, small = transfer.element.pop(0), transfer.element.pop()
    del transfer.element
    del large
    assert transfer.used == [False, False, True] and small.tolist() == [0, 1, 2]


def test_many_large_parts() -> None:
    arrived = round_trip([np.full(MIN_OWN_REGION_BYTES, n, np.uint8) for n in range(40)])
    assert all((part == n).all() for n, part in enumerate(arrived))


def test_a_region_without_views_is_free_at_once() -> None:
    assert not Transfer(bytes(1_000_000)).in_use
    assert not Transfer(["x" * 100_000, 3]).in_use


def test_no_array_shares_memory_with_another() -> None:
    packed = Packer().pack([np.arange(3), torch.arange(3)])
    a: Any = unpack(packed.stream, write_regions(packed))
    b: Any = unpack(packed.stream, write_regions(packed))
    a[0][0] = a[1][0] = 9
    assert b[0][0] == b[1][0] == 0
    assert a[1].untyped_storage().nbytes() == 3 * 8  # `torch.save` writes the whole storage


# ---- Classes

WORKER = """
    import pickle, sys
    import cloudpickle
    from cloudpickle import cloudpickle as inner
    from feedpipe.services.transport.packing import Packer

    sent, numbers = cloudpickle.loads(sys.stdin.buffer.read())
    # Without this, cloudpickle itself would find some of the classes.
    inner._DYNAMIC_CLASS_TRACKER_BY_CLASS.clear()
    packer = Packer({cls: numbers[name] for name, cls in sent.items()})
    make = sent["make"]
    answers = []
    for _ in range(2):
        packed = packer.pack(make(sent))
        answers.append((b"".join(packed.body()), packed.sizes))
    assert packer._by_value
    sys.stdout.buffer.write(pickle.dumps(answers))
"""

MAIN = """
    import dataclasses, enum, pickle, subprocess, sys, textwrap
    from typing import NamedTuple
    import cloudpickle
    import numpy as np
    import torch
    from feedpipe.services.transport.class_registry import class_of, number_of
    from feedpipe.services.transport.packing import unpack_body

    @dataclasses.dataclass
    class Sample:
        x: object
        more: object = None

    @dataclasses.dataclass(slots=True)
    class Slotted:
        x: object
        more: object = None

    @dataclasses.dataclass(slots=True, frozen=True)
    class Frozen:
        x: object

    class Pair(NamedTuple):
        a: object
        b: object

    class Color(enum.Enum):
        RED = 1

    class Problem(Exception):
        pass

    class Meta(type):
        pass

    def local():
        class Inside(metaclass=Meta):
            __slots__ = ("x",)
            class Deeper:
                x = 0
        return Inside

    Inside = local()

    def make(sent):
        inside = sent["Inside"]()
        inside.x = [sent["Deeper"]()]
        import numpy as np, torch
        x = np.arange(3)
        new = type("New", (sent["Sample"],), {"__module__": "__main__"})
        return [
            sent["Sample"](x, sent["Pair"](torch.ones(2), x)), sent["Color"].RED, sent["Problem"]("no"), inside,
            sent["Inside"], new(1), lambda y: y + 1, x, sent["Slotted"](sent["Frozen"](x)),
        ]

    classes = [Sample, Pair, Color, Problem, Inside, Slotted, Frozen]
    sent = {cls.__name__: cls for cls in classes} | {"Deeper": Inside.Deeper}
    numbers = {name: number_of(cls) for name, cls in sent.items()}
    assert all(class_of(number) is sent[name] for name, number in numbers.items())
    given = cloudpickle.dumps((sent | {"make": make}, numbers | {"make": -1}))
    worker = subprocess.run([sys.executable, "-c", textwrap.dedent(WORKER)], input=given, stdout=subprocess.PIPE)
    assert worker.returncode == 0
    for body, sizes in pickle.loads(worker.stdout):
        sample, red, problem, inside, cls, new, function, x, slotted = unpack_body(body, sizes)
        assert type(sample) is Sample and type(sample.more) is Pair and sample.more.a.tolist() == [1, 1]
        assert sample.x is x is sample.more.b and x.tolist() == [0, 1, 2] and x.flags.writeable
        assert red is Color.RED and type(problem) is Problem and problem.args == ("no",)
        assert type(inside) is Inside and type(inside.x[0]) is Inside.Deeper and cls is Inside
        assert type(slotted) is Slotted and type(slotted.x) is Frozen and slotted.x.x is x and slotted.more is None
        assert isinstance(new, Sample) and new.x == 1 and type(new).__name__ == "New" and function(1) == 2
"""


def test_classes_that_cannot_be_imported() -> None:
    """The classes of the consumer are in `__main__` or in functions, and the worker has copies of them."""
    python(f"WORKER = {WORKER!r}\n" + textwrap.dedent(MAIN))


def test_numbers_of_classes() -> None:
    def make_class() -> type:
        return type("Made", (), {})

    cls = make_class()
    number = number_of(cls)
    assert number_of(cls) == number and class_of(number) is cls and number_of(Sample) != number
    with pytest.raises(LoaderError, match="does not hold any more"):
        class_of(-1)


def test_a_class_by_number_is_not_sent() -> None:
    class Local:
        pass

    number = number_of(Local)
    packed = Packer({Local: number}).pack(Local())
    assert len(packed.stream) < 150
    assert type(unpack(packed.stream, ())) is Local


def test_elements_that_were_packed_fast_can_be_packed_by_value() -> None:
    packer = Packer()
    elements = [
        {"x": torch.ones(3)},
        lambda: 1,
        {"x": torch.ones(3), "c": Color.RED, "p": Pair(1, 2)},
        ARROW["text"][:3],
    ]
    first, function, second, text = [round_trip(element, packer) for element in elements]
    assert function() == 1 and torch.equal(first["x"], second["x"])
    assert second["c"] is Color.RED and type(second["p"]) is Pair and text.equals(ARROW["text"][:3])


# ---- What cannot be packed


@pytest.mark.parametrize(
    ("element", "words"),
    [
        (
            {"x": [Plain(lock=threading.Lock())]},
            r"`element\['x'\]\[0\].lock`, of type _thread.lock, .*keep such things out",
        ),
        (Sample(torch.ones(1), 0, (1, threading.Lock())), r"`element.more\[1\]`, of type _thread.lock,"),
        (
            Pair(1, {2: (n for n in "a")}),
            r"`element.b\[2\]`, of type generator, .*cannot pickle 'generator' object\); return a list of what it",
        ),
        (threading.Lock(), "`element`, of type _thread.lock, "),
    ],
    ids=["deep", "dataclass", "namedtuple", "itself"],
)
def test_objects_that_cannot_be_packed(element: Any, words: str) -> None:
    packer = Packer()
    with pytest.raises(DataError, match=f"cannot leave its worker: {words}") as caught:
        packer.pack(element)
    assert isinstance(caught.value.__cause__, TypeError)
    assert round_trip([1, np.arange(3)], packer)[1].tolist() == [0, 1, 2]


class Refusing:
    def __reduce__(self) -> Any:
        raise ValueError


def test_an_error_of_the_users_own(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        DataError, match=r"`element\[1\]`, of type .*Refusing, cannot be packed \(ValueError\)"
    ) as caught:
        Packer().pack([1, Refusing()])
    assert type(caught.value.__cause__) is ValueError
    (tmp_path / "a").touch()
    with (
        open(tmp_path / "a") as file,
        pytest.raises(
            DataError, match=r"`element\['file'\]`, of type _io.TextIOWrapper.*; return what is in the file"
        ) as caught,
    ):
        Packer(call_site=CallSite("train.py", 7)).pack({"file": file})
    assert str(caught.value).endswith("\n  at train.py:7")


def test_elements_that_are_nested_too_deeply() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(DataError, match="cannot leave its worker") as caught:
        Packer().pack({"deep": deep})
    assert isinstance(caught.value.__cause__, (RecursionError, pickle.PicklingError))
