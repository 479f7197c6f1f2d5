"""Nodes that share objects but no database: no split history, heard commits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import text

from odfabric.adapters.local_fs.folder_locks import FolderLocks
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.object_heads.follower import SETTLED_AFTER_S, HeadFollower
from odfabric.adapters.s3.client import S3Access
from odfabric.adapters.s3.object_store import S3ObjectStore
from odfabric.adapters.sql.audit import SqlAuditLog
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.people.relations import SqlRelations
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.adapters.unreliable.faults import FaultPlan
from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.domain.chain.block_attributes import as_extra
from odfabric.domain.ingestion.idempotency import IdempotencyEntry, sealed_attributes, sealed_state
from odfabric.errors import AlreadyExists, Corrupt, Determinate, HeadMoved, Indeterminate, NotFound, OdfError
from odfabric.formats.identifiers.dataset_layout import alias_key, block_key, head_key, name_key
from odfabric.model.commit import CommitIntent, EncodedBlock, IdempotencyRecord, OutboxMessage
from odfabric.model.metadata import AddData
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import EVERYONE, DatasetRole, Grant
from odfabric.model.people.audit import AuditEntry, AuditKind
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.testing.conformance.account_examples import account_id, told
from odfabric.testing.conformance.examples import (
    NOW,
    GrowingChain,
    encoded,
    entry_of,
    hashes_down,
    later,
    new_chain,
)
from odfabric.testing.conformance.people.audit import FULL, append
from odfabric.testing.conformance.together import DEADLINE_S, outcomes_of_processes
from tests.support.chains.object_heads import Sharing
from tests.support.servers.s3 import S3Server

T = TypeVar("T")
KEYED = IdempotencyEntry(b"k" * 32, b"b" * 32)


@pytest.fixture
def objects() -> MemoryObjectStore:
    return MemoryObjectStore(SettableClock(NOW, step_ms=1))


@pytest.fixture
def open_node(tmp_path: Path) -> Iterator[Callable[..., Sharing]]:
    """Makes a node by its name; the same name is the same database."""
    with ExitStack() as closing:

        def opened(name: str, objects: ObjectStore) -> Sharing:
            url = f"sqlite:///{tmp_path}/{name}.db"
            upgrade(url)
            database = Database(url, busy_s_max=30)
            closing.callback(database.close)
            return Sharing(database, objects)

        yield opened


@pytest.fixture
def here(open_node: Callable[..., Sharing], objects: MemoryObjectStore) -> Sharing:
    return open_node("here", objects)


@pytest.fixture
def there(open_node: Callable[..., Sharing], objects: MemoryObjectStore) -> Sharing:
    return open_node("there", objects)


MADE = told(AuditKind.DATASET_CREATED, "flights")
MOVED = told(AuditKind.HEAD_MOVED, "flights")
REMOVED = told(AuditKind.DATASET_DELETED, "flights")
KNOWN_BEFORE = {"records", "jobs", "entry", "refBefore"}
"""Members of the documents of intents before there was an audit."""


def logged(node: Sharing) -> list[AuditEntry]:
    """The node's audit log."""
    return [stored.entry for stored in SqlAuditLog(node.database).page(limit=99)]


def remove(node: Sharing, chain: GrowingChain) -> None:
    """Remove a dataset with an audit entry."""
    assert chain.head is not None
    message = OutboxMessage(chain.id, chain.head, None, NOW)
    node.chains.remove(chain.id, expected=chain.head, message=message, audit=[REMOVED])


def seen_by(node: Sharing, chain: GrowingChain) -> GrowingChain:
    """The same dataset, to be grown by another node."""
    return GrowingChain(node.storage.chains, chain.entry, list(chain.blocks))


def test_a_dataset_that_one_makes_is_found_by_the_other(here: Sharing, there: Sharing) -> None:
    entry = replace(entry_of("Flights"), sealed_key=b"mine", remote_url="https://elsewhere.test/flights")
    chain = GrowingChain(here.storage.chains, entry)
    chain.grow(3)
    told = replace(entry, sealed_key=None, created_at=chain.blocks[0].block.system_time)
    assert there.catalog.by_alias(entry_of("FLIGHTS").alias) == told
    assert there.catalog.by_id(entry.id) == told
    assert list(there.catalog.page(limit=10)) == [told]
    assert here.catalog.by_id(entry.id) == entry, "the key stays with the node that made it"
    assert hashes_down(there.chains, entry.id) == hashes_down(here.chains, entry.id)


