"""Secrets at rest: sealing them with the node's key, and the places in which sealed ones are kept.

Rotation is correct because of one rule: whoever writes something sealed, or carries it from one place to another, does so within
`Sealing.kept`; a key is made current, and an old one is taken away, only while nobody is within.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from odfabric.formats.sealed_form import DATASET_KEY
from odfabric.formats.webhook_signature import SECRET_BYTES_MAX
from odfabric.model.identity import DatasetId


class Sealing(Protocol):
    """Seals and opens with the keys of the node. Keys that an instance has seen open for as long as it lives."""

    def seal(self, secret: bytes, *, context: bytes) -> bytes:
        """Seal with the current key; it opens in this context only.

        Raises Determinate, AccessDenied for keys that others may read, Corrupt for damaged ones.
        """

    def open(self, sealed: bytes, *, context: bytes) -> bytes:
        """The secret. Raises Corrupt for changed bytes, another context, a key that is not there; and what `seal` raises."""

    def mark(self) -> bytes:
        """What everything begins with that is sealed with the current key. Raises what `seal` raises."""

    def kept(self) -> AbstractContextManager[None]:
        """While the context is open the current key stays current and no key is taken away; what is read meanwhile opens later too.

        For short work: a rotation waits for it, and it waits for a rotation's last look. Raises Determinate if that takes too long.
        """


class KeyRotation(Protocol):
    """Changes the keys of the node, which all its processes use. Every change is durable when the call returns."""

    def begin(self) -> bool:
        """Make a new key current, unless a rotation that was interrupted has made one; whether it is new.

        The key before it stays and opens. Raises Determinate, also if the keys are in use for too long.
        """

    def drop_old(self, last_look: Callable[[], None]) -> int:
        """Take away all keys but the current one; how many that were. `last_look` runs before, while nobody is within `kept`.

        What `last_look` raises passes through, and all keys stay. It does not enter `kept` itself. Raises Determinate.
        """


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A secret where it is kept. `key` names the row; `data` is sealed, or the secret itself if its store says that it `is_plain`."""

    key: str
    context: bytes
    data: bytes = field(repr=False)


class SealedStore(Protocol):
    """One kind of secrets. A rotation walks all stores of the node."""

    @property
    def name(self) -> str:
        """What is kept, in the plural, for people."""

    @property
    def may_be_plain(self) -> bool:
        """Whether older releases have kept some of these secrets in the clear."""

    def is_plain(self, data: bytes) -> bool:
        """Whether these are a secret in the clear. Nothing sealed is, nor what damage makes of it."""

    def rows(self, *, unlike: bytes, after: str | None, limit: int) -> Sequence[SealedRow]:
        """Rows whose data do not begin with `unlike`, in the order of their keys, from the first one after `after`."""

    def replace(self, changes: Sequence[tuple[SealedRow, bytes]]) -> int:
        """Put other data where the data are still those of the row, in one transaction; in how many rows that was so."""


def dataset_key_context(dataset: DatasetId) -> bytes:
    """The context of a dataset's private key."""
    return DATASET_KEY + dataset.key.hex().encode("ascii")


def webhook_secret_context(subscription_id: str) -> bytes:
    """The context of the secret of a subscription."""
    return b"subscription:" + subscription_id.encode()


def is_plain_webhook_secret(data: bytes) -> bool:
    """Whether a column of webhook secrets holds the secret itself: the sealed form is longer than any secret."""
    return len(data) <= SECRET_BYTES_MAX


def renewed(sealing: Sealing, sealed: bytes, *, context: bytes) -> bytes:
    """The same secret under the current key. Raises what `open` raises. For use within `kept`."""
    if sealed.startswith(sealing.mark()):
        return sealed
    return sealing.seal(sealing.open(sealed, context=context), context=context)
