"""Passes connections from an address outside on to the engine's socket.

Owns the bytes between both, which it does not look at: who may call is decided by the engine. Invariant: it reaches the socket by its
folder, however long the path. Not here: the engine's life (`keeper`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from pathlib import Path

from odfabric.errors import Determinate

_CHUNK_BYTES = 1 << 16
_BACKLOG = 64


class Forwarder:
    """Listens as soon as it is made, serves when started.

    Raises Determinate if the address is taken.
    """

    def __init__(self, listen: str, *, folder: Path, name: str, connections_max: int) -> None:
        self._folder = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        self._target = f"/proc/self/fd/{self._folder}/{name}"
        self._connections_max = connections_max
        self._open = 0
        self._socket, self.address = _listening(listen)

    def start(self) -> None:
        """Serves in a thread that ends with the process."""
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()

    def close(self) -> None:
        """Lets go of the address."""
        self._socket.close()
        os.close(self._folder)

    async def _serve(self) -> None:
        start = asyncio.start_unix_server if self._socket.family == socket.AF_UNIX else asyncio.start_server
        server = await start(self._pass_on, sock=self._socket)
        await server.serve_forever()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= self._connections_max:
            writer.close()
            return
        self._open += 1
        try:
            inner_reader, inner_writer = await asyncio.open_unix_connection(self._target)
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        except OSError:
            writer.close()  # the engine is gone, and its keeper with it in a moment
        finally:
            self._open -= 1


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    writer.close()


def _listening(listen: str) -> tuple[socket.socket, str]:
    try:
        if path := listen.removeprefix("unix:") if listen.startswith("unix:") else "":
            Path(path).unlink(missing_ok=True)
            unix = socket.socket(socket.AF_UNIX)
            unix.bind(path)
            unix.listen(_BACKLOG)
            return unix, listen
        host, _, port = listen.rpartition(":")
        found = socket.create_server((host.strip("[]"), int(port)), family=_family(host), backlog=_BACKLOG)
        return found, f"{host}:{found.getsockname()[1]}"
    except (OSError, ValueError) as error:
        raise Determinate(f"cannot listen on {listen}", hint="is another engine there already?") from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
