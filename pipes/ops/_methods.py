"""The index of the operators: the methods of `Pipe`, and the module of each."""

from __future__ import annotations

from collections.abc import Iterable

# Sorted by module: the line of a method names the module that has its chain function and its operator.
from ..core.checks import methods_explain_wrong_arguments, similar_name
from ..files.arrow import parse_arrow as _parse_arrow
from ..files.csv import parse_csv as _parse_csv
from ..files.jsonl import parse_jsonl as _parse_jsonl
from ..files.lines import parse_bytes as _parse_bytes
from ..files.lines import parse_lines as _parse_lines
from ..files.mds import parse_mds as _parse_mds
from ..files.open_files import open_files as _open_files
from ..files.parquet import parse_parquet as _parse_parquet
from ..files.tar import parse_tar as _parse_tar
from ..files.tfrecord import parse_tfrecord as _parse_tfrecord
from .batch import batch as _batch
from .batch import unbatch as _unbatch
from .batch_by_size import batch_by_size as _batch_by_size
from .batch_by_size import bucket_by_length as _bucket_by_length
from .cache import cache as _cache
from .cast import cast as _cast
from .cast import to_arrow as _to_arrow
from .cast import unnest as _unnest
from .categories import bucketize as _bucketize
from .categories import index_of as _index_of
from .categories import one_hot as _one_hot
from .collate import collate as _collate
from .concat import concat as _concat
from .decode import decode as _decode
from .distinct import distinct as _distinct
from .filter import filter as _filter
from .flat_map import flat_map as _flat_map
from .fork import fork as _fork
from .fork import route as _route
from .group_by import group_by as _group_by
from .interleave import interleave as _interleave
from .join import join as _join
from .load import load as _load
from .map import map as _map
from .map_batches import map_batches as _map_batches
from .map_columns import map_columns as _map_columns
from .mix import mix as _mix
from .mix import round_robin as _round_robin
from .normalize_text import normalize_text as _normalize_text
from .nulls import drop_null as _drop_null
from .nulls import fill_null as _fill_null
from .pack import pack as _pack
from .pad_batch import pad_batch as _pad_batch
from .placement import dispatch as _dispatch
from .placement import on_error as _on_error
from .placement import prefetch as _prefetch
from .placement import remote as _remote
from .placement import shard_by_rank as _shard_by_rank
from .repeat import repeat as _repeat
from .sample import resample as _resample
from .sample import sample as _sample
from .scaling import clip as _clip
from .scaling import scale as _scale
from .scaling import standardize as _standardize
from .select import drop as _drop
from .select import rename as _rename
from .select import select as _select
from .shuffle import shuffle as _shuffle
from .slice import skip as _skip
from .slice import slice as _slice
from .slice import take as _take
from .slice import take_while as _take_while
from .sliding import sliding as _sliding
from .split import split as _split
from .with_columns import with_columns as _with_columns
from .zip import enumerate as _enumerate
from .zip import zip as _zip
from .zip_by_key import zip_by_key as _zip_by_key


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
    parse_bytes = _parse_bytes
    parse_csv = _parse_csv
    parse_jsonl = _parse_jsonl
    parse_lines = _parse_lines
    parse_mds = _parse_mds
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
    slice = _slice
    sliding = _sliding
    split = _split
    standardize = _standardize
    take = _take
    take_while = _take_while
    to_arrow = _to_arrow
    unbatch = _unbatch
    unnest = _unnest
    with_columns = _with_columns
    zip = _zip
    zip_by_key = _zip_by_key


