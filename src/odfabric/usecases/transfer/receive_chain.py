"""Receive a chain, check it, make it visible: the one way in from elsewhere.

Every protocol brings its datasets in this way.

Invariant: nothing of the sender is believed. Every block passes the full rules of a chain, every slice and checkpoint is hashed and compared
with every block that names it, and only then does the head move, once, by compare-and-set. A copy never goes back or aside unless forced,
which is a right of its own. Blocks are kept as the bytes that were received. Source: RFC-007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from odfabric.domain.chain.compare import ChainOrder, ChainRelation, compare_chains
from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.domain.chain.walk import BlockSource, walk
from odfabric.errors import (
    AlreadyExists,
    ChainsDiverged,
    CorruptedSource,
    DestinationAhead,
    InvalidBlock,
    InvalidRequest,
    NotFound,
)
from odfabric.model.commit import CatalogEntry, EncodedBlock, Head
from odfabric.model.engine import EngineProgress
from odfabric.model.heads.head_log import SignedMove
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.metadata import MetadataBlock, Seed
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Grant
from odfabric.model.people.audit import Actor
from odfabric.model.rewrite import RewriteKind
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.heads.judge_log import LogJudge
from odfabric.usecases.heads.serve_log import numbers_here
from odfabric.usecases.ingestion.commit_result import CommitResult, result_of, result_of_replacement
from odfabric.usecases.transfer.arriving_chain import ArrivingChain, oldest_event
from odfabric.usecases.transfer.receive_log import ReceivedLog, receive_log
from odfabric.usecases.transfer.receive_objects import ObjectReceiver


class ReceivingRun(Protocol):
    """For whom a chain is received: a job, or a conversation with the pushing peer.

    `JobRun` is such a job.
    """

    @property
    def actor(self) -> Actor:
        """Who has asked for it."""

    def report(self, progress: EngineProgress) -> None:
        """Hear how far it is."""

    def confirm(self) -> None:
        """Asked when all is ready to be committed. Raises if it is not to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivePorts:
    """What receiving needs, and its limits.

    Limits: blocks of a chain, bytes of an object, objects moved and checked at once.
    """

    repository: Repository
    commits: Commits
    objects: ObjectStore
    clock: Clock
    blocks_max: int
    object_bytes_max: int
    at_once: int
    checks_at_once: int
    heads: LogJudge


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """What the arriving chain becomes here: the dataset `alias`.

    It is a copy of `remote_url` if there is one.

    `grants` are given on a dataset that is new. With `force` a chain that is ahead or aside is replaced.
    """

    alias: DatasetAlias
    remote_url: str | None = None
    force: bool = False
    grants: Callable[[DatasetId], Sequence[Grant]] = lambda _: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReceipt:
    """Blocks to be taken over on top of `before`, oldest first.

    `replaced` blocks of ours go for them.
    """

    entry: CatalogEntry | None
    base: Head | None
    before: ChainState
    blocks: tuple[EncodedBlock, ...]
    replaced: int


class _NoBlocks:
    """The chain of a dataset that is not here yet."""

    def get(self, block_hash: Multihash) -> MetadataBlock:
        """There is none."""
        raise NotFound("block", str(block_hash))


def receive_chain(
    arriving: ArrivingChain, landing: Landing, *, folder: Path, run: ReceivingRun, ports: ReceivePorts
) -> CommitResult | None:
    """Bring a dataset of this node to the arriving head, making it if it is not here.

    None if it is there already.

    `folder` is private to this call. Raises DestinationAhead and ChainsDiverged with counts, CorruptedSource or InvalidBlock naming what is
    wrong with the source, InvalidRequest for another dataset, LimitExceeded, HeadMoved, AlreadyExists, NotFound, Determinate.
    """
    log = _judged_log(arriving, landing, ports=ports)
    if log is not None and log.head is not None:
        arriving = replace(arriving, head=log.head)
    planned = plan_receipt(arriving, landing, ports=ports)
    if planned is None:
        if log is not None:
            log.check_lineage(numbers_here(log.dataset, ports.repository.chains))
            log.note()
            log.keep(landing.alias, by=run.actor, commits=ports.commits)
        return None
    if planned.entry is None:
        _check_not_here(planned.blocks, landing, ports.repository)
    state = check_chain(planned.before, planned.blocks, clock=ports.clock)
    if log is not None:
        log.check_lineage(_numbers(planned, ports.repository))
    receiver = ObjectReceiver(
        dataset=state.dataset_id,
        source=arriving.objects,
        folder=folder,
        objects=ports.objects,
        object_bytes_max=ports.object_bytes_max,
        at_once=ports.at_once,
        checks_at_once=ports.checks_at_once,
        keep_block=partial(ports.commits.store_block, state.dataset_id),
    )
    receiver.receive(planned.before, planned.blocks, report=run.report)
    run.confirm()
    if log is None:
        return make_visible(planned, state, landing, run=run, ports=ports)
    log.note()
    result = make_visible(planned, state, landing, run=run, ports=ports, moves=log.moves)
    log.keep(landing.alias, by=run.actor, commits=ports.commits)
    return result


