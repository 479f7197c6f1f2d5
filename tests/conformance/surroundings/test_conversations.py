"""Smart conversations in memory and over WebSockets keep one contract."""

from __future__ import annotations

import http
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as serving

from odfabric.adapters.http.egress import Egress, EgressLimits
from odfabric.adapters.memory.transfer.conversations import MemoryConversations
from odfabric.adapters.websocket.conversations import WebSocketConversation, WebSocketConversations
from odfabric.errors import AccessDenied, NotFound, OdfError, Unauthenticated
from odfabric.testing.conformance.conversations import ConversationsContract, Handler, Talks

STATUSES = {
    Unauthenticated: http.HTTPStatus.UNAUTHORIZED,
    AccessDenied: http.HTTPStatus.FORBIDDEN,
    NotFound: http.HTTPStatus.NOT_FOUND,
}
MESSAGE_BYTES_MAX = 1 << 26


class TestInMemory(ConversationsContract):
    @pytest.fixture
    def talks(self) -> Talks:
        conversations = MemoryConversations()

        def serve(handler: Handler, *, refusal: type[OdfError] | None = None) -> str:
            url = "odf+http://peer.example/ann/readings/"
            for verb in ("pull", "push"):
                conversations.serve(url, verb, handler)
                if refusal is not None:
                    error = NotFound("dataset", url) if refusal is NotFound else refusal("no")
                    conversations.refuse(url, verb, error)
            return url

        return Talks(conversations, serve)


class TestOverWebSockets(ConversationsContract):
    @pytest.fixture
    def talks(self) -> Iterator[Talks]:
        handlers: list[tuple[Handler, type[OdfError] | None]] = []

        def answer(connection: ServerConnection, request: Request) -> Response | None:
            refusal = handlers[-1][1]
            return None if refusal is None else connection.respond(STATUSES[refusal], "no")

        def hold(connection: ServerConnection) -> None:
            handlers[-1][0](WebSocketConversation(connection))

        with ExitStack() as stack:
            server = stack.enter_context(
                serving(hold, "127.0.0.1", 0, process_request=answer, max_size=MESSAGE_BYTES_MAX, compression=None)
            )
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            port = server.socket.getsockname()[1]
            place = f"127.0.0.1:{port}"
            egress = stack.enter_context(Egress(limits=EgressLimits(ports=(port,)), allow=[place]))
            conversations = WebSocketConversations(
                egress.connections([port]),
                token_of=lambda _: None,
                ssl_context=egress.ssl_context,
                message_bytes_max=MESSAGE_BYTES_MAX,
                connect_s_max=30.0,
            )

            def serve(handler: Handler, *, refusal: type[OdfError] | None = None) -> str:
                handlers.append((handler, refusal))
                return f"odf+http://{place}/ann/readings/"

            yield Talks(conversations, serve)
