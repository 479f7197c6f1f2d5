"""Secrets at rest: no file of a workspace holds one in the clear.

That includes what older releases wrote; and a running node keeps up with a new key.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.memory.node.clock import SeededEntropy, SettableClock
from odfabric.adapters.memory.sources.egress import MemoryWebhookSender
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.sealed_columns import sealed_stores
from odfabric.adapters.sql.subscriptions.deliveries import SqlSubscriptions
from odfabric.domain.people.access import LOCAL_ACCOUNT
from odfabric.domain.sources.source_templates import Value
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.formats.webhooks.webhook_signature import TIMESTAMP_HEADER, verify
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job
from odfabric.model.subscriptions.subscription import DeliveryStatus, Subscription
from odfabric.ports.node.sealing import dataset_key_context, is_plain_webhook_secret
from odfabric.settings import Settings
from odfabric.testing.conformance.together import outcomes_of_processes
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.maintenance.rotate_key import RotatedKey
from odfabric.wiring import Node, open_node, prepare_workspace, rotate_node_key
from odfabric.wiring.places.database_place import database_place
from odfabric.wiring.places.keys import node_sealing
from tests.support.quick_processes import quick_processes
from tests.usecases.manifests import ROOT

SECRET = b"a webhook's secret, long enough!"
OTHER = b"one of a subscription that ended"
OF_A_SOURCE = "a token of a portal"
URL = "https://hooks.example/x"
READINGS = parse_dataset_alias("local/readings")


@pytest.fixture(autouse=True)
def processes_begin_with_everything_imported() -> None:
    quick_processes()


@pytest.fixture(params=["sqlite", "postgres"])
def on_either(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A workspace, and a database in it or on a server."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return Settings(workspace=tmp_path / "w", database_url=url)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(workspace=tmp_path / "w")


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[Node, MemoryWebhookSender]]:
    """A process of the node; what it sends stays here."""
    clock = SettableClock(Instant.parse("2026-01-01T00:00:00Z"), step_ms=1)
    with open_node(settings, engine=MemoryEngine(settings.workspace.absolute() / "exchange"), clock=clock) as node:
        sender = MemoryWebhookSender()
        yield Node(replace(node.ports, webhooks=sender), node.settings), sender


@contextmanager
def database_of(settings: Settings) -> Iterator[Database]:
    with closing(Database(database_place(settings))) as database:
        yield database


def made(settings: Settings, *, secret: bytes | None = None) -> None:
    """A workspace with a dataset, and a subscription if there is a secret for it."""
    prepare_workspace(settings)
    with opened(settings) as (node, _):
        create(node, ROOT)
        if secret is not None:
            node.webhooks.subscribe(node.datasets.resolve(READINGS), url=URL, secret=secret, by=node.operator)


def create(node: Node, manifest: str) -> None:
    (snapshot,) = parse_snapshots(manifest, file="test.yaml")
    node.datasets.create(snapshot, node.operator)


def as_older_releases_did(settings: Settings, *, name: str = "old", secret: bytes = SECRET) -> None:
    """Store a subscription with its secret in the clear."""
    with opened(settings) as (node, _):
        entry = node.datasets.resolve(READINGS)
        head = node.datasets.head(entry).hash
    subscription = Subscription(
        id=name,
        dataset_id=entry.id,
        account=str(LOCAL_ACCOUNT),
        url=URL,
        created_at=Instant.parse("2026-01-01T00:00:00Z"),
        created_at_head=head,
    )
    with database_of(settings) as database:
        SqlSubscriptions(database).create(subscription, secret=secret)


def ended_as_on_any_sqlite(settings: Settings, name: str) -> None:
    """Delete a subscription and leave its bytes in free space.

    Some builds of SQLite clear them by themselves.
    """
    with closing(sqlite3.connect(settings.workspace / "odf.sqlite3")) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("DELETE FROM subscriptions WHERE id = ?", [name])
        connection.commit()


def push_and_deliver(node: Node, sender: MemoryWebhookSender, key: str) -> None:
    """One more event, which all subscribers get, signed with the secret `SECRET`."""
    before = len(sender.received)
    body = f'{{"event_time": "2026-01-01T00:00:00Z", "city": "{key}"}}\n'.encode()
    job = node.requests.push(PushData(dataset=node.datasets.resolve(READINGS).id, body=iter([body])))
    assert isinstance(job, Job)
    node.jobs.work_until_ended(job, worker="test", listener=lambda _: None)
    node.background.relay_outbox()
    for delivery in node.background.due_deliveries("test", limit=8):
        node.background.deliver(delivery)
    assert len(sender.received) > before
    for webhook in sender.received[before:]:
        now = Instant(int(webhook.headers[TIMESTAMP_HEADER]) * NANOS_PER_SECOND)
        assert verify(webhook.headers, webhook.body, secrets=[SECRET], now=now)


def files_with(settings: Settings, *sought: bytes) -> list[str]:
    """Workspace files that hold one of these as bytes or hexadecimal text."""
    texts = [text for bytes_ in sought for text in (bytes_, bytes_.hex().encode(), bytes_.hex().upper().encode())]
    files = [path for path in settings.workspace.rglob("*") if path.is_file()]
    return [path.name for path in files if any(text in path.read_bytes() for text in texts)]


def stored(settings: Settings) -> dict[str, list[bytes]]:
    """What the database holds, by kind."""
    with database_of(settings) as database:
        return {
            store.name: [row.data for row in store.rows(unlike=b"none", after=None, limit=1000)]
            for store in sealed_stores(database)
        }


def checked(settings: Settings) -> None:
    """Keys and secrets open with the node's key; nothing is sealed otherwise."""
    sealing = node_sealing(settings)
    with database_of(settings) as database:
        for store in sealed_stores(database):
            for row in store.rows(unlike=b"none", after=None, limit=1000):
                assert row.data.startswith(sealing.mark())
                secret = sealing.open(row.data, context=row.context)
                if row.context.startswith(b"dataset-key:"):
                    public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
                    assert row.context.endswith(public.hex().encode())


