"""The node of a process: which adapters stand behind its ports.

Owns what lies where in a workspace: keys, exchange folder, engine, and without servers also database and objects. Invariant: a
workspace is complete once its database has all migrations; opening one that is not is refused, making one twice changes nothing.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry

from odfabric.adapters.engine_process.launcher import ENGINE_CRASH_POINTS, EngineLaunch, EngineLauncher
from odfabric.adapters.grpc_engine.engine import EngineChannel, GrpcEngine
from odfabric.adapters.grpc_engine.patient import Patience, PatientEngine
from odfabric.adapters.http.egress import Egress, EgressLimits
from odfabric.adapters.http.webhook import HttpWebhookSender
from odfabric.adapters.local_fs.dataset_keys import KeyFileDatasetKeys
from odfabric.adapters.local_fs.exchange import FolderExchange
from odfabric.adapters.local_fs.signals import FolderSignals
from odfabric.adapters.memory.subscriptions.signals import MemorySignals
from odfabric.adapters.persist.metrics import PersistCollector
from odfabric.adapters.sql.audit import SqlAuditLog
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.commit_intents import SqlCommitIntents
from odfabric.adapters.sql.datasets.head_logs import SqlHeadLogs
from odfabric.adapters.sql.datasets.removed_datasets import SqlRemovedDatasets
from odfabric.adapters.sql.datasets.search import SqlSearchDocuments
from odfabric.adapters.sql.jobs.duties import SqlDuties
from odfabric.adapters.sql.jobs.flows import SqlFlows, SqlRoles
from odfabric.adapters.sql.jobs.jobs import SqlJobs
from odfabric.adapters.sql.outbox import SqlOutbox
from odfabric.adapters.sql.people.accounts import SqlAccounts
from odfabric.adapters.sql.people.credentials import SqlDeviceAuthorisations, SqlInvitations, SqlTokens
from odfabric.adapters.sql.people.relations import SqlRelations
from odfabric.adapters.sql.people.saved_queries import SqlSavedQueries
from odfabric.adapters.sql.people.usage import SqlUsage
from odfabric.adapters.sql.signing_keys import SqlSigningKeys
from odfabric.adapters.sql.sources.variables import SqlVariables
from odfabric.adapters.sql.subscriptions.cursors import SqlCursors
from odfabric.adapters.sql.subscriptions.deliveries import SqlDeliveries, SqlSubscriptions
from odfabric.adapters.sql.transfer.repositories import SqlRepositories
from odfabric.adapters.sql.upgrade import check_upgraded, upgrade
from odfabric.adapters.system.clock import SystemClock, SystemEntropy
from odfabric.adapters.unreliable.crash_points import CRASH_POINT_TEXTS, CrashPoints
from odfabric.domain.people.access import SYSTEM_ACCOUNT
from odfabric.errors import InvalidRequest
from odfabric.formats.identifiers.did import parse_account_id
from odfabric.model.engine import EngineInfo
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.datasets.part_uploads import PartUploads
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.ports.engine import Engine
from odfabric.ports.node.clock import Clock
from odfabric.ports.node.sealing import Sealing
from odfabric.ports.people.identity_provider import IdentityProviders
from odfabric.ports.people.rate_limits import RateLimits
from odfabric.ports.subscriptions.signals import Signals
from odfabric.settings import Settings
from odfabric.telemetry import next_traceparent
from odfabric.usecases.people.first_start import make_first_accounts
from odfabric.wiring.engine.engine_on_demand import EngineOnDemand
from odfabric.wiring.engine.engines import open_engines
from odfabric.wiring.jobs.indexes import open_state_index, persist_location
from odfabric.wiring.monitoring.metrics import (
    DiskCollector,
    DutiesCollector,
    EngineCollector,
    FlowsCollector,
    SubscriptionsCollector,
    registry_of,
)
from odfabric.wiring.monitoring.overview import places
from odfabric.wiring.monitoring.timings import TimedEngine, Timings
from odfabric.wiring.node import Node
from odfabric.wiring.node_ports import NodePorts, intercepted
from odfabric.wiring.people.sign_in import open_identity_providers, open_passwords, open_rate_limits
from odfabric.wiring.places.database_place import database_place
from odfabric.wiring.places.identity import account_id, system_account_id, token
from odfabric.wiring.places.keys import node_sealing, seal_stored_secrets, with_sealed_secrets
from odfabric.wiring.places.shared_heads import with_heads_in_objects
from odfabric.wiring.places.stores import Stores, check_objects, open_stores
from odfabric.wiring.sources.polling import folder_savepoints, polling_ports
from odfabric.wiring.transfer.remotes import open_elsewhere

CRASH_POINTS: Mapping[str, str] = {**CRASH_POINT_TEXTS, **ENGINE_CRASH_POINTS}
"""Every point at which `ODF_CRASH_AT` can make a process of the node kill itself, and what happens there."""

SIGNALS_FOLDER = "signals"
_MAKES_A_PATTERN = "{}[]*?\\"


def prepare_workspace(settings: Settings) -> str:
    """Make or upgrade the workspace; returns the node's token.

    Safe to run in several processes at once.
    """
    _check_readable_by_engine(settings)
    try:
        settings.workspace.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        message = f"{settings.workspace} cannot be a workspace: {error.strerror}"
        raise InvalidRequest(message, hint="choose another folder") from error
    upgrade(database_place(settings))
    seal_stored_secrets(settings)
    check_objects(settings)
    return token(settings)


def _make_first_accounts(settings: Settings, database: Database) -> None:
    """Make the first accounts unless they are there, which one look shows.

    This is done at every start of a process.
    """
    accounts = SqlAccounts(database)
    if accounts.by_name(SYSTEM_ACCOUNT) is None:
        make_first_accounts(
            local=parse_account_id(account_id(settings)),
            system=parse_account_id(system_account_id(settings)),
            accounts=accounts,
            clock=SystemClock(),
        )


def _check_readable_by_engine(settings: Settings) -> None:
    """Refuse a path that Hadoop takes for a pattern.

    In a pattern, what is before a colon is a scheme: no escape helps.
    """
    path = str(_exchange_folder(settings))
    wild = next((sign for sign in path if sign in _MAKES_A_PATTERN), None)
    if wild is not None and ":" in path:
        message = (
            f"the engine could not read files of a workspace with `:` and `{wild}` in its path, {settings.workspace}"
        )
        raise InvalidRequest(message, hint=f"choose a path without `:`, or without all of {_MAKES_A_PATTERN}")


def engine_launcher(settings: Settings, *, owner_pid: int | None = None) -> EngineLauncher:
    """Finds and starts the engine of the workspace.

    With an owner it stays as long as that process does.
    """
    owner = owner_pid or settings.engine_owner_pid
    return EngineLauncher(
        EngineLaunch(
            workspace=settings.workspace,
            exchange=_exchange_folder(settings),
            memory_mib=settings.engine_memory_mib,
            jvm_options=settings.engine_jvm_options,
            options=settings.engine_options,
            start_s_max=settings.engine_start_s_max,
            call_s_max=settings.engine_call_s_max,
            query_text_bytes_max=settings.query_text_bytes_max,
            column_name_bytes_max=settings.column_name_bytes_max,
            idle_s=0.0 if owner else settings.engine_idle_s,
            sandbox=settings.engine_sandbox,
            compat_listen=settings.engine_compat_listen,
            compat_beyond_loopback=settings.engine_compat_beyond_loopback,
            owner_pid=owner,
            cache_folder=settings.engine_cache or settings.workspace / "engine-cache",
            spark_master=settings.spark_master,
            spark_secret_file=settings.spark_secret_file,
        )
    )


@contextmanager
def open_node(
    settings: Settings,
    *,
    engine: Engine | None = None,
    clock: Clock | None = None,
    part_uploads: PartUploads | None = None,
) -> Iterator[Node]:
    """The node of a prepared workspace; connections are closed with the context.

    `engine` stands in for the workspace's own, whose exchange folder it must share, `clock` for the system's, and `part_uploads` for those of
    a bucket: drills.
    """
    if not settings.workspace.is_dir():
        raise InvalidRequest(f"there is no workspace {settings.workspace}", hint="`odf init` makes one")
    with ExitStack() as closing:
        egress = Egress(limits=egress_limits(settings), allow=settings.egress_allow)
        closing.callback(egress.close)
        exchange = FolderExchange(_exchange_folder(settings))
        closing.callback(exchange.close)
        stores = open_stores(settings, closing, private_folders=[exchange.root], part_uploads=part_uploads)
        if settings.database_url is None:
            # A workspace of an older release gets its new shape from anyone who opens it; servers get theirs from `odf init`.
            upgrade(database_place(settings))
        check_upgraded(stores.database)
        _make_first_accounts(settings, stores.database)
        own = engine or own_engine(settings, closing)
        timings = Timings()
        used = TimedEngine(open_engines(settings, own, exchange=exchange.root, closing=closing), timings)
        signals = _signals(settings, closing)
        location = persist_location(settings)
        closing.callback(location.close)
        index = open_state_index(settings, location, objects=stores.objects, exchange=exchange)
        counted = open_rate_limits(settings, secret=node_secret(settings, "rate limits"), closing=closing)
        identities = open_identity_providers(
            settings, egress=egress_limits(settings), clock=SystemClock(), entropy=SystemEntropy(), closing=closing
        )
        sealing = node_sealing(settings)
        ports = _ports(
            settings,
            stores,
            egress,
            exchange,
            used,
            clock or SystemClock(),
            signals,
            index,
            counted,
            identities,
            sealing,
            closing,
        )
        ports, intents = with_sealed_secrets(ports, SqlCommitIntents(stores.database), sealing)
        if settings.crash_at is not None and settings.crash_at.partition("@")[0] not in ENGINE_CRASH_POINTS:
            armed = CrashPoints(settings.crash_at)
            ports, intents = intercepted(ports, armed), armed.intents(intents)
        follow_heads = None
        if settings.heads == "objects":
            ports, follow_heads = with_heads_in_objects(ports, intents, settings)
        node = Node(ports, settings, follow_heads=follow_heads, timings=timings)
        node.token = token(settings)
        node.sign_in_secret = node_secret(settings, "sign in")
        node.engine_known = engine_known(own)
        node.status.registry = _registry(node, timings, PersistCollector(location.meter))
        node.background.sweepers = (exchange.remove_leftovers, lambda: _sweep(stores, node))
        yield node


def _registry(node: Node, timings: Timings, persist: PersistCollector) -> CollectorRegistry:
    """What this process exports to Prometheus."""
    ports = node.ports
    return registry_of(
        ports.jobs,
        ports.clock,
        *timings.collectors,
        FlowsCollector(ports.flows, ports.clock),
        DutiesCollector(ports.duties, ports.clock),
        persist,
        SubscriptionsCollector(ports.subscriptions),
        DiskCollector(lambda: places(node.settings).disk),
        EngineCollector(node.engine_known),
    )


def _sweep(stores: Stores, node: Node) -> int:
    """Remove old bodies of failed pulls, and leftovers of dead processes.

    Those in the folder of objects or copies.
    """
    expired = folder_savepoints(node.settings).sweep(node.ports.clock.now())
    if stores.folder is None:
        return expired
    lifetime_ns = int(node.settings.leftover_lifetime_s * NANOS_PER_SECOND)
    oldest = Instant(node.ports.clock.now().epoch_ns - lifetime_ns)
    return expired + stores.folder.remove_leftovers(older_than=oldest, entries_max=node.settings.leftover_entries_max)


def _ports(
    settings: Settings,
    stores: Stores,
    egress: Egress,
    exchange: FolderExchange,
    engine: Engine,
    clock: Clock,
    signals: Signals,
    state_index: StateIndex,
    rate_limits: RateLimits,
    identities: IdentityProviders,
    sealing: Sealing,
    closing: ExitStack,
) -> NodePorts:
    entropy = SystemEntropy()
    elsewhere = open_elsewhere(settings, egress, closing)
    return NodePorts(
        chains=SqlChains(stores.database),
        head_logs=SqlHeadLogs(stores.database),
        catalog=SqlCatalog(stores.database),
        search_documents=SqlSearchDocuments(stores.database),
        accounts=SqlAccounts(stores.database),
        relations=SqlRelations(stores.database),
        tokens=SqlTokens(stores.database),
        invitations=SqlInvitations(stores.database),
        devices=SqlDeviceAuthorisations(stores.database),
        saved_queries=SqlSavedQueries(stores.database),
        audit=SqlAuditLog(stores.database),
        passwords=open_passwords(settings),
        rate_limits=rate_limits,
        identities=identities,
        usage=SqlUsage(stores.database),
        objects=stores.objects,
        stored=stores.stored,
        part_uploads=stores.part_uploads,
        jobs=SqlJobs(stores.database),
        outbox=SqlOutbox(stores.database),
        removed=SqlRemovedDatasets(stores.database),
        flows=SqlFlows(stores.database),
        roles=SqlRoles(stores.database),
        duties=SqlDuties(stores.database),
        cursors=SqlCursors(stores.database),
        subscriptions=SqlSubscriptions(stores.database),
        deliveries=SqlDeliveries(stores.database),
        signing_keys=SqlSigningKeys(stores.database),
        variables=SqlVariables(stores.database),
        repositories=SqlRepositories(stores.database),
        state_index=state_index,
        engine=engine,
        exchange=exchange,
        sources=polling_ports(settings, egress, folder_savepoints(settings)),
        remotes=elsewhere.remotes,
        destinations=elsewhere.destinations,
        remote_stores=elsewhere.stores,
        remote_nodes=elsewhere.nodes,
        conversations=elsewhere.conversations,
        linked_objects=elsewhere.linked_objects,
        webhooks=HttpWebhookSender(egress, timeout_s=settings.webhook_timeout_s),
        keys=KeyFileDatasetKeys(sealing, entropy=entropy),
        clock=clock,
        entropy=entropy,
        signals=signals,
    )


def node_secret(settings: Settings, purpose: str) -> bytes:
    """32 bytes for one purpose that only processes with the node's token know."""
    return hmac.digest(token(settings).encode(), f"odfabric {purpose}".encode(), "sha256")


