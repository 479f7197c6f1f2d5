"""Consensus in an S3 bucket, without any database: one object per key.

Owns that object: the versions since the last truncation, replaced as a whole under the condition that nobody replaced it since
it was read (`If-Match`, for the first one `If-None-Match`). Invariants: every attempt has a nonce in the object, so no two
contents are alike and a refused or unknown attempt that did land is found again; an object is never removed, so no late request
can begin a history again. One PUT for each change: for repositories that rarely change. Source: ADR 0018.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from odfabric_persist.errors import Corrupt, Determinate, Indeterminate, LocationError, UsageError
from odfabric_persist.location.blob import check_key
from odfabric_persist.location.consensus import Version, check_seqno, invalid_truncation
from odfabric_persist.location.s3_access import S3Place, code_of, located, s3_client
from odfabric_persist.location.s3_blob import S3Blob

FORMAT = 1
_KNOWN_MAX = 1024
_ATTEMPTS_MAX = 100
_REFUSED = frozenset({"PreconditionFailed", "NoSuchKey"})
"""Answers to a condition that does not hold. Some stores say 404 for `If-Match` where there is no object."""

_UNCHANGED = frozenset({"304", "NotModified"})


@dataclass(frozen=True, slots=True)
class _Window:
    """A key's object: versions, nonces of their attempts, and where it was truncated."""

    versions: tuple[Version, ...]
    nonces: tuple[str, ...]
    floor: int = 0

    @property
    def head(self) -> int:
        """Number of the newest version."""
        return self.versions[-1].seqno

    def followed(self, new: Version, nonce: str) -> _Window:
        """With one more version."""
        return _Window((*self.versions, new), (*self.nonces, nonce), self.floor)

    def truncated(self, seqno: int) -> _Window:
        """Without versions below `seqno`."""
        count = sum(one.seqno < seqno for one in self.versions)
        return _Window(self.versions[count:], self.nonces[count:], max(seqno, self.floor))


@dataclass(frozen=True, slots=True)
class _Found:
    """A window as it was read or written, and the tag of the object that holds it."""

    etag: str
    window: _Window


