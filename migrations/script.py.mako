"""${message}

What it changes and why, and what the two releases around it rely on (ADR 0006: expand, backfill or contract).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    ${downgrades if downgrades else "pass"}
