"""Runs the operator's programs in a sandbox: bounded time, memory and output.

Owns which programs there are, and what their endings mean. Invariants: no shell; the program is one of those that the operator has named
by its absolute path, its arguments are the source's; after the call no process of it lives. Not here: the walls (`confine`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from odfabric.adapters.programs import confine
from odfabric.errors import Determinate, InvalidData, InvalidManifest, InvalidRequest, LimitExceeded, Place

_SAID_BYTES_MAX = 2000
_END_S_MAX = 10.0
_PIECE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """Seconds by the clock and of a processor, bytes of memory and of output.

    `unconfined` runs them where walls are missing, too.
    """

    total_s_max: float = 600.0
    memory_bytes_max: int = 2 * 1024**3
    output_bytes_max: int = 10 * 1024**3
    unconfined: bool = False


def program_names(paths: Sequence[str]) -> dict[str, str]:
    """Names that a step may use, with their paths.

    A name is the path itself, and its last part unless two share it.

    Raises InvalidRequest for a path that is not absolute.
    """
    for path in paths:
        if not Path(path).is_absolute():
            raise InvalidRequest(
                f"{path!r} is not an absolute path", place=Place(field="ODF_PREPARE_PROGRAMS"), hint='["/usr/bin/jq"]'
            )
    last = [Path(path).name for path in paths]
    short = {name: path for name, path in zip(last, paths, strict=True) if last.count(name) == 1}
    return {**short, **{path: path for path in paths}}


class ConfinedPrograms:
    """`ports.sources.programs.PreparePrograms`."""

    def __init__(self, paths: Sequence[str], limits: ProgramLimits) -> None:
        self._names = program_names(paths)
        self._limits = limits

    def run(self, command: Sequence[str], source: Path, into: Path) -> None:
        """See the port."""
        program = self._names.get(command[0] if command else "")
        if program is None:
            known = ", ".join(sorted(self._names)) or "none"
            raise InvalidManifest(
                f"this node does not run {command[0] if command else ''!r}",
                place=Place(field="prepare.command"),
                hint=f"it runs: {known}",
            )
        if any("\0" in argument for argument in command):
            raise InvalidManifest("an argument holds a NUL", place=Place(field="prepare.command"))
        try:
            self._run(program, list(command), source, into)
        except BaseException:
            into.unlink(missing_ok=True)
            raise

    def _run(self, program: str, command: list[str], source: Path, into: Path) -> None:
        limits = self._limits
        with TemporaryDirectory(prefix="odf-prepare-") as folder:
            plan = {
                "program": program,
                "folder": folder,
                "memory_bytes": limits.memory_bytes_max,
                "cpu_s": max(1, int(limits.total_s_max)),
                "output_bytes": limits.output_bytes_max,
                "unconfined": limits.unconfined,
            }
            try:
                with source.open("rb") as given, into.open("xb") as out:
                    process = subprocess.Popen(
                        [sys.executable, "-I", confine.__file__, json.dumps(plan), *command],
                        stdin=given,
                        stdout=out,
                        stderr=subprocess.PIPE,
                        cwd=folder,
                        env={},
                        start_new_session=True,
                    )
            except OSError as error:
                raise Determinate(f"{command[0]} cannot be run: {error.strerror}") from None
            code, said = _ended(process, limits.total_s_max)
        self._judge(command[0], code, said, into.stat().st_size)

    def _judge(self, name: str, code: int | None, said: str, size: int) -> None:
        limits = self._limits
        if code is None or code == confine.SIGNALLED + signal.SIGXCPU:
            raise LimitExceeded(f"{name} takes too long", limit="prepare_s_max", maximum=limits.total_s_max)
        if code == confine.SIGNALLED + signal.SIGXFSZ or (code != 0 and size >= limits.output_bytes_max):
            raise LimitExceeded(f"{name} writes too much", limit="unpacked_bytes_max", maximum=limits.output_bytes_max)
        if code == confine.EXIT_NO_WALL:
            raise Determinate(
                f"{name} is not run: this machine cannot shut programs in {said}".strip(),
                hint="its operator needs a kernel with Landlock and user namespaces, or ODF_PREPARE_UNCONFINED=true",
            )
        if code == confine.EXIT_NO_PROGRAM:
            raise Determinate(f"{name} {said}", hint="its operator has to install it, or take it from the list")
        if code != 0:
            how = f"signal {code - confine.SIGNALLED}" if code > confine.SIGNALLED else f"exit code {code}"
            raise InvalidData(
                f"{name} has failed ({how}){': ' + said if said else ''}",
                place=Place(field="prepare.command"),
                hint=f"try it by hand on the same file; it may use {limits.memory_bytes_max} bytes of memory, "
                "reads system folders only and writes to its output only",
            )


def _ended(process: subprocess.Popen[bytes], seconds_max: float) -> tuple[int | None, str]:
    """Exit code, None if it was killed for its time; the beginning of what it said.

    Nothing of its group lives afterwards.
    """
    assert process.stderr is not None
    said = bytearray()
    reader = threading.Thread(target=_gather, args=(process.stderr, said), daemon=True)
    reader.start()
    code: int | None = None
    try:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(seconds_max)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(_END_S_MAX)
        process.stderr.close()
    text = bytes(said).decode("utf-8", errors="replace")
    return code, "".join(sign if sign.isprintable() else " " for sign in text).strip()


def _gather(stream: IO[bytes], said: bytearray) -> None:
    """The beginning is kept, the rest is read so that the program does not wait."""
    with suppress(OSError, ValueError):
        while piece := os.read(stream.fileno(), _PIECE_BYTES):
            said += piece[: _SAID_BYTES_MAX - len(said)]