def _judged_log(arriving: ArrivingChain, landing: Landing, *, ports: ReceivePorts) -> ReceivedLog | None:
    """The head log of the chain's source, judged; None if that place has no logs.

    Raises CorruptedSource by the rule that is broken, InvalidRequest for another dataset.
    """
    if arriving.log is None:
        return None
    entry = ports.repository.find(landing.alias)
    dataset = entry.id if entry is not None else _seed_of(arriving, blocks_max=ports.blocks_max).dataset_id
    try:
        return receive_log(
            dataset,
            arriving.head,
            arriving.log,
            judge=ports.heads,
            shown=arriving.shown,
            force=landing.force,
            follows=arriving.leads,
        )
    except CorruptedSource:
        if entry is not None:  # a log of another dataset is no forgery
            check_same_dataset(entry, _seed_of(arriving, blocks_max=ports.blocks_max))
        raise


def _numbers(planned: PlannedReceipt, repository: Repository) -> Callable[[Multihash], int | None]:
    """Sequence numbers of the blocks that the chain will have."""
    new = {each.hash: each.block.sequence_number for each in planned.blocks}
    first = planned.blocks[0].block.sequence_number if planned.blocks else None

    def number_of(block: Multihash) -> int | None:
        if block in new or planned.entry is None:
            return new.get(block)
        row = repository.chains.row(planned.entry.id, block)
        kept = row is not None and (first is None or row.sequence_number < first)
        return row.sequence_number if row is not None and kept else None

    return number_of


def plan_receipt(arriving: ArrivingChain, landing: Landing, *, ports: ReceivePorts) -> PlannedReceipt | None:
    """What is new of the arriving chain; None if the dataset is there already.

    Raises as `receive_chain`.
    """
    repository = ports.repository
    entry = repository.find(landing.alias)
    base = repository.head(entry.id) if entry else None
    if base is not None and base.hash == arriving.head:
        return None
    ours: BlockSource = repository.blocks(entry.id) if entry else _NoBlocks()
    relation = compare_chains(
        ours=ours,
        our_head=base.hash if base else None,
        theirs=arriving.blocks,
        their_head=arriving.head,
        blocks_max=ports.blocks_max,
    )
    if entry is not None and relation.common is None:
        check_same_dataset(entry, _seed_of(arriving, blocks_max=ports.blocks_max))
    if not landing.force:
        check_forward(relation, destination=base.hash if base else None, source=arriving.head)
    links = walk(arriving.blocks, arriving.head, tail=relation.common, blocks_max=ports.blocks_max)
    blocks = [EncodedBlock(link.hash, arriving.blocks.get_bytes(link.hash), link.block) for link in links][::-1]
    has_before = entry is not None and relation.common is not None
    before = repository.state(entry.id, relation.common) if entry and relation.common else ChainState.empty()
    if not has_before and not (blocks and isinstance(blocks[0].block.event, Seed)):
        raise CorruptedSource("First metadata block is not Seed", hint="the source serves no whole chain")
    return PlannedReceipt(entry=entry, base=base, before=before, blocks=tuple(blocks), replaced=relation.uncommon_ours)


