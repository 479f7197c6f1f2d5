"""Accounts, memberships and grants: who there is, and which roles they have.

Every method is one transaction, durable when it returns; a change and its audit entry are one transaction. Raises Determinate (nothing
written) or Indeterminate for outside failures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from odfabric.errors import AlreadyExists, Changed, InUse, LastAdmin
from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.people.account import Account, AccountKind, ExternalIdentity, Grant, Grantee, Membership
from odfabric.model.people.audit import AuditEntry

_Object = TypeVar("_Object")
_Subject = TypeVar("_Subject")

NAME_TAKEN_HINT = "choose another name"
CHANGED_HINT = "read it again, and change it again if that is still right"
USERS_TOLD_MAX = 10
"""Datasets that a refused deletion of their account names."""


class Accounts(Protocol):
    """Accounts by id and by name; names compare ASCII case-insensitively."""

    def by_id(self, account: AccountId) -> Account | None:
        """The account, or None."""

    def by_name(self, name: Name) -> Account | None:
        """The account, or None."""

    def by_identity(self, identity: ExternalIdentity) -> Account | None:
        """The account that an OpenID Connect identity belongs to, or None."""

    def identities(self, account: AccountId) -> Sequence[ExternalIdentity]:
        """Identities of an account, in order of issuer and subject."""

    def page(
        self, *, kind: AccountKind | None = None, containing: str = "", after: Name | None = None, limit: int
    ) -> Sequence[Account]:
        """At most `limit` accounts in order of their folded names, strictly after `after`.

        `containing` is part of the name or of the e-mail address, in any case of ASCII letters.
        """

    def admins(self, *, limit: int) -> Sequence[Account]:
        """Node admins that are not suspended, in order of their folded names."""

    def create(self, account: Account, *, audit: AuditEntry, founder: AccountId | None = None) -> None:
        """Store a new account; an organisation's `founder` becomes its first admin.

        Raises AlreadyExists if the id or the name is taken, NotFound for a founder who is not there or no user, ValueError for a founder
        of anything else or an organisation without one.
        """

    def change(self, account: Account, *, audit: AuditEntry) -> Account:
        """Store `account`, of which the version is the one that was read.

        Returns it with the next version.

        Raises NotFound; Changed if it has another version now; LastAdmin if it was the node's last admin that is not suspended and
        would be none any more. Name, kind and time of creation stay as they are.
        """

    def delete(self, account: AccountId, *, audit: AuditEntry) -> None:
        """Delete an account with its credentials, tokens, memberships and grants.

        Raises NotFound, LastAdmin of the node or of an organisation, InUse while datasets are named under it.
        """

    def password_hash(self, account: AccountId) -> str | None:
        """The stored hash, None if it signs in otherwise or not at all."""

    def set_password(self, account: AccountId, password_hash: str, *, audit: AuditEntry) -> None:
        """Replace the hash and end all browser sessions of the account. Raises NotFound."""

    def link_identity(self, account: AccountId, identity: ExternalIdentity, *, audit: AuditEntry) -> None:
        """Let an OpenID Connect identity sign in as this account.

        Nothing happens if it does already.

        Raises NotFound, AlreadyExists if it is another's.
        """


class Relations(Protocol):
    """Memberships and grants: one table of (object, subject, role).

    A change names the relation that it was decided on, as it was read (None: there was none); if there is another one now it raises
    Changed and nothing is written. A role of None removes the relation.
    """

    def memberships(self, member: AccountId) -> Sequence[Membership]:
        """What an account is a member of."""

    def membership(self, organisation: AccountId, member: AccountId) -> Membership | None:
        """One membership, or None."""

    def members(self, organisation: AccountId, *, limit: int) -> Sequence[Membership]:
        """Members of an organisation, in order of their ids."""

    def change_membership(
        self, before: Membership | None, after: Membership | None, *, audit: AuditEntry
    ) -> Membership | None:
        """Make, change or remove a membership; returns it with its new version.

        One of the two may be None, and both are of the same pair. Raises NotFound for an account that is not there or is no organisation,
        Changed, LastAdmin if the organisation would have no admin any more.
        """

    def grants(self, dataset: DatasetId, *, limit: int) -> Sequence[Grant]:
        """Grants on a dataset, in order of the grantee's text."""

    def grant(self, dataset: DatasetId, grantee: Grantee) -> Grant | None:
        """One grant, or None."""

    def granted(
        self, datasets: Collection[DatasetId], grantees: Collection[Grantee]
    ) -> Mapping[DatasetId, Sequence[Grant]]:
        """Grants on these datasets to any of these grantees.

        Datasets without one are left out.
        """

    def change_grant(self, before: Grant | None, after: Grant | None, *, audit: AuditEntry) -> Grant | None:
        """Make, change or remove a grant; returns it with its new version.

        Like `change_membership`.

        Raises Changed, NotFound for an account or a dataset that is not there. Grants go with their dataset.
        """


def pair_of_membership(before: Membership | None, after: Membership | None) -> tuple[AccountId, AccountId]:
    """Organisation and member that a change is about.

    Raises ValueError, a bug of the caller, if it is about two pairs or none.
    """
    return _pair({(each.organisation, each.member) for each in (before, after) if each is not None})


def pair_of_grant(before: Grant | None, after: Grant | None) -> tuple[DatasetId, Grantee]:
    """Dataset and grantee that a change is about. Like `pair_of_membership`."""
    return _pair({(each.dataset, each.grantee) for each in (before, after) if each is not None})


def check_founder(account: Account, founder: AccountId | None) -> None:
    """Raises ValueError, a bug of the caller, for a founder too many or too few."""
    if (account.kind is AccountKind.ORGANISATION) != (founder is not None):
        raise ValueError("an organisation comes with its founder, and nobody else does")


def changed_meanwhile(what: str) -> Changed:
    """The refusal of a change that was decided on something older than what is there."""
    return Changed(f"{what} was changed by somebody else meanwhile", hint=CHANGED_HINT)


def last_admin_of_node() -> LastAdmin:
    """The refusal of what would leave the node without an admin."""
    return LastAdmin("the node would have no admin who is not suspended", hint="make another account an admin first")


def last_admin_of_organisation(organisation: str) -> LastAdmin:
    """The refusal of what would leave an organisation without an admin."""
    return LastAdmin(
        f"organisation {organisation} would have no admin", hint="make another member its admin, or delete it, first"
    )


def datasets_in_use(name: Name, users: Sequence[str]) -> InUse:
    """The refusal of deleting an account under which datasets are named: some of them."""
    return InUse(
        f"datasets are named under account {name}", users=tuple(users), hint="delete them first, or suspend the account"
    )


def identity_taken(identity: ExternalIdentity) -> AlreadyExists:
    """The refusal of an identity that signs in as somebody else."""
    return AlreadyExists(
        f"the identity {identity.subject} of {identity.issuer} belongs to another account",
        hint="sign in with it to use that account",
    )


def _pair(pairs: set[tuple[_Object, _Subject]]) -> tuple[_Object, _Subject]:
    if len(pairs) != 1:
        raise ValueError(f"a change is about one relation, not {len(pairs)}")
    return pairs.pop()
