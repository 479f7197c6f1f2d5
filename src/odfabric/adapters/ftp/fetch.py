"""Polling of ftp and ftps sources: one binary passive retrieval into a file.

Owns the limits of a session and what its replies mean. Invariants: control and data connections lead to the address that the guard has
checked, whatever the server names; the whole session has a deadline, a minimum rate and a size limit. Time of change and size (MDTM,
SIZE) are the validator where a server has the former, as an entity tag `time-size`; a file that changes while it is read is refused.
Not here: which URLs there are (`url`), what a source state is. Source: RFC 959, RFC 3659, RFC 4217; docs/threat-model.md.
"""

from __future__ import annotations

import ftplib
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from odfabric.adapters.ftp.url import FtpUrl, parse_ftp_url
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, LimitExceeded, NotFound, OdfError, Place
from odfabric.ports.sources.egress import FetchedFile, TcpConnections

_PIECE_BYTES = 64 * 1024
_REPLY_BYTES_MAX = 64 * 1024
"""All that a server may say in one session; it says a few lines, and a greeting."""
_DATA_PORT_MIN = 1024
"""Servers of other protocols listen below."""
_MDTM = re.compile(r"213 +(\d{14}(?:\.\d+)?)", re.ASCII)
_SHOWN_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FtpLimits:
    """Seconds of a connection, of waiting for an answer, of a session.

    Slowest rate; largest file.
    """

    connect_s_max: float = 30.0
    answer_s_max: float = 60.0
    total_s_max: float = 3600.0
    bytes_per_s_min: int = 1024
    rate_window_s: float = 10.0
    source_bytes_max: int = 64 * 1024**3


class FtpFetch:
    """`ports.sources.egress.HttpSource` for ftp and ftps.

    304 stands for a file whose time and size are known.
    """

    def __init__(self, connections: TcpConnections, limits: FtpLimits, ssl_context: ssl.SSLContext) -> None:
        self._connections = connections
        self._limits = limits
        self._ssl_context = ssl_context

    def fetch(
        self, url: str, *, headers: Sequence[tuple[str, str]], etag: str | None, last_modified: str | None, into: Path
    ) -> FetchedFile:
        """See the port; `last_modified` does not occur, for no answer here has one.

        Raises InvalidRequest for headers.
        """
        if headers:
            raise InvalidRequest(
                "FTP has no headers", place=Place(field="headers"), hint="write user and password into the URL"
            )
        target = parse_ftp_url(url)
        with self._session(target) as session:
            found = _validator(session, target)
            if found is not None and found == etag:
                return FetchedFile(status=304, etag=found, last_modified=None, size=0)
            size = self._retrieve(session, target, into)
            try:
                _check_unchanged(session, target, found, size)
            except BaseException:
                into.unlink(missing_ok=True)
                raise
            return FetchedFile(status=200, etag=found, last_modified=None, size=size)

    @contextmanager
    def _session(self, target: FtpUrl) -> Iterator[_Session]:
        deadline = monotonic() + self._limits.total_s_max
        connected = self._connections.connect(target.host, target.port, seconds_max=self._limits.connect_s_max)
        session = _session_for(target, self._ssl_context)
        with _watched(connected, self._limits.total_s_max) as watch, _explained(target, watch):
            try:
                session.open(connected, target, answer_s_max=self._limits.answer_s_max, deadline=deadline)
                yield session
                session.farewell()
            finally:
                session.close()
                connected.close()

    def _retrieve(self, session: _Session, target: FtpUrl, into: Path) -> int:
        size = 0
        with session.transfercmd(f"RETR {target.path}") as data, into.open("xb") as file:
            try:
                for piece in _pieces(data, self._limits, session.deadline):
                    size += len(piece)
                    if size > self._limits.source_bytes_max:
                        raise LimitExceeded(
                            f"{target.shown} is too large",
                            limit="source_bytes_max",
                            maximum=self._limits.source_bytes_max,
                        )
                    file.write(piece)
                session.voidresp()
            except BaseException:
                into.unlink(missing_ok=True)
                raise
        return size


class _Session(ftplib.FTP):
    """A session over an existing connection, with bounded answers of the server."""

    deadline: float

    def open(self, connected: socket.socket, target: FtpUrl, *, answer_s_max: float, deadline: float) -> None:
        """Read the greeting and log in."""
        self.deadline = deadline
        self.timeout = answer_s_max
        self.host = target.host
        self.af = connected.family
        self._said_bytes = 0
        connected.settimeout(answer_s_max)
        self.sock = self._begun(connected, target)
        self.file = self.sock.makefile("r", encoding=self.encoding)
        self.welcome = self.getresp()
        self.login(target.user, target.password)
        self._secure_data()
        self.voidcmd("TYPE I")

    def farewell(self) -> None:
        """Say goodbye, if somebody still listens."""
        with suppress(OSError, EOFError, ftplib.Error):
            self.voidcmd("QUIT")

    def getline(self) -> str:
        """See the library; bounded by the bytes of a whole session."""
        line = super().getline()
        self._said_bytes += len(line)
        if self._said_bytes > _REPLY_BYTES_MAX:
            raise ftplib.error_proto("the server says too much")
        return line

    def makepasv(self) -> tuple[str, int]:
        """As in the library, but with the address of the connection, not the answer's."""
        host, port = super().makepasv()
        if port < _DATA_PORT_MIN:
            raise ftplib.error_proto(f"the server names port {port} for data")
        return host, port

    def _begun(self, connected: socket.socket, target: FtpUrl) -> socket.socket:
        return connected

    def _secure_data(self) -> None:
        pass


