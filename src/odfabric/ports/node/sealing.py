"""Secrets at rest: sealing with the node's key, and stores of sealed secrets.

Rotation is correct because of one rule: anyone who writes something sealed, or carries it from one place to another, does so within
`Sealing.kept`; a key is made current, and an old one is taken away, only while nobody is within.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from odfabric.formats.secrets.sealed_form import DATASET_KEY
from odfabric.formats.webhooks.webhook_signature import SECRET_BYTES_MAX
from odfabric.model.identity import DatasetId


class Sealing(Protocol):
    """Seals and opens secrets with the keys of the node.

    A key that an instance has seen opens for as long as the instance lives.
    """

    def seal(self, secret: bytes, *, context: bytes) -> bytes:
        """Seal with the current key; it opens in this context only.

        Raises Determinate, AccessDenied for keys that others may read, Corrupt for damaged ones.
        """

    def open(self, sealed: bytes, *, context: bytes) -> bytes:
        """The secret.

        Raises Corrupt for changed bytes, another context, or a key that is not there, and what `seal` raises.
        """

    def mark(self) -> bytes:
        """The first bytes of everything that the current key sealed.

        Raises what `seal` raises.
        """

    def kept(self) -> AbstractContextManager[None]:
        """Hold off changes of keys while the context is open.

        The current key stays current, no key is dropped, and what is read meanwhile opens later too.
        For short work: a rotation waits for it, and it waits for a rotation's last look. Raises Determinate if that takes too long.
        """


class KeyRotation(Protocol):
    """Changes the keys that all processes of the node use.

    Every change is durable when the call returns.
    """

    def begin(self) -> bool:
        """Make a new key current, unless an interrupted rotation has done so.

        Returns whether the key is new. The key before it stays and opens. Raises Determinate, also if the keys are
        in use for too long.
        """

    def drop_old(self, last_look: Callable[[], None]) -> int:
        """Drop all keys but the current one; returns how many.

        `last_look` runs before, while nobody is within `kept`. What `last_look` raises passes through, and all keys
        stay. It does not enter `kept` itself. Raises Determinate.
        """


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A stored secret. `key` identifies the row.

    `data` is sealed, or the secret itself if the store says that it `is_plain`.
    """

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
        """Whether these bytes are a secret in the clear.

        Nothing sealed is, nor what damage makes of it.
        """

    def rows(self, *, unlike: bytes, after: str | None, limit: int) -> Sequence[SealedRow]:
        """Rows whose data do not begin with `unlike`, ordered by key.

        They begin after the key `after`; None is the beginning.
        """

    def replace(self, changes: Sequence[tuple[SealedRow, bytes]]) -> int:
        """Replace data that have not changed since the rows were read.

        One transaction; returns the number of rows that were replaced.
        """


def dataset_key_context(dataset: DatasetId) -> bytes:
    """The context of a dataset's private key."""
    return DATASET_KEY + dataset.key.hex().encode("ascii")


def webhook_secret_context(subscription_id: str) -> bytes:
    """The context of the secret of a subscription."""
    return b"subscription:" + subscription_id.encode()


def signing_key_context(key_id: str) -> bytes:
    """The context of the private half of a signing key."""
    return b"signing-key:" + key_id.encode()


def variable_key(dataset: DatasetId, name: str) -> str:
    """The text that names the row of a variable."""
    return f"{dataset.multibase}/{name}"


def variable_context(key: str) -> bytes:
    """The context of a secret among the variables, by the key of its row."""
    return b"variable:" + key.encode()


def is_plain_webhook_secret(data: bytes) -> bool:
    """Whether these stored bytes are a webhook secret in the clear.

    The sealed form is longer than any secret.
    """
    return len(data) <= SECRET_BYTES_MAX


def renewed(sealing: Sealing, sealed: bytes, *, context: bytes) -> bytes:
    """The same secret under the current key; for use within `kept`.

    Raises what `open` raises.
    """
    if sealed.startswith(sealing.mark()):
        return sealed
    return sealing.seal(sealing.open(sealed, context=context), context=context)
