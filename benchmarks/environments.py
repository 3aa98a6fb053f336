"""One virtual environment per peer, built once with pinned versions and kept in `.bench/`.

A peer never shares an environment with feedpipe or with another peer: their pins contradict each
other (torchdata 0.9 and 0.11), and an import must not find what its own installation would lack.
An environment is named by its pins and the Python version, so a changed pin makes a new one. pip
runs with the user's own configuration.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .model import HERE

ROOT = Path(__file__).resolve().parent.parent
#: Everything a benchmark leaves behind; ignored by git.
CACHE = ROOT / ".bench"

_TORCH = ("torch==2.13.0", "numpy==2.4.6")
_PILLOW = "pillow==13.0.0"

#: The pins of every peer. torch comes first: it decides what else fits. Pillow is for the workloads with JPEG files.
PINS: dict[str, tuple[str, ...]] = {
    "torch": (*_TORCH, _PILLOW),
    "torchdata-0.9": (*_TORCH, "torchdata==0.9.0"),
    "torchdata-0.11": (*_TORCH, "torchdata==0.11.0"),
    "webdataset": (*_TORCH, "webdataset==1.0.2", _PILLOW),
    "datasets": (*_TORCH, "datasets==5.2.0", "pyarrow==26.0.1"),
    "grain": ("grain==0.2.18", "numpy==2.4.6", _PILLOW),
    "grain-torch": (*_TORCH, "grain==0.2.18"),
    "spdl": (*_TORCH, "spdl-core==0.8.0", _PILLOW),
    "s3fs": ("s3fs==2026.9.0",),
    "sql": (*_TORCH, "connectorx==0.4.6", "psycopg[binary]==3.3.9", "pandas==3.1.1", "pyarrow==26.0.1"),
    "tfrecord": ("tfrecord==1.14.6", "numpy==2.4.6"),
    "tensorflow": ("tensorflow-cpu==2.21.0",),
}


class BuildError(Exception):
    """An environment could not be built; the message ends with what pip said."""


@dataclass(frozen=True)
class Environment:
    """A Python to run, and the versions of what is installed beside it."""

    name: str
    python: Path
    versions: dict[str, str]


def environment(name: str, *, rebuild: bool = False, say: Callable[[str], None] = print) -> Environment:
    """The environment `name`, built now if it is not there yet."""
    if name == HERE:
        return Environment(HERE, Path(sys.executable), _installed(Path(sys.executable)))
    pins = PINS[name]
    key = hashlib.sha256("\n".join((platform.python_version(), *pins)).encode()).hexdigest()[:8]
    folder = CACHE / "environments" / f"{name}-{key}"
    python = folder / "bin" / "python"
    complete = folder / "versions.json"  # written last: its presence means the build went through
    if rebuild or not (complete.exists() and python.exists()):
        own_folder()
        shutil.rmtree(folder, ignore_errors=True)
        say(f"building the environment {name}: {' '.join(pins)}")
        venv.create(folder, with_pip=True, symlinks=True)
        _pip(name, python, "install", "--quiet", "--disable-pip-version-check", *pins)
        complete.write_text(json.dumps(_installed(python), indent=2) + "\n")
    return Environment(name, python, json.loads(complete.read_text()))


def own_folder() -> Path:
    """`.bench/`, made if it is not there; git ignores it by its own word."""
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    return CACHE


def _pip(name: str, python: Path, *arguments: str) -> str:
    done = subprocess.run([str(python), "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise BuildError(f"the environment {name} could not be built: " + "\n".join(lines[-8:]))
    return done.stdout


_LIST = """
import importlib.metadata as metadata, json
print(json.dumps({each.metadata["Name"]: each.version for each in metadata.distributions()}))
"""


def _installed(python: Path) -> dict[str, str]:
    done = subprocess.run([str(python), "-I", "-c", _LIST], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
