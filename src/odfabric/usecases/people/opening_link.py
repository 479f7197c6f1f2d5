"""A link that opens the console without a password, for the node's own machine.

`odf up` prints it. Its code is a session that lives for minutes and is traded once for the browser's own; the operator could do as much with
the token of the workspace. Invariant: of several who follow one link one gets in.
"""

from __future__ import annotations

from odfabric.domain.people.access import LOCAL_ACCOUNT
from odfabric.errors import CredentialRefused, NotFound
from odfabric.model.people.account import Account
from odfabric.model.people.audit import THE_NODE, Actor, AuditKind
from odfabric.model.people.credential import ALL_SCOPES, TokenKind
from odfabric.usecases.people.ports import PeoplePorts
from odfabric.usecases.people.sign_in import open_session
from odfabric.usecases.people.tokens import (
    IssuedToken,
    NewToken,
    authenticate_session,
    find_token,
    issue,
)

LINK_NAME = "opening link"


def issue_opening_link(*, ports: PeoplePorts) -> str | None:
    """The code of a new link for the operator's own account.

    None if that account is gone or suspended.
    """
    operator = ports.accounts.by_name(LOCAL_ACCOUNT)
    if operator is None or operator.suspended_at is not None:
        return None
    wanted = NewToken(
        name=LINK_NAME,
        kind=TokenKind.SESSION,
        scopes=ALL_SCOPES,
        expires_at=ports.later(ports.limits.opening_link_s),
    )
    issued = issue(operator, wanted, created_by=operator, ports=ports)
    entry = ports.entry(AuditKind.TOKEN_CREATED, THE_NODE, target=str(operator.name), token=issued.token.id)
    ports.tokens.create(issued.token, audit=entry)
    return issued.text


def use_opening_link(code: str, *, device: str, address: str | None, ports: PeoplePorts) -> tuple[Account, IssuedToken]:
    """A browser session of the operator's.

    Raises NotFound for a link that is worth nothing.
    """
    try:
        authenticate_session(code, ports=ports)
        token, account = find_token(code, ports=ports)
    except CredentialRefused:
        raise _worthless() from None
    actor = Actor(account=str(account.id), name=str(account.name), token=token.id, address=address)
    entry = ports.entry(AuditKind.TOKEN_REVOKED, actor, target=str(account.name), token=token.id)
    if token.name != LINK_NAME or not ports.tokens.revoke(token.id, now=ports.clock.now(), audit=entry):
        raise _worthless()
    return account, open_session(account, how="link", device=device, address=address, ports=ports)


def _worthless() -> NotFound:
    return NotFound("link", "of this address", hint="it works once and for minutes: `odf up` prints a new one")
