"""Who may do what: the one policy of a node, deny by default.

Owns the decision for every route, job, subscription, query input, transfer and cursor, as a pure function of the subject, the action and
the relations of the object; and how a refusal looks: anyone who may not read a dataset is informed that it does not exist. Not here: proving
who somebody is (the edge), reading the relations (`usecases.rights.access`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from odfabric.errors import AccessDenied, NotFound, OdfError, Unauthenticated
from odfabric.formats.operations.trace_context import TraceContext
from odfabric.model.identity import AccountName, DatasetAlias, DatasetId, Name
from odfabric.model.people.account import EVERYONE, Account, AccountKind, DatasetRole, Grant, Grantee, OrganisationRole
from odfabric.model.people.audit import Actor
from odfabric.model.people.credential import ALL_SCOPES, Scope

LOCAL_ACCOUNT: AccountName = Name("local")
"""The account that every node begins with; the embedded workspace works as it."""

SYSTEM_ACCOUNT: AccountName = Name("system")
"""Owner of the node's own datasets, which nobody can change by the API. Nobody signs in as it."""

STRANGER_HINT = "send `Authorization: Bearer TOKEN` if it is yours"


class Action(Enum):
    """What is asked for.

    On a dataset, in the order of the roles that they need: READ rows and metadata; FOLLOW it with an account of one's own (subscriptions,
    cursors, verification); PUSH rows; WRITE sources, transforms and pulls; SHARE it (roles, visibility); DELETE it. Elsewhere: CREATE
    datasets under an account, MANAGE an account, SIGN_IN as oneself, ADMINISTER the node.
    """

    READ = "read"
    FOLLOW = "follow"
    PUSH = "push to"
    WRITE = "change"
    SHARE = "share"
    REWRITE = "rewrite the history of"
    DELETE = "delete"
    CREATE = "create"
    MANAGE = "manage"
    SIGN_IN = "act with an account on"
    ADMINISTER = "administer"


class Verdict(Enum):
    """HIDDEN: the subject must not learn that the object exists.

    STRANGER: it would take an account. RESERVED: only the node does it.
    """

    ALLOWED = "allowed"
    HIDDEN = "hidden"
    STRANGER = "stranger"
    DENIED = "denied"
    RESERVED = "reserved"
    OUT_OF_SCOPE = "out-of-scope"


LEAST_ROLES = {
    Action.READ: DatasetRole.READER,
    Action.FOLLOW: DatasetRole.READER,
    Action.PUSH: DatasetRole.CONTRIBUTOR,
    Action.WRITE: DatasetRole.EDITOR,
    Action.SHARE: DatasetRole.MAINTAINER,
    Action.REWRITE: DatasetRole.OWNER,
    Action.DELETE: DatasetRole.OWNER,
}
"""The least role on a dataset that each action on it needs."""

_NEEDED_SCOPES = {
    Action.READ: Scope.READ,
    Action.FOLLOW: Scope.READ,
    Action.PUSH: Scope.PUSH,
    Action.ADMINISTER: Scope.ADMIN,
}
"""Every action that is not listed needs MANAGE, but for SIGN_IN, which any valid token may."""

_INCLUDED_SCOPES = {Scope.MANAGE: frozenset({Scope.MANAGE, Scope.PUSH, Scope.READ})}

