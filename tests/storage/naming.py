"""The ways to name files, which must select the same files on every storage."""

from __future__ import annotations

import gzip
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import feedpipe as fp


def _lines(name: str, count: int) -> bytes:
    return "".join(f"{name} {i} süd\n" for i in range(count)).encode()


FILES = {
    "a.txt": _lines("a", 3000),
    "b.txt": _lines("b", 1),
    "deep/c.txt": _lines("c", 900),
    "deep/d.txt": _lines("d", 500),
    "deep/empty.txt": b"",
    "deep/packed.txt.gz": gzip.compress(_lines("packed", 500), mtime=0),
    "deep/other.csv": b"x\n1\n",
}


@dataclass(frozen=True)
class Place:
    """A folder with `FILES`.

    Attributes:
        root: the path or URL of the folder.
        after: the options at the end of a URL.
        options: of each source, such as `filesystem=`.
    """

    root: str
    after: str = ""
    options: dict[str, object] = field(default_factory=dict)

    @staticmethod
    def local(folder: Path) -> Place:
        """Writes the files to the local disk."""
        for name, data in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return Place(str(folder))

    def selections(self) -> list[dict[str, Any]]:
        """Arguments for a source, one for each way to name files."""
        root, after = self.root, self.after
        return [
            {"paths": f"{root}/a.txt{after}"},
            {"paths": [f"{root}/deep/c.txt{after}", f"{root}/a.txt{after}"]},
            {"paths": f"{root}/?.txt{after}"},
            {"paths": f"{root}/**/*.txt*{after}"},
            {"paths": f"{root}{after}", "pattern": "*.txt"},
            {"paths": f"{root}/{after}", "pattern": "*.txt*", "recursive": True},
        ]


def check_names(here: Place, there: Place) -> None:
    """Checks that each way to name files gives the same paths below the root and the same rows, and opens each file."""
    for local, other in zip(here.selections(), there.selections(), strict=True):
        paths = list(fp.list_files(**other, **there.options))
        assert [path.removeprefix(there.root).removesuffix(there.after) for path in paths] == [
            path.removeprefix(here.root) for path in fp.list_files(**local)
        ]
        rows = list(fp.read_lines(**other, **there.options))
        assert rows == list(fp.read_lines(**local)) and rows
    for file in fp.list_files(paths, **there.options).open_files(filesystem=there.options.get("filesystem")):
        data = file.open(compression=None).read()
        assert data == FILES[file.path.removeprefix(there.root).removesuffix(there.after).lstrip("/")]
        assert file.size() == len(data)


def check_workers(here: Place, there: Place) -> None:
    """Checks that two worker processes, each with a file system of its own, resume."""
    (local, other) = (place.selections()[3] | place.options for place in (here, there))
    rows = list(fp.Loader(fp.read_lines(**local), shards=2))
    with fp.Loader(fp.read_lines(**other), workers=2, shards=2) as loader:
        first_rows = list(itertools.islice(loader, 1234))
        loader.load_state_dict(loader.state_dict())
        assert first_rows + list(loader) == rows
