"""Accounts, their relations and credentials, and the audit log.

New tables, which the code before this does not use: it knows one account, which has no row.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_ACCOUNT_ID = sa.String(128)
_NAME = sa.String(100)


def _folded(characters_max: int) -> sa.String:
    return sa.String(characters_max).with_variant(sa.String(characters_max, collation="C"), "postgresql")


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    _create_accounts()
    _create_relations()
    _create_tokens()
    _create_invitations()
    _create_device_authorisations()
    _create_audit_log()


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    for table in (
        "audit_log",
        "device_authorisations",
        "invitations",
        "tokens",
        "relations",
        "identities",
        "accounts",
    ):
        op.drop_table(table)


def _of_account(table: str, *, nullable: bool = False) -> tuple[sa.Column[str], sa.ForeignKeyConstraint]:
    return (
        sa.Column("account_id", _ACCOUNT_ID, nullable=nullable),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"{table}_account_id_fk", ondelete="CASCADE"),
    )


def _create_accounts() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", _ACCOUNT_ID, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("name_folded", _folded(100), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text()),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("suspended_at", sa.BigInteger()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("password_hash", sa.Text()),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="accounts_pk"),
        sa.UniqueConstraint("name_folded", name="accounts_name_folded_key"),
    )
    op.create_table(
        "identities",
        sa.Column("issuer", _folded(512), nullable=False),
        sa.Column("subject", _folded(256), nullable=False),
        *_of_account("identities"),
        sa.PrimaryKeyConstraint("issuer", "subject", name="identities_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("identities_account_id_idx", "identities", ["account_id"])


def _create_relations() -> None:
    op.create_table(
        "relations",
        sa.Column("object", _folded(160), nullable=False),
        sa.Column("subject", _folded(128), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("object", "subject", name="relations_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("relations_subject_object_idx", "relations", ["subject", "object"])


def _create_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", _folded(128), nullable=False),
        *_of_account("tokens"),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("datasets", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", _ACCOUNT_ID, nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("last_used_at", sa.BigInteger()),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="tokens_pk"),
    )
    op.create_index("tokens_account_id_id_idx", "tokens", ["account_id", "id"])
    op.create_index("tokens_expires_at_idx", "tokens", ["expires_at"])
    op.create_index("tokens_revoked_at_idx", "tokens", ["revoked_at"])


def _create_invitations() -> None:
    op.create_table(
        "invitations",
        sa.Column("id", _folded(128), nullable=False),
        sa.Column("code_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", _ACCOUNT_ID),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        *_of_account("invitations", nullable=True),
        sa.Column("name", _NAME),
        sa.Column("email", sa.Text()),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("used_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="invitations_pk"),
        sa.UniqueConstraint("code_hash", name="invitations_code_hash_key"),
    )
    op.create_index("invitations_account_id_idx", "invitations", ["account_id"])


def _create_device_authorisations() -> None:
    op.create_table(
        "device_authorisations",
        sa.Column("device_code_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_code", sa.String(32), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("interval_s", sa.Integer(), nullable=False),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("decision", sa.String(16), nullable=False),
        *_of_account("device_authorisations", nullable=True),
        sa.Column("asked_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("device_code_hash", name="device_authorisations_pk"),
        sa.UniqueConstraint("user_code", name="device_authorisations_user_code_key"),
    )
    op.create_index("device_authorisations_account_id_idx", "device_authorisations", ["account_id"])


def _create_audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("position", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("actor_account", _ACCOUNT_ID),
        sa.Column("actor_name", sa.Text()),
        sa.Column("actor_token", sa.Text()),
        sa.Column("actor_address", sa.Text()),
        sa.Column("target", sa.Text()),
        sa.Column("dataset_id", sa.String(69)),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("refusal_key", sa.LargeBinary()),
        sa.Column("is_flushed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("position", name="audit_log_pk"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_log_actor_account_position_idx", "audit_log", ["actor_account", "position"])
    op.create_index("audit_log_kind_position_idx", "audit_log", ["kind", "position"])
    op.create_index("audit_log_at_idx", "audit_log", ["at"])
    op.create_index("audit_log_target_idx", "audit_log", ["target"], postgresql_using="hash")
    _create_partial_index("audit_log_not_flushed_idx", ["position"], where="is_flushed IS FALSE")
    _create_partial_index("audit_log_refusal_key_idx", ["refusal_key"], where="refusal_key IS NOT NULL", unique=True)


def _create_partial_index(name: str, columns: list[str], *, where: str, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, "audit_log", columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
