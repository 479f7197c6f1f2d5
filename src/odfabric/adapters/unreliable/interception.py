"""Standing around the calls of a port.

Owns which calls of which ports count, what each is called, and whether it has an effect outside the process. Names are
`<port>.<verb>`, for objects `object.<kind>.<verb>`, and are the same in fault plans and crash points. Not here: what happens
around a call (`faults`, `crash_points`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

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

_KINDS = {
    "blocks": "block",
    "data": "data",
    "checkpoints": "checkpoint",
    "refs": "ref",
    "info": "info",
}


_AREAS = {"staging": "staging", "names": "name"}


def object_kind(key: str) -> str:
    """Kind of an object by its key.

    Block, data, checkpoint, ref, info, name, staging or other.
    """
    parts = key.split("/")
    if parts[0] in _AREAS:
        return _AREAS[parts[0]]
    if parts[0] in _KINDS:  # in the store of a single dataset
        return _KINDS[parts[0]]
    return _KINDS.get(parts[1], "other") if len(parts) > 1 else "other"


@dataclass(frozen=True, slots=True)
class PortCalls:
    """Names of calls by method: those with an effect, and those that only read.

    `of_objects` names them by the kind of key.
    """

    effects: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, str] = field(default_factory=dict)
    of_objects: bool = False

    def name(self, method: str, arguments: tuple[Any, ...]) -> str:
        """The name of a call."""
        name = self.effects.get(method) or self.reads[method]
        return f"object.{object_kind(arguments[0])}.{name}" if self.of_objects else name


CHAINS = PortCalls(
    effects={
        "append": "chain.append",
        "adopt": "chain.adopt",
        "remove": "chain.remove",
        "rename": "chain.rename",
        "replace": "chain.replace",
    },
    reads={name: f"chain.{name}" for name in ("head", "contains", "row", "rows_down", "idempotency", "commit_of_job")},
)
HEAD_LOGS = PortCalls(
    effects={
        "add": "head_log.add",
        "replace": "head_log.replace",
        "hand_over": "head_log.hand_over",
        "note_seen": "head_log.note_seen",
    },
    reads={name: f"head_log.{name}" for name in ("last", "lines", "handovers", "seen")},
)
CATALOG = PortCalls(reads={name: f"catalog.{name}" for name in ("by_id", "by_alias", "page", "found", "facets")})
SEARCH_DOCUMENTS = PortCalls(effects={"put": "search.put"}, reads={"behind": "search.behind"})
SAVED_QUERIES = PortCalls(
    effects={"create": "saved_query.create", "change": "saved_query.change", "delete": "saved_query.delete"},
    reads={"get": "saved_query.get", "of_account": "saved_query.of_account"},
)
OBJECTS = PortCalls(
    effects={
        "put_bytes": "put",
        "put_file": "put",
        "put_stream": "put",
        "write_ref": "put",
        "replace_ref": "put",
        "delete": "delete",
    },
    reads={
        "read_bytes": "read",
        "read_end": "read",
        "open": "read",
        "stat": "stat",
        "materialize": "read",
        "keys": "list",
        "exclusive": "lock",
        "read_ref": "read",
    },
    of_objects=True,
)
PART_UPLOADS = PortCalls(
    effects={"begin": "parts.begin", "complete": "parts.complete", "abort": "parts.abort"},
    reads={"link": "parts.link", "stored": "parts.stored", "unfinished": "parts.unfinished"},
)
JOBS = PortCalls(
    effects={
        "enqueue": "job.enqueue",
        "lease": "job.lease",
        "lease_one": "job.lease",
        "heartbeat": "job.heartbeat",
        "succeed": "job.succeed",
        "fail": "job.fail",
        "retry": "job.retry",
        "give_back": "job.retry",
        "cancel": "job.cancel",
    },
    reads={
        "get": "job.get",
        "page": "job.page",
        "bodies": "job.bodies",
        "following": "job.following",
        "queued": "job.queued",
        "pushes_waiting": "job.pushes_waiting",
    },
)
FLOWS = PortCalls(
    effects={"write": "flow.write", "delete": "flow.delete", "drop_run": "flow.drop_run", "forget": "flow.forget"},
    reads={
        name: f"flow.{name}"
        for name in (
            "get",
            "of_dataset",
            "of_kind",
            "page",
            "due",
            "next_due",
            "run",
            "waiting",
            "unfinished",
            "runs",
            "last_runs",
            "last_wave",
        )
    },
)
ROLES = PortCalls(effects={"hold": "role.hold", "release": "role.release"})
INTENTS = PortCalls(effects={"add": "intent.add", "drop": "intent.drop"}, reads={"all": "intent.all"})
OUTBOX = PortCalls(
    effects={"fan_out": "outbox.fan_out"}, reads={"pending": "outbox.pending", "wanted": "outbox.wanted"}
)
REMOVED = PortCalls(
    effects={"forget": "removed.forget"},
    reads={"removed_at": "removed.removed_at", "removed_before": "removed.removed_before"},
)
STATE_INDEX = PortCalls(
    effects={"extend": "index.extend", "maintain": "index.maintain", "drop": "index.drop"},
    reads={"frontier": "index.frontier", "rows_at": "index.rows_at"},
)
CURSORS = PortCalls(
    effects={"create": "cursor.create", "claim": "cursor.move", "move": "cursor.move", "delete": "cursor.delete"},
    reads={"get": "cursor.get", "of_dataset": "cursor.of_dataset"},
)
SUBSCRIPTIONS = PortCalls(
    effects={
        "create": "subscription.create",
        "delete": "subscription.delete",
        "set_secret": "subscription.rotate",
        "drop_old_secrets": "subscription.drop_old",
        "set_state": "subscription.state",
        "note_test": "subscription.test",
    },
    reads={
        name: f"subscription.{name}" for name in ("get", "secrets", "of_dataset", "of_account", "of_node", "counted")
    },
)
DELIVERIES = PortCalls(
    effects={
        "lease_due": "delivery.lease",
        "record_success": "delivery.succeed",
        "record_failure": "delivery.fail",
        "replay": "delivery.replay",
    },
    reads={name: f"delivery.{name}" for name in ("of_subscription", "get", "attempts")},
)
ACCOUNTS = PortCalls(
    effects={
        "create": "account.create",
        "change": "account.change",
        "delete": "account.delete",
        "set_password": "account.set_password",
        "link_identity": "account.link_identity",
    },
    reads={
        name: f"account.{name}"
        for name in ("by_id", "by_name", "by_identity", "identities", "page", "admins", "password_hash")
    },
)
RELATIONS = PortCalls(
    effects={"change_membership": "relation.change_membership", "change_grant": "relation.change_grant"},
    reads={name: f"relation.{name}" for name in ("memberships", "membership", "members", "grants", "grant", "granted")},
)
TOKENS = PortCalls(
    effects={
        "create": "token.create",
        "revoke": "token.revoke",
        "revoke_all": "token.revoke",
        "used": "token.use",
        "forget": "token.forget",
    },
    reads={"get": "token.get", "of_account": "token.of_account"},
)
INVITATIONS = PortCalls(
    effects={"create": "invitation.create", "use": "invitation.use", "revoke": "invitation.revoke"},
    reads={name: f"invitation.{name}" for name in ("by_code", "get", "open")},
)
DEVICES = PortCalls(
    effects={name: f"device.{name}" for name in ("create", "decide", "ask", "redeem")},
    reads={"by_user_code": "device.by_user_code"},
)
AUDIT_LOG = PortCalls(
    effects={"add": "audit.add", "refused": "audit.refuse", "flushed": "audit.flush", "forget": "audit.forget"},
    reads={"page": "audit.page", "unflushed": "audit.unflushed"},
)
SIGNING_KEYS = PortCalls(
    effects={"add": "signing_key.add", "forget_retired": "signing_key.forget"},
    reads={"current": "signing_key.current", "all": "signing_key.all"},
)
VARIABLES = PortCalls(
    effects={"set": "variable.set", "delete": "variable.delete"},
    reads={"of_dataset": "variable.of_dataset", "value": "variable.value"},
)
WEBHOOKS = PortCalls(effects={"post": "webhook.post"})
ENGINE = PortCalls(
    effects={
        "ingest": "engine.ingest",
        "execute_transform": "engine.transform",
        "validate_query": "engine.validate",
        "query": "engine.query",
    },
    reads={"info": "engine.info", "migrate_query": "engine.migrate", "derive_provenance": "engine.provenance"},
)
KEYS = PortCalls(
    effects={"create": "keys.create", "keep": "keys.keep"},
    reads={name: f"keys.{name}" for name in ("public", "sign", "reveal")},
)
NODE_KEY = PortCalls(effects={"begin": "node_key.begin", "drop_old": "node_key.drop_old"})
SEALED_STORE = PortCalls(effects={"replace": "sealed.replace"}, reads={"rows": "sealed.rows"})
HTTP_SOURCE = PortCalls(reads={"fetch": "source.fetch"})
POLLING_FILES = PortCalls(reads={"glob": "source.glob", "file": "source.file"})
PREPARATION = PortCalls(
    reads={"decompress_gzip": "source.decompress", "decompress_zip": "source.decompress", "copy": "source.copy"}
)
CONTAINERS = PortCalls(reads={"fetch": "source.fetch"})
PROGRAMS = PortCalls(reads={"run": "source.pipe"})
SAVEPOINTS = PortCalls(reads={"keep": "savepoint.keep", "find": "savepoint.find", "drop": "savepoint.drop"})
# No crash point: nothing of ours changes, and a message that a dead process has not acknowledged comes again.
MESSAGE_BATCH = PortCalls(reads={"acknowledge": "source.acknowledge"})
REPOSITORIES = PortCalls(
    effects={
        "add": "repository.add",
        "remove": "repository.remove",
        "add_alias": "alias.add",
        "remove_alias": "alias.remove",
    },
    reads={"of": "repository.of", "aliases": "alias.of"},
)
DESTINATION = PortCalls(
    effects={"put": "destination.put", "publish": "destination.publish"},
    reads={name: f"destination.{name}" for name in ("head", "block", "ref", "sizes")},
)
REMOTE = PortCalls(
    reads={"head": "remote.head", "block": "remote.block", "ref": "remote.ref", "download": "remote.download"}
)
TALK = PortCalls(effects={"say": "talk.say", "end": "talk.end"}, reads={"hear": "talk.hear"})
LINKED = PortCalls(effects={"upload": "link.upload"}, reads={"download": "link.download"})
PEERS = PortCalls(
    effects={"send_ref": "peer.send_ref"},
    reads={name: f"peer.{name}" for name in ("has_accounts", "own_account", "name_of", "search", "why", "has_key")},
)
EXCHANGE = PortCalls(reads={"session": "exchange.session"})


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
