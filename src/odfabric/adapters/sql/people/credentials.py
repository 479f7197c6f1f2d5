"""Tokens, invitations and device authorisations in SQL.

Owns the statements behind `ports.people.credentials`. Invariant: what works once is spent by one UPDATE or DELETE with that condition in it, in
the transaction of what it buys. Rows of accounts are held before rows of credentials.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Connection, Row, delete, func, or_, select, text, update

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.people.account_rows import hold_account, insert_account, replace_password
from odfabric.adapters.sql.tables.people import device_authorisations, invitations, tokens
from odfabric.errors import AlreadyExists, NotFound
from odfabric.model.identity import AccountId, Name
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.people.account import Account
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.credential import (
    AccessToken,
    DeviceAuthorisation,
    DeviceDecision,
    Invitation,
    TokenKind,
)
from odfabric.ports.people.credentials import USE_REMEMBERED_S, password_of_known, too_many_devices


class SqlTokens:
    """A Tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, token: AccessToken, *, audit: AuditEntry) -> None:
        """See the port."""
        with self._database.write() as connection:
            _insert_token(connection, token)
            insert_audit(connection, [audit])

    def get(self, token_id: str) -> AccessToken | None:
        """See the port."""
        with self._database.read() as connection:
            found = connection.execute(select(tokens).where(tokens.c.id == token_id)).one_or_none()
        return _token(found) if found else None

    def of_account(
        self, account: AccountId, *, kinds: Collection[TokenKind], after: str | None = None, limit: int
    ) -> Sequence[AccessToken]:
        """See the port."""
        wanted = select(tokens).where(_not_revoked(account, kinds))
        if after is not None:
            wanted = wanted.where(tokens.c.id > after)
        with self._database.read() as connection:
            return [_token(row) for row in connection.execute(wanted.order_by(tokens.c.id).limit(limit))]

    def revoke(self, token_id: str, *, now: Instant, audit: AuditEntry) -> bool:
        """See the port."""
        ended = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
        with self._database.write() as connection:
            found = connection.execute(ended.values(revoked_at=now).returning(tokens.c.expires_at)).one_or_none()
            if found is None:
                return False
            insert_audit(connection, [audit])
            return found.expires_at is None or found.expires_at > now

    def revoke_all(self, account: AccountId, *, kinds: Collection[TokenKind], now: Instant, audit: AuditEntry) -> int:
        """See the port."""
        ended = update(tokens).where(_not_revoked(account, kinds)).values(revoked_at=now)
        with self._database.write() as connection:
            count = connection.execute(ended).rowcount
            if count:
                insert_audit(connection, [audit])
            return count

    def used(self, token_id: str, *, now: Instant) -> None:
        """See the port."""
        before = _after(now, -USE_REMEMBERED_S)
        old = (tokens.c.id == token_id) & or_(tokens.c.last_used_at.is_(None), tokens.c.last_used_at < before)
        # It happens with every request: anyone who has nothing to remember does not wait for the right to write.
        with self._database.read() as connection:
            if connection.execute(select(tokens.c.id).where(old)).one_or_none() is None:
                return
        with self._database.write() as connection:
            connection.execute(update(tokens).where(old).values(last_used_at=now))

    def forget(self, *, ended_before: Instant, limit: int) -> int:
        """See the port."""
        ended = or_(tokens.c.expires_at < ended_before, tokens.c.revoked_at < ended_before)
        with self._database.write() as connection:
            gone = delete(tokens).where(tokens.c.id.in_(select(tokens.c.id).where(ended).limit(limit)))
            return connection.execute(gone).rowcount


