"""Hashing of passwords, slow on purpose.

Invariants: what is stored gives neither the password nor whether two accounts have the same one; every call hashes the form of
`domain.people.passwords.normalised`; at most so many hashes are computed at once as the node has memory for.
"""

from __future__ import annotations

from typing import Protocol


class Passwords(Protocol):
    """Takes 0.1 to 0.5 s a call: never call it on an event loop.

    Every method but `needs_rehash` raises LimitExceeded with `password_hashes_waiting_max` and `retry_after_s` while too many callers
    wait, with `password_bytes_max` for a password that is too long, InvalidRequest for one that is no text, and Determinate where
    memory is short.
    """

    def hash(self, password: str) -> str:
        """What to store of a password: another text each time, which names its parameters."""

    def verify(self, password: str, stored: str | None) -> bool:
        """Whether it is the password of which `stored` was made.

        None stands for an account that does not exist or has no password: it takes the same work and the answer is False, so the
        time does not tell who has an account. Raises Corrupt for a text that `hash` has not made.
        """

    def needs_rehash(self, stored: str) -> bool:
        """Whether `stored` was made with other parameters than those of now.

        After a successful `verify` make it again.

        Raises Corrupt for a text that `hash` has not made.
        """
