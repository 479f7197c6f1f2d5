"""State, old secret and standing of subscriptions, and a log of attempts to deliver.

The code before this neither reads nor writes the columns: it delivers to paused subscriptions too. Subscriptions that it makes
meanwhile name no receiver, so that they share one place among the senders with each other.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_PORTS = {"http": 80, "https": 443}
_NAMES = (
    "state",
    "state_reason",
    "failing_since",
    "old_secret",
    "old_secret_until",
    "receiver",
    "slow",
    "proven",
    "format",
)


def _columns() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("state", sa.String(16), nullable=False, server_default="active"),
        sa.Column("state_reason", sa.Text()),
        sa.Column("failing_since", sa.BigInteger()),
        sa.Column("old_secret", sa.LargeBinary()),
        sa.Column("old_secret_until", sa.BigInteger()),
        sa.Column("receiver", sa.Text(), nullable=False, server_default=""),
        sa.Column("slow", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("proven", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("format", sa.String(16), nullable=False, server_default="cloudevents"),
    )


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    for column in _columns():
        op.add_column("subscriptions", column)
    _name_receivers()
    op.create_table(
        "delivery_attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, nullable=False),
        sa.Column("subscription_id", sa.String(128), nullable=False),
        sa.Column("delivery_id", sa.String(128), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), nullable=False),
        sa.Column("status_code", sa.Integer()),
        sa.Column("failure", sa.String(16)),
        sa.Column("error", sa.Text()),
        sa.Column("request_headers", sa.Text(), nullable=False),
        sa.Column("request_body", sa.LargeBinary(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="delivery_attempts_pk"),
        sqlite_autoincrement=True,
    )
    for name in ("subscription_id", "delivery_id"):
        op.create_index(f"delivery_attempts_{name}_id_idx", "delivery_attempts", [name, "id"])


def downgrade() -> None:
    """Back to the old shape. Paused subscriptions are delivered to again, and old secrets sign no more."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("delivery_attempts")
    for name in reversed(_NAMES):
        op.drop_column("subscriptions", name)


def _name_receivers() -> None:
    """Fill the new columns of the subscriptions that are there."""
    bind = op.get_bind()
    for name, url in bind.execute(sa.text("SELECT id, url FROM subscriptions")).all():
        place = urlsplit(url)
        receiver = f"{place.hostname or ''}:{place.port or _PORTS.get(place.scheme, 80)}"
        bind.execute(
            sa.text("UPDATE subscriptions SET receiver = :receiver WHERE id = :id"), {"receiver": receiver, "id": name}
        )
    bind.execute(
        sa.text(
            "UPDATE subscriptions SET proven = :proven WHERE id IN"
            " (SELECT subscription_id FROM deliveries WHERE status = 'delivered')"
        ),
        {"proven": True},
    )
