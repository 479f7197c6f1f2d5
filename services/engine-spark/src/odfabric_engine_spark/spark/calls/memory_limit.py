"""What a transaction may have in hand at once.

Owns the refusal of a transaction that needs more memory than its request allows, in the one form by which a coordinator knows that a
smaller one may do. Invariant: the limit refuses and changes nothing else, so a transaction has the same outcome under every limit
that it keeps. Not here: pieces of what need not be in hand at once (`record_transaction`, `streamed_aggregate`), the
coordinator's answer (`odfabric.usecases.transform.divide_transform`). Source: ADR 0029.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.errors import LimitExceeded
from odfabric.model.engine import TRANSACTION_SIZE_LIMIT


@dataclass(frozen=True, slots=True)
class TransactionSize:
    """`bytes_max` is how many bytes of rows may be in hand, 0 for any."""

    bytes_max: int

    def check(self, in_hand: int) -> None:
        """Raises LimitExceeded if that is more than allowed."""
        if 0 < self.bytes_max < in_hand:
            raise LimitExceeded(
                f"the transaction has {in_hand} bytes of rows in hand at once",
                limit=TRANSACTION_SIZE_LIMIT,
                maximum=self.bytes_max,
            )
