"""A node's day, step by step; a process killed anywhere can begin it again.

Run in a process of its own on real adapters (those of its place, HTTP webhooks) and the small engine. Each step looks whether it was done
before; what it cannot know, it repeats with the same key, as a client would.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.memory.datasets.part_uploads import StoredPartUploads
from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.errors import AlreadyExists, External
from odfabric.formats.identifiers.dataset_layout import dataset_prefix, head_key
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.flow import Every, FlowKind, FlowRule
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import CompactRequest, PullRequest, SendWish
from odfabric.model.metadata import AddData
from odfabric.model.rewrite import RewriteKind
from odfabric.model.subscriptions.subscription import Delivery, DeliveryStatus
from odfabric.settings import Settings, read_settings
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.people.saved_queries import change_query, delete_query, list_queries, save_query
from odfabric.usecases.queries.query_data import QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.usecases.subscriptions.change_subscription import Replay
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring import Node, open_node, prepare_workspace, rotate_node_key
from odfabric.wiring.composed.renaming import rename
from odfabric.wiring.composed.resumable import ResumableVerbs
from odfabric.wiring.places.stores import OBJECTS_FOLDER
from tests.drills.places import Place

READ = """
    read:
      kind: NdJson
      schema: {fields: [{name: event_time, type: Timestamp}, {name: city, type: String}]}
    merge: {kind: Append}
