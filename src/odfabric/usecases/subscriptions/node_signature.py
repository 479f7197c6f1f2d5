"""Sign requests with the node's key, publish its public keys, give it a new one.

Invariant: a key is stored before it signs, so anyone who gets a signature finds its key in the key set. Not here: the form of signatures
(`formats.webhooks.message_signature`), sealing of the key (`adapters.sealed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odfabric.formats.webhooks.message_signature import public_half, sign_request, thumbprint
from odfabric.model.instant import NANOS_PER_DAY, NANOS_PER_SECOND, Instant
from odfabric.model.people.signing_key import SigningKey
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.node.signing_keys import SigningKeys

PRIVATE_BYTES = 32
KEPT_S = 10
"""How long a process signs with the key that it has read; the key set has retired ones for much longer."""


class NodeSignature:
    """The node's key for signatures. The first one is made when it is needed."""

    def __init__(self, keys: SigningKeys, *, clock: Clock, entropy: Entropy) -> None:
        self._keys = keys
        self._clock = clock
        self._entropy = entropy
        self._kept: tuple[bytes, Instant] | None = None

    def sign(self, headers: Mapping[str, str], *, target_uri: str, body: bytes, at: Instant) -> dict[str, str]:
        """The headers of a POST with its digest and signature.

        Raises Corrupt, AccessDenied for a key that cannot be opened.
        """
        private = self._private()
        return sign_request(headers, method="POST", target_uri=target_uri, body=body, private=private, created=at)

    def private_key(self) -> bytes:
        """The key that signs, 32 bytes, for other documents of the node.

        Raises Corrupt, AccessDenied for a key that cannot be opened.
        """
        return self._private()

    def _private(self) -> bytes:
        kept, now = self._kept, self._clock.now()
        if kept is not None and abs(now.epoch_ns - kept[1].epoch_ns) < KEPT_S * NANOS_PER_SECOND:
            return kept[0]
        _, private = self._keys.current() or self._made()
        self._kept = (private, now)
        return private

    def published(self) -> Sequence[SigningKey]:
        """The key that signs and those that did not long ago, newest first."""
        found = self._keys.all()
        return found or [self._made()[0]]

    def renew(self) -> SigningKey:
        """Sign with a new key from now on.

        The public half of the old one stays published for a while.
        """
        made, _ = self._made()
        self._kept = None
        return made

    def forget_retired(self, *, kept_days: float) -> int:
        """Remove keys that were retired so many days ago; how many."""
        before = Instant(self._clock.now().epoch_ns - round(kept_days * NANOS_PER_DAY))
        return self._keys.forget_retired(before=before)

    def _made(self) -> tuple[SigningKey, bytes]:
        private = self._entropy.random_bytes(PRIVATE_BYTES)
        public = public_half(private)
        key = SigningKey(id=thumbprint(public), public=public, made_at=self._clock.now())
        self._keys.add(key, private=private)
        return key, private
