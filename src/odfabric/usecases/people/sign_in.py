"""Sign-in by password or OpenID Connect identity, for a session or a token.

Invariant: a wrong password and an unknown name take the same work and get the same answer; anyone who has signed in gets a new session, never
one that was there before. Not here: how often somebody may try (the edge), the provider's protocol (`ports.people.identity_provider`).
"""

from __future__ import annotations

from odfabric.domain.people.access import Action, Subject
from odfabric.domain.people.passwords import check_new_password
from odfabric.errors import (
    AccessDenied,
    AccountSuspended,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    WrongCredentials,
)
from odfabric.formats.identifiers.references import NAME_CHARACTERS_MAX, parse_name
from odfabric.model.identity import KeyAccountId, Name
from odfabric.model.people.account import Account, AccountKind, ExternalIdentity
from odfabric.model.people.audit import Actor, AuditKind, AuditOutcome
from odfabric.model.people.credential import ALL_SCOPES, Scope, TokenKind
from odfabric.usecases.people.accounts import new_account
from odfabric.usecases.people.ports import PeoplePorts
from odfabric.usecases.people.tokens import IssuedToken, NewToken, issue

SESSION_NAME_CHARACTERS_MAX = 200
_NOBODY = KeyAccountId(bytes(32))
"""Asked for where there is no account, so that an unknown name takes as long as a known one."""
SUFFIXES_MAX = 100
"""Names that are tried for a new account whose wish is taken."""


def check_password(login: str, password: str, *, address: str | None, ports: PeoplePorts) -> Account:
    """The account of a name and a password.

    Raises LimitExceeded after too many attempts, WrongCredentials, AccountSuspended to who knows the password.
    """
    by_name = _take_attempt(login, address, ports)
    account = _user(login, ports)
    stored = ports.accounts.password_hash(account.id if account is not None else _NOBODY)
    if not ports.passwords.verify(password, stored) or account is None:
        refused_sign_in(login, "password", address=address, ports=ports)
        raise WrongCredentials("name or password is wrong", hint="an admin of the node can send a link for a new one")
    if account.suspended_at is not None:
        refused_sign_in(login, "suspended", address=address, ports=ports)
        raise AccountSuspended(f"the account {account.name} is suspended", hint="ask an admin of the node")
    ports.rate_limits.reset(by_name)
    return account


def open_session(account: Account, *, how: str, device: str, address: str | None, ports: PeoplePorts) -> IssuedToken:
    """A browser session, with all the rights of the account.

    `how` is `password` or the provider, `device` what the browser says it is.
    """
    wanted = NewToken(
        name=device[:SESSION_NAME_CHARACTERS_MAX] or "browser",
        kind=TokenKind.SESSION,
        scopes=ALL_SCOPES,
        expires_at=ports.later(ports.limits.session_s),
    )
    return _store(account, wanted, how=how, address=address, ports=ports)


def open_client(account: Account, *, how: str, client: str, address: str | None, ports: PeoplePorts) -> IssuedToken:
    """A token for a signed-in command: personal, expires as a session does."""
    wanted = NewToken(
        name=client,
        scopes=frozenset({Scope.MANAGE} | ({Scope.ADMIN} if account.is_admin else set())),
        expires_at=ports.later(ports.limits.session_s),
    )
    return _store(account, wanted, how=how, address=address, ports=ports)


def account_of_identity(
    identity: ExternalIdentity,
    *,
    wished_name: str | None,
    display_name: str | None,
    email: str | None,
    may_sign_up: bool,
    address: str | None,
    ports: PeoplePorts,
) -> Account:
    """The account of an identity; a new one if the provider may bring people in.

    `email` is one that the provider has verified.

    Raises AccessDenied for an identity that nobody has linked, AccountSuspended.
    """
    found = ports.accounts.by_identity(identity)
    if found is None and may_sign_up:
        found = _signed_up(identity, wished_name, display_name, email, address=address, ports=ports)
    if found is None:
        refused_sign_in(identity.subject, identity.issuer, address=address, ports=ports)
        raise AccessDenied(
            "no account of this node belongs to this identity",
            hint="sign in otherwise and link it, or ask an admin of the node",
        )
    if found.suspended_at is not None:
        raise AccountSuspended(f"the account {found.name} is suspended", hint="ask an admin of the node")
    return found


def link_identity(identity: ExternalIdentity, *, subject: Subject, ports: PeoplePorts) -> None:
    """Let an identity sign in as the subject's account.

    Raises AlreadyExists if it is another's.
    """
    ports.access.require_here(subject, Action.MANAGE, under=_name(subject), shown="this account")
    if subject.account is not None:
        entry = ports.entry(
            AuditKind.IDENTITY_LINKED, subject, target=str(subject.account.name), issuer=identity.issuer
        )
        ports.accounts.link_identity(subject.account.id, identity, audit=entry)


