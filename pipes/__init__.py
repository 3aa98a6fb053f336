"""feedpipe: composable data pipes for PyTorch that resume exactly."""

from .errors import FeedpipeError as FeedpipeError
from .errors import RowError as RowError
from .loader import Loader as Loader
from .pipe import Pipe as Pipe
from .services.inprocess import InProcess as InProcess
from .services.multiprocess import MultiProcess as MultiProcess
from .sources.from_arrays import from_arrays as from_arrays
from .sources.from_dataset import from_dataset as from_dataset
from .sources.from_iterable import from_iterable as from_iterable
from .sources.from_sequence import from_sequence as from_sequence
from .sources.from_table import from_table as from_table
from .sources.list_files import list_files as list_files
from .sources.read_arrow import read_arrow as read_arrow
from .sources.read_bytes import read_bytes as read_bytes
from .sources.read_csv import read_csv as read_csv
from .sources.read_idx import read_idx as read_idx
from .sources.read_images import read_images as read_images
from .sources.read_jsonl import read_jsonl as read_jsonl
from .sources.read_lines import read_lines as read_lines
from .sources.read_numpy import read_numpy as read_numpy
from .sources.read_parquet import read_parquet as read_parquet
from .sources.read_tar import read_tar as read_tar
from .storage.file import File as File
from .writing.verify import verify as verify
from .writing.write_parquet import write_parquet as write_parquet
from .writing.write_tar import write_tar as write_tar
