"""`python -m odfabric_api`: the api process of a node."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from odfabric.garbage import collect_rarely, keep_for_good

collect_rarely()  # before the imports, which make most of what there will be

from odfabric.adapters.system.owner import end_with_owner
from odfabric.errors import OdfError
from odfabric.settings import Settings, read_settings
from odfabric.telemetry import start_logging
from odfabric.wiring import open_node
from odfabric.wiring.monitoring.tracing import tracing
from odfabric_api.app import create_app
from odfabric_api.server import ApiServer, listening_socket, url_of

_log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM, SIGINT or the end of the owner process.

    Settings come from the environment (`ODF_...`).

    Exit code 1: it could not begin, and the log says why.
    """
    parser = argparse.ArgumentParser(prog="odfabric-api", description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--owner-pid", type=int, help="end when this process has ended")
    parser.add_argument("--ready-file", type=Path, help="file to be written once the node serves")
    options = parser.parse_args(arguments)
    start_logging("api")
    try:
        _serve(read_settings(), options)
    except (OdfError, OSError) as error:
        _log.error("%s", error)
        return 1
    return 0


def _serve(settings: Settings, options: argparse.Namespace) -> None:
    with (
        tracing(settings, "api"),
        open_node(settings) as node,
        listening_socket(options.host, options.port) as listening,
    ):
        server = ApiServer(create_app(node, token=node.token), settings)
        if options.owner_pid is not None:
            end_with_owner(options.owner_pid, lambda: setattr(server, "should_exit", True))
        if options.ready_file:
            _write_ready(options.ready_file, {"url": url_of(listening), "pid": os.getpid()})
        keep_for_good()
        server.run(sockets=[listening])


def _write_ready(path: Path, document: dict[str, object]) -> None:
    pending = path.with_name(f".{path.name}.{os.getpid()}")
    pending.write_text(json.dumps(document))
    pending.rename(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