_ROLES_OF_MEMBERS = {
    OrganisationRole.MEMBER: DatasetRole.EDITOR,
    OrganisationRole.ADMIN: DatasetRole.OWNER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who asks, and how far the credential goes that proves it.

    Without an account it is a stranger.

    `organisations` are those that the account is a member of. `scopes` and `datasets` (None: all) bound what the account's rights are
    used for; `token` is the id of the token that was shown, `address` the peer's. `trace` is what the request belongs to: it decides nothing.
    """

    account: Account | None = None
    organisations: tuple[tuple[Account, OrganisationRole], ...] = ()
    scopes: frozenset[Scope] = ALL_SCOPES
    datasets: frozenset[DatasetId] | None = None
    token: str | None = None
    address: str | None = None
    trace: TraceContext | None = field(default=None, compare=False)

    def has_scope(self, scope: Scope) -> bool:
        """Whether the credential goes so far."""
        return any(scope in _INCLUDED_SCOPES.get(given, {given}) for given in self.scopes)

    @property
    def is_admin(self) -> bool:
        """Whether the node's admin asks, with a credential that goes so far.

        For its datasets, if it is for certain ones.
        """
        return self.account is not None and self.account.is_admin and self.has_scope(Scope.ADMIN)

    @property
    def administers(self) -> bool:
        """Whether the node's admin asks, with a credential not limited to datasets."""
        return self.is_admin and self.datasets is None

    @property
    def grantees(self) -> frozenset[Grantee]:
        """To whom a grant may be given for this subject to have it."""
        if self.account is None:
            return frozenset({EVERYONE})
        return frozenset({EVERYONE, self.account.id, *(organisation.id for organisation, _ in self.organisations)})

    @property
    def owned_names(self) -> frozenset[Name]:
        """Accounts under which this subject has a role on every dataset."""
        if self.account is None:
            return frozenset()
        return frozenset({self.account.name, *(organisation.name for organisation, _ in self.organisations)})

    def role_in(self, organisation: Name) -> OrganisationRole | None:
        """Role in an organisation by its name."""
        return next((role for found, role in self.organisations if found.name == organisation), None)

    @property
    def actor(self) -> Actor:
        """As the audit names it."""
        if self.account is None:
            return Actor(address=self.address)
        return Actor(account=str(self.account.id), name=str(self.account.name), token=self.token, address=self.address)


STRANGER = Subject(scopes=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Which datasets a subject may read, as a condition that a database can look for.

    See `AccessPolicy.viewer`.

    A dataset is visible if `everything`, or if it is named under `owners` or granted to `grantees`, and its id is in `only`
    (None: any); or if it is granted to everybody. With `open_node` everybody reads every dataset but the system's.
    """

    everything: bool
    open_node: bool
    owners: frozenset[Name]
    grantees: frozenset[Grantee]
    only: frozenset[DatasetId] | None

    def admits(self, dataset: DatasetId, owner: Name, granted: Iterable[Grantee]) -> bool:
        """Whether a dataset named under `owner` and granted to `granted` is visible."""
        to = frozenset(granted)
        if EVERYONE in to or (self.open_node and owner != SYSTEM_ACCOUNT):
            return True
        within = self.only is None or dataset in self.only
        return within and (self.everything or owner in self.owners or bool(self.grantees & to))


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The rules of a node.

    `anonymous_read` opens all its datasets, but the system's, for reading by everybody.
    """

    anonymous_read: bool = False

    def role(
        self, subject: Subject, dataset: DatasetId, owner: AccountName, grants: Sequence[Grant]
    ) -> DatasetRole | None:
        """The role of a subject on a dataset that is named under `owner`.

        `grants` are those on this dataset, to anybody.
        """
        roles = [grant.role for grant in grants if grant.grantee == EVERYONE]
        if self.anonymous_read and owner != SYSTEM_ACCOUNT:
            roles.append(DatasetRole.READER)
        if subject.account is not None and (subject.datasets is None or dataset in subject.datasets):
            roles += [grant.role for grant in grants if grant.grantee in subject.grantees]
            roles += _roles_by_name(subject, owner)
        return max(roles, key=lambda role: role.rank, default=None)

    def decide(
        self, subject: Subject, action: Action, dataset: DatasetId, owner: AccountName, grants: Sequence[Grant]
    ) -> Verdict:
        """Whether `subject` may do `action` to a dataset."""
        role = self.role(subject, dataset, owner, grants)
        if role is None:
            return Verdict.HIDDEN
        in_scope = subject.has_scope(_NEEDED_SCOPES.get(action, Scope.MANAGE))
        if action is Action.READ and (in_scope or self._is_open(owner, grants)):
            return Verdict.ALLOWED
        if subject.account is None:
            return Verdict.STRANGER
        if _is_system_only(subject.account, action, owner):
            return Verdict.RESERVED
        if role.rank < LEAST_ROLES[action].rank:
            return Verdict.DENIED
        return Verdict.ALLOWED if in_scope else Verdict.OUT_OF_SCOPE

    def decide_here(self, subject: Subject, action: Action, *, under: AccountName | None = None) -> Verdict:
        """Whether `subject` may do `action` to the node, or to the account `under`.

        CREATE, MANAGE, SIGN_IN, ADMINISTER, READ.

        READ is listing and asking: everybody may, and gets what is visible. An admin may CREATE and MANAGE under every account but the
        system's; members of an organisation may CREATE under it, its admins MANAGE it. A token for certain datasets does none of it.
        """
        if action is Action.READ:
            return Verdict.ALLOWED
        if subject.account is None:
            return Verdict.STRANGER
        if action is Action.SIGN_IN:
            return Verdict.ALLOWED
        if not self._has_standing(subject, action, under):
            return Verdict.DENIED
        in_scope = subject.datasets is None and subject.has_scope(_NEEDED_SCOPES.get(action, Scope.MANAGE))
        return Verdict.ALLOWED if in_scope else Verdict.OUT_OF_SCOPE

    def viewer(self, subject: Subject) -> Viewer:
        """The datasets of which `decide` lets the subject READ."""
        reads = subject.account is not None and subject.has_scope(Scope.READ)
        return Viewer(
            everything=reads and subject.is_admin,
            open_node=self.anonymous_read,
            owners=subject.owned_names if reads else frozenset(),
            grantees=subject.grantees if reads else frozenset({EVERYONE}),
            only=subject.datasets,
        )

    def _is_open(self, owner: AccountName, grants: Sequence[Grant]) -> bool:
        return (self.anonymous_read and owner != SYSTEM_ACCOUNT) or any(grant.grantee == EVERYONE for grant in grants)

    def _has_standing(self, subject: Subject, action: Action, under: AccountName | None) -> bool:
        account = subject.account
        if account is None or under == SYSTEM_ACCOUNT:
            return False
        if action is Action.ADMINISTER or under is None:
            return account.is_admin
        if subject.is_admin or under == account.name:
            return True
        role = subject.role_in(under)
        return role is OrganisationRole.ADMIN or (role is not None and action is Action.CREATE)


_SYSTEM_ONLY = frozenset({Action.PUSH, Action.WRITE, Action.REWRITE, Action.DELETE})
"""What nobody but the node itself may do to the system's datasets, admins included."""


def _is_system_only(account: Account, action: Action, owner: AccountName) -> bool:
    return owner == SYSTEM_ACCOUNT and action in _SYSTEM_ONLY and account.name != SYSTEM_ACCOUNT


Refused: TypeAlias = Literal[Verdict.HIDDEN, Verdict.STRANGER, Verdict.OUT_OF_SCOPE, Verdict.RESERVED, Verdict.DENIED]
"""Every verdict but ALLOWED."""


def refusal(verdict: Refused, action: Action, subject: Subject, *, shown: str, what: str = "dataset") -> OdfError:
    """The error of a verdict.

    `shown` is what was asked for, as the caller has written it.
    """
    match verdict:
        case Verdict.HIDDEN:
            return hidden(subject, shown, what=what)
        case Verdict.STRANGER:
            return Unauthenticated(
                f"A token is needed to {action.value} {shown}", hint="send `Authorization: Bearer TOKEN`"
            )
        case Verdict.OUT_OF_SCOPE:
            scope = _NEEDED_SCOPES.get(action, Scope.MANAGE).value
            return AccessDenied(f"the token may not {action.value} {shown}", hint=f"use one with the scope `{scope}`")
        case Verdict.RESERVED:
            return AccessDenied(f"{shown} is the node's own: nobody may {action.value} it")
        case Verdict.DENIED:
            name = subject.account.name if subject.account else "a stranger"
            least = LEAST_ROLES.get(action)
            hint = (
                f"it takes the role {least.value}; who may share it can give it"
                if least and what == "dataset"
                else None
            )
            return AccessDenied(f"{name} may not {action.value} {shown}", hint=hint)


def signed_in(subject: Subject) -> Account:
    """The account that asks. Raises Unauthenticated for a stranger."""
    if subject.account is None:
        raise refusal(Verdict.STRANGER, Action.SIGN_IN, subject, shown="this node", what="node")
    return subject.account


def hidden(subject: Subject, shown: str, *, what: str = "dataset") -> NotFound:
    """The same answer for a thing that does not exist and one that is hidden."""
    return NotFound(what, shown, hint=STRANGER_HINT if subject.account is None else None)


def as_organisation(organisation: Account) -> Subject:
    """The subject whose rights count for an organisation's later work.

    Those that it was granted and what it owns.
    """
    if organisation.kind is not AccountKind.ORGANISATION:
        raise ValueError(f"{organisation.name} is no organisation")
    return Subject(account=organisation)


def owner_of(alias: DatasetAlias) -> AccountName:
    """The account under which a dataset of this node is named."""
    return alias.account or LOCAL_ACCOUNT


def _roles_by_name(subject: Subject, owner: AccountName) -> list[DatasetRole]:
    """Roles that come from being somebody, without a grant."""
    roles = [DatasetRole.OWNER] if subject.is_admin else []
    if subject.account is not None and subject.account.name == owner:
        roles.append(DatasetRole.OWNER)
    role = subject.role_in(owner)
    if role is not None:
        roles.append(_ROLES_OF_MEMBERS[role])
    return roles
