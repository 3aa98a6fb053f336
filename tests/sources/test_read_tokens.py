from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, MissingError, SourceError
from feedpipe.testing import check_operator, same

from ..support.examples import examples

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}
END = 99


def megatron(path: Path, documents: list[list[int]], dtype: str = "int32", sequences: int = 1) -> None:
    """Write the two files of Megatron's IndexedDataset; each document has so many sequences."""
    parts = [part for document in documents for part in np.array_split(np.array(document, dtype), sequences)]
    lengths = np.array([len(part) for part in parts], "<i4")
    pointers = (np.cumsum(lengths, dtype="<i8") - lengths) * np.dtype(dtype).itemsize
    firsts = np.arange(0, len(parts) + 1, sequences, dtype="<i8")
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, CODES[dtype], len(parts), len(firsts))
    path.with_suffix(".bin").write_bytes(b"".join(part.tobytes() for part in parts))
    path.with_suffix(".idx").write_bytes(head + lengths.tobytes() + pointers.tobytes() + firsts.tobytes())


def llm_c(path: Path, tokens: list[int]) -> None:
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(tokens)
    path.write_bytes(header.tobytes() + np.array(tokens, "<u2").tobytes())


def windows(tokens: Any, length: int, step: int) -> list[list[int]]:
    return [list(tokens[at : at + length]) for at in range(0, len(tokens) - length + 1, step)]


def ids(window: list[int], begins: set[int], first: int) -> tuple[list[int], list[int]]:
    segments, positions = [1], [0]
    for at in range(1, len(window)):
        new = first + at in begins
        segments.append(segments[-1] + new)
        positions.append(0 if new else positions[-1] + 1)
    return segments, positions


@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    length=st.integers(1, 6),
    step=st.integers(1, 8),
    form=st.sampled_from(["bare", "npy", "megatron", "llm.c"]),
    remote=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40), deadline=None)
def test_windows_of_all_files(tmp_path_factory, sizes, length, step, form, remote):
    folder = tmp_path_factory.mktemp("tokens")
    expected = []
    for number, size in enumerate(sizes):
        tokens = list(range(100 * number, 100 * number + size))
        path = folder / f"{number}.bin"
        if form == "bare":
            np.array(tokens, "uint16").tofile(path)
        elif form == "npy":
            np.save(path.with_suffix(".npy"), np.array(tokens, "uint16"))
        elif form == "megatron":
            megatron(path, [tokens], "uint16")
        else:
            llm_c(path, tokens)
        expected += windows(tokens, length, step)
    files = DirFileSystem(str(folder), LocalFileSystem()) if remote else None
    paths = "/" if remote else folder
    pipe = fp.read_tokens(paths, dtype="uint16", length=length, step=step, filesystem=files)
    if not expected:
        with pytest.raises(DataError, match=f"no file has a window of {length} tokens: the longest of {len(sizes)}"):
            len(pipe)
        return
    assert [row["tokens"].tolist() for row in pipe] == expected
    assert {row["tokens"].dtype for row in pipe} == {np.dtype("uint16")}
    batches = pipe.shuffle().batch(3).collate(format="numpy")
    assert sorted(row.tolist() for batch in batches for row in batch["tokens"]) == sorted(expected)


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("step", [3, 5, 7])
@pytest.mark.parametrize("sequences", [1, 3])
def test_documents_of_an_index(tmp_path, remote, step, sequences):
    documents = [[1] * 7, [2], [], [3] * 20, [4] * 2]
    begins = set(np.cumsum([0, *map(len, documents)]).tolist())
    tokens = sum(documents, [])
    for name in "ab":
        megatron(tmp_path / name, documents, sequences=sequences)
    files = DirFileSystem(str(tmp_path), LocalFileSystem()) if remote else None
    paths = "*.bin" if remote else tmp_path / "*.bin"
    pipe = fp.read_tokens(paths, length=5, step=step, documents=True, filesystem=files)
    rows = check_operator(pipe)
    one = windows(tokens, 5, step)
    assert [row["tokens"].tolist() for row in rows] == one * 2
    for number, row in enumerate(rows):
        first = number % len(one) * step
        segments, positions = ids(one[number % len(one)], begins, first)
        assert row["segment_ids"].tolist() == segments and row["position_ids"].tolist() == positions
        assert row["segment_ids"].dtype == row["position_ids"].dtype == np.int32
    assert same(pipe.batch(4)[1]["segment_ids"], np.stack([row["segment_ids"] for row in rows[4:8]]))
    check_operator(pipe.shuffle().batch(4).collate())


