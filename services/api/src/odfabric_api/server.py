"""The server: uvicorn with our limits on connections, and a graceful end.

Owns how an application is served; used by the process and by tests alike. Not here: settings from the environment (`__main__`).
"""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

from odfabric.settings import Settings
from odfabric_api.connection import ConnectionLimits, connection_protocol, socket_protocol

BACKLOG = 256


class ApiServer(uvicorn.Server):
    """Serves until `should_exit`.

    Pushes that wait for their commit are then answered with their job (202).
    """

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self._closing = app.state.closing
        super().__init__(_config(app, settings))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: no new connections, requests under way within their time."""
        self._closing.set()
        await super().shutdown(sockets)


def listening_socket(host: str, port: int) -> socket.socket:
    """A listening socket, bound before its address is published.

    Port 0 takes a free one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol spelled out asyncio turns Nagle's algorithm off; without it every answer waits 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    listening.listen(BACKLOG)
    return listening


def url_of(listening: socket.socket) -> str:
    """The address as clients write it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    limits = ConnectionLimits.of(settings)
    return uvicorn.Config(
        app,
        http=connection_protocol(limits),
        loop="asyncio",
        ws=socket_protocol(limits),
        ws_max_size=settings.smart_message_bytes_max,
        # Peers take a ping for a message of the conversation.
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # No forwarded header is believed: an address in it would be whatever the sender likes.
        proxy_headers=False,
        timeout_keep_alive=settings.keep_alive_s_max,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s_max)),
    )
