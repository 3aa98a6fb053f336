from __future__ import annotations

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow.fs import FileInfo, FileType

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.extensions import START, Context, Cursor
from feedpipe.testing import check_operator

from ...storage.remote_store import RemoteStore
from ...support.core import Tracing
from ...support.engine import bind, resolve
from ...support.examples import examples
from ...support.files import Lines
from ...support.files import ranges as _byte_ranges
from ...support.formats import LAST_RECORD_BYTES, TO_END
from ...support.formats import text as chunks
from ...support.storage import FIRST_REQUEST_BYTES

QUIET = [HealthCheck.function_scoped_fixture]
SIZES = st.integers(1, 40)


@pytest.fixture
def ranges(monkeypatch):
    """Sets the size of a range, in bytes."""
    return lambda size: monkeypatch.setattr(_byte_ranges, "MAX_RANGE_BYTES", size)


def opened(files):
    return fp.from_sequence([str(file) for file in files]).open_files()


def units(pipe):
    """The file, start and stop of each range."""
    blocks = bind(resolve(pipe)).input.blocks(START, Context())
    return [(unit.file.path.rpartition("/")[2], unit.start, unit.stop) for block in blocks for unit in block.rows]


def outcome(pipe):
    """The rows, their origins, and the error that ended them."""
    rows, origins = [], []
    try:
        for block in bind(resolve(pipe)).blocks(START, Context(tracing=Tracing(origins=True))):
            rows += block.rows
            origins += block.origins
    except DataError as error:
        return rows, origins, str(error).partition("\n")[0]
    return rows, origins, None


def whole_and_split(ranges, size, make):
    """What a pipe gives if it reads whole files, and if it reads ranges."""
    ranges(2**40)
    whole = outcome(make())
    ranges(size)
    return whole, outcome(make())


LINES = st.lists(st.text('a"\r,é', max_size=6), max_size=12)


