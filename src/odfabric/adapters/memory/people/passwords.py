"""Passwords for tests: salted and one-way, but of no strength."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from odfabric.domain.people.passwords import PasswordRules, normalised
from odfabric.errors import Corrupt

_SCHEME = "quick"
_SALT_CHARACTERS = 16
_PARTS = 4


class QuickPasswords:
    """A Passwords that hashes in microseconds: never for a node.

    `hashes` counts what was computed.
    """

    def __init__(self, *, cost: int = 1, bytes_max: int = PasswordRules().bytes_max) -> None:
        """`cost` is the parameter by which hashes are made again."""
        self._cost = cost
        self._bytes_max = bytes_max
        self._nobody = self._text(secrets.token_hex(_SALT_CHARACTERS // 2), secrets.token_hex(32))
        self.hashes = 0

    def hash(self, password: str) -> str:
        """See the port."""
        salt = secrets.token_hex(_SALT_CHARACTERS // 2)
        return self._text(salt, self._digest(password, salt))

    def verify(self, password: str, stored: str | None) -> bool:
        """See the port."""
        _, salt, digest = _read(self._nobody if stored is None else stored)
        return hmac.compare_digest(self._digest(password, salt), digest) and stored is not None

    def needs_rehash(self, stored: str) -> bool:
        """See the port."""
        return _read(stored)[0] != self._cost

    def _digest(self, password: str, salt: str) -> str:
        text = normalised(password, bytes_max=self._bytes_max)
        self.hashes += 1
        return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()

    def _text(self, salt: str, digest: str) -> str:
        return f"{_SCHEME}${self._cost}${salt}${digest}"


def _read(stored: str) -> tuple[int, str, str]:
    parts = stored.split("$")
    if len(parts) != _PARTS or parts[0] != _SCHEME or not parts[1].isdecimal() or not stored.isascii():
        raise Corrupt("a stored password hash is none", object_name="password hash")
    return int(parts[1]), parts[2], parts[3]
