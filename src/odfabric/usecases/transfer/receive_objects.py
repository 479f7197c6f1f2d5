"""Fetch received blocks' objects, and compare each with what blocks say of it.

Invariant: an object that is here already (of an earlier block, an earlier transfer, or a chain that was deleted) is compared as one that
comes now is; only its bytes are not fetched again. Nothing is stored that does not hash to its name. Several come at once; progress
counts those that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.verify import verify_checkpoint
from odfabric.domain.chain.walk import ChainLink
from odfabric.errors import CorruptedSource, LimitExceeded, NotFound
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA, object_key
from odfabric.formats.identifiers.physical_hash import physical_hash, physical_hash_of
from odfabric.formats.parquet.parquet_reading import Source
from odfabric.model.commit import EncodedBlock
from odfabric.model.engine import BYTES, EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import AddData, Checkpoint, DataSlice, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.usecases.chain.check_slice import slice_problems
from odfabric.usecases.chain.store_slice import put_back
from odfabric.usecases.transfer.arriving_chain import ObjectSource
from odfabric.usecases.transfer.at_once import Run, each_at_once, few_threads

Report = Callable[[EngineProgress], None]
READ_ONCE_BYTES_MAX = 8 * 1024 * 1024
"""Objects up to this size are read once, into memory, to be hashed and decoded; larger ones are read twice, in pieces."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An object and the blocks that name it, each with the state before it.

    The first one, `block`, says how large it is.
    """

    area: str
    declared: DataSlice | Checkpoint
    block: EncodedBlock
    named_by: list[tuple[ChainLink, ChainState, DataSlice | Checkpoint]]


@dataclass(slots=True, kw_only=True)
class ObjectReceiver:
    """The objects of one arriving dataset; `folder` is private to one transfer.

    Without `objects` each is checked and nothing is kept.

    At most `at_once` are on their way, of which `checks_at_once` are hashed and decoded.
    """

    dataset: DatasetId
    source: ObjectSource
    folder: Path
    objects: ObjectStore | None
    object_bytes_max: int
    at_once: int
    checks_at_once: int
    keep_block: Callable[[EncodedBlock], None] = lambda _: None
    """Called with each block that names a slice, in the thread of the slice, once that is stored."""

    def receive(self, before: ChainState, blocks: Sequence[EncodedBlock], *, report: Report) -> None:
        """Store what `blocks` on top of `before` name, if all is as each of them says.

        Raises CorruptedSource naming block and object, LimitExceeded, Determinate.
        """
        wanted = list(_wanted(before, blocks))
        total = sum(each.declared.size for each in wanted)
        done = count = 0
        report(_progress(0, len(wanted), 0, total))
        with few_threads(min(self.checks_at_once, self.at_once)) as check:
            works = (partial(self._receive, number, each, check) for number, each in enumerate(wanted))
            for size in each_at_once(works, at_once=self.at_once):
                done, count = done + size, count + 1
                report(_progress(count, len(wanted), done, total))

    def _receive(self, number: int, wanted: _Wanted, check: Run) -> int:
        """Bring one object; its size in bytes."""
        name, path = wanted.declared.physical_hash, self.folder / f"{wanted.declared.physical_hash}-{number}"
        if wanted.declared.size > self.object_bytes_max:
            maximum = self.object_bytes_max
            raise LimitExceeded(f"{wanted.area} object {name} is too large", limit="object_bytes_max", maximum=maximum)
        kept = self._from_store(wanted, path)
        if not kept:
            self._fetch(wanted, path)
        size = check(partial(self._checked, wanted, path, kept=kept))
        damaged = size is None
        if size is None:  # what the store has is something else
            path.unlink()
            self._fetch(wanted, path)
            size = check(partial(self._checked, wanted, path, kept=False))
        key = object_key(self.dataset, wanted.area, name)
        if self.objects is not None and damaged:
            put_back(key, path, size=wanted.declared.size, objects=self.objects)
        elif self.objects is not None and not kept:
            self.objects.put_file(key, path)
        path.unlink()
        if wanted.area == DATA:
            self.keep_block(wanted.block)
        return wanted.declared.size

    def _from_store(self, wanted: _Wanted, path: Path) -> bool:
        """Whether the store has the object; it is at `path` then, and not believed."""
        if self.objects is None:
            return False
        try:
            self.objects.materialize(object_key(self.dataset, wanted.area, wanted.declared.physical_hash), path)
        except NotFound:
            return False
        return True

    def _fetch(self, wanted: _Wanted, path: Path) -> None:
        """Download an object; what comes is not believed."""
        area, declared, link = wanted.area, wanted.declared, wanted.named_by[0][0]
        try:
            self.source.download(area, declared.physical_hash, size_max=declared.size, into=path)
        except NotFound as error:
            raise _refused(area, declared, link, "the source does not have it") from error
        except LimitExceeded as error:
            if error.maximum != declared.size:
                raise
            raise _refused(area, declared, link, f"it is larger than {declared.size} bytes") from error

    def _checked(self, wanted: _Wanted, path: Path, *, kept: bool) -> int | None:
        """Size of the object at `path` in bytes, if it is what each of its blocks says.

        None if it is of the store (`kept`) and does not hash to its name. Raises CorruptedSource.
        """
        area, declared = wanted.area, wanted.declared
        found, size, source = _hashed(path)
        if kept and found != declared.physical_hash:
            return None
        if not kept and (found != declared.physical_hash or size != declared.size):
            message = (
                f"what the source serves has {size} bytes and the hash {found}, {declared.size} bytes are declared"
            )
            raise _refused(area, declared, wanted.named_by[0][0], message)
        for link, before, declared in wanted.named_by:
            if isinstance(declared, DataSlice):
                hashed = (declared.physical_hash, size)
                problems = [each.message for each in slice_problems(before, link, declared, source(), hashed=hashed)]
            else:
                there = Checkpoint(physical_hash=declared.physical_hash, size=size)
                problem = verify_checkpoint(self.dataset, link.hash, declared=declared, found=there)
                problems = [problem.message] if problem is not None else []
            if problems:
                raise _refused(area, declared, link, problems[0])
        return size


def _hashed(path: Path) -> tuple[Multihash, int, Callable[[], Source]]:
    """Hash and size in bytes of a file, and what its rows are read from."""
    if path.stat().st_size > READ_ONCE_BYTES_MAX:
        return *physical_hash(path), lambda: path
    data = path.read_bytes()
    return physical_hash_of(data), len(data), lambda: pa.BufferReader(data)


def missing_objects(
    dataset: DatasetId, blocks: Sequence[EncodedBlock], *, objects: ObjectStore
) -> list[tuple[str, DataSlice | Checkpoint]]:
    """Objects of the blocks that the store lacks: folder and declaration of each.

    Each comes once, oldest first.
    """
    return [
        (area, declared)
        for area, declared in unique_objects(blocks)
        if objects.stat(object_key(dataset, area, declared.physical_hash)) is None
    ]


def unique_objects(blocks: Sequence[EncodedBlock]) -> list[tuple[str, DataSlice | Checkpoint]]:
    """Folder and declaration of each object of the blocks, once, oldest first."""
    found: dict[tuple[str, Multihash], DataSlice | Checkpoint] = {}
    for encoded in blocks:
        for area, declared in declared_objects(encoded):
            found.setdefault((area, declared.physical_hash), declared)
    return [(area, declared) for (area, _), declared in found.items()]


def declared_objects(encoded: EncodedBlock) -> Iterator[tuple[str, DataSlice | Checkpoint]]:
    """Folder and declaration of the objects of a block."""
    event = encoded.block.event
    if isinstance(event, AddData | ExecuteTransform):
        if event.new_data is not None:
            yield DATA, event.new_data
        if event.new_checkpoint is not None:
            yield CHECKPOINTS, event.new_checkpoint


def _wanted(before: ChainState, blocks: Sequence[EncodedBlock]) -> list[_Wanted]:
    """Each object once, with all blocks that name it.

    Blocks repeat the checkpoint of those before them, and its bytes are looked at once.
    """
    found: dict[tuple[str, Multihash], _Wanted] = {}
    state = before
    for encoded in blocks:
        link = ChainLink(encoded.hash, encoded.block)
        for area, declared in declared_objects(encoded):
            wanted = found.setdefault((area, declared.physical_hash), _Wanted(area, declared, encoded, []))
            wanted.named_by.append((link, state, declared))
        state = apply(state, encoded.hash, encoded.block)
    return list(found.values())


def _progress(count: int, objects: int, done: int, total: int) -> EngineProgress:
    return EngineProgress(stage=f"receive, {count} of {objects} objects", done=done, total=total, unit=BYTES)


def _refused(area: str, declared: DataSlice | Checkpoint, link: ChainLink, message: str) -> CorruptedSource:
    return CorruptedSource(
        f"{area} object {declared.physical_hash} is not what block {link.hash}[{link.block.sequence_number}] says: {message}"
    )
