"""Errors of stores on two axes: who is to blame, and whether it happened.

Owns the closed tree of errors of this library. A use that breaks a precondition is a `UsageError`: definite, never retried.
A failure of the place where data lies is `Determinate` (it surely did not happen) or `Indeterminate` (it may have): only what
is known to be without effect may be called Determinate. Source: ADR 0014.
"""

from __future__ import annotations


class PersistError(Exception):
    """Root of the tree. `message` names no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(PersistError):
    """A precondition does not hold; `kind` names which."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class LocationError(PersistError):
    """The place where data lies failed."""


class Determinate(LocationError):
    """It surely did not happen."""


class Indeterminate(LocationError):
    """It may have happened."""


class Corrupt(LocationError):
    """Stored data is not what was written, or of newer software; nothing is guessed."""


class Refusal(PersistError):
    """An outcome that correct callers expect: definite, without effect.

    It is judged on the newest state.
    """


class UpperMismatch(Refusal):
    """Somebody else wrote first; `current` is the shard's upper."""

    def __init__(self, current: int | None) -> None:
        super().__init__(f"the upper is {current}")
        self.current = current


class SinceError(Refusal):
    """The time can no longer be read.

    `since` is the first that can (None: nothing can).
    """

    def __init__(self, since: int | None) -> None:
        super().__init__(f"the since is {since}")
        self.since = since


class NotYet(Refusal):
    """The time is not complete yet; `upper` says how far the shard is."""

    def __init__(self, upper: int | None) -> None:
        super().__init__(f"the upper is {upper}")
        self.upper = upper


class OpaqueMismatch(Refusal):
    """Another incarnation has fenced this one off.

    `actual` is its mark, `since` its hold.
    """

    def __init__(self, actual: int, since: int | None) -> None:
        super().__init__(f"the mark is {actual}")
        self.actual = actual
        self.since = since


class Expired(Refusal):
    """This handle's lease has run out or was expired: open one with a new id."""