@given(LINES, SIZES, st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
@settings(suppress_health_check=QUIET)
def test_lines_of_ranges_are_those_of_the_file(tmp_path, ranges, lines, size, ended, end, bom):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf" * bom + (end.join(lines) + end * ended).encode())
    whole, split = whole_and_split(ranges, size, lambda: opened([path]).parse_lines())
    assert split == whole


@given(LINES, SIZES, st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n", "\r"]), st.booleans(), st.booleans())
@settings(suppress_health_check=QUIET, max_examples=examples(100))
def test_rows_of_csv_ranges_are_those_of_the_file(tmp_path, ranges, lines, size, ended, end, bom, quotes):
    # For any text: most lines have too many values somewhere, or a quote that is not closed.
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" * bom + (end + end.join(["x,y", *lines]) + end * ended).encode())
    options = {"newlines_in_values": False} if quotes else {"quote": None}
    options["schema"] = {"x": "string", "y": "string"}
    whole, split = whole_and_split(ranges, size, lambda: opened([path]).parse_csv(**options))
    assert split == whole


@given(st.lists(st.text(max_size=5), max_size=9), SIZES, st.integers(0, 12), st.sampled_from(["\n", "\r\n", "\n\n"]))
@settings(suppress_health_check=QUIET, max_examples=examples(50))
def test_rows_of_jsonl_ranges_are_those_of_the_file(tmp_path, ranges, texts, size, bad, end):
    lines = [json.dumps({"text": text, "n": n}) for n, text in enumerate(texts)]
    lines.insert(bad, '{"n": ')
    path = tmp_path / "a.jsonl"
    path.write_text(end.join(lines))
    schema = {"text": "string", "n": "int64"}
    whole, split = whole_and_split(ranges, size, lambda: opened([path]).parse_jsonl(schema=schema, path_column="path"))
    assert split == whole


@pytest.mark.parametrize("size", [3, 64])
def test_law(tmp_path, ranges, size):
    ranges(size)
    texts = [["one", "", "a longer line than others"], [], ["x"] * 9, ["last"]]
    files = [tmp_path / f"{k}.txt" for k in range(4)]
    for file, lines in zip(files, texts, strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    expected = [line for lines in texts for line in lines]
    assert check_operator(opened(files).parse_lines(), samples=3) == expected
    shuffled = opened(files).shuffle(seed=1).parse_lines()
    assert sorted(check_operator(shuffled, samples=3)) == sorted(expected)
    for file, lines in zip(files, texts, strict=True):
        file.write_text("".join(f'{{"x": "{line}"}}\n' for line in lines))
    assert check_operator(opened(files).parse_jsonl(), samples=3) == [{"x": line} for line in expected]
    for file, lines in zip(files, texts, strict=True):
        file.write_text("x,y\r\n" + "".join(f'{n},"{line}"\r\n' for n, line in enumerate(lines)))
    rows = [{"x": n, "y": line} for lines in texts for n, line in enumerate(lines)]
    assert check_operator(opened(files).parse_csv(newlines_in_values=False), samples=3) == rows


def test_a_large_file_serves_many_shards(tmp_path, ranges):
    (tmp_path / "a.txt").write_text("".join(f"{n}\n" for n in range(2_000)))
    ranges(1000)
    pipe = fp.read_lines(tmp_path).map(int)
    assert len(units(fp.read_lines(tmp_path))) == 9
    assert sorted(fp.Loader(pipe, shards=3)) == list(range(2_000))
    ranked = [list(fp.Loader(pipe, rank=rank, world_size=3, even=None)) for rank in range(3)]
    assert sorted(sum(ranked, [])) == list(range(2_000))
    assert all(600 < len(rank) < 750 for rank in ranked)
    # A shuffle after the parser permutes the ranges, so the first rows may come from any of them.
    loader = fp.Loader(pipe.shuffle(window=10), shards=1, seed=1)
    first, second = list(loader), list(loader)
    assert sorted(first) == sorted(second) == list(range(2_000))
    assert max(map(abs, (a - b for a, b in pairwise(first)))) > 500
    assert first[:100] != second[:100]


@pytest.mark.slow
def test_in_workers(tmp_path, ranges):
    (tmp_path / "a.csv").write_text("x\n" + "".join(f"{n}\n" for n in range(2_000)))
    ranges(900)  # ten ranges
    pipe = fp.read_csv(tmp_path, quote=None)
    with fp.Loader(pipe, workers=2) as loader:
        assert sorted(row["x"] for row in loader) == list(range(2_000))


def test_which_files_are_split(tmp_path, ranges):
    for name, data in {"a.csv": b"x\n1\n2\n3\n4\n", "b.csv": b"x\n1\n", "c.csv": b"", "d.csv.gz": b""}.items():
        (tmp_path / name).write_bytes(gzip.compress(b"x\n" + b"1\n" * 9) if name.endswith("gz") else data)
    (tmp_path / "c.csv").write_bytes(b"x\n")
    ranges(4)
    rest = [("b.csv", 0, TO_END), ("c.csv", 0, TO_END), ("d.csv.gz", 0, TO_END)]
    split = [("a.csv", 0, 3), ("a.csv", 3, 6), ("a.csv", 6, TO_END)]
    files = sorted(tmp_path.iterdir())
    for pipe in (fp.list_files(tmp_path).open_files(), opened(files)):
        assert units(pipe.parse_csv(newlines_in_values=False)) == split + rest
        assert units(pipe.parse_csv(quote=None)) == split + rest
        assert units(pipe.parse_csv()) == [("a.csv", 0, TO_END), *rest]
        assert units(pipe.parse_csv(quote=None, row_column="row")) == [("a.csv", 0, TO_END), *rest]
        assert units(pipe.parse_jsonl(schema={"x": "int8"}, row_column="row"))[0] == ("a.csv", 0, TO_END)
        assert units(pipe.parse_lines()) == split + rest
    assert len(list(opened(files).parse_csv(quote=None))) == 14


@given(st.lists(st.tuples(st.integers(-1, 2**55), st.booleans()), max_size=9), st.integers(2**18, 2**25))
def test_files_are_cut_into_equal_ranges(files, length):
    files = [(min(size, 400 * length) if k else size, compressed) for k, (size, compressed) in enumerate(files)]
    sizes, compressed = np.array([size for size, _ in files], np.int64), np.array([c for _, c in files], np.bool_)
    if len(files):  # one huge file costs too many ranges
        length = max(length, int(sizes[0]) // 1000)
    table = Lines().cut_files(sizes, compressed, length)
    expected = []
    for number, (size, whole) in enumerate(files):
        count = 1 if whole else max(1, -(-size // length))
        starts = [size * k // count for k in range(count)]
        for start, stop in zip(starts, [*starts[1:], TO_END], strict=True):
            expected.append([number, start, stop, size, whole])
    assert table.numbers.tolist() == expected


def test_the_length_of_ranges_depends_on_all_bytes(tmp_path):
    assert [_byte_ranges.range_bytes(total) for total in (0, 2**28, 2**30, 2**35, 2**50)] == [
        2**18,
        2**18,
        2**20,
        2**25,
        2**25,
    ]
    for name, size in {"a": 2**19, "b": 2**18, "c": 2**18 + 1}.items():
        (tmp_path / name).write_bytes(b"x\n" * (size // 2) + b"x" * (size % 2))
    expected = [("a", 0, 2**18), ("a", 2**18, TO_END), ("b", 0, TO_END), ("c", 0, 2**17), ("c", 2**17, TO_END)]
    assert units(fp.read_lines(tmp_path)) == expected
    assert units(opened(sorted(tmp_path.iterdir())).parse_lines()) == expected


def test_sizes_are_requested_only_if_needed(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"x\n1\n"))
    asked = []
    size = fp.File.size
    monkeypatch.setattr(fp.File, "size", lambda self: asked.append(self.path) or size(self))
    files = sorted(tmp_path.iterdir())
    assert len(list(fp.read_csv(tmp_path, quote=None))) == 2
    assert len(list(opened(files).parse_csv())) == 2
    assert asked == []
    assert len(list(opened(files).parse_csv(quote=None))) == 2
    assert asked == [str(tmp_path / "a.csv")]


def test_a_missing_file_fails_after_the_rows_before_it(tmp_path):
    (tmp_path / "a.txt").write_text("1\n2\n")
    rows = iter(opened([tmp_path / "a.txt", tmp_path / "b.txt"]).parse_lines())
    assert [next(rows), next(rows)] == ["1", "2"]
    with pytest.raises(fp.FeedpipeError, match=r"b\.txt is not there"):
        next(rows)


def test_a_file_of_unknown_size_is_one_range(tmp_path, monkeypatch, ranges):
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    ranges(2)
    monkeypatch.setattr("feedpipe.storage.file.file_infos", lambda *_: [FileInfo("a.txt", FileType.File)])
    pipe = opened([tmp_path / "a.txt"]).parse_lines()
    assert units(pipe) == [("a.txt", 0, TO_END)]
    assert list(pipe) == ["1", "2", "3"]


def test_a_range_reads_the_header_and_nothing_else_before_it(ranges):
    store = RemoteStore({"a.csv": b"x\n" + b"".join(b"%07d\n" % n for n in range(50_000))})
    ranges(100_000)
    stage = bind(resolve(fp.read_csv("a.csv", filesystem=store.filesystem, quote=None, schema={"x": "int64"})))
    store.requests.clear()
    last = Cursor([START.advance(stage.input.length - 1).plain, 0, 1, 0])
    rows = [row for block in stage.blocks(last, Context()) for row in block.rows]
    assert rows[-1] == {"x": 49_999}
    (_, *header), (_, *range_) = sorted(store.requests)
    assert header == [0, FIRST_REQUEST_BYTES]
    assert range_ == [320_000, 400_002]


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_file_that_is_replaced_between_its_ranges(ranges, shuffled):
    store = RemoteStore({"a": b"".join(b"%07d\n" % n for n in range(100_000))})
    ranges(2**14)
    pipe = fp.from_sequence(["a"]).open_files(filesystem=store.filesystem).parse_lines()
    rows = iter(pipe.shuffle(window=2) if shuffled else pipe)
    next(rows)
    store.files["a"] = b"".join(b"%07d\n" % -n for n in range(100_001))
    with pytest.raises(SourceError, match="a has changed while it was read"):
        list(rows)


@pytest.mark.parametrize("length", [9, 5_000, 40_000])
def test_ranges_of_a_remote_file_are_fetched_once(ranges, length):
    lines = [f"{n:0{length}}" for n in range(2**21 // length)]
    store = RemoteStore({"a": "\n".join(lines).encode()})
    ranges(2**18)
    assert list(fp.read_lines("a", filesystem=store.filesystem)) == lines
    behind = LAST_RECORD_BYTES if length < LAST_RECORD_BYTES else LAST_RECORD_BYTES + FIRST_REQUEST_BYTES
    assert sum(end - begin for _, begin, end in store.requests) < len(store.files["a"]) + 9 * behind


def test_an_error_downstream_names_the_line(tmp_path, ranges):
    path = tmp_path / "a.csv"
    path.write_text("x\n\n" + "1\n" * 30 + "\n\n0\n")
    ranges(10)
    with pytest.raises(fp.RowError) as error:
        list(opened([path]).parse_csv(quote=None).map(lambda row: 1 // row["x"]))
    assert (error.value.origin.source, error.value.origin.row) == (str(path), 35)


def test_an_error_beyond_the_counted_bytes_names_the_byte_and_reads_nothing_before(tmp_path, monkeypatch, ranges):
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": 1}\n' * 20 + "bad\n")
    ranges(20)
    begins = len('{"x": 1}\n' * 20)
    counting = chunks.ChunkReader._lines_before

    def never(reader):
        assert not reader._start
        return counting(reader)

    monkeypatch.setattr(chunks, "MAX_COUNTED_BYTES", 100)
    monkeypatch.setattr(chunks.ChunkReader, "_lines_before", never)
    message = rf"a\.jsonl, byte {begins} \(lines are counted in .*\): this is not JSON: .*'bad'"
    with pytest.raises(DataError, match=message):
        list(fp.read_jsonl(path, schema={"x": "int64"}))
    other = tmp_path / "b.jsonl"
    other.write_text("\n" + '{"x": 1}\n' * 20 + '{"x": 0}\n')
    with pytest.raises(fp.RowError) as error:
        list(fp.read_jsonl(other, schema={"x": "int64"}).map(lambda row: 1 // row["x"]))
    assert error.value.origin == fp.errors.Origin(str(other), begins + 1, "byte")
    monkeypatch.undo()
    ranges(20)
    with pytest.raises(DataError, match=r"a\.jsonl, line 21: this is not JSON"):
        list(fp.read_jsonl(path, schema={"x": "int64"}))


def test_a_value_that_continues_on_the_next_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,y\n1,"a"\n2,"b\nc"\n3,"d"\n')
    assert len(list(opened([path]).parse_csv())) == 3
    rows = []
    with pytest.raises(DataError, match=r"a\.csv, line 3: .* not closed on its line; `newlines_in_values=True` reads"):
        rows.extend(opened([path]).parse_csv(newlines_in_values=False))
    assert rows == [{"x": 1, "y": "a"}]
    path.write_text('"x\ny",z\n1,2\n')
    with pytest.raises(DataError, match=r"a\.csv, line 1: .* not closed on its line"):
        list(opened([path]).parse_csv(newlines_in_values=False))


def test_the_plan_names_large_files_that_are_not_split(tmp_path, capsys, ranges):
    (tmp_path / "a.csv").write_text("x\n1\n2\n3\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"x\n1\n2\n3\n"))
    ranges(4)
    fp.read_csv(tmp_path).explain()
    assert "1 large file is not split: `newlines_in_values=False` splits them" in capsys.readouterr().out
    fp.read_csv(tmp_path, newlines_in_values=False).explain()
    assert "not split" not in capsys.readouterr().out
    fp.read_lines(tmp_path).explain()
    assert "not split" not in capsys.readouterr().out


def test_a_state_is_refused_if_the_ranges_changed(tmp_path, ranges):
    path = tmp_path / "a.txt"
    path.write_text("1\n2\n3\n")
    ranges(2)
    loader = fp.Loader(opened([path]).parse_lines())
    next(iter(loader))
    state = loader.state_dict()
    again = fp.Loader(opened([path]).parse_lines())
    again.load_state_dict(state)
    assert list(again) == ["2", "3"]
    path.write_text("1\n2\n30\n")
    with pytest.raises(fp.FeedpipeError, match="byte_ranges"):
        fp.Loader(opened([path]).parse_lines()).load_state_dict(state)
