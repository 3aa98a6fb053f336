from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.extensions import START, Context
from feedpipe.testing import check_operator

from ...storage.remote_store import RemoteStore
from ...support.core import Tracing
from ...support.engine import bind, resolve
from ...support.examples import examples
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
