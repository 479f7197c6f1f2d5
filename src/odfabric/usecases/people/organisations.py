"""Organisations and their members.

Invariant: an organisation has an admin as long as it exists. A member may leave; only admins of the organisation, and of the node, change
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.domain.people.access import SYSTEM_ACCOUNT, Action, Subject
from odfabric.errors import Changed, InvalidRequest, LimitExceeded, NotFound
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.people.account import Account, AccountKind, Membership, OrganisationRole
from odfabric.model.people.audit import AuditKind
from odfabric.usecases.people.accounts import named_account, new_account, store_account
from odfabric.usecases.people.ports import PeoplePorts


def create_organisation(
    name: str, *, display_name: str | None, email: str | None, subject: Subject, ports: PeoplePorts
) -> Account:
    """A new organisation of which the subject is the first admin.

    Raises InvalidName, AlreadyExists, Unauthenticated, AccessDenied, LimitExceeded.
    """
    founder = subject.account
    own = founder.name if founder else None
    ports.access.require_here(subject, Action.MANAGE, under=own, shown=f"the organisation {name}")
    if founder is None or founder.kind is not AccountKind.USER:
        raise InvalidRequest("only a user can make an organisation", hint="use a token of a person")
    maximum = ports.limits.organisations_per_account_max
    if len(ports.relations.memberships(founder.id)) >= maximum:
        raise LimitExceeded(
            "you are a member of too many organisations", limit="organisations_per_account_max", maximum=maximum
        )
    organisation = new_account(
        parse_name(name, type_name="AccountName"),
        kind=AccountKind.ORGANISATION,
        display_name=display_name,
        email=email,
        ports=ports,
    )
    store_account(organisation, subject=subject, founder=founder, ports=ports)
    return organisation


def list_members(name: str, *, subject: Subject, ports: PeoplePorts) -> Sequence[tuple[Account, Membership]]:
    """Members, for members and admins of the node.

    Others are informed that there is no such organisation.

    Raises NotFound, AccessDenied for a token that may not read it.
    """
    organisation = seen_organisation(name, subject=subject, ports=ports)
    ports.access.require_reader(subject, shown=f"the organisation {name}")
    found = []
    for membership in ports.relations.members(organisation.id, limit=ports.limits.members_max):
        account = ports.accounts.by_id(membership.member)
        if account is not None:
            found.append((account, membership))
    return sorted(found, key=lambda pair: pair[0].name.folded)


def set_member(
    name: str,
    member: str,
    role: OrganisationRole | None,
    *,
    version: int | None = None,
    subject: Subject,
    ports: PeoplePorts,
) -> Membership | None:
    """Give somebody a role in an organisation, or none any more.

    `version` is the one that the caller has seen, 0 for none.

    Raises LastAdmin, Changed, NotFound, AccessDenied, LimitExceeded.
    """
    organisation = seen_organisation(name, subject=subject, ports=ports)
    own = subject.account.name if subject.account is not None else None
    leaves = role is None and own == parse_name(member)
    under = own if leaves else organisation.name
    ports.access.require_here(subject, Action.MANAGE, under=under, shown=f"the organisation {name}")
    account = named_account(member, ports=ports)
    if account.kind is not AccountKind.USER:
        raise InvalidRequest(f"{account.name} is an organisation", hint="members are users")
    before = ports.relations.membership(organisation.id, account.id)
    if version is not None and version != (before.version if before else 0):
        raise Changed(f"the role of {member} was changed meanwhile", hint="read it again, then repeat")
    if before is None and role is None:
        raise NotFound("member", member)
    if before is None:
        _check_room(organisation, ports)
    after = None if role is None else _after(before, organisation, account, role)
    kind = AuditKind.MEMBER_REMOVED if role is None else AuditKind.MEMBER_CHANGED
    entry = ports.entry(
        kind,
        subject,
        target=str(organisation.name),
        member=str(account.name),
        role=role.value if role else None,
        before=before.role.value if before else None,
    )
    return ports.relations.change_membership(before, after, audit=entry)


def seen_organisation(name: str, *, subject: Subject, ports: PeoplePorts) -> Account:
    """An organisation of the subject, or any for a node admin. Raises NotFound."""
    wanted = parse_name(name, type_name="AccountName")
    role = subject.role_in(wanted)
    found = ports.accounts.by_name(wanted) if role is not None or subject.administers else None
    if found is None or found.kind is not AccountKind.ORGANISATION or found.name == SYSTEM_ACCOUNT:
        raise NotFound("organisation", name)
    return found


def _after(before: Membership | None, organisation: Account, account: Account, role: OrganisationRole) -> Membership:
    if before is not None:
        return replace(before, role=role)
    return Membership(organisation=organisation.id, member=account.id, role=role)


def _check_room(organisation: Account, ports: PeoplePorts) -> None:
    maximum = ports.limits.members_max
    if len(ports.relations.members(organisation.id, limit=maximum)) >= maximum:
        raise LimitExceeded(f"{organisation.name} has too many members", limit="members_max", maximum=maximum)
