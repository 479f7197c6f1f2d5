"""Compact a dataset: the same rows in fewer, larger slices; or drop its rows.

Invariants: rows and offsets stay equal, the new chain has passed the full rules of chains and its slices those of rows before the head moves
to it, once, by compare-and-set; objects of the old history stay for the collector's lifetime. Rows pass in portions, so memory does not
grow with them. Not here: which slices become one (`domain.history.compaction`). Source: ADR 0073.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from odfabric.domain.chain.append import fold_blocks, link_blocks
from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.slice_rules import slice_rules
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.history.compaction import Batch, CompactionLimits, compaction_steps, metadata_steps
from odfabric.domain.ingestion.idempotency import idempotency_records
from odfabric.domain.people.access import Action, Subject
from odfabric.errors import Corrupt, InvalidRequest, LimitExceeded
from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.jobs.compact_request import compact_members, read_compact_request, write_compact_request
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.slice_parquet import SliceWriter, normal_schema, open_slice
from odfabric.model.commit import CatalogEntry, EncodedBlock, Head, IdempotencyRecord
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobKind, NewJob
from odfabric.model.jobs.requests import CompactRequest
from odfabric.model.metadata import AddData, DatasetKind, DataSlice, MetadataEvent
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.rewrite import RewriteKind
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.store_slice import store_slice
from odfabric.usecases.heads.head_writer import HeadWriter
from odfabric.usecases.heads.signed_here import check_signed_here
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.rights.access import Access

PORTION_BYTES = 32 << 20
"""Size of the portions in which rows are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPorts:
    """What a compaction works with; `blocks_max` is the longest chain it takes."""

    repository: Repository
    commits: Commits
    exchange: Exchange
    objects: ObjectStore
    blocks_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction did; the heads are equal if there was nothing to do."""

    old_head: Multihash
    new_head: Multihash
    blocks_before: int
    blocks_after: int
    rows: int

    def to_value(self, entry: CatalogEntry) -> dict[str, object]:
        """As JSON."""
        return {
            "id": str(entry.id),
            "alias": str(entry.alias),
            "oldHead": str(self.old_head),
            "head": str(self.new_head),
            "blocksBefore": self.blocks_before,
            "blocksAfter": self.blocks_after,
            "rows": self.rows,
            "upToDate": self.old_head == self.new_head,
        }


def compact_dataset(entry: CatalogEntry, limits: CompactionLimits, *, run: JobRun, ports: CompactPorts) -> Compacted:
    """Write neighbouring slices of a root dataset as one, as far as `limits` allow.

    The blocks get one new system time; that of the rows stays. Raises InvalidRequest for a derivative or a copy, LimitExceeded for a chain
    longer than `blocks_max`, HeadMoved if somebody commits meanwhile, Corrupt, InvalidData, Determinate, Indeterminate.
    """
    _check_root(entry)
    _check_own(entry)
    work = _Work(entry, run, ports)
    began = run.began_at(entry.id, work.base.hash)
    for step in compaction_steps(work.after_seed(), limits):
        work.add(work.merged(step) if isinstance(step, Batch) else step)
    done = work.finish(RewriteKind.COMPACTED)
    # An attempt that died after its commit leaves nothing to do for the next one, whose answer is about both.
    return replace(done, old_head=began)


def clear_dataset(entry: CatalogEntry, *, run: JobRun, ports: CompactPorts) -> Compacted:
    """Drop all rows and keep the rest of the chain: sources, transform, schema.

    Offsets begin with 0 again. Raises as `compact_dataset`.
    """
    _check_own(entry)
    work = _Work(entry, run, ports)
    for event in metadata_steps(work.after_seed()):
        work.add(event)
    return work.finish(RewriteKind.CLEARED)


def _check_own(entry: CatalogEntry) -> None:
    """Raise InvalidRequest for a copy, whose history is that of its source."""
    if entry.is_copy:
        raise InvalidRequest(
            f"{entry.alias} is a copy of {entry.remote_url}",
            hint="its owner rewrites it there; `odf pull --force` follows",
        )


def enqueue_compact(
    entry: CatalogEntry,
    request: CompactRequest,
    *,
    subject: Subject,
    access: Access,
    signs: HeadWriter,
    jobs: Jobs,
    clock: Clock,
    entropy: Entropy,
) -> Job:
    """Queue a compaction, or join an unfinished one of the same token and wishes.

    Raises AccessDenied, InvalidRequest as `compact_dataset` and for a dataset that is signed elsewhere.
    """
    access.require(subject, Action.REWRITE, entry)
    _check_own(entry)
    check_signed_here(entry, signs)
    _check_kind(entry, request)
    account = account_of(subject)
    asked = json.dumps([account, subject.token, compact_members(request)], sort_keys=True)
    job = NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.COMPACT,
        account=account,
        dataset_id=entry.id,
        request=write_compact_request(request, envelope_of(subject)),
        dedup_key=f"compact/{hashlib.sha256(asked.encode()).hexdigest()}",
    )
    return jobs.enqueue(job, now=clock.now())


def run_compact(job: Job, run: JobRun, *, limits: CompactionLimits, ports: CompactPorts) -> dict[str, object]:
    """Run a queued compaction; `limits` are those of requests that name none."""
    request = read_compact_request(job)
    entry = ports.repository.resolve(request.dataset)
    if request.metadata_only:
        return clear_dataset(entry, run=run, ports=ports).to_value(entry)
    wanted = CompactionLimits(
        slice_bytes_max=request.slice_bytes_max or limits.slice_bytes_max,
        slice_records_max=request.slice_records_max or limits.slice_records_max,
    )
    return compact_dataset(entry, wanted, run=run, ports=ports).to_value(entry)


def _check_kind(entry: CatalogEntry, request: CompactRequest) -> None:
    _check_own(entry)
    if not request.metadata_only:
        _check_root(entry)


def _check_root(entry: CatalogEntry) -> None:
    if entry.kind is not DatasetKind.ROOT:
        raise InvalidRequest(
            f"{entry.alias} is computed: its slices are those of its transactions",
            hint="compact its inputs and recompute it, or drop its rows with `--keep-metadata-only`",
        )


class _Work:
    """A new chain on the seed of the old one, block by block."""

    def __init__(self, entry: CatalogEntry, run: JobRun, ports: CompactPorts) -> None:
        self._entry, self._run, self._ports = entry, run, ports
        repository = ports.repository
        self.base: Head = repository.head(entry.id)
        if self.base.sequence_number + 1 > ports.blocks_max:
            raise LimitExceeded(
                f"{entry.alias} has {self.base.sequence_number + 1} blocks",
                limit="compaction_blocks_max",
                maximum=ports.blocks_max,
            )
        self._before = repository.state(entry.id, self.base.hash)
        self._time: Instant = run.system_time(self._before)
        self._hashes = [row.hash for row in repository.rows_down(entry.id)][::-1]
        if not self._hashes or self._hashes[-1] != self.base.hash:
            raise Corrupt("the index of its chain is not complete", object_name=str(entry.id))
        seed = repository.blocks(entry.id).get(self._hashes[0])
        self._state = fold_blocks(ChainState.empty(), [EncodedBlock(self._hashes[0], b"", seed)])
        self._blocks: list[EncodedBlock] = []
        self._same = True
        self._taken = 0

    @property
    def dataset(self) -> DatasetId:
        return self._entry.id

    def after_seed(self) -> Iterator[ChainLink]:
        blocks = self._ports.repository.blocks(self.dataset)
        for number, name in enumerate(self._hashes[1:], 1):
            self._run.report(EngineProgress(stage="compact", done=number, total=len(self._hashes)))
            yield ChainLink(name, blocks.get(name))

    def add(self, event: MetadataEvent) -> None:
        made = link_blocks(self._state, [event], system_time=self._time)
        self._blocks += made
        self._state = fold_blocks(self._state, made)

    def merged(self, batch: Batch) -> AddData:
        slices = batch.slices
        match slices:
            case ():
                return batch.event(None)
            case (single,):
                return batch.event(single)
            case _:
                return batch.event(self._write(slices))

    def finish(self, kind: RewriteKind) -> Compacted:
        """Move the head, if the new chain is shorter.

        Without fewer blocks nothing is gained.
        """
        old, after = self.base, len(self._blocks) + 1
        before = len(self._hashes)
        rows = self._state.next_offset
        if kind is RewriteKind.COMPACTED and rows != self._before.next_offset:
            raise Corrupt(f"{self._before.next_offset} rows would become {rows}", object_name=str(self.dataset))
        if after == before:
            return Compacted(old_head=old.hash, new_head=old.hash, blocks_before=before, blocks_after=before, rows=rows)
        self._run.confirm()
        self._ports.commits.replace(
            self._entry,
            self._blocks,
            onto=self._hashes[0],
            if_match=old.hash,
            kind=kind,
            rows_kept=rows if kind is RewriteKind.COMPACTED else 0,
            idempotency=_records(self._blocks),
            by=self._run.actor,
        )
        new = self._state.head
        assert new is not None
        return Compacted(old_head=old.hash, new_head=new, blocks_before=before, blocks_after=after, rows=rows)

    def _write(self, slices: Sequence[DataSlice]) -> DataSlice:
        """One slice with the rows of all, judged and stored."""
        ports = self._ports
        offsets = OffsetRange(slices[0].offset_interval.start, slices[-1].offset_interval.end + 1)
        with ports.exchange.session() as folder:
            path = folder / "compacted"
            self._write_rows(slices, path, folder)
            rules = slice_rules(self._state, offsets.to_wire(), system_time=self._time)
            return store_slice(self.dataset, path, offsets, objects=ports.objects, rules=rules)

    def _write_rows(self, slices: Sequence[DataSlice], path: Path, folder: Path) -> None:
        declared = current_schema(self._state)
        assert declared is not None  # rule C1
        vocabulary = self._state.vocabulary
        schema = normal_schema(data_schema_to_arrow(declared, encodings=False), vocabulary)
        with SliceWriter(path, schema) as writer:
            for number, one in enumerate(slices):
                file = folder / f"slice-{number}"
                self._ports.repository.materialize(self.dataset, DATA, one.physical_hash, file)
                with open_slice(file, vocabulary) as reader:
                    for rows in reader.batches(bytes_max=PORTION_BYTES):
                        writer.write(rows.select(schema.names))
                file.unlink()
                self._taken += one.size
                self._run.report(EngineProgress(stage="compact rows", done=self._taken, total=0, unit="bytes"))


def _records(blocks: Sequence[EncodedBlock]) -> list[IdempotencyRecord]:
    """Keys that the new blocks have sealed, each once: the newest block answers."""
    found = {record.key_hash: record for one in blocks for record in idempotency_records(one.hash, one.block)}
    return list(found.values())
