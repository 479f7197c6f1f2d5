"""Push a dataset to a folder or a bucket by the Simple Transfer Protocol.

Owns what is sent and in which order. Invariants: nothing that is there is sent again, so a transfer that broke off goes on; every object is
hashed on its way out, so damage here stays here; what is there moves forwards only, unless forced, and a reader sees the dataset as it was
before or as it is after. Source: RFC-007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from odfabric.domain.chain.compare import ChainRelation, compare_chains
from odfabric.domain.chain.walk import walk
from odfabric.errors import CorruptedSource, HeadMoved, InvalidRequest
from odfabric.model.commit import CatalogEntry, EncodedBlock, Head
from odfabric.model.engine import BYTES, EngineProgress
from odfabric.model.metadata import Checkpoint, DataSlice, Seed
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.transfer.destinations import Destination
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.heads.head_writer import HeadWriter
from odfabric.usecases.heads.judge_log import LogPlace
from odfabric.usecases.heads.send_log import LogToSend, log_to_send
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transfer.arriving_chain import BlockServer, ReceivedBlocks, oldest_event
from odfabric.usecases.transfer.at_once import each_at_once
from odfabric.usecases.transfer.receive_chain import check_forward
from odfabric.usecases.transfer.receive_objects import unique_objects


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPorts:
    """What sending needs, and its limits: blocks of a chain, objects at once."""

    repository: Repository
    exchange: Exchange
    blocks_max: int
    at_once: int
    heads: HeadWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a push brought: head, blocks, objects, and the bytes of the objects.

    `replaced`: how many blocks of the destination they replaced.
    """

    head: Multihash
    blocks: int = 0
    objects: int = 0
    bytes: int = 0
    replaced: int = 0

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "head": str(self.head),
            "blocks": self.blocks,
            "objects": self.objects,
            "bytes": self.bytes,
            "replacedBlocks": self.replaced,
            "upToDate": self.blocks == 0 and self.replaced == 0,
        }


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """An object that is to be there; `damaged`: what is there has another size."""

    area: str
    declared: DataSlice | Checkpoint
    damaged: bool


def push_remote(entry: CatalogEntry, destination: Destination, *, force: bool, run: JobRun, ports: SendPorts) -> Sent:
    """Bring the destination to the head of a dataset of this node.

    Raises DestinationAhead and ChainsDiverged with counts unless forced, InvalidRequest if another dataset is there, HeadMoved if somebody
    else moves its head meanwhile, CorruptedSource for what is there and is no dataset, Corrupt for an object that is damaged here, and what
    the destination raises.
    """
    head = ports.repository.head(entry.id)
    theirs = destination.head()
    log = judged_log_to_send(entry, theirs, destination, shown="the destination", force=force, ports=ports)
    if theirs == head.hash and (log is None or not log.behind):
        return Sent(head=head.hash)
    with ports.exchange.session() as folder:
        relation = relation_to(entry, head, theirs, destination, folder, ports=ports)
        if theirs is not None and relation.common is None:
            check_same_dataset_there(entry, theirs, ReceivedBlocks(destination, folder), blocks_max=ports.blocks_max)
        if not force:
            check_forward(relation, destination=theirs, source=head.hash)
        blocks = new_blocks(entry, head, relation.common, ports=ports)
        outgoing, there = _outgoing(blocks, destination)
        _send_objects(entry, outgoing, there, destination, folder, report=run.report, ports=ports)
        run.report(EngineProgress(stage="publish", done=0, total=0))
        run.confirm()
        # Behind here everything that the chain names is there.
        published = destination.publish(
            blocks,
            head=head.hash,
            expected=theirs,
            alias=str(entry.alias),
            force=relation.uncommon_ours > 0,
            log=None if log is None else log.files,
        )
    if not published:
        raise HeadMoved(expected=str(theirs), actual=str(destination.head()))
    size = sum(each.declared.size for each in outgoing)
    return Sent(head=head.hash, blocks=len(blocks), objects=len(outgoing), bytes=size, replaced=relation.uncommon_ours)


class LogsAndBlocks(BlockServer, LogPlace, Protocol):
    """A dataset elsewhere: its blocks and its head log."""


