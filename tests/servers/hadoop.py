"""Hadoop 2.7.4, server and client, from packages: PyPI's and Debian's hold all of it, in pieces.

The Java archives are in the source archive of pyspark (no later one holds the server), libhdfs in C in pydoop's, and
what those leave out in a few packages of Debian, which are unpacked and not installed. All of it goes into a cache
outside the checkout.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

PYSPARK, PYDOOP = "pyspark-3.0.2", "pydoop-2.0.0"
LAYOUT = 1
"""Goes up when this file makes something else."""

# What servers and clients load, by `-Xlog:class+load`; pyspark holds another 200.
JARS = [
    "commons-cli", "commons-codec", "commons-collections", "commons-configuration", "commons-io", "commons-lang",
    "commons-logging", "guava", "hadoop-annotations", "hadoop-auth", "hadoop-common", "hadoop-hdfs", "htrace-core",
    "jackson-core-asl", "jackson-mapper-asl", "javax.servlet-api", "jetty", "jetty-sslengine", "jetty-util", "log4j",
    "netty-all", "protobuf-java", "slf4j-api", "slf4j-log4j12",
]  # fmt: skip
DEBIAN_JARS = {"libjersey1-servlet-java": "jersey1-servlet", "libjsr311-api-java": "jsr311-api"}
C_FILES = [
    "exception.c", "hdfs.c", "jni_helper.c", "common/htable.c",
    "os/posix/mutexes.c", "os/posix/thread_local_storage.c",
]  # fmt: skip

# Hadoop 2.7 was written for Java 7 and looks into Java's own parts.
OPENED = ("lang", "lang.reflect", "util", "io", "net", "nio")
JAVA_OPTIONS = (
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.dns=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "-Djava.net.preferIPv4Stack=true",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # nothing lives long enough for the better compiler to pay
)


def java_home() -> Path:
    """The folder of a JDK: of `JAVA_HOME`, else of the `javac` on the path."""
    named = os.environ.get("JAVA_HOME")
    found = shutil.which("javac")
    home = Path(named) if named else Path(found).resolve().parents[1] if found else None
    if home is None or not (home / "lib/server/libjvm.so").exists():
        raise RuntimeError("HDFS needs a JDK: on Debian, `apt-get install openjdk-17-jdk-headless`")
    return home


def installed() -> Path:
    """The folder with `jars/` and `lib/libhdfs.so`; the first call on a machine downloads 210 MB and takes 20 s."""
    cache = Path(os.environ.get("FEEDPIPE_TEST_CACHE") or Path.home() / ".cache/feedpipe-tests").absolute()
    made = cache / f"hadoop-2.7.4-{LAYOUT}"
    if made.exists():
        return made
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lock"):
        if not made.exists():  # another process has made it meanwhile
            for interrupted in cache.glob("making-*"):
                shutil.rmtree(interrupted)
            new = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
            _make(new)
            (new / "made").rename(made)
            shutil.rmtree(new)
    return made


@contextlib.contextmanager
def locked(path: Path, *, alone: bool = True) -> Iterator[None]:
    """One process at a time; or all that would not be alone. The lock of a dead one is free."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def _make(work: Path) -> None:
    made = work / "made"
    (made / "jars").mkdir(parents=True)
    (made / "lib").mkdir()
    _download_from_pypi(work)
    _unpack(work / f"{PYSPARK}.tar.gz", f"{PYSPARK}/deps/jars/", work / "all")
    for name in JARS:
        (file,) = (work / "all").glob(f"{name}-[0-9]*.jar")
        file.rename(made / "jars" / file.name)
    _download_from_debian(work)
    for name in DEBIAN_JARS.values():
        shutil.copyfile(work / f"root/usr/share/java/{name}.jar", made / f"jars/{name}.jar")
    _unpack(work / f"{PYDOOP}.tar.gz", f"{PYDOOP}/src/libhdfs/", work / "c")
    _compile(work / "c", made / "lib/libhdfs.so")


def _download_from_pypi(work: Path) -> None:
    # pip asks a source archive for its metadata even if it is only to be downloaded, and pydoop's needs old tools.
    (work / "old.txt").write_text("setuptools<80\n")
    names = [name.replace("-", "==") for name in (PYSPARK, PYDOOP)]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", "."]
    _run([*pip, "--no-binary", "pyspark,pydoop", "--build-constraint", "old.txt", *names], work)


def _download_from_debian(work: Path) -> None:
    apt = ["apt-get", "-q", "-o", "APT::Sandbox::User="]  # the user `_apt` cannot write here
    try:
        _run([*apt, "download", *DEBIAN_JARS], work)
    except RuntimeError:  # the lists are old, or there are none: own ones need no root
        for folder in ("lists/partial", "archives/partial"):
            (work / "apt" / folder).mkdir(parents=True)
        apt += ["-o", f"Dir::State::Lists={work}/apt/lists", "-o", f"Dir::Cache={work}/apt"]
        _run([*apt, "update"], work)
        _run([*apt, "download", *DEBIAN_JARS], work)
    for package in work.glob("*.deb"):
        _run(["dpkg-deb", "-x", str(package), "root"], work)


def _unpack(archive: Path, inside: str, to: Path) -> None:
    """The files below a folder of an archive."""
    with tarfile.open(archive) as files:
        for member in files:
            if member.isfile() and member.name.startswith(inside):
                place = to / member.name.removeprefix(inside)
                place.parent.mkdir(parents=True, exist_ok=True)
                with files.extractfile(member) as source, place.open("wb") as target:  # type: ignore[union-attr]
                    shutil.copyfileobj(source, target)


def _compile(source: Path, made: Path) -> None:
    java = java_home()
    folders = [".", "include", "common", "os", "os/posix", f"{java}/include", f"{java}/include/linux"]
    includes = [f"-I{folder}" for folder in folders]
    gcc = ["gcc", "-O1", "-w", "-fPIC", "-shared", "-D_GNU_SOURCE", *includes]
    # No path to libjvm is built in: pyarrow has loaded it, from JAVA_HOME, before it loads this.
    _run([*gcc, "-o", str(made), *C_FILES, f"-L{java}/lib/server", "-ljvm"], source)


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        raise RuntimeError(f"HDFS for the tests needs {command[0]}") from None
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{done.stdout[-3000:]}")