def test_whoever_is_behind_catches_up_before_it_answers_or_commits(here: Sharing, there: Sharing) -> None:
    ours = new_chain(here.storage.chains)
    theirs = seen_by(there, ours)
    theirs.grow(2, label="there")
    assert here.chains.contains(ours.id, theirs.blocks[1].hash)
    with pytest.raises(HeadMoved) as moved:
        ours.grow(label="here")
    assert moved.value.actual == str(theirs.head)
    ours.blocks = list(theirs.blocks)
    ours.grow(2, label="here")
    head = there.chains.head(ours.id)
    assert head is not None
    assert head.hash == ours.head
    assert hashes_down(there.chains, ours.id) == [block.hash for block in reversed(ours.blocks)]


class _EachTime(Interceptor):
    """Something that happens after each call of a name."""

    def __init__(self, name: str, act: Callable[[], object]) -> None:
        self.name = name
        self.act = act

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        result = act()
        if call == self.name:
            self.act()
        return result


def test_a_head_that_moves_whenever_it_is_read_is_followed(
    here: Sharing, open_node: Callable[..., Sharing], objects: MemoryObjectStore
) -> None:
    ours = new_chain(here.storage.chains)
    there = open_node("there", _EachTime("object.ref.read", ours.grow).objects(objects))
    before = ours.blocks[-1].block.sequence_number
    head = there.chains.head(ours.id)
    assert head is not None
    assert head.hash == ours.blocks[head.sequence_number].hash
    assert before <= head.sequence_number < ours.blocks[-1].block.sequence_number


def test_what_others_committed_meanwhile_is_told_once(here: Sharing, there: Sharing) -> None:
    ours = new_chain(here.storage.chains)
    theirs = seen_by(there, ours)
    for _ in range(3):
        theirs.grow()
    for _ in range(2):
        here.chains.head(ours.id)
    told = [pending.message for pending in here.storage.outbox.pending(limit=10)]
    assert [(message.old_head, message.new_head) for message in told] == [
        (None, ours.head),
        (ours.head, theirs.head),
    ]
    assert len(there.storage.outbox.pending(limit=10)) == 4


def keyed(chain: GrowingChain) -> EncodedBlock:
    """A block that seals a key, whatever else it may lack."""
    (like,) = chain.next_blocks()
    state = sealed_state([KEYED], source_name="default")
    event = AddData(new_source_state=state, extra=as_extra(sealed_attributes([KEYED])))
    return encoded(replace(like.block, event=event))


def test_keys_come_back_out_of_the_chain(here: Sharing, there: Sharing) -> None:
    ours = new_chain(here.storage.chains)
    block = keyed(ours)
    record = IdempotencyRecord(KEYED.key_hash, KEYED.body_digest, block.hash)
    here.storage.chains.append(
        ours.id, expected=ours.head, blocks=[block], message=ours.message([block]), idempotency=[record]
    )
    assert there.chains.idempotency(ours.id, KEYED.key_hash) == record
    theirs = seen_by(there, ours)
    theirs.blocks.append(block)
    again = theirs.next_blocks(label="again")
    with pytest.raises(AlreadyExists):
        there.storage.chains.append(
            ours.id, expected=block.hash, blocks=again, message=theirs.message(again), idempotency=[record]
        )
    assert str(there.chains.heads.read(ours.id).hash) == str(block.hash)


def test_a_dataset_that_one_removes_is_gone_for_the_other(here: Sharing, there: Sharing) -> None:
    ours = new_chain(here.storage.chains, blocks=2)
    assert there.catalog.by_alias(ours.entry.alias) is not None
    ours.remove()
    assert there.chains.head(ours.id) is None
    assert there.catalog.by_alias(ours.entry.alias) is None
    with pytest.raises(NotFound):
        seen_by(there, ours).grow()
    again = GrowingChain(there.storage.chains, entry_of("flights", dataset=entry_of("other").id))
    again.grow()
    assert here.catalog.by_alias(ours.entry.alias) == replace(again.entry, created_at=again.blocks[0].block.system_time)


