"""The dataset that a job is about without being of its queue. The code before this neither reads nor writes the column."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

ABOUT = sa.text("about_id IS NOT NULL")
MEMBER = '"dataset": "did:odf:'
"""In front of the identity, in requests as they are written; a damaged one names nothing."""
ID_CHARACTERS = 69
FOUND = {"sqlite": "instr", "postgresql": "strpos"}


def upgrade() -> None:
    """To the new shape; pushes of before name their datasets too."""
    limit_migration(lock_s=5, statement_s=60)
    op.add_column("jobs", sa.Column("about_id", sa.String(69)))
    found = FOUND[op.get_bind().dialect.name]
    op.execute(
        f"UPDATE jobs SET about_id = substr(request, {found}(request, '{MEMBER}') + {len(MEMBER)}, {ID_CHARACTERS}) "
        f"WHERE kind = 'send' AND request LIKE '%{MEMBER}fed01{'_' * (ID_CHARACTERS - 5)}\"%'"
    )
    op.create_index("jobs_about_id_idx", "jobs", ["about_id", "position"], sqlite_where=ABOUT, postgresql_where=ABOUT)


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_index("jobs_about_id_idx", "jobs")
    op.drop_column("jobs", "about_id")
