"""Standing around the calls of a port.

Owns how a port, and what it opens, is wrapped. Not here: which calls count (`port_calls`), and what happens around one (`faults`,
`crash_points`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from odfabric.adapters.unreliable.port_calls import (
    ACCOUNTS,
    AUDIT_LOG,
    CATALOG,
    CHAINS,
    CONTAINERS,
    CURSORS,
    DELIVERIES,
    DESTINATION,
    DEVICES,
    ENGINE,
    EXCHANGE,
    FLOWS,
    HEAD_LOGS,
    HTTP_SOURCE,
    INTENTS,
    INVITATIONS,
    JOBS,
    KEYS,
    LINKED,
    MESSAGE_BATCH,
    NODE_KEY,
    OBJECTS,
    OUTBOX,
    PART_UPLOADS,
    PEERS,
    POLLING_FILES,
    PREPARATION,
    PROGRAMS,
    RELATIONS,
    REMOTE,
    REMOVED,
    REPOSITORIES,
    ROLES,
    SAVED_QUERIES,
    SAVEPOINTS,
    SEALED_STORE,
    SEARCH_DOCUMENTS,
    SIGNING_KEYS,
    STATE_INDEX,
    SUBSCRIPTIONS,
    TALK,
    TOKENS,
    VARIABLES,
    WEBHOOKS,
    PortCalls,
)
from odfabric.model.source import FetchStepMqtt
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.commit_intents import CommitIntents
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.part_uploads import PartUploads
from odfabric.ports.datasets.removed_datasets import RemovedDatasets
from odfabric.ports.datasets.search_documents import SearchDocuments
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.ports.engine import Engine
from odfabric.ports.jobs.flows import Flows
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.sealing import KeyRotation, SealedStore
from odfabric.ports.node.signing_keys import SigningKeys
from odfabric.ports.people.accounts import Accounts, Relations
from odfabric.ports.people.audit import AuditLog
from odfabric.ports.people.credentials import DeviceAuthorisations, Invitations, Tokens
from odfabric.ports.people.roles import Roles
from odfabric.ports.people.saved_queries import SavedQueries
from odfabric.ports.sources.containers import ContainerSource
from odfabric.ports.sources.egress import HttpSource, RemoteDataset, RemoteDatasets, WebhookSender
from odfabric.ports.sources.messages import MessageBatch, MessageSource
from odfabric.ports.sources.polling_files import PollingFiles, SourcePreparation
from odfabric.ports.sources.programs import PreparePrograms
from odfabric.ports.sources.savepoints import Savepoints
from odfabric.ports.sources.variables import Variables
from odfabric.ports.subscriptions.cursors import Cursors
from odfabric.ports.subscriptions.outbox import Outbox
from odfabric.ports.subscriptions.subscriptions import Deliveries, Subscriptions
from odfabric.ports.transfer.conversations import Conversation, Conversations, LinkedObjects
from odfabric.ports.transfer.destinations import Destination, Destinations
from odfabric.ports.transfer.nodes import RemoteNodes
from odfabric.ports.transfer.repositories import RemoteRepositories

Port = TypeVar("Port")
T = TypeVar("T")


class Interceptor(ABC):
    """Wraps ports so that each of their calls goes through `around`."""

    @abstractmethod
    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        """Perform the call `act`, of the given name, and whatever goes with it."""

    def wrap(self, port: Port, calls: PortCalls) -> Port:
        """The port, intercepted."""
        return cast(Port, _Intercepted(port, calls, self))

    def chains(self, port: ChainWriter) -> ChainWriter:
        """Heads and block index."""
        return self.wrap(port, CHAINS)

    def head_logs(self, port: HeadLogs) -> HeadLogs:
        """Logs of head moves."""
        return self.wrap(port, HEAD_LOGS)

    def catalog(self, port: Catalog) -> Catalog:
        """The catalog."""
        return self.wrap(port, CATALOG)

    def search_documents(self, port: SearchDocuments) -> SearchDocuments:
        """What datasets are searched by."""
        return self.wrap(port, SEARCH_DOCUMENTS)

    def objects(self, port: ObjectStore) -> ObjectStore:
        """Objects and refs."""
        return self.wrap(port, OBJECTS)

    def part_uploads(self, port: PartUploads) -> PartUploads:
        """Uploads in parts."""
        return self.wrap(port, PART_UPLOADS)

    def jobs(self, port: Jobs) -> Jobs:
        """The job table."""
        return self.wrap(port, JOBS)

    def flows(self, port: Flows) -> Flows:
        """Flows and runs."""
        return self.wrap(port, FLOWS)

    def roles(self, port: Roles) -> Roles:
        """Roles."""
        return self.wrap(port, ROLES)

    def intents(self, port: CommitIntents) -> CommitIntents:
        """What is about to be committed."""
        return self.wrap(port, INTENTS)

    def outbox(self, port: Outbox) -> Outbox:
        """The outbox."""
        return self.wrap(port, OUTBOX)

    def cursors(self, port: Cursors) -> Cursors:
        """Cursors of consumers."""
        return self.wrap(port, CURSORS)

    def removed(self, port: RemovedDatasets) -> RemovedDatasets:
        """Marks of deleted datasets."""
        return self.wrap(port, REMOVED)

    def state_index(self, port: StateIndex) -> StateIndex:
        """Current-state indexes."""
        return self.wrap(port, STATE_INDEX)

    def subscriptions(self, port: Subscriptions) -> Subscriptions:
        """Subscriptions."""
        return self.wrap(port, SUBSCRIPTIONS)

    def deliveries(self, port: Deliveries) -> Deliveries:
        """Deliveries."""
        return self.wrap(port, DELIVERIES)

    def accounts(self, port: Accounts) -> Accounts:
        """Accounts."""
        return self.wrap(port, ACCOUNTS)

    def relations(self, port: Relations) -> Relations:
        """Memberships and grants."""
        return self.wrap(port, RELATIONS)

    def tokens(self, port: Tokens) -> Tokens:
        """Access tokens."""
        return self.wrap(port, TOKENS)

    def invitations(self, port: Invitations) -> Invitations:
        """Invitations."""
        return self.wrap(port, INVITATIONS)

    def devices(self, port: DeviceAuthorisations) -> DeviceAuthorisations:
        """Devices that wait for a person."""
        return self.wrap(port, DEVICES)

    def saved_queries(self, port: SavedQueries) -> SavedQueries:
        """Saved queries."""
        return self.wrap(port, SAVED_QUERIES)

    def audit_log(self, port: AuditLog) -> AuditLog:
        """The audit log."""
        return self.wrap(port, AUDIT_LOG)

    def signing_keys(self, port: SigningKeys) -> SigningKeys:
        """Keys that sign requests."""
        return self.wrap(port, SIGNING_KEYS)

    def variables(self, port: Variables) -> Variables:
        """Variables and secrets of datasets."""
        return self.wrap(port, VARIABLES)

    def webhooks(self, port: WebhookSender) -> WebhookSender:
        """Sending of webhooks."""
        return self.wrap(port, WEBHOOKS)

    def engine(self, port: Engine) -> Engine:
        """The engine."""
        return self.wrap(port, ENGINE)

    def keys(self, port: DatasetKeys) -> DatasetKeys:
        """Key pairs."""
        return self.wrap(port, KEYS)

    def node_key(self, port: KeyRotation) -> KeyRotation:
        """Changes of the node's key."""
        return self.wrap(port, NODE_KEY)

    def sealed_store(self, port: SealedStore) -> SealedStore:
        """One kind of sealed secrets."""
        return self.wrap(port, SEALED_STORE)

    def http_source(self, port: HttpSource) -> HttpSource:
        """Polling over HTTP."""
        return self.wrap(port, HTTP_SOURCE)

    def polling_files(self, port: PollingFiles) -> PollingFiles:
        """Polling of files."""
        return self.wrap(port, POLLING_FILES)

    def preparation(self, port: SourcePreparation) -> SourcePreparation:
        """Unpacking."""
        return self.wrap(port, PREPARATION)

    def containers(self, port: ContainerSource | None) -> ContainerSource | None:
        """Containers that fetch data, where there are any."""
        return None if port is None else self.wrap(port, CONTAINERS)

    def programs(self, port: PreparePrograms) -> PreparePrograms:
        """Programs that prepare data."""
        return self.wrap(port, PROGRAMS)

    def savepoints(self, port: Savepoints) -> Savepoints:
        """Bodies of failed pulls; nothing depends on them, so no process is killed there."""
        return self.wrap(port, SAVEPOINTS)

    def messages(self, port: MessageSource) -> MessageSource:
        """Messages of brokers."""
        return _Messages(port, self)

    def exchange(self, port: Exchange) -> Exchange:
        """The exchange folder."""
        return self.wrap(port, EXCHANGE)

    def repositories(self, port: RemoteRepositories) -> RemoteRepositories:
        """Repositories elsewhere, and aliases there."""
        return self.wrap(port, REPOSITORIES)

    def destinations(self, port: Destinations) -> Destinations:
        """Places that datasets are pushed to."""
        return _Destinations(port, self)

    def conversation(self, talk: Conversation) -> Conversation:
        """A conversation that a peer has begun, or this node."""
        return self.wrap(talk, TALK)

    def conversations(self, port: Conversations) -> Conversations:
        """Conversations with other nodes."""
        return _Conversations(port, self)

    def linked_objects(self, port: LinkedObjects) -> LinkedObjects:
        """Objects at URLs that peers name."""
        return self.wrap(port, LINKED)

    def remote_nodes(self, port: RemoteNodes) -> RemoteNodes:
        """What other nodes answer, and take."""
        return self.wrap(port, PEERS)

    def remotes(self, port: RemoteDatasets) -> RemoteDatasets:
        """Datasets elsewhere."""
        return _Remotes(port, self)


