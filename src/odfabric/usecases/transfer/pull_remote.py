"""Copy a dataset from elsewhere by the Simple Transfer Protocol.

Invariant: nothing of the peer is believed. Every block and object is hashed as received, every block passes the full rules of a
chain, every slice and checkpoint is compared with every block that names it, and only then does the head move, once. A copy never
goes back or aside unless forced. Blocks are kept as the bytes that were received. Not here: objects (`usecases.transfer.receive_objects`).
Source: RFC-007; transfer facts, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from odfabric.domain.chain.compare import ChainOrder, compare_chains
from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.domain.chain.walk import BlockSource, ChainLink, walk
from odfabric.errors import ChainsDiverged, CorruptedSource, InvalidBlock, NotFound
from odfabric.formats.blocks.block import block_hash, decode_block
from odfabric.model.commit import CatalogEntry, EncodedBlock, Head
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetAlias
from odfabric.model.metadata import MetadataBlock
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.node.clock import Clock
from odfabric.ports.sources.egress import RemoteDataset, RemoteDatasets
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.commit_result import CommitResult, result_of
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transfer.receive_objects import ObjectReceiver


class ReceivedBlocks:
    """Blocks of a remote chain, kept in a folder as received, each hashed and decoded; a `BlockSource`."""

    def __init__(self, remote: RemoteDataset, folder: Path) -> None:
        self._remote = remote
        self._folder = folder

    def get_bytes(self, name: Multihash) -> bytes:
        """The bytes of a block. Raises CorruptedSource if it is missing or does not hash to its name."""
        path = self._folder / f"block-{name}"
        if path.exists():
            return path.read_bytes()
        try:
            data = self._remote.block(name)
        except NotFound as error:
            raise CorruptedSource(f"source metadata chain is broken: block {name} is missing") from error
        if block_hash(data) != name:
            raise CorruptedSource(
                f"the block served as {name} does not hash to its name",
                hint="the source may re-encode blocks that an older version wrote",
            )
        path.write_bytes(data)
        return data

    def get(self, name: Multihash) -> MetadataBlock:
        """The decoded block. Raises CorruptedSource, InvalidBlock."""
        return decode_block(self.get_bytes(name))


class _NoBlocks:
    """The chain of a dataset that is not here yet."""

    def get(self, block_hash: Multihash) -> MetadataBlock:
        """There is none."""
        raise NotFound("block", str(block_hash))


def pull_remote(
    alias: DatasetAlias,
    url: str,
    *,
    run: JobRun,
    repository: Repository,
    commits: Commits,
    remotes: RemoteDatasets,
    exchange: Exchange,
    objects: ObjectStore,
    clock: Clock,
    blocks_max: int,
    object_bytes_max: int,
) -> CommitResult | None:
    """Bring the dataset named `alias` to the remote's head, creating it if it is not here; None if it is up to date.

    Raises ChainsDiverged if the copy is ahead or aside, CorruptedSource or InvalidBlock naming what is wrong with the source,
    NotFound, AccessDenied, Determinate.
    """
    remote = remotes.open(url)
    their_head = remote.head()
    entry = repository.find(alias)
    our_head = repository.head(entry.id) if entry else None
    if our_head is not None and our_head.hash == their_head:
        return None
    with exchange.session() as folder:
        received = ReceivedBlocks(remote, folder)
        ours: BlockSource = repository.blocks(entry.id) if entry else _NoBlocks()
        _check_ahead(ours, our_head, received, their_head, blocks_max=blocks_max)
        new_blocks = _new_blocks(received, their_head, our_head, blocks_max=blocks_max)
        before = repository.state(entry.id, our_head.hash) if entry and our_head else ChainState.empty()
        state = _check_chain(before, new_blocks, clock=clock)
        dataset = state.dataset_id
        receiver = ObjectReceiver(
            dataset=dataset, remote=remote, folder=folder, objects=objects, object_bytes_max=object_bytes_max
        )
        _receive_objects(receiver, before, new_blocks, run=run)
        if entry is None or our_head is None:
            new_entry = CatalogEntry(
                id=dataset, alias=alias, kind=state.kind, created_at=clock.now().truncated_to_millis(), remote_url=url
            )
            return result_of(commits.create(new_entry, new_blocks, by=run.actor))

        def build(base: Head) -> PlannedCommit:
            return PlannedCommit(tuple(new_blocks))

        committed = commits.commit(entry.id, build, if_match=our_head.hash, by=[run.actor])
    return result_of(committed) if committed else None


def _check_ahead(
    ours: BlockSource, our_head: Head | None, theirs: ReceivedBlocks, their_head: Multihash, *, blocks_max: int
) -> None:
    relation = compare_chains(
        ours=ours,
        our_head=our_head.hash if our_head else None,
        theirs=theirs,
        their_head=their_head,
        blocks_max=blocks_max,
    )
    match relation.order:
        case ChainOrder.AHEAD:
            raise ChainsDiverged(f"the copy is ahead of its source by {relation.uncommon_ours} blocks")
        case ChainOrder.DIVERGED:
            raise ChainsDiverged(
                f"the copy has {relation.uncommon_ours} blocks that its source does not have, "
                f"the source {relation.uncommon_theirs} that the copy does not have",
                hint="the source was rewritten; delete the copy and pull it again",
            )
        case _:
            pass


def _new_blocks(
    received: ReceivedBlocks, their_head: Multihash, our_head: Head | None, *, blocks_max: int
) -> list[EncodedBlock]:
    """Blocks above our head, oldest first."""
    links = walk(received, their_head, tail=our_head.hash if our_head else None, blocks_max=blocks_max)
    return [EncodedBlock(link.hash, received.get_bytes(link.hash), link.block) for link in links][::-1]


def _check_chain(state: ChainState, blocks: Sequence[EncodedBlock], *, clock: Clock) -> ChainState:
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


def _receive_objects(
    receiver: ObjectReceiver, state: ChainState, blocks: Sequence[EncodedBlock], *, run: JobRun
) -> None:
    for number, encoded in enumerate(blocks):
        run.report(EngineProgress(stage="receive", done=number, total=len(blocks)))
        receiver.receive(ChainLink(encoded.hash, encoded.block), state)
        state = apply(state, encoded.hash, encoded.block)
