"""Share one read among many callers: what is at a position never changes.

Owns what is being read and what was read last. Invariant: an empty place is never remembered, for it does not stay empty; anyone who joins a read that is under
way gets what it finds, and the head that it began with. Used on the event loop only, so no lock guards it.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from odfabric.model.multihash import Multihash


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """The head before the look.

    What there was at a position, None if nothing; and the position after it.
    """

    head: Multihash | None
    event: dict[str, object] | None
    position: str

    @property
    def frame(self) -> bytes:
        """As a server-sent event. There must be one."""
        assert self.event is not None
        text = json.dumps(self.event, ensure_ascii=False)
        return f"id: {self.position}\nevent: {self.event['kind']}\ndata: {text}\n\n".encode()


@dataclass(frozen=True, slots=True)
class _Kept:
    read: ReadEvent
    frame: bytes


class SharedReads:
    """Keeps frames of at most `bytes_max` bytes together."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[tuple[object, ...], _Kept] = OrderedDict()
        self._under_way: dict[tuple[object, ...], asyncio.Task[_Kept]] = {}

    async def get(self, key: tuple[object, ...], read: Callable[[], Awaitable[ReadEvent]]) -> tuple[ReadEvent, bytes]:
        """What was read at `key`, and its frame, which is empty where there is nothing.

        Raises what `read` raises.
        """
        kept = self._kept.get(key)
        if kept is None:
            task = self._under_way.get(key)
            if task is None:
                task = self._under_way[key] = asyncio.create_task(self._read(key, read))
                task.add_done_callback(lambda _: self._under_way.pop(key, None))
            # Anyone who leaves does not end it for the others.
            kept = await asyncio.shield(task)
        return kept.read, kept.frame

    @staticmethod
    async def alone(read: Callable[[], Awaitable[ReadEvent]]) -> tuple[ReadEvent, bytes]:
        """The same for a place that others have at another position."""
        found = await read()
        return found, found.frame if found.event is not None else b""

    async def _read(self, key: tuple[object, ...], read: Callable[[], Awaitable[ReadEvent]]) -> _Kept:
        found = await read()
        kept = _Kept(found, found.frame if found.event is not None else b"")
        if found.event is not None and len(kept.frame) <= self._bytes_max:
            self._kept[key] = kept
            self._bytes += len(kept.frame)
            while self._bytes > self._bytes_max:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= len(oldest.frame)
        return kept
