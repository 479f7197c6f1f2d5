"""Accounts in SQL.

Owns the statements behind `ports.people.accounts.Accounts`. Invariants: names are unique by constraint, whatever their case; a change has the
version that was read in its condition; whatever might take the last admin away is done alone and counts the admins afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Select, delete, func, literal, or_, select, update

from odfabric.adapters.sql.audit import insert_audit
from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.people.account_rows import (
    account_of,
    change_admins_alone,
    changeable_values,
    hold_account,
    insert_account,
    replace_password,
)
from odfabric.adapters.sql.people.relations import insert_founder, remove_relations_of_account
from odfabric.adapters.sql.subscriptions.deliveries import drop_subscriptions_of_account
from odfabric.adapters.sql.tables.datasets import datasets
from odfabric.adapters.sql.tables.people import accounts, identities
from odfabric.errors import NotFound
from odfabric.model.identity import AccountId, Name
from odfabric.model.people.account import Account, AccountKind, ExternalIdentity
from odfabric.model.people.audit import AuditEntry
from odfabric.ports.people.accounts import (
    USERS_TOLD_MAX,
    changed_meanwhile,
    check_founder,
    datasets_in_use,
    identity_taken,
    last_admin_of_node,
)
from odfabric.ports.people.audit import storable_text

_IS_ADMIN = accounts.c.is_admin & accounts.c.suspended_at.is_(None)


class SqlAccounts:
    """An Accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def by_id(self, account: AccountId) -> Account | None:
        """See the port."""
        return self._one(select(accounts).where(accounts.c.id == account))

    def by_name(self, name: Name) -> Account | None:
        """See the port."""
        return self._one(select(accounts).where(accounts.c.name_folded == name.folded))

    def by_identity(self, identity: ExternalIdentity) -> Account | None:
        """See the port."""
        return self._one(select(accounts).join(identities).where(_is(identity)))

    def identities(self, account: AccountId) -> Sequence[ExternalIdentity]:
        """See the port."""
        wanted = select(identities).where(identities.c.account_id == account)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(identities.c.issuer, identities.c.subject)).all()
        return [ExternalIdentity(issuer=row.issuer, subject=row.subject) for row in rows]

    def page(
        self, *, kind: AccountKind | None = None, containing: str = "", after: Name | None = None, limit: int
    ) -> Sequence[Account]:
        """See the port."""
        wanted = select(accounts)
        if kind is not None:
            wanted = wanted.where(accounts.c.kind == kind.value)
        if containing:
            text = storable_text(containing).lower()
            is_named = accounts.c.name_folded.contains(text, autoescape=True)
            wanted = wanted.where(or_(is_named, func.lower(accounts.c.email).contains(text, autoescape=True)))
        if after is not None:
            wanted = wanted.where(accounts.c.name_folded > after.folded)
        return self._by_name(wanted, limit)

    def admins(self, *, limit: int) -> Sequence[Account]:
        """See the port."""
        return self._by_name(select(accounts).where(_IS_ADMIN), limit)

    def create(self, account: Account, *, audit: AuditEntry, founder: AccountId | None = None) -> None:
        """See the port."""
        check_founder(account, founder)
        with self._database.write() as connection:
            insert_account(connection, account)
            if founder is not None:
                insert_founder(connection, account.id, founder)
            insert_audit(connection, [audit])

    def change(self, account: Account, *, audit: AuditEntry) -> Account:
        """See the port."""
        stays = account.is_admin and account.suspended_at is None
        held = select(accounts).where(accounts.c.id == account.id).with_for_update(key_share=True)
        changed = (
            update(accounts)
            .where(accounts.c.id == account.id, accounts.c.version == account.version)
            .values(version=account.version + 1, **changeable_values(account))
            .returning(accounts)
        )
        with self._database.write() as connection:
            if not stays:
                change_admins_alone(connection)
            before = connection.execute(held).one_or_none()
            if before is None:
                raise NotFound("account", str(account.name))
            row = connection.execute(changed).one_or_none()
            if row is None:
                raise changed_meanwhile(f"account {account.name}")
            if not stays and before.is_admin and before.suspended_at is None:
                _check_has_admin(connection)
            insert_audit(connection, [audit])
            return account_of(row)

    def delete(self, account: AccountId, *, audit: AuditEntry) -> None:
        """See the port."""
        held = select(accounts).where(accounts.c.id == account).with_for_update()
        with self._database.write() as connection:
            change_admins_alone(connection)
            found = connection.execute(held).one_or_none()
            if found is None:
                raise NotFound("account", str(account))
            remove_relations_of_account(connection, account)
            drop_subscriptions_of_account(connection, account)
            connection.execute(delete(accounts).where(accounts.c.id == account))
            if found.is_admin and found.suspended_at is None:
                _check_has_admin(connection)
            _check_owns_nothing(connection, Name(found.name))
            insert_audit(connection, [audit])

    def password_hash(self, account: AccountId) -> str | None:
        """See the port."""
        with self._database.read() as connection:
            wanted = select(accounts.c.password_hash).where(accounts.c.id == account)
            return connection.execute(wanted).scalar_one_or_none()

    def set_password(self, account: AccountId, password_hash: str, *, audit: AuditEntry) -> None:
        """See the port."""
        with self._database.write() as connection:
            replace_password(connection, account, password_hash, at=audit.at)
            insert_audit(connection, [audit])

    def link_identity(self, account: AccountId, identity: ExternalIdentity, *, audit: AuditEntry) -> None:
        """See the port."""
        values = {"issuer": identity.issuer, "subject": identity.subject, "account_id": account}
        with self._database.write() as connection:
            hold_account(connection, account)
            if insert_new(connection, identities, values):
                insert_audit(connection, [audit])
                return
            owner = connection.execute(select(identities.c.account_id).where(_is(identity))).scalar_one()
            if owner != account:
                raise identity_taken(identity)

    def _one(self, wanted: Select[tuple[object, ...]]) -> Account | None:
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return account_of(found) if found else None

    def _by_name(self, wanted: Select[tuple[object, ...]], limit: int) -> Sequence[Account]:
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(accounts.c.name_folded).limit(limit)).all()
        return [account_of(row) for row in rows]


def _check_has_admin(connection: Connection) -> None:
    if connection.execute(select(literal(1)).where(_IS_ADMIN).limit(1)).first() is None:
        raise last_admin_of_node()


def _check_owns_nothing(connection: Connection, name: Name) -> None:
    owned = select(datasets.c.account, datasets.c.name).where(datasets.c.account_folded == name.folded)
    rows = connection.execute(owned.order_by(datasets.c.name_folded).limit(USERS_TOLD_MAX)).all()
    if rows:
        raise datasets_in_use(name, [f"{row.account}/{row.name}" for row in rows])


def _is(identity: ExternalIdentity) -> ColumnElement[bool]:
    return (identities.c.issuer == identity.issuer) & (identities.c.subject == identity.subject)
