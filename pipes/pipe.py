"""`Pipe`: a lazy graph of operators, made by chaining; the operators of installed packages."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from .core.block import Block, nbytes
from .core.checks import check_bytes, check_torch, methods_explain_wrong_arguments, similar_name
from .core.context import Context
from .core.cursor import START
from .core.graph import Node, chain_code, walk
from .core.lazy import pa
from .core.operator import Operator, check_depth
from .core.rows import Rows
from .engine.run import at_index, elements, known_length, length_of, position_count
from .engine.skips import remaining_blocks
from .engine.stage import Stage, bind, resolve
from .errors import (
    ENTRY_POINT_GROUPS,
    ArgumentError,
    ArgumentTypeError,
    DataError,
    LimitError,
    PlanWarning,
    UnfitError,
    call_site,
    text_of,
    warn,
    with_call_site,
)
from .ops._methods import OperatorMethods, advice_on_name
from .ops._shared import as_rows
from .ops.slice import Slice

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .compat.datasets import PipeIterableDataset, PipeMapDataset
    from .seeing.check import Findings
    from .seeing.drawing import Drawing
    from .services.base import ReadingService
    from .torch.ranks import Group


T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
P = ParamSpec("P")
Kind: TypeAlias = Literal["operator", "source"]

_GROUPS: dict[Kind, str] = dict(zip(("operator", "source"), ENTRY_POINT_GROUPS, strict=True))
_COUNTED_ROWS = 1024
"""A worker sends one number for this many rows."""


@methods_explain_wrong_arguments
class Pipe(OperatorMethods, Node, Generic[T_co]):
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
                    f"the inputs of `{getattr(operator, 'kind', 'then')}` must be pipes but got: {other!r}"
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
        return cast("Iterator[T_co]", elements(self._stage()))

    def __len__(self) -> int:
        return length_of(self._stage())

    def __bool__(self) -> bool:
        return True

    @property
    def length(self) -> int | None:
        """The number of elements; None if only a run can tell."""
        return known_length(self._stage())

    @property
    def schema(self) -> pa.Schema | None:
        """Names and types of the columns, if the elements are rows of a table; else None.

        Headers and footers of files tell it; no row is read. It is None after a function of the user, as in `map`.

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
            raise ArgumentError(f"the step of a slice must be >= 1 but got: {step}")
        return self.slice(start, stop, step)

    def head(self, count: int = 5) -> list[T_co]:
        """Return the first `count` elements, as a list. Printed, it shows large arrays by type and shape.

        Example:
            >>> import feedpipe as fp, numpy as np
            >>> fp.from_arrays({"image": np.zeros((9, 28, 28), np.uint8), "label": np.arange(9)}).head(2)
            [{'image': <uint8[28, 28]>, 'label': 0}, {'image': <uint8[28, 28]>, 'label': 1}]
        """
        from .core.short import Elements

        return Elements(self.take(count))

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
            with closing(Context()) as context:
                return sum(map(len, remaining_blocks(self._stage().blocks(START, context))))
        from .loader import PassLoader

        with PassLoader(self.batch(_COUNTED_ROWS).map(len), service, rank=0, world_size=1, even=None) as loader:
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
        with closing(Context()) as context:
            blocks = remaining_blocks(stage.blocks(START, context))
            return collect_table(blocks, stage.schema, check_bytes("limit", limit))

    def as_iterable_dataset(
        self,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        group: Group | None = None,
        shards: int | None = None,
        even: Literal["drop"] | None = "drop",
    ) -> PipeIterableDataset[T_co]:
        """Return the elements as an iterable dataset for torch's `DataLoader`; a `Loader` is faster, and needs none.

        Each worker of each rank gives its own part, so no element comes twice. With `batch_size=None` the elements come
        in the order of a `Loader`; those of a streamed pipe until its first shard has ended. The order is that of epoch
        0 until the dataset's `set_epoch` is called, as with `DistributedSampler`. torchdata's `StatefulDataLoader`
        resumes exactly.

        Args:
            seed, rank, world_size, group: as for `Loader`.
            shards: virtual shards of a streamed pipe, over all ranks and workers. The default for each rank is the
                least common multiple of 8 and the workers if the pipe shuffles, else the number of workers.
            even: "drop" gives all ranks as many elements, and leaves out what goes beyond; None does nothing to a
                streamed pipe. The ranks of a streamed pipe agree on the end by their process group, which a
                `DataLoader` with workers cannot do.

        Raises:
            PlanError: at the first element, if the ranks of a streamed pipe cannot be made even.

        Example:
            >>> import feedpipe as fp
            >>> from torch.utils.data import DataLoader
            >>> dataset = fp.from_sequence(range(6)).batch(2).as_iterable_dataset()
            >>> list(DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"))
            [[0, 1], [2, 3], [4, 5]]
        """
        check_torch("`as_iterable_dataset` makes a dataset")
        from .compat.datasets import PipeIterableDataset

        return PipeIterableDataset(
            self, seed=seed, rank=rank, world_size=world_size, group=group, shards=shards, even=even
        )

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
        check_torch("`as_map_dataset` makes a dataset")
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

    def draw(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        world_size: int = 1,
        workers: int = 0,
        shards: int | None = None,
    ) -> Drawing:
        """Draw the plan as nested boxes: operators, lengths, and where rows are divided among shards.

        A notebook shows the drawing; a page is plain HTML in one file.

        Args:
            path: a page to write; it ends in .html.
            world_size, workers, shards: as for `Loader`; the ranks and workers need not exist.

        Raises:
            ArgumentError: an argument is out of its range, `path` has another ending, or its folder does not exist.

        Example:
            >>> import feedpipe as fp
            >>> fp.from_sequence(range(10)).shuffle().batch(4).draw("pipe.html")
            Drawing(3 operators; .save("pipe.html") writes a page)
        """
        from .seeing.drawing import drawn

        drawing = drawn(self, world_size=world_size, workers=workers, shards=shards)
        if path is not None:
            drawing.save(path)
        return drawing

    def _repr_html_(self) -> str:
        from .seeing.drawing import outlined

        return outlined(self)

    def check(self, *, world_size: int = 1, workers: int = 0, shards: int | None = None) -> Findings:
        """Find what a loader of this pipe would cost that you may not expect, with the code that repairs it.

        Each finding has a rule, a severity, the line of your program, and a repair that runs. An "error" is a loader
        that fails; a "warning" is other rows than are meant, or a cost far higher than it need be. The rules look at
        the plan and at the arguments; no row is read, and no function of yours is called.

        Args:
            world_size, workers, shards: as for `Loader`; the ranks and workers need not exist.

        Returns:
            A sequence of findings, errors first. Printed, it is a text.

        Raises:
            FeedpipeError: the pipe has no plan, such as if a file is missing.

        Example:
            >>> import feedpipe as fp
            >>> (finding,) = fp.from_sequence(range(10)).shuffle().take(5).check()
            >>> finding.rule, finding.severity, finding.repair
            ('other-rows', 'warning', '.shuffle(each_epoch=False)')
        """
        from .seeing.check import check

        return check(self, world_size=world_size, workers=workers, shards=shards)

    def __repr__(self) -> str:
        return chain_code(self)

    if not TYPE_CHECKING:  # type checkers would take every name to exist

        def __getattr__(self, name: str) -> object:
            if name.startswith("_") or hasattr(type(self), name):
                return object.__getattribute__(self, name)  # Python's own error, or that of a property
            advice = advice_on_name(name, dir(type(self))) or "`feedpipe ops` in a shell lists the operators"
            raise AttributeError(with_call_site(f"a pipe has no `{name}`; {advice}"), name=name)