class SqlInvitations:
    """An Invitations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, invitation: Invitation, *, audit: AuditEntry) -> None:
        """See the port."""
        values = {
            "id": invitation.id,
            "code_hash": invitation.code_hash,
            "created_at": invitation.created_at,
            "created_by": invitation.created_by,
            "expires_at": invitation.expires_at,
            "account_id": invitation.account,
            "name": str(invitation.name) if invitation.name is not None else None,
            "email": invitation.email,
            "is_admin": invitation.is_admin,
            "used_at": invitation.used_at,
        }
        with self._database.write() as connection:
            if invitation.account is not None:
                hold_account(connection, invitation.account)
            if not insert_new(connection, invitations, values):
                raise AlreadyExists(f"invitation {invitation.id} exists already")
            insert_audit(connection, [audit])

    def by_code(self, code_hash: bytes) -> Invitation | None:
        """See the port."""
        return self._one(invitations.c.code_hash == code_hash)

    def get(self, invitation_id: str) -> Invitation | None:
        """See the port."""
        return self._one(invitations.c.id == invitation_id)

    def open(self, *, now: Instant, limit: int) -> Sequence[Invitation]:
        """See the port."""
        wanted = select(invitations).where(invitations.c.used_at.is_(None), invitations.c.expires_at > now)
        newest = wanted.order_by(invitations.c.created_at.desc(), invitations.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            return [_invitation(row) for row in connection.execute(newest)]

    def use(
        self, invitation: Invitation, account: Account, password_hash: str | None, *, now: Instant, audit: AuditEntry
    ) -> Account:
        """See the port."""
        changed = password_of_known(invitation, password_hash)
        usable = (
            (invitations.c.id == invitation.id) & invitations.c.used_at.is_(None) & (invitations.c.expires_at > now)
        )
        with self._database.write() as connection:
            if invitation.account is not None and changed is not None:
                # Before the invitation, which goes with the account.
                account = replace_password(connection, invitation.account, changed, at=now)
            if connection.execute(update(invitations).where(usable).values(used_at=now)).rowcount == 0:
                raise NotFound("invitation", invitation.id)
            if invitation.account is None:
                insert_account(connection, account, password_hash=password_hash)
            insert_audit(connection, [audit])
            return account

    def revoke(self, invitation_id: str, *, audit: AuditEntry) -> bool:
        """See the port."""
        unused = delete(invitations).where(invitations.c.id == invitation_id, invitations.c.used_at.is_(None))
        with self._database.write() as connection:
            if connection.execute(unused).rowcount == 0:
                return False
            insert_audit(connection, [audit])
            return True

    def _one(self, condition: ColumnElement[bool]) -> Invitation | None:
        with self._database.read() as connection:
            found = connection.execute(select(invitations).where(condition)).one_or_none()
        return _invitation(found) if found else None


class SqlDeviceAuthorisations:
    """A DeviceAuthorisations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, device: DeviceAuthorisation, *, waiting_max: int) -> None:
        """See the port."""
        values = {
            "device_code_hash": device.device_code_hash,
            "user_code": device.user_code,
            "client": device.client,
            "created_at": device.created_at,
            "expires_at": device.expires_at,
            "interval_s": device.interval_s,
            "scopes": device.scopes,
            "decision": device.decision.value,
            "account_id": device.account,
            "asked_at": device.asked_at,
        }
        with self._database.write() as connection:
            if not self._database.is_sqlite:
                # Strangers ask: each of many at once must be counted.
                connection.execute(text("LOCK TABLE device_authorisations IN SHARE ROW EXCLUSIVE MODE"))
            expired = device_authorisations.c.expires_at <= device.created_at
            connection.execute(delete(device_authorisations).where(expired))
            if connection.execute(select(func.count()).select_from(device_authorisations)).scalar_one() >= waiting_max:
                raise too_many_devices(waiting_max)
            if not insert_new(connection, device_authorisations, values):
                raise AlreadyExists("the code of a device is in use already")

    def by_user_code(self, user_code: str) -> DeviceAuthorisation | None:
        """See the port."""
        wanted = select(device_authorisations).where(device_authorisations.c.user_code == user_code)
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return _device(found) if found else None

    def decide(
        self, user_code: str, decision: DeviceDecision, account: AccountId, *, now: Instant, audit: AuditEntry
    ) -> None:
        """See the port."""
        undecided = update(device_authorisations).where(
            device_authorisations.c.user_code == user_code,
            device_authorisations.c.decision == DeviceDecision.PENDING.value,
            device_authorisations.c.expires_at > now,
        )
        with self._database.write() as connection:
            hold_account(connection, account)
            decided = connection.execute(undecided.values(decision=decision.value, account_id=account))
            if decided.rowcount == 0:
                raise NotFound("device", user_code)
            insert_audit(connection, [audit])

    def ask(self, device_code_hash: bytes, *, now: Instant, slow_down_s: int) -> DeviceAuthorisation | None:
        """See the port."""
        is_it = device_authorisations.c.device_code_hash == device_code_hash
        with self._database.write() as connection:
            found = connection.execute(select(device_authorisations).where(is_it).with_for_update()).one_or_none()
            if found is None:
                return None
            device = _device(found)
            fast = device.asked_at is not None and now < _after(device.asked_at, device.interval_s)
            interval_s = device.interval_s + (slow_down_s if fast else 0)
            asked = update(device_authorisations).where(is_it).values(asked_at=now, interval_s=interval_s)
            connection.execute(asked)
            return device

    def redeem(self, device_code_hash: bytes, token: AccessToken, *, audit: AuditEntry) -> bool:
        """See the port."""
        approved = delete(device_authorisations).where(
            device_authorisations.c.device_code_hash == device_code_hash,
            device_authorisations.c.decision == DeviceDecision.APPROVED.value,
            device_authorisations.c.account_id == token.account,
        )
        with self._database.write() as connection:
            try:
                hold_account(connection, token.account)
            except NotFound:
                return False
            if connection.execute(approved).rowcount == 0:
                return False
            _insert_token(connection, token)
            insert_audit(connection, [audit])
            return True


