"""What a node has before anybody comes: the accounts `local` and `system`.

Invariant: safe to run at every start, by several processes at once, and on a node that older releases have made: datasets of `local` stay
where they are, and the operator's token goes on working as its admin.
"""

from __future__ import annotations

from contextlib import suppress

from odfabric.domain.people.access import LOCAL_ACCOUNT, SYSTEM_ACCOUNT
from odfabric.errors import AlreadyExists
from odfabric.model.identity import AccountId, Name
from odfabric.model.people.account import Account, AccountKind
from odfabric.model.people.audit import THE_NODE, AuditEntry, AuditKind
from odfabric.ports.node.clock import Clock
from odfabric.ports.people.accounts import Accounts


def make_first_accounts(*, local: AccountId, system: AccountId, accounts: Accounts, clock: Clock) -> None:
    """Make the accounts `local` and `system` unless they are there.

    `local` is the operator's own account and an admin, `system` owns the node's datasets.
    """
    _make(LOCAL_ACCOUNT, local, AccountKind.USER, "Operator", is_admin=True, accounts=accounts, clock=clock)
    _make(SYSTEM_ACCOUNT, system, AccountKind.USER, "This node", is_admin=False, accounts=accounts, clock=clock)


def _make(
    name: Name,
    account_id: AccountId,
    kind: AccountKind,
    display_name: str,
    *,
    is_admin: bool,
    accounts: Accounts,
    clock: Clock,
) -> None:
    if accounts.by_name(name) is not None:
        return
    now = clock.now()
    account = Account(id=account_id, name=name, kind=kind, display_name=display_name, is_admin=is_admin, created_at=now)
    audit = AuditEntry(kind=AuditKind.ACCOUNT_CREATED, actor=THE_NODE, at=now, target=str(name))
    with suppress(AlreadyExists):  # another process was faster
        accounts.create(account, audit=audit)
