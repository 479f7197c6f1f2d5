"""Everything outside the core that a node needs, as one value.

And the same with drills in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from odfabric.adapters.memory.subscriptions.signals import MemorySignals
from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.part_uploads import PartUploads
from odfabric.ports.datasets.removed_datasets import RemovedDatasets
from odfabric.ports.datasets.search_documents import SearchDocuments
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.ports.engine import Engine
from odfabric.ports.jobs.duties import Duties
from odfabric.ports.jobs.flows import Flows
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.node.signing_keys import SigningKeys
from odfabric.ports.people.accounts import Accounts, Relations
from odfabric.ports.people.audit import AuditLog
from odfabric.ports.people.credentials import DeviceAuthorisations, Invitations, Tokens
from odfabric.ports.people.identity_provider import IdentityProviders
from odfabric.ports.people.passwords import Passwords
from odfabric.ports.people.rate_limits import RateLimits
from odfabric.ports.people.roles import Roles
from odfabric.ports.people.saved_queries import SavedQueries
from odfabric.ports.people.usage import Usage
from odfabric.ports.sources.egress import RemoteDatasets, WebhookSender
from odfabric.ports.sources.variables import Variables
from odfabric.ports.subscriptions.cursors import Cursors
from odfabric.ports.subscriptions.outbox import Outbox
from odfabric.ports.subscriptions.signals import Signals
from odfabric.ports.subscriptions.subscriptions import Deliveries, Subscriptions
from odfabric.ports.transfer.conversations import Conversation, Conversations, LinkedObjects
from odfabric.ports.transfer.destinations import Destinations, RemoteStores
from odfabric.ports.transfer.nodes import RemoteNodes
from odfabric.ports.transfer.repositories import RemoteRepositories
from odfabric.usecases.polling.poll_source import PollingPorts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """Everything outside the core that a node needs."""

    chains: ChainWriter
    head_logs: HeadLogs
    catalog: Catalog
    search_documents: SearchDocuments
    accounts: Accounts
    relations: Relations
    tokens: Tokens
    invitations: Invitations
    devices: DeviceAuthorisations
    saved_queries: SavedQueries
    audit: AuditLog
    passwords: Passwords
    rate_limits: RateLimits
    identities: IdentityProviders
    usage: Usage
    objects: ObjectStore
    jobs: Jobs
    outbox: Outbox
    removed: RemovedDatasets
    flows: Flows
    roles: Roles
    duties: Duties
    cursors: Cursors
    subscriptions: Subscriptions
    deliveries: Deliveries
    signing_keys: SigningKeys
    variables: Variables
    repositories: RemoteRepositories
    state_index: StateIndex
    engine: Engine
    exchange: Exchange
    sources: PollingPorts
    remotes: RemoteDatasets
    destinations: Destinations
    remote_stores: Mapping[str, RemoteStores]
    remote_nodes: RemoteNodes
    conversations: Conversations
    linked_objects: LinkedObjects
    webhooks: WebhookSender
    keys: DatasetKeys
    clock: Clock
    entropy: Entropy
    begun_by_peer: Callable[[Conversation], Conversation] = lambda talk: talk
    """Through what a conversation goes that a peer has begun."""
    monotonic_s: Callable[[], float] = time.monotonic
    """What deadlines of conversations are measured by."""
    signals: Signals = field(default_factory=MemorySignals)
    own_part: str = ""
    """What keeps staged uploads of this node apart in objects that it shares with others; empty or ending with a slash."""
    stored: ObjectStore | None = None
    """`objects` without copies nearby, which verification must not trust; None if there are none."""
    part_uploads: PartUploads | None = None
    """Uploads that clients send to `objects` themselves; None where they cannot reach them."""


def intercepted(ports: NodePorts, interceptor: Interceptor) -> NodePorts:
    """The same ports with effects through `interceptor`: drills, tests of faults."""
    return NodePorts(
        chains=interceptor.chains(ports.chains),
        head_logs=interceptor.head_logs(ports.head_logs),
        catalog=interceptor.catalog(ports.catalog),
        search_documents=interceptor.search_documents(ports.search_documents),
        accounts=interceptor.accounts(ports.accounts),
        relations=interceptor.relations(ports.relations),
        tokens=interceptor.tokens(ports.tokens),
        invitations=interceptor.invitations(ports.invitations),
        devices=interceptor.devices(ports.devices),
        saved_queries=interceptor.saved_queries(ports.saved_queries),
        audit=interceptor.audit_log(ports.audit),
        passwords=ports.passwords,
        rate_limits=ports.rate_limits,
        identities=ports.identities,
        usage=ports.usage,
        objects=interceptor.objects(ports.objects),
        jobs=interceptor.jobs(ports.jobs),
        outbox=interceptor.outbox(ports.outbox),
        removed=interceptor.removed(ports.removed),
        flows=interceptor.flows(ports.flows),
        roles=interceptor.roles(ports.roles),
        duties=ports.duties,
        cursors=interceptor.cursors(ports.cursors),
        subscriptions=interceptor.subscriptions(ports.subscriptions),
        deliveries=interceptor.deliveries(ports.deliveries),
        signing_keys=interceptor.signing_keys(ports.signing_keys),
        variables=interceptor.variables(ports.variables),
        repositories=interceptor.repositories(ports.repositories),
        state_index=interceptor.state_index(ports.state_index),
        engine=interceptor.engine(ports.engine),
        exchange=interceptor.exchange(ports.exchange),
        sources=PollingPorts(
            http=interceptor.http_source(ports.sources.http),
            files=interceptor.polling_files(ports.sources.files),
            files_of_user=lambda folder: interceptor.polling_files(ports.sources.files_of_user(folder)),
            preparation=interceptor.preparation(ports.sources.preparation),
            containers=interceptor.containers(ports.sources.containers),
            programs=interceptor.programs(ports.sources.programs),
            messages=interceptor.messages(ports.sources.messages),
            savepoints=interceptor.savepoints(ports.sources.savepoints),
        ),
        remotes=interceptor.remotes(ports.remotes),
        destinations=interceptor.destinations(ports.destinations),
        remote_stores=ports.remote_stores,
        remote_nodes=interceptor.remote_nodes(ports.remote_nodes),
        conversations=interceptor.conversations(ports.conversations),
        linked_objects=interceptor.linked_objects(ports.linked_objects),
        begun_by_peer=interceptor.conversation,
        monotonic_s=ports.monotonic_s,
        webhooks=interceptor.webhooks(ports.webhooks),
        keys=interceptor.keys(ports.keys),
        clock=ports.clock,
        entropy=ports.entropy,
        signals=ports.signals,
        own_part=ports.own_part,
        stored=interceptor.objects(ports.stored) if ports.stored else None,
        part_uploads=interceptor.part_uploads(ports.part_uploads) if ports.part_uploads else None,
    )