class S3Consensus:
    """`Consensus` at a place in a bucket, which holds nothing else.

    Several processes may share it.
    """

    def __init__(self, place: S3Place, *, client: Any = None) -> None:
        """`client` is one of `s3_client`, by default a new one.

        Asks the store first whether it heeds conditions. Raises UsageError (`conditions-ignored`, `invalid-place`), LocationError.
        """
        self._place = place
        self._client = client or s3_client(place)
        self._objects = S3Blob(place, client=self._client)
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Found] = OrderedDict()
        try:
            self._check_conditions()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def head(self, key: str) -> Version | None:
        """See the protocol."""
        found = self._read(key)
        return None if found is None else found.window.versions[-1]

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        """See the protocol."""
        check_seqno(expected, new)
        nonce = uuid.uuid4().hex
        found = self._remembered(key)
        if _head(found) != expected:
            found = self._read(key)
        for _ in range(_ATTEMPTS_MAX):
            if _head(found) != expected:
                return False
            after = (found.window if found else _Window((), ())).followed(new, nonce)
            try:
                if self._write(key, found, after):
                    return True
            except Indeterminate:
                outcome = self._outcome(key, found, expected, new, nonce)
                if outcome is None:
                    raise
                return outcome
            found = self._read_after(key)
            if found is not None and nonce in found.window.nonces:
                return True
            if found is not None and found.window.floor > new.seqno:
                raise Indeterminate(f"S3: versions of {key} up to {new.seqno} were truncated meanwhile")
        raise Determinate(f"S3: too many others change {key}")

    def scan(self, key: str, start: int, limit: int) -> Sequence[Version]:
        """See the protocol."""
        found = self._read(key)
        return [] if found is None else [one for one in found.window.versions if one.seqno >= start][:limit]

    def truncate(self, key: str, seqno: int) -> int:
        """See the protocol."""
        for _ in range(_ATTEMPTS_MAX):
            found = self._read(key)
            if found is None or seqno > found.window.head:
                raise invalid_truncation(key, seqno)
            after = found.window.truncated(seqno)
            removed = len(found.window.versions) - len(after.versions)
            if not removed or self._write(key, found, after):
                return removed
        raise Determinate(f"S3: too many others change {key}")

    def keys(self) -> Iterator[str]:
        """See the protocol."""
        return iter(sorted(entry.key for entry in self._objects.list("")))

    def _remembered(self, key: str) -> _Found | None:
        with self._lock:
            return self._known.get(key)

    def _remember(self, key: str, found: _Found | None) -> None:
        with self._lock:
            self._known.pop(key, None)
            if found is not None:
                self._known[key] = found
            while len(self._known) > _KNOWN_MAX:
                self._known.popitem(last=False)

    def _read(self, key: str) -> _Found | None:
        """The object now; it is not sent again while it is the one that we know."""
        known = self._remembered(key)
        condition = {} if known is None else {"IfNoneMatch": known.etag}
        with located(f"versions of {key}", writes=False):
            try:
                answer = self._client.get_object(**self._object(key), **condition)
            except ClientError as error:
                if known is not None and code_of(error) in _UNCHANGED:
                    return known
                if code_of(error) != "NoSuchKey":
                    raise
                found = None
            else:
                with closing(answer["Body"]) as body:
                    found = _Found(str(answer["ETag"]), _decoded(key, bytes(body.read())))
        self._remember(key, found)
        return found

    def _read_after(self, key: str) -> _Found | None:
        """The object after a refusal.

        Where requests are repeated on the way, the first may have landed: it is not known yet.
        """
        try:
            return self._read(key)
        except Determinate as error:
            raise Indeterminate(error.message) from error

    def _write(self, key: str, before: _Found | None, after: _Window) -> bool:
        """Put a window in the place of `before`; whether it was there still.

        Raises Determinate, Indeterminate.
        """
        etag = self._put(self._object(key), _encoded(after), None if before is None else before.etag)
        if etag is not None:
            self._remember(key, _Found(etag, after))
        return etag is not None

    def _put(self, name: dict[str, str], body: bytes, etag: str | None) -> str | None:
        """The new tag if the object had this one (None: no object), else None."""
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        with located(f"put {name['Key']}", writes=True):
            try:
                return str(self._client.put_object(**name, Body=body, **condition)["ETag"])
            except ClientError as error:
                if code_of(error) in _REFUSED:
                    return None
                raise

    def _outcome(self, key: str, before: _Found | None, expected: int | None, new: Version, nonce: str) -> bool | None:
        """What became of an attempt without an answer.

        None if nobody can say yet, for it may still be on its way.
        """
        try:
            now = self._read(key)
        except LocationError:
            return None
        if now is not None and nonce in now.window.nonces:
            return True
        if now is None or (before is not None and now.etag == before.etag) or now.window.floor > new.seqno:
            return None
        # The object was replaced, so the attempt can no longer succeed.
        return None if _head(now) == expected else False

    def _object(self, key: str) -> dict[str, str]:
        return {"Bucket": self._place.bucket, "Key": self._place.prefix + check_key(key)}

    def _check_conditions(self) -> None:
        """Raises UsageError (`conditions-ignored`)."""
        name = {"Bucket": self._place.bucket, "Key": f"{self._place.prefix}.probe/{uuid.uuid4().hex}"}
        wrong = '"00000000000000000000000000000000"'
        try:
            etag = self._put(name, b"1", None)
            if etag is None or self._put(name, b"2", None) or self._put(name, b"3", wrong):
                raise UsageError(
                    "conditions-ignored", "this store writes whatever the writer expects: it is no register"
                )
            if self._put(name, b"4", etag) is None:
                raise UsageError("conditions-ignored", "this store does not know the tags that it gives")
        finally:
            with suppress(LocationError), located("remove a probe", writes=True):
                self._client.delete_object(**name)


def _head(found: _Found | None) -> int | None:
    return None if found is None else found.window.head


def _encoded(window: _Window) -> bytes:
    """One line of JSON that says how long each version is, then the versions."""
    listed = [[one.seqno, len(one.data), nonce] for one, nonce in zip(window.versions, window.nonces, strict=True)]
    header = {"format": FORMAT, "nonce": uuid.uuid4().hex, "floor": window.floor, "versions": listed}
    data = (one.data for one in window.versions)
    return b"".join([json.dumps(header, separators=(",", ":")).encode(), b"\n", *data])


def _decoded(key: str, data: bytes) -> _Window:
    line, _, rest = data.partition(b"\n")
    try:
        header = json.loads(line)
        if header["format"] > FORMAT:
            raise Corrupt(f"the versions of {key} have format {header['format']}, this software reads up to {FORMAT}")
        versions, position = [], 0
        for seqno, size, _ in header["versions"]:
            versions.append(Version(int(seqno), rest[position : position + size]))
            position += size
        nonces = tuple(str(nonce) for _, _, nonce in header["versions"])
        window = _Window(tuple(versions), nonces, int(header["floor"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the versions of {key} are damaged: {error!r}") from error
    if not versions or position != len(rest):
        raise Corrupt(f"the versions of {key} are damaged: {len(rest)} bytes instead of {position}")
    return window
