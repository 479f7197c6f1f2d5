"""Roles with one holder at a time among all processes of a node."""

from __future__ import annotations

from typing import Protocol

from odfabric.model.instant import Instant


class Roles(Protocol):
    """Leases by name. Raises Determinate or Indeterminate for outside failures."""

    def hold(self, role: str, holder: str, *, now: Instant, lease_ms: int) -> bool:
        """Take the role, or keep it.

        Whether it is the holder's until `now` and `lease_ms`.

        It is free when its lease has expired, and when the lease ends more than `lease_ms` after `now`: the clock of who took it was
        ahead.
        """

    def release(self, role: str, holder: str) -> None:
        """Give the role back at once, if the holder has it."""
