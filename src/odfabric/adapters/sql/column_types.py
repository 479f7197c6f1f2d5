"""How values of the model lie in columns.

Owns the two-way mapping of single values. Hashes and ids are texts, so that a person can read the tables; times that statements
compare are nanoseconds in 64 bits, times of blocks, which may lie outside those, are RFC 3339 texts.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, String, Text
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.types import TypeDecorator, TypeEngine

from odfabric.formats.identifiers.did import dataset_id_from_bytes, parse_account_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.identity import AccountId, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.people.credential import Scope
from odfabric.model.subscriptions.event import EventType

DATASET_ID_CHARACTERS = 69
HASH_CHARACTERS_MAX = 80
INSTANT_CHARACTERS_MAX = 48
ACCOUNT_ID_CHARACTERS_MAX = 128

RowNumber = BigInteger().with_variant(Integer, "sqlite")
"""A number that the database gives to rows; SQLite does that for INTEGER alone."""


def folded_text(characters_max: int) -> String:
    """A text that is ordered by its bytes on every database, as Python orders it."""
    return String(characters_max).with_variant(String(characters_max, collation="C"), "postgresql")


class HashText(TypeDecorator[Multihash]):
    """A multihash as its canonical text."""

    impl = String(HASH_CHARACTERS_MAX)
    cache_ok = True

    def process_bind_param(self, value: Multihash | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Multihash | None:
        """From the database."""
        return None if value is None else parse_multihash(value)


class DatasetIdText(TypeDecorator[DatasetId]):
    """A dataset's identity as its multibase text."""

    impl = String(DATASET_ID_CHARACTERS)
    cache_ok = True

    def process_bind_param(self, value: DatasetId | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else value.multibase

    def process_result_value(self, value: Any, dialect: Dialect) -> DatasetId | None:
        """From the database."""
        return None if value is None else _dataset_id(value)


class AccountIdText(TypeDecorator[AccountId]):
    """An account's identity as its DID."""

    impl = String(ACCOUNT_ID_CHARACTERS_MAX)
    cache_ok = True

    def process_bind_param(self, value: AccountId | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> AccountId | None:
        """From the database."""
        return None if value is None else parse_account_id(value)


class ScopesText(TypeDecorator[frozenset[Scope]]):
    """Scopes as OAuth writes them: sorted, a space between two."""

    impl = String(64)
    cache_ok = True

    def process_bind_param(self, value: frozenset[Scope] | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else " ".join(sorted(scope.value for scope in value))

    def process_result_value(self, value: Any, dialect: Dialect) -> frozenset[Scope] | None:
        """From the database."""
        return None if value is None else frozenset(map(Scope, value.split()))


class EventTypesText(TypeDecorator[frozenset[EventType]]):
    """Types of events as a sorted text, a space before and behind each.

    A database finds one by ` type ` in the text.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: frozenset[EventType] | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else f" {' '.join(sorted(type.value for type in value))} "

    def process_result_value(self, value: Any, dialect: Dialect) -> frozenset[EventType] | None:
        """From the database."""
        return None if value is None else frozenset(map(EventType, value.split()))


class DatasetIdsText(TypeDecorator[frozenset[DatasetId]]):
    """Identities of datasets, sorted, a space between two.

    None of them is an empty text.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: frozenset[DatasetId] | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else " ".join(sorted(dataset.multibase for dataset in value))

    def process_result_value(self, value: Any, dialect: Dialect) -> frozenset[DatasetId] | None:
        """From the database."""
        return None if value is None else frozenset(map(_dataset_id, value.split()))


class WordsText(TypeDecorator[frozenset[str]]):
    """Words of `domain.people.dataset_search`, which no database parses again.

    Separated by spaces, on PostgreSQL a text search vector.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """What the database calls it."""
        return dialect.type_descriptor(TSVECTOR() if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> str | None:
        """To the database."""
        if value is None:
            return None
        return " ".join(f"'{word}'" if dialect.name == "postgresql" else word for word in sorted(value))


class InstantText(TypeDecorator[Instant]):
    """Any instant, exactly, as RFC 3339.

    Without its last character, Z, texts go in the order of time.
    """

    impl = String(INSTANT_CHARACTERS_MAX)
    cache_ok = True

    def process_bind_param(self, value: Instant | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Instant | None:
        """From the database."""
        return None if value is None else Instant.parse(value)


class InstantNanos(TypeDecorator[Instant]):
    """A comparable instant of our own clocks: nanoseconds since the epoch, until 2262."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Instant | None, dialect: Dialect) -> int | None:
        """To the database."""
        return None if value is None else value.epoch_ns

    def process_result_value(self, value: Any, dialect: Dialect) -> Instant | None:
        """From the database."""
        return None if value is None else Instant(value)


def _dataset_id(multibase: str) -> DatasetId:
    return dataset_id_from_bytes(bytes.fromhex(multibase[1:]))