def _signals(settings: Settings, closing: ExitStack) -> Signals:
    if settings.redis_url is None:
        in_folder = FolderSignals(settings.workspace / SIGNALS_FOLDER, local=MemorySignals())
        closing.callback(in_folder.close)
        return in_folder
    from odfabric.adapters.redis.signals import RedisSignals  # no command without Redis waits for its client to load

    signals = RedisSignals(settings.redis_url, local=MemorySignals(), name=settings.redis_name)
    closing.callback(signals.close)
    signals.listen()
    return signals


@contextmanager
def open_engine(settings: Settings) -> Iterator[Engine]:
    """An engine without a node: that of the settings, or a temporary one.

    The temporary one has a folder that goes with the context.
    """
    with ExitStack() as closing:
        if settings.engine_address is None:
            folder = Path(closing.enter_context(TemporaryDirectory(prefix="odf-validate-", ignore_cleanup_errors=True)))
            settings = settings.model_copy(update={"workspace": folder})
            _exchange_folder(settings).mkdir()
            closing.callback(engine_launcher(settings, owner_pid=os.getpid()).stop)
        yield own_engine(settings, closing)


def own_engine(settings: Settings, closing: ExitStack) -> Engine:
    """The engine of the settings, else the workspace's; closed by `closing`.

    The workspace's engine starts with its first call.
    """
    patience = Patience(return_s_max=settings.engine_return_s_max, repeats_max=settings.engine_repeats_max)
    if settings.engine_address is not None and settings.engine_token is not None:
        channel = EngineChannel(
            address=settings.engine_address,
            token=settings.engine_token.get_secret_value(),
            call_s_max=settings.engine_call_s_max,
            short_s_max=settings.engine_validate_s_max,
            traceparent=next_traceparent,
        )
        connection = closing.enter_context(GrpcEngine(channel))
        return PatientEngine(lambda: connection, patience)
    engine = EngineOnDemand(
        engine_launcher(settings),
        call_s_max=settings.engine_call_s_max,
        short_s_max=settings.engine_validate_s_max,
        patience=patience,
    )
    closing.callback(engine.close)
    return engine


def engine_known(engine: Engine) -> Callable[[], EngineInfo | None]:
    """Asks who it is, without starting one: None if none runs."""
    return engine.info_if_running if isinstance(engine, EngineOnDemand) else engine.info


def egress_limits(settings: Settings) -> EgressLimits:
    """Limits of all requests to addresses that users chose."""
    return EgressLimits(
        ports=settings.egress_ports,
        connect_s_max=settings.egress_connect_s_max,
        answer_s_max=settings.egress_answer_s_max,
        total_s_max=settings.egress_total_s_max,
        bytes_per_s_min=settings.egress_bytes_per_s_min,
        rate_window_s=settings.egress_rate_window_s,
        redirects_max=settings.egress_redirects_max,
        connections_max=settings.egress_connections_max,
        idle_connections_max=settings.egress_idle_connections_max,
        idle_connection_s_max=settings.egress_idle_connection_s_max,
    )


def _exchange_folder(settings: Settings) -> Path:
    # By its real path: processes know the engine of their workspace by this folder, whichever way they came.
    return (settings.workspace / "exchange").resolve()
