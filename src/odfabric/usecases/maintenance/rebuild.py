"""Rebuild the database from objects: catalog, heads, logs, blocks, idempotency.

Invariant: what `refs/head` says and nothing else becomes the head of record; every block is hashed and judged by all rules of a chain
on its way; a dataset is taken whole, in one transaction, or left out and reported, and the others go on. Running it again changes
nothing. What the object store does not hold cannot come back: sealed keys, addresses of copies, tokens, subscriptions, jobs and
their marks. Source: ADR 0003; ADR 0019.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.domain.ingestion.idempotency import idempotency_records
from odfabric.errors import ChainsDiverged, Corrupt, External, InvalidBlock, InvalidName, OdfError
from odfabric.formats.identifiers.dataset_layout import (
    HEAD,
    alias_key,
    dataset_of_key,
    has_no_head,
    head_key,
    parse_ref,
)
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry, ChainPage, EncodedBlock, Head, IdempotencyRecord
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import Seed
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.beyond_head import blocks_beyond, missing_object
from odfabric.usecases.chain.chain_spool import ChainSpool
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.heads.judge_log import LogJudge
from odfabric.usecases.heads.restore_log import restore_log

Listener = Callable[[str, int, int], None]
"""Called with what is being done, how many blocks are done, and how many there are (0: not known yet)."""


class RebuildOutcome(Enum):
    """What became of a dataset.

    `AHEAD`: the database has more than was published; the node publishes that by itself.
    """

    REBUILT = "rebuilt"
    CAUGHT_UP = "caught up"
    UP_TO_DATE = "up to date"
    AHEAD = "ahead"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltDataset:
    """One dataset.

    `blocks` is how many the database got; `problem` is why it was refused.

    `beyond` lists blocks that continue the published head, oldest first, which nobody was informed of; `adopted` if they were taken.
    """

    dataset: DatasetId
    alias: DatasetAlias | None
    outcome: RebuildOutcome
    head: Multihash | None = None
    blocks: int = 0
    problem: OdfError | None = None
    beyond: tuple[Multihash, ...] = ()
    adopted: bool = False

    def to_value(self) -> dict[str, object]:
        """As JSON; a problem names the object that is wrong."""
        answer: dict[str, object] = {
            "id": str(self.dataset),
            "alias": str(self.alias) if self.alias else None,
            "outcome": self.outcome.value,
            "head": str(self.head) if self.head else None,
            "blocks": self.blocks,
            "beyond": [str(block) for block in self.beyond],
            "adopted": self.adopted,
        }
        if self.problem is not None:
            name = self.problem.object_name if isinstance(self.problem, Corrupt) else None
            answer["problem"] = {"code": self.problem.code, "message": str(self.problem), "object": name}
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPorts:
    """Ports and limits of a rebuild: longest chain, blocks in memory at once."""

    repository: Repository
    commits: Commits
    exchange: Exchange
    clock: Clock
    logs: LogJudge
    blocks_max: int
    page_blocks_max: int


def rebuild(*, ports: RebuildPorts, adopt: bool, listener: Listener) -> Iterator[RebuiltDataset]:
    """Every dataset of the object store in turn.

    With `adopt`, blocks beyond `refs/head` are taken too.

    Raises Determinate or Indeterminate if database or object store fail: what was yielded is done, and a repetition goes on.
    """
    for key in ports.repository.objects.keys(""):
        dataset = dataset_of_key(key) if key.endswith(f"/{HEAD}") else None
        if dataset is not None and key == head_key(dataset) and not has_no_head(ports.repository.objects.read_ref(key)):
            yield _Rebuilding(dataset, ports, listener).run(adopt=adopt)


class _Rebuilding:
    """The work on one dataset, and what was found out so far."""

    def __init__(self, dataset: DatasetId, ports: RebuildPorts, listener: Listener) -> None:
        self._dataset = dataset
        self._ports = ports
        self._repository = ports.repository
        self._listener = listener
        self._alias: DatasetAlias | None = None

    def run(self, *, adopt: bool) -> RebuiltDataset:
        """Take the dataset to `refs/head`, then look at what lies beyond."""
        try:
            found = self._to_published_head()
            if found.outcome is RebuildOutcome.AHEAD:
                return found
            return self._with_beyond(self._with_log(found), adopt=adopt)
        except External:
            raise
        except OdfError as error:
            return self._found(RebuildOutcome.REFUSED, None, problem=error)

    def _found(
        self, outcome: RebuildOutcome, head: Multihash | None, *, blocks: int = 0, problem: OdfError | None = None
    ) -> RebuiltDataset:
        return RebuiltDataset(
            dataset=self._dataset, alias=self._alias, outcome=outcome, head=head, blocks=blocks, problem=problem
        )

    def _to_published_head(self) -> RebuiltDataset:
        published = self._published()
        chains = self._repository.chains
        there = chains.head(self._dataset)
        if there is None:
            return self._take(published, base=None)
        if there.hash == published:
            return self._found(RebuildOutcome.UP_TO_DATE, published)
        if chains.contains(self._dataset, published):
            return self._found(RebuildOutcome.AHEAD, there.hash)
        return self._take(published, base=there)

    def _published(self) -> Multihash:
        """What `refs/head` says; the alias is read on the way. Raises Corrupt."""
        objects = self._repository.objects
        alias, head = objects.read_ref(alias_key(self._dataset)), objects.read_ref(head_key(self._dataset))
        try:
            self._alias = parse_dataset_alias((alias or "").strip())
        except InvalidName as error:
            raise _damaged(alias_key(self._dataset), f"info/alias does not name a dataset: {error.message}") from error
        if self._alias.account is None:
            self._alias = DatasetAlias(self._repository.account, self._alias.name)
        try:
            return parse_ref(head or "")
        except InvalidName as error:
            raise _damaged(head_key(self._dataset), f"refs/head does not name a block: {error.message}") from error

    def _take(self, published: Multihash, *, base: Head | None) -> RebuiltDataset:
        """Bring the database from `base` to the published head.

        Raises Corrupt, ChainsDiverged, AlreadyExists, ...
        """
        with self._ports.exchange.session() as folder:
            spool = ChainSpool(folder / "chain")
            try:
                self._fill(spool, published, base)
            except ChainsDiverged as error:
                raise ChainsDiverged(
                    f"the database has a chain that ends at {base.hash if base else None}, which is not in that of refs/head",
                    hint="one of the two is not this node's; a dataset that is deleted from the database is rebuilt anew",
                ) from error
            assert spool.top is not None
            top = spool.top
            self._ports.commits.adopt(
                self._dataset,
                self._judged(spool, self._state_at(base)),
                expected=base.hash if base else None,
                head=Head(top.hash, top.block.sequence_number, top.block.system_time),
                entry=None if base else self._entry(next(spool.oldest_first())),
            )
        outcome = RebuildOutcome.CAUGHT_UP if base else RebuildOutcome.REBUILT
        return self._found(outcome, published, blocks=spool.count)

    def _fill(self, spool: ChainSpool, published: Multihash, base: Head | None) -> None:
        stored, blocks_max = self._repository.blocks(self._dataset), self._ports.blocks_max
        for count in spool.fill(stored, published, tail=base.hash if base else None, blocks_max=blocks_max):
            if count % self._ports.page_blocks_max == 0:
                self._listener(f"read {self._alias}", count, 0)

    def _state_at(self, head: Head | None) -> ChainState:
        return ChainState.empty() if head is None else self._repository.state(self._dataset, head.hash)

    def _entry(self, first: EncodedBlock) -> CatalogEntry:
        """The catalog's entry as far as the chain and the alias know it. Raises Corrupt."""
        seed = first.block.event
        if not isinstance(seed, Seed) or seed.dataset_id != self._dataset:
            raise _damaged(str(first.hash), f"the chain of {self._dataset} begins with another block than its seed")
        assert self._alias is not None
        return CatalogEntry(
            id=self._dataset, alias=self._alias, kind=seed.dataset_kind, created_at=first.block.system_time
        )

    def _judged(self, spool: ChainSpool, state: ChainState) -> Iterator[ChainPage]:
        """The blocks in pages, each judged on what came before it.

        Raises Corrupt naming the first that does not fit.
        """
        now, blocks, done = self._ports.clock.now(), spool.oldest_first(), 0
        while page := list(islice(blocks, self._ports.page_blocks_max)):
            records: list[IdempotencyRecord] = []
            for encoded in page:
                state = _judged_state(state, encoded, now)
                records += idempotency_records(encoded.hash, encoded.block)
            yield ChainPage(tuple(page), tuple(records))
            done += len(page)
            self._listener(f"rebuild {self._alias}", done, spool.count)

    def _with_log(self, found: RebuiltDataset) -> RebuiltDataset:
        """The dataset is taken, whatever is wrong with its published head log."""
        head = self._repository.head(self._dataset).hash
        try:
            restore_log(self._dataset, head, objects=self._repository.objects, judge=self._ports.logs)
        except Corrupt as error:
            return replace(found, problem=error)
        return found

    def _with_beyond(self, found: RebuiltDataset, *, adopt: bool) -> RebuiltDataset:
        head = self._repository.head(self._dataset)
        beyond = list(blocks_beyond(self._dataset, head, repository=self._repository))
        if not beyond:
            return found
        found = replace(found, beyond=tuple(encoded.hash for encoded in beyond))
        return self._adopted(found, head, beyond) if adopt else found

    def _adopted(self, found: RebuiltDataset, head: Head, beyond: list[EncodedBlock]) -> RebuiltDataset:
        """Unannounced blocks are taken only if all that they name is there."""
        missing = missing_object(self._dataset, beyond, objects=self._repository.objects)
        if missing is not None:
            return replace(found, problem=_damaged(missing, "blocks beyond refs/head name an object that is not there"))
        state, now = self._state_at(head), self._ports.clock.now()
        try:
            for encoded in beyond:
                state = _judged_state(state, encoded, now)
        except Corrupt as error:
            return replace(found, problem=error)
        records = [record for encoded in beyond for record in idempotency_records(encoded.hash, encoded.block)]
        last = beyond[-1]
        self._ports.commits.adopt(
            self._dataset,
            [ChainPage(tuple(beyond), tuple(records))],
            expected=head.hash,
            head=Head(last.hash, last.block.sequence_number, last.block.system_time),
        )
        self._ports.commits.publish(self._dataset)
        return replace(found, head=last.hash, blocks=found.blocks + len(beyond), adopted=True)


def _judged_state(state: ChainState, encoded: EncodedBlock, now: Instant) -> ChainState:
    try:
        validate_append(state, encoded.block, now=now)
    except InvalidBlock as error:
        place = f"{encoded.hash}[{encoded.block.sequence_number}]"
        raise _damaged(str(encoded.hash), f"block {place} does not fit its chain: {error.message}") from error
    return apply(state, encoded.hash, encoded.block)


def _damaged(name: str, message: str) -> Corrupt:
    return Corrupt(message, object_name=name)
