"""Limits of accounts: datasets, bytes, pushes, running queries.

Invariant: an account's own limit, set by an admin, wins over the node's. Datasets and bytes count for the account that owns them, anyone who
adds to them; pushes and queries for the account that asks. The node's own account has no limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.chain.stored_bytes import object_bytes
from odfabric.domain.people.access import SYSTEM_ACCOUNT, Subject
from odfabric.errors import LimitExceeded, NotFound
from odfabric.model.identity import AccountName
from odfabric.model.people.account import AccountLimits
from odfabric.ports.people.accounts import Accounts
from odfabric.ports.people.rate_limits import RateLimits
from odfabric.ports.people.usage import Usage
from odfabric.usecases.chain.repository import Repository

PUSH_WINDOW_S = 60
USED_UP_RETRY_S = 3600
"""The refusal of an account that must first delete something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountDefaults:
    """Limits of accounts for which no admin has set others.

    See the settings of the same names.
    """

    datasets_max: int
    stored_bytes_max: int
    pushes_per_minute_max: int
    queries_at_once_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountQuotas:
    """The limits over what is used."""

    accounts: Accounts
    usage: Usage
    rate_limits: RateLimits
    defaults: AccountDefaults

    def check_new_dataset(self, owner: AccountName) -> None:
        """Raises LimitExceeded if the owner has as many datasets as it may.

        Creations at once may exceed it by a few.
        """
        maximum = _chosen(self._limits(owner).datasets_max, self.defaults.datasets_max)
        if owner != SYSTEM_ACCOUNT and self.usage.of_account(owner).datasets >= maximum:
            raise LimitExceeded(
                f"{owner} has {maximum} datasets, as many as it may",
                limit="account_datasets_max",
                maximum=maximum,
                retry_after_s=USED_UP_RETRY_S,
            )

    def check_more_bytes(self, owner: AccountName) -> None:
        """Raises LimitExceeded if the owner's datasets have as many bytes as they may.

        The last addition may exceed it.
        """
        maximum = _chosen(self._limits(owner).stored_bytes_max, self.defaults.stored_bytes_max)
        if owner != SYSTEM_ACCOUNT and self.usage.of_account(owner).stored_bytes >= maximum:
            raise LimitExceeded(
                f"the datasets of {owner} have {maximum} bytes, as many as they may",
                limit="account_stored_bytes_max",
                maximum=maximum,
                retry_after_s=USED_UP_RETRY_S,
            )

    def take_push(self, subject: Subject) -> None:
        """Count a push.

        Raises LimitExceeded with the seconds to wait if the account has pushed too often in the last minute.
        """
        account = subject.account
        if account is None or account.name == SYSTEM_ACCOUNT:
            return
        maximum = _chosen(account.limits.pushes_per_minute_max, self.defaults.pushes_per_minute_max)
        wait_s = PUSH_WINDOW_S if maximum == 0 else self._taken(f"push:{account.id}", maximum)
        if wait_s is not None:
            raise LimitExceeded(
                f"{account.name} has pushed {maximum} times within a minute",
                limit="account_pushes_per_minute_max",
                maximum=maximum,
                retry_after_s=max(1, round(wait_s)),
            )

    def queries_at_once_max(self, subject: Subject) -> int:
        """How many queries the account may run at once.

        A stranger as many as an account without a limit of its own.
        """
        own = subject.account.limits.queries_at_once_max if subject.account is not None else None
        return _chosen(own, self.defaults.queries_at_once_max)

    def _taken(self, key: str, maximum: int) -> float | None:
        return self.rate_limits.take(key, limit=maximum, window_s=PUSH_WINDOW_S)

    def _limits(self, owner: AccountName) -> AccountLimits:
        found = self.accounts.by_name(owner)
        return found.limits if found is not None else AccountLimits()


def measure_usage(*, usage: Usage, repository: Repository, datasets_max: int) -> int:
    """Find out the bytes of at most `datasets_max` datasets that nobody has measured.

    How many.
    """
    measured = 0
    for dataset in usage.unmeasured(limit=datasets_max):
        try:
            head = repository.head(dataset).hash
            blocks, size = repository.blocks(dataset), 0
            for row in repository.rows_down(dataset):
                data = blocks.get_bytes(row.hash)
                size += len(data) + object_bytes(blocks.get(row.hash).event)
        except NotFound:
            continue  # deleted meanwhile
        measured += usage.measured(dataset, head, size)
    return measured


def _chosen(own: int | None, default: int) -> int:
    return default if own is None else own
