"""Which batches of an index merge: a long tail, back while sizes grow slowly."""

from __future__ import annotations

import math

import pytest

from odfabric.adapters.persist.index_tiers import TIER_FACTOR, IndexLimits, chosen
from odfabric_persist.state import Batch, Part

LIMITS = IndexLimits(tail_slices_max=3, tail_share_max=0.25)


def batches(*sizes: int | tuple[int, ...]) -> list[Batch]:
    """Numbers are batches that the index keeps, in brackets referred slices."""
    found = []
    for at, size in enumerate(sizes):
        if isinstance(size, int):
            parts = [Part(size, 1, 1, key=f"part-{at}"), Part(0, 0, 0, external="mark")]
        else:
            parts = [Part(rows, 0, 0, external=f"slice-{at}-{number}") for number, rows in enumerate(size)]
        found.append(Batch(str(at), at, at + 1, 0, tuple((part,) for part in parts)))
    return found


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ((), ""),
        ((100,), ""),
        ((100, (1, 1, 1)), ""),
        ((100, (1,), (1, 1)), ""),
        ((100, (1,), (1, 1, 1)), "12"),
        ((100, (25,)), ""),
        ((100, (26,)), "01"),
        (((1,),), "0"),
        ((1000, 16, (1, 1, 1, 1)), "2"),
        ((1000, 15, (1, 1, 1, 1)), "12"),
        ((64, 16, (1, 1, 1, 2)), "012"),
        ((1000, 112, 20, (2, 2, 2, 2)), "23"),
        ((1000, 111, 20, (2, 2, 2, 2)), "123"),
    ],
)
def test_the_newest_batches_are_chosen(sizes: tuple[int | tuple[int, ...], ...], names: str) -> None:
    assert "".join(batch.id for batch in chosen(batches(*sizes), LIMITS)) == names


def test_rows_are_rewritten_about_twice_for_each_tier_and_tiers_are_few() -> None:
    kept: list[Batch] = []
    written, blocks = 0, 4096
    for number in range(blocks):
        kept.append(Batch(f"new-{number}", number, number + 1, 0, ((Part(1, 0, 0, external=f"slice-{number}"),),)))
        inputs = chosen(kept, LIMITS)
        if inputs:
            rows = sum(batch.rows for batch in inputs)
            written += rows
            merged = Batch(f"merged-{number}", inputs[0].lower, number + 1, 0, ((Part(rows, 1, 1, key="part"),),))
            kept = [*kept[: len(kept) - len(inputs)], merged]
    tiers = math.log(blocks, TIER_FACTOR)
    assert written <= blocks * 2 * tiers
    assert len(kept) <= LIMITS.tail_slices_max + tiers + 1
