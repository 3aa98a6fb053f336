from __future__ import annotations

import io
import warnings

import cloudpickle
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, MissingError, SourceError
from feedpipe.testing import check_operator, same

from ..support.examples import examples


def encoded(array: object, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(stream, np.asanyarray(array), version)
    return stream.getvalue()


@pytest.mark.parametrize("shape", [(21,), (21, 2), (0,), (0, 3), (4, 0)])
@pytest.mark.parametrize("dtype", ["|u1", "|b1", "<f2", ">f8", "<i4", ">i2", "<c16", "<U3", "|S2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_plain_rows(tmp_path, shape, dtype, order):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype, order=order)
    np.save(tmp_path / "x.npy", array)
    rows = check_operator(fp.read_numpy(tmp_path / "x.npy"), samples=3)
    native = array.astype(array.dtype.newbyteorder("="))
    assert same(rows, list(native))
    assert same(rows, list(fp.from_sequence(native)))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.lists(st.integers(0, 5), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
def test_files_are_joined_wherever_they_end(tmp_path, xs, ys):
    ys = [*ys, max(0, sum(xs) - sum(ys))]
    xs = [*xs, max(0, sum(ys) - sum(xs))]
    x, y = np.arange(sum(xs)), np.arange(2 * sum(ys)).reshape(-1, 2)
    parts = {"x": np.split(x, np.cumsum(xs)[:-1]), "y": np.split(y, np.cumsum(ys)[:-1])}
    paths = {}
    for name, arrays in parts.items():
        paths[name] = [tmp_path / f"{name}{k}.npy" for k in range(len(arrays))]
        for path, array in zip(paths[name], arrays, strict=True):
            np.save(path, array)
    pipe = fp.read_numpy(paths)
    assert same(check_operator(pipe, samples=3), list(fp.from_arrays({"x": x, "y": y})))
    assert same(sorted(row["x"] for row in pipe.shuffle()), x.tolist())
    assert same(
        [batch["y"].tolist() for batch in pipe.batch(3).collate(format="numpy")],
        [y[k : k + 3].tolist() for k in range(0, len(y), 3)],
    )


FIELDS = np.zeros(3, [("a", "i4"), ("b", "f8")])
WHOLE = encoded(np.arange(12).reshape(4, 3))
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r"is no \.npy file"),
    "another format": (b"PK\3\4" * 100, r"is no \.npy file, or its header is damaged"),
    "cut in the header": (WHOLE[:50], r"is no \.npy file"),
    "cut in the data": (WHOLE[:-1], "is truncated: 4 x 3 items of int64 make 224 bytes, and it has 223"),
    "too long": (WHOLE + WHOLE, "is longer than it says"),
    "a header of 4 GiB": (b"\x93NUMPY\2\0\xff\xff\xff\xff" + b"x" * 9000, r"is no \.npy file"),
    "a claim of 8 TB": (WHOLE.replace(b"(4, 3), }  ", b"(1000000000000,), }"[:11]), "npy"),
    "a later version": (b"\x93NUMPY\x09\0" + WHOLE[8:], "npy"),
    "objects": (encoded(np.array([1, "a", None], object)), "holds Python objects, which would have to be unpickled"),
    "fields": (encoded(FIELDS), "holds rows of fields.*; save an array for each field"),
    "dates": (encoded(np.array(["2024-01-01"], "M8[D]")), r"has dtype datetime64\[D\].*save dates as numbers"),
    "one item": (encoded(np.float64(3)), "must have an axis, for the rows, but holds a single item"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("name", [None, "x"])
def test_broken_files(tmp_path, data, message, name):
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        len(fp.read_numpy(path if name is None else {name: path}))
    assert str(path) in str(caught.value) and __file__ in str(caught.value)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=5), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_give_rows_or_an_error(tmp_path, changes, draw):
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    (tmp_path / "x.npy").write_bytes(data[: draw.draw(st.sampled_from([len(data), len(data) - 8, 100]))])
    try:
        list(fp.read_numpy(tmp_path / "x.npy"))
    except fp.FeedpipeError as error:
        assert "x.npy" in str(error)


def test_files_that_differ(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    np.save(tmp_path / "b.npy", np.zeros((3, 3)))
    np.save(tmp_path / "c.npy", np.zeros((4, 2), "f4"))
    with pytest.raises(DataError, match=r"a\.npy has rows of shape \(2,\) and float64, and .*b\.npy of \(3,\) and flo"):
        len(fp.read_numpy([tmp_path / "a.npy", tmp_path / "b.npy"]))
    with pytest.raises(DataError, match=r"a\.npy has .* and float64, and .*c\.npy of \(2,\) and float32"):
        len(fp.read_numpy([tmp_path / "a.npy", tmp_path / "c.npy"]))
    with pytest.raises(DataError, match=r"'x' has 3 rows \(.*a\.npy\) and 'y' 4 \(.*c\.npy\)"):
        len(fp.read_numpy({"x": tmp_path / "a.npy", "y": tmp_path / "c.npy"}))


@pytest.mark.parametrize("rows", [5, 4])
def test_a_file_that_changed_after_its_header_was_read(tmp_path, rows):
    np.save(tmp_path / "x.npy", np.arange(5))
    pipe = fp.read_numpy(tmp_path / "x.npy")
    assert len(pipe) == 5
    np.save(tmp_path / "x.npy", np.arange(float(rows)))
    with pytest.raises(SourceError, match=r"x\.npy has changed since(.|\n)*test_read_numpy\.py"):
        list(pipe)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_npz_files(tmp_path, save):
    x, y = np.arange(42.0).reshape(21, 2), np.arange(21)
    for k, part in enumerate((slice(0, 5), slice(5, 5), slice(5, 21))):
        save(tmp_path / f"{k}.npz", x=x[part], f=np.asfortranarray(x[part]), y=y[part])
    pipe = fp.read_numpy({"x": tmp_path, "f": tmp_path, "y": tmp_path})
    assert same(check_operator(pipe), list(fp.from_arrays({"x": x, "f": x, "y": y})))
    assert pipe[3]["x"].flags.aligned and not pipe[3]["x"].flags.writeable
    assert sorted(row["y"] for row in pipe.shuffle()) == y.tolist()
    np.save(tmp_path / "z.npy", y)
    both = fp.read_numpy({"x": tmp_path / "*.npz", "z": tmp_path / "z.npy"})
    assert [row["z"] for row in both] == y.tolist()
    assert len(cloudpickle.dumps(pipe)) < 10_000


def test_npz_files_that_do_not_fit(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.arange(3))
    np.savez(tmp_path / "b.npz", x=np.array([None]))
    with pytest.raises(
        ArgumentError, match=r"`read_numpy\({'x': 'a.npz', 'y': 'a.npz'}\)` reads all of them"
    ) as caught:
        len(fp.read_numpy(tmp_path / "a.npz"))
    assert __file__ in str(caught.value)
    with pytest.raises(DataError, match=r"a\.npz has no array 'z'; it has 'x', 'y'"):
        len(fp.read_numpy({"z": tmp_path / "a.npz"}))
    with pytest.raises(DataError, match=r"b\.npz, array 'x' holds Python objects"):
        len(fp.read_numpy({"x": tmp_path / "b.npz"}))
    (tmp_path / "c.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-30])
    with pytest.raises(DataError, match=r"c\.npz is no \.npz file that can be read, or is damaged: "):
        len(fp.read_numpy({"x": tmp_path / "c.npz"}))


def test_arguments(tmp_path):
    with pytest.raises(ArgumentError, match="at least one column"):
        fp.read_numpy({})
    with pytest.raises(ArgumentTypeError, match="must have names of columns but got: 3"):
        fp.read_numpy({3: "a"})
    with pytest.raises(ArgumentTypeError, match="must be a path or a list of paths but got: 3"):
        fp.read_numpy({"x": 3})
    with pytest.raises(MissingError, match="none is not there"):
        len(fp.read_numpy(tmp_path / "none"))
    assert repr(fp.read_numpy("a.npy")) == "fp.read_numpy('a.npy')"
    assert repr(fp.read_numpy({"x": ["a", "b"]})) == "fp.read_numpy({'x': ['a', 'b']})"