def _position(index: SupportsIndex) -> int:
    try:
        return operator.index(index)
    except TypeError:
        raise ArgumentTypeError(
            f"`pipe[...]` takes an int or a slice but got: {index!r:.80}; several elements come by a slice, or "
            "one at a time: `[pipe[i] for i in indices]`"
        ) from None


def check_pipe(value: object) -> None:
    """Raise an `ArgumentTypeError` unless `value` is a `Pipe`."""
    if not isinstance(value, Pipe):
        raise ArgumentTypeError(f"`pipe` must be a Pipe but got: {value!r:.200}")


def warn_in_torch_worker(pipe: Node, what: str, remedy: str) -> None:
    """Warn if each of several workers of torch's DataLoader iterates the whole pipe, or a loader of it."""
    workers = torch_workers()
    if workers == 1 or any(isinstance(node.op, Slice) and node.op.step == workers for node in walk(pipe)):
        return
    warn(
        f"each of the {workers} workers of torch's DataLoader iterates this {what}, so each row comes {workers} times; "
        f"use `feedpipe.Loader(pipe, workers={workers})` instead of the DataLoader, or {remedy} of torch's "
        "`get_worker_info()`",
        PlanWarning,
    )


def torch_workers() -> int:
    """The number of workers of the `DataLoader` for which this process works; 1 if it is no such worker."""
    data = sys.modules.get("torch.utils.data")
    info: Any = None if data is None else data.get_worker_info()
    return 1 if info is None else int(info.num_workers)


