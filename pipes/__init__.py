"""Composable data pipes for PyTorch that resume exactly.

- A **pipe** says which elements there are, and in which order. It is a lazy, immutable graph of operators: a source
  such as `from_arrays` or `read_parquet` begins it, and each method of `Pipe` adds an operator. It holds no data and no
  position.
- A **plan** says which rows each rank and each shard reads. It is computed from the pipe, a seed, and the numbers of
  ranks and workers; `pipe.explain()` prints it.
- A **reading service** says where the plan runs: `InProcess`, `Threads`, `MultiProcess` or `Ray`. For one number of
  shards, neither the elements nor their order depend on it.
- A **loader** is what a training loop iterates. It makes the plan, runs it on a service, counts epochs and steps, and
  saves and restores its state.

Two more words explain how a state can be small and exact:

- A **block** is a few rows, as a list or as columns. Operators pass blocks to each other.
- A **cursor** is a position in plain JSON. Each block carries the cursor of its first row, and an operator can go on
  from any cursor. So a state is a few cursors: it never holds data, and marks the place after the last element taken.

Example:
    >>> import feedpipe as fp
    >>> pipe = fp.from_sequence(range(100)).shuffle().batch(32)  # a pipe
    >>> pipe.explain()  # its plan
    indexed, 4 elements; divided at the end, element by element
      from_sequence(range(0, 100))  100 indexed
      .shuffle()                    100 indexed
      .batch(32)                    4 indexed
    resume: by index, runs nothing again
    >>> loader = fp.Loader(pipe, fp.InProcess(), seed=7)  # a loader, with a reading service
    >>> [len(batch) for batch in loader]
    [32, 32, 32, 4]
"""

from inspect import isfunction as _isfunction
from typing import TYPE_CHECKING

from . import errors as errors
from . import stats as stats
from .core.checks import explains_wrong_arguments as _explains_wrong_arguments
from .core.rows import Rows
from .core.skips import Quarantine, Retry
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    FeedpipeError,
    LimitError,
    LoaderError,
    MissingError,
    PlanError,
    PlanWarning,
    RankError,
    RowError,
    SourceError,
    StateError,
    StateWarning,
    UnknownLengthError,
    WorkerError,
    WorkerWarning,
)
from .fitting.fit import fit
from .loader import Loader, gather_ledger, gather_report, gather_state
from .loading.replay import replay
from .ops.generator import operator
from .ops.mix import mix
from .ops.split import Parts
from .pipe import Pipe
from .seeing.progress import progress
from .services.inprocess import InProcess, Threads
from .services.multiprocess import MultiProcess
from .services.on_ray import Ray
from .sources.from_arrays import from_arrays
from .sources.from_dataset import from_dataset
from .sources.from_sequence import from_iterable, from_sequence
from .sources.from_table import from_table
from .sources.list_files import list_files
from .sources.read_delta import read_delta
from .sources.read_files import (
    read_arrow,
    read_bytes,
    read_csv,
    read_jsonl,
    read_lines,
    read_mds,
    read_parquet,
    read_tar,
    read_tfrecord,
)
from .sources.read_hdf5 import read_hdf5
from .sources.read_images import read_images
from .sources.read_lance import read_lance
from .sources.read_numpy import read_numpy
from .sources.read_sql import read_sql
from .sources.read_tokens import read_tokens
from .sources.read_zarr import read_zarr
from .stats.stats import Stats
from .storage.file import File
from .storage.file_cache import FileCache

__all__ = [
    # pipes, and where they run
    "Pipe",
    "mix",
    "Loader",
    "gather_ledger",
    "gather_report",
    "gather_state",
    "progress",
    "InProcess",
    "MultiProcess",
    "Threads",
    "Ray",
    "replay",
    "tune",
    # sources of objects in memory
    "from_arrays",
    "from_dataset",
    "from_iterable",
    "from_sequence",
    "from_table",
    # sources of files
    "index",
    "list_files",
    "read_arrow",
    "read_bytes",
    "read_csv",
    "read_delta",
    "read_hdf5",
    "read_images",
    "read_jsonl",
    "read_lance",
    "read_lines",
    "read_mds",
    "read_numpy",
    "read_parquet",
    "read_tar",
    "read_tfrecord",
    "read_tokens",
    "read_zarr",
    # sources of databases
    "read_sql",
    # statistics of columns
    "Stats",
    "fit",
    # writers
    "verify",
    "write_arrow",
    "write_parquet",
    "write_tar",
    "write_tfrecord",
    # rows that fail
    "Quarantine",
    "Retry",
    # operators of your own
    "operator",
    # elements and errors
    "File",
    "FileCache",
    "Rows",
    "Parts",
    "ArgumentError",
    "ArgumentTypeError",
    "DataError",
    "FeedpipeError",
    "LimitError",
    "LoaderError",
    "MissingError",
    "PlanError",
    "PlanWarning",
    "RankError",
    "RowError",
    "SourceError",
    "StateError",
    "StateWarning",
    "UnknownLengthError",
    "WorkerError",
    "WorkerWarning",
]

for _name, _value in [*globals().items()]:
    if _name in __all__ and _isfunction(_value):
        globals()[_name] = _explains_wrong_arguments(_value)

_LOADED_WHEN_USED = {  # what no training loop needs, and the module of each
    "index": "writing.index",
    "tune": "seeing.tuning",
    "verify": "writing.verify",
    "write_arrow": "writing.write_files",
    "write_parquet": "writing.write_files",
    "write_tar": "writing.write_tar",
    "write_tfrecord": "writing.write_files",
}
_PUBLIC_MODULES = ("errors", "extensions", "media", "stats", "testing")

_INSTEAD = {  # names that went, or that other libraries have
    "metrics": "`loader.report().metrics()` gives the numbers for Prometheus or OpenTelemetry",
    "read_avro": "`fp.list_files(paths).open_files().flat_map(lambda file: fastavro.reader(file.open()))` reads them",
    "read_idx": "`np.frombuffer(gzip.open(path).read(), np.uint8, offset=16)` is the data of MNIST's images",
    "profile": "`pipe.to_table().to_pandas().describe()` describes columns, and so does DuckDB's `SUMMARIZE`",
    "read_orc": "`fp.list_files(paths).flat_map(lambda path: pyarrow.orc.read_table(path).to_pylist())` reads them",
    "write_sql": "write each batch of a loop with ADBC: `cursor.adbc_ingest(table, batch, mode='append')`",
}

if TYPE_CHECKING:
    from . import extensions as extensions
    from . import media as media
    from . import testing as testing
    from .seeing.tuning import tune
    from .writing.index import index
    from .writing.verify import verify
    from .writing.write_files import write_arrow, write_parquet, write_tfrecord
    from .writing.write_tar import write_tar

    __version__: str
else:  # hidden from type checkers, which would take every name to exist

    def __getattr__(name: str) -> object:
        """The names that `import feedpipe` need not load."""
        from importlib import import_module

        if name == "__version__":
            return import_module("importlib.metadata").version("feedpipe")
        if name in _PUBLIC_MODULES:
            return import_module(f"{__name__}.{name}")
        if name in _LOADED_WHEN_USED:
            function = getattr(import_module(f"{__name__}.{_LOADED_WHEN_USED[name]}"), name)
            value = globals()[name] = _explains_wrong_arguments(function)
            return value
        instead = _INSTEAD.get(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{f'; {instead}' if instead else ''}")


def __dir__() -> list[str]:
    """The public names; the other modules are internal."""
    return sorted([*__all__, *_PUBLIC_MODULES, "__version__", *(name for name in globals() if name.startswith("__"))])
