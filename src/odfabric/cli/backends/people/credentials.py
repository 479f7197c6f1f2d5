"""The file of this user's logins: one token for each origin.

An origin is scheme, host and port of a node.

Invariants: nobody but its owner can read the file, and one that others can read is refused; a change replaces the file as a whole, so that
a reader, or a crash, sees the old one or the new one; of commands that run at once none undoes the change of another; a login that is not
changed stays as it is, members that this release does not know included. Not here: whether a token still counts, which its node knows.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.errors import InvalidRequest, Place

FILE = Path("odfabric", "credentials.json")
VARIABLE = "ODF_CREDENTIALS"
VERSION = 1
BYTES_MAX = 1 << 20
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who one is on a node, and what proves it."""

    token: str = field(repr=False)
    account: str


class Credentials:
    """Logins by origin."""

    def __init__(self, path: Path | None) -> None:
        """`path` None: there is no place for the file, so there are no logins."""
        self._path = path

    @classmethod
    def of_user(cls, named: str) -> Credentials:
        """The file that is named, else the one in the user's folder for configuration."""
        if named:
            return cls(Path(named))
        configured = os.environ.get("XDG_CONFIG_HOME", "")
        try:
            # The specification of these folders says that a relative one is to be ignored.
            folder = Path(configured) if configured.startswith("/") else Path.home() / ".config"
        except RuntimeError:
            return cls(None)
        return cls(folder / FILE)

    def get(self, origin: str) -> Login | None:
        """The login at an origin. Raises InvalidRequest for a file that is refused."""
        return self.all().get(origin)

    def all(self) -> dict[str, Login]:
        """All logins by origin. Raises InvalidRequest for a file that is refused."""
        if self._path is None:
            return {}
        origins = _origins(_read(self._path), self._path)
        return {
            origin: Login(token=_text(login, "token", self._path), account=_text(login, "account", self._path))
            for origin, login in origins.items()
        }

    def put(self, origin: str, login: Login) -> None:
        """Keep a login, in place of the one at its origin.

        Raises InvalidRequest for a file that is refused.
        """

        def change(origins: dict[str, dict[str, object]]) -> None:
            origins[origin] = {"token": login.token, "account": login.account}

        self._change(change)

    def remove(self, origin: str) -> bool:
        """Forget a login; whether there was one.

        Raises InvalidRequest for a file that is refused.
        """
        if self._path is None or origin not in _origins(_read(self._path), self._path):
            return False
        removed: list[object] = []
        self._change(lambda origins: removed.append(origins.pop(origin, None)))
        return removed[0] is not None

    def _change(self, change: Callable[[dict[str, dict[str, object]]], None]) -> None:
        if self._path is None:
            raise InvalidRequest("this user has no home folder to keep a login in", hint=f"name a file by {VARIABLE}")
        path = Path(os.path.realpath(self._path))
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone_in(path.parent) as folder:
                document = _read(path)
                origins = _origins(document, path)
                change(origins)
                _replace(path, {**document, "version": VERSION, "origins": origins})
                os.fsync(folder)
        except OSError as error:
            raise InvalidRequest(
                f"{path} cannot be written: {error.strerror}", hint=f"name another file by {VARIABLE}"
            ) from error


def _read(path: Path) -> dict[str, object]:
    """The document of the file; an empty one if there is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}", hint=f"name another file by {VARIABLE}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, "is not a file", hint=f"name another one by {VARIABLE}")
        if found.st_mode & OTHERS:
            raise _refused(
                path,
                "holds tokens, and others than its owner may open it",
                hint=f"chmod 600 {path}; if somebody has read it: odf logout, then odf login again",
            )
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    try:
        document = json.loads(data) if len(data) <= BYTES_MAX else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise _refused(path, "does not hold logins", hint="remove it, then `odf login` again")
    if document.get("version") != VERSION:
        raise _refused(path, "was written by another release of odf", hint=f"name another file by {VARIABLE}")
    return document


def _origins(document: Mapping[str, object], path: Path) -> dict[str, dict[str, object]]:
    found = document.get("origins", {})
    if not isinstance(found, dict) or not all(isinstance(login, dict) for login in found.values()):
        raise _refused(path, "does not hold logins", hint="remove it, then `odf login` again")
    return dict(found)


def _text(login: Mapping[str, object], member: str, path: Path) -> str:
    value = login.get(member)
    if not isinstance(value, str):
        raise _refused(path, f"has a login without {member}", hint="remove it, then `odf login` again")
    return value


def _refused(path: Path, message: str, *, hint: str) -> InvalidRequest:
    return InvalidRequest(f"the file {message}", place=Place(file=str(path)), hint=hint)


def _replace(path: Path, document: Mapping[str, object]) -> None:
    pending = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as stream:
            json.dump(document, stream, indent=2)
            stream.flush()
            os.fsync(descriptor)
        pending.rename(path)
    except BaseException:
        with suppress(FileNotFoundError):
            pending.unlink()
        raise


@contextmanager
def _alone_in(folder: Path) -> Iterator[int]:
    """Other commands that change the file wait; the descriptor of its folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