def test_documents_that_a_token_ends(tmp_path):
    tokens = [1, 2, END, END, 3, 4, 5, END, 6, 7, 8, 9]
    np.array(tokens, "uint16").tofile(tmp_path / "a.bin")
    pipe = fp.read_tokens(tmp_path / "a.bin", dtype="uint16", length=6, step=2, documents=True, end=END)
    begins = {at + 1 for at, token in enumerate(tokens) if token == END}
    for number, row in enumerate(check_operator(pipe)):
        window = row["tokens"].tolist()
        assert (row["segment_ids"].tolist(), row["position_ids"].tolist()) == ids(window, begins, 2 * number)


def test_a_window_is_a_view_of_the_file_and_travels_as_its_path(tmp_path):
    np.arange(100_000, dtype="uint16").tofile(tmp_path / "a.bin")
    pipe = fp.read_tokens(tmp_path / "a.bin", dtype="uint16", length=101, step=100)
    row = pipe[0]["tokens"]
    assert not row.flags.owndata and not row.flags.writeable
    assert len(cloudpickle.dumps(pipe)) < 10_000


def test_workers_resume_and_mixtures(tmp_path):
    for name in "ab":
        np.arange(60, dtype="uint16").tofile(tmp_path / f"{name}.bin")
    one = fp.read_tokens(tmp_path / "a.bin", dtype="uint16", length=5, step=4).shuffle()
    other = fp.read_tokens(tmp_path / "b.bin", dtype="uint16", length=5).shuffle()
    mixed = one.mix(other, weights=[0.7, 0.3], stop="first")
    check_operator(mixed.batch(2))
    loader = fp.Loader(one.batch(2).collate())
    next(iter(loader))
    state = loader.state_dict()
    np.arange(58, dtype="uint16").tofile(tmp_path / "a.bin")
    with pytest.raises(fp.FeedpipeError, match="read_tokens"):
        fp.Loader(
            fp.read_tokens(tmp_path / "a.bin", dtype="uint16", length=5, step=4).shuffle().batch(2).collate()
        ).load_state_dict(state)


def test_bytes_of_any_dtype_and_order(tmp_path):
    tokens = np.arange(40)
    for dtype in ("uint8", "int64", ">u4"):
        tokens.astype(dtype).tofile(tmp_path / "a.bin")
        rows = check_operator(fp.read_tokens(tmp_path / "a.bin", dtype=dtype, length=8), samples=2)
        assert [row["tokens"].tolist() for row in rows] == windows(tokens.tolist(), 8, 8)


