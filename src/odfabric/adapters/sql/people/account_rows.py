"""Rows of accounts, as several adapters write them.

Owns the mapping of accounts to columns and the order of locks: rows of accounts before rows that refer to them, so that a deletion and
what it would take along wait for each other instead of dying. Changes after which somebody may be the last admin are made one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields

from sqlalchemy import Connection, Row, literal, select, text, update

from odfabric.adapters.sql.database import insert_new
from odfabric.adapters.sql.tables.people import accounts, tokens
from odfabric.errors import AlreadyExists, NotFound
from odfabric.model.identity import AccountId, Name
from odfabric.model.instant import Instant
from odfabric.model.people.account import Account, AccountKind, AccountLimits
from odfabric.model.people.credential import TokenKind
from odfabric.ports.people.accounts import NAME_TAKEN_HINT

_ADMIN_CHANGES = 0x6F646662


def account_of(row: Row[tuple[object, ...]]) -> Account:
    """The account of a row."""
    return Account(
        id=row.id,
        name=Name(row.name),
        kind=AccountKind(row.kind),
        display_name=row.display_name,
        created_at=row.created_at,
        email=row.email,
        is_admin=row.is_admin,
        suspended_at=row.suspended_at,
        limits=_limits(row.limits),
        version=row.version,
    )


def changeable_values(account: Account) -> Mapping[str, object]:
    """Columns that a change of an account may change."""
    return {
        "display_name": account.display_name,
        "email": account.email,
        "is_admin": account.is_admin,
        "suspended_at": account.suspended_at,
        "limits": _limits_text(account.limits),
    }


def insert_account(connection: Connection, account: Account, *, password_hash: str | None = None) -> None:
    """Insert a new account; waits for another one that takes its id or name.

    Raises AlreadyExists.
    """
    values = {
        "id": account.id,
        "name": str(account.name),
        "name_folded": account.name.folded,
        "kind": account.kind.value,
        "created_at": account.created_at,
        "version": account.version,
        "password_hash": password_hash,
        **changeable_values(account),
    }
    if not insert_new(connection, accounts, values):
        named = select(literal(1)).where(accounts.c.name_folded == account.name.folded)
        if connection.execute(named).one_or_none() is None:
            raise AlreadyExists(f"account {account.id} exists already")
        raise AlreadyExists(f"an account with the name {account.name} exists already", hint=NAME_TAKEN_HINT)


def hold_account(connection: Connection, account: AccountId, *, kind: AccountKind | None = None) -> None:
    """Keep an account from being deleted until the transaction has ended.

    Raises NotFound, also for an account of another kind.
    """
    held = select(accounts.c.kind).where(accounts.c.id == account).with_for_update(read=True, key_share=True)
    found = connection.execute(held).scalar_one_or_none()
    if found is None or (kind is not None and found != kind.value):
        raise NotFound(kind.value if kind else "account", str(account))


def hold_name(connection: Connection, name: Name) -> None:
    """Keep the account of a name, which is about to own something, from being deleted."""
    held = select(literal(1)).where(accounts.c.name_folded == name.folded)
    connection.execute(held.with_for_update(read=True, key_share=True))


def replace_password(connection: Connection, account: AccountId, password_hash: str, *, at: Instant) -> Account:
    """Store another hash and end the browser sessions; returns the account.

    Raises NotFound.
    """
    replaced = update(accounts).where(accounts.c.id == account).values(password_hash=password_hash).returning(accounts)
    row = connection.execute(replaced).one_or_none()
    if row is None:
        raise NotFound("account", str(account))
    sessions = update(tokens).where(
        tokens.c.account_id == account, tokens.c.kind == TokenKind.SESSION.value, tokens.c.revoked_at.is_(None)
    )
    connection.execute(sessions.values(revoked_at=at))
    return account_of(row)


def change_admins_alone(connection: Connection) -> None:
    """Run transactions that may take the last admin away one at a time.

    The first statement of such a transaction: each of two admins who leave at once would see the other one stay. On SQLite the
    transaction has the write lock already.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _ADMIN_CHANGES})


def _limits_text(limits: AccountLimits) -> str:
    given = {field.name: getattr(limits, field.name) for field in fields(limits)}
    return json.dumps({name: value for name, value in given.items() if value is not None}, sort_keys=True)


def _limits(document: str) -> AccountLimits:
    """Limits that a newer release may have written besides are left alone."""
    value = json.loads(document)
    return AccountLimits(**{field.name: value.get(field.name) for field in fields(AccountLimits)})
