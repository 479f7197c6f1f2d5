"""`python -m odfabric_api`: the api process of a node."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path

import uvicorn

from odfabric.adapters.system.owner import end_with_owner
from odfabric.settings import Settings
from odfabric.telemetry import start_logging
from odfabric.wiring import open_node
from odfabric_api.app import create_app
from odfabric_api.edge import protocol_with_deadline

SHUTDOWN_S = 10
KEEP_ALIVE_S = 15
BACKLOG = 256


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM, SIGINT or the end of the owner process. Settings come from the environment (`ODF_...`)."""
    parser = argparse.ArgumentParser(prog="odfabric-api", description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--owner-pid", type=int, help="end when this process has ended")
    parser.add_argument("--ready-file", type=Path, help="file to be written once the node serves")
    options = parser.parse_args(arguments)
    settings = Settings()
    start_logging("api")
    with open_node(settings) as node, _bound(options.host, options.port) as listening:
        server = uvicorn.Server(_config(create_app(node, token=node.token), settings))
        if options.owner_pid is not None:
            end_with_owner(options.owner_pid, lambda: setattr(server, "should_exit", True))
        if options.ready_file:
            host, port = listening.getsockname()[:2]
            _write_ready(options.ready_file, {"url": f"http://{host}:{port}", "pid": os.getpid()})
        server.run(sockets=[listening])
    return 0


def _config(app: object, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's own type for applications is wider than ours
        http=protocol_with_deadline(settings.header_wait_s_max),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        h11_max_incomplete_event_size=settings.header_bytes_max + settings.header_line_bytes_max,
    )


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket, bound before anybody is told the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    listening.listen(BACKLOG)
    return listening


def _write_ready(path: Path, document: dict[str, object]) -> None:
    pending = path.with_name(f".{path.name}.{os.getpid()}")
    pending.write_text(json.dumps(document))
    pending.rename(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