def test_a_dataset_that_was_removed_and_made_again_replaces_the_rows(here: Sharing, there: Sharing) -> None:
    ours = new_chain(here.storage.chains, blocks=3)
    there.chains.head(ours.id)
    ours.remove()
    again = GrowingChain(here.storage.chains, ours.entry)
    again.grow(2, label="again")
    assert hashes_down(there.chains, ours.id) == [block.hash for block in reversed(again.blocks)]


def test_a_name_is_taken_once_whoever_asks(here: Sharing, there: Sharing) -> None:
    ours = new_chain(here.storage.chains)
    clash = GrowingChain(there.storage.chains, entry_of("Flights", dataset=entry_of("other").id))
    with pytest.raises(AlreadyExists):
        clash.grow()
    assert there.chains.head(clash.id) is None
    same = GrowingChain(there.storage.chains, replace(ours.entry, alias=entry_of("weather").alias))
    with pytest.raises(AlreadyExists):
        same.grow(label="there")
    assert here.chains.names.of(ours.id) == (ours.entry.alias, here.chains.names.owner(ours.entry.alias))


class Dying(Exception):
    """Stands for a process that dies."""


class Mortal:
    """Objects with a death before or after the n-th replacement of a ref.

    The ref ends with `key`.
    """

    def __init__(self, objects: ObjectStore, key: str, *, after: bool, at: int = 1) -> None:
        self._objects, self._key, self._after, self._left = objects, key, after, at

    def replace_ref(self, key: str, text: str, *, expected: str | None) -> bool:
        dies = key.startswith(self._key) or key.endswith(self._key)
        self._left -= dies
        if dies and self._left == 0 and not self._after:
            raise Dying
        done = self._objects.replace_ref(key, text, expected=expected)
        if dies and self._left == 0:
            raise Dying
        return done

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("first_look", ["head", "job", "round", "other node"])
def test_a_commit_of_a_process_that_died_is_finished_whole(
    open_node: Callable[..., Sharing], objects: MemoryObjectStore, after: bool, first_look: str
) -> None:
    healthy, other = open_node("here", objects), open_node("there", objects)
    chain = new_chain(healthy.storage.chains)
    dying = open_node("here", Mortal(objects, "refs/head", after=after))  # type: ignore[arg-type]
    blocks = chain.next_blocks(2, label="ours")
    record = IdempotencyRecord(b"k" * 32, b"b" * 32, blocks[-1].hash)
    with pytest.raises(Dying):
        dying.storage.chains.append(
            chain.id,
            expected=chain.head,
            blocks=blocks,
            message=chain.message(blocks),
            idempotency=[record],
            job_ids=["job-1"],
            audit=[MOVED],
        )
    chain.blocks += blocks
    match first_look:
        case "head":
            healthy.chains.head(chain.id)
        case "round":
            follower(healthy).step()
        case "other node":
            theirs = seen_by(other, chain)
            theirs.blocks = theirs.blocks if after else theirs.blocks[:1]
            theirs.grow(label="theirs")
            chain.blocks = theirs.blocks
    committed = after or first_look not in ("other node",)
    assert (healthy.chains.commit_of_job("job-1") is not None) == committed
    assert hashes_down(healthy.chains, chain.id) == [block.hash for block in reversed(chain.blocks)]
    assert hashes_down(other.chains, chain.id) == hashes_down(healthy.chains, chain.id)
    assert (healthy.chains.idempotency(chain.id, b"k" * 32) == record) == committed
    assert logged(healthy) == ([MOVED] if committed else [])
    assert logged(other) == []
    assert healthy.intents.all() == []
    moves = [pending.message.new_head for pending in healthy.storage.outbox.pending(limit=10)]
    assert len(moves) == len(set(moves)), "a move was told twice"
    assert moves[-1] == chain.head


def follower(node: Sharing) -> HeadFollower:
    clock = SettableClock(later(SETTLED_AFTER_S * 1000 + 1), step_ms=1)
    return HeadFollower(node.chains, node.catalog, node.intents, clock=clock, every_s=0.0)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("register", ["names/", "info/alias", "refs/head"])
