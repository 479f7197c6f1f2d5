"""Device flow (RFC 8628): a command asks for a token, a person approves it online.

Invariant: a device gets a token once, only after somebody with an account has said yes, and with no more than that person's own rights.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from enum import Enum

from odfabric.domain.people.access import Action, Subject
from odfabric.errors import AccessDenied, AlreadyExists, NotFound
from odfabric.model.people.account import Account
from odfabric.model.people.audit import Actor, AuditKind
from odfabric.model.people.credential import DeviceAuthorisation, DeviceDecision, Scope
from odfabric.usecases.people.ports import PeoplePorts
from odfabric.usecases.people.tokens import IssuedToken, NewToken, issue

DEVICE_CODE_BYTES = 32
USER_CODE_CHARACTERS = 8
USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels and look-alikes, so that no words come out (RFC 8628, section 6.1): 20^8 codes."""
ATTEMPTS_MAX = 5
SLOW_DOWN_S = 5
CLIENT_CHARACTERS_MAX = 100


class DeviceAnswer(Enum):
    """Why a device gets no token; the values are those of RFC 8628, section 3.5."""

    PENDING = "authorization_pending"
    SLOW_DOWN = "slow_down"
    DENIED = "access_denied"
    EXPIRED = "expired_token"
    INVALID = "invalid_grant"


@dataclass(frozen=True, slots=True)
class StartedDevice:
    """The device's code, and the authorisation that a person looks at."""

    device_code: str
    authorisation: DeviceAuthorisation


def start_device(client: str, *, scopes: frozenset[Scope] | None, ports: PeoplePorts) -> StartedDevice:
    """A device asks for a token. Raises LimitExceeded if too many wait."""
    device_code = base64.urlsafe_b64encode(ports.entropy.random_bytes(DEVICE_CODE_BYTES)).decode()
    attempt = 0
    while True:
        attempt += 1
        authorisation = DeviceAuthorisation(
            device_code_hash=_hash(device_code),
            user_code=_user_code(ports),
            client=client[:CLIENT_CHARACTERS_MAX],
            created_at=ports.clock.now(),
            expires_at=ports.later(ports.limits.device_s),
            interval_s=ports.limits.device_interval_s,
            scopes=scopes or frozenset({Scope.MANAGE, Scope.ADMIN}),
        )
        try:
            ports.devices.create(authorisation, waiting_max=ports.limits.device_authorisations_max)
        except AlreadyExists:
            if attempt == ATTEMPTS_MAX:
                raise
            continue
        return StartedDevice(device_code, authorisation)


def look_at_device(user_code: str, *, subject: Subject, ports: PeoplePorts) -> DeviceAuthorisation:
    """What a person is asked about.

    Raises NotFound for a code that nobody waits with, Unauthenticated.
    """
    ports.access.require_here(subject, Action.SIGN_IN, shown="this node")
    found = ports.devices.by_user_code(_as_stored(user_code))
    if found is None or found.expires_at <= ports.clock.now() or found.decision is not DeviceDecision.PENDING:
        raise _unknown(user_code)
    return found


def decide_device(user_code: str, *, approve: bool, subject: Subject, ports: PeoplePorts) -> DeviceAuthorisation:
    """A person says yes or no.

    Raises NotFound, Unauthenticated, AccessDenied for a token that may make none, or none that goes so far.
    """
    found = look_at_device(user_code, subject=subject, ports=ports)
    account = subject.account
    if account is None:
        raise _unknown(user_code)
    ports.access.require_here(subject, Action.MANAGE, under=account.name, shown="this account")
    if approve and not all(subject.has_scope(scope) for scope in _scopes(found, account)):
        raise AccessDenied(
            "the device would go further than you", hint="approve it in a browser in which you are signed in"
        )
    decision = DeviceDecision.APPROVED if approve else DeviceDecision.DENIED
    entry = ports.entry(
        AuditKind.DEVICE_DECIDED, subject, target=str(account.name), client=found.client, decision=decision.value
    )
    ports.devices.decide(found.user_code, decision, account.id, now=ports.clock.now(), audit=entry)
    return found


def redeem_device(device_code: str, *, address: str | None, ports: PeoplePorts) -> IssuedToken | DeviceAnswer:
    """The device asks whether somebody has said yes; if so it gets its token, once."""
    now = ports.clock.now()
    hashed = _hash(device_code)
    found = ports.devices.ask(hashed, now=now, slow_down_s=SLOW_DOWN_S)
    if found is None:
        return DeviceAnswer.INVALID
    if found.expires_at <= now:
        return DeviceAnswer.EXPIRED
    if found.decision is DeviceDecision.DENIED:
        return DeviceAnswer.DENIED
    if found.asked_at is not None and now.epoch_ns - found.asked_at.epoch_ns < found.interval_s * 1_000_000_000:
        return DeviceAnswer.SLOW_DOWN
    if found.decision is DeviceDecision.PENDING or found.account is None:
        return DeviceAnswer.PENDING
    account = ports.accounts.by_id(found.account)
    if account is None or account.suspended_at is not None:
        return DeviceAnswer.DENIED
    wanted = NewToken(name=found.client, scopes=_scopes(found, account), expires_at=ports.later(ports.limits.session_s))
    issued = issue(account, wanted, created_by=account, ports=ports)
    actor = Actor(account=str(account.id), name=str(account.name), token=issued.token.id, address=address)
    entry = ports.entry(AuditKind.SIGNED_IN, actor, target=str(account.name), how="device", client=found.client)
    return issued if ports.devices.redeem(hashed, issued.token, audit=entry) else DeviceAnswer.INVALID


def shown_user_code(user_code: str) -> str:
    """As people read it: two halves of four letters."""
    half = USER_CODE_CHARACTERS // 2
    return f"{user_code[:half]}-{user_code[half:]}"


def _scopes(device: DeviceAuthorisation, account: Account) -> frozenset[Scope]:
    """What its token goes as far as, once the account has said yes."""
    scopes = device.scopes if account.is_admin else device.scopes - {Scope.ADMIN}
    return scopes or frozenset({Scope.READ})


def _user_code(ports: PeoplePorts) -> str:
    # Bytes beyond the last multiple of the alphabet would favour its first letters.
    letters, unbiased = "", 256 - 256 % len(USER_CODE_ALPHABET)
    while len(letters) < USER_CODE_CHARACTERS:
        for byte in ports.entropy.random_bytes(USER_CODE_CHARACTERS):
            if byte < unbiased:
                letters += USER_CODE_ALPHABET[byte % len(USER_CODE_ALPHABET)]
    return letters[:USER_CODE_CHARACTERS]


def _as_stored(user_code: str) -> str:
    return "".join(sign for sign in user_code.upper() if sign in USER_CODE_ALPHABET)[: USER_CODE_CHARACTERS + 1]


def _hash(device_code: str) -> bytes:
    return hashlib.sha256(device_code.encode()).digest()


def _unknown(user_code: str) -> NotFound:
    return NotFound("code", user_code[:20], hint="it has expired or was used: let the command ask again")
