"""feedpipe: composable data pipes for PyTorch that resume exactly."""

from .errors import FeedpipeError as FeedpipeError
from .errors import RowError as RowError
from .loader import Loader as Loader
from .pipe import Pipe as Pipe
from .services.inprocess import InProcess as InProcess
from .sources.from_arrays import from_arrays as from_arrays
from .sources.from_iterable import from_iterable as from_iterable
from .sources.from_sequence import from_sequence as from_sequence
