"""Smart conversations and linked objects within one process.

The objects are linked to by URLs that exist in this process only.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from odfabric.errors import Determinate, NotFound, OdfError
from odfabric.model.transfer.smart import ObjectUrl
from odfabric.ports.transfer.conversations import Closed, Conversation

GONE = 1006
JOIN_S = 30.0

Handler = Callable[[Conversation], None]
"""The other end; runs in a thread of its own."""
Read = Callable[[ObjectUrl], bytes]
Write = Callable[[ObjectUrl, bytes], None]


class MemoryConversation:
    """One end. `pair` makes both."""

    def __init__(self) -> None:
        self._heard: queue.SimpleQueue[str | Closed] = queue.SimpleQueue()
        self._other: MemoryConversation = self
        self._ended: Closed | None = None
        self._is_over = False

    @classmethod
    def pair(cls) -> tuple[MemoryConversation, MemoryConversation]:
        """Both ends."""
        left, right = cls(), cls()
        left._other, right._other = right, left
        return left, right

    def say(self, text: str) -> None:
        """See the port."""
        if self._is_over or self._other._is_over:
            raise Determinate("the conversation has ended")
        self._other._heard.put(text)

    def hear(self, *, seconds_max: float) -> str | Closed | None:
        """See the port."""
        if self._ended is not None:
            return self._ended
        try:
            found = self._heard.get(timeout=seconds_max)
        except queue.Empty:
            return None
        if isinstance(found, Closed):
            self._ended = found
        return found

    def end(self, code: int, reason: str) -> None:
        """See the port."""
        if not self._is_over:
            self._is_over = True
            self._other._heard.put(Closed(code, reason))


class MemoryConversations:
    """`ports.transfer.conversations.Conversations` with handlers by URL and verb."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._refusals: dict[tuple[str, str], OdfError] = {}

    def serve(self, url: str, verb: Literal["pull", "push"], handler: Handler) -> None:
        """Let `handler` be the other end."""
        self._handlers[url.rstrip("/"), verb] = handler

    def refuse(self, url: str, verb: Literal["pull", "push"], error: OdfError) -> None:
        """Refuse conversations of a kind."""
        self._refusals[url.rstrip("/"), verb] = error

    @contextmanager
    def open(self, url: str, verb: Literal["pull", "push"]) -> Iterator[Conversation]:
        """See the port."""
        key = url.rstrip("/"), verb
        if key in self._refusals:
            raise self._refusals[key]
        if key not in self._handlers:
            raise NotFound("dataset", url)
        ours, theirs = MemoryConversation.pair()

        def run() -> None:
            try:
                self._handlers[key](theirs)
            finally:
                theirs.end(GONE, "")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield ours
        finally:
            ours.end(GONE, "")
            thread.join(JOIN_S)


class MemoryLinkedObjects:
    """`ports.transfer.conversations.LinkedObjects` with readers and writers by prefix.

    Each beginning of URLs has a reader and a writer.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[Read, Write]] = {}

    def serve(self, prefix: str, read: Read, write: Write) -> None:
        """Let URLs that begin with `prefix` be read and written so."""
        self._places[prefix] = read, write

    def download(self, source: ObjectUrl, *, name: str, size_max: int, into: Path) -> int:
        """See the port."""
        data = self._place(source)[0](source)
        into.write_bytes(data)
        return len(data)

    def upload(self, target: ObjectUrl, *, name: str, path: Path) -> None:
        """See the port."""
        self._place(target)[1](target, path.read_bytes())

    def _place(self, url: ObjectUrl) -> tuple[Read, Write]:
        for prefix, place in self._places.items():
            if url.url.startswith(prefix):
                return place
        raise NotFound("object", url.url)
