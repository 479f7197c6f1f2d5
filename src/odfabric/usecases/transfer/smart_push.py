"""Push a dataset to a node by the Smart Transfer Protocol: the client of a push.

Owns the order of its messages. Invariants: what the node could not read is refused before anything is sent; every object is hashed on its way
out; a push counts as done only when the node's head is ours. Source: RFC-008; RFC-007.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from odfabric.errors import Determinate, Indeterminate, LimitExceeded, NotFound, OdfError
from odfabric.formats.smart.close_reason import NORMAL, PUSHED
from odfabric.formats.smart.push_messages import (
    read_empty,
    read_push_accepted,
    read_uploads,
    write_nothing,
    write_progress,
    write_push_begin,
    write_push_objects,
    write_pushed_blocks,
)
from odfabric.model.commit import CatalogEntry, EncodedBlock
from odfabric.model.engine import BYTES, EngineProgress
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Visibility
from odfabric.model.transfer.smart import ObjectUpload, PushBegin, PushObjects, UploadProgress
from odfabric.ports.sources.egress import RemoteDataset, RemoteDatasets
from odfabric.ports.transfer.conversations import Closed, Conversation
from odfabric.usecases.heads.send_log import LogToSend
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transfer.arriving_chain import ReceivedBlocks
from odfabric.usecases.transfer.at_once import each_at_once
from odfabric.usecases.transfer.push_remote import (
    SendPorts,
    Sent,
    check_same_dataset_there,
    judged_log_to_send,
    new_blocks,
    relation_to,
)
from odfabric.usecases.transfer.receive_chain import check_forward
from odfabric.usecases.transfer.receive_objects import unique_objects
from odfabric.usecases.transfer.smart_parts import (
    AREAS,
    OBJECTS_AT_ONCE_MAX,
    USE_SIMPLE_PUSH,
    batch_of,
    bytes_of,
    file_of,
    heard,
    plan_of,
    raise_closed,
    raise_refusal,
    say,
    timed_with_server,
    understood,
)
from odfabric.usecases.transfer.smart_pull import SmartPeers

LISTEN_S = 0.05
"""How long the thread that answers questions about progress listens before it looks whether it is to end."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmartPush:
    """A push to one node. `visibility` is for a dataset that is new there."""

    url: str
    force: bool = False
    visibility: Visibility = Visibility.PRIVATE


def smart_push(
    entry: CatalogEntry,
    push: SmartPush,
    *,
    run: JobRun,
    peers: SmartPeers,
    remotes: RemoteDatasets,
    ports: SendPorts,
) -> Sent:
    """Bring the dataset under a node's URL to the head of one of this node.

    Raises DestinationAhead and ChainsDiverged with counts unless forced, HeadMoved, AlreadyExists for a name or an identity that the node has
    otherwise, LimitExceeded for a chain that is too long, Unauthenticated, AccessDenied, Corrupt, CorruptedSource, Determinate, Indeterminate.
    """
    head = ports.repository.head(entry.id)
    remote = remotes.open(push.url)
    theirs = _head_of(remote)
    if theirs == head.hash:
        log = judged_log_to_send(entry, theirs, remote, shown=push.url, force=push.force, ports=ports)
        _send_log(log, push, peers=peers)
        return Sent(head=head.hash)
    with ports.exchange.session() as folder:
        relation = relation_to(entry, head, theirs, remote, folder, ports=ports)
        if not push.force:
            if theirs is not None and relation.common is None:
                check_same_dataset_there(entry, theirs, ReceivedBlocks(remote, folder), blocks_max=ports.blocks_max)
            check_forward(relation, destination=theirs, source=head.hash)
        log = judged_log_to_send(entry, theirs, remote, shown=push.url, force=push.force, ports=ports)
        # What does not continue the node's chain replaces all of it.
        tail = None if relation.uncommon_ours else relation.common
        blocks = new_blocks(entry, head, tail, ports=ports)
        sending = _Sending(entry, push, blocks, folder, run=run, peers=peers, ports=ports)
        sending.send(theirs, remote)
        _send_log(log, push, peers=peers)
    return Sent(
        head=head.hash,
        blocks=len(blocks),
        objects=sending.uploaded,
        bytes=sending.uploaded_bytes,
        replaced=relation.uncommon_ours,
    )


def _send_log(log: LogToSend | None, push: SmartPush, *, peers: SmartPeers) -> None:
    """Send the head log after the chain.

    Nodes that know no logs refuse it, which is no fault of the push.
    """
    if log is None or not log.behind:
        return
    for path, data in log.files.items():
        if not peers.nodes.send_ref(push.url, path, data):
            _log.warning("the node took the push and not the head log of the dataset")
            return


def _head_of(remote: RemoteDataset) -> Multihash | None:
    try:
        return remote.head()
    except NotFound:
        return None