def test_an_error_names_file_and_window(tmp_path):
    for name in "ab":
        np.arange(21, dtype="uint16").tofile(tmp_path / f"{name}.bin")
    pipe = fp.read_tokens(tmp_path, dtype="uint16", length=7)
    with pytest.raises(fp.RowError, match=r"b\.bin, row 2"):
        list(pipe.enumerate().map(lambda row: 1 // (row[0] - 4)))


BROKEN: dict[str, tuple[str, Any, str]] = {
    "an odd size": (
        "a.bin",
        lambda data: data[:-1],
        r"a\.bin has 47 bytes, and 48 says .*a\.idx; is one of them trunc",
    ),
    "a token less": ("a.bin", lambda data: data[:-4], r"a\.bin has 44 bytes, and 48 says .*a\.idx"),
    "no index": ("a.idx", lambda data: b"", r"a\.idx is no index of Megatron that can be read"),
    "another file": ("a.idx", lambda data: b"TNTIDX" + data[6:], r"a\.idx is no index of Megatron"),
    "another version": ("a.idx", lambda data: data[:9] + b"\2" + data[10:], r"a\.idx is no index of Megatron"),
    "floats": ("a.idx", lambda data: data[:17] + b"\7" + data[18:], r"a\.idx is no index of Megatron"),
    "a truncated index": ("a.idx", lambda data: data[:-8], r"a\.idx is truncated: 2 sequences make 82 bytes, and it"),
    "a long index": ("a.idx", lambda data: data + data, r"a\.idx is longer than it says"),
    "a wild document": (
        "a.idx",
        lambda data: data[:-8] + struct.pack("<q", 7),
        r"a\.idx is damaged: a document begins at none of its 2 sequences",
    ),
}


@pytest.mark.parametrize(("name", "change", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_damaged_files_of_megatron(tmp_path, name, change, message):
    megatron(tmp_path / "a", [[1] * 5, [2] * 7])
    path = tmp_path / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message) as caught:
        list(fp.read_tokens(tmp_path / "a.bin", length=3, documents=True))
    assert __file__ in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(21))
    with pytest.raises(DataError, match=r"a\.bin has 21 bytes, and tokens of uint16 take 2 each; is it truncated"):
        len(fp.read_tokens(path, dtype="uint16", length=4))
    with pytest.raises(ArgumentError, match=r"`dtype` must be given for .*a\.bin"):
        len(fp.read_tokens(path, length=4))
    llm_c(path, [1, 2, 3, 4])
    with pytest.raises(DataError, match=r"a\.bin has tokens of uint16, not of int32; leave `dtype` out"):
        len(fp.read_tokens(path, dtype="int32", length=4))
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match=r"a\.bin has 1030 bytes, and 1032 says its header; is it truncated\?"):
        len(fp.read_tokens(path, length=4))
    np.save(tmp_path / "b.npy", np.zeros((3, 4), int))
    with pytest.raises(DataError, match=r"b\.npy has 2 axes, and tokens have one; `read_numpy` reads rows"):
        len(fp.read_tokens(tmp_path / "b.npy", length=2))
    np.save(tmp_path / "b.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"b\.npy has items of float64, and tokens are integers"):
        len(fp.read_tokens(tmp_path / "b.npy", length=2))
    np.save(tmp_path / "b.npy", np.zeros(3, "uint8"))
    llm_c(path, [1, 2, 3, 4])
    with pytest.raises(DataError, match=r"a\.bin has rows of shape \(2,\) and uint16, and .*b\.npy of .* uint8"):
        len(fp.read_tokens([path, tmp_path / "b.npy"], length=2))
    np.zeros(9, "uint16").tofile(path)
    (tmp_path / "c.bin.gz").write_bytes(bytes(30))
    with pytest.raises(DataError, match=r"c\.bin\.gz is compressed, and windows are read by position"):
        len(fp.read_tokens(tmp_path / "c.bin.gz", dtype="uint16", length=2))
    megatron(tmp_path / "d", [[1, 2, 3]])
    with pytest.raises(DataError, match=r"d\.idx is an index; give the `\.bin` files"):
        len(fp.read_tokens(tmp_path / "d.idx", length=2))
    with pytest.raises(ArgumentError, match=r"a\.bin has none beside it; give the token .*`end=50256`"):
        len(fp.read_tokens(path, dtype="uint16", length=2, documents=True))


@pytest.mark.parametrize("size", [16, 24])
def test_a_file_that_changed_after_it_was_listed(tmp_path, size):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(20))
    pipe = fp.read_tokens(path, dtype="uint16", length=4)
    assert len(pipe) == 2
    path.write_bytes(bytes(size))
    with pytest.raises(SourceError, match=r"a\.bin has changed since its size was read(.|\n)*test_read_tokens\.py"):
        list(pipe)


def test_an_index_that_changed_after_it_was_read(tmp_path):
    megatron(tmp_path / "a", [[1, 2, 3], [4, 5, 6]])
    pipe = fp.read_tokens(tmp_path / "a.bin", length=4, documents=True)
    assert len(pipe) == 1
    megatron(tmp_path / "a", [[1, 2, 3, 4, 5, 6]])
    with pytest.raises(SourceError, match=r"a\.idx has changed since its header was read"):
        list(pipe)


def test_arguments(tmp_path):
    with pytest.raises(ArgumentError, match="`length` must be >= 1 but got: 0"):
        fp.read_tokens("a.bin", dtype="uint16", length=0)
    with pytest.raises(ArgumentError, match="`step` must be >= 1 but got: 0"):
        fp.read_tokens("a.bin", dtype="uint16", length=2, step=0)
    with pytest.raises(ArgumentError, match="`dtype` must be an integer, for tokens, but got: float32"):
        fp.read_tokens("a.bin", dtype="float32", length=2)
    with pytest.raises(ArgumentTypeError, match="`dtype` must be a dtype of NumPy but got: 'tokens'"):
        fp.read_tokens("a.bin", dtype="tokens", length=2)
    with pytest.raises(ArgumentError, match="`end` must be left out without `documents=True`"):
        fp.read_tokens("a.bin", dtype="uint16", length=2, end=3)
    with pytest.raises(MissingError, match="none is not there"):
        len(fp.read_tokens(tmp_path / "none", length=2))
    code = "fp.read_tokens('a.bin', length=4, dtype='uint16', step=3, documents=True, end=99)"
    assert repr(eval(code)) == code
