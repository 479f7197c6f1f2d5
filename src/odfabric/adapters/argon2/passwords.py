"""Passwords with Argon2id (RFC 9106), one lane each.

Owns parameters and errors of the library. Invariant: at most `hashes_at_once_max` times `memory_mib` of memory are in use. Not here:
which passwords may be chosen (`domain.people.passwords`).
"""

from __future__ import annotations

import base64
import re
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, VerifyMismatchError

from odfabric.adapters.argon2.turns import Turns
from odfabric.domain.people.passwords import normalised
from odfabric.errors import Corrupt, Determinate, OdfError

_LANES = 1
"""A hash keeps one core busy; several at once are the business of `Turns`."""
_VERSION = 19
_SALT_BYTES = 16
_HASH_BYTES = 32
_FORM = re.compile(r"\$argon2id\$v=19\$m=[0-9]+,t=[0-9]+,p=[0-9]+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+")
_NO_MEMORY = "Memory allocation"


class Argon2Passwords:
    """A Passwords. Safe for use by many threads."""

    def __init__(
        self, *, memory_mib: int, passes: int, hashes_at_once_max: int, hashes_waiting_max: int, bytes_max: int
    ) -> None:
        self._hasher = PasswordHasher(
            time_cost=passes,
            memory_cost=memory_mib * 1024,
            parallelism=_LANES,
            salt_len=_SALT_BYTES,
            hash_len=_HASH_BYTES,
        )
        self._bytes_max = bytes_max
        # Of no password: it is as much work to find that out as for a real one, and making it takes none.
        self._nobody = (
            f"$argon2id$v={_VERSION}$m={memory_mib * 1024},t={passes},p={_LANES}"
            f"${_random_text(_SALT_BYTES)}${_random_text(_HASH_BYTES)}"
        )
        self.turns = Turns(
            at_once_max=hashes_at_once_max, waiting_max=hashes_waiting_max, limit="password_hashes_waiting_max"
        )

    def hash(self, password: str) -> str:
        """See the port."""
        text = normalised(password, bytes_max=self._bytes_max)
        with self.turns.taken():
            try:
                return self._hasher.hash(text)
            except Argon2Error as error:
                raise _failed(error) from None

    def verify(self, password: str, stored: str | None) -> bool:
        """See the port."""
        text = normalised(password, bytes_max=self._bytes_max)
        known = self._nobody if stored is None else _checked(stored)
        with self.turns.taken():
            try:
                matches = self._hasher.verify(known, text)
            except VerifyMismatchError:
                return False
            except Argon2Error as error:
                raise _failed(error) from None
        return matches and stored is not None

    def needs_rehash(self, stored: str) -> bool:
        """See the port."""
        return self._hasher.check_needs_rehash(_checked(stored))


def _checked(stored: str) -> str:
    if _FORM.fullmatch(stored) is None:
        raise _damaged()
    return stored


def _failed(error: Argon2Error) -> OdfError:
    if _NO_MEMORY in str(error):
        return Determinate(
            "no memory is left to hash a password", hint="try again; password_memory_mib is what it takes"
        )
    return _damaged()


def _damaged() -> Corrupt:
    return Corrupt("a stored password hash is none", object_name="password hash")


def _random_text(count: int) -> str:
    return base64.b64encode(secrets.token_bytes(count)).decode("ascii").rstrip("=")
