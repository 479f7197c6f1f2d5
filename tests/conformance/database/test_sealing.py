"""Sealing and stores of sealed secrets: all adapters keep one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.adapters.memory.node.clock import SeededEntropy
from odfabric.adapters.memory.node.sealing import MemorySealedStore, MemorySealing
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.commit_intents import SqlCommitIntents
from odfabric.adapters.sql.sealed_columns import sealed_stores
from odfabric.adapters.sql.signing_keys import SqlSigningKeys
from odfabric.adapters.sql.sources.variables import SqlVariables
from odfabric.adapters.sql.subscriptions.deliveries import SqlSubscriptions
from odfabric.adapters.sql.tables.node import signing_keys
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.model.commit import CommitIntent, OutboxMessage
from odfabric.model.people.signing_key import SigningKey
from odfabric.ports.node.sealing import SealedStore, variable_key, webhook_secret_context
from odfabric.testing.conformance.examples import NOW, GrowingChain, entry_of, hash_of, new_chain
from odfabric.testing.conformance.node.sealing import NodeSealing, SealedStoreContract, SealingContract
from odfabric.testing.conformance.sources.variables import named
from odfabric.testing.conformance.subscriptions.events import subscription_of


class TestMemorySealing(SealingContract):
    @pytest.fixture
    def sealing(self) -> MemorySealing:
        return MemorySealing(SeededEntropy(7))

    @pytest.fixture
    def another(self, sealing: MemorySealing) -> Callable[[], NodeSealing]:
        seeds = iter(range(100, 1000))
        return lambda: MemorySealing(SeededEntropy(next(seeds)), keys=sealing.keys)

    @pytest.fixture
    def impatient(self, sealing: MemorySealing) -> NodeSealing:
        return MemorySealing(SeededEntropy(8), keys=sealing.keys, wait_s_max=0.0)


class TestKeyFileSealing(SealingContract):
    @pytest.fixture
    def sealing(self, tmp_path: Path) -> NodeSealing:
        return KeyFileSealing(tmp_path / "node.key", entropy=SystemEntropy())

    @pytest.fixture
    def another(self, tmp_path: Path) -> Callable[[], NodeSealing]:
        return lambda: KeyFileSealing(tmp_path / "node.key", entropy=SystemEntropy())

    @pytest.fixture
    def impatient(self, tmp_path: Path) -> NodeSealing:
        return KeyFileSealing(tmp_path / "node.key", entropy=SystemEntropy(), wait_s_max=0.0)


class TestMemoryStore(SealedStoreContract):
    @pytest.fixture
    def store(self) -> MemorySealedStore:
        return MemorySealedStore("secrets", context=webhook_secret_context, plain_bytes_max=64)

    @pytest.fixture
    def put(self, store: MemorySealedStore) -> Callable[[bytes], str]:
        def put(data: bytes) -> str:
            key = f"key {255 - data[1]}-{len(store.data)}"
            store.put({key: data})
            return key

        return put


class OnDatabase:
    """The stores of an SQLite database, each with a way to put something there."""

    @pytest.fixture
    def database(self, database_url: str) -> Iterator[Database]:
        database = Database(database_url, busy_s_max=30)
        yield database
        database.close()

    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url


class DatasetKeysColumn(OnDatabase, SealedStoreContract):
    @pytest.fixture
    def store(self, database: Database) -> SealedStore:
        return sealed_stores(database)[0]

    @pytest.fixture
    def put(self, database: Database) -> Callable[[bytes], str]:
        chains = SqlChains(database)
        new_chain(chains, "copied")  # without a key

        def put(data: bytes) -> str:
            chain = GrowingChain(chains, replace(entry_of(data.hex()[:50]), sealed_key=data))
            chain.grow()
            return chain.id.multibase

        return put


class WebhookSecretsColumn(OnDatabase, SealedStoreContract):
    @pytest.fixture
    def store(self, database: Database) -> SealedStore:
        return sealed_stores(database)[1]

    @pytest.fixture
    def put(self, database: Database) -> Callable[[bytes], str]:
        chain = new_chain(SqlChains(database))
        subscriptions = SqlSubscriptions(database)
        names = iter("mazhqbx")

        def put(data: bytes) -> str:
            made = subscription_of(chain, next(names))
            subscriptions.create(made, secret=data)
            return made.id

        return put

    def test_secrets_of_older_releases_are_plain(self, store: SealedStore) -> None:
        assert [store.is_plain(bytes(length)) for length in (24, 32, 64, 65, 68)] == [True, True, True, False, False]


class OldWebhookSecretsColumn(OnDatabase, SealedStoreContract):
    @pytest.fixture
    def store(self, database: Database) -> SealedStore:
        return sealed_stores(database)[2]

    @pytest.fixture
    def put(self, database: Database) -> Callable[[bytes], str]:
        chain = new_chain(SqlChains(database))
        subscriptions = SqlSubscriptions(database)
        names = iter("mazhqbx")
        subscriptions.create(subscription_of(chain, "never rotated"), secret=b"new" * 23)

        def put(data: bytes) -> str:
            made = subscription_of(chain, next(names))
            subscriptions.create(made, secret=data)
            subscriptions.set_secret(made.id, b"new" * 23, old_until=NOW)
            return made.id

        return put


class IntentKeys(OnDatabase, SealedStoreContract):
    @pytest.fixture
    def store(self, database: Database) -> SealedStore:
        return sealed_stores(database)[3]

    @pytest.fixture
    def put(self, database: Database) -> Callable[[bytes], str]:
        intents = SqlCommitIntents(database)
        chain = entry_of("copied")
        intents.add(CommitIntent(message=OutboxMessage(chain.id, None, hash_of("a copy"), NOW), entry=chain))
        intents.add(CommitIntent(message=OutboxMessage(chain.id, hash_of("a"), hash_of("b"), NOW)))

        def put(data: bytes) -> str:
            entry = replace(entry_of(data.hex()[:50]), sealed_key=data)
            intent = CommitIntent(message=OutboxMessage(entry.id, None, hash_of(data.hex()), NOW), entry=entry)
            intents.add(intent)
            return str(intent.key)

        return put

    def test_the_rest_of_an_intent_stays(
        self, store: SealedStore, put: Callable[[bytes], str], database: Database
    ) -> None:
        put(b"old" * 23)
        intents = SqlCommitIntents(database)
        before = intents.all()
        ((row),) = store.rows(unlike=b"none", after=None, limit=10)
        assert store.replace([(row, b"new" * 30)]) == 1
        changed = [
            replace(one, entry=replace(one.entry, sealed_key=b"new" * 30))
            if one.entry and one.entry.sealed_key
            else one
            for one in before
        ]
        assert list(intents.all()) == changed

    def test_an_intent_that_was_carried_out_meanwhile_is_left_alone(
        self, store: SealedStore, put: Callable[[bytes], str], database: Database
    ) -> None:
        put(b"old" * 23)
        ((row),) = store.rows(unlike=b"none", after=None, limit=10)
        intents = SqlCommitIntents(database)
        for intent in intents.all():
            intents.drop(intent.key)
        assert store.replace([(row, b"new" * 30)]) == 0
        assert list(intents.all()) == []


class SigningKeysColumn(OnDatabase, SealedStoreContract):
    @pytest.fixture
    def store(self, database: Database) -> SealedStore:
        return sealed_stores(database)[4]

    @pytest.fixture
    def put(self, database: Database) -> Callable[[bytes], str]:
        # A node has one key that signs; after a race on PostgreSQL it has two.
        def put(data: bytes) -> str:
            with database.write() as connection:
                name = f"key {255 - data[1]}-{connection.execute(select(func.count()).select_from(signing_keys)).scalar_one()}"
                values = {"id": name, "public_key": b"", "private_key": data, "made_at": NOW}
                connection.execute(insert(signing_keys).values(values))
            return name

        return put

    def test_a_retired_key_has_nothing_to_seal(self, store: SealedStore, database: Database) -> None:
        keys = SqlSigningKeys(database)
        for number in (1, 2):
            keys.add(SigningKey(id=f"k{number}", public=b"", made_at=NOW), private=b"private")
        assert [row.key for row in store.rows(unlike=b"none", after=None, limit=10)] == ["k2"]


class SecretsOfSourcesColumn(OnDatabase, SealedStoreContract):
    @pytest.fixture
    def store(self, database: Database) -> SealedStore:
        return sealed_stores(database)[5]

    @pytest.fixture
    def put(self, database: Database) -> Callable[[bytes], str]:
        dataset, variables = new_chain(SqlChains(database)).id, SqlVariables(database)
        names = iter("mazhqbx")
        variables.set(named(dataset, "plain"), value=b"is not sealed", maximum=100)

        def put(data: bytes) -> str:
            name = next(names)
            variables.set(named(dataset, name, secret=True), value=data, maximum=100)
            return variable_key(dataset, name)

        return put


class TestSqliteSecretsOfSources(SecretsOfSourcesColumn): ...


class TestSqliteSigningKeys(SigningKeysColumn): ...


class TestSqliteDatasetKeys(DatasetKeysColumn): ...


class TestSqliteWebhookSecrets(WebhookSecretsColumn): ...


class TestSqliteOldWebhookSecrets(OldWebhookSecretsColumn): ...


class TestSqliteIntentKeys(IntentKeys): ...


class OnPostgres:
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url


class TestPostgresDatasetKeys(OnPostgres, DatasetKeysColumn): ...


class TestPostgresOldWebhookSecrets(OnPostgres, OldWebhookSecretsColumn): ...


class TestPostgresWebhookSecrets(OnPostgres, WebhookSecretsColumn): ...


class TestPostgresSigningKeys(OnPostgres, SigningKeysColumn): ...


class TestPostgresSecretsOfSources(OnPostgres, SecretsOfSourcesColumn): ...


class TestPostgresIntentKeys(OnPostgres, IntentKeys): ...
