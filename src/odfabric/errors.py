"""The closed tree of errors.

Leaves are final; every edge (HTTP, gRPC, exit code) maps every leaf exactly once.

OdfError
├── InvalidInput            what somebody sent is wrong; repeating it cannot help
│   ├── InvalidRequest      a parameter, header or body member
│   ├── InvalidName         a name, reference, identifier or hash text
│   ├── InvalidManifest     YAML or JSON of a manifest: file, line, column, field
│   ├── InvalidBlock        bytes that are not a block, or an event that the chain does not admit: rule
│   ├── InvalidData         data that cannot be read or merged: file, line, column, row
│   ├── IncompatibleSchema  data or output that does not fit the schema of the dataset
│   ├── InvalidQuery        SQL that is refused: line, column, rule
│   ├── SourceNotFound      no, or no single, ingest source fits
│   ├── UnsupportedMediaType
│   ├── CorruptedSource     an object from outside that does not match its hash or its block
│   ├── IdempotencyKeyReused the key was used with another body
│   ├── UnsupportedProtocol no transfer speaks between these two ends
│   ├── AmbiguousRepository more than one place fits, none is guessed
│   └── EmptyRepositoryList there is no repository to choose
├── Unauthenticated         no credentials
├── CredentialRefused       credentials that do not count
│   ├── TokenMalformed      not a token of any form that this node knows
│   ├── TokenChecksumWrong  mistyped or cut off: the checksum does not fit
│   ├── TokenUnknown        well formed, but not one of this node
│   ├── TokenExpired
│   ├── TokenRevoked
│   ├── AccountSuspended
│   └── WrongCredentials    name or password is wrong; which of them is not reported
├── AccessDenied
├── NotFound                dataset, block, ref, object, job, subscription, cursor
├── Conflict
│   ├── HeadMoved           lost the compare-and-set; nothing was written
│   ├── AlreadyExists
│   ├── InUse               others depend on it: who
│   ├── Changed             somebody else changed it meanwhile; nothing was written
│   ├── LastAdmin           a node or an organisation would be left without an admin
│   ├── ChainsDiverged      neither head descends from the other
│   ├── DestinationAhead    the copy has blocks that its source does not have yet
│   └── LeaseLost           a job or cursor was taken over by another
├── LimitExceeded           a named limit of the settings
├── Corrupt                 an object that we wrote is damaged: alarm, never retried
└── External                the outside world failed
    ├── Determinate         it did not happen: retry
    └── Indeterminate       it may have happened: look before retrying
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Place:
    """Where a user finds what is wrong; lines, columns and rows count from 1.

    `query_line` and `query_column` are within a query where the others are those of the file that holds it, or of the row on which
    it fails.
    """

    file: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None
    row: int | None = None
    rule: str | None = None
    query_line: int | None = None
    query_column: int | None = None

    def __str__(self) -> str:
        parts = [self.file] if self.file else []
        parts += [f"{label} {value}" for label, value in self._numbers() if value is not None]
        return ", ".join(parts)

    def _numbers(self) -> list[tuple[str, object]]:
        return [
            ("line", self.line),
            ("column", self.column),
            ("field", self.field),
            ("row", self.row),
            ("rule", self.rule),
            ("query line", self.query_line),
            ("query column", self.query_column),
        ]


class OdfError(Exception):
    """Root of the closed tree.

    `message` is for people and free of secrets and physical paths of the node; `place` says where; `hint` what to do.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, place: Place | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place or Place()
        self.hint = hint

    def __str__(self) -> str:
        where = str(self.place)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} ({self.hint})" if self.hint else text


class InvalidInput(OdfError):
    """What somebody sent is wrong; repeating it cannot help."""


class InvalidRequest(InvalidInput):
    """A parameter, header or body member is wrong."""

    code = "invalid-request"


class InvalidName(InvalidInput):
    """A name, reference, identifier or hash text is wrong."""

    code = "invalid-name"


class InvalidManifest(InvalidInput):
    """A manifest is wrong; `place` has file, line, column and field."""

    code = "invalid-manifest"


class InvalidBlock(InvalidInput):
    """Bytes are not a block, or the chain does not admit the event.

    `kind` is the reference's error name (e.g. SequenceIntegrity, NoOpEvent, MalformedBlock); `place.rule` the rule's id.
    """

    code = "invalid-block"

    def __init__(self, message: str, *, kind: str, rule: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, place=Place(rule=rule), hint=hint)
        self.kind = kind


class InvalidData(InvalidInput):
    """Data cannot be read, preprocessed or merged.

    `place` has file, line, column and row where known.
    """

    code = "invalid-data"


class IncompatibleSchema(InvalidInput):
    """Data or transform output does not fit the schema of the dataset."""

    code = "incompatible-schema"


class InvalidQuery(InvalidInput):
    """SQL is refused; `place` has line and column, `place.rule` the reason's id.

    `statement` is the text in which they count, where anyone who refuses knows it. `instead` is a name that is written there and the
    one that is meant, each by the parts between its dots. Neither is reported. `suggestion` is a statement that says the same and is
    accepted; `also` is what else is wrong with the query, in its order.
    """

    code = "invalid-query"
    statement: str | None = None
    instead: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    suggestion: str | None = None
    also: tuple[InvalidQuery, ...] = ()


