"""Single-use links: for a new account, a new password, and the first admin.

Invariant: only the hash of a code is stored, and of several who use one link one succeeds. Anyone who follows a link chooses name (unless it is
given) and password.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.domain.people.access import SYSTEM_ACCOUNT, Action, Subject
from odfabric.errors import AlreadyExists, InvalidRequest, NotFound, Place
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.identity import Name
from odfabric.model.people.account import Account, AccountKind
from odfabric.model.people.audit import THE_NODE, Actor, AuditKind
from odfabric.model.people.credential import Invitation
from odfabric.usecases.people.accounts import checked_email, named_account, new_account
from odfabric.usecases.people.ports import PeoplePorts
from odfabric.usecases.people.sign_in import hashed_password

CODE_BYTES = 24
OPEN_MAX = 1000


@dataclass(frozen=True, slots=True)
class IssuedInvitation:
    """A new invitation and its code, which nobody can tell again."""

    invitation: Invitation
    code: str


def invite(
    *, name: str | None, email: str | None, is_admin: bool, subject: Subject, ports: PeoplePorts
) -> IssuedInvitation:
    """Invite somebody to make an account. For admins of the node.

    With a name of their choice or the one given.

    Raises InvalidName, InvalidRequest, AlreadyExists for a name that is taken, Unauthenticated, AccessDenied.
    """
    ports.access.require_here(subject, Action.ADMINISTER, shown="this node")
    wanted = parse_name(name, type_name="AccountName") if name is not None else None
    if wanted is not None:
        new_account(wanted, ports=ports)
        if ports.accounts.by_name(wanted) is not None:
            raise AlreadyExists(f"the name {wanted} is taken", hint="invite them by another one")
    issued = _issue(by=subject, name=wanted, email=checked_email(email), is_admin=is_admin, ports=ports)
    ports.invitations.create(
        issued.invitation,
        audit=ports.entry(
            AuditKind.INVITATION_CREATED,
            subject,
            target=str(wanted) if wanted else None,
            invitation=issued.invitation.id,
            admin="yes" if is_admin else None,
        ),
    )
    return issued


def reset_password(name: str, *, subject: Subject, ports: PeoplePorts) -> IssuedInvitation:
    """A link by which a user chooses a new password.

    For admins of the node. Raises NotFound, InvalidRequest, AccessDenied.
    """
    ports.access.require_here(subject, Action.ADMINISTER, shown="this node")
    account = named_account(name, ports=ports)
    if account.kind is not AccountKind.USER or account.name == SYSTEM_ACCOUNT:
        raise InvalidRequest(f"nobody signs in as {account.name}", hint="choose the account of a person")
    issued = _issue(by=subject, account=account, ports=ports)
    entry = ports.entry(
        AuditKind.INVITATION_CREATED,
        subject,
        target=str(account.name),
        invitation=issued.invitation.id,
        purpose="password",
    )
    ports.invitations.create(issued.invitation, audit=entry)
    return issued


def list_invitations(*, subject: Subject, ports: PeoplePorts) -> Sequence[Invitation]:
    """Those that can still be used, newest first. For admins of the node."""
    ports.access.require_here(subject, Action.ADMINISTER, shown="this node")
    return ports.invitations.open(now=ports.clock.now(), limit=OPEN_MAX)


def revoke_invitation(invitation_id: str, *, subject: Subject, ports: PeoplePorts) -> None:
    """Make a link worthless. For admins of the node. Raises NotFound."""
    ports.access.require_here(subject, Action.ADMINISTER, shown="this node")
    entry = ports.entry(AuditKind.INVITATION_REVOKED, subject, invitation=invitation_id)
    if not ports.invitations.revoke(invitation_id, audit=entry):
        raise NotFound("invitation", invitation_id)


def look_at(code: str, *, ports: PeoplePorts) -> tuple[Invitation, Account | None]:
    """What a link is for, and of whom if it is for a new password.

    Raises NotFound for one that is worth nothing.
    """
    found = ports.invitations.by_code(_hash(code))
    if found is None or found.used_at is not None or found.expires_at <= ports.clock.now():
        raise _worthless()
    account = ports.accounts.by_id(found.account) if found.account is not None else None
    if found.account is not None and account is None:
        raise _worthless()
    return found, account


def accept(
    code: str, *, name: str | None, display_name: str | None, password: str, address: str | None, ports: PeoplePorts
) -> Account:
    """Use a link: make the account, or change its password.

    `name` is needed where the link names none.

    Raises NotFound for a link that is worth nothing, AlreadyExists, InvalidName, InvalidRequest for a password that is too easy.
    """
    invitation, existing = look_at(code, ports=ports)
    account = existing or new_account(
        _chosen_name(invitation, name),
        display_name=display_name,
        email=invitation.email,
        is_admin=invitation.is_admin,
        ports=ports,
    )
    actor = Actor(account=str(account.id), name=str(account.name), address=address)
    entry = ports.entry(AuditKind.INVITATION_USED, actor, target=str(account.name), invitation=invitation.id)
    hashed = hashed_password(password, account, ports=ports)
    try:
        return ports.invitations.use(invitation, account, hashed, now=ports.clock.now(), audit=entry)
    except NotFound:
        raise _worthless() from None
    except AlreadyExists as error:
        raise AlreadyExists(
            f"the name {account.name} is taken", hint="choose another one; the link is still good"
        ) from error


def first_admin(*, ports: PeoplePorts) -> IssuedInvitation | None:
    """A link for the first admin; older ones become invalid.

    As long as nobody but the operator's own account is an admin.
    """
    admins = ports.accounts.admins(limit=2)
    if any(ports.accounts.password_hash(admin.id) is not None for admin in admins) or len(admins) > 1:
        return None
    for older in ports.invitations.open(now=ports.clock.now(), limit=OPEN_MAX):
        if older.created_by is None and older.is_admin:
            ports.invitations.revoke(
                older.id, audit=ports.entry(AuditKind.INVITATION_REVOKED, THE_NODE, invitation=older.id)
            )
    issued = _issue(by=None, is_admin=True, ports=ports)
    entry = ports.entry(AuditKind.INVITATION_CREATED, THE_NODE, invitation=issued.invitation.id, admin="yes")
    ports.invitations.create(issued.invitation, audit=entry)
    return issued


def _issue(
    *,
    by: Subject | None,
    name: Name | None = None,
    email: str | None = None,
    is_admin: bool = False,
    account: Account | None = None,
    ports: PeoplePorts,
) -> IssuedInvitation:
    code = base64.urlsafe_b64encode(ports.entropy.random_bytes(CODE_BYTES)).decode()
    invitation = Invitation(
        id=ports.entropy.random_bytes(16).hex(),
        code_hash=_hash(code),
        created_at=ports.clock.now(),
        created_by=by.account.id if by is not None and by.account is not None else None,
        expires_at=ports.later(ports.limits.invitation_s),
        account=account.id if account is not None else None,
        name=name,
        email=email,
        is_admin=is_admin,
    )
    return IssuedInvitation(invitation, code)


def _chosen_name(invitation: Invitation, name: str | None) -> Name:
    if invitation.name is not None:
        if name is not None and parse_name(name, type_name="AccountName") != invitation.name:
            raise InvalidRequest(f"the link is for the name {invitation.name}", place=Place(field="name"))
        return invitation.name
    if not name:
        raise InvalidRequest("a name is missing", place=Place(field="name"), hint="choose one")
    return parse_name(name, type_name="AccountName")


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()


def _worthless() -> NotFound:
    return NotFound("invitation", "of this link", hint="it was used, withdrawn or has expired: ask for a new one")