"""
_LEDGER = "Root\n  metadata:\n  - kind: AddPushSource\n    sourceName: default" + READ.replace(
    "{kind: Append}", "{kind: Ledger, primaryKey: [event_time]}"
)
MANIFESTS = {
    name: "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: " + name + "\n  kind: " + body
    for name, body in {
        "readings": "Root\n  metadata:\n  - kind: AddPushSource\n    sourceName: default" + READ,
        "grouped": "Root\n  metadata:\n  - kind: AddPushSource\n    sourceName: default" + READ,
        "doomed": "Root\n  metadata:\n  - kind: AddPushSource\n    sourceName: default" + READ,
        "copied": "Derivative\n  metadata:\n  - kind: SetTransform\n    inputs: [{datasetRef: readings}]\n"
        "    transform: {kind: Sql, engine: spark, query: SELECT * FROM readings}\n",
        "polled": "Root\n  metadata:\n  - kind: SetPollingSource\n    fetch: {kind: FilesGlob, path: 'day-*.ndjson'}"
        + READ,
        "derived": "Derivative\n  metadata:\n  - kind: SetTransform\n    inputs: [{datasetRef: polled}]\n"
        "    transform: {kind: Sql, engine: spark, query: SELECT * FROM polled}\n",
        "ledger": _LEDGER,
        "passing": _LEDGER,
    }.items()
}
DAYS = (1, 2, 3)
SECRET = b"drill" * 6
LEASE_S = 30.0
INLINE_BYTES_MAX = 60
"""Between the rows of one day and the same with spaces behind: some bodies go with their job, some become objects."""
HOUR_NS = 3600 * NANOS_PER_SECOND
ROUNDS_MAX = 20
ROUND_MS = 6 * 3600 * 1000


def settings_of(place: Place, receiver: str, *, crash_at: str | None = None) -> Settings:
    """A node whose retries come at once.

    The only exception in its guard is the receiver. Sources lie beside the workspace.
    """
    return read_settings(
        **place.settings,
        workspace=place.workspace,
        poll_folder=place.workspace.absolute().parent / "sources",
        push_folder=place.workspace.absolute().parent / "sources" / "shelves",
        crash_at=crash_at,
        egress_allow=(receiver,),
        lease_s=LEASE_S,
        push_inline_bytes_max=INLINE_BYTES_MAX,
        job_retry_s=0.01,
        job_retry_s_max=0.01,
        flow_runs_kept_max=2,
    )


Steps = Callable[[Node, SettableClock, str], None]


def live(place: Place, receiver: str, crash_at: str | None, hours_ahead: int, steps: Steps) -> None:
    """A whole scenario in this process, which the armed point may kill.

    `steps` get node, clock and the receiver's address. `hours_ahead` moves the clock, so that what a dead process held is free and what waits for another attempt is due.
    """
    settings = settings_of(place, receiver, crash_at=crash_at)
    prepare_workspace(settings)
    clock = SettableClock(Instant(time.time_ns() + hours_ahead * HOUR_NS), step_ms=1)
    engine = MemoryEngine(settings.workspace.absolute() / "exchange")
    with open_node(settings, engine=engine, clock=clock, part_uploads=stand_in_parts(settings, clock)) as node:
        steps(node, clock, receiver)


def stand_in_parts(settings: Settings, clock: SettableClock) -> StoredPartUploads | None:
    """Uploads in parts where the place has no bucket."""
    if settings.objects_url is not None:
        return None
    folder = FolderObjectStore(settings.workspace.absolute() / OBJECTS_FOLDER)
    return StoredPartUploads(folder, clock=clock, entropy=SystemEntropy())


def upload_in_parts(node: Node, clock: SettableClock, receiver: str) -> None:
    """One upload that is pushed, and one that is given up."""
    _create(node, "readings")
    readings = node.datasets.resolve(parse_dataset_alias("readings"))
    verbs, body = ResumableVerbs(node), "\n".join(map(_day, DAYS)).encode()
    digest = f"sha-256={hashlib.sha256(body).hexdigest()}"
    if not isinstance(next(iter(node.datasets.log(readings, limit=1))).block.event, AddData):
        upload = verbs.begin(readings, len(body), by=node.operator, digest=digest, in_parts=True)
        tags = {}
        if upload.offset < len(body):
            (part,) = verbs.parts(readings, upload.id, first=1, by=node.operator)[1]
            tags = {1: part.tag or _put(node, str(part.url), body)}
        elif upload.plan is not None and node.ports.objects.stat(upload.plan.key) is None:
            (part,) = verbs.parts(readings, upload.id, first=1, by=node.operator)[1]
            tags = {1: str(part.tag)}
        push = PushData(dataset=readings.id, body=iter(()), idempotency_key="upload")
        found = verbs.finish(push, readings, upload.id, digest, by=node.operator, tags=tags)
        assert not isinstance(found, Job) or _work(node, found).status is JobStatus.SUCCEEDED
    given_up = verbs.begin(readings, len(body), by=node.operator, in_parts=True)
    verbs.drop(readings, given_up.id, by=node.operator)


def _put(node: Node, url: str, body: bytes) -> str:
    """PUT of a part; its tag."""
    if url.startswith("http"):
        answer = httpx.put(url, content=body, trust_env=False)
        assert answer.is_success, answer.text
        return answer.headers["etag"].strip('"')
    folder = FolderObjectStore(node.settings.workspace.absolute() / OBJECTS_FOLDER)
    return StoredPartUploads(folder, clock=node.ports.clock, entropy=SystemEntropy()).put(url, body)


def pushes_and_subscribers(node: Node, clock: SettableClock, receiver: str) -> None:
    """Pushes, transforms, webhooks, a failed push, a query, a deleted dataset."""
    for name in ("readings", "copied"):
        _create(node, name)
    _relay(node)
    readings = node.datasets.resolve(parse_dataset_alias("readings"))
    if not node.webhooks.seen(readings, by=node.operator):
        node.webhooks.subscribe(readings, url=f"http://{receiver}/kept", secret=SECRET, by=node.operator)
    for day in DAYS:
        _push(node, readings, f"day-{day}", _day(day) + " " * INLINE_BYTES_MAX + "\n")
        _pull(node, "copied")
    _push_together(node)
    _push(node, readings, "bad", "not json\n", expected=JobStatus.FAILED)
    _interrupted_work(node, readings)
    node.rows.query_document(QueryData(sql="SELECT * FROM readings"), QueryForm())
    _deliver(node, clock, readings)
    _make_and_delete(node, receiver)
    _relay(node)


def polls_and_copies(node: Node, clock: SettableClock, receiver: str) -> None:
    """Files polled twice, their derivatives, and a copy of a remote dataset."""
    for name in ("polled", "derived"):
        _create(node, name)
    folder = node.settings.poll_folder
    assert folder is not None
    for day in DAYS:
        arrived = folder / f"day-{day}.ndjson"
        if not arrived.exists():
            arrived.write_text(json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": "A"}) + "\n")
        _pull(node, "derived", recursive=True)
    mirrored = DatasetAlias(node.account, Name("mirrored"))
    _finish(node, PullRequest(dataset=None, alias=mirrored, url=f"file://{folder}/origin"))
    _relay(node)


def grow_origin(node: Node) -> Path:
    """A dataset to be copied; its folder, in a workspace that has the objects."""
    _create(node, "readings")
    entry = node.datasets.resolve(parse_dataset_alias("readings"))
    for day in DAYS:
        body = json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": "A"}) + "\n"
        _push(node, entry, f"day-{day}", body)
    _relay(node)
    return node.settings.workspace.absolute() / "objects" / dataset_prefix(entry.id)


def grow_and_lose_sight(node: Node) -> None:
    """Datasets with pushes; one has two commits that were never published."""
    for name in ("readings", "doomed", "copied"):
        _create(node, name)
    for name in ("readings", "doomed"):
        entry = node.datasets.resolve(parse_dataset_alias(name))
        published = None
        for day in DAYS:
            published = published or str(node.datasets.head(entry).hash)
            body = json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": name}) + "\n"
            _push(node, entry, f"day-{day}", body)
    _pull(node, "copied")
    _relay(node)
    node.ports.objects.write_ref(head_key(entry.id), published or "")


def rebuild(node: Node, clock: SettableClock, receiver: str) -> None:
    """Take everything back, unpublished blocks too."""
    for found in node.objects.rebuild(adopt=True):
        assert found.problem is None, found.problem


def make_and_delete(node: Node) -> None:
    """A dataset that is there and one that was deleted, both with data."""
    for name in ("readings", "doomed"):
        _create(node, name)
        entry = node.datasets.resolve(parse_dataset_alias(name))
        _push(node, entry, "day-1", json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": name}) + "\n")
    node.datasets.delete(entry)
    _relay(node)


def collect(node: Node, clock: SettableClock, receiver: str) -> None:
    """A whole round of the collector."""
    for portion in node.objects.collect(dry_run=False):
        assert portion.left_alone is None


def follow(node: Node, clock: SettableClock, receiver: str) -> None:
    """Pushes to datasets that merge by key, each followed by the index.

    One dataset is deleted.
    """
    for name in ("ledger", "passing"):
        _create(node, name)
        entry = node.datasets.resolve(parse_dataset_alias(name))
        for day in DAYS:
            _push(
                node, entry, f"day-{day}", json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": "A"}) + "\n"
            )
            node.indexes.bring_forward(entry, lambda _: None)
    node.datasets.delete(entry)
    _relay(node)


CONSUMED = "consumed.json"


def consume(node: Node, clock: SettableClock, receiver: str) -> None:
    """A consumer that keeps data together with the position, then leaves for good."""
    entry, verbs = node.datasets.resolve(parse_dataset_alias("readings")), node.cursors
    kept = node.settings.workspace / CONSUMED
    if kept.exists() and json.loads(kept.read_text())["done"]:
        if node.ports.cursors.get(entry.id, "warehouse") is not None:
            verbs.delete(entry, "warehouse")
        return
    if node.ports.cursors.get(entry.id, "warehouse") is None:
        verbs.create(entry, "warehouse", start="start")
    clock.advance(ROUND_MS)
    fence = verbs.claim(entry, "warehouse", fence=None).fence
    own: dict[str, Any] = {"rows": [], "position": None, "done": False}
    if kept.exists():
        own = json.loads(kept.read_text())
        # It may have died between keeping and acknowledging.
        verbs.acknowledge(entry, "warehouse", fence=fence, position=own["position"])
    while not own["done"]:
        fetched = verbs.fetch(entry, "warehouse", fence=fence, limit=2)
        event = fetched.event or {}
        own = {"rows": own["rows"] + event.get("rows", []), "position": str(fetched.position), "done": not event}
        kept.with_suffix(".pending").write_text(json.dumps(own))
        kept.with_suffix(".pending").replace(kept)
        verbs.acknowledge(entry, "warehouse", fence=fence, position=own["position"])
    verbs.delete(entry, "warehouse")


def run_by_itself(node: Node, clock: SettableClock, receiver: str) -> None:
    """Pushes that a derivative follows, an idle run, a scheduled verification.

    The flow of the verification is removed in the end.
    """
    for name in ("readings", "copied"):
        _create(node, name)
    readings, copied = (node.datasets.resolve(parse_dataset_alias(name)) for name in ("readings", "copied"))
    for day in DAYS:
        _push(node, readings, f"day{day}", _day(day))
        _relay(node)
        if day == DAYS[-1]:
            _pull(node, "copied")  # what the run was to do is done already
        _work_by_itself(node)
    verifying = node.flows.set(readings, FlowKind.VERIFY, FlowRule(trigger=Every(3600)), by=node.operator)
    _work_by_itself(node)
    assert verifying.dataset_id == readings.id
    node.flows.remove(readings, FlowKind.VERIFY, by=node.operator)
    node.flows.catch_up()
    _work_by_itself(node)
    assert copied is not None
    node.flows.release("scheduler")


def _work_by_itself(node: Node) -> None:
    """What a worker does, until nothing is left to be done."""
    for _ in range(ROUNDS_MAX * 10):
        pause_s = node.flows.step("scheduler")
        run = node.jobs.lease(f"drill/{os.getpid()}")
        if run is not None:
            node.jobs.run(run)
        elif not node.background.relay_outbox() and pause_s:
            return
    raise AssertionError("the work did not end")


def tidy_up(node: Node, clock: SettableClock, receiver: str) -> None:
    """A dataset gets another name, a secret and a variable that goes again.

    Questions are kept, changed and thrown away.
    """
    if node.repository.find(parse_dataset_alias("measured")) is None:
        _create(node, "readings")
        rename(node, node.datasets.resolve(parse_dataset_alias("readings")), "measured")
    by, ports = node.operator, node.people
    for name in ("kept", "passing"):
        if name not in kept_queries(node):
            save_query(name, "SELECT 1", subject=by, ports=ports)
    ids = {query.name: query.id for query in list_queries(subject=by, ports=ports)}
    change_query(ids["kept"], name=None, sql="SELECT 2", subject=by, ports=ports)
    delete_query(ids["passing"], subject=by, ports=ports)
    entry = node.datasets.resolve(parse_dataset_alias("measured"))
    node.variables.set(entry, "TOKEN", "a secret of the source", secret=True, by=by)
    node.variables.set(entry, "PASSING", "x", secret=False, by=by)
    node.variables.remove(entry, "PASSING", by=by)


SHELF = "shelf"


def share(node: Node, clock: SettableClock, receiver: str) -> None:
    """A dataset is pushed to a folder, and again after a reset and a compaction.

    A repository and an alias come and go.
    """
    _create(node, "readings")
    entry, by = node.datasets.resolve(parse_dataset_alias("readings")), node.operator
    repositories = node.sharing.repositories
    known = {str(each.name) for each in repositories.listed(by=by)}
    for name in (SHELF, "passing"):
        if name not in known:
            repositories.add(name, f"file:{name}/", shared=False, by=by)
    repositories.remove("passing", shared=False, by=by)
    _push(node, entry, "day-1", _day(1) + "\n")
    _send(node, entry, SendWish(to=SHELF, force=True))
    head = node.datasets.head(entry)
    if head.sequence_number < 4:
        _push(node, entry, "day-2", _day(2) + "\n")
        _send(node, entry, SendWish(to=SHELF, force=True))
        rows = {row.sequence_number: row.hash for row in node.repository.rows_down(entry.id)}
        head = node.datasets.head(entry)
        node.commits.replace(entry, [], onto=rows[head.sequence_number - 1], if_match=head.hash, kind=RewriteKind.RESET)
    _push(node, entry, "day-3", _day(3) + "\n")
    _compact(node, entry)
    _send(node, entry, SendWish(to=SHELF, force=True))
    if str(entry.alias) in {each.target.removeprefix(f"{SHELF}/") for each in repositories.aliases(entry, by=by)}:
        repositories.forget_alias(entry, f"{SHELF}/{entry.alias}", by=by)
    _relay(node)


def _send(node: Node, entry: CatalogEntry, wish: SendWish) -> None:
    job = node.sharing.push(entry, wish, by=node.operator)
    ended = node.jobs.work_until_ended(job, worker=f"drill/{os.getpid()}", listener=lambda _: None)
    assert ended.status is JobStatus.SUCCEEDED, ended.error


def _compact(node: Node, entry: CatalogEntry) -> None:
    job = node.history.compact(entry, CompactRequest(dataset=entry.id))
    ended = node.jobs.work_until_ended(job, worker=f"drill/{os.getpid()}", listener=lambda _: None)
    assert ended.status is JobStatus.SUCCEEDED, ended.error


def kept_variables(node: Node) -> dict[str, str]:
    """What the templates of the dataset find, by name."""
    entry = node.datasets.resolve(parse_dataset_alias("measured"))
    names = [each.name for each in node.variables.listed(entry, by=node.operator)]
    found = {name: node.variables.lookup(entry.id)(name) for name in names}
    return {name: value.text for name, value in found.items() if value is not None}


def kept_queries(node: Node) -> dict[str, str]:
    """SQL of the operator's saved queries, by name."""
    return {query.name: query.sql for query in list_queries(subject=node.operator, ports=node.people)}


