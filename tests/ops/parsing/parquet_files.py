"""Parquet files with rows whose numbers a test can foretell."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import feedpipe as fp

column = pc.field


def write(path, table, rows=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, row_group_size=rows, **options)
    return path


def parsed(files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_parquet(**options)


def counted(tmp_path, counts, rows):
    """Files with these numbers of rows; ids continue from file to file."""
    files, first = [], 0
    for k, count in enumerate(counts):
        ids = list(range(first, first + count))
        files.append(
            write(tmp_path / f"{k}.parquet", {"id": pa.array(ids, pa.int64()), "t": [str(i) for i in ids]}, rows)
        )
        first += count
    return files


def listed(count):
    return [{"id": i, "t": str(i)} for i in range(count)]


def data_of(table, rows=None, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink, row_group_size=rows, **options)
    return sink.getvalue()