def judged_log_to_send(
    entry: CatalogEntry,
    theirs: Multihash | None,
    there: LogsAndBlocks,
    *,
    shown: str,
    force: bool,
    ports: SendPorts,
) -> LogToSend | None:
    """What of the head log is to be sent to a dataset elsewhere with head `theirs`.

    Raises as `log_to_send`, InvalidRequest if another dataset is there.
    """
    try:
        return log_to_send(entry, there, ports.heads, shown=shown, force=force)
    except CorruptedSource:
        if theirs is not None:  # a log of another dataset is no forgery
            with ports.exchange.session() as folder:
                check_same_dataset_there(entry, theirs, ReceivedBlocks(there, folder), blocks_max=ports.blocks_max)
        raise


def relation_to(
    entry: CatalogEntry, head: Head, theirs: Multihash | None, there: BlockServer, folder: Path, *, ports: SendPorts
) -> ChainRelation:
    """How a chain elsewhere, with head `theirs`, relates to this node's chain.

    In the relation the one elsewhere is `ours`, this node's `theirs`. Blocks of `there` are kept in `folder`.
    """
    known = ports.repository.chains.row(entry.id, theirs) if theirs is not None else None
    if theirs is None or known is not None:
        missing = head.sequence_number - (known.sequence_number if known else -1)
        return ChainRelation(uncommon_ours=0, uncommon_theirs=missing, common=theirs)
    return compare_chains(
        ours=ReceivedBlocks(there, folder),
        our_head=theirs,
        theirs=ports.repository.blocks(entry.id),
        their_head=head.hash,
        blocks_max=ports.blocks_max,
    )


def new_blocks(entry: CatalogEntry, head: Head, tail: Multihash | None, *, ports: SendPorts) -> list[EncodedBlock]:
    """Blocks of this node's chain above `tail`, oldest first; None: all of them."""
    stored = ports.repository.blocks(entry.id)
    links = walk(stored, head.hash, tail=tail, blocks_max=ports.blocks_max)
    return [EncodedBlock(link.hash, stored.get_bytes(link.hash), link.block) for link in links][::-1]


def check_same_dataset_there(
    entry: CatalogEntry, theirs: Multihash, received: ReceivedBlocks, *, blocks_max: int
) -> None:
    """Raise InvalidRequest if another dataset is at the destination."""
    seed = oldest_event(received, theirs, blocks_max=blocks_max)
    if not isinstance(seed, Seed) or (seed.dataset_id, seed.dataset_kind) != (entry.id, entry.kind):
        found = seed.dataset_id if isinstance(seed, Seed) else "no dataset"
        raise InvalidRequest(
            f"overwriting dataset id or kind is restricted: {entry.alias} is {entry.id}, at the destination is {found}",
            hint="push to another place",
        )


def _outgoing(blocks: Sequence[EncodedBlock], destination: Destination) -> tuple[list[_Outgoing], int]:
    """The objects that are not there yet, each once, oldest first.

    And how many bytes are there.
    """
    names: dict[str, list[Multihash]] = {}
    declared = unique_objects(blocks)
    for area, each in declared:
        names.setdefault(area, []).append(each.physical_hash)
    found = {area: destination.sizes(area, named) for area, named in names.items()}
    outgoing, there = [], 0
    for area, each in declared:
        size = found[area].get(each.physical_hash)
        if size == each.size:
            there += each.size
        else:
            outgoing.append(_Outgoing(area, each, damaged=size is not None))
    return outgoing, there


def _send_objects(
    entry: CatalogEntry,
    outgoing: Sequence[_Outgoing],
    there: int,
    destination: Destination,
    folder: Path,
    *,
    report: Callable[[EngineProgress], None],
    ports: SendPorts,
) -> None:
    total = there + sum(each.declared.size for each in outgoing)

    def send(each: _Outgoing) -> int:
        name = each.declared.physical_hash
        path = folder / f"{each.area}-{name}"
        size = ports.repository.materialize(entry.id, each.area, name, path)
        destination.put(each.area, name, path, replaces=each.damaged)
        path.unlink()
        return size

    done, count = there, 0
    report(_progress(0, len(outgoing), done, total))
    for size in each_at_once((partial(send, each) for each in outgoing), at_once=ports.at_once):
        done, count = done + size, count + 1
        report(_progress(count, len(outgoing), done, total))


def _progress(count: int, objects: int, done: int, total: int) -> EngineProgress:
    return EngineProgress(stage=f"send, {count} of {objects} objects", done=done, total=total, unit=BYTES)
