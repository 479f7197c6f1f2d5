"""Take a dataset in by the Smart Transfer Protocol: the server of a push.

Owns the order of its messages. Invariants: only a dataset that holds a Seed and nothing else is made before all of a push is here; the head
moves once, after every object was found uploaded and hashed (`receive_chain`), with the rights that the caller has at that moment; whatever
the client says, the conversation ends with a whole answer. Source: RFC-008; RFC-007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound, OdfError
from odfabric.formats.identifiers.dataset_layout import object_key
from odfabric.formats.smart.close_reason import FAILED, close_reason
from odfabric.formats.smart.push_messages import (
    read_empty,
    read_progress,
    read_push_begin,
    read_push_objects,
    read_pushed_blocks,
    write_nothing,
    write_push_accepted,
    write_uploads,
)
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.metadata import Seed
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import EVERYONE, DatasetRole, Grant, Visibility
from odfabric.model.people.audit import Actor
from odfabric.model.transfer.smart import (
    InternalFailure,
    InvalidHead,
    NameCollision,
    ObjectFile,
    ObjectUpload,
    ObjectUrl,
    Phase,
    PushBegin,
    RefCollision,
    Refusal,
    SeedOverwriteRestricted,
)
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.transfer.conversations import Closed, Conversation
from odfabric.usecases.transfer.arriving_chain import ArrivingChain
from odfabric.usecases.transfer.receive_chain import Landing, ReceivePorts, receive_chain
from odfabric.usecases.transfer.receive_objects import unique_objects
from odfabric.usecases.transfer.serve_smart_pull import INTERNAL, message_for_peer
from odfabric.usecases.transfer.smart_parts import (
    AREAS,
    OwnBlocks,
    ReceivedBatch,
    SmartLimits,
    bytes_of,
    file_of,
    receive_batch,
    timed_with_client,
)
from odfabric.usecases.transfer.timed_conversation import TimedConversation

SHOWN = "the push"
REPORTS_UNASKED_MAX = 100
"""Reports of progress beyond one for each object and one for each question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptPushPorts:
    """What a push needs. `upload_to` gives where an object of the dataset is written.

    `check` raises if the caller may not write the dataset, or make it if it is not there; with True also if its history may not be replaced.
    """

    receiving: ReceivePorts
    exchange: Exchange
    upload_to: Callable[[ObjectFile], ObjectUrl]
    check: Callable[[bool], None]
    actor: Actor
    limits: SmartLimits


