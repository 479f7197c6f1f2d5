"""Publish the head log beside `refs/head`.

Full segments, the newest one, the signature.

Invariant: the log is published before the head that it signs, so anyone who reads the head first finds it in the log. Nothing published goes
back: what is replaced was read before the database was asked.
"""

from __future__ import annotations

from odfabric.errors import CorruptedSource, Determinate, LimitExceeded
from odfabric.formats.heads.head_log import read_statement, segment_text
from odfabric.formats.identifiers.dataset_layout import head_log_key, head_signature_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.node.remembered import Remembered
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.node.clock import Clock
from odfabric.usecases.heads.head_writer import HeadWriter

PUBLISHED_KNOWN_MAX = 10_000
"""Datasets of which a process remembers what it has published."""
ATTEMPTS_MAX = 5


class LogPublisher:
    """Writes logs into the object store."""

    def __init__(self, writer: HeadWriter, *, objects: ObjectStore, clock: Clock, signature_s: float) -> None:
        """`signature_s`: how old the published signature may get while the head moves.

        It is in seconds.
        """
        self._writer = writer
        self._objects = objects
        self._clock = clock
        self._signature_ns = round(signature_s * NANOS_PER_SECOND)
        self._segments = Remembered[DatasetId, int](PUBLISHED_KNOWN_MAX)
        self._signed = Remembered[DatasetId, Instant](PUBLISHED_KNOWN_MAX)

    def publish(self, entry: CatalogEntry) -> None:
        """Bring the published log to the stored one.

        Raises Determinate, Indeterminate.
        """
        key = head_log_key(entry.id)
        for _ in range(ATTEMPTS_MAX):
            before = _read(self._objects, key)
            newest = self._writer.newest(entry.id)
            if newest is None:
                return
            number, lines = newest
            self._publish_full(entry.id, number)
            text = segment_text(lines).decode("ascii")
            if before == text or self._objects.replace_ref(key, text, expected=before):
                break
        else:
            raise Determinate(f"{key} is written by others all the time")
        self._sign(entry)

    def withdraw(self, dataset: DatasetId) -> None:
        """Take the newest segment and the signature of a removed dataset away."""
        self._objects.delete(head_signature_key(dataset))
        self._objects.delete(head_log_key(dataset))
        self._segments.pop(dataset)
        self._signed.pop(dataset)

    def renew(self, entry: CatalogEntry, *, age_s: float) -> bool:
        """Publish a fresh signature for one older than `age_s` seconds; whether it was.

        Nothing for a dataset that has none, or whose key is not here. Raises Determinate, Indeterminate.
        """
        if entry.sealed_key is None:
            return False
        signed_at, now = self._signed.get(entry.id) or self._published_at(entry), self._clock.now()
        if signed_at is None or now.epoch_ns - signed_at.epoch_ns < age_s * NANOS_PER_SECOND:
            return False
        if not self._writer.may_sign(entry):
            return False
        self._signed.pop(entry.id)
        self._sign(entry)
        return True

    def _published_at(self, entry: CatalogEntry) -> Instant | None:
        text = _read(self._objects, head_signature_key(entry.id))
        try:
            line = (text or "").removesuffix("\n").encode("ascii")
            return read_statement(entry.id, line).statement.signed_at if line else None
        except (CorruptedSource, UnicodeEncodeError):
            return None  # the next publication replaces it

    def _publish_full(self, dataset: DatasetId, newest: int) -> None:
        known = self._segments.get(dataset)
        first = newest
        while first > 0 and first != known and self._objects.stat(head_log_key(dataset, first - 1)) is None:
            first -= 1
        for number in range(first, newest):
            self._objects.put_bytes(head_log_key(dataset, number), segment_text(self._writer.segment(dataset, number)))
        self._segments.put(dataset, newest)

    def _sign(self, entry: CatalogEntry) -> None:
        signed_at, now = self._signed.get(entry.id), self._clock.now()
        if signed_at is not None and now.epoch_ns - signed_at.epoch_ns < self._signature_ns:
            return
        key = head_signature_key(entry.id)
        before = _read(self._objects, key)
        line = self._writer.newest_statement(entry)
        if line is None:
            return
        text = line.decode("ascii") + "\n"
        # Who loses this race has an older signature.
        if before == text or self._objects.replace_ref(key, text, expected=before):
            self._signed.put(entry.id, now)


def _read(objects: ObjectStore, key: str) -> str | None:
    try:
        return objects.read_ref(key)
    except LimitExceeded:
        objects.delete(key)  # nobody here wrote it
        return None