def _insert_token(connection: Connection, token: AccessToken) -> None:
    values = {
        "id": token.id,
        "account_id": token.account,
        "kind": token.kind.value,
        "name": token.name,
        "secret_hash": token.secret_hash,
        "scopes": token.scopes,
        "datasets": token.datasets,
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
        "revoked_at": token.revoked_at,
    }
    hold_account(connection, token.account)
    if not insert_new(connection, tokens, values):
        raise AlreadyExists(f"token {token.id} exists already")


def _not_revoked(account: AccountId, kinds: Collection[TokenKind]) -> ColumnElement[bool]:
    return (
        (tokens.c.account_id == account)
        & tokens.c.kind.in_(sorted(kind.value for kind in kinds))
        & tokens.c.revoked_at.is_(None)
    )


def _after(time: Instant, seconds: int) -> Instant:
    return Instant(time.epoch_ns + seconds * NANOS_PER_SECOND)


def _token(row: Row[tuple[object, ...]]) -> AccessToken:
    return AccessToken(
        id=row.id,
        account=row.account_id,
        kind=TokenKind(row.kind),
        name=row.name,
        secret_hash=row.secret_hash,
        scopes=row.scopes,
        created_at=row.created_at,
        created_by=row.created_by,
        datasets=row.datasets,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )


def _invitation(row: Row[tuple[object, ...]]) -> Invitation:
    return Invitation(
        id=row.id,
        code_hash=row.code_hash,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        account=row.account_id,
        name=Name(row.name) if row.name is not None else None,
        email=row.email,
        is_admin=row.is_admin,
        used_at=row.used_at,
    )


def _device(row: Row[tuple[object, ...]]) -> DeviceAuthorisation:
    return DeviceAuthorisation(
        device_code_hash=row.device_code_hash,
        user_code=row.user_code,
        client=row.client,
        created_at=row.created_at,
        expires_at=row.expires_at,
        interval_s=row.interval_s,
        scopes=row.scopes,
        decision=DeviceDecision(row.decision),
        account=row.account_id,
        asked_at=row.asked_at,
    )
