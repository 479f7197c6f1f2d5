"""FTP and FTPS servers: pyftpdlib, from the environment of the tests."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.process import ServerProcess, running, server_folder
from tests.support.waiting import free_port

PROGRAM = Path(__file__).with_name("ftp_server.py")
USER, PASSWORD = "reader", "p@ss:w/rd"
USERINFO = "reader:p%40ss%3Aw%2Frd"


@dataclass(frozen=True)
class FtpSite:
    """A server and its files."""

    port: int
    folder: Path
    scheme: str
    host: str

    def url(self, path: str, *, userinfo: str = "") -> str:
        """The URL of a path, anonymously unless there is a user."""
        return f"{self.scheme}://{userinfo and userinfo + '@'}{self.host}:{self.port}{path}"

    def put(self, path: str, body: bytes, *, modified_s: int = 1_700_000_000) -> None:
        """Write a file with this time of change."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        os.utime(file, (modified_s, modified_s))


@contextmanager
def ftp_site(*, certificate: Path | None = None, unknown: tuple[str, ...] = ()) -> Iterator[FtpSite]:
    """A server that lets anonymous and one user in.

    With a certificate for `localhost` it demands TLS.
    """
    with server_folder("ftp") as folder:
        port, files = free_port(), folder / "files"
        files.mkdir()
        given = "-" if certificate is None else str(certificate)
        command = [sys.executable, "-W", "ignore", str(PROGRAM), str(port), str(files), USER, PASSWORD, given, *unknown]
        process = ServerProcess(command, folder, end=signal.SIGTERM, answers=lambda: _answers(port), ours=True)
        with running(process):
            secured = certificate is not None
            yield FtpSite(port, files, "ftps" if secured else "ftp", "localhost" if secured else "127.0.0.1")


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