class _Sending:
    """One conversation."""

    def __init__(
        self,
        entry: CatalogEntry,
        push: SmartPush,
        blocks: Sequence[EncodedBlock],
        folder: Path,
        *,
        run: JobRun,
        peers: SmartPeers,
        ports: SendPorts,
    ) -> None:
        self._entry, self._push, self._blocks, self._folder = entry, push, blocks, folder
        self._run, self._peers, self._ports = run, peers, ports
        self.uploaded = self.uploaded_bytes = 0

    def send(self, theirs: Multihash | None, remote: RemoteDataset) -> None:
        """Say and upload everything; the node's head is ours when this returns."""
        text = self._text_of_blocks()
        limits, shown = self._peers.limits, self._push.url
        with self._peers.conversations.open(shown, "push") as conversation:
            talk = timed_with_server(conversation, limits, shown=shown)
            begin = PushBegin(
                current_head=theirs,
                plan=plan_of(self._blocks),
                force=self._push.force,
                visibility=self._push.visibility,
            )
            talk.announce(bytes_of(begin.plan))
            self._accepted(talk, write_push_begin(begin), limits.wait_s_max)
            self._accepted(talk, text, limits.objects_wait_s_max)
            self._upload(talk, self._uploads(talk))
            self._run.confirm()
            say(talk, write_nothing(), shown=shown)
            self._await_confirmation(talk, remote)
            talk.end(NORMAL, PUSHED)

    def _text_of_blocks(self) -> str:
        text = write_pushed_blocks(batch_of(self._blocks))
        maximum = self._peers.limits.message_bytes_max
        if len(text) > maximum:
            message = f"the {len(self._blocks)} new blocks of {self._entry.alias} make a message of {len(text)} bytes"
            raise LimitExceeded(f"{message}; {USE_SIMPLE_PUSH}", limit="smart_message_bytes_max", maximum=maximum)
        return text

    def _accepted(self, talk: Conversation, text: str, seconds_max: float) -> None:
        say(talk, text, shown=self._push.url)
        refusal = heard(talk, read_push_accepted, seconds_max=seconds_max, shown=self._push.url)
        if refusal is not None:
            raise_refusal(refusal, self._push.url)

    def _uploads(self, talk: Conversation) -> list[ObjectUpload]:
        files = [file_of(area, each) for area, each in unique_objects(self._blocks)]
        portions = [files[at : at + OBJECTS_AT_ONCE_MAX] for at in range(0, len(files), OBJECTS_AT_ONCE_MAX)] or [[]]
        found: list[ObjectUpload] = []
        for number, portion in enumerate(portions):
            wanted = PushObjects(tuple(portion), is_truncated=number + 1 < len(portions))
            say(talk, write_push_objects(wanted), shown=self._push.url)
            answer = heard(talk, read_uploads, seconds_max=self._peers.limits.wait_s_max, shown=self._push.url)
            if not isinstance(answer, tuple):
                raise_refusal(answer, self._push.url)
            asked = set(portion)
            found += [each for each in answer if each.file in asked and each.target is not None]
        return found

    def _upload(self, talk: Conversation, uploads: Sequence[ObjectUpload]) -> None:
        total = sum(each.file.size for each in uploads)
        self._report(len(uploads), total)
        with _answering(talk, self) as answering:
            works = (partial(self._upload_one, each) for each in uploads)
            for size in each_at_once(works, at_once=self._ports.at_once):
                self.uploaded, self.uploaded_bytes = self.uploaded + 1, self.uploaded_bytes + size
                self._report(len(uploads), total)
                answering.check(self._push.url)
        answering.check(self._push.url)
        say(talk, write_progress(UploadProgress(None)), shown=self._push.url)

    def _upload_one(self, upload: ObjectUpload) -> int:
        assert upload.target is not None
        name, area = upload.file.physical_hash, AREAS[upload.file.kind]
        path = self._folder / f"{area}-{name}"
        size = self._ports.repository.materialize(self._entry.id, area, name, path)
        self._peers.linked.upload(upload.target, name=str(name), path=path)
        path.unlink()
        return size

    def _report(self, objects: int, total: int) -> None:
        stage = f"send, {self.uploaded} of {objects} objects"
        self._run.report(EngineProgress(stage=stage, done=self.uploaded_bytes, total=total, unit=BYTES))

    def _await_confirmation(self, talk: Conversation, remote: RemoteDataset) -> None:
        """Wait until the node's head shows that the push is there.

        A late question about progress reads like the confirmation, so the node's head is what counts.
        """
        said, limits = self._push.url, self._peers.limits
        seconds_max = limits.objects_wait_s_max
        for _ in range(3):
            try:
                found = talk.hear(seconds_max=seconds_max)
            except Determinate:
                found = None
            if isinstance(found, str):
                understood(read_empty, found, shown=said)
                if self._is_there(remote):
                    return
                seconds_max = limits.progress_s
            elif self._is_there(remote):
                return
            elif isinstance(found, Closed) and found.reason:
                raise_closed(found, said)
            else:
                break
        raise Indeterminate(f"{said} did not confirm the push", hint="push again: what is there is not sent twice")

    def _is_there(self, remote: RemoteDataset) -> bool:
        try:
            return remote.head() == self._blocks[-1].hash
        except OdfError:
            return False


@dataclass(slots=True)
class _Answers:
    """What the thread that listens has heard last."""

    ended: Closed | None = None
    failed: OdfError | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def check(self, shown: str) -> None:
        """Raises what the node has said instead of a question."""
        if self.failed is not None:
            raise self.failed
        if self.ended is not None:
            raise_closed(self.ended, shown)


@contextmanager
def _answering(talk: Conversation, sending: _Sending) -> Iterator[_Answers]:
    """While the context is open, questions about progress are answered."""
    answers = _Answers()

    def listen() -> None:
        try:
            while not answers.stop.is_set() and answers.ended is None:
                found = talk.hear(seconds_max=LISTEN_S)
                if isinstance(found, Closed):
                    answers.ended = found
                elif found is not None:
                    understood(read_empty, found, shown="the node")
                    say(talk, write_progress(UploadProgress(sending.uploaded)), shown="the node")
        except OdfError as error:
            answers.failed = error

    thread = threading.Thread(target=listen, name="smart-push-progress", daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        answers.stop.set()
        thread.join()
