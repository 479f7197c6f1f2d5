"""Sharing a dataset: who has which role on it, and whether everybody may read it.

Invariant: nobody gives or takes a role above their own; the system's datasets are given to readers only. Anyone who has a role may give it
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odfabric.domain.people.access import SYSTEM_ACCOUNT, Action, Subject, owner_of
from odfabric.errors import AccessDenied, Changed, InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.commit import CatalogEntry
from odfabric.model.people.account import EVERYONE, Account, DatasetRole, Grant, Grantee, Visibility
from odfabric.model.people.audit import AuditKind
from odfabric.usecases.people.accounts import named_account
from odfabric.usecases.people.ports import PeoplePorts


@dataclass(frozen=True, slots=True, kw_only=True)
class Collaborator:
    """An account with a role on a dataset."""

    account: Account
    grant: Grant


def list_collaborators(entry: CatalogEntry, *, subject: Subject, ports: PeoplePorts) -> Sequence[Collaborator]:
    """Who has a role on the dataset beside its owner, by name.

    For those who may share it. Raises AccessDenied, NotFound.
    """
    ports.access.require(subject, Action.SHARE, entry)
    found = []
    for grant in ports.relations.grants(entry.id, limit=ports.limits.collaborators_max + 1):
        account = ports.accounts.by_id(grant.grantee) if grant.grantee != EVERYONE else None
        if account is not None:
            found.append(Collaborator(account=account, grant=grant))
    return sorted(found, key=lambda each: each.account.name.folded)


def set_role(
    entry: CatalogEntry,
    name: str,
    role: DatasetRole | None,
    *,
    version: int | None = None,
    subject: Subject,
    ports: PeoplePorts,
) -> Grant | None:
    """Give an account a role on a dataset, or none any more.

    `version` is the one that the caller has seen, 0 for none.

    Raises NotFound for an account or a role that is not there, AccessDenied above one's own role, Changed, InvalidRequest, LimitExceeded.
    """
    gives_back = role is None and subject.account is not None and subject.account.name.folded == name.lower()
    if gives_back:
        ports.access.require(subject, Action.READ, entry)
        ports.access.require_here(subject, Action.MANAGE, under=parse_name(name), shown=str(entry.alias))
    else:
        ports.access.require(subject, Action.SHARE, entry)
    account = named_account(name, ports=ports)
    _check_grantee(entry, account, role)
    before = ports.relations.grant(entry.id, account.id)
    if version is not None and version != (before.version if before else 0):
        raise Changed(f"the role of {name} was changed meanwhile", hint="read it again, then repeat")
    if before is None and role is None:
        raise NotFound("collaborator", name)
    if not gives_back:
        _check_rank(entry, [role, before.role if before else None], subject, ports)
    if before is None:
        _check_room(entry, ports)
    after = None if role is None else _after(before, entry, account.id, role)
    audit = ports.entry(
        AuditKind.ROLE_REVOKED if role is None else AuditKind.ROLE_GRANTED,
        subject,
        target=str(entry.alias),
        dataset=entry.id,
        account=str(account.name),
        role=role.value if role else None,
        before=before.role.value if before else None,
    )
    return ports.relations.change_grant(before, after, audit=audit)


def visibility_of(entry: CatalogEntry, *, ports: PeoplePorts) -> Visibility:
    """Whether everybody may read the dataset."""
    return Visibility.PRIVATE if ports.relations.grant(entry.id, EVERYONE) is None else Visibility.PUBLIC


def set_visibility(entry: CatalogEntry, wanted: Visibility, *, subject: Subject, ports: PeoplePorts) -> Visibility:
    """Let everybody read the dataset, or not any more.

    Raises AccessDenied, NotFound, Changed, InvalidRequest.
    """
    ports.access.require(subject, Action.SHARE, entry)
    if owner_of(entry.alias) == SYSTEM_ACCOUNT and wanted is Visibility.PUBLIC:
        raise InvalidRequest(f"{entry.alias} is not for everybody", hint="give single accounts the role reader")
    before = ports.relations.grant(entry.id, EVERYONE)
    if (before is not None) == (wanted is Visibility.PUBLIC):
        return wanted
    after = _after(None, entry, EVERYONE, DatasetRole.READER) if wanted is Visibility.PUBLIC else None
    audit = ports.entry(
        AuditKind.VISIBILITY_CHANGED,
        subject,
        target=str(entry.alias),
        dataset=entry.id,
        visibility=wanted.value,
    )
    ports.relations.change_grant(before, after, audit=audit)
    return wanted


def _after(before: Grant | None, entry: CatalogEntry, grantee: Grantee, role: DatasetRole) -> Grant:
    return replace(before, role=role) if before else Grant(dataset=entry.id, grantee=grantee, role=role)


def _check_grantee(entry: CatalogEntry, account: Account, role: DatasetRole | None) -> None:
    owner = owner_of(entry.alias)
    if account.name == owner:
        raise InvalidRequest(f"{account.name} owns {entry.alias}", hint="an owner needs no other role")
    if owner == SYSTEM_ACCOUNT and role not in (None, DatasetRole.READER):
        raise InvalidRequest(
            f"{entry.alias} is written by the node alone", place=Place(field="role"), hint="give the role reader"
        )


def _check_rank(entry: CatalogEntry, roles: Sequence[DatasetRole | None], subject: Subject, ports: PeoplePorts) -> None:
    own = ports.access.policy.role(subject, entry.id, owner_of(entry.alias), ports.access.grants(entry.id, subject))
    highest = max((role.rank for role in roles if role is not None), default=0)
    if own is None or own.rank < highest:
        least = next(role.value for role in DatasetRole if role.rank == highest)
        raise AccessDenied(f"only who has the role {least} on {entry.alias} may give or take it", hint="ask its owner")


def _check_room(entry: CatalogEntry, ports: PeoplePorts) -> None:
    maximum = ports.limits.collaborators_max
    if len(ports.relations.grants(entry.id, limit=maximum)) >= maximum:
        raise LimitExceeded(
            f"{entry.alias} has too many collaborators",
            limit="collaborators_max",
            maximum=maximum,
        )
