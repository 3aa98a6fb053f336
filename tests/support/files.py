"""What tests take from `feedpipe.files`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.files import parquet as parquet
from feedpipe.files import ranges as ranges
from feedpipe.files.csv import Csv as Csv
from feedpipe.files.jsonl import MAX_DEPTH as MAX_DEPTH
from feedpipe.files.jsonl import Jsonl as Jsonl
from feedpipe.files.lines import Lines as Lines
from feedpipe.files.parquet import ParquetFile as ParquetFile
from feedpipe.files.parquet_footer import read_parquet_footer as read_parquet_footer
from feedpipe.files.ranges import TextFormat as TextFormat
from feedpipe.files.tar import TarGroup as TarGroup
from feedpipe.files.tar import TarReader as TarReader
from feedpipe.files.tfrecord_examples import BYTES as BYTES
from feedpipe.files.tfrecord_examples import FLOATS as FLOATS
from feedpipe.files.tfrecord_examples import INTS as INTS
from feedpipe.files.tfrecord_examples import Entries as Entries
from feedpipe.files.tfrecord_examples import UnusualError as UnusualError
from feedpipe.files.tfrecord_examples import parse_example as parse_example
from feedpipe.files.tfrecord_examples import read_features as read_features
from feedpipe.files.tfrecord_examples import to_arrow as to_arrow
from feedpipe.files.tfrecord_examples import write_example as write_example
from feedpipe.files.tfrecord_examples import write_feature as write_feature
from feedpipe.files.tfrecord_examples import write_records as write_records
from feedpipe.files.tfrecord_records import RecordReader as RecordReader
from feedpipe.files.tfrecord_records import masked as masked