class _Intercepted:
    """Stands for a port; methods that are not listed go straight through."""

    def __init__(self, port: object, calls: PortCalls, interceptor: Interceptor) -> None:
        self._port = port
        self._calls = calls
        self._interceptor = interceptor

    def __getattr__(self, method: str) -> Any:
        member = getattr(self._port, method)
        effect = method in self._calls.effects
        if not effect and method not in self._calls.reads:
            return member

        def call(*arguments: Any, **named: Any) -> Any:
            name = self._calls.name(method, arguments)
            return self._interceptor.around(name, partial(member, *arguments, **named), effect=effect)

        return call


class _Messages:
    """Receives messages and intercepts their acknowledgement."""

    def __init__(self, port: MessageSource, interceptor: Interceptor) -> None:
        self._port = port
        self._interceptor = interceptor

    @contextmanager
    def receive(
        self, step: FetchStepMqtt, *, client_id: str, ingested_before: bool, messages_max: int, into: Path
    ) -> Iterator[MessageBatch]:
        """See the port."""
        with ExitStack() as held:
            received = self._port.receive(
                step, client_id=client_id, ingested_before=ingested_before, messages_max=messages_max, into=into
            )
            batch = self._interceptor.around("source.receive", lambda: held.enter_context(received), effect=False)
            yield self._interceptor.wrap(batch, MESSAGE_BATCH)


class _Remotes:
    """Opens remotes and intercepts what it opens."""

    def __init__(self, port: RemoteDatasets, interceptor: Interceptor) -> None:
        self._port = port
        self._interceptor = interceptor

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """See the port."""
        return self._interceptor.wrap(self._port.open(url, token=token), REMOTE)


class _Conversations:
    """Begins conversations and intercepts what is said."""

    def __init__(self, port: Conversations, interceptor: Interceptor) -> None:
        self._port = port
        self._interceptor = interceptor

    @contextmanager
    def open(self, url: str, verb: Literal["pull", "push"]) -> Iterator[Conversation]:
        """See the port."""
        with self._port.open(url, verb) as talk:
            yield self._interceptor.conversation(talk)


class _Destinations:
    """Opens destinations and intercepts what it opens."""

    def __init__(self, port: Destinations, interceptor: Interceptor) -> None:
        self._port = port
        self._interceptor = interceptor

    def open(self, url: str, *, token: str | None = None) -> Destination:
        """See the port."""
        return self._interceptor.wrap(self._port.open(url, token=token), DESTINATION)