class _SecuredSession(_Session, ftplib.FTP_TLS):
    """The same under TLS.

    From the first byte on port 990, by AUTH elsewhere; data is encrypted too.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        ftplib.FTP_TLS.__init__(self, context=context, encoding="latin-1")

    def ntransfercmd(self, cmd: str, rest: int | str | None = None) -> tuple[socket.socket, int | None]:
        """As in the library; data connections resume the control connection's TLS session.

        Many servers demand it.
        """
        data, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        control: Any = self.sock
        try:
            return self.context.wrap_socket(data, server_hostname=self.host, session=control.session), size
        finally:
            data.close()  # of a wrapped socket only the empty shell is left

    def _begun(self, connected: socket.socket, target: FtpUrl) -> socket.socket:
        return self.context.wrap_socket(connected, server_hostname=target.host) if target.implicit_tls else connected

    def _secure_data(self) -> None:
        self.prot_p()


def _session_for(target: FtpUrl, context: ssl.SSLContext) -> _Session:
    return _SecuredSession(context) if target.scheme == "ftps" else _Session(encoding="latin-1")


def _validator(session: _Session, target: FtpUrl) -> str | None:
    """`time-size` of the file, None if the server does not say when it was changed."""
    try:
        changed = _MDTM.match(session.sendcmd(f"MDTM {target.path}"))
    except ftplib.error_perm:
        return None
    return f"{changed[1]}-{_size(session, target)}" if changed else None


def _size(session: _Session, target: FtpUrl) -> int | None:
    try:
        return session.size(target.path)
    except (ftplib.error_perm, ValueError):
        return None


def _check_unchanged(session: _Session, target: FtpUrl, found: str | None, size: int) -> None:
    """Refuse a file that changed while it was read, or that is not whole."""
    now = _size(session, target)
    if _validator(session, target) != found or (now is not None and now != size):
        raise Determinate(f"{target.shown} changed while it was read", hint="it is tried again")


def _pieces(data: socket.socket, limits: FtpLimits, deadline: float) -> Iterator[bytes]:
    """The bytes of a data connection.

    Raises TimeoutError if they come late or too slowly.
    """
    window_ends, in_window = monotonic() + limits.rate_window_s, 0
    while True:
        left = min(window_ends, deadline) - monotonic()
        if left <= 0:
            if monotonic() >= deadline or in_window < limits.bytes_per_s_min * limits.rate_window_s:
                raise TimeoutError("the data comes too slowly")
            window_ends, in_window = monotonic() + limits.rate_window_s, 0
            continue
        data.settimeout(left)
        try:
            piece = data.recv(_PIECE_BYTES)
        except TimeoutError:
            continue
        if not piece:
            return
        in_window += len(piece)
        yield piece


@dataclass(slots=True)
class _Watch:
    """Whether the deadline has passed."""

    late: bool = False


@contextmanager
def _watched(connected: socket.socket, seconds_max: float) -> Iterator[_Watch]:
    """Cut the connection at the deadline.

    A server that sends a byte now and then could hold up every single read.
    """
    watch = _Watch()
    with socket.socket(fileno=socket.dup(connected.fileno())) as same:

        def cut() -> None:
            watch.late = True
            with suppress(OSError):
                same.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds_max, cut)
        timer.daemon = True
        timer.start()
        try:
            yield watch
        finally:
            timer.cancel()
            timer.join()


@contextmanager
def _explained(target: FtpUrl, watch: _Watch) -> Iterator[None]:
    """What the library raises as errors of the node.

    The server's words are shown, never user or password.
    """
    try:
        yield
    except OdfError:
        raise
    except ftplib.error_perm as error:
        raise _refusal(target, _shown(error, target)) from None
    except (ftplib.Error, EOFError) as error:
        said = _shown(error, target) or "the server has ended the session"
        raise Determinate(f"{target.shown}: {said}") from None
    except ssl.SSLError as error:
        raise Determinate(f"{target.shown}: TLS failed: {error.reason}", stage="tls") from None
    except (OSError, UnicodeError, ValueError) as error:
        late = watch.late or isinstance(error, TimeoutError)
        why = "the server takes too long" if late else (getattr(error, "strerror", None) or "the connection failed")
        raise Determinate(f"{target.shown}: {why}") from None


def _refusal(target: FtpUrl, said: str) -> OdfError:
    message, place = f"{target.shown}: {said}", Place(field="url")
    if said.startswith(("530", "532")):
        return AccessDenied(message, place=place, hint="write user and password into the URL, or correct them")
    if said.startswith(("550", "551", "553")):
        return NotFound("source", target.shown, hint=f"the server says: {said}")
    return InvalidRequest(message, place=place, hint="the server refuses the request: correct the URL")


def _shown(error: Exception, target: FtpUrl) -> str:
    text = "".join(sign if sign.isprintable() else " " for sign in str(error))
    for secret in (target.password, target.user):
        if secret:
            text = text.replace(secret, "***")
    return text[:_SHOWN_CHARACTERS_MAX]