def change_password(old: str | None, new: str, *, subject: Subject, ports: PeoplePorts) -> None:
    """Replace the subject's own password, which ends its sessions.

    An account without one needs no `old`.

    Raises WrongCredentials, LimitExceeded after too many attempts, InvalidRequest for a password that is too easy, Unauthenticated,
    AccessDenied.
    """
    ports.access.require_here(subject, Action.MANAGE, under=_name(subject), shown="this account")
    account = subject.account
    if account is None:
        raise NotFound("account", "")
    if account.kind is not AccountKind.USER:
        raise InvalidRequest(f"{account.name} is an organisation", hint="its members sign in with their own passwords")
    _check_old(old, account, subject, ports)
    ports.accounts.set_password(
        account.id,
        hashed_password(new, account, ports=ports),
        audit=ports.entry(AuditKind.PASSWORD_CHANGED, subject, target=str(account.name)),
    )


def hashed_password(password: str, account: Account, *, ports: PeoplePorts) -> str:
    """The hash to be stored.

    Raises InvalidRequest for a password that is too easy to guess, LimitExceeded when too many are hashed.
    """
    check_new_password(password, ports.password_rules, name=str(account.name), email=account.email)
    return ports.passwords.hash(password)


def refused_sign_in(login: str, reason: str, *, address: str | None, ports: PeoplePorts) -> None:
    """Count a refused attempt in the audit."""
    entry = ports.entry(
        AuditKind.SIGN_IN_REFUSED,
        Actor(address=address),
        target=login[:100],
        outcome=AuditOutcome.REFUSED,
        reason=reason[:200],
    )
    ports.audit.refused(entry, window_s=ports.limits.refusals_window_s)


def _store(account: Account, wanted: NewToken, *, how: str, address: str | None, ports: PeoplePorts) -> IssuedToken:
    issued = issue(account, wanted, created_by=account, ports=ports)
    actor = Actor(account=str(account.id), name=str(account.name), token=issued.token.id, address=address)
    ports.tokens.create(issued.token, audit=ports.entry(AuditKind.SIGNED_IN, actor, target=str(account.name), how=how))
    return issued


def _check_old(old: str | None, account: Account, subject: Subject, ports: PeoplePorts) -> None:
    """Raises WrongCredentials, LimitExceeded.

    AccessDenied where a first password would let the subject in with more than it has.
    """
    stored = ports.accounts.password_hash(account.id)
    if stored is None:
        if account.is_admin and not subject.has_scope(Scope.ADMIN):
            raise AccessDenied(
                "the token may not choose the first password of an admin", hint="use one with the scope `admin`"
            )
        return
    by_name = _take_attempt(str(account.name), subject.address, ports)
    if not ports.passwords.verify(old or "", stored):
        refused_sign_in(str(account.name), "password", address=subject.address, ports=ports)
        raise WrongCredentials("the old password is wrong")
    ports.rate_limits.reset(by_name)


def _take_attempt(login: str, address: str | None, ports: PeoplePorts) -> str:
    """The key by which attempts at this name are counted.

    Raises LimitExceeded with the seconds to wait, whether there is an account of that name or not.
    """
    limits = ports.limits
    by_name = f"sign-in:name:{login.lower()[:NAME_CHARACTERS_MAX]}"
    counted = [(f"sign-in:address:{address}", "sign_ins_per_address_max", limits.sign_ins_per_address_max)]
    counted.append((by_name, "sign_ins_per_account_max", limits.sign_ins_per_account_max))
    for key, limit, maximum in counted:
        wait_s = ports.rate_limits.take(key, limit=maximum, window_s=limits.sign_in_window_s)
        if wait_s is not None:
            raise LimitExceeded(
                "too many attempts to sign in", limit=limit, maximum=maximum, retry_after_s=max(1, round(wait_s))
            )
    return by_name


def _user(login: str, ports: PeoplePorts) -> Account | None:
    try:
        found = ports.accounts.by_name(parse_name(login, type_name="AccountName"))
    except InvalidName:
        return None
    return found if found is not None and found.kind is AccountKind.USER else None


def _signed_up(
    identity: ExternalIdentity,
    wished_name: str | None,
    display_name: str | None,
    email: str | None,
    *,
    address: str | None,
    ports: PeoplePorts,
) -> Account:
    account = new_account(
        _free_name(wished_name or (email or "").partition("@")[0], ports),
        display_name=display_name,
        email=email,
        ports=ports,
    )
    actor = Actor(account=str(account.id), name=str(account.name), address=address)
    entry = ports.entry(AuditKind.ACCOUNT_CREATED, actor, target=str(account.name), issuer=identity.issuer)
    ports.accounts.create(account, audit=entry)
    linked = ports.entry(AuditKind.IDENTITY_LINKED, actor, target=str(account.name), issuer=identity.issuer)
    ports.accounts.link_identity(account.id, identity, audit=linked)
    return account


def _free_name(wished: str, ports: PeoplePorts) -> Name:
    """A name that is free, as near to the wish as the grammar allows."""
    kept = "-".join("".join(sign if sign.isascii() and sign.isalnum() else " " for sign in wished).split())[:80]
    base = kept or "user"
    for number in range(1, SUFFIXES_MAX):
        name = base if number == 1 else f"{base}-{number}"
        try:
            candidate = parse_name(name, type_name="AccountName")
            new_account(candidate, ports=ports)
        except InvalidName:
            continue
        if ports.accounts.by_name(candidate) is None:
            return candidate
    return parse_name(f"{base}-{ports.entropy.random_bytes(4).hex()}", type_name="AccountName")


def _name(subject: Subject) -> Name | None:
    return subject.account.name if subject.account is not None else None