def test_a_dataset_whose_maker_died_exists_whole_or_not_at_all(
    open_node: Callable[..., Sharing], objects: MemoryObjectStore, register: str, after: bool
) -> None:
    healthy, other = open_node("here", objects), open_node("there", objects)
    dying = open_node("here", Mortal(objects, register, after=after))  # type: ignore[arg-type]
    entry = replace(entry_of("flights"), sealed_key=b"sealed")
    grant = Grant(dataset=entry.id, grantee=EVERYONE, role=DatasetRole.READER)
    with pytest.raises(Dying):
        append(GrowingChain(dying.storage.chains, entry), grants=[grant], audit=[MADE])
    follower(healthy).step()
    made = register == "refs/head"
    assert SqlRelations(healthy.database).grants(entry.id, limit=9) == ([grant] if made else [])
    assert logged(healthy) == ([MADE] if made else [])
    assert healthy.catalog.by_id(entry.id) == (entry if made else None)
    assert (other.catalog.by_alias(entry.alias) is not None) == made
    if not made:
        rival = GrowingChain(other.storage.chains, entry_of("flights", dataset=entry_of("other").id))
        rival.grow()
        with pytest.raises(AlreadyExists):
            GrowingChain(healthy.storage.chains, entry).grow(label="too late")
        assert healthy.catalog.by_alias(entry.alias) is not None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("first_look", ["head", "catalog", "round", "new dataset"])
def test_a_removal_by_a_process_that_died_is_told_once_or_did_not_happen(
    open_node: Callable[..., Sharing], objects: MemoryObjectStore, first_look: str, after: bool
) -> None:
    healthy, other = open_node("here", objects), open_node("there", objects)
    chain = new_chain(healthy.storage.chains, blocks=2)
    grant = Grant(dataset=chain.id, grantee=EVERYONE, role=DatasetRole.READER)
    SqlRelations(healthy.database).change_grant(None, grant, audit=MADE)
    other.chains.head(chain.id)
    dying = open_node("here", Mortal(objects, "refs/head", after=after))  # type: ignore[arg-type]
    with pytest.raises(Dying):
        remove(dying, chain)
    match first_look:
        case "head":
            healthy.chains.head(chain.id)
        case "catalog":
            healthy.catalog.by_alias(chain.entry.alias)
        case "new dataset" if after:
            GrowingChain(healthy.storage.chains, entry_of("flights", dataset=entry_of("other").id)).grow()
    follower(healthy).step()
    follower(other).step()
    assert logged(healthy) == ([MADE, REMOVED] if after else [MADE])
    assert logged(other) == []
    assert (healthy.chains.head(chain.id) is None) == (other.chains.head(chain.id) is None) == after
    assert SqlRelations(healthy.database).grants(chain.id, limit=9) == ([] if after else [grant])
    assert healthy.intents.all() == []


def test_whoever_follows_a_removal_first_tells_of_it_once(
    open_node: Callable[..., Sharing], objects: MemoryObjectStore
) -> None:
    healthy = open_node("here", objects)
    chain = new_chain(healthy.storage.chains, blocks=2)
    seen = _EachTime("object.ref.put", lambda: healthy.chains.head(chain.id))
    remove(open_node("here", seen.objects(objects)), chain)
    assert logged(healthy) == [REMOVED]
    assert healthy.intents.all() == []


def test_a_removal_that_another_node_made_is_not_told_as_ours(
    here: Sharing, there: Sharing, objects: MemoryObjectStore, open_node: Callable[..., Sharing]
) -> None:
    chain = new_chain(here.storage.chains, blocks=2)
    there.chains.head(chain.id)
    dying = open_node("here", Mortal(objects, "refs/head", after=False))  # type: ignore[arg-type]
    with pytest.raises(Dying):
        remove(dying, chain)
    remove(there, chain)
    follower(here).step()
    assert here.chains.head(chain.id) is None
    assert (logged(here), logged(there)) == ([], [REMOVED])
    assert here.intents.all() == there.intents.all() == []


def test_a_removal_that_was_overtaken_tells_nothing(here: Sharing, there: Sharing) -> None:
    chain = new_chain(here.storage.chains, blocks=2)
    stale = GrowingChain(here.storage.chains, chain.entry, list(chain.blocks))
    seen_by(there, chain).grow()
    with pytest.raises(HeadMoved):
        remove(here, stale)
    assert logged(here) == here.intents.all() == []


