"""Verify a dataset elsewhere without taking it: chain, objects, signed heads.

Invariant: nothing of the place is believed, and nothing is kept but what was seen of its head log. Each kind of problem is collected, the first
of its kind named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.walk import walk
from odfabric.errors import CorruptedSource, NotFound, OdfError, Place
from odfabric.formats.heads.head_log import shown_key
from odfabric.formats.identifiers.dataset_layout import HEAD_LOG
from odfabric.model.commit import EncodedBlock
from odfabric.model.engine import EngineProgress
from odfabric.model.heads.head_log import HANDED_OVER, HeadMove
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import Seed
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.ports.node.clock import Clock
from odfabric.ports.sources.egress import RemoteDataset, RemoteDatasets
from odfabric.usecases.heads.head_writer import stored_move
from odfabric.usecases.heads.judge_log import JudgedLog, LogJudge
from odfabric.usecases.heads.serve_log import HANDOVERS_MAX
from odfabric.usecases.transfer.arriving_chain import ReceivedBlocks
from odfabric.usecases.transfer.receive_chain import check_chain
from odfabric.usecases.transfer.receive_objects import ObjectReceiver, unique_objects

HEAD_MISSING = "head-missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRemotePorts:
    """What verification elsewhere needs, and its limits."""

    remotes: RemoteDatasets
    exchange: Exchange
    clock: Clock
    judge: LogJudge
    blocks_max: int
    object_bytes_max: int
    at_once: int
    checks_at_once: int


@dataclass(slots=True)
class RemoteReport:
    """What was verified, who signs it, what is wrong."""

    url: str
    dataset: DatasetId | None = None
    head: Multihash | None = None
    blocks: int = 0
    objects: int = 0
    log: JudgedLog | None = None
    signed: dict[str, object] | None = None
    errors: list[dict[str, object]] = field(default_factory=list)

    def found(self, error: OdfError) -> None:
        """Keep a problem."""
        kind = error.place.rule or error.code
        self.errors.append({"kind": kind, "message": error.message, "hint": error.hint, "block": None, "object": None})

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "url": self.url,
            "id": None if self.dataset is None else str(self.dataset),
            "head": None if self.head is None else str(self.head),
            "blocks": self.blocks,
            "objects": self.objects,
            "signed": self.signed,
            "ok": not self.errors,
            "errors": self.errors,
        }


def verify_remote(
    url: str, *, report: Callable[[EngineProgress], None], ports: VerifyRemotePorts
) -> Mapping[str, object]:
    """Verify the dataset under `url`: its report as JSON.

    `signed` is `{signer, since, signedAt, entries, handOvers}`, None for a dataset that nobody signed. Raises NotFound if there is none,
    AccessDenied, Determinate.
    """
    remote = ports.remotes.open(url)
    found = RemoteReport(url)
    with ports.exchange.session() as folder:
        try:
            found.head = _head(remote)
            _verify(remote, found, folder, report, ports)
        except OdfError as error:
            if error.code in ("not-found", "forbidden", "unavailable", "unauthenticated"):
                raise
            found.found(error)
    return found.to_value()


def _head(remote: RemoteDataset) -> Multihash:
    """The head there.

    Raises CorruptedSource by rule `head-missing` where only the signed log was left, NotFound where no dataset is.
    """
    try:
        return remote.head()
    except NotFound:
        if remote.ref(HEAD_LOG) is None:
            raise
    raise CorruptedSource(
        "refs/head is missing beside a head log",
        place=Place(rule=HEAD_MISSING),
        hint="the keeper of the place took it away, or a push broke off: take another place",
    ) from None


def _verify(
    remote: RemoteDataset,
    found: RemoteReport,
    folder: Path,
    report: Callable[[EngineProgress], None],
    ports: VerifyRemotePorts,
) -> None:
    assert found.head is not None
    received = ReceivedBlocks(remote, folder, chain=remote)
    blocks = _chain(received, found.head, ports.blocks_max)
    seed = blocks[0].block.event
    if not isinstance(seed, Seed):
        raise CorruptedSource("First metadata block is not Seed", hint="the source serves no whole chain")
    found.dataset = seed.dataset_id
    try:
        found.log = ports.judge.judge(seed.dataset_id, found.head, remote, shown=found.url)
        if found.log is not None:
            found.signed = _signed(seed.dataset_id, found.log, ports.judge.logs)
        if found.log is not None and found.log.head != found.head:
            blocks = _chain(received, found.log.head, ports.blocks_max)
            found.head = found.log.head
        if found.log is not None:
            numbers = {each.hash: each.block.sequence_number for each in blocks}
            ports.judge.check_lineage(seed.dataset_id, found.log.moves, numbers.get, whole=found.log.replaces)
            ports.judge.note(seed.dataset_id, found.log, shown=found.url)
    except CorruptedSource as error:
        found.found(error)
    state = check_chain(ChainState.empty(), blocks, clock=ports.clock)
    found.blocks = len(blocks)
    receiver = ObjectReceiver(
        dataset=state.dataset_id,
        source=remote,
        folder=folder,
        objects=None,
        object_bytes_max=ports.object_bytes_max,
        at_once=ports.at_once,
        checks_at_once=ports.checks_at_once,
    )
    receiver.receive(ChainState.empty(), blocks, report=report)
    found.objects = len(unique_objects(blocks))


def _chain(received: ReceivedBlocks, head: Multihash, blocks_max: int) -> list[EncodedBlock]:
    links = walk(received, head, blocks_max=blocks_max)
    return [EncodedBlock(link.hash, received.get_bytes(link.hash), link.block) for link in links][::-1]


def _signed(dataset: DatasetId, log: JudgedLog, logs: HeadLogs) -> dict[str, object]:
    """Who signs, since when, and every hand-over, from entries here and there."""
    first = log.moves[0].move.sequence if log.moves else log.statement.sequence + 1
    known = [] if log.replaces else _kept(dataset, first, logs)
    moves = [*known, *(each.move for each in log.moves)]
    handed = [each for each in moves if each.kind == HANDED_OVER]
    since = handed[-1] if handed else moves[0]
    return {
        "signer": shown_key(log.statement.signer),
        "since": str(since.system_time),
        "signedAt": str(log.statement.signed_at),
        "entries": log.statement.sequence + 1,
        "handOvers": [
            {
                "sequence": each.sequence,
                "systemTime": str(each.system_time),
                "from": shown_key(each.signer),
                "to": shown_key(each.next_key),
            }
            for each in handed
        ],
    }


def _kept(dataset: DatasetId, before: int, logs: HeadLogs) -> list[HeadMove]:
    """The first entry that is kept here, and hand-overs with numbers below `before`."""
    lines = [*logs.lines(dataset, first=0, limit=1), *logs.handovers(dataset, limit=HANDOVERS_MAX)]
    moves = (stored_move(dataset, line).move for line in lines)
    return [move for move in moves if move.sequence < before]