def rotated(settings: Settings) -> RotatedKey:
    return rotate_node_key(settings, listener=lambda store, sealed: None)


# what a node writes


def test_no_file_of_the_workspace_has_a_secret_in_the_clear(settings: Settings) -> None:
    made(settings, secret=SECRET)
    with opened(settings) as (node, sender):
        # Looked at while the database is open: its log is a file of its own then.
        assert (settings.workspace / "odf.sqlite3-wal").exists()
        push_and_deliver(node, sender, "a")
        assert files_with(settings, SECRET) == []
    assert files_with(settings, SECRET) == []
    checked(settings)


def test_no_log_and_no_text_of_a_value_has_a_secret(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made(settings)
    with opened(settings) as (node, sender):
        made_here = node.webhooks.subscribe(node.datasets.resolve(READINGS), url=URL, secret=SECRET, by=node.operator)
        push_and_deliver(node, sender, "a")
        told = f"{made_here!r} {node.webhooks.seen(node.datasets.resolve(READINGS), by=node.operator)!r} {caplog.text}"
    assert not any(text in told for text in (SECRET.decode(), SECRET.hex(), repr(SECRET)))


# what older releases wrote


def test_secrets_in_the_clear_are_sealed_when_the_workspace_is_prepared(on_either: Settings) -> None:
    made(on_either)
    as_older_releases_did(on_either)
    assert stored(on_either)["webhook secrets"] == [SECRET]
    prepare_workspace(on_either)
    (sealed,) = stored(on_either)["webhook secrets"]
    assert not is_plain_webhook_secret(sealed)
    checked(on_either)
    with opened(on_either) as (node, sender):
        push_and_deliver(node, sender, "a")


def test_nothing_of_them_stays_in_the_file_or_its_log(settings: Settings) -> None:
    made(settings)
    as_older_releases_did(settings)
    as_older_releases_did(settings, name="ended", secret=OTHER)
    ended_as_on_any_sqlite(settings, "ended")
    assert files_with(settings, SECRET) == files_with(settings, OTHER) == ["odf.sqlite3"]
    prepare_workspace(settings)
    assert files_with(settings, SECRET, OTHER) == []
    with closing(sqlite3.connect(settings.workspace / "odf.sqlite3")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_secrets_of_subscriptions_that_have_ended_go_too(settings: Settings) -> None:
    """A database of an old release with plain secrets in free space only."""
    made(settings)
    as_older_releases_did(settings, secret=OTHER)
    ended_as_on_any_sqlite(settings, "old")
    with closing(sqlite3.connect(settings.workspace / "odf.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 0")
    assert files_with(settings, OTHER) == ["odf.sqlite3"]
    prepare_workspace(settings)
    assert files_with(settings, OTHER) == []


def test_what_an_older_process_writes_meanwhile_is_read_and_sealed_the_next_time(on_either: Settings) -> None:
    made(on_either)
    prepare_workspace(on_either)
    as_older_releases_did(on_either)
    with opened(on_either) as (node, sender):
        push_and_deliver(node, sender, "a")
        assert stored(on_either)["webhook secrets"] == [SECRET]
        prepare_workspace(on_either)
        push_and_deliver(node, sender, "b")
    checked(on_either)
    if on_either.database_url is None:
        assert files_with(on_either, SECRET) == []


class Prepare:
    """Prepares a workspace in another process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __call__(self) -> Settings:
        return self.settings


def prepare(settings: Settings, number: int) -> str:
    prepare_workspace(settings)
    return "prepared"


def test_processes_that_start_together_seal_once(on_either: Settings) -> None:
    made(on_either)
    for number in range(5):
        as_older_releases_did(on_either, name=f"old{number}")
    assert set(outcomes_of_processes(Prepare(on_either), prepare)) == {"prepared"}
    checked(on_either)
    with opened(on_either) as (node, sender):
        push_and_deliver(node, sender, "a")
        assert len(sender.received) == 5


def test_a_file_that_is_in_use_is_cleaned_the_next_time(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    impatient = settings.model_copy(update={"database_busy_s_max": 0.05})
    made(settings)
    as_older_releases_did(settings)
    with closing(sqlite3.connect(settings.workspace / "odf.sqlite3", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM subscriptions").fetchall()
        prepare_workspace(impatient)
        assert "the next `odf init` or start of the node tries again" in caplog.text
        checked(settings)
        assert files_with(settings, SECRET) != []
    prepare_workspace(settings)
    assert files_with(settings, SECRET) == []


def test_a_workspace_without_old_secrets_is_not_rewritten(settings: Settings) -> None:
    made(settings, secret=SECRET)
    prepare_workspace(settings)
    file = settings.workspace / "odf.sqlite3"
    before = file.read_bytes(), file.stat().st_mtime_ns
    prepare_workspace(settings)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


# rotation


def test_a_new_key_seals_everything_and_running_processes_go_on(on_either: Settings) -> None:
    made(on_either, secret=SECRET)
    with opened(on_either) as (running, sender), opened(on_either) as (idle, idle_sender):
        entry = running.datasets.resolve(READINGS)
        (subscription,) = running.webhooks.seen(entry, by=running.operator)
        running.webhooks.rotate_secret(entry, subscription.id, by=running.operator)
        running.variables.set(entry, "TOKEN", OF_A_SOURCE, secret=True, by=running.operator)
        push_and_deliver(running, sender, "a")
        old = stored(on_either)
        done = rotated(on_either)
        assert done.sealed == {
            "dataset keys": 1,
            "webhook secrets": 1,
            "old webhook secrets": 1,
            "dataset keys of commits under way": 0,
            "signing keys": 1,
            "secrets of sources": 1,
        }
        assert done.keys_dropped == 1
        checked(on_either)
        assert [node.variables.lookup(entry.id)("TOKEN") for node in (running, idle)] == [
            Value(OF_A_SOURCE, secret=True)
        ] * 2
        push_and_deliver(running, sender, "b")
        push_and_deliver(idle, idle_sender, "c")
        create(running, ROOT.replace("readings", "others"))
        running.webhooks.subscribe(running.datasets.resolve(READINGS), url=URL, secret=SECRET, by=running.operator)
        checked(on_either)
        new = stored(on_either)
        assert not set(old["webhook secrets"]) & set(new["webhook secrets"])
        assert not set(old["secrets of sources"]) & set(new["secrets of sources"])
    assert files_with(on_either, SECRET, OF_A_SOURCE.encode()) == []
    if on_either.database_url is None:
        assert files_with(on_either, *old["webhook secrets"], *old["dataset keys"]) == [], "the old key may be known"


def test_a_dataset_whose_key_was_made_before_a_rotation_is_stored_under_the_new_key(settings: Settings) -> None:
    """Between the two, the engine judges queries: a rotation does not wait for that."""
    made(settings)
    with opened(settings) as (node, _):
        keys = node.ports.keys

        class RotatedAfterwards:
            def create(self) -> object:
                pair = keys.create()
                assert rotated(settings).keys_dropped == 1
                return pair

            def __getattr__(self, name: str) -> object:
                return getattr(keys, name)

        rotating = replace(node.ports, keys=RotatedAfterwards())  # type: ignore[arg-type]
        create(Node(rotating, settings), ROOT.replace("readings", "others"))
    assert len(stored(settings)["dataset keys"]) == 2
    checked(settings)


def test_keys_that_older_releases_sealed_are_renewed(settings: Settings) -> None:
    made(settings)
    sealing = node_sealing(settings)
    with database_of(settings) as database:
        store, *_ = sealed_stores(database)
        (row,) = store.rows(unlike=b"none", after=None, limit=2)
        old = older_form(settings, row.context, sealing.open(row.data, context=row.context))
        assert store.replace([(row, old)]) == 1
    prepare_workspace(settings)
    assert stored(settings)["dataset keys"] == [old]
    assert rotated(settings).sealed["dataset keys"] == 1
    checked(settings)


def older_form(settings: Settings, context: bytes, private: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    from odfabric.formats.secrets.sealed_form import key_id
    from odfabric.wiring.places.identity import KEY_FILE

    key = (settings.workspace / KEY_FILE).read_bytes()
    public = bytes.fromhex(context.removeprefix(b"dataset-key:").decode())
    nonce = SeededEntropy(1).random_bytes(12)
    return b"\x01" + key_id(key) + nonce + ChaCha20Poly1305(key).encrypt(nonce, private, public)


def test_a_secret_that_does_not_open_is_told_and_can_be_given_up(settings: Settings) -> None:
    """As with a backup of the database and another key file."""
    made(settings, secret=SECRET)
    (settings.workspace / "dataset-keys.key").write_bytes(bytes(range(32)))
    with opened(settings) as (node, sender):
        entry = node.datasets.resolve(READINGS)
        (subscription,) = node.webhooks.seen(entry, by=node.operator)
        with pytest.raises(AssertionError):
            push_and_deliver(node, sender, "a")
        assert sender.received == []
        (delivery,) = node.webhooks.deliveries(entry, subscription.id, by=node.operator)
        assert (delivery.status, delivery.attempts) == (DeliveryStatus.PENDING, 1)
        assert delivery.last_error == "the node cannot open the secret of this subscription, or its own key"
        done = rotated(settings)
        assert [(one.store, "does not have" in one.problem.message) for one in done.unopened.values()] == [
            ("dataset keys", True),
            ("webhook secrets", True),
        ]
        node.webhooks.unsubscribe(entry, subscription.id, by=node.operator)
        node.webhooks.subscribe(entry, url=URL, secret=SECRET, by=node.operator)
        push_and_deliver(node, sender, "b")


def test_a_key_file_that_others_may_read_is_a_failed_attempt_until_it_is_put_right(settings: Settings) -> None:
    made(settings, secret=SECRET)
    with opened(settings) as (node, sender):
        key_file, entry = settings.workspace / "dataset-keys.key", node.datasets.resolve(READINGS)
        key_file.chmod(0o640)
        with pytest.raises(AssertionError):
            push_and_deliver(node, sender, "a")
        (subscription,) = node.webhooks.seen(entry, by=node.operator)
        assert [one.attempts for one in node.webhooks.deliveries(entry, subscription.id, by=node.operator)] == [1]
        key_file.chmod(0o600)
        clock = node.ports.clock
        assert isinstance(clock, SettableClock)
        clock.advance(3_600_000)
        push_and_deliver(node, sender, "b")
        assert len(sender.received) == 1


def test_a_secret_that_was_moved_to_another_subscription_does_not_open(settings: Settings) -> None:
    made(settings, secret=SECRET)
    with opened(settings) as (node, sender):
        entry = node.datasets.resolve(READINGS)
        other = node.webhooks.subscribe(entry, url=URL, secret=OTHER, by=node.operator).subscription
        with closing(sqlite3.connect(settings.workspace / "odf.sqlite3")) as connection:
            moved = "(SELECT secret FROM subscriptions WHERE id <> ?)"
            connection.execute(f"UPDATE subscriptions SET secret = {moved} WHERE id = ?", [other.id, other.id])
            connection.commit()
        push_and_deliver(node, sender, "a")
        assert len(sender.received) == 1
        assert [one.status for one in node.webhooks.deliveries(entry, other.id, by=node.operator)] == [
            DeliveryStatus.PENDING
        ]


def test_a_context_is_that_of_one_dataset(settings: Settings) -> None:
    made(settings)
    with opened(settings) as (node, _):
        entry = node.datasets.resolve(READINGS)
        assert entry.sealed_key is not None
        private = node_sealing(settings).open(entry.sealed_key, context=dataset_key_context(entry.id))
    assert Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw() == entry.id.key
    assert files_with(settings, private) == []
