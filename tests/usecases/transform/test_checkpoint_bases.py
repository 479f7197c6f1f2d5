"""Incremental checkpoints: all reach the engine, and verification misses none."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.errors import Corrupt, InvalidData
from odfabric.formats.identifiers.dataset_layout import checkpoint_key
from odfabric.formats.identifiers.physical_hash import KnownFiles, physical_hash
from odfabric.formats.slices.checkpoint_header import MAGIC, checkpoint_bases
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import TransformRequest, TransformResult
from odfabric.model.metadata import ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.transform.run_transform import checkpoint_files
from tests.usecases.manifests import DERIVED, ROOT
from tests.usecases.transform.test_pull_dataset import pull, push, row, verify


def checkpoint(folder: Path, content: str, *bases: Multihash) -> tuple[Multihash, Path]:
    """A file as our engine writes it, as far as a coordinator can see."""
    path = folder / content
    header = json.dumps({"bases": [str(base) for base in bases]}).encode()
    path.write_bytes(MAGIC + struct.pack("<Q", len(header)) + header + content.encode())
    return physical_hash(path)[0], path


class Seen:
    """What the engine was given, newest last."""

    def __init__(self) -> None:
        self.requests: list[tuple[Multihash, ...]] = []


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The memory engine, but each of its checkpoints builds on all that it was given."""
    plain, found = MemoryEngine.execute_transform, Seen()

    def execute(self: MemoryEngine, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        given = [self._root / path for path in request.checkpoint_paths]
        assert [physical_hash(path)[0] for path in given] == list(request.checkpoint_hashes)
        found.requests.append(request.checkpoint_hashes)
        result = plain(self, request, progress=progress)
        new = self._root / request.new_checkpoint_path
        checkpoint(new.parent, f"content-{len(found.requests)}", *request.checkpoint_hashes)[1].replace(new)
        return result

    monkeypatch.setattr(MemoryEngine, "execute_transform", execute)
    return found


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def three_transactions(memory: MemoryNode) -> CatalogEntry:
    root, derived = memory.add(ROOT), memory.add(DERIVED)
    for day in (1, 2, 3):
        push(memory, root, row(day, "A"))
        assert pull(memory, derived)["rows"] == 1
    return derived


def checkpoints_of(memory: MemoryNode, derived: CatalogEntry) -> list[Multihash]:
    """Names of the chain's checkpoints, oldest first."""
    blocks = memory.node.repository.blocks(derived.id)
    rows = list(memory.node.repository.rows_down(derived.id, frozenset({"ExecuteTransform"})))
    events = [blocks.get(each.hash).event for each in reversed(rows)]
    return [each.new_checkpoint.physical_hash for each in events if isinstance(each, ExecuteTransform)]


def test_the_engine_gets_all_that_a_checkpoint_builds_on(memory: MemoryNode, seen: Seen) -> None:
    first, second, _ = checkpoints_of(memory, three_transactions(memory))
    assert seen.requests == [(), (first,), (second, first)]


def test_a_replay_gets_them_too(memory: MemoryNode, seen: Seen) -> None:
    derived = three_transactions(memory)
    seen.requests.clear()
    assert verify(memory, derived)["ok"] is True
    first, second, _ = checkpoints_of(memory, derived)
    assert seen.requests == [(), (first,), (second, first)]


@pytest.mark.usefixtures("seen")
def test_verification_names_a_checkpoint_whose_base_is_gone(memory: MemoryNode) -> None:
    derived = three_transactions(memory)
    first, second, third = checkpoints_of(memory, derived)
    memory.objects.delete(checkpoint_key(derived.id, first))
    report = verify(memory, derived)
    told = [(each["object"], each["kind"]) for each in report["errors"] if "builds on" in each["message"]]  # type: ignore[attr-defined]
    assert told == [(str(second), "ObjectNotFound"), (str(third), "ObjectNotFound")]


@pytest.mark.usefixtures("seen")
def test_a_damaged_or_missing_base_is_corruption(memory: MemoryNode, tmp_path: Path) -> None:
    derived = three_transactions(memory)
    first, _, third = checkpoints_of(memory, derived)
    data = memory.objects.read_bytes(checkpoint_key(derived.id, first), size_max=1 << 20)
    memory.objects.delete(checkpoint_key(derived.id, first))
    with pytest.raises(Corrupt, match=f"{first} .* is missing"):
        checkpoint_files(derived.id, [third], tmp_path, memory.node.repository)
    memory.objects.put_bytes(checkpoint_key(derived.id, first), data + b"!")
    (tmp_path / "again").mkdir()
    with pytest.raises(Corrupt, match=f"{first} .* does not hash to its name"):
        checkpoint_files(derived.id, [third], tmp_path / "again", memory.node.repository)


@pytest.mark.parametrize("header", [b"", b"{", b"[]", b'{"bases": 7}', b'{"bases": ["x"]}', b'{"basis": []}'])
def test_heads_that_make_no_sense_are_refused(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "c").write_bytes(MAGIC + struct.pack("<Q", len(header)) + header)
    with pytest.raises(InvalidData) as caught:
        checkpoint_bases(tmp_path / "c")
    assert caught.value.place.rule == "checkpoint-damaged"


def test_heads_of_other_engines_are_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"PK\x03\x04 a zip")
    assert checkpoint_bases(tmp_path / "c") == ()


def test_a_file_is_known_as_long_as_it_stays_the_same(tmp_path: Path) -> None:
    name, path = checkpoint(tmp_path, "a")
    other, _ = checkpoint(tmp_path, "b")
    known = KnownFiles(files_max=2)
    assert not known.has(name, path)
    known.add(name, path)
    os.link(path, tmp_path / "linked")
    (tmp_path / "copied").write_bytes(path.read_bytes())
    assert known.has(name, tmp_path / "linked")
    assert not known.has(name, tmp_path / "copied")
    assert not known.has(other, path)
    with path.open("ab") as file:
        file.write(b"!")
    assert not known.has(name, path)
    for content in ("c", "d"):
        known.add(*checkpoint(tmp_path, content))
    assert not known.has(*checkpoint(tmp_path, "a"))
