"""Faults and crash points: they strike where they say, and nowhere else."""

from __future__ import annotations

import inspect
import signal
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.memory.datasets.chains import MemoryChains
from odfabric.adapters.memory.datasets.dataset_keys import MemoryDatasetKeys
from odfabric.adapters.memory.datasets.exchange import MemoryExchange
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.jobs.jobs import MemoryJobs
from odfabric.adapters.memory.node.clock import SeededEntropy, SettableClock
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.unreliable import port_calls
from odfabric.adapters.unreliable.crash_points import CRASH_POINT_TEXTS, CRASH_POINTS, CrashPoints
from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.adapters.unreliable.port_calls import PortCalls, object_kind
from odfabric.errors import Determinate, HeadMoved, Indeterminate, InvalidRequest
from odfabric.formats.identifiers.dataset_layout import alias_key, block_key, checkpoint_key, data_key, head_key
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.removed_datasets import RemovedDatasets
from odfabric.ports.datasets.search_documents import SearchDocuments
from odfabric.ports.engine import Engine
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.sealing import KeyRotation, SealedStore
from odfabric.ports.node.signing_keys import SigningKeys
from odfabric.ports.people.accounts import Accounts, Relations
from odfabric.ports.people.audit import AuditLog
from odfabric.ports.people.credentials import DeviceAuthorisations, Invitations, Tokens
from odfabric.ports.people.saved_queries import SavedQueries
from odfabric.ports.sources.egress import HttpSource, RemoteDataset, WebhookSender
from odfabric.ports.sources.polling_files import PollingFiles, SourcePreparation
from odfabric.ports.sources.savepoints import Savepoints
from odfabric.ports.sources.variables import Variables
from odfabric.ports.subscriptions.cursors import Cursors
from odfabric.ports.subscriptions.outbox import Outbox
from odfabric.ports.subscriptions.subscriptions import Deliveries, Subscriptions
from odfabric.ports.transfer.conversations import Conversation, LinkedObjects
from odfabric.ports.transfer.destinations import Destination
from odfabric.ports.transfer.nodes import RemoteNodes
from odfabric.ports.transfer.repositories import RemoteRepositories
from odfabric.testing.conformance.examples import NOW, entry_of, hash_of, new_chain
from odfabric.testing.conformance.jobs.jobs import new_job
from tests.support.quick_processes import quick_processes

DATASET = entry_of("flights").id
# Properties, and checks that ask nobody outside.
NOT_CALLS = {"root", "check", "target_uri", "link", "is_plain"}


@pytest.mark.parametrize(
    ("port", "calls"),
    [
        (ChainWriter, port_calls.CHAINS),
        (Catalog, port_calls.CATALOG),
        (ObjectStore, port_calls.OBJECTS),
        (Jobs, port_calls.JOBS),
        (Outbox, port_calls.OUTBOX),
        (Cursors, port_calls.CURSORS),
        (RemovedDatasets, port_calls.REMOVED),
        (Subscriptions, port_calls.SUBSCRIPTIONS),
        (Deliveries, port_calls.DELIVERIES),
        (Accounts, port_calls.ACCOUNTS),
        (Relations, port_calls.RELATIONS),
        (Tokens, port_calls.TOKENS),
        (Invitations, port_calls.INVITATIONS),
        (DeviceAuthorisations, port_calls.DEVICES),
        (SavedQueries, port_calls.SAVED_QUERIES),
        (AuditLog, port_calls.AUDIT_LOG),
        (SigningKeys, port_calls.SIGNING_KEYS),
        (WebhookSender, port_calls.WEBHOOKS),
        (Engine, port_calls.ENGINE),
        (DatasetKeys, port_calls.KEYS),
        (KeyRotation, port_calls.NODE_KEY),
        (SealedStore, port_calls.SEALED_STORE),
        (HttpSource, port_calls.HTTP_SOURCE),
        (PollingFiles, port_calls.POLLING_FILES),
        (SourcePreparation, port_calls.PREPARATION),
        (Savepoints, port_calls.SAVEPOINTS),
        (Variables, port_calls.VARIABLES),
        (RemoteRepositories, port_calls.REPOSITORIES),
        (Destination, port_calls.DESTINATION),
        (RemoteDataset, port_calls.REMOTE),
        (Exchange, port_calls.EXCHANGE),
        (Conversation, port_calls.TALK),
        (LinkedObjects, port_calls.LINKED),
        (RemoteNodes, port_calls.PEERS),
        (HeadLogs, port_calls.HEAD_LOGS),
        (SearchDocuments, port_calls.SEARCH_DOCUMENTS),
    ],
)
def test_every_call_of_a_port_can_fail(port: type, calls: PortCalls) -> None:
    methods = {name for name, _ in inspect.getmembers(port, inspect.isfunction) if not name.startswith("_")}
    assert methods - NOT_CALLS == {*calls.effects, *calls.reads}
    assert not set(calls.effects) & set(calls.reads)


