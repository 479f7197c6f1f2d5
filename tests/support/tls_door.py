"""A TLS address for a server without TLS, as a proxy in front of a node has it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PIECE_BYTES = 64 * 1024
START_S_MAX = 20.0

Address = tuple[str, int]


@contextmanager
def tls_door(context: ssl.SSLContext, target: Callable[[], Address]) -> Iterator[int]:
    """The port on the loopback address; connections go on to what `target` gives."""
    loop = asyncio.new_event_loop()
    ready: list[int] = []
    started = threading.Event()

    async def forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await source.read(PIECE_BYTES):
                sink.write(piece)
                await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            back_reader, back_writer = await asyncio.open_connection(*target())
            await asyncio.gather(forward(reader, back_writer), forward(back_reader, writer))
        writer.close()

    async def listen() -> asyncio.Server:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        ready.append(server.sockets[0].getsockname()[1])
        return server

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(listen())
        started.set()
        loop.run_forever()
        server.close()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=run, name="tls-door", daemon=True)
    thread.start()
    assert started.wait(START_S_MAX)
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_S_MAX)
