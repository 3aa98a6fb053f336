"""What holds for readers on every storage: the same files give the same rows as on the local disk."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import feedpipe as fp


def _files() -> dict[str, bytes]:
    """Some of each format: larger than the first chunks, one compressed, one empty, one where only globs look."""
    draw = random.Random(7)
    words = ["north", "süd", "east", "", "w e s t"]
    files = {}
    for name, count in (("a", 3000), ("b", 1), ("deep/c", 900), ("deep/d", 2000)):
        rows = [(i, draw.random(), draw.choice(words)) for i in range(count)]
        files[f"{name}.txt"] = "".join(f"{name} {i} {word}\n" for i, _, word in rows).encode()
        files[f"{name}.csv"] = "".join(["id,x,word\n", *(f'{i},{x},"{word}"\n' for i, x, word in rows)]).encode()
        objects = ({"id": i, "x": x, "word": word} for i, x, word in rows)
        files[f"{name}.jsonl"] = "".join(json.dumps(row) + "\n" for row in objects).encode()
    files["deep/empty.txt"] = b""
    files["deep/packed.txt.gz"] = gzip.compress(files["a.txt"], mtime=0)
    return files


FILES = _files()
READERS: dict[str, Callable[..., fp.Pipe[Any]]] = {"txt": fp.read_lines, "csv": fp.read_csv, "jsonl": fp.read_jsonl}


@dataclass(frozen=True)
class Place:
    """Where `FILES` lie.

    Attributes:
        root: a path or URL of the folder.
        after: what a URL ends with.
        options: of each source, such as `filesystem=`.
    """

    root: str
    after: str = ""
    options: dict[str, object] = field(default_factory=dict)

    def selections(self, ending: str) -> list[dict[str, Any]]:
        """Arguments for a reader: the ways to name files."""
        root, after = self.root, self.after
        return [
            {"paths": f"{root}/a.{ending}{after}"},
            {"paths": [f"{root}/deep/c.{ending}{after}", f"{root}/a.{ending}{after}"]},
            {"paths": f"{root}/?.{ending}{after}"},
            {"paths": f"{root}/**/*.{ending}*{after}"},
            {"paths": f"{root}{after}", "pattern": f"*.{ending}"},
            {"paths": f"{root}/{after}", "pattern": f"*.{ending}", "recursive": True},
        ]

    def read(self, ending: str, **arguments: Any) -> fp.Pipe[Any]:
        """All files of one format, by a glob."""
        return READERS[ending](f"{self.root}/**/*.{ending}*{self.after}", **self.options, **arguments)


def check_rows(here: Place, there: Place, ending: str) -> None:
    """However files are named: the same paths below the root, the same rows, each file readable by itself."""
    for local, other in zip(here.selections(ending), there.selections(ending), strict=True):
        paths = list(fp.list_files(**other, **there.options))
        assert [path.removeprefix(there.root).removesuffix(there.after) for path in paths] == [
            path.removeprefix(here.root) for path in fp.list_files(**local)
        ]
        rows = list(READERS[ending](**other, **there.options))
        assert rows == list(READERS[ending](**local)) and rows
    opened = fp.list_files(paths, **there.options).open_files(filesystem=there.options.get("filesystem"))
    for file in opened:
        data = file.open(compression=None).read()
        assert data == FILES[file.path.removeprefix(there.root).removesuffix(there.after).lstrip("/")]
        assert file.size() == len(data)


def check_resume(here: Place, there: Place, ending: str) -> None:
    """A state taken anywhere goes on with the next row; one that was taken on the local disk, too."""
    rows = list(here.read(ending))
    first = len(FILES[f"a.{ending}"].splitlines())
    for taken in (0, 1, 17, first - 1, first, first + 1, len(rows) - 1):
        for origin in (there, here):
            loader = fp.Loader(origin.read(ending), shards=1)
            assert len(list(itertools.islice(loader, taken))) == taken
            resumed = fp.Loader(there.read(ending), shards=1)
            resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
            assert list(resumed) == rows[taken:]


def check_workers(here: Place, there: Place, ending: str, *, taken: int = 1234) -> None:
    """Two processes read as none does, each with a file system that it has opened itself; they resume as well."""
    rows = list(fp.Loader(here.read(ending), shards=2))
    with fp.Loader(there.read(ending), workers=2, shards=2) as loader:
        assert list(itertools.islice(loader, taken)) == rows[:taken]
        state = json.loads(json.dumps(loader.state_dict()))
    with fp.Loader(there.read(ending), workers=2, shards=2) as loader:
        loader.load_state_dict(state)
        assert list(loader) == rows[taken:]


def write_files(folder: Path) -> Place:
    """`FILES` on the local disk."""
    for name, data in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Place(str(folder))