def test_objects_are_told_apart_by_their_keys() -> None:
    block = hash_of("x")
    keys = {
        block_key(DATASET, block): "block",
        data_key(DATASET, block): "data",
        checkpoint_key(DATASET, block): "checkpoint",
        head_key(DATASET): "ref",
        alias_key(DATASET): "info",
        "staging/0123": "staging",
        "x": "other",
        "x/y": "other",
        "refs/head": "ref",
        "data/x": "data",
    }
    assert {key: object_kind(key) for key in keys} == keys


def test_a_plan_without_rules_watches() -> None:
    plan = FaultPlan()
    chain = new_chain(plan.chains(MemoryChains(MemoryStore())))
    objects = plan.objects(MemoryObjectStore(SettableClock(NOW)))
    objects.put_bytes(data_key(chain.id, hash_of("x")), b"data")
    objects.read_ref(head_key(chain.id))
    with objects.exclusive(head_key(chain.id)):
        pass
    assert [(call.name, call.effect) for call in plan.calls] == [
        ("chain.append", True),
        ("object.data.put", True),
        ("object.ref.read", False),
        ("object.ref.lock", False),
    ]


@pytest.mark.parametrize("fault", list(Fault))
def test_a_fault_tells_the_truth(fault: Fault) -> None:
    chains = MemoryChains(MemoryStore())
    chain = new_chain(chains)
    chain.chains = FaultPlan.single(0, fault).chains(chains)
    blocks = chain.next_blocks()
    with pytest.raises(Determinate if fault is Fault.BEFORE else Indeterminate):
        chain.grow()
    assert chains.contains(chain.id, blocks[0].hash) == (fault is Fault.AFTER)
    if fault is Fault.BEFORE:
        chain.grow()
        assert chains.contains(chain.id, blocks[0].hash)


def test_a_call_that_fails_by_itself_keeps_its_error() -> None:
    chains = MemoryChains(MemoryStore())
    chain = new_chain(chains)
    stale = [*chain.blocks]
    chain.grow()
    chain.blocks = stale
    chain.chains = FaultPlan.single(0, Fault.AFTER).chains(chains)
    with pytest.raises(HeadMoved):
        chain.grow(label="stale")


def test_reads_fail_before_only(tmp_path: Path) -> None:
    plan = FaultPlan.single(0, Fault.AFTER)
    assert plan.chains(MemoryChains(MemoryStore())).head(DATASET) is None
    with pytest.raises(Determinate):
        FaultPlan.single(0, Fault.BEFORE).exchange(MemoryExchange(tmp_path)).session()
    assert list(tmp_path.iterdir()) == []


def test_lost_answers_of_repeatable_calls_are_determinate() -> None:
    keys = FaultPlan.single(0, Fault.AFTER).keys(MemoryDatasetKeys(SeededEntropy(1)))
    with pytest.raises(Determinate):
        keys.create()


def faults_of(seed: int, *, rate: float = 0.3) -> list[str]:
    jobs = FaultPlan.seeded(seed, rate=rate).jobs(MemoryJobs())
    seen = []
    for number in range(200):
        try:
            jobs.enqueue(new_job(f"j{number}"), now=NOW)
            seen.append("ok")
        except (Determinate, Indeterminate) as error:
            seen.append(type(error).__name__)
    return seen


