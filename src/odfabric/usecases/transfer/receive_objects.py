"""Bring the objects of received blocks here, and compare each with what every block says of it.

Invariant: an object that is here already (of an earlier block, an earlier pull, or a chain that was deleted) is compared as one that
comes now is; only its bytes are not fetched again. Nothing is stored that does not hash to its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.verify import verify_checkpoint
from odfabric.domain.chain.walk import ChainLink
from odfabric.errors import CorruptedSource, LimitExceeded, NotFound
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA, object_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import AddData, Checkpoint, DataSlice, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.sources.egress import RemoteDataset
from odfabric.usecases.chain.check_slice import slice_problems
from odfabric.usecases.chain.store_slice import put_back


@dataclass(frozen=True, slots=True)
class _LocalFile:
    """An object as a file that hashes to its name. `kept`: the store has it; `damaged`: what the store has is something else."""

    path: Path
    size: int
    kept: bool = False
    damaged: bool = False


@dataclass(slots=True, kw_only=True)
class ObjectReceiver:
    """The objects of one remote dataset; `folder` is private to one pull."""

    dataset: DatasetId
    remote: RemoteDataset
    folder: Path
    objects: ObjectStore
    object_bytes_max: int
    _checkpoints: dict[Multihash, Checkpoint] = field(default_factory=dict)

    def receive(self, link: ChainLink, before: ChainState) -> None:
        """Store what a block on top of `before` names, if all is as the block says.

        Raises CorruptedSource naming block and object, LimitExceeded.
        """
        event = link.block.event
        if not isinstance(event, AddData | ExecuteTransform):
            return
        if event.new_data is not None:
            self._receive_slice(link, before, event.new_data)
        if event.new_checkpoint is not None:
            self._receive_checkpoint(link, event.new_checkpoint)

    def _receive_slice(self, link: ChainLink, before: ChainState, declared: DataSlice) -> None:
        file = self._file(DATA, declared, link)
        for problem in slice_problems(before, link, declared, file.path):
            raise _refused(DATA, declared, link, problem.message)
        self._keep(DATA, declared, file)

    def _receive_checkpoint(self, link: ChainLink, declared: Checkpoint) -> None:
        """Blocks repeat the checkpoint of those before them: its bytes are looked at once."""
        found = self._checkpoints.get(declared.physical_hash)
        file = None if found else self._file(CHECKPOINTS, declared, link)
        if file is not None:
            found = Checkpoint(physical_hash=declared.physical_hash, size=file.size)
        problem = verify_checkpoint(self.dataset, link.hash, declared=declared, found=found)
        if found is None or problem is not None:
            raise _refused(CHECKPOINTS, declared, link, problem.message if problem else "it is missing")
        if file is not None:
            self._keep(CHECKPOINTS, declared, file)
            self._checkpoints[declared.physical_hash] = found

    def _file(self, area: str, declared: DataSlice | Checkpoint, link: ChainLink) -> _LocalFile:
        """The object from the store, or if that has none, or a damaged one, from the remote."""
        name, path = declared.physical_hash, self.folder / str(declared.physical_hash)
        if declared.size > self.object_bytes_max:
            maximum = self.object_bytes_max
            raise LimitExceeded(f"{area} object {name} is too large", limit="object_bytes_max", maximum=maximum)
        try:
            self.objects.materialize(object_key(self.dataset, area, name), path)
        except NotFound:
            return _LocalFile(path, self._fetch(area, declared, link, path))
        found, size = physical_hash(path)
        if found == name:
            return _LocalFile(path, size, kept=True)
        path.unlink()
        return _LocalFile(path, self._fetch(area, declared, link, path), damaged=True)

    def _fetch(self, area: str, declared: DataSlice | Checkpoint, link: ChainLink, path: Path) -> int:
        """Download an object that hashes to its name; returns its size in bytes."""
        name = declared.physical_hash
        try:
            self.remote.download(area, name, size_max=declared.size, into=path)
        except NotFound as error:
            raise _refused(area, declared, link, "the source does not have it") from error
        except LimitExceeded as error:
            if error.maximum != declared.size:
                raise
            raise _refused(area, declared, link, f"it is larger than {declared.size} bytes") from error
        found, size = physical_hash(path)
        if found != name or size != declared.size:
            message = (
                f"what the source serves has {size} bytes and the hash {found}, {declared.size} bytes are declared"
            )
            raise _refused(area, declared, link, message)
        return size

    def _keep(self, area: str, declared: DataSlice | Checkpoint, file: _LocalFile) -> None:
        key = object_key(self.dataset, area, declared.physical_hash)
        if file.damaged:
            put_back(key, file.path, size=file.size, objects=self.objects)
        elif not file.kept:
            self.objects.put_file(key, file.path)
        file.path.unlink()


def _refused(area: str, declared: DataSlice | Checkpoint, link: ChainLink, message: str) -> CorruptedSource:
    return CorruptedSource(
        f"{area} object {declared.physical_hash} is not what block {link.hash}[{link.block.sequence_number}] says: {message}"
    )
