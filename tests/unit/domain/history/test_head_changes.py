"""Which rewrites count for those who have read a history, and what they leave."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.history.head_changes import HeadChange, decisive, rewrites_since, rows_stay
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.model.rewrite import Rewrite, RewriteKind


def head(number: int) -> Multihash:
    return sha3_256_multihash(hashlib.sha3_256(str(number).encode()).digest())


def rewrite(kind: RewriteKind, old: int, new: int, kept: int | None) -> Rewrite:
    return Rewrite(kind=kind, old_head=head(old), new_head=head(new), at=Instant(new), rows_kept=kept)


def change(one: Rewrite) -> HeadChange:
    return HeadChange(old_head=one.old_head, new_head=one.new_head, rewrite=one)


def test_a_reset_from_before_does_not_count() -> None:
    reset = rewrite(RewriteKind.RESET, 2, 1, 1)
    push = HeadChange(old_head=head(1), new_head=head(3))
    compaction = rewrite(RewriteKind.COMPACTED, 3, 4, 2)
    changes = [change(compaction), push, change(reset)]
    assert rewrites_since(head(3), changes) == [compaction]
    assert rewrites_since(head(1), changes) == [compaction], "its block was the head again after the reset"
    assert rewrites_since(head(2), changes) == [compaction, reset]
    assert rewrites_since(head(9), changes) is None


def test_the_rewrite_to_name() -> None:
    small, large = rewrite(RewriteKind.RESET, 5, 6, 1), rewrite(RewriteKind.RESET, 7, 8, 9)
    compaction = rewrite(RewriteKind.COMPACTED, 6, 7, 1)
    assert decisive([large, compaction, small], 2) == small
    assert decisive([large, compaction, small], 1) == compaction
    assert decisive([large], 1) == large
    assert decisive([], 1) is None
    assert not rows_stay([], 0), "another history without a rewrite is not understood"
    assert not rows_stay([rewrite(RewriteKind.REPLACED, 1, 2, None)], 1)


STEPS = st.lists(
    st.one_of(st.just("push"), st.just("compact"), st.just("clear"), st.just("read"), st.integers(0, 9)),
    min_size=1,
    max_size=25,
)


@given(STEPS)
def test_rows_stay_exactly_where_they_are_the_same(steps: list[str | int]) -> None:
    """Against histories of rows that are never equal; a number is a reset to it."""
    chain: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    changes: list[HeadChange] = []
    read: list[tuple[int, tuple[int, ...]]] = []
    for number, step in enumerate(steps, 1):
        old, rows = chain[-1]
        if step == "read":
            read.append(chain[-1])
        elif step == "push":
            chain.append((number, (*rows, number)))
            changes.append(HeadChange(old_head=head(old), new_head=head(number)))
        elif step in ("compact", "clear"):
            kind = RewriteKind.COMPACTED if step == "compact" else RewriteKind.CLEARED
            chain = [(-number, ()), (number, rows if step == "compact" else ())]
            changes.append(change(rewrite(kind, old, number, len(chain[-1][1]))))
        elif int(step) < len(chain) - 1:
            chain = chain[: int(step) + 1]
            new, kept = chain[-1]
            changes.append(change(rewrite(RewriteKind.RESET, old, new, len(kept))))
    for block, rows in read:
        if block in {each for each, _ in chain}:
            continue
        since = rewrites_since(head(block), reversed(changes))
        if since is None:
            assert all(head(block) not in (each.old_head, each.new_head) for each in changes)
        else:
            assert rows_stay(since, len(rows)) == (rows == chain[-1][1][: len(rows)])
