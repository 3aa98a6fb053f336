from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator

from ...support.files import OrcFile


def encoded(rows, batch=8, compression="uncompressed"):
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("t", pa.string())]))
    po.write_table(table, sink, stripe_size=1, batch_size=batch, compression=compression)
    return sink.getvalue()


def listed(first, count):
    return [{"id": i, "t": str(i)} for i in range(first, first + count)]


def write(path, rows, **options):
    path.write_bytes(encoded(rows, **options))
    return path


def parsed(*files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_orc(**options)


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("columns", [2, 60])
def test_footers_of_every_compression(tmp_path, compression, columns):
    """Small chunks are not compressed; large ones are."""
    table = pa.table({f"column {k}": np.random.default_rng(k).random(20_000) for k in range(columns)})
    po.write_table(table, tmp_path / "a.orc", stripe_size=1, compression=compression)
    stripes = po.ORCFile(tmp_path / "a.orc")
    expected = [stripes.read_stripe(k, columns=["column 0"]).num_rows for k in range(stripes.nstripes)]
    with fp.File(str(tmp_path / "a.orc")).open() as stream:
        assert OrcFile(stream, "a.orc").footer.stripe_rows == expected
    assert len(expected) > 1


def test_other_files(tmp_path):
    first = write(tmp_path / "a.orc", listed(0, 3))
    po.write_table(pa.table({"id": pa.array([1, None], pa.int32())}), tmp_path / "b.orc")
    with pytest.raises(DataError, match=r"b\.orc has no column 't'"):
        list(parsed(first, tmp_path / "b.orc"))
    pipe = parsed(first, tmp_path / "b.orc", unify_schemas=True)
    assert check_operator(pipe) == [*listed(0, 3), {"id": 1, "t": None}, {"id": None, "t": None}]


@pytest.mark.parametrize(
    ("data", "message"), [(b"", "a.orc is empty"), (b"x,y\n1,2\n" * 99, "a.orc (is no ORC file|is damaged)")]
)
def test_no_orc(tmp_path, data, message):
    (tmp_path / "a.orc").write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(parsed(tmp_path / "a.orc"))