def grow_subscribed(node: Node) -> None:
    """Two datasets with keys, and a subscription with a secret."""
    for name in ("readings", "copied"):
        _create(node, name)
    node.webhooks.subscribe(
        node.datasets.resolve(parse_dataset_alias("readings")),
        url=f"http://{node.settings.egress_allow[0]}/kept",
        secret=SECRET,
        by=node.operator,
    )


def rotate(node: Node, clock: SettableClock, receiver: str) -> None:
    """The node gets a new key, beside the node as it runs."""
    rotate_node_key(node.settings, listener=lambda store, sealed: None)
    # It goes on with what it has read before.
    subscription, *_ = node.webhooks.seen(node.datasets.resolve(parse_dataset_alias("readings")), by=node.operator)
    assert node.ports.subscriptions.secrets(subscription.id, now=node.ports.clock.now()) == [SECRET]


PUSHES_OF_NODE = 10
SHARED_KEY = "said-by-both"


def push_beside_others(node: Node, clock: SettableClock, receiver: str) -> None:
    """One of several nodes that push to one dataset, and tell their own subscriber.

    Each says one thing with the same key.
    """
    try:
        _create(node, "readings")
    except (AlreadyExists, External):
        if node.repository.find(parse_dataset_alias("readings")) is None:
            raise
    entry = node.datasets.resolve(parse_dataset_alias("readings"))
    if not node.webhooks.seen(entry, by=node.operator):
        node.webhooks.subscribe(entry, url=f"http://{receiver}/kept", secret=SECRET, by=node.operator)
    name = node.settings.workspace.name
    for number in range(PUSHES_OF_NODE):
        body = json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": f"{name}-{number}"}) + "\n"
        _push(node, entry, f"{name}-{number}", body)
        _relay(node)
    _push(node, entry, SHARED_KEY, json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": SHARED_KEY}) + "\n")


def _relay(node: Node) -> None:
    while node.background.relay_outbox():
        pass


def _create(node: Node, name: str) -> None:
    (snapshot,) = parse_snapshots(MANIFESTS[name], file=None)
    if node.repository.find(snapshot.name) is None:
        node.datasets.create(snapshot, node.operator)


def _day(day: int) -> str:
    return json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": "A"})


def _push_together(node: Node) -> None:
    """Pushes that wait behind each other.

    Anyone who takes the first one commits them all.
    """
    _create(node, "grouped")
    entry = node.datasets.resolve(parse_dataset_alias("grouped"))
    accepted = [
        node.requests.push(PushData(dataset=entry.id, body=iter([_day(day).encode()]), idempotency_key=f"g{day}"))
        for day in DAYS
    ]
    for job in accepted:
        if isinstance(job, Job):
            assert _work(node, job).status is JobStatus.SUCCEEDED


def _push(node: Node, entry: CatalogEntry, key: str, body: str, *, expected: JobStatus = JobStatus.SUCCEEDED) -> None:
    request = PushData(dataset=entry.id, body=iter([body.encode()]), idempotency_key=key)
    accepted = node.requests.push(request)
    if isinstance(accepted, Job):
        ended = _work(node, accepted)
        assert ended.status is expected, ended.error


def _pull(node: Node, name: str, *, recursive: bool = False) -> None:
    entry = node.datasets.resolve(parse_dataset_alias(name))
    _finish(node, PullRequest(dataset=entry.id, alias=entry.alias, recursive=recursive))


def _finish(node: Node, request: PullRequest) -> None:
    ended = _work(node, node.requests.pull(request))
    assert ended.status is JobStatus.SUCCEEDED, ended.error


def _work(node: Node, job: Job) -> Job:
    return node.jobs.work_until_ended(job, worker=f"drill/{os.getpid()}", listener=lambda _: None)


def _interrupted_work(node: Node, entry: CatalogEntry) -> None:
    """A cancelled job, and one that goes back to the queue as a failed attempt."""
    node.jobs.cancel(node.requests.verify(entry, VerifyOptions()).id)
    job = node.requests.verify(entry, VerifyOptions(replay=False))
    run = node.jobs.lease("fails")
    if run is not None:
        now = node.ports.clock.now()
        node.ports.jobs.retry(run.lease, now=now, due_at=now, error="{}")
    _work(node, job)


def _deliver(node: Node, clock: SettableClock, entry: CatalogEntry) -> None:
    """Until nothing is pending; the clock passes over the pauses between attempts."""
    _relay(node)
    for _ in range(ROUNDS_MAX):
        for delivery in node.background.due_deliveries(f"drill/{os.getpid()}", limit=8):
            node.background.deliver(delivery)
        if all(delivery.status is DeliveryStatus.DELIVERED for delivery in deliveries(node, entry)):
            return
        clock.advance(ROUND_MS)
    raise AssertionError("deliveries do not end")


def deliveries(node: Node, entry: CatalogEntry) -> list[Delivery]:
    """Deliveries of all subscriptions of a dataset."""
    return [
        found
        for subscription in node.webhooks.seen(entry, by=node.operator)
        for found in node.webhooks.deliveries(entry, subscription.id, by=node.operator)
    ]


def _make_and_delete(node: Node, receiver: str) -> None:
    _create(node, "doomed")
    doomed = node.datasets.resolve(parse_dataset_alias("doomed"))
    subscription = node.webhooks.subscribe(
        doomed, url=f"http://{receiver}/doomed", secret=None, by=node.operator
    ).subscription
    changes = node.ports.subscriptions
    node.webhooks.pause(doomed, subscription.id, by=node.operator)
    node.webhooks.rotate_secret(doomed, subscription.id, by=node.operator, overlap_s=0)
    node.webhooks.drop_old_secrets()
    node.webhooks.forget_signing_keys()
    changes.note_test(subscription.id, proven=True)
    node.webhooks.replay(doomed, subscription.id, Replay(failed=True), by=node.operator)
    node.webhooks.resume(doomed, subscription.id, by=node.operator)
    node.webhooks.unsubscribe(doomed, subscription.id, by=node.operator)
    node.datasets.delete(doomed)