class SourceNotFound(InvalidInput):
    """No ingest source fits, or more than one does."""

    code = "source-not-found"


class UnsupportedMediaType(InvalidInput):
    """The media type has no reader."""

    code = "unsupported-media-type"


class CorruptedSource(InvalidInput):
    """A received object contradicts the hash that names it, or its block."""

    code = "corrupted-source"


class IdempotencyKeyReused(InvalidInput):
    """The idempotency key was used before with another body."""

    code = "idempotency-key-reused"


class UnsupportedProtocol(InvalidInput):
    """No transfer speaks between these two ends."""

    code = "unsupported-protocol"


class AmbiguousRepository(InvalidInput):
    """More than one repository or alias fits, and none is guessed."""

    code = "ambiguous-repository"


class EmptyRepositoryList(InvalidInput):
    """A repository is to be chosen, and there is none."""

    code = "empty-repository-list"


class Unauthenticated(OdfError):
    """No credentials."""

    code = "unauthenticated"


class CredentialRefused(OdfError):
    """Credentials that do not count."""


class TokenMalformed(CredentialRefused):
    """Not a token of any form that this node knows."""

    code = "token-malformed"


class TokenChecksumWrong(CredentialRefused):
    """A token that was mistyped or cut off: its checksum does not fit."""

    code = "token-checksum"


class TokenUnknown(CredentialRefused):
    """A well-formed token that is not one of this node's."""

    code = "token-unknown"


class TokenExpired(CredentialRefused):
    """A token whose time is over."""

    code = "token-expired"


class TokenRevoked(CredentialRefused):
    """A token that was withdrawn."""

    code = "token-revoked"


class AccountSuspended(CredentialRefused):
    """The account of a credential is suspended."""

    code = "account-suspended"


class WrongCredentials(CredentialRefused):
    """Name or password is wrong; which of them is not reported."""

    code = "wrong-credentials"


class AccessDenied(OdfError):
    """Valid credentials without the right."""

    code = "access-denied"


class NotFound(OdfError):
    """Something named does not exist, or may not be known to exist."""

    code = "not-found"

    def __init__(self, what: str, name: str, *, hint: str | None = None) -> None:
        super().__init__(f"{what} not found: {name}", hint=hint)
        self.what, self.name = what, name


class Conflict(OdfError):
    """The present state does not allow it."""


class HeadMoved(Conflict):
    """Lost the compare-and-set: the head is `actual`, not `expected`.

    Nothing was written.
    """

    code = "head-moved"

    def __init__(self, *, expected: str | None, actual: str | None) -> None:
        super().__init__(f"expected the head at {expected}, found {actual}")
        self.expected, self.actual = expected, actual


class AlreadyExists(Conflict):
    """The name or identity is taken."""

    code = "already-exists"


class InUse(Conflict):
    """Others depend on it; `users` are their names. Nothing was changed."""

    code = "in-use"

    def __init__(self, message: str, *, users: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.users = users


class Changed(Conflict):
    """Somebody else changed it meanwhile; nothing was written."""

    code = "changed"


class LastAdmin(Conflict):
    """A node or an organisation would be left without an admin."""

    code = "last-admin"


class ChainsDiverged(Conflict):
    """Two chains of one dataset, neither of which continues the other."""

    code = "chains-diverged"


class DestinationAhead(Conflict):
    """The destination of a transfer has blocks that its source does not have.

    The source is old, or was rolled back.
    """

    code = "destination-ahead"


class LeaseLost(Conflict):
    """The job or cursor was taken over, or the job cancelled.

    The holder of the stale lease or fence stops.
    """

    code = "lease-lost"


class LimitExceeded(OdfError):
    """A limit was hit.

    `limit` is the name of the setting, `maximum` its value in the unit of the name.
    """

    code = "limit-exceeded"

    def __init__(
        self, message: str, *, limit: str, maximum: float, place: Place | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message, place=place, hint=f"limit {limit} = {maximum}")
        self.limit, self.maximum, self.retry_after_s = limit, maximum, retry_after_s


class Corrupt(OdfError):
    """An object that this node wrote is missing or damaged.

    `object_name` says which. Alarm; never retried.
    """

    code = "corrupt"

    def __init__(self, message: str, *, object_name: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.object_name = object_name


class External(OdfError):
    """The outside world failed.

    `stage` is how far a request got: `dns`, `connect`, `tls`, `time` (too late, at any stage), `answer`; None where that is not known.
    """

    def __init__(
        self, message: str, *, place: Place | None = None, hint: str | None = None, stage: str | None = None
    ) -> None:
        super().__init__(message, place=place, hint=hint)
        self.stage = stage


class Determinate(External):
    """It surely did not happen: safe to retry.

    `blameless` if it failed because of somebody else's work: such an attempt does not count. `retry_after_s` if the one that failed wants to be
    left alone for so long. `lasting` if it fails again until somebody changes something, such as a host that does not exist: one more attempt
    is enough.
    """

    code = "unavailable"

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        hint: str | None = None,
        blameless: bool = False,
        retry_after_s: int | None = None,
        lasting: bool = False,
        stage: str | None = None,
    ) -> None:
        super().__init__(message, place=place, hint=hint, stage=stage)
        self.blameless, self.retry_after_s, self.lasting = blameless, retry_after_s, lasting


class Indeterminate(External):
    """It may have happened: find out before retrying."""

    code = "outcome-unknown"