def test_intents_are_read_as_they_were_written(here: Sharing) -> None:
    chain = GrowingChain(here.storage.chains, entry_of("flights"))
    message = chain.message(chain.next_blocks())
    grants = [
        Grant(dataset=chain.id, grantee=grantee, role=role)
        for grantee, role in ((EVERYONE, DatasetRole.READER), (account_id("alice"), DatasetRole.OWNER))
    ]
    commit = CommitIntent(message=message, entry=chain.entry, grants=tuple(grants), audit=(FULL, MADE))
    removal = CommitIntent(
        message=replace(message, old_head=message.new_head, new_head=None), audit=(FULL,), closing="removed 0123"
    )
    for intent in (commit, removal):
        here.intents.add(intent)
    assert here.intents.all() == [commit, removal]
    here.intents.drop(removal.key)
    assert here.intents.all() == [commit]


def test_intents_of_older_releases_are_read(here: Sharing) -> None:
    chain = GrowingChain(here.storage.chains, entry_of("flights"))
    intent = CommitIntent(message=chain.message(chain.next_blocks()), entry=chain.entry, job_ids=("job-1",))
    here.intents.add(intent)
    with here.database.write() as connection:
        (document,) = connection.execute(text("SELECT document FROM commit_intents")).scalars()
        kept = {name: value for name, value in json.loads(document).items() if name in KNOWN_BEFORE}
        assert set(kept) == KNOWN_BEFORE
        connection.execute(text("UPDATE commit_intents SET document = :kept"), {"kept": json.dumps(kept)})
    assert here.intents.all() == [intent]


def test_a_maker_that_was_overtaken_makes_nothing(here: Sharing, there: Sharing) -> None:
    ours = GrowingChain(here.storage.chains, entry_of("flights"))
    (first,) = ours.next_blocks()
    here.objects.put_bytes(block_key(ours.id, first.hash), first.data)
    before = here.chains.names.claim(ours.entry)
    rival = GrowingChain(there.storage.chains, entry_of("flights", dataset=entry_of("other").id))
    rival.grow()
    intent = CommitIntent(message=ours.message([first]), entry=ours.entry, ref_before=before)
    here.intents.add(intent)
    here.chains.settle(intent)
    assert here.chains.head(ours.id) is None
    assert here.intents.all() == []
    named = here.catalog.by_alias(ours.entry.alias)
    assert named is not None
    assert named.id == rival.id


@pytest.mark.parametrize("seed", range(int(os.environ.get("ODF_FAULT_SEEDS", "6"))))
def test_lost_answers_and_failures_lose_and_double_nothing(
    open_node: Callable[..., Sharing], objects: MemoryObjectStore, seed: int
) -> None:
    plan = FaultPlan.seeded(seed, rate=0.15)
    nodes = [open_node(name, plan.objects(objects)) for name in ("here", "there")]
    chain = new_chain(open_node("quiet", objects).storage.chains)
    done: dict[str, int] = {}
    for number in range(20):
        node = nodes[number % 2]
        job = f"job-{number // 2}-{number % 2}"
        for _ in range(30):
            try:
                done[job] = done.get(job, 0) or _push(node, chain, job)
                break
            except (Determinate, Indeterminate, HeadMoved):
                continue
    quiet = [open_node(name, objects) for name in ("here", "there")]
    for node in quiet:
        follower(node).step()
    rows = hashes_down(quiet[0].chains, chain.id)
    assert rows == hashes_down(quiet[1].chains, chain.id)
    assert len(rows) == 1 + len(done) == 21
    assert [node.intents.all() for node in quiet] == [[], []]


def _push(node: Sharing, chain: GrowingChain, job: str) -> int:
    """What a job does: look whether it has committed, else commit on the head."""
    if node.chains.commit_of_job(job) is not None:
        return 1
    head = node.chains.head(chain.id)
    assert head is not None
    (like,) = chain.next_blocks(label=job)
    block = encoded(replace(like.block, prev_block_hash=head.hash, sequence_number=head.sequence_number + 1))
    message = OutboxMessage(chain.id, head.hash, block.hash, NOW)
    try:
        node.storage.chains.append(chain.id, expected=head.hash, blocks=[block], message=message, job_ids=[job])
    except AlreadyExists:
        assert node.chains.commit_of_job(job) is not None
    return 1


def test_objects_that_are_not_these_are_alarming(here: Sharing, objects: MemoryObjectStore) -> None:
    chain = new_chain(here.storage.chains, blocks=3)
    objects.write_ref(head_key(chain.id), str(chain.blocks[1].hash))
    with pytest.raises(Corrupt, match="older"):
        here.chains.head(chain.id)
    objects.delete(head_key(chain.id))
    with pytest.raises(Corrupt, match="older"):
        here.chains.head(chain.id)
    objects.write_ref(head_key(chain.id), "nonsense")
    with pytest.raises(Corrupt, match="does not name a block"):
        here.chains.head(chain.id)


