"""The verb `test`: every check of this repository, cheapest failures first.

Owns which checks run, with which parallelism, and the closing line `N passed, N failed`. It installs nothing: the launcher
has done that. With `--nightly` it runs all tests, without it a part of the slowest, another one each day. With other arguments it is pytest
with those arguments and nothing else, for the short loop while writing.
"""

import os
import platform
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[3]

STATIC_CHECKS = {
    "ruff check": ("ruff", "check"),
    "ruff format": ("ruff", "format", "--check"),
    "mypy": ("mypy",),
    "import contracts": ("lint-imports", "--no-logo"),
    # Compiles the tests once, while mypy leaves a core idle: the processes of each stage would each do it again.
    "collection of tests": ("pytest", "--collect-only", "-qqq", "-m", "not perf"),
}

# Each file keeps the servers and engines that it starts. Files begin in the order of `tests/conftest.py`, the long ones first, so that
# no core waits for the end of the last one.
_BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")
# Reading all tests costs each process ten seconds and more of a processor. A test whose marker is not for its folder is an error there.
_OF_ENGINES, _OF_USERS = "tests/services/engine", "tests/acceptance"
TEST_STAGES: dict[str, tuple[str, ...]] = {
    # They wait for disks, for servers and for processes that they start, so that two would leave a core idle.
    "tests": (
        *("-n", "4", "-m", "not spark and not acceptance and not alone and not perf"),
        # All tests of these folders have the folder's marker: to read them would only take time.
        *(f"--ignore={_OF_USERS}", "--ignore=tests/perf"),
    ),
    "tests with Spark": (
        *("-n", "2", *_BY_FILE),
        *("-m", "spark and not acceptance and not alone and not perf", _OF_ENGINES),
    ),
    # Stories wait for processes that start and end. Named one by one: of one that hangs, its name is all that is left.
    "acceptance": ("-vv", "-n", "3", *_BY_FILE, "-m", "acceptance and not alone and not perf", _OF_USERS),
    "tests that want the machine for themselves": ("-m", "alone and not perf", _OF_ENGINES, _OF_USERS),
}

NIGHTLY = "--nightly"
"""The option that runs all parts of what takes turns by day (`tests/support/turns.py`)."""

TURNS = "ODF_TEST_TURNS"
"""Environment variable of the stages: `day` or `night`, see `tests/support/turns.py`."""

DAY = "ODF_TEST_DAY"
"""Environment variable of the stages: days since 1970. A run that passes midnight keeps to the day on which it began."""

STAGE_S_MAX = 2400.0
"""Longest run of one stage; a test that hangs where pytest cannot interrupt it must not hang the rest."""

TEST_S_MAX = 1200.0
"""Longest test by day, with what it sets up and ends; pytest ends most of them after 300 s.

One that no signal reaches, or that hangs while it cleans up, ends with its process: a failure with a name, and the others go on.
"""

REPORTS = "ODF_TEST_REPORTS"
"""Environment variable: a folder that keeps the JUnit report of each stage, which has the time of each test."""

NIGHTLY_STAGE_S_MAX = 4 * 3600.0
"""The same at night."""

ARCHIVE_S_MAX = 300.0
"""Longest wait for the archive of Spark's classes."""

_STARTED_ON = int(time.time()) // 86_400

PASSED_LINES_MAX = 3
"""Lines shown of a check that passed."""

MISSING = 127
"""Exit code for a tool that is not there, as shells have it."""

ABORT_S_MAX = 10.0
"""Longest wait for a stage that was asked to abort."""


@dataclass(frozen=True)
class Counts:
    """What one pytest run did.

    A skipped test is a check that was silently not made, so it counts as a failure.
    """

    passed: int
    failed: int

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed)


def run(args: Sequence[str]) -> int:
    """Runs everything, or pytest with `args`.

    The exit code is 0 only if every check was made and passed.
    """
    if not (ROOT / "tests").is_dir():
        print("odf: the tests are no part of the package: run ./odf test in a checkout of the project", file=sys.stderr)
        return 2
    nightly = list(args) == [NIGHTLY]
    if args and not nightly:
        return _call(_tool("pytest", *args))
    print_versions()
    making = _begin_class_archive()
    broken = _static_checks()
    if not _is_class_archive_made(making):
        broken.append("class archive")
    counts = Counts(0, 0)
    for name, options in TEST_STAGES.items():
        stage, succeeded = _test_stage(name, options, nightly=nightly)
        counts += stage
        if not succeeded:
            broken.append(name)
    _header("summary")
    if broken:
        print(f"not passed: {', '.join(broken)}")
    print(f"{counts.passed} passed, {counts.failed} failed", flush=True)
    return 1 if broken or counts.failed else 0


def print_versions() -> None:
    """Names what the checks run on: a result without it cannot be repeated."""
    _header("versions")
    print(f"Python   {platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores")
    print(f"SQLite   {sqlite3.sqlite_version}")
    print(f"Java     {_java_version()}")
    for title, package in (("Spark", "pyspark"), ("Arrow", "pyarrow"), ("gRPC", "grpcio"), ("DuckDB", "duckdb")):
        try:
            print(f"{title:<8} {version(package)}")
        except PackageNotFoundError:
            print(f"{title:<8} not installed")