def test_equal_seeds_strike_alike() -> None:
    assert faults_of(1) == faults_of(1)
    assert faults_of(1) != faults_of(2)
    assert set(faults_of(1)) == {"ok", "Determinate", "Indeterminate"}
    assert 30 < sum(outcome != "ok" for outcome in faults_of(3)) < 90
    assert set(faults_of(1, rate=0.0)) == {"ok"}
    assert "ok" not in faults_of(1, rate=1.0)


def test_every_point_has_a_name_and_a_line() -> None:
    assert tuple(CRASH_POINT_TEXTS) == CRASH_POINTS
    assert len(set(CRASH_POINTS)) == len(CRASH_POINTS)
    for name, text in CRASH_POINT_TEXTS.items():
        assert name.endswith((":before", ":after"))
        assert text
        assert "\n" not in text


def test_every_effect_of_a_port_has_its_points() -> None:
    named = {name for name in CRASH_POINTS if not name.startswith("object.")}
    every = [calls for calls in vars(port_calls).values() if isinstance(calls, PortCalls) and not calls.of_objects]
    effects = {name for calls in every for name in calls.effects.values()}
    assert named == {f"{name}:{when}" for name in effects for when in ("before", "after")}
    assert {name.split(".")[2] for name in CRASH_POINTS if name.startswith("object.")} == {
        f"{verb}:{when}" for verb in set(port_calls.OBJECTS.effects.values()) for when in ("before", "after")
    }


def test_unarmed_ports_are_not_even_wrapped() -> None:
    objects = MemoryObjectStore(SettableClock(NOW))
    for nothing in (None, ""):
        assert CrashPoints(nothing).objects(objects) is objects
    assert not CrashPoints(None).armed


@pytest.mark.parametrize(
    "armed",
    [
        "chain.append",
        "chain.append:befor",
        "nothing",
        "chain.append:after@0",
        "chain.append:after@x",
        "@1",
        "chain.append:after@1@2",
    ],
)
def test_unknown_points_are_refused(armed: str) -> None:
    with pytest.raises(InvalidRequest):
        CrashPoints(armed)


def test_a_near_miss_is_told() -> None:
    with pytest.raises(InvalidRequest, match=r"chain\.append:before"):
        CrashPoints("chain.apend:before")


def put_three(root: Path, armed: str, kind: str) -> None:
    objects = CrashPoints(armed).objects(FolderObjectStore(root))
    for number in range(3):
        objects.put_bytes(f"fed01/{kind}/{number}", b"data")


@pytest.mark.parametrize(
    ("armed", "kind", "left"),
    [
        ("object.data.put:before", "data", 0),
        ("object.data.put:after", "data", 1),
        ("object.data.put:before@2", "data", 1),
        ("object.data.put:after@3", "data", 3),
        ("object.data.put:after@4", "data", None),
        ("object.block.put:before", "data", None),
        ("object.block.put:before", "blocks", 0),
    ],
)
def test_the_process_dies_at_the_armed_point(tmp_path: Path, armed: str, kind: str, left: int | None) -> None:
    process = quick_processes().Process(target=put_three, args=(tmp_path, armed, kind))
    process.start()
    process.join(60)
    assert process.exitcode == (0 if left is None else -signal.SIGKILL)
    assert len(list(FolderObjectStore(tmp_path).keys(""))) == (3 if left is None else left)


def look_for_work(armed: str, jobs: int) -> None:
    table = MemoryJobs()
    for number in range(jobs):
        table.enqueue(new_job(f"j{number}"), now=NOW)
    CrashPoints(armed).jobs(table).lease("w", now=NOW, lease_ms=1)


def test_after_a_lease_means_that_there_was_one() -> None:
    context = quick_processes()
    processes = [context.Process(target=look_for_work, args=("job.lease:after", jobs)) for jobs in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, -signal.SIGKILL]
