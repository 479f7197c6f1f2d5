"""Runs containers by the command line of an OCI engine.

Docker, podman, or another one that takes the same options.

Owns the command and what its endings mean. Invariants: no text of a source becomes an option or a variable of the engine's own process;
a container has no network but the one that the operator names, no capabilities, bounded memory, processes, time and output; its files are
read as regular files only. Not here: the protocol's variables (`usecases.polling.container_fetch`).
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import stat
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from odfabric.errors import Determinate, InvalidData, InvalidManifest, LimitExceeded, Place
from odfabric.ports.sources.containers import OUTPUT_FOLDER, ContainerAnswer, ContainerRun

_NEW_ETAG, _NEW_LAST_MODIFIED, _HAS_MORE = "new-etag", "new-last-modified", "new-has-more-data"
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,499}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OF_THE_ENGINE = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "CONTAINER_HOST", "XDG_RUNTIME_DIR")
_ENGINE_FAILED, _CANNOT_START = 125, (126, 127)
_SAID_BYTES_MAX = 2000
_STATE_BYTES_MAX = 1024
_END_S_MAX = 30.0
_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    """Seconds by the clock, bytes of memory and of output, processes and processors.

    The network that containers join.
    """

    total_s_max: float = 3600.0
    memory_bytes_max: int = 2 * 1024**3
    output_bytes_max: int = 64 * 1024**3
    processes_max: int = 256
    processors: float = 1.0
    network: str = "none"


class CliContainerSource:
    """`ports.sources.containers.ContainerSource` over the command `engine`.

    `images` are patterns (`*`) of those that may be run.
    """

    def __init__(self, engine: Path, images: Sequence[str], limits: ContainerLimits) -> None:
        self._engine = engine
        self._images = tuple(images)
        self._limits = limits

    def fetch(self, run: ContainerRun, into: Path) -> ContainerAnswer:
        """See the port."""
        self._check(run)
        name = f"odfabric-{secrets.token_hex(8)}"
        try:
            with TemporaryDirectory(prefix="odf-container-", ignore_cleanup_errors=True) as folder:
                out, variables = Path(folder) / "out", Path(folder) / "variables"
                out.mkdir()
                out.chmod(0o777)  # the container's user is another one; the folder around it is ours alone
                variables.touch(mode=0o600)
                variables.write_text("".join(f"{key}={value}\n" for key, value in run.environment.items()))
                command = container_command(self._engine, run, self._limits, name=name, variables=variables, out=out)
                size = self._run(command, name, run.image, into)
                return _answer(out, size)
        except BaseException:
            into.unlink(missing_ok=True)
            raise

    def _check(self, run: ContainerRun) -> None:
        if _IMAGE.fullmatch(run.image) is None:
            raise InvalidManifest(
                f"{run.image[:100]!r} is not the name of an image",
                place=Place(field="fetch.image"),
                hint="for example ghcr.io/me/fetch-stations:1.2",
            )
        if not any(fnmatchcase(run.image, pattern) for pattern in self._images):
            raise InvalidManifest(
                f"this node does not run the image {run.image}",
                place=Place(field="fetch.image"),
                hint=f"its operator permits: {', '.join(self._images) or 'none'} (container_images)",
            )
        for key, value in run.environment.items():
            if _VARIABLE.fullmatch(key) is None:
                raise InvalidManifest(f"{key[:100]!r} is not the name of a variable", place=Place(field="fetch.env"))
            if set(value) & set("\r\n\0"):
                raise InvalidManifest(f"the value of {key} has a line end or NUL", place=Place(field="fetch.env"))
        if any("\0" in text for text in (*run.command, *run.args)):
            raise InvalidManifest("an argument holds a NUL", place=Place(field="fetch.args"))

    def _run(self, command: Sequence[str], name: str, image: str, into: Path) -> int:
        own = {key: value for key in _OF_THE_ENGINE if (value := os.environ.get(key)) is not None}
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=own,
                start_new_session=True,
            )
        except OSError as error:
            raise Determinate(
                f"the container engine cannot be run: {error.strerror}", hint="container_engine names its command"
            ) from None
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._kill(process, name)

        timer = threading.Timer(self._limits.total_s_max, stop)
        timer.daemon = True
        timer.start()
        said = bytearray()
        assert process.stdout is not None
        assert process.stderr is not None
        reader = threading.Thread(target=_gather, args=(process.stderr, said), daemon=True)
        reader.start()
        try:
            size = self._write(process.stdout, into, image)
            code = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                self._kill(process, name)
                process.wait()
            process.stdout.close()
            reader.join(_END_S_MAX)
            process.stderr.close()
        self._judge(code, image, _shown(said), late=late.is_set())
        return size

    def _write(self, stream: IO[bytes], into: Path, image: str) -> int:
        size, maximum = 0, self._limits.output_bytes_max
        with into.open("xb") as file:
            while piece := os.read(stream.fileno(), _PIECE_BYTES):
                size += len(piece)
                if size > maximum:
                    raise LimitExceeded(f"{image} prints too much", limit="source_bytes_max", maximum=maximum)
                file.write(piece)
        return size

    def _judge(self, code: int, image: str, said: str, *, late: bool) -> None:
        about = f": {said}" if said else ""
        if late:
            maximum = self._limits.total_s_max
            raise LimitExceeded(f"{image} takes too long{about}", limit="container_s_max", maximum=maximum)
        if code == _ENGINE_FAILED:
            raise Determinate(f"the container engine cannot run {image}{about}", hint="does the image exist?")
        if code in _CANNOT_START:
            raise InvalidManifest(f"{image} has no such command{about}", place=Place(field="fetch.command"))
        if code != 0:
            raise InvalidData(f"{image} has failed (exit code {code}){about}", place=Place(field="fetch.image"))

    def _kill(self, process: subprocess.Popen[bytes], name: str) -> None:
        """End the container, which is no child of the command, and then the command."""
        with suppress(OSError, subprocess.SubprocessError):
            own = {key: value for key in _OF_THE_ENGINE if (value := os.environ.get(key)) is not None}
            subprocess.run([str(self._engine), "kill", name], env=own, capture_output=True, timeout=_END_S_MAX)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def container_command(
    engine: Path, run: ContainerRun, limits: ContainerLimits, *, name: str, variables: Path, out: Path
) -> list[str]:
    """The command that runs a container.

    What the source says stands behind the image, except for its entry point and variables.
    """
    entry = [f"--entrypoint={run.command[0]}"] if run.command else []
    return [
        str(engine),
        "run",
        "--rm",
        f"--name={name}",
        "--label=odfabric=source",
        "--pull=missing",
        f"--network={limits.network}",
        "--read-only",
        "--tmpfs=/tmp",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        f"--memory={limits.memory_bytes_max}",
        f"--memory-swap={limits.memory_bytes_max}",
        f"--pids-limit={limits.processes_max}",
        f"--cpus={limits.processors}",
        f"--env-file={variables}",
        f"--volume={out}:{OUTPUT_FOLDER}",
        *entry,
        run.image,
        *run.command[1:],
        *run.args,
    ]


def _answer(out: Path, size: int) -> ContainerAnswer:
    return ContainerAnswer(
        size=size,
        new_etag=_text(out / _NEW_ETAG),
        new_last_modified=_text(out / _NEW_LAST_MODIFIED),
        has_more=_text(out / _HAS_MORE) is not None,
    )


def _text(path: Path) -> str | None:
    """The text of a file that a container has made.

    Raises InvalidData for a link, another kind of file and a long text.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidData(f"the container's file {path.name} cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise InvalidData(f"the container's file {path.name} is not a regular file")
        data = os.read(opened, _STATE_BYTES_MAX + 1)
    finally:
        os.close(opened)
    text = data.decode("utf-8", errors="replace").strip()
    if len(data) > _STATE_BYTES_MAX or not (text.isprintable() or not text):
        raise InvalidData(f"the container's file {path.name} holds no short text")
    return text


def _gather(stream: IO[bytes], said: bytearray) -> None:
    """The beginning is kept, the rest is read so that the container does not wait."""
    with suppress(OSError, ValueError):
        while piece := os.read(stream.fileno(), _PIECE_BYTES):
            said += piece[: _SAID_BYTES_MAX - len(said)]


def _shown(said: bytearray) -> str:
    text = bytes(said).decode("utf-8", errors="replace")
    return "".join(sign if sign.isprintable() else " " for sign in text).strip()