def _java_version() -> str:
    # The engine decides which Java it runs on; it is asked in a process of its own, because nothing here may import it.
    question = (
        "import os, odfabric_engine_spark.spark.jvm.jvm_process as jvm; print(jvm.find_java(os.environ).executable)"
    )
    answer = subprocess.run([sys.executable, "-P", "-c", question], capture_output=True, text=True, check=False)
    java = answer.stdout.strip()
    if not java:
        return f"not found: {(answer.stderr.splitlines() or ['?'])[-1]}"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return f"{told[0] if told else 'does not start'} ({java})"


def _static_checks() -> list[str]:
    """Names of those that failed. All run at once: the longest keeps one core busy."""
    with ThreadPoolExecutor(len(STATIC_CHECKS)) as threads:
        outcomes = list(threads.map(_captured, STATIC_CHECKS.values()))
    for name, (code, said) in zip(STATIC_CHECKS, outcomes, strict=True):
        _header(name)
        print(said if code else "".join(said.splitlines(keepends=True)[-PASSED_LINES_MAX:]), end="", flush=True)
    return [name for name, (code, _) in zip(STATIC_CHECKS, outcomes, strict=True) if code]


def _captured(command: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of a tool, with the time that it took."""
    started = time.monotonic()
    try:
        ended = subprocess.run(
            _tool(*command), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except FileNotFoundError:
        return MISSING, _missing(command[0])
    return ended.returncode, f"{ended.stdout.decode(errors='replace')}({time.monotonic() - started:.1f} s)\n"


def _begin_class_archive() -> subprocess.Popen[bytes]:
    """Make the class archive, which halves the work of each engine start.

    It takes the processor time that the static checks leave.
    """
    folder = os.environ.get("ODF_ENGINE_CACHE") or str(ROOT / ".odf" / "engine-cache")
    command = [sys.executable, "-P", "-m", "odfabric_engine_spark.process.make_class_archive", folder]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)


def _is_class_archive_made(making: subprocess.Popen[bytes]) -> bool:
    """False if it fails.

    One that takes too long is not waited for: the engines of tests start without it.
    """
    _header("class archive")
    with making:
        try:
            return making.wait(ARCHIVE_S_MAX) == 0
        except subprocess.TimeoutExpired:
            print(f"not made within {ARCHIVE_S_MAX:.0f} s: engines start slowly", flush=True)
            making.kill()
            return True
        except BaseException:
            making.kill()
            raise


def _test_stage(name: str, options: Sequence[str], *, nightly: bool) -> tuple[Counts, bool]:
    _header(name)
    with tempfile.TemporaryDirectory(prefix="odf-test-") as folder:
        report = Path(os.environ.get(REPORTS) or folder) / f"{name.replace(' ', '-')}.xml"
        command = _tool("pytest", "-q", "--durations=5", f"--junit-xml={report}", *options)
        if not nightly:
            command += ["-o", f"faulthandler_timeout={TEST_S_MAX}", "-o", "faulthandler_exit_on_timeout=true"]
        environment = {**os.environ, TURNS: "night" if nightly else "day", DAY: os.environ.get(DAY) or str(_STARTED_ON)}
        code = _call(command, wait_s_max=NIGHTLY_STAGE_S_MAX if nightly else STAGE_S_MAX, environment=environment)
        counts = count_report(report) if report.exists() else Counts(0, 0)
    # Exit code 5, no test at all, is a failure too: a stage without tests is a mistake in a marker.
    return counts, code == 0


def count_report(report: Path) -> Counts:
    """Counts the tests of a JUnit report.

    An expected failure passed, a skip or a broken fixture failed.
    """
    passed = failed = 0
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        expected_failure = skipped is not None and skipped.get("type") == "pytest.xfail"
        if expected_failure or not any(case.find(tag) is not None for tag in ("failure", "error", "skipped")):
            passed += 1
        else:
            failed += 1
    return Counts(passed, failed)


def _tool(name: str, *args: str) -> list[str]:
    return [str(Path(sys.executable).parent / name), *args]


def _call(
    command: Sequence[str], *, wait_s_max: float | None = None, environment: Mapping[str, str] | None = None
) -> int:
    started = time.monotonic()
    try:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment)
    except FileNotFoundError:
        print(_missing(command[0]), end="", flush=True)
        return MISSING
    with process:
        try:
            code = process.wait(wait_s_max)
        except subprocess.TimeoutExpired:
            print(f"\n{command[0]} did not end within {wait_s_max:.0f} s; its threads were:", flush=True)
            code = _abort(process)
        except BaseException:
            process.kill()
            raise
    print(f"({time.monotonic() - started:.1f} s)", flush=True)
    return code


def _missing(tool: str) -> str:
    return f"{tool} is missing: run this through ./odf test, which installs the test tools\n"


def _abort(process: subprocess.Popen[bytes]) -> int:
    # At this signal pytest prints where each thread stands, which gives more than a CI that timed out.
    process.send_signal(signal.SIGABRT)
    try:
        return process.wait(ABORT_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _header(title: str) -> None:
    print(f"\n== {title} ".ljust(78, "="), flush=True)
