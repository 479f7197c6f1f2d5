"""The wall clock and the random bytes of the operating system."""

from __future__ import annotations

import secrets
import time

from odfabric.model.instant import Instant


class SystemClock:
    """A Clock. It may jump when somebody sets the machine's time."""

    def now(self) -> Instant:
        """See the port."""
        return Instant(time.time_ns())


class SystemEntropy:
    """An Entropy."""

    def random_bytes(self, count: int) -> bytes:
        """See the port."""
        return secrets.token_bytes(count)
