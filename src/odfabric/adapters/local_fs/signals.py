"""Signals between processes of one machine, by datagrams to sockets in a folder.

Owns the folder and who listens there: each process that waits has a socket, whose file goes with it; the file of one that was killed is removed by
anyone who finds nobody behind it. Invariant: sending blocks never, for a receiver whose queue is full has signals enough. Not here: any work.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import socket
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from odfabric.ports.subscriptions.signals import Signals, Topic

_log = logging.getLogger(__name__)

PATH_BYTES_MAX = 100
"""Longest path of a socket, with room for every system."""
_NAME_BYTES = 24
_ENDING = ".signal"
_END = b""


class FolderSignals:
    """A Signals, which are handed on within the process by `local`.

    Listening begins with the first wait; `close` ends it.
    """

    def __init__(self, folder: Path, *, local: Signals) -> None:
        """`folder` is the same for all processes of a node.

        Where its path is too long for sockets, one in the system's folder for temporary files stands in for it."""
        self.folder = _short(folder)
        self._local = local
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._own: Path | None = None
        self._starting = threading.Lock()
        self._listener: threading.Thread | None = None
        self._ear: socket.socket | None = None
        self._codes = {topic.value.encode(): topic for topic in Topic}

    def close(self) -> None:
        """End the listener and remove its socket."""
        with self._starting:
            if self._own is not None and self._listener is not None and self._ear is not None:
                with suppress(OSError):
                    self._ear.shutdown(socket.SHUT_RDWR)
                self._own.unlink(missing_ok=True)
                self._listener.join()
                self._ear.close()
                self._listener = None
                with suppress(OSError):
                    self.folder.rmdir()  # unless others listen there
            self._sender.close()

    def send(self, topic: Topic) -> None:
        """See the port."""
        self._local.send(topic)
        try:
            names = [name for name in os.listdir(self.folder) if name.endswith(_ENDING)]
        except OSError:
            return  # nobody has ever listened
        for name in names:
            path = self.folder / name
            if path != self._own:
                self._send(topic, path)

    def wait(self, topic: Topic, *, timeout_s: float) -> bool:
        """See the port."""
        if self._listener is None:
            self._listen()
        return self._local.wait(topic, timeout_s=timeout_s)

    def _send(self, topic: Topic, path: Path) -> None:
        try:
            self._sender.sendto(topic.value.encode(), str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)  # its process was killed
        except OSError:
            pass  # gone meanwhile, or full: then it has signals enough

    def _listen(self) -> None:
        with self._starting:
            if self._listener is not None:
                return
            listener = threading.Thread(target=self._hear, name="signals", daemon=True)
            try:
                ear = self._open()
            except OSError as error:
                _log.warning("signals of other processes are not heard: %s", error)
                listener = threading.Thread(target=lambda: None, daemon=True)
            else:
                self._ear = ear
            listener.start()
            self._listener = listener
        # What was sent before we listened was not heard: everybody looks once.
        for topic in Topic:
            self._local.send(topic)

    def _open(self) -> socket.socket:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = self.folder.stat()
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o022:
            raise OSError(f"{self.folder} belongs to somebody else")
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        own = self.folder / f"{os.getpid()}-{secrets.token_hex(4)}{_ENDING}"
        ear.bind(str(own))
        self._own = own
        return ear

    def _hear(self) -> None:
        ear = self._ear
        while ear is not None:
            try:
                code = ear.recv(64)
            except OSError:
                return
            if code == _END:
                return
            topic = self._codes.get(code)
            if topic is not None:
                self._local.send(topic)


def _short(folder: Path) -> Path:
    absolute = folder.absolute()
    if len(os.fsencode(absolute)) + 1 + _NAME_BYTES + len(_ENDING) <= PATH_BYTES_MAX:
        return absolute
    name = hashlib.sha256(os.fsencode(absolute)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"odf-{os.getuid()}-{name}"
