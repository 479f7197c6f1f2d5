"""Repositories that hold datasets elsewhere, and the aliases of a dataset there.

Owns the values only. A repository is a prefix of URLs under a name; it holds no credential.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRepository:
    """A named prefix of URLs.

    `account` has it for its own; None: it is the node's, and every account uses it.

    `url` is normalised and ends with a slash.
    """

    name: Name
    url: str
    account: AccountId | None
    created_at: Instant


class AliasKind(Enum):
    """Which way data goes between a dataset and its alias."""

    PULL = "pull"
    PUSH = "push"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAlias:
    """Where a dataset is pulled from or pushed to.

    A URL, or `repository/[account/]dataset`.
    """

    dataset: DatasetId
    kind: AliasKind
    target: str
