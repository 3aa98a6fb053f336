"""Hadoop 2.7.4, server and client, put together from packages of PyPI and Debian.

The Java archives are in the source archive of pyspark (later versions lack the server), and the C code of libhdfs is in
that of pydoop. The rest is in a few packages of Debian, which are unpacked and not installed. The result goes into a
cache outside the checkout.
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
"""Increase it when this file makes something else."""

# The archives that servers and clients load, by `-Xlog:class+load`; pyspark has another 200.
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

# Hadoop 2.7 was written for Java 7, and uses internal parts of Java.
OPENED = ("lang", "lang.reflect", "util", "io", "net", "nio")
JAVA_OPTIONS = (
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.dns=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "-Djava.net.preferIPv4Stack=true",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # the processes do not live long enough for the better compiler
)


def java_home() -> Path:
    """The folder of a JDK: that of `JAVA_HOME`, else that of the `javac` on the path."""
    variable = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac")
    home = Path(variable) if variable else Path(javac).resolve().parents[1] if javac else None
    if home is None or not (home / "lib/server/libjvm.so").exists():
        raise RuntimeError("HDFS needs a JDK (`apt-get install openjdk-17-jdk-headless`)")
    return home


def install() -> Path:
    """The folder with `jars/` and `lib/libhdfs.so`; the first call on a machine downloads 210 MB and takes 20 s."""
    cache = Path(os.environ.get("FEEDPIPE_TEST_CACHE") or Path.home() / ".cache/feedpipe-tests").absolute()
    hadoop = cache / f"hadoop-2.7.4-{LAYOUT}"
    if hadoop.exists():
        return hadoop
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lock"):
        if not hadoop.exists():  # unless another process has made it since
            for interrupted in cache.glob("making-*"):
                shutil.rmtree(interrupted)
            work = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
            _make(work)
            (work / "made").rename(hadoop)
            shutil.rmtree(work)
    return hadoop


def check() -> None:
    """Check that an HDFS can be put together and run here, and put it together."""
    java_home()
    for program in ("gcc", "apt-get"):
        if not shutil.which(program):
            raise RuntimeError(f"HDFS needs {program}")
    install()


@contextlib.contextmanager
def locked(path: Path, *, alone: bool = True) -> Iterator[None]:
    """Holds a lock, alone or with all who do not need to be alone. The system frees the lock of a dead process."""
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
    # pip builds the metadata even of a source archive that it only downloads, and pydoop's needs old tools.
    (work / "old.txt").write_text("setuptools<80\n")
    names = [name.replace("-", "==") for name in (PYSPARK, PYDOOP)]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", "."]
    _run([*pip, "--no-binary", "pyspark,pydoop", "--build-constraint", "old.txt", *names], work)


def _download_from_debian(work: Path) -> None:
    apt = ["apt-get", "-q", "-o", "APT::Sandbox::User="]  # the user `_apt` cannot write here
    try:
        _run([*apt, "download", *DEBIAN_JARS], work)
    except RuntimeError:  # the lists are old or missing; own lists need no root
        for folder in ("lists/partial", "archives/partial"):
            (work / "apt" / folder).mkdir(parents=True)
        apt += ["-o", f"Dir::State::Lists={work}/apt/lists", "-o", f"Dir::Cache={work}/apt"]
        _run([*apt, "update"], work)
        _run([*apt, "download", *DEBIAN_JARS], work)
    for package in work.glob("*.deb"):
        _run(["dpkg-deb", "-x", str(package), "root"], work)


def _unpack(archive: Path, inside: str, to: Path) -> None:
    """Unpacks the files below a folder of an archive."""
    with tarfile.open(archive) as files:
        for member in files:
            if member.isfile() and member.name.startswith(inside):
                place = to / member.name.removeprefix(inside)
                place.parent.mkdir(parents=True, exist_ok=True)
                with files.extractfile(member) as source, place.open("wb") as target:  # type: ignore[union-attr]
                    shutil.copyfileobj(source, target)


def _compile(source: Path, library: Path) -> None:
    java = java_home()
    folders = [".", "include", "common", "os", "os/posix", f"{java}/include", f"{java}/include/linux"]
    includes = [f"-I{folder}" for folder in folders]
    gcc = ["gcc", "-O1", "-w", "-fPIC", "-shared", "-D_GNU_SOURCE", *includes]
    # The library has no path to libjvm: pyarrow loads that first, from JAVA_HOME.
    _run([*gcc, "-o", str(library), *C_FILES, f"-L{java}/lib/server", "-ljvm"], source)


def _run(command: list[str], folder: Path) -> None:
    try:
        result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        raise RuntimeError(f"HDFS for the tests needs {command[0]}") from None
    if result.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{result.stdout[-3000:]}")


if __name__ == "__main__":
    try:
        check()
    except RuntimeError as error:
        sys.exit(f'{error}; to run the other tests, say PYTEST_ADDOPTS="--without servers"')
