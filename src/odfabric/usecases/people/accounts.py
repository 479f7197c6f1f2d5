"""Accounts: find, make, change, suspend, delete.

Invariant: a name is taken once in any case of letters and never changes; the node keeps an admin who is not suspended. Not here: how a
person gets a password (`invitations`), memberships (`organisations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.domain.people.access import SYSTEM_ACCOUNT, Action, Subject
from odfabric.domain.people.names import check_account_name
from odfabric.errors import AlreadyExists, Changed, InvalidRequest, NotFound, Place
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.identity import KeyAccountId, Name
from odfabric.model.people.account import Account, AccountKind, AccountLimits
from odfabric.model.people.audit import AuditKind
from odfabric.usecases.people.ports import PeoplePorts

DISPLAY_NAME_CHARACTERS_MAX = 200
EMAIL_CHARACTERS_MAX = 254


def find_account(name: str, *, subject: Subject, ports: PeoplePorts) -> Account:
    """An account by its name, for anyone who has an account.

    Raises Unauthenticated, AccessDenied for a narrow token, NotFound.
    """
    ports.access.require_reader(subject, shown=f"the account {name}")
    return named_account(name, ports=ports)


def named_account(name: str, *, ports: PeoplePorts) -> Account:
    """An account by its name. Raises InvalidName, NotFound."""
    found = ports.accounts.by_name(parse_name(name, type_name="AccountName"))
    if found is None:
        raise NotFound("account", name)
    return found


def list_accounts(
    *,
    subject: Subject,
    kind: AccountKind | None,
    containing: str = "",
    after: str | None,
    limit: int,
    ports: PeoplePorts,
) -> Sequence[Account]:
    """A page of all accounts, or those with a text in name or e-mail, for admins.

    Raises Unauthenticated, AccessDenied, InvalidName.
    """
    ports.access.require_here(subject, Action.ADMINISTER, shown="this node")
    start = parse_name(after, type_name="AccountName") if after is not None else None
    return ports.accounts.page(kind=kind, containing=containing, after=start, limit=limit)


def new_account(
    name: Name,
    *,
    kind: AccountKind = AccountKind.USER,
    display_name: str | None = None,
    email: str | None = None,
    is_admin: bool = False,
    ports: PeoplePorts,
) -> Account:
    """A new account with an identity of its own, not stored yet.

    Raises InvalidName for a reserved name, InvalidRequest.
    """
    check_account_name(name)
    return Account(
        id=KeyAccountId(ports.keys.create().public),
        name=name,
        kind=kind,
        display_name=checked_display_name(display_name or str(name)),
        email=checked_email(email),
        is_admin=is_admin,
        created_at=ports.clock.now(),
    )


def create_account(
    name: str, *, display_name: str | None, email: str | None, subject: Subject, ports: PeoplePorts
) -> Account:
    """Create a user without a password. For admins of the node.

    An invitation, or an OpenID Connect identity, lets them in.

    Raises InvalidName, AlreadyExists, Unauthenticated, AccessDenied.
    """
    ports.access.require_here(subject, Action.ADMINISTER, shown="this node")
    account = new_account(
        parse_name(name, type_name="AccountName"), display_name=display_name, email=email, ports=ports
    )
    store_account(account, subject=subject, ports=ports)
    return account


def store_account(account: Account, *, subject: Subject, founder: Account | None = None, ports: PeoplePorts) -> None:
    """Store a new account. Raises AlreadyExists with what to do."""
    entry = ports.entry(AuditKind.ACCOUNT_CREATED, subject, target=str(account.name), kind_of=account.kind.value)
    try:
        ports.accounts.create(account, audit=entry, founder=founder.id if founder else None)
    except AlreadyExists as error:
        raise AlreadyExists(
            f"the name {account.name} is taken", hint="names differ by more than the case of their letters"
        ) from error


def change_account(
    name: str,
    *,
    display_name: str | None = None,
    email: str | None = None,
    version: int | None = None,
    subject: Subject,
    ports: PeoplePorts,
) -> Account:
    """Change what an account says of itself.

    None leaves it, an empty e-mail removes it. For itself, its admins, and the node's.

    `version` is the one that the caller has seen. Raises Changed if there is another one, NotFound, AccessDenied, InvalidRequest.
    """
    account = managed_account(name, subject=subject, ports=ports)
    check_version(account, version)
    changed = replace(
        account,
        display_name=account.display_name if display_name is None else checked_display_name(display_name),
        email=account.email if email is None else checked_email(email),
    )
    if changed == account:
        return account
    return ports.accounts.change(changed, audit=ports.entry(AuditKind.ACCOUNT_CHANGED, subject, target=name))


def set_admin(
    name: str, is_admin: bool, *, version: int | None = None, subject: Subject, ports: PeoplePorts
) -> Account:
    """Make a user an admin of the node, or no admin any more.

    Raises LastAdmin, Changed, NotFound, AccessDenied.
    """
    account = _administered(name, version, subject=subject, ports=ports)
    if account.kind is not AccountKind.USER:
        raise InvalidRequest(f"{account.name} is an organisation", hint="make one of its members an admin of the node")
    if account.is_admin == is_admin:
        return account
    kind = AuditKind.ADMIN_GRANTED if is_admin else AuditKind.ADMIN_REVOKED
    entry = ports.entry(kind, subject, target=str(account.name))
    return ports.accounts.change(replace(account, is_admin=is_admin), audit=entry)


def set_suspended(
    name: str, is_suspended: bool, *, version: int | None = None, subject: Subject, ports: PeoplePorts
) -> Account:
    """Suspend an account, of which every credential stops at once, or let it in again.

    Raises LastAdmin, Changed, NotFound.
    """
    account = _administered(name, version, subject=subject, ports=ports)
    if (account.suspended_at is not None) == is_suspended:
        return account
    kind = AuditKind.ACCOUNT_SUSPENDED if is_suspended else AuditKind.ACCOUNT_RESUMED
    changed = replace(account, suspended_at=ports.clock.now() if is_suspended else None)
    return ports.accounts.change(changed, audit=ports.entry(kind, subject, target=str(account.name)))


def set_limits(
    name: str, limits: AccountLimits, *, version: int | None = None, subject: Subject, ports: PeoplePorts
) -> Account:
    """Give an account limits other than those of the node's settings.

    Raises Changed, NotFound, AccessDenied.
    """
    account = _administered(name, version, subject=subject, ports=ports)
    entry = ports.entry(AuditKind.LIMITS_CHANGED, subject, target=str(account.name))
    return ports.accounts.change(replace(account, limits=limits), audit=entry)


def delete_account(name: str, *, subject: Subject, ports: PeoplePorts) -> None:
    """Delete an account that owns no datasets.

    For itself, its admins, and the node's. Raises InUse, LastAdmin, NotFound.
    """
    account = managed_account(name, subject=subject, ports=ports)
    ports.accounts.delete(account.id, audit=ports.entry(AuditKind.ACCOUNT_DELETED, subject, target=str(account.name)))


def managed_account(name: str, *, subject: Subject, ports: PeoplePorts) -> Account:
    """An account that the subject may manage.

    Raises NotFound, Unauthenticated, AccessDenied, InvalidName.
    """
    account_name = parse_name(name, type_name="AccountName")
    ports.access.require_here(subject, Action.MANAGE, under=account_name, shown=f"the account {name}")
    return named_account(name, ports=ports)


def check_version(account: Account, version: int | None) -> None:
    """Raises Changed if the caller has seen another version."""
    if version is not None and version != account.version:
        raise Changed(f"{account.name} was changed meanwhile", hint="read it again, then repeat")


def checked_display_name(text: str) -> str:
    """Raises InvalidRequest for one that is empty, too long or has control characters."""
    shown = text.strip()
    if not 1 <= len(shown) <= DISPLAY_NAME_CHARACTERS_MAX or not shown.isprintable():
        raise InvalidRequest(
            "not a display name",
            place=Place(field="displayName"),
            hint=f"1 to {DISPLAY_NAME_CHARACTERS_MAX} printable characters",
        )
    return shown


def checked_email(text: str | None) -> str | None:
    """None for an empty one.

    Raises InvalidRequest for a text that is no address. Whether it is theirs is not checked.
    """
    if not text:
        return None
    local, at, domain = text.rpartition("@")
    fits = at and local and "." in domain.strip(".") and text.isprintable() and " " not in text
    if not fits or len(text) > EMAIL_CHARACTERS_MAX:
        raise InvalidRequest("not an e-mail address", place=Place(field="email"), hint="for example ann@example.org")
    return text


def _administered(name: str, version: int | None, *, subject: Subject, ports: PeoplePorts) -> Account:
    ports.access.require_here(subject, Action.ADMINISTER, shown="this node")
    account = named_account(name, ports=ports)
    if account.name == SYSTEM_ACCOUNT:
        raise InvalidRequest(f"{account.name} is the node's own account", hint="it stays as it is")
    check_version(account, version)
    return account
