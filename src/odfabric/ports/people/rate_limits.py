"""Rate limits: requests of an account, sign-ins from an address.

A moving window: whatever moment is chosen, no more than `limit` were let through in the `window_s` before it. Counting costs memory in
proportion to `limit`, so limits are hundreds, not millions.
"""

from __future__ import annotations

from typing import Protocol


class RateLimits(Protocol):
    """Raises nothing: while the shared store is down it counts within the process.

    Keys are the caller's, such as `sign-in:address:192.0.2.1`; they leave the process only as keyed hashes. One key always goes with
    the same `limit` and `window_s`, both at least 1.
    """

    def take(self, key: str, *, limit: int, window_s: int) -> float | None:
        """Count one, unless that would be more than `limit` within `window_s`.

        None if it was counted.

        Otherwise nothing is counted, and the answer is the seconds, above 0, after which one will be let through if nobody else
        takes it. Of many callers at once no more than `limit` are let through.
        """

    def reset(self, key: str) -> None:
        """Forget what was counted of a key: after a success, so that only failures add up."""