def collect_table(blocks: Iterable[Block], schema: pa.Schema | None, limit: int) -> pa.Table:
    """The rows of all blocks. Columns stay as they are; rows that are dicts become columns together.

    Args:
        blocks: of a run.
        schema: the schema of a table without rows, if it is known.
        limit: the number of bytes that the rows may take.

    Raises:
        LimitError: they take more.
        DataError: a row is no dict, or the values of one name have several types.
    """
    tables: list[pa.Table] = []
    dicts: list[object] = []  # the rows after the last table
    count, used = 0, 0
    try:
        for block in blocks:
            used += nbytes(block.rows)
            if used > limit:
                raise LimitError(
                    f"`to_table` has taken {limit} bytes after {count} rows, and there are more; give a larger "
                    "`limit`, `.select` fewer columns, or write files with `fp.write_parquet`",
                    at=call_site(),
                )
            count += len(block)
            if not isinstance(block.rows, Rows):
                dicts += block.rows
                continue
            tables += [_table(dicts)] if dicts else []
            dicts = []
            tables.append(_table(block.rows))
        tables += [_table(dicts)] if dicts else []
        if not tables:
            return pa.table({}) if schema is None else schema.empty_table()
        return pa.concat_tables(tables, promote_options="permissive")
    except (UnfitError, pa.ArrowException) as error:
        raise DataError(f"`to_table`: {' '.join(str(error).split())}", at=call_site()) from error


def _table(rows: object) -> pa.Table:
    if isinstance(rows, list) and any(isinstance(row, Rows) for row in rows):
        raise UnfitError("an element must be a row but is a batch of rows; `.unbatch()` gives its rows")
    return pa.Table.from_batches([as_rows(rows).arrow])


# Operators and sources that installed packages declare as entry points.


class InstalledFunction(NamedTuple):
    """A function that an installed package declares as an operator or a source.

    Attributes:
        name: its name in the package.
        kind: "operator" or "source".
        package: the package and its version.
        entry_point: where the function is.
    """

    name: str
    kind: Kind
    package: str
    entry_point: EntryPoint

    def load(self) -> Callable[..., Any]:
        """Import the function.

        Raises:
            ImportError: its module cannot be imported, whatever error it raises, or has no such function.
        """
        try:
            function = self.entry_point.load()
        except Exception as error:
            raise self._error(f"{type(error).__name__}: {text_of(error)}") from error
        if not callable(function) or isinstance(function, type):
            raise self._error(f"it must be a function but is: {function!r:.80}")
        return function  # type: ignore[no-any-return]

    def _error(self, reason: str) -> ImportError:
        message = (
            f"the {self.kind} `{self.name}` of {self.package} ({self.entry_point.value}) cannot be loaded: {reason}"
        )
        return ImportError(with_call_site(message))


def installed_functions(kind: Kind) -> list[InstalledFunction]:
    """The functions that installed packages declare, by name. This reads their metadata, and imports nothing."""
    from importlib.metadata import entry_points  # here, so that `import feedpipe` does not pay for it

    functions: list[InstalledFunction] = []
    for entry_point in entry_points(group=_GROUPS[kind]):
        package = entry_point.dist
        label = "an unknown package" if package is None else f"{package.name} {package.version}"
        functions.append(InstalledFunction(entry_point.name, kind, label, entry_point))
    return sorted(functions, key=lambda function: (function.name, function.package))


class InstalledOperators:
    """The operators that installed packages declare, as methods of one pipe."""

    __slots__ = ("_pipe",)

    def __init__(self, pipe: Pipe[Any]) -> None:
        self._pipe = pipe

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):  # Python and notebooks look for such names; no operator has one
            raise AttributeError(name)
        declared = installed_functions("operator")
        matches = [function for function in declared if function.name == name]
        if not matches:
            raise AttributeError(with_call_site(self._unknown(name, sorted({function.name for function in declared}))))
        if len(matches) > 1:
            packages = " and ".join(function.package for function in matches)
            raise AttributeError(
                with_call_site(
                    f"{packages} declare an operator `{name}`; import the function that you mean, and call "
                    "`pipe.pipe(function, ...)`"
                )
            )
        return MethodType(matches[0].load(), self._pipe)

    def _unknown(self, name: str, names: list[str]) -> str:
        message = f"no installed package declares an operator `{name}`"
        if callable(getattr(type(self._pipe), name, None)):
            return f"{message}; it is an operator of feedpipe: `pipe.{name}(...)`"
        if near := similar_name(name, names):
            return f"{message}; did you mean `{near}`?"
        return f"{message}; there are {', '.join(f'`{other}`' for other in names) or 'none'}"

    def __dir__(self) -> list[str]:
        return [function.name for function in installed_functions("operator")]

    def __repr__(self) -> str:
        return f"<operators of installed packages: {', '.join(dir(self)) or 'none'}>"
