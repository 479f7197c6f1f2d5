"""Blocks that come with their predecessors are believed no more than single ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.walk import walk
from odfabric.errors import CorruptedSource, InvalidBlock, NotFound
from odfabric.model.metadata import DatasetKind
from odfabric.model.multihash import Multihash
from odfabric.testing.chains import random_chain
from odfabric.usecases.transfer import arriving_chain
from odfabric.usecases.transfer.arriving_chain import AHEAD_MAX, ReceivedBlocks

BLOCKS = {each.hash: each for each in random_chain(Random(1), kind=DatasetKind.ROOT, blocks=40).blocks}
HEAD = list(BLOCKS)[-1]
Changed = Callable[[list[bytes]], Sequence[bytes]]


class Peer:
    """Gives `at_once` blocks at a time, and notes what it is asked for."""

    def __init__(self, at_once: int, changed: Changed = lambda found: found) -> None:
        self.asked: list[int] = []
        self.given: list[Multihash] = []
        self._at_once = at_once
        self._changed = changed

    def block(self, block_hash: Multihash) -> bytes:
        return self.blocks(block_hash, count_max=1)[0]

    def blocks(self, block_hash: Multihash, *, count_max: int) -> Sequence[bytes]:
        self.asked.append(count_max)
        found: list[bytes] = []
        name: Multihash | None = block_hash
        while name is not None and len(found) < min(self._at_once, count_max):
            if name not in BLOCKS:
                raise NotFound("block", str(name))
            self.given.append(name)
            found.append(BLOCKS[name].data)
            name = BLOCKS[name].block.prev_block_hash
        return self._changed(found)


def walked(peer: Peer, folder: Path) -> list[bytes]:
    received = ReceivedBlocks(peer, folder, chain=peer)
    return [received.get_bytes(link.hash) for link in walk(received, HEAD)]


@given(at_once=st.integers(1, 50))
def test_however_many_come_at_once_the_chain_is_the_same(at_once: int) -> None:
    peer = Peer(at_once)
    assert walked(peer, Path("unused")) == [each.data for each in reversed(BLOCKS.values())]
    assert len(peer.given) == len(set(peer.given)) == len(BLOCKS)


def test_what_is_asked_for_doubles_up_to_a_limit(tmp_path: Path) -> None:
    peer = Peer(1)
    walked(peer, tmp_path)
    assert peer.asked[:4] == [1, 2, 4, 8]
    assert max(peer.asked) <= AHEAD_MAX
    assert len(peer.asked) == len(BLOCKS)
    many = Peer(1000)
    walked(many, tmp_path)
    assert len(many.asked) == 6


def test_one_new_block_brings_no_old_one(tmp_path: Path) -> None:
    peer = Peer(1000)
    ReceivedBlocks(peer, tmp_path, chain=peer).get(HEAD)
    assert peer.given == [HEAD]


def test_a_server_that_is_not_walked_is_asked_for_single_blocks(tmp_path: Path) -> None:
    peer = Peer(1000)
    received = ReceivedBlocks(peer, tmp_path)
    for name in list(BLOCKS)[:5]:
        received.get(name)
    assert peer.asked == [1] * 5


def test_what_exceeds_the_memory_of_a_pull_goes_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving_chain, "MEMORY_BYTES_MAX", sum(len(each.data) for each in BLOCKS.values()) // 2)
    peer = Peer(1000)
    assert walked(peer, tmp_path) == [each.data for each in reversed(BLOCKS.values())]
    assert 5 < len(list(tmp_path.iterdir())) < len(BLOCKS)
    assert len(peer.given) == len(set(peer.given))


@pytest.mark.parametrize(
    "changed",
    [
        lambda found: [*found[:-1], found[-1][:-1] + bytes([found[-1][-1] ^ 1])] if len(found) > 3 else found,
        lambda found: [found[0], *found[2:]] if len(found) > 3 else found,
        lambda found: [found[0], *reversed(found[1:])] if len(found) > 3 else found,
        lambda found: [*found[1:], found[0]] if len(found) > 3 else found,
    ],
    ids=["altered", "left-out", "turned-round", "moved"],
)
def test_a_predecessor_that_does_not_hash_to_its_name_is_named(tmp_path: Path, changed: Changed) -> None:
    with pytest.raises(CorruptedSource, match="does not hash to its name"):
        walked(Peer(1000, changed), tmp_path)


def test_nothing_comes_before_the_first_block(tmp_path: Path) -> None:
    with pytest.raises(CorruptedSource, match="begins the chain"):
        walked(Peer(1000, lambda found: [*found, found[0]] if len(found) < 10 and len(found) > 8 else found), tmp_path)


def test_a_missing_predecessor_breaks_the_chain(tmp_path: Path) -> None:
    class Gone(Peer):
        def blocks(self, block_hash: Multihash, *, count_max: int) -> Sequence[bytes]:
            if len(self.asked) == 3:
                raise NotFound("block", str(block_hash))
            return super().blocks(block_hash, count_max=count_max)

    with pytest.raises((CorruptedSource, InvalidBlock), match="is missing"):
        walked(Gone(1000), tmp_path)