class _Refused(Exception):
    """Ends the conversation with a refusal in the close frame."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class _Ended(Exception):
    """The client has closed the conversation."""


@dataclass(frozen=True, slots=True)
class _Uploaded:
    """An `ObjectSource` that has none: what was not uploaded is nowhere."""

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """Raises NotFound."""
        raise NotFound(f"{folder} object", str(object_hash), hint="it was not uploaded")


@dataclass(frozen=True, slots=True)
class _Receiving:
    """A `ReceivingRun`."""

    actor: Actor
    check: Callable[[], None]

    def report(self, progress: EngineProgress) -> None:
        """Nobody listens: the client waits for one answer."""

    def confirm(self) -> None:
        """Look at the rights once more."""
        self.check()


def accept_smart_push(conversation: Conversation, alias: DatasetAlias, *, ports: AcceptPushPorts) -> bool:
    """Hold the conversation to its end; whether anything was committed.

    Raises as `serve_smart_pull`.
    """
    talk = timed_with_client(conversation, ports.limits)
    accepting = _Accepting(talk, alias, ports)
    try:
        accepting.run()
    except _Ended:
        pass
    except _Refused as refused:
        talk.end(FAILED, close_reason(refused.refusal))
    except OdfError as error:
        talk.end(FAILED, close_reason(InternalFailure(accepting.phase, message_for_peer(error))))
    except Exception:
        talk.end(FAILED, close_reason(InternalFailure(accepting.phase, INTERNAL)))
        raise
    return accepting.committed


@dataclass(slots=True)
class _Accepting:
    """One conversation."""

    talk: TimedConversation
    alias: DatasetAlias
    ports: AcceptPushPorts
    phase: Phase = Phase.PUSH_INITIAL
    committed: bool = False
    named: frozenset[ObjectFile] = field(default_factory=frozenset)

    def run(self) -> None:
        """All of it. Raises _Ended, _Refused, OdfError."""
        begin = read_push_begin(self._heard())
        if (refusal := self._begin(begin)) is not None:
            self.talk.say(write_push_accepted(refusal))
            self._heard()  # the client gives up, at the latest when it is asked again
            raise InvalidRequest("the push was refused")
        self.talk.announce(bytes_of(begin.plan))
        self.talk.say(write_push_accepted(None))
        with self.ports.exchange.session() as folder:
            self.phase = Phase.PUSH_METADATA
            batch = self._batch(begin, folder)
            self.talk.say(write_push_accepted(None))
            self.phase = Phase.PUSH_TARGET
            entry = self._target(begin, batch, folder)
            self.phase = Phase.PUSH_OBJECTS
            self._link(entry)
            self.phase = Phase.PUSH_PROGRESS
            self._await_uploads()
            self.phase = Phase.PUSH_COMPLETE
            self._commit(begin, batch, folder)
            self.talk.say(write_nothing())
        with suppress(LimitExceeded):  # it is committed and confirmed, however long it took
            self.talk.hear(seconds_max=self.ports.limits.close_s)

    def _heard(self, seconds_max: float | None = None) -> str:
        limits = self.ports.limits
        found = self.talk.hear(seconds_max=seconds_max or limits.wait_s_max)
        if isinstance(found, Closed):
            raise _Ended
        if found is None:
            raise LimitExceeded("the next message does not come", limit="smart_wait_s_max", maximum=limits.wait_s_max)
        return found

    def _entry(self) -> CatalogEntry | None:
        return self.ports.receiving.repository.find(self.alias)

    def _begin(self, begin: PushBegin) -> Refusal | None:
        entry, limits = self._entry(), self.ports.limits.archive
        head = self.ports.receiving.repository.head(entry.id).hash if entry is not None else None
        if begin.current_head != head:
            return InvalidHead(said=begin.current_head, servers=head)
        if begin.force:
            self.ports.check(True)
        plan = begin.plan
        if not 1 <= plan.num_blocks <= limits.blocks_max or plan.bytes_in_raw_blocks > limits.bytes_max:
            return InternalFailure(
                Phase.PUSH_INITIAL,
                f"{plan.num_blocks} blocks of {plan.bytes_in_raw_blocks} bytes are not taken at once: let the node pull them",
            )
        return None

    def _batch(self, begin: PushBegin, folder: Path) -> ReceivedBatch:
        batch = receive_batch(
            read_pushed_blocks(self._heard(self.ports.limits.objects_wait_s_max)),
            planned=begin.plan.num_blocks,
            limits=self.ports.limits.archive,
            own=OwnBlocks(self._entry(), self.ports.receiving.repository),
            folder=folder,
        )
        entry, first = self._entry(), batch.blocks[0].block.event
        if not isinstance(first, Seed) and entry is None:
            raise InvalidRequest("the first block of a new dataset is its Seed")
        # One that came into being meanwhile is a collision of names, of which the client hears in its next answer.
        if isinstance(first, Seed) and entry is not None and begin.current_head is not None:
            same = (first.dataset_id, first.dataset_kind) == (entry.id, entry.kind)
            if not same:
                raise _Refused(SeedOverwriteRestricted())
        self.named = frozenset(file_of(area, each) for area, each in unique_objects(batch.blocks))
        return batch

    def _target(self, begin: PushBegin, batch: ReceivedBatch, folder: Path) -> CatalogEntry:
        """The dataset, made of its Seed if it is not there.

        Raises _Refused for an identity or a name that is taken.
        """
        first = batch.blocks[0]
        if not isinstance(first.block.event, Seed):
            return self._existing()
        identity, repository = first.block.event.dataset_id, self.ports.receiving.repository
        there, same = repository.find(identity), self._entry()
        if there is not None and (same is None or same.id != identity):
            raise _Refused(RefCollision(identity))
        if same is not None and same.id != identity:
            raise _Refused(NameCollision(str(self.alias)))
        if same is None:
            landing = Landing(alias=self.alias, grants=lambda dataset: _grants(dataset, begin.visibility))
            arriving = ArrivingChain(head=first.hash, blocks=batch.source, objects=_Uploaded(), shown=SHOWN)
            try:
                self._receive(arriving, landing, folder)
            except AlreadyExists:
                raise _Refused(NameCollision(str(self.alias))) from None
        return self._existing()

    def _existing(self) -> CatalogEntry:
        entry = self._entry()
        if entry is None:
            raise NotFound("dataset", str(self.alias))
        return entry

    def _link(self, entry: CatalogEntry) -> None:
        """Answer with places for uploads, for as many portions as have something new.

        A client that says for ever that more follows would hold the conversation.
        """
        linked: set[ObjectFile] = set()
        while True:
            asked = read_push_objects(self._heard())
            self.ports.check(False)
            uploads = [self._upload_of(entry, each) for each in asked.files]
            if asked.is_truncated and linked.issuperset(asked.files):
                raise InvalidRequest("a portion of many names nothing new")
            linked.update(asked.files)
            self.talk.say(write_uploads(uploads))
            if not asked.is_truncated:
                return

    def _upload_of(self, entry: CatalogEntry, file: ObjectFile) -> ObjectUpload:
        receiving = self.ports.receiving
        if file not in self.named:
            raise InvalidRequest(f"no new block names {file.physical_hash} with {file.size} bytes")
        if file.size > receiving.object_bytes_max:
            maximum = receiving.object_bytes_max
            raise LimitExceeded("an object is too large", limit="object_bytes_max", maximum=maximum)
        there = receiving.objects.stat(object_key(entry.id, AREAS[file.kind], file.physical_hash))
        if there is not None and there.size == file.size:
            return ObjectUpload(file, None)
        return ObjectUpload(file, self.ports.upload_to(file))

    def _await_uploads(self) -> None:
        """Ask for progress in silences, until the client is done or silent for too long.

        A client reports when it is asked and when an object is there; one that reports without end is refused.
        """
        limits = self.ports.limits
        silent_s = 0.0
        reports_left = len(self.named) + REPORTS_UNASKED_MAX
        while True:
            found = self.talk.hear(seconds_max=limits.progress_s)
            if isinstance(found, Closed):
                raise _Ended
            if found is None:
                silent_s += limits.progress_s
                if silent_s > limits.wait_s_max:
                    maximum = limits.wait_s_max
                    raise LimitExceeded("no progress is reported", limit="smart_wait_s_max", maximum=maximum)
                if silent_s <= limits.progress_s:
                    reports_left += 1
                    self.talk.say(write_nothing())
                continue
            silent_s = 0.0
            uploaded = read_progress(found).uploaded
            if uploaded is None:
                return
            reports_left -= 1
            if uploaded > len(self.named) or reports_left < 0:
                raise InvalidRequest(f"endless progress with {len(self.named)} objects")

    def _commit(self, begin: PushBegin, batch: ReceivedBatch, folder: Path) -> None:
        read_empty(self._heard())
        landing = Landing(alias=self.alias, force=begin.force)
        arriving = ArrivingChain(head=batch.head, blocks=batch.source, objects=_Uploaded(), shown=SHOWN)
        self._receive(arriving, landing, folder)

    def _receive(self, arriving: ArrivingChain, landing: Landing, folder: Path) -> None:
        run = _Receiving(self.ports.actor, lambda: self.ports.check(landing.force))
        result = receive_chain(arriving, landing, folder=folder, run=run, ports=self.ports.receiving)
        self.committed = self.committed or result is not None


def _grants(dataset: DatasetId, visibility: Visibility) -> Sequence[Grant]:
    if visibility is not Visibility.PUBLIC:
        return ()
    return (Grant(dataset=dataset, grantee=EVERYONE, role=DatasetRole.READER),)
