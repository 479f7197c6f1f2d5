"""What keys that were handed over may have signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.heads.head_history import last_blocks_of_former_keys
from odfabric.formats.blocks.block import block_hash
from odfabric.model.heads.head_log import APPENDED, HANDED_OVER, HeadMove, SignedMove
from odfabric.model.multihash import Multihash
from odfabric.model.rewrite import RewriteKind
from odfabric.testing.chains import START

HAND_OVER, APPEND, RESET = "hand over", "append", "reset"


@dataclass
class Story:
    """A chain, its log, and for each block which keys may have signed for it."""

    moves: list[SignedMove] = field(default_factory=list)
    chain: list[Multihash] = field(default_factory=list)
    signers: dict[Multihash, set[int]] = field(default_factory=dict)
    keys_since_move: list[int] = field(default_factory=lambda: [0])

    def append(self, blocks: int) -> None:
        """Blocks whose records were signed at any time since their parent was the head."""
        for _ in range(blocks):
            block = block_hash(repr((len(self.moves), len(self.signers))).encode())
            self.chain.append(block)
            self.signers[block] = set(self.keys_since_move)
        self._move(APPENDED)

    def reset(self, length: int) -> None:
        """Drops the newest blocks."""
        del self.chain[max(1, length) :]
        self._move(RewriteKind.RESET.value)

    def hand_over(self) -> None:
        """To the next key."""
        self._move(HANDED_OVER, next_key=self.keys_since_move[-1] + 1)

    def _move(self, kind: str, next_key: int | None = None) -> None:
        key, head = self.keys_since_move[-1], self.chain[-1]
        move = HeadMove(
            sequence=len(self.moves),
            kind=kind,
            old_head=self.moves[-1].move.new_head if self.moves else None,
            new_head=head,
            system_time=START,
            previous=None,
            signer=_key(key),
            next_signer=None if next_key is None else _key(next_key),
        )
        self.moves.append(SignedMove(move, b"", head))
        if next_key is None:
            self.keys_since_move = [key]
        else:
            self.keys_since_move.append(next_key)

    def number_of(self, block: Multihash) -> int | None:
        """Of blocks that are in the chain."""
        return self.chain.index(block) if block in self.chain else None


def _key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def story_of(steps: Sequence[tuple[str, int]]) -> Story:
    story = Story()
    story.append(1)
    for what, count in steps:
        if what == APPEND:
            story.append(count)
        elif what == RESET:
            story.reset(len(story.chain) - count)
        else:
            story.hand_over()
    return story


@given(st.lists(st.tuples(st.sampled_from([HAND_OVER, APPEND, RESET]), st.integers(1, 3)), max_size=20))
def test_no_record_that_was_signed_in_time_is_doubted(steps: list[tuple[str, int]]) -> None:
    """Each key that was in use while a block's parent was the head may have signed."""
    story = story_of(steps)
    bounds = last_blocks_of_former_keys(story.moves, story.number_of)
    for number, block in enumerate(story.chain):
        for key in story.signers[block]:
            assert number <= bounds.get(_key(key), number)


@given(st.lists(st.tuples(st.sampled_from([HAND_OVER, APPEND]), st.integers(1, 3)), max_size=20))
def test_a_former_key_has_no_say_after_the_first_move_without_it(steps: list[tuple[str, int]]) -> None:
    """In a history that was never rewritten the bound is exact."""
    story = story_of(steps)
    bounds = last_blocks_of_former_keys(story.moves, story.number_of)
    for key in range(story.keys_since_move[0]):
        signed = [number for number, block in enumerate(story.chain) if key in story.signers[block]]
        assert not signed or bounds[_key(key)] == max(signed)
