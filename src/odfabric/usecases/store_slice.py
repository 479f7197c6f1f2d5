"""Store what the engine wrote: hash the finished file, keep it under its hash, describe it for a block; put back what was lost."""

from __future__ import annotations

from pathlib import Path

from odfabric.formats.dataset_layout import checkpoint_key, data_key
from odfabric.formats.logical_hash import logical_hash_of_parquet
from odfabric.formats.physical_hash import physical_hash
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import Checkpoint, DataSlice
from odfabric.model.offsets import OffsetRange
from odfabric.ports.object_store import ObjectStore


def store_slice(dataset: DatasetId, path: Path, offsets: OffsetRange, *, objects: ObjectStore) -> DataSlice:
    """Durable when it returns; repeating it with the same bytes changes nothing."""
    described = describe_slice(path, offsets)
    objects.put_file(data_key(dataset, described.physical_hash), path)
    return described


def describe_slice(path: Path, offsets: OffsetRange) -> DataSlice:
    """A finished slice file as blocks state it."""
    name, size = physical_hash(path)
    logical = logical_hash_of_parquet(path).multihash
    return DataSlice(logical_hash=logical, physical_hash=name, offset_interval=offsets.to_wire(), size=size)


def store_checkpoint(dataset: DatasetId, path: Path, *, objects: ObjectStore) -> Checkpoint:
    """Durable when it returns."""
    name, size = physical_hash(path)
    objects.put_file(checkpoint_key(dataset, name), path)
    return Checkpoint(physical_hash=name, size=size)


def put_back(key: str, made: Path, *, size: int, objects: ObjectStore) -> bool:
    """Store a file that has the hash of an object again, where that is missing or damaged; whether it was."""
    there = objects.stat(key)
    if there is not None and there.size == size:
        kept = made.with_name(f"{made.name}-kept")
        objects.materialize(key, kept)
        damaged = physical_hash(kept) != physical_hash(made)
        kept.unlink()
        if not damaged:
            return False
    objects.delete(key)
    objects.put_file(key, made)
    return True
