"""Stored credentials: access tokens, invitations, device authorisations.

No secret is stored, only hashes.

Every method is one transaction, durable when it returns, together with its audit entry. Raises Determinate or Indeterminate for outside
failures.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from odfabric.errors import LimitExceeded
from odfabric.model.identity import AccountId
from odfabric.model.instant import Instant
from odfabric.model.people.account import Account
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.credential import AccessToken, DeviceAuthorisation, DeviceDecision, Invitation, TokenKind

USE_REMEMBERED_S = 60
"""How exact the time of a token's last use is."""


class Tokens(Protocol):
    """Access tokens, browser sessions among them."""

    def create(self, token: AccessToken, *, audit: AuditEntry) -> None:
        """Store a new token.

        Raises AlreadyExists for a known id, NotFound if the account is gone.
        """

    def get(self, token_id: str) -> AccessToken | None:
        """The token, whatever its state, or None."""

    def of_account(
        self, account: AccountId, *, kinds: Collection[TokenKind], after: str | None = None, limit: int
    ) -> Sequence[AccessToken]:
        """Unrevoked tokens of an account, in order of their ids, strictly after `after`."""

    def revoke(self, token_id: str, *, now: Instant, audit: AuditEntry) -> bool:
        """End a token for good; whether it was still good for anything.

        One that was revoked before stays as it is, without an audit entry.
        """

    def revoke_all(self, account: AccountId, *, kinds: Collection[TokenKind], now: Instant, audit: AuditEntry) -> int:
        """End all tokens of these kinds that are not revoked; how many.

        Without any there is no audit entry.
        """

    def used(self, token_id: str, *, now: Instant) -> None:
        """Remember the use if the last one that is remembered is more than a minute older.

        Nothing happens for an unknown id.
        """

    def forget(self, *, ended_before: Instant, limit: int) -> int:
        """Delete at most `limit` tokens that have expired or were revoked before then.

        How many.
        """


class Invitations(Protocol):
    """Links that work once."""

    def create(self, invitation: Invitation, *, audit: AuditEntry) -> None:
        """Store a new one.

        Raises AlreadyExists for a known id or code, NotFound if its account is gone.
        """

    def by_code(self, code_hash: bytes) -> Invitation | None:
        """The invitation of a code, used or not, or None."""

    def get(self, invitation_id: str) -> Invitation | None:
        """The invitation, or None."""

    def open(self, *, now: Instant, limit: int) -> Sequence[Invitation]:
        """Invitations that can still be used, newest first."""

    def use(
        self, invitation: Invitation, account: Account, password_hash: str | None, *, now: Instant, audit: AuditEntry
    ) -> Account:
        """Mark it used and make `account`, in the same transaction.

        Or, of an invitation for an account, change its password.

        Of several uses at once one succeeds. Raises NotFound if it is used, revoked or has expired; AlreadyExists for a name that is
        taken, in which case it can be used again. A changed password ends the browser sessions of its account; there must be one
        (ValueError).
        """

    def revoke(self, invitation_id: str, *, audit: AuditEntry) -> bool:
        """Delete an unused one; whether there was one."""


class DeviceAuthorisations(Protocol):
    """Devices that wait for a person (RFC 8628)."""

    def create(self, device: DeviceAuthorisation, *, waiting_max: int) -> None:
        """Store a new one, deleting those that have expired.

        Raises AlreadyExists if the user code is in use, LimitExceeded with `device_authorisations_max` if so many wait.
        """

    def by_user_code(self, user_code: str) -> DeviceAuthorisation | None:
        """What a person is asked about, or None."""

    def decide(
        self, user_code: str, decision: DeviceDecision, account: AccountId, *, now: Instant, audit: AuditEntry
    ) -> None:
        """What the person says.

        Raises NotFound for an unknown or expired code or one that was decided already.
        """

    def ask(self, device_code_hash: bytes, *, now: Instant, slow_down_s: int) -> DeviceAuthorisation | None:
        """The device asks: the authorisation as before this question, None if unknown.

        Remembers the time; a question before `interval_s` have passed since the last one makes the interval `slow_down_s` longer.
        """

    def redeem(self, device_code_hash: bytes, token: AccessToken, *, audit: AuditEntry) -> bool:
        """Swap an approved authorisation for the token, once; whether this call did.

        Delete the authorisation that the token's account has approved and store the token.

        Raises AlreadyExists for a known id of a token, and the authorisation stays.
        """


def password_of_known(invitation: Invitation, password_hash: str | None) -> str | None:
    """The password that an invitation gives to its account; None if it makes one.

    Raises ValueError, a bug of the caller, if there is none to give.
    """
    if invitation.account is None:
        return None
    if password_hash is None:
        raise ValueError("an invitation for an account is used to choose its password")
    return password_hash


def too_many_devices(waiting_max: int) -> LimitExceeded:
    """The refusal of one more device."""
    return LimitExceeded(
        "too many devices wait for somebody to approve them", limit="device_authorisations_max", maximum=waiting_max
    )
