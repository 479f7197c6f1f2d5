"""The verb `test`: every check that guards this repository, in the order in which a failure is cheapest.

Owns which checks run, with which parallelism, and the closing line `N passed, N failed`. It installs nothing: the launcher
has done that. With arguments it is pytest with those arguments and nothing else, for the short loop while writing.
"""

import os
import platform
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
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
}

# Tests of Spark and stories wait half of the time, so two at once fill two cores; each file keeps the servers that it starts.
_TWO_FILES_AT_ONCE = ("-n", "2", "--dist", "loadfile")
TEST_STAGES = {
    "tests": ("-n", "2", "-m", "not spark and not acceptance and not alone and not perf"),
    "tests with Spark": (*_TWO_FILES_AT_ONCE, "-m", "spark and not acceptance and not alone and not perf"),
    "acceptance": (*_TWO_FILES_AT_ONCE, "-m", "acceptance and not alone and not perf"),
    "tests that want the machine for themselves": ("-m", "alone and not perf"),
}

STAGE_S_MAX = 2400.0
"""Longest run of one stage; a test that hangs where pytest cannot interrupt it must not hang the rest."""

ABORT_S_MAX = 10.0
"""Longest wait for a stage that was told to abort."""


@dataclass(frozen=True)
class Counts:
    """What one pytest run did; a skipped test is a check that was silently not made, so it counts as a failure."""

    passed: int
    failed: int

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed)


def run(args: Sequence[str]) -> int:
    """Runs everything, or pytest with `args`; the exit code is 0 only if every check was made and passed."""
    if args:
        return _call(_tool("pytest", *args))
    print_versions()
    broken = [name for name, command in STATIC_CHECKS.items() if not _static_check(name, command)]
    counts = Counts(0, 0)
    for name, options in TEST_STAGES.items():
        stage, succeeded = _test_stage(name, options)
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
    question = "import os, odfabric_engine_spark.jvm as jvm; print(jvm.find_java(os.environ).executable)"
    answer = subprocess.run([sys.executable, "-P", "-c", question], capture_output=True, text=True, check=False)
    java = answer.stdout.strip()
    if not java:
        return f"not found: {(answer.stderr.splitlines() or ['?'])[-1]}"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return f"{told[0] if told else 'does not start'} ({java})"


def _static_check(name: str, command: Sequence[str]) -> bool:
    _header(name)
    return _call(_tool(*command)) == 0


def _test_stage(name: str, options: Sequence[str]) -> tuple[Counts, bool]:
    _header(name)
    with tempfile.TemporaryDirectory(prefix="odf-test-") as folder:
        report = Path(folder) / "report.xml"
        command = _tool("pytest", "-q", "--durations=5", f"--junit-xml={report}", *options)
        code = _call(command, wait_s_max=STAGE_S_MAX)
        counts = count_report(report) if report.exists() else Counts(0, 0)
    # Exit code 5, no test at all, is a failure too: a stage without tests is a mistake in a marker.
    return counts, code == 0


def count_report(report: Path) -> Counts:
    """Counts the tests of a JUnit report; an expected failure passed, a skip or a broken fixture failed."""
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


def _call(command: Sequence[str], *, wait_s_max: float | None = None) -> int:
    started = time.monotonic()
    try:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        print(f"{command[0]} is missing: run this through ./odf test, which installs the test tools", flush=True)
        return 127
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


def _abort(process: subprocess.Popen[bytes]) -> int:
    # At this signal pytest prints where each thread stands, which tells more than a CI that timed out.
    process.send_signal(signal.SIGABRT)
    try:
        return process.wait(ABORT_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _header(title: str) -> None:
    print(f"\n== {title} ".ljust(78, "="), flush=True)
