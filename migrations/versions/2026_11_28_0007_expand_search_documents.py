"""What datasets are searched by: words, keywords, licence and inputs. Housekeeping fills the tables of datasets that are there.

The code before this neither reads nor writes the tables. Triggers of SQLite keep an index of words as the documents are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_KEYWORD = sa.String(100).with_variant(sa.String(100, collation="C"), "postgresql")
_FTS5 = """CREATE VIRTUAL TABLE search_words USING fts5(name_words, about_words, words, content='search_documents',
content_rowid='position', tokenize='ascii', detail='column', columnsize=0, prefix='1 2 3')"""
_FORGET = """INSERT INTO search_words (search_words, rowid, name_words, about_words, words)
VALUES ('delete', old.position, old.name_words, old.about_words, old.words);"""
_ADD = """INSERT INTO search_words (rowid, name_words, about_words, words)
VALUES (new.position, new.name_words, new.about_words, new.words);"""
_TRIGGERS = {"INSERT": _ADD, "UPDATE": f"{_FORGET} {_ADD}", "DELETE": _FORGET}


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    _make_documents(sa.Text() if is_sqlite else postgresql.TSVECTOR())
    _make_pairs("search_keywords", sa.Column("keyword", _KEYWORD, nullable=False))
    _make_pairs("search_inputs", sa.Column("input_id", sa.String(69), nullable=False))
    if not is_sqlite:
        op.create_index("search_documents_words_idx", "search_documents", ["words"], postgresql_using="gin")
        return
    op.execute(_FTS5)
    for when, body in _TRIGGERS.items():
        op.execute(f"CREATE TRIGGER search_words_{when.lower()} AFTER {when} ON search_documents BEGIN {body} END")


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE search_words")
    for name in ("search_inputs", "search_keywords", "search_documents"):
        op.drop_table(name)


def _make_documents(words: sa.types.TypeEngine[str]) -> None:
    op.create_table(
        "search_documents",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, nullable=False),
        sa.Column("dataset_id", sa.String(69), nullable=False),
        sa.Column("head", sa.String(80), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("license", sa.Text()),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("name_words", words, nullable=False),
        sa.Column("about_words", words, nullable=False),
        sa.Column("words", words, nullable=False),
        _goes_with_dataset("search_documents"),
        sa.PrimaryKeyConstraint("position", name="search_documents_pk"),
        sa.UniqueConstraint("dataset_id", name="search_documents_dataset_id_key"),
        sqlite_autoincrement=True,
    )


def _make_pairs(table: str, value: sa.Column[str]) -> None:
    """A value and the datasets that have it, found from both sides."""
    op.create_table(
        table,
        value,
        sa.Column("dataset_id", sa.String(69), nullable=False),
        _goes_with_dataset(table),
        sa.PrimaryKeyConstraint(value.name, "dataset_id", name=f"{table}_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index(f"{table}_dataset_id_idx", table, ["dataset_id"])


def _goes_with_dataset(table: str) -> sa.ForeignKeyConstraint:
    name = f"{table}_dataset_id_fk"
    return sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=name, ondelete="CASCADE")