def check_forward(relation: ChainRelation, *, destination: Multihash | None, source: Multihash) -> None:
    """Refuse a destination (`ours`) that does more than lack blocks of the source.

    The source is `theirs`. Raises DestinationAhead, ChainsDiverged.
    """
    match relation.order:
        case ChainOrder.AHEAD:
            raise DestinationAhead(
                f"Destination head {destination} is ahead of source head {source} by {relation.uncommon_ours} blocks",
                hint=(
                    "the source is old or was rolled back: wait for it, take another source, or replace the "
                    "destination with --force"
                ),
            )
        case ChainOrder.DIVERGED:
            raise ChainsDiverged(
                f"the destination has {relation.uncommon_ours} blocks that the source does not have, "
                f"the source {relation.uncommon_theirs} that the destination does not have",
                hint="one of them was rewritten: find out which, then replace the destination with --force",
            )
        case _:
            pass


def check_chain(state: ChainState, blocks: Sequence[EncodedBlock], *, clock: Clock) -> ChainState:
    """The state after `blocks` on top of `state`.

    Raises InvalidBlock naming the block and the rule that it breaks.
    """
    now = clock.now()
    for encoded in blocks:
        try:
            validate_append(state, encoded.block, now=now)
        except InvalidBlock as error:
            raise InvalidBlock(
                f"source metadata chain is inconsistent at block {encoded.hash}[{encoded.block.sequence_number}]: "
                f"{error.message}",
                kind=error.kind,
                rule=error.place.rule,
            ) from error
        state = apply(state, encoded.hash, encoded.block)
    return state


def check_same_dataset(entry: CatalogEntry, seed: Seed) -> None:
    """Raise InvalidRequest if the chain is not of the dataset that has the name here.

    Its dataset and its kind must be the same.
    """
    if (seed.dataset_id, seed.dataset_kind) != (entry.id, entry.kind):
        raise InvalidRequest(
            f"overwriting dataset id or kind is restricted: {entry.alias} is {entry.id}, the source is {seed.dataset_id}",
            hint="give the copy another name (--as)",
        )


def _check_not_here(blocks: Sequence[EncodedBlock], landing: Landing, repository: Repository) -> None:
    """Raise AlreadyExists for a dataset that the account has under another name.

    Called before its objects are fetched.
    """
    seed = blocks[0].block.event
    there = repository.catalog.by_id(seed.dataset_id) if isinstance(seed, Seed) else None
    if there is not None and there.alias.account == landing.alias.account:
        raise AlreadyExists(
            f"{there.alias} is this dataset already",
            hint=f"`odf pull {there.alias}` brings what is new, from here with `--as {there.alias.name}`; there is one copy of a dataset",
        )


def _seed_of(arriving: ArrivingChain, *, blocks_max: int) -> Seed:
    oldest = oldest_event(arriving.blocks, arriving.head, blocks_max=blocks_max)
    if not isinstance(oldest, Seed):
        raise CorruptedSource("First metadata block is not Seed", hint="the source serves no whole chain")
    return oldest


def make_visible(
    planned: PlannedReceipt,
    state: ChainState,
    landing: Landing,
    *,
    run: ReceivingRun,
    ports: ReceivePorts,
    moves: Sequence[SignedMove] = (),
) -> CommitResult | None:
    """Move the head, once: all objects of the blocks are stored and compared.

    Raises HeadMoved, AlreadyExists, Indeterminate.
    """
    entry, base, commits = planned.entry, planned.base, ports.commits
    if entry is None or base is None:
        new_entry = CatalogEntry(
            id=state.dataset_id,
            alias=landing.alias,
            kind=state.kind,
            created_at=ports.clock.now().truncated_to_millis(),
            remote_url=landing.remote_url,
        )
        grants = landing.grants(state.dataset_id)
        return result_of(commits.create(new_entry, planned.blocks, grants=grants, by=run.actor, moves=moves))
    if planned.replaced:
        commits.replace(
            entry,
            planned.blocks,
            onto=planned.before.head,
            if_match=base.hash,
            kind=RewriteKind.REPLACED,
            rows_kept=planned.before.next_offset,
            by=run.actor,
            moves=moves,
        )
        return result_of_replacement(planned.before.head, planned.blocks)

    def build(base: Head) -> PlannedCommit:
        return PlannedCommit(planned.blocks)

    committed = commits.commit(entry.id, build, if_match=base.hash, by=[run.actor], moves=moves)
    return result_of(committed) if committed else None
