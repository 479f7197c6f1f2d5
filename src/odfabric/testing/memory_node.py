"""A whole node in memory: every verb runs in milliseconds.

Its adapters pass the same conformance suites as the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from odfabric.adapters.local_fs.archives import ArchiveLimits, ArchivePreparation
from odfabric.adapters.memory.datasets.catalog import MemoryCatalog, MemorySearchDocuments
from odfabric.adapters.memory.datasets.chains import MemoryChains
from odfabric.adapters.memory.datasets.dataset_keys import MemoryDatasetKeys
from odfabric.adapters.memory.datasets.exchange import MemoryExchange
from odfabric.adapters.memory.datasets.head_logs import MemoryHeadLogs
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.datasets.part_uploads import StoredPartUploads
from odfabric.adapters.memory.datasets.removed_datasets import MemoryRemovedDatasets
from odfabric.adapters.memory.datasets.state_index import MemoryStateIndex
from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.memory.jobs.duties import MemoryDuties
from odfabric.adapters.memory.jobs.flows import MemoryFlows, MemoryRoles
from odfabric.adapters.memory.jobs.jobs import MemoryJobs
from odfabric.adapters.memory.node.clock import SeededEntropy, SettableClock
from odfabric.adapters.memory.node.signing_keys import MemorySigningKeys
from odfabric.adapters.memory.people.accounts import MemoryAccounts, MemoryRelations
from odfabric.adapters.memory.people.audit import MemoryAuditLog
from odfabric.adapters.memory.people.credentials import MemoryDeviceAuthorisations, MemoryInvitations, MemoryTokens
from odfabric.adapters.memory.people.identity_providers import MemoryIdentityProvider, MemoryIdentityProviders
from odfabric.adapters.memory.people.passwords import QuickPasswords
from odfabric.adapters.memory.people.rate_limits import MemoryRateLimits
from odfabric.adapters.memory.people.saved_queries import MemorySavedQueries
from odfabric.adapters.memory.people.usage import MemoryUsage
from odfabric.adapters.memory.sources.containers import MemoryContainers
from odfabric.adapters.memory.sources.egress import MemoryHttpSource, MemoryRemoteDatasets, MemoryWebhookSender
from odfabric.adapters.memory.sources.messages import MemoryMessageSource
from odfabric.adapters.memory.sources.polling_files import MemoryPollingFiles
from odfabric.adapters.memory.sources.programs import MemoryPrograms
from odfabric.adapters.memory.sources.savepoints import MemorySavepoints
from odfabric.adapters.memory.sources.variables import MemoryVariables
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.memory.subscriptions.cursors import MemoryCursors
from odfabric.adapters.memory.subscriptions.deliveries import MemoryDeliveries, MemoryOutbox, MemorySubscriptions
from odfabric.adapters.memory.transfer.conversations import MemoryConversations, MemoryLinkedObjects
from odfabric.adapters.memory.transfer.nodes import MemoryRemoteNodes
from odfabric.adapters.memory.transfer.repositories import MemoryRepositories
from odfabric.adapters.memory.transfer.stores import MemoryRemoteStores
from odfabric.adapters.stored_datasets.destination import StoredDestinations
from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import KeyAccountId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job
from odfabric.ports.engine import Engine
from odfabric.ports.subscriptions.cursors import Cursors
from odfabric.ports.transfer.destinations import RemoteStores
from odfabric.settings import Settings
from odfabric.usecases.people.first_start import make_first_accounts
from odfabric.usecases.polling.poll_source import PollingPorts
from odfabric.wiring.node import Node
from odfabric.wiring.node_ports import NodePorts, intercepted

LOCAL_ID = KeyAccountId(bytes([1]) * 32)
SYSTEM_ID = KeyAccountId(bytes([2]) * 32)
START = Instant.parse("2026-01-01T00:00:00Z")


@dataclass(slots=True)
class MemoryNode:
    """A node and the adapters that a test wants to look into.

    `clock` moves a millisecond with each look.
    """

    folder: Path
    interceptor: Interceptor | None = None
    seed: int = 0
    lock_wait_s_max: float = 30.0
    clock: SettableClock = field(init=False)
    objects: MemoryObjectStore = field(init=False)
    parts: StoredPartUploads = field(init=False)
    webhooks: MemoryWebhookSender = field(init=False)
    http: MemoryHttpSource = field(init=False)
    remotes: MemoryRemoteDatasets = field(init=False)
    remote_stores: MemoryRemoteStores = field(init=False)
    destinations: StoredDestinations = field(init=False)
    peers: MemoryRemoteNodes = field(init=False)
    conversations: MemoryConversations = field(init=False)
    linked_objects: MemoryLinkedObjects = field(init=False)
    files: MemoryPollingFiles = field(init=False)
    messages: MemoryMessageSource = field(init=False)
    programs: MemoryPrograms = field(init=False)
    containers: MemoryContainers = field(init=False)
    engine: MemoryEngine = field(init=False)
    state_index: MemoryStateIndex = field(init=False)
    store: MemoryStore = field(init=False)
    identities: MemoryIdentityProviders = field(init=False)
    settings: Settings = field(init=False)
    node: Node = field(init=False)
    _ports: NodePorts = field(init=False)

    def __post_init__(self) -> None:
        self.clock = SettableClock(START, step_ms=1)
        self.objects = MemoryObjectStore(self.clock, lock_wait_s_max=self.lock_wait_s_max)
        self.parts = StoredPartUploads(self.objects, clock=self.clock, entropy=SeededEntropy(self.seed + 2))
        self.webhooks = MemoryWebhookSender()
        self.http = MemoryHttpSource()
        by_scheme = self._make_elsewhere()
        self.conversations, self.linked_objects = MemoryConversations(), MemoryLinkedObjects()
        self.messages = MemoryMessageSource()
        self.programs = MemoryPrograms()
        self.containers = MemoryContainers()
        exchange = MemoryExchange(self.folder / "exchange")
        self.engine = MemoryEngine(exchange.root)
        self.state_index = MemoryStateIndex(self.objects)
        self.store, entropy = MemoryStore(), SeededEntropy(self.seed)
        provider = MemoryIdentityProvider(name="corp", label="Corp", allow_sign_up=True)
        self.identities = MemoryIdentityProviders([provider], clock=self.clock, entropy=SeededEntropy(self.seed + 1))
        (self.folder / "polled").mkdir(parents=True, exist_ok=True)
        self.files = MemoryPollingFiles(self.folder / "polled")
        self._ports = NodePorts(
            chains=MemoryChains(self.store),
            head_logs=MemoryHeadLogs(self.store),
            catalog=MemoryCatalog(self.store),
            search_documents=MemorySearchDocuments(self.store),
            accounts=MemoryAccounts(self.store),
            relations=MemoryRelations(self.store),
            tokens=MemoryTokens(self.store),
            invitations=MemoryInvitations(self.store),
            devices=MemoryDeviceAuthorisations(self.store),
            saved_queries=MemorySavedQueries(self.store),
            audit=MemoryAuditLog(self.store),
            passwords=QuickPasswords(),
            rate_limits=MemoryRateLimits(keys_max=1000, seconds=lambda: self.clock.now().epoch_ns / 1e9),
            identities=self.identities,
            usage=MemoryUsage(self.store),
            objects=self.objects,
            part_uploads=self.parts,
            jobs=MemoryJobs(self.store),
            outbox=MemoryOutbox(self.store),
            removed=MemoryRemovedDatasets(self.store),
            flows=MemoryFlows(self.store),
            roles=MemoryRoles(),
            duties=MemoryDuties(),
            cursors=MemoryCursors(),
            subscriptions=MemorySubscriptions(self.store),
            deliveries=MemoryDeliveries(self.store),
            signing_keys=MemorySigningKeys(self.store),
            variables=MemoryVariables(self.store),
            repositories=MemoryRepositories(self.store),
            state_index=self.state_index,
            engine=self.engine,
            exchange=exchange,
            sources=self._polling(),
            remotes=self.remotes,
            destinations=self.destinations,
            remote_stores=by_scheme,
            remote_nodes=self.peers,
            conversations=self.conversations,
            linked_objects=self.linked_objects,
            webhooks=self.webhooks,
            keys=MemoryDatasetKeys(entropy),
            clock=self.clock,
            entropy=entropy,
        )
        # One object at a time: plans of faults count calls, whose order is then always the same.
        self.settings = Settings(
            workspace=self.folder, job_retry_s=0.001, job_retry_s_max=0.001, lease_s=30.0, transfers_at_once=1
        )
        self.restart(self.interceptor)

    def _polling(self) -> PollingPorts:
        return PollingPorts(
            http=self.http,
            files=self.files,
            files_of_user=lambda _: self.files,
            preparation=ArchivePreparation(ArchiveLimits()),
            messages=self.messages,
            programs=self.programs,
            containers=self.containers,
            savepoints=MemorySavepoints(self.folder / "polled"),
        )

    def _make_elsewhere(self) -> dict[str, RemoteStores]:
        """Other nodes, folders and buckets; stores by scheme."""
        self.remotes, self.peers = MemoryRemoteDatasets(), MemoryRemoteNodes()
        self.remote_stores = MemoryRemoteStores(self.remotes, self.clock)
        by_scheme: dict[str, RemoteStores] = dict.fromkeys(("file", "s3", "s3+http", "s3+https"), self.remote_stores)
        self.destinations = StoredDestinations(by_scheme, block_bytes_max=16 * 1024 * 1024, at_once=1)
        return by_scheme

    def restart(self, interceptor: Interceptor | None = None) -> None:
        """A new process's view: the same stores, nothing remembered.

        `interceptor` sits before all ports.
        """
        make_first_accounts(local=LOCAL_ID, system=SYSTEM_ID, accounts=self._ports.accounts, clock=self._ports.clock)
        ports = intercepted(self._ports, interceptor) if interceptor else self._ports
        self.node = Node(ports, self.settings)

    def use_ports(self, **ports: Any) -> None:
        """Start again with these ports, by their names in NodePorts."""
        self._ports = replace(self._ports, **ports)
        self.restart(self.interceptor)

    def use_database(
        self,
        store: MemoryStore,
        interceptor: Interceptor | None = None,
        *,
        cursors: Cursors | None = None,
        **settings: int,
    ) -> None:
        """Start again on another database, and without jobs or cursors if none are given.

        `settings` are changed.
        """
        self.store = store
        self._ports = replace(
            self._ports,
            chains=MemoryChains(store),
            head_logs=MemoryHeadLogs(store),
            catalog=MemoryCatalog(store),
            search_documents=MemorySearchDocuments(store),
            accounts=MemoryAccounts(store),
            relations=MemoryRelations(store),
            tokens=MemoryTokens(store),
            invitations=MemoryInvitations(store),
            devices=MemoryDeviceAuthorisations(store),
            saved_queries=MemorySavedQueries(store),
            audit=MemoryAuditLog(store),
            usage=MemoryUsage(store),
            jobs=MemoryJobs(store),
            flows=MemoryFlows(store),
            outbox=MemoryOutbox(store),
            removed=MemoryRemovedDatasets(store),
            cursors=cursors or MemoryCursors(),
            subscriptions=MemorySubscriptions(store),
            deliveries=MemoryDeliveries(store),
            signing_keys=MemorySigningKeys(store),
            variables=MemoryVariables(store),
            repositories=MemoryRepositories(store),
        )
        self.settings = self.settings.model_copy(update=settings)
        self.restart(interceptor)

    def use_engine(self, engine: Engine) -> None:
        """Start again with another engine, over the same exchange folder."""
        self.use_ports(engine=engine)

    def lose_database(self, interceptor: Interceptor | None = None, **settings: int) -> None:
        """Start again on an empty database."""
        self.use_database(MemoryStore(), interceptor, cursors=None, **settings)

    def add(self, manifest: str) -> CatalogEntry:
        """Create the dataset of a manifest."""
        (snapshot,) = parse_snapshots(manifest, file="test.yaml")
        entry, _ = self.node.datasets.create(snapshot, self.node.operator)
        return entry

    def work(self, *, rounds_max: int = 1000) -> int:
        """Do what a worker does until nothing is left to do now; how many jobs were done."""
        done = 0
        for _ in range(rounds_max):
            moved, pause_s = self.node.background.relay_outbox(), self.node.flows.step("worker")
            run = self.node.jobs.lease("worker")
            if run is not None:
                self.node.jobs.run(run)
                done += 1
            elif not moved and pause_s:
                return done
        raise AssertionError(f"work did not end within {rounds_max} rounds")

    def finish(self, job: Job, listener: Callable[[object], None] = lambda _: None) -> Job:
        """Do jobs until this one has ended."""
        return self.node.jobs.work_until_ended(job, worker="test", listener=listener)