def test_a_missing_block_is_alarming_and_stops_no_other_dataset(
    here: Sharing, there: Sharing, objects: MemoryObjectStore
) -> None:
    broken, whole = new_chain(here.storage.chains, blocks=2), new_chain(here.storage.chains, "weather")
    there.catalog.find_new()
    for chain in (broken, whole):
        chain.grow()
    objects.delete(block_key(broken.id, broken.blocks[-1].hash))
    with pytest.raises(Corrupt, match="missing"):
        there.chains.head(broken.id)
    follower(there).step()
    assert there.rows.head(whole.id) == here.rows.head(whole.id)


def test_names_of_a_database_that_had_the_heads_before_are_claimed(here: Sharing, objects: MemoryObjectStore) -> None:
    chain = GrowingChain(here.rows, entry_of("flights"))
    (first,) = chain.grow()
    objects.put_bytes(block_key(chain.id, first.hash), first.data)
    objects.write_ref(alias_key(chain.id), str(chain.entry.alias))
    objects.write_ref(head_key(chain.id), str(first.hash))
    follower(here).step()
    owner = here.chains.names.owner(chain.entry.alias)
    assert owner is not None
    assert owner.dataset == chain.id
    assert list(objects.keys("names/")) == [name_key(chain.entry.alias)]


RACED = "raced"
ROUNDS_AT_ONCE_MAX = 100
ROUNDS = int(os.environ.get("ODF_RACE_ROUNDS", "50"))
"""Set it to run longer; each round two processes follow the same head."""


def open_racer(folder: Path, s3: S3Server, bucket: str) -> Sharing:
    url = f"sqlite:///{folder}/node-{os.getpid()}.db"
    upgrade(url)
    access = S3Access(endpoint_url=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
    objects = S3ObjectStore(access, bucket, exclusive=FolderLocks(folder / "locks").exclusive)
    return Sharing(Database(url, busy_s_max=30), objects)


def head_of_round(node: Sharing, round_number: int) -> Multihash:
    """The head that both are to follow, as soon as it is there."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        head = node.chains.head(entry_of(RACED).id)
        assert head is not None
        if head.sequence_number >= round_number:
            # The other one may have won this round already, and then hears to have won it once.
            return next(node.rows.rows_down(entry_of(RACED).id, from_sequence=round_number)).hash
    raise AssertionError(f"round {round_number} did not begin")


def race(rounds: int, node: Sharing, number: int) -> str:
    """Each round both try to follow the same head; which rounds this one won."""
    won = []
    for round_number in range(rounds):
        head = head_of_round(node, round_number)
        like = GrowingChain(node.storage.chains, entry_of(RACED)).next_blocks(label=f"{number} {round_number}")[0]
        block = encoded(replace(like.block, prev_block_hash=head, sequence_number=round_number + 1))
        message = OutboxMessage(entry_of(RACED).id, head, block.hash, NOW)
        try:
            node.storage.chains.append(entry_of(RACED).id, expected=head, blocks=[block], message=message)
            won.append(round_number)
        except HeadMoved:
            pass
        except OdfError as error:
            raise AssertionError(f"neither won nor lost: {error}") from error
    return ",".join(map(str, won))


@pytest.mark.parametrize("begin", range(0, ROUNDS, ROUNDS_AT_ONCE_MAX))
def test_of_two_processes_on_one_bucket_one_wins_each_round(
    tmp_path: Path, s3: S3Server, bucket: str, begin: int
) -> None:
    rounds = min(ROUNDS_AT_ONCE_MAX, ROUNDS - begin)
    server = replace(s3, process=None)
    look = open_racer(tmp_path, server, bucket)
    chain = new_chain(look.storage.chains, RACED)
    outcomes = outcomes_of_processes(partial(open_racer, tmp_path, server, bucket), partial(race, rounds), count=2)
    won = sorted(int(number) for outcome in outcomes for number in outcome.split(",") if number)
    assert won == list(range(rounds)), "a round had two winners, or none"
    rows = list(look.chains.rows_down(chain.id))
    assert [row.sequence_number for row in rows] == list(range(rounds, -1, -1))
    assert all(row.prev == before.hash for row, before in pairwise(rows))
    look.database.close()
