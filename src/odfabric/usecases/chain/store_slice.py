"""Store what the engine wrote, and put back lost objects.

Hash the finished file, keep it under its hash, describe it for a block.
"""

from __future__ import annotations

from pathlib import Path

from odfabric.errors import InvalidData, Place
from odfabric.formats.identifiers.dataset_layout import checkpoint_key, data_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.logical_hash import LogicalDigest, logical_hash_of_parquet
from odfabric.formats.slices.slice_check import SliceRules, examine_slice
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import Checkpoint, DataSlice
from odfabric.model.offsets import OffsetRange
from odfabric.ports.datasets.object_store import ObjectStore


def store_slice(
    dataset: DatasetId, path: Path, offsets: OffsetRange, *, objects: ObjectStore, rules: SliceRules | None = None
) -> DataSlice:
    """Durable when it returns; repeating it with the same bytes changes nothing.

    Raises InvalidData if a row breaks the rules.
    """
    described = describe_slice(path, offsets, rules=rules)
    objects.put_file(data_key(dataset, described.physical_hash), path)
    return described


def describe_slice(path: Path, offsets: OffsetRange, *, rules: SliceRules | None = None) -> DataSlice:
    """A finished slice file as blocks state it.

    Raises InvalidData if a row breaks the rules.
    """
    name, size = physical_hash(path)
    logical = logical_hash_of_parquet(path) if rules is None else _judged(path, rules)
    return DataSlice(logical_hash=logical.multihash, physical_hash=name, offset_interval=offsets.to_wire(), size=size)


def _judged(path: Path, rules: SliceRules) -> LogicalDigest:
    """Judge an engine's output like data from elsewhere: others would refuse it."""
    examined = examine_slice(path, rules)
    if examined.problems:
        raise InvalidData(f"The new rows are not committed: {examined.problems[0]}", place=Place(rule="slice"))
    return examined.digest


def store_checkpoint(dataset: DatasetId, path: Path, *, objects: ObjectStore) -> Checkpoint:
    """Durable when it returns."""
    name, size = physical_hash(path)
    objects.put_file(checkpoint_key(dataset, name), path)
    return Checkpoint(physical_hash=name, size=size)


def put_back(key: str, made: Path, *, size: int, objects: ObjectStore) -> bool:
    """Store a file again where its object is missing or damaged; whether it was."""
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
