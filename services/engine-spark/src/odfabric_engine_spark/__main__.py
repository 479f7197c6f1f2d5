"""`python -m odfabric_engine_spark`: starts the engine service and ends with its exit code."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path

from odfabric.errors import OdfError
from odfabric_engine_spark.crash_points import CRASH_POINTS
from odfabric_engine_spark.server import DEFAULT_PORT, serve
from odfabric_engine_spark.settings import EngineSettings

_EXPLAINED = {"exchange", "cache", "crash_at"}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="odfabric_engine_spark", description="The Spark engine of odfabric (gRPC).")
    parser.add_argument("--listen", default=f"127.0.0.1:{DEFAULT_PORT}", help="host:port, port 0 for a free one")
    parser.add_argument("--token-file", type=Path, required=True, help="file with the token that callers must send")
    parser.add_argument("--ready-file", type=Path, help="JSON file (address, pid) written once calls are taken")
    parser.add_argument("--exchange", type=Path, required=True, help="folder shared with the coordinator")
    parser.add_argument("--cache", type=Path, help="folder for the archive of Spark's classes")
    parser.add_argument(
        "--crash-at", choices=CRASH_POINTS, default=_armed(), help="crash point that kills the process (ODF_CRASH_AT)"
    )
    for setting in fields(EngineSettings):
        if setting.name not in _EXPLAINED:
            default = setting.default
            option = "--" + setting.name.replace("_", "-")
            parser.add_argument(option, type=type(default), default=default, help=f"default {default}")
    return parser


def _armed() -> str | None:
    # The drill arms one point in one process of many: names of other processes' points are not ours to judge.
    name = os.environ.get("ODF_CRASH_AT")
    return name if name in CRASH_POINTS else None


def main() -> int:
    """Reads the arguments and serves; the exit code."""
    arguments = vars(_arguments().parse_args())
    listen, ready_file = arguments.pop("listen"), arguments.pop("ready_file")
    token = arguments.pop("token_file").read_text().strip()
    if not token:
        sys.stderr.write("the token file is empty\n")
        return 2
    try:
        return serve(EngineSettings(**arguments), listen=listen, token=token, ready_file=ready_file)
    except OdfError as error:
        sys.stderr.write(f"the engine does not start: {error}\n")
        return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that hang must not keep a process that has decided to end.
    os._exit(code)
