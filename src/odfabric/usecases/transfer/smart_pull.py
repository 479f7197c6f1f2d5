"""Copy a dataset from a node by the Smart Transfer Protocol: the client of a pull.

Owns the order of its messages. Not here: what happens to the chain that arrives (`receive_chain`). Source: RFC-008; RFC-007.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from odfabric.errors import CorruptedSource, DestinationAhead, InvalidRequest, LimitExceeded
from odfabric.formats.smart.close_reason import NORMAL, PULLED
from odfabric.formats.smart.pull_messages import (
    read_pull_plan,
    read_pulled_blocks,
    write_blocks_wanted,
    write_pull_begin,
)
from odfabric.model.commit import CatalogEntry, EncodedBlock, Head
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import Seed
from odfabric.model.transfer.smart import InvalidInterval, ObjectFile, PullBegin, TransferPlan
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.sources.egress import RemoteDatasets
from odfabric.ports.transfer.conversations import Conversation, Conversations, LinkedObjects
from odfabric.ports.transfer.nodes import RemoteNodes
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transfer.arriving_chain import ArrivingChain, ReceivedBlocks
from odfabric.usecases.transfer.receive_chain import Landing, ReceivePorts, receive_chain
from odfabric.usecases.transfer.receive_objects import missing_objects
from odfabric.usecases.transfer.smart_objects import SmartObjects
from odfabric.usecases.transfer.smart_parts import (
    USE_SIMPLE_PULL,
    OwnBlocks,
    ReceivedBatch,
    SmartLimits,
    bytes_of,
    file_of,
    heard,
    raise_refusal,
    receive_batch,
    say,
    timed_with_server,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmartPeers:
    """How this node talks to others."""

    conversations: Conversations
    linked: LinkedObjects
    limits: SmartLimits
    nodes: RemoteNodes


def smart_pull(
    landing: Landing,
    url: str,
    *,
    run: JobRun,
    peers: SmartPeers,
    remotes: RemoteDatasets,
    exchange: Exchange,
    ports: ReceivePorts,
) -> CommitResult | None:
    """Bring a dataset of this node to the head of the one under `url`.

    None if it is up to date. The head log comes beside the conversation, by the Simple protocol.

    Raises as `receive_chain`, and Unauthenticated, AccessDenied, NotFound, CorruptedSource for what the node refuses or says wrongly.
    """
    entry = ports.repository.find(landing.alias)
    base = ports.repository.head(entry.id) if entry is not None else None
    with peers.conversations.open(url, "pull") as conversation, exchange.session() as folder:
        talk = timed_with_server(conversation, peers.limits, shown=url)
        plan = _plan(talk, entry, base, landing, url, peers=peers, ports=ports)
        talk.announce(bytes_of(plan))
        result = None
        if not plan.num_blocks and base is not None:
            # The log may go on without blocks, and a place that is up to date may be a frozen one.
            remote = remotes.open(url)
            same = ArrivingChain(
                head=base.hash, blocks=ReceivedBlocks(remote, folder), objects=remote, shown=url, log=remote
            )
            receive_chain(same, landing, folder=folder, run=run, ports=ports)
        elif plan.num_blocks:
            batch = _batch(talk, plan, folder, OwnBlocks(entry, ports.repository), url, peers=peers)
            missing = _missing(batch.blocks, entry, ports)
            objects = SmartObjects(
                talk=talk,
                missing=missing,
                linked=peers.linked,
                clock=ports.clock,
                wait_s_max=peers.limits.wait_s_max,
                shown=url,
            )
            arriving = ArrivingChain(
                head=batch.head, blocks=batch.source, objects=objects, shown=url, log=remotes.open(url)
            )
            result = receive_chain(arriving, landing, folder=folder, run=run, ports=ports)
        talk.end(NORMAL, PULLED)
        return result


def _plan(
    talk: Conversation,
    entry: CatalogEntry | None,
    base: Head | None,
    landing: Landing,
    url: str,
    *,
    peers: SmartPeers,
    ports: ReceivePorts,
) -> TransferPlan:
    """What the server has for us.

    Raises DestinationAhead, ChainsDiverged, LimitExceeded before anything of it is sent.
    """
    begin = PullBegin(begin_after=base.hash if base else None, force=landing.force)
    say(talk, write_pull_begin(begin), shown=url)
    plan = heard(talk, read_pull_plan, seconds_max=peers.limits.wait_s_max, shown=url)
    if isinstance(plan, InvalidInterval) and entry is not None and base is not None:
        there = ports.repository.chains.row(entry.id, plan.head)
        if there is not None:
            raise DestinationAhead(
                f"Destination head {base.hash} is ahead of source head {plan.head} "
                f"by {base.sequence_number - there.sequence_number} blocks",
                hint="the source is old or was rolled back: wait for it, or replace the destination with --force",
            )
    if not isinstance(plan, TransferPlan):
        raise_refusal(plan, url)
    _check_plan(plan, peers.limits)
    return plan


def _check_plan(plan: TransferPlan, limits: SmartLimits) -> None:
    archive = limits.archive
    for name, found, maximum in (
        ("chain_blocks_max", plan.num_blocks, archive.blocks_max),
        ("smart_archive_bytes_max", plan.bytes_in_raw_blocks, archive.bytes_max),
    ):
        if found > maximum:
            message = f"the source has {plan.num_blocks} new blocks with {plan.bytes_in_raw_blocks} bytes"
            raise LimitExceeded(f"{message}; {USE_SIMPLE_PULL}", limit=name, maximum=maximum)


def _batch(
    talk: Conversation, plan: TransferPlan, folder: Path, own: OwnBlocks, url: str, *, peers: SmartPeers
) -> ReceivedBatch:
    say(talk, write_blocks_wanted(), shown=url)
    batch = heard(talk, read_pulled_blocks, seconds_max=peers.limits.objects_wait_s_max, shown=url)
    try:
        return receive_batch(batch, planned=plan.num_blocks, limits=peers.limits.archive, own=own, folder=folder)
    except InvalidRequest as error:
        raise CorruptedSource(f"{url}: {error.message}") from None


def _missing(blocks: Sequence[EncodedBlock], entry: CatalogEntry | None, ports: ReceivePorts) -> list[ObjectFile]:
    """What the store does not have yet.

    Of a dataset that is not here, by the identity that its first block says.
    """
    dataset = entry.id if entry is not None else _identity(blocks)
    return [file_of(area, each) for area, each in missing_objects(dataset, blocks, objects=ports.objects)]


def _identity(blocks: Sequence[EncodedBlock]) -> DatasetId:
    first = blocks[0].block.event
    if not isinstance(first, Seed):
        raise CorruptedSource("First metadata block is not Seed", hint="the source serves no whole chain")
    return first.dataset_id
