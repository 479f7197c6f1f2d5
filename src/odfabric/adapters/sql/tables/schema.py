"""What all tables share: metadata, widths of texts, references."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKey,
    MetaData,
)

from odfabric.adapters.sql.column_types import (
    AccountIdText,
    DatasetIdText,
)

SCHEMA_REVISION = "0018"
"""The newest migration that this code needs."""

NAME_CHARACTERS_MAX = 100
ID_CHARACTERS_MAX = 128
OBJECT_CHARACTERS_MAX = 160
KEYWORD_CHARACTERS_MAX = 100

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)


def of_dataset(*, primary_key: bool = False, unique: bool | None = None, nullable: bool = False) -> Column[object]:
    """A column that names a dataset; its rows go with the dataset."""
    reference = ForeignKey("datasets.id", ondelete="CASCADE")
    return Column("dataset_id", DatasetIdText, reference, primary_key=primary_key, unique=unique, nullable=nullable)


def of_account(*, nullable: bool = False) -> Column[object]:
    """A column that names an account; its rows go with the account."""
    return Column("account_id", AccountIdText, ForeignKey("accounts.id", ondelete="CASCADE"), nullable=nullable)
