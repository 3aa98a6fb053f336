"""`OperatorMethods`: each operator is one line that names its chain function, and so a method of `Pipe`."""

from __future__ import annotations

from ..core.wrong_arguments import methods_explain_wrong_arguments
from .columns.bucketize import bucketize as _bucketize
from .columns.cast import cast as _cast
from .columns.clip import clip as _clip
from .columns.drop_null import drop_null as _drop_null
from .columns.fill_null import fill_null as _fill_null
from .columns.index_of import index_of as _index_of
from .columns.map_columns import map_columns as _map_columns
from .columns.normalize_text import normalize_text as _normalize_text
from .columns.one_hot import one_hot as _one_hot
from .columns.scale import scale as _scale
from .columns.select import drop as _drop
from .columns.select import rename as _rename
from .columns.select import select as _select
from .columns.standardize import standardize as _standardize
from .columns.to_arrow import to_arrow as _to_arrow
from .columns.unnest import unnest as _unnest
from .columns.with_columns import with_columns as _with_columns
from .grouping.batch import batch as _batch
from .grouping.batch_by_size import batch_by_size as _batch_by_size
from .grouping.bucket_by_length import bucket_by_length as _bucket_by_length
from .grouping.collate import collate as _collate
from .grouping.group_by import group_by as _group_by
from .grouping.pack import pack as _pack
from .grouping.pad_batch import pad_batch as _pad_batch
from .grouping.sliding import sliding as _sliding
from .grouping.unbatch import unbatch as _unbatch
from .merging.concat import concat as _concat
from .merging.join import join as _join
from .merging.mix import mix as _mix
from .merging.round_robin import round_robin as _round_robin
from .merging.zip import zip as _zip
from .merging.zip_by_key import zip_by_key as _zip_by_key
from .merging.zip_longest import zip_longest as _zip_longest
from .parsing.arrow import parse_arrow as _parse_arrow
from .parsing.avro import parse_avro as _parse_avro
from .parsing.bytes import parse_bytes as _parse_bytes
from .parsing.csv import parse_csv as _parse_csv
from .parsing.jsonl import parse_jsonl as _parse_jsonl
from .parsing.lines import parse_lines as _parse_lines
from .parsing.mds import parse_mds as _parse_mds
from .parsing.open_files import open_files as _open_files
from .parsing.orc import parse_orc as _parse_orc
from .parsing.parquet import parse_parquet as _parse_parquet
from .parsing.tar import parse_tar as _parse_tar
from .parsing.tfrecord import parse_tfrecord as _parse_tfrecord
from .placement.cache import cache as _cache
from .placement.dispatch import dispatch as _dispatch
from .placement.load import load as _load
from .placement.prefetch import prefetch as _prefetch
from .placement.remote import remote as _remote
from .placement.shard_by_rank import shard_by_rank as _shard_by_rank
from .rows.decode import decode as _decode
from .rows.enumerate import enumerate as _enumerate
from .rows.filter import filter as _filter
from .rows.flat_map import flat_map as _flat_map
from .rows.interleave import interleave as _interleave
from .rows.map import map as _map
from .rows.map_batches import map_batches as _map_batches
from .rows.on_error import on_error as _on_error
from .selection.distinct import distinct as _distinct
from .selection.repeat import repeat as _repeat
from .selection.resample import resample as _resample
from .selection.sample import sample as _sample
from .selection.shuffle import shuffle as _shuffle
from .selection.slice import skip as _skip
from .selection.slice import slice as _slice
from .selection.slice import take as _take
from .selection.take_while import skip_while as _skip_while
from .selection.take_while import take_while as _take_while
from .splitting.fork import fork as _fork
from .splitting.route import route as _route
from .splitting.split import split as _split
from .splitting.unzip import unzip as _unzip


@methods_explain_wrong_arguments
class OperatorMethods:
    """The operators, as methods of `Pipe`. A chain function is a method too, because its first argument is the pipe."""

    __slots__ = ()

    batch = _batch
    batch_by_size = _batch_by_size
    bucket_by_length = _bucket_by_length
    bucketize = _bucketize
    cache = _cache
    cast = _cast
    clip = _clip
    collate = _collate
    concat = _concat
    decode = _decode
    dispatch = _dispatch
    distinct = _distinct
    drop = _drop
    drop_null = _drop_null
    enumerate = _enumerate
    fill_null = _fill_null
    filter = _filter
    flat_map = _flat_map
    fork = _fork
    group_by = _group_by
    index_of = _index_of
    interleave = _interleave
    join = _join
    load = _load
    map = _map
    map_batches = _map_batches
    map_columns = _map_columns
    mix = _mix
    normalize_text = _normalize_text
    on_error = _on_error
    one_hot = _one_hot
    open_files = _open_files
    pack = _pack
    pad_batch = _pad_batch
    parse_arrow = _parse_arrow
    parse_avro = _parse_avro
    parse_bytes = _parse_bytes
    parse_csv = _parse_csv
    parse_jsonl = _parse_jsonl
    parse_lines = _parse_lines
    parse_mds = _parse_mds
    parse_orc = _parse_orc
    parse_parquet = _parse_parquet
    parse_tar = _parse_tar
    parse_tfrecord = _parse_tfrecord
    prefetch = _prefetch
    remote = _remote
    rename = _rename
    repeat = _repeat
    resample = _resample
    round_robin = _round_robin
    route = _route
    sample = _sample
    scale = _scale
    select = _select
    shard_by_rank = _shard_by_rank
    shuffle = _shuffle
    skip = _skip
    skip_while = _skip_while
    slice = _slice
    sliding = _sliding
    split = _split
    standardize = _standardize
    take = _take
    take_while = _take_while
    to_arrow = _to_arrow
    unbatch = _unbatch
    unnest = _unnest
    unzip = _unzip
    with_columns = _with_columns
    zip = _zip
    zip_by_key = _zip_by_key
    zip_longest = _zip_longest
