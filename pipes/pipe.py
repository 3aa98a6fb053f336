"""`Pipe`: a lazy graph of operators, made by chaining. Each operator is one line that names its chain function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, SupportsIndex, TypeVar, cast, overload

from .core.checks import check_bytes
from .core.context import Context
from .core.contract import check_depth
from .core.cursor import START
from .core.graph import Node, chain_code
from .core.operator import Operator
from .core.unknown_arguments import methods_explain_unknown_arguments
from .engine.run import Run, at_index, known_length, length_of, position_count
from .engine.skipping import remaining_blocks
from .engine.stage import Stage, bind, resolve
from .errors import ArgumentError, ArgumentTypeError, call_site, with_call_site
from .ops._collect_table import collect_table
from .ops._installed_operators import InstalledOperators
from .ops._torch_workers import warn_in_torch_worker
from .ops.batch import batch as _batch
from .ops.batch_by_size import batch_by_size as _batch_by_size
from .ops.bucket_by_length import bucket_by_length as _bucket_by_length
from .ops.cache import cache as _cache
from .ops.cast import cast as _cast
from .ops.collate import collate as _collate
from .ops.concat import concat as _concat
from .ops.decode import decode as _decode
from .ops.dispatch import dispatch as _dispatch
from .ops.distinct import distinct as _distinct
from .ops.enumerate import enumerate as _enumerate
from .ops.filter import filter as _filter
from .ops.flat_map import flat_map as _flat_map
from .ops.fork import fork as _fork
from .ops.group_by import group_by as _group_by
from .ops.interleave import interleave as _interleave
from .ops.join import join as _join
from .ops.load import load as _load
from .ops.map import map as _map
from .ops.map_batches import map_batches as _map_batches
from .ops.map_columns import map_columns as _map_columns
from .ops.mix import mix as _mix
from .ops.on_error import on_error as _on_error
from .ops.pack import pack as _pack
from .ops.pad_batch import pad_batch as _pad_batch
from .ops.parsing.arrow import parse_arrow as _parse_arrow
from .ops.parsing.bytes import parse_bytes as _parse_bytes
from .ops.parsing.csv import parse_csv as _parse_csv
from .ops.parsing.jsonl import parse_jsonl as _parse_jsonl
from .ops.parsing.lines import parse_lines as _parse_lines
from .ops.parsing.open_files import open_files as _open_files
from .ops.parsing.parquet import parse_parquet as _parse_parquet
from .ops.parsing.tar import parse_tar as _parse_tar
from .ops.prefetch import prefetch as _prefetch
from .ops.repeat import repeat as _repeat
from .ops.resample import resample as _resample
from .ops.round_robin import round_robin as _round_robin
from .ops.route import route as _route
from .ops.sample import sample as _sample
from .ops.select import drop as _drop
from .ops.select import rename as _rename
from .ops.select import select as _select
from .ops.shard_by_rank import shard_by_rank as _shard_by_rank
from .ops.shuffle import shuffle as _shuffle
from .ops.slice import skip as _skip
from .ops.slice import slice as _slice
from .ops.slice import take as _take
from .ops.sliding import sliding as _sliding
from .ops.split import split as _split
from .ops.take_while import skip_while as _skip_while
from .ops.take_while import take_while as _take_while
from .ops.to_arrow import to_arrow as _to_arrow
from .ops.unbatch import unbatch as _unbatch
from .ops.unnest import unnest as _unnest
from .ops.unzip import unzip as _unzip
from .ops.with_columns import with_columns as _with_columns
from .ops.zip import zip as _zip
from .ops.zip_by_key import zip_by_key as _zip_by_key
from .ops.zip_longest import zip_longest as _zip_longest

if TYPE_CHECKING:
    import pyarrow as pa

    from .compat.datasets import PipeIterableDataset, PipeMapDataset
    from .loading.rank import Group
    from .services.base import ReadingService

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
P = ParamSpec("P")

_COUNTED_ROWS = 1024  # of which a worker sends the number


@methods_explain_unknown_arguments
class Pipe(Node, Generic[T_co]):
    """A lazy, immutable graph of operators that gives elements of type `T_co`.

    Each operator is a method that returns a new pipe. `for x in pipe` runs the pipe in this process, without shards,
    with seed 0 and epoch 0; a `Loader` runs it for training. `len(pipe)` and `pipe[i]` work if the pipe is indexed.
    `print(pipe)` shows it as code, `pipe.explain()` as a plan.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(10)).map(lambda x: x * x).batch(4)
        >>> pipe[1], len(pipe)
        ([16, 25, 36, 49], 3)
    """

    __slots__ = ("_bound",)

    _bound: Stage

    def _stage(self) -> Stage:
        if not hasattr(self, "_bound"):
            object.__setattr__(self, "_bound", bind(resolve(self)))
        return self._bound

    def then(self, operator: Operator, *others: Pipe[object]) -> Pipe[U]:  # pyright: ignore[reportInvalidTypeVarUse]
        """A pipe in which `operator` follows this pipe and `others`, its further inputs. For authors of operators."""
        for other in others:
            if not isinstance(other, Pipe):
                raise ArgumentTypeError(
                    with_call_site(
                        f"the inputs of `{getattr(operator, 'kind', 'then')}` must be pipes but got: {other!r}"
                    )
                )
        pipe: Pipe[U] = Pipe(operator, (self, *others), call_site())
        check_depth(operator, pipe.depth, pipe.call_site)
        return pipe

    @staticmethod
    def source(operator: Operator) -> Pipe[U]:  # pyright: ignore[reportInvalidTypeVarUse]
        """A pipe that begins with `operator`. For authors of sources."""
        return cast("Pipe[U]", Pipe(operator, (), call_site()))

    def pipe(self, function: Callable[Concatenate[Pipe[T_co], P], U], *args: P.args, **kwargs: P.kwargs) -> U:
        """Call `function(self, *args, **kwargs)`: chains a function that takes a pipe, and keeps its types.

        Example:
            >>> import feedpipe as fp
            >>> def doubled(pipe):
            ...     return pipe.map(lambda x: 2 * x)
            >>> list(fp.from_sequence([1, 2]).pipe(doubled))
            [2, 4]
        """
        return function(self, *args, **kwargs)

    @property
    def ext(self) -> InstalledOperators:
        """The operators that installed packages declare: `pipe.ext.name(...)` calls the function `name(pipe, ...)`.

        A package is imported when one of its operators is asked for. A type checker does not know their types; it does
        if you import the function and call `pipe.pipe(function, ...)`. The command `feedpipe ops` lists them.

        Raises:
            AttributeError: no package, or more than one, declares this name.
            ImportError: the package cannot be imported.
        """
        return InstalledOperators(self)

    def __iter__(self) -> Iterator[T_co]:
        warn_in_torch_worker(self, "pipe", "iterate `pipe.slice(info.id, None, info.num_workers)`")
        return cast("Iterator[T_co]", Run(self._stage()))

    def __len__(self) -> int:
        return length_of(self._stage())

    def __bool__(self) -> bool:
        return True

    @property
    def length(self) -> int | None:
        """How many elements there are; None if only a run can tell."""
        return known_length(self._stage())

    @property
    def schema(self) -> pa.Schema | None:
        """Names and types of the columns, if the elements are rows of a table; else None.

        Headers and footers of files tell it, no row is read. It is None behind a function of the user, as in `map`.

        Example:
            >>> import feedpipe as fp, numpy as np
            >>> fp.from_arrays({"x": np.arange(3), "y": np.zeros(3)}).shuffle().schema
            x: int64
            y: double
        """
        return self._stage().schema

    @overload
    def __getitem__(self, index: SupportsIndex) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Pipe[T_co]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T_co | Pipe[T_co]:
        if not isinstance(index, slice):
            return cast("T_co", at_index(self._stage(), _position(index)))
        start, stop, step = index.indices(position_count(self._stage()))
        if step < 1:
            raise ArgumentError(with_call_site(f"the step of a slice must be >= 1 but got: {step}"))
        return self.slice(start, stop, step)

    def head(self, count: int = 5) -> list[T_co]:
        """Return the first `count` elements."""
        return list(self.take(count))

    def count(self, service: ReadingService | None = None) -> int:
        """Return the number of elements. If it is not known without a run, this runs the pipe once.

        Args:
            service: where the pipe runs, by default in this process; elements do not leave the workers of a service.

        Example:
            >>> import feedpipe as fp
            >>> fp.from_sequence(range(10)).filter(lambda x: x % 3).count()
            6
        """
        if self.length is not None:
            return self.length
        if service is None:
            return sum(map(len, remaining_blocks(self._stage().blocks(START, Context()))))
        from .loader import Loader

        with Loader(self.batch(_COUNTED_ROWS).map(len), service, rank=0, world_size=1, even=None) as loader:
            return sum(loader)

    def to_table(self, limit: int | str = "1GiB") -> pa.Table:
        """Run the pipe in this process, and return its rows as an Arrow table; `.to_pandas()` makes a data frame of it.

        Columns of a table stay as they are. For rows that are dicts, Arrow infers the types from all values, and a name
        that a row lacks is a null.

        Args:
            limit: the number of bytes that the rows may take, as an int or a string such as "500MB".

        Raises:
            LimitError: they take more, by an estimate from the first row of each block.
            DataError: a row is no dict, or values of one name have several types.

        Example:
            >>> import feedpipe as fp
            >>> fp.from_sequence([{"x": 1, "y": "a"}, {"x": 2}]).to_table().to_pydict()
            {'x': [1, 2], 'y': ['a', None]}
        """
        stage = self._stage()
        return collect_table(
            remaining_blocks(stage.blocks(START, Context())), stage.schema, check_bytes("limit", limit)
        )

    def as_iterable_dataset(
        self,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        group: Group | None = None,
        shards: int | None = None,
    ) -> PipeIterableDataset[T_co]:
        """Return the elements as an iterable dataset for torch's `DataLoader`; a `Loader` is faster, and needs none.

        Each worker of each rank gives its own part, so no element comes twice. With `batch_size=None` the elements come
        in the order of a `Loader`; those of a streamed pipe until its first shard has ended. Of an indexed pipe, all
        ranks get as many; a streamed one leaves none out. The order is that of epoch 0 until the dataset's `set_epoch`
        is called, as with `DistributedSampler`. torchdata's `StatefulDataLoader` resumes exactly.

        Args:
            seed, rank, world_size, group: as for `Loader`.
            shards: virtual shards of a streamed pipe, over all ranks and workers. The default is 8 for each rank if the
                pipe shuffles, else 1, times what makes it a multiple of the workers.

        Example:
            >>> import feedpipe as fp
            >>> from torch.utils.data import DataLoader
            >>> dataset = fp.from_sequence(range(6)).batch(2).as_iterable_dataset()
            >>> list(DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"))
            [[0, 1], [2, 3], [4, 5]]
        """
        from .compat.datasets import iterable_dataset

        return iterable_dataset(self, seed=seed, rank=rank, world_size=world_size, group=group, shards=shards)

    def as_map_dataset(self, *, seed: int = 0) -> PipeMapDataset[T_co]:
        """Return the elements of an indexed pipe as a map-style dataset for torch's `DataLoader` and its samplers.

        `dataset[i]` is element i; batches are read at once, through `__getitems__`. Shuffles and random draws have the
        key `seed`, and are those of epoch 0 until the dataset's `set_epoch` is called.

        Raises:
            ArgumentTypeError: the pipe is streamed.

        Example:
            >>> import feedpipe as fp
            >>> dataset = fp.from_sequence("abcd").map(str.upper).as_map_dataset()
            >>> dataset[2], len(dataset)
            ('C', 4)
        """
        from .compat.datasets import PipeMapDataset

        return PipeMapDataset(self, seed)

    def explain(self, *, world_size: int = 1, workers: int = 0, shards: int | None = None) -> None:
        """Print the plan: operators, lengths, where rows are divided among shards, what a resume runs again.

        Args:
            world_size, workers, shards: as for `Loader`; the ranks and workers need not exist.

        Example:
            >>> import feedpipe as fp
            >>> fp.from_sequence(range(10)).shuffle().batch(4).explain()
            indexed, 3 elements; divided at the end, element by element
              from_sequence(range(0, 10))  10 indexed
              .shuffle()                   10 indexed
              .batch(4)                    3 indexed
            resume: by index, runs nothing again
        """
        from .plan.explain import explained

        print(explained(resolve(self), world_size=world_size, workers=workers, shards=shards))  # noqa: T201 - printing is what it is for

    def __repr__(self) -> str:
        return chain_code(self)

    batch = _batch
    batch_by_size = _batch_by_size
    bucket_by_length = _bucket_by_length
    cache = _cache
    cast = _cast
    collate = _collate
    concat = _concat
    decode = _decode
    dispatch = _dispatch
    distinct = _distinct
    drop = _drop
    enumerate = _enumerate
    filter = _filter
    flat_map = _flat_map
    fork = _fork
    group_by = _group_by
    interleave = _interleave
    join = _join
    load = _load
    map = _map
    map_batches = _map_batches
    map_columns = _map_columns
    mix = _mix
    on_error = _on_error
    open_files = _open_files
    pack = _pack
    pad_batch = _pad_batch
    parse_arrow = _parse_arrow
    parse_bytes = _parse_bytes
    parse_csv = _parse_csv
    parse_jsonl = _parse_jsonl
    parse_lines = _parse_lines
    parse_parquet = _parse_parquet
    parse_tar = _parse_tar
    prefetch = _prefetch
    rename = _rename
    repeat = _repeat
    resample = _resample
    round_robin = _round_robin
    route = _route
    sample = _sample
    select = _select
    shard_by_rank = _shard_by_rank
    shuffle = _shuffle
    skip = _skip
    skip_while = _skip_while
    slice = _slice
    sliding = _sliding
    split = _split
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


def _position(index: SupportsIndex) -> int:
    try:
        return operator.index(index)
    except TypeError:
        raise ArgumentTypeError(
            with_call_site(
                f"`pipe[...]` takes an int or a slice but got: {index!r:.80}; several elements come by a slice, or "
                "one at a time: `[pipe[i] for i in indices]`"
            )
        ) from None
