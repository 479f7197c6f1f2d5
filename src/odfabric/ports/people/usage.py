"""How much an account uses: its datasets and their bytes.

Bytes are added in the transaction that moves the head. Of datasets that releases before this one have made, or that were taken back from the
objects, they are not known until somebody has measured them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from odfabric.model.identity import AccountName, DatasetId
from odfabric.model.multihash import Multihash


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """Datasets named under an account, and the bytes of those that are measured."""

    datasets: int
    stored_bytes: int


class Usage(Protocol):
    """Raises Determinate or Indeterminate for outside failures."""

    def of_account(self, account: AccountName) -> AccountUsage:
        """What is named under an account, whether there is such an account or not."""

    def unmeasured(self, *, limit: int) -> Sequence[DatasetId]:
        """At most `limit` datasets of which the bytes are not known."""

    def measured(self, dataset: DatasetId, head: Multihash, stored_bytes: int) -> bool:
        """Remember the bytes of the chain that ends at `head`.

        Whether that is the head still and they were not known.
        """
