"""Shared reads are done once, and only what stays the same is remembered."""

from __future__ import annotations

import asyncio

import pytest

from odfabric.errors import Determinate
from odfabric.testing.conformance.examples import hash_of
from odfabric_api.shared_reads import ReadEvent, SharedReads

HEAD = hash_of("head")


def event(text: str = "x") -> ReadEvent:
    return ReadEvent(HEAD, {"kind": "changes", "text": text}, "next")


class Source:
    """Counts reads; each takes a turn of the loop."""

    def __init__(self, answer: ReadEvent | Exception) -> None:
        self.answer, self.reads = answer, 0

    async def __call__(self) -> ReadEvent:
        self.reads += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_many_at_once_read_once_and_later_ones_not_at_all() -> None:
    async def scenario() -> int:
        shared, source = SharedReads(1000), Source(event())
        for _ in range(2):
            found = await asyncio.gather(*(shared.get(("a", "1"), source) for _ in range(50)))
            assert {frame for _, frame in found} == {event().frame}
        return source.reads

    assert asyncio.run(scenario()) == 1


def test_an_empty_place_is_looked_at_again() -> None:
    async def scenario() -> int:
        shared, source = SharedReads(1000), Source(ReadEvent(HEAD, None, "same"))
        for _ in range(3):
            assert await shared.get(("a", "1"), source) == (source.answer, b"")
        return source.reads

    assert asyncio.run(scenario()) == 3


def test_what_is_kept_has_a_bound() -> None:
    async def scenario() -> int:
        size = len(event("x").frame)
        shared, first = SharedReads(2 * size), Source(event("x"))
        await shared.get(("first",), first)
        for name in "ab":
            await shared.get((name,), Source(event(name)))
        await shared.get(("first",), first)
        await shared.get(("large",), Source(event("x" * 3 * size)))
        await shared.get(("first",), first)
        return first.reads

    assert asyncio.run(scenario()) == 2


def test_a_failure_is_everybody_s_and_is_tried_again() -> None:
    async def scenario() -> int:
        shared, source = SharedReads(1000), Source(Determinate("away"))
        for _ in range(2):
            found = await asyncio.gather(*(shared.get(("a",), source) for _ in range(5)), return_exceptions=True)
            assert all(isinstance(each, Determinate) for each in found)
        return source.reads

    assert asyncio.run(scenario()) == 2


def test_whoever_leaves_does_not_end_it_for_others() -> None:
    async def scenario() -> bytes:
        shared, source = SharedReads(1000), Source(event())
        leaving = asyncio.create_task(shared.get(("a",), source))
        staying = asyncio.create_task(shared.get(("a",), source))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        _, frame = await staying
        return frame

    assert asyncio.run(scenario()) == event().frame
