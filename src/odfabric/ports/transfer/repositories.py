"""Repositories that are known here by name, and the aliases of datasets there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.people.audit import AuditEntry
from odfabric.model.transfer.repository import AliasKind, RemoteAlias, RemoteRepository


class RemoteRepositories(Protocol):
    """Repositories of accounts and of the node; they go with their account.

    Names are unique in each account, and in the node, without regard to case.

    Each change is one transaction. Raises Determinate or Indeterminate for outside failures.
    """

    def add(self, repository: RemoteRepository, *, maximum: int, audit: Sequence[AuditEntry] = ()) -> None:
        """Keep a new repository of an account or the node that has fewer than `maximum`.

        Raises AlreadyExists for a name that is used there, LimitExceeded, NotFound for no account.
        """

    def of(self, account: AccountId | None) -> Sequence[RemoteRepository]:
        """All of an account, None of the node, in order of names."""

    def remove(self, account: AccountId | None, name: Name, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Whether there was one."""

    def add_alias(self, alias: RemoteAlias, *, maximum: int) -> None:
        """Remember where a dataset is pulled from or pushed to.

        One that is known is success.

        Raises NotFound for no dataset, LimitExceeded where it has `maximum` of this kind.
        """

    def aliases(self, dataset: DatasetId, kind: AliasKind) -> Sequence[RemoteAlias]:
        """Those of a dataset in order of targets; they go with it."""

    def remove_alias(self, alias: RemoteAlias) -> bool:
        """Whether there was one."""
