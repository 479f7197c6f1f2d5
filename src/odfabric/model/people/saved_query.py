"""A question that somebody keeps."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.identity import AccountId
from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """SQL under a name, of one account.

    `changed_at` is when name or SQL were changed last.
    """

    id: str
    account: AccountId
    name: str
    sql: str
    created_at: Instant
    changed_at: Instant