_CONCURRENT = "`.map(function, concurrency=n)` calls it for n rows at the same time"
_DISTINCT = "`.distinct(key, last=n)` leaves out rows whose key has come shortly before"
_LOADER_STATE = "a pipe has no position; `fp.Loader(pipe)` has `state_dict()` and `load_state_dict(state)`"
_PAD = "`.batch(size).pad_batch()` makes the lists of a batch equally long"
_SHARD = "`fp.Loader(pipe)` divides rows among ranks, and `.slice(index, None, count)` gives one of `count` parts"
_STEPS = "`fp.Loader(pipe, steps=n)` sets the number of elements of an epoch"
_WRITE = "`fp.write_parquet(pipe, folder)` writes its rows, and so do `fp.write_arrow` and `fp.write_tar`"
MEANT = {  # names that other libraries use: the method of a pipe, or advice
    "apply": "map",
    "assign": "with_columns",
    "astype": "cast",
    "async_map": _CONCURRENT,
    "batched": "batch",
    "bucket_by_sequence_length": "bucket_by_length",
    "cardinality": "length",
    "cast_column": "cast",
    "choose_from_datasets": "mix",
    "collate_fn": "collate",
    "columns": "schema",
    "concatenate": "concat",
    "concatenate_datasets": "concat",
    "cycle": "repeat",
    "dedup": _DISTINCT,
    "demux": "route",
    "describe": "`.to_table().to_pandas().describe()` describes its columns",
    "drop_duplicates": _DISTINCT,
    "dropna": "drop_null",
    "explode": "flat_map",
    "fillna": "fill_null",
    "flatmap": "flat_map",
    "flatten": "`.unbatch()` gives the rows of batches, `.flat_map(function)` the items of rows, `.unnest()` columns",
    "global_shuffle": "shuffle",
    "group_by_window": "`.group_by(key, size=n)` and `.bucket_by_length(size, length)` group the rows of a window",
    "groupby": "group_by",
    "ignore_errors": "on_error",
    "in_memory_cache": "load",
    "interleave_datasets": "`.mix(other, weights=...)` takes rows in proportions, and `.round_robin(other)` in turn",
    "iter": "`for element in pipe` runs it, and `fp.Loader(pipe)` is for training",
    "kfold": "split",
    "limit": "take",
    "load_state_dict": _LOADER_STATE,
    "map_with_index": "enumerate",
    "merge": "join",
    "mux": "round_robin",
    "num_rows": "length",
    "on_disk_cache": "cache",
    "padded_batch": _PAD,
    "parallel_map": _CONCURRENT,
    "parse_avro": "`.flat_map(lambda file: fastavro.reader(file.open()))` reads the records of Avro files",
    "parse_orc": "`.flat_map(lambda file: orc.read_table(file.open()).to_pylist())` reads the rows of ORC files",
    "pin_memory": "`fp.Loader(pipe, pin_memory=True)` gives tensors in pinned memory",
    "ragged_batch": _PAD,
    "random_split": "split",
    "rebatch": "`.unbatch().batch(size)` makes batches of another size",
    "rejection_resample": "resample",
    "remove_columns": "drop",
    "rename_column": "rename",
    "rename_columns": "rename",
    "rolling": "sliding",
    "sample_from_datasets": "mix",
    "save_to_disk": _WRITE,
    "select_columns": "select",
    "select_from_datasets": "mix",
    "set_epoch": "`fp.Loader(pipe)` counts epochs by itself",
    "set_length": _STEPS,
    "shard": _SHARD,
    "sharded": _SHARD,
    "sharding_filter": "shard_by_rank",
    "sliding_window": "sliding",
    "skip_while": "`fp.operator` makes an operator of `def f(rows): return itertools.dropwhile(predicate, rows)`",
    "snapshot": "cache",
    "sort": "rows keep the order of their source; sort them there, as with `ORDER BY` in `fp.read_sql`",
    "state_dict": _LOADER_STATE,
    "threadpool_map": _CONCURRENT,
    "to_list": "`list(pipe)` returns all elements, and `.head(n)` the first ones",
    "to_pandas": "`.to_table().to_pandas()` returns a data frame",
    "to_parquet": _WRITE,
    "train_test_split": "split",
    "unique": _DISTINCT,
    "unzip": "`.map(operator.itemgetter(k))` gives item k of each row",
    "where": "filter",
    "window": "`.sliding(size)` gives windows that overlap, and `.batch(size)` groups that do not",
    "with_epoch": _STEPS,
    "with_length": _STEPS,
    "with_transform": "map",
    "zip_longest": "`.concat(fp.from_sequence([fill]).repeat())` makes the shorter pipes longer, before `.zip(others)`",
}


def advice_on_name(name: str, names: Iterable[str]) -> str | None:
    """The advice to a user who looks for `name` among the `names` of methods; None if no name is like it."""
    meant = MEANT.get(name) or similar_name(name, names)
    return f"did you mean `{meant}`?" if meant is not None and meant.isidentifier() else meant
