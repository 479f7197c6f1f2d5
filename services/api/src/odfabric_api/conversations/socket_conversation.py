"""A WebSocket of a peer as the thread sees it that holds the conversation.

Owns the way between that thread and the event loop. Invariant: one message at most waits, because the socket is read only when the thread
hears; what is left open when the thread ends is closed. Not here: what is said (`usecases.transfer`).
"""

from __future__ import annotations

import asyncio
import time

from anyio import from_thread
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from odfabric.errors import Determinate, InvalidRequest, Place
from odfabric.ports.transfer.conversations import Closed

GONE = 1006


class SocketConversation:
    """`ports.transfer.conversations.Conversation`, for `total_s_max` seconds at most.

    Its methods are called in a thread of anyio's.
    """

    def __init__(self, socket: WebSocket, *, total_s_max: float) -> None:
        self._socket = socket
        self._deadline = time.monotonic() + total_s_max
        self._closed: Closed | None = None
        self._first: dict[str, object] | None = None

    async def begins(self, *, seconds_max: float) -> bool:
        """Wait on the event loop for the first message, which the thread hears later.

        False if the peer says nothing for so long.
        """
        self._first = await self._received(seconds_max)
        return self._first is not None

    def say(self, text: str) -> None:
        """See the port."""
        if self._closed is not None or self._socket.application_state is not WebSocketState.CONNECTED:
            raise Determinate("the conversation has ended")
        try:
            from_thread.run(self._socket.send_text, text)
        except (WebSocketDisconnect, RuntimeError):
            raise Determinate("the conversation has ended") from None

    def hear(self, *, seconds_max: float) -> str | Closed | None:
        """See the port."""
        if self._closed is not None:
            return self._closed
        left = self._deadline - time.monotonic()
        message, self._first = self._first, None
        if message is None:
            message = from_thread.run(self._received, max(0.0, min(seconds_max, left)))
        if message is None:
            if seconds_max < left:
                return None
            self._closed = Closed(GONE, "")
            return self._closed
        if message["type"] == "websocket.disconnect":
            code, reason = message.get("code"), message.get("reason")
            self._closed = Closed(code if isinstance(code, int) else GONE, reason if isinstance(reason, str) else "")
            return self._closed
        text = message.get("text")
        if not isinstance(text, str):
            raise InvalidRequest("a message is no text", place=Place(field="message"))
        return text

    def end(self, code: int, reason: str) -> None:
        """See the port."""
        from_thread.run(self.close, code, reason)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """The same on the event loop."""
        both = (self._socket.application_state, self._socket.client_state)
        if self._closed is None and both == (WebSocketState.CONNECTED, WebSocketState.CONNECTED):
            try:
                await self._socket.close(code, reason)
            except (WebSocketDisconnect, RuntimeError):
                return

    async def _received(self, seconds: float) -> dict[str, object] | None:
        try:
            async with asyncio.timeout(seconds):
                return dict(await self._socket.receive())
        except TimeoutError:
            return None
