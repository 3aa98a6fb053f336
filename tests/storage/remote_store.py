"""A remote file system as a user writes one, with pyarrow's `FileSystemHandler`; it records its requests."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import fs


class RemoteStore(fs.FileSystemHandler):
    """Files in memory.

    Attributes:
        files: by path.
        requests: (path, begin, end) of each read, in order.
        before: called with each request; it may raise, and may return other bytes than those of the file.
        open: the number of open files.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.requests: list[tuple[str, int, int]] = []
        self.before: Callable[[str, int, int], bytes | None] = lambda path, begin, end: None
        self.open = 0

    @property
    def filesystem(self) -> fs.PyFileSystem:
        return fs.PyFileSystem(self)

    def get_type_name(self) -> str:
        return "remote-store"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        below = selector.base_dir.rstrip("/") + "/"
        names = sorted(
            {below + path.removeprefix(below).split("/")[0] for path in self.files if path.startswith(below)}
        )
        return [self._info(name) for name in names]

    def open_input_file(self, path: str) -> pa.NativeFile:
        if path not in self.files:
            raise FileNotFoundError(path)
        return pa.PythonFile(_Opened(self, path), "r")

    open_input_stream = open_input_file

    def _info(self, path: str) -> fs.FileInfo:
        if path in self.files:
            return fs.FileInfo(path, fs.FileType.File, size=len(self.files[path]))
        is_folder = any(name.startswith(f"{path}/") for name in self.files)
        return fs.FileInfo(path, fs.FileType.Directory if is_folder else fs.FileType.NotFound)

    def _refuse(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = move = copy_file = _refuse
    open_output_stream = open_append_stream = _refuse


class _Opened(io.BytesIO):
    def __init__(self, owner: RemoteStore, path: str) -> None:
        super().__init__(owner.files[path])
        self._owner = owner
        self._path = path
        owner.open += 1

    def read(self, size: int | None = -1) -> bytes:
        begin = self.tell()
        data = super().read(size)
        self._owner.requests.append((self._path, begin, begin + len(data)))
        other = self._owner.before(self._path, begin, begin + len(data))
        return data if other is None else other

    def close(self) -> None:
        if not self.closed:
            self._owner.open -= 1
        super().close()
