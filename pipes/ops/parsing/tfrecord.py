"""`parse_tfrecord`: the Examples of TFRecord files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.operator import Columns, StageView
from ...core.policy import OnError
from ...core.rows import Row
from ...formats.tfrecord.options import Features, TfRecord
from ._byte_ranges import ByteRanges
from ._indexed_tfrecords import IndexedTfRecords
from ._open_files import check_fixed_order, has_fixed_order
from ._record_ranges import ParseRecords

if TYPE_CHECKING:
    import pyarrow as pa

    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseTfRecord(ParseRecords):
    kind: ClassVar[str] = "parse_tfrecord"
    columns: ClassVar[Columns] = Columns.MAKES

    def schema(self, stage: StageView) -> pa.Schema | None:
        form = self.format
        return form.row_schema() if isinstance(form, TfRecord) else None


def parse_tfrecord(
    pipe: Pipe[File],
    /,
    *,
    features: Features | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
    indexed: bool = False,
    on_error: OnError | None = None,
) -> Pipe[Row]:
    """Give the `tf.train.Example` messages of each TFRecord file, as a table; no TensorFlow is needed.

    Element: a dict with a value for each feature, None if a record lacks it; grouped, a `Rows`, which holds columns.
    Bytes, ints and floats become `binary`, `int64` and `float32`. Names and types are fixed before the first row, by
    `features`, or by the first records of the first file that has any (the first of `for x in pipe`): up to 1,000 of
    them, or 1 MiB. A feature that has one value in each of these is a single value, any other one a list; names are
    sorted, for an Example has no order of features. Order: that of the files, and within each that of its records.
    Length: unknown, streamed; with `indexed=True` known, indexed. State: the byte at which a record begins. A resume
    seeks to it, or reads a compressed file up to it. Indexes that lie among the files are left out.

    Shards divide ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to
    32 MiB each. A range begins with the first place that has the checksum of a record, so no index is needed. A
    `shuffle` behind this shuffles the order of the ranges as well. A file is not split if it is compressed, if
    `row_column` is given, or if files come in a new order in each epoch, as with `list_files(...).shuffle()`.

    Both checksums of each record are compared. The format is that of TensorFlow's guide to TFRecord and
    `tf.train.Example`. `pip install 'feedpipe[tfrecord]'` installs what computes checksums.

    Args:
        features: reads only these, in this order: names, or types by name, as Arrow types or their names, such as
            {"label": "int32", "name": "string", "image": pa.list_(pa.float32(), 784)}. A list of one length, as here,
            and a type of `pa.fixed_shape_tensor` become arrays. Without it, a feature that the first records do not
            have is an error.
        path_column: the name of an added column with the path of the file, without a password.
        row_column: the name of an added column with the number of the record in its file, from 0.
        unify_schemas: takes the features of all files together, from the first records of each.
        indexed: makes `len`, `pipe[i]` and a full `shuffle()` work, by an index beside each file: lines with the first
            byte and the size of each record, as `write_tfrecord(index=True)`, DALI's `tfrecord2idx` and the package
            `tfrecord` write them. That of `a.tfrecord` is `a.index` or `a.tfrecord.idx`. Files must not be compressed,
            and come in a fixed order. Each process keeps 8 bytes a record.
        on_error: what happens to a record whose data have a wrong checksum, that is no Example, or whose features do
            not fit the columns; see `map`. It keeps its number.

    Raises:
        ArgumentError: the package for checksums is not installed; `indexed` is given, and a file has no index, is
            compressed, or files come in a new order in each epoch.
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file and byte of a record with a wrong checksum, one that is cut short, no Example, or that has
            a feature of another type or an unknown one; damaged compressed bytes; an index of another file. The rows
            before the error come first.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(3)).map(lambda i: {"id": i, "name": f"n{i}", "xs": [i / 2] * i})
        >>> _ = fp.write_tfrecord(pipe, "records")
        >>> list(fp.list_files("records").open_files().parse_tfrecord(features={"name": "string", "id": "int64"}))
        [{'name': 'n0', 'id': 0}, {'name': 'n1', 'id': 1}, {'name': 'n2', 'id': 2}]
    """
    options = TfRecord(
        features=features,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
        indexed=bool(indexed),
    )
    if indexed:
        check_fixed_order(pipe, "parse_tfrecord")
        return pipe.then(IndexedTfRecords(options, on_error=on_error))
    return pipe.then(ByteRanges(options, has_fixed_order(pipe))).then(ParseTfRecord(options, on_error=on_error))
