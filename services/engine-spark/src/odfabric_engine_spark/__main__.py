"""`python -m odfabric_engine_spark`: runs the engine service, exits with its code."""

from __future__ import annotations

import argparse
import os
import resource
import sys
from dataclasses import fields
from pathlib import Path

from odfabric.errors import OdfError
from odfabric_engine_spark.process.sandbox.keeper import Kept, end_as, keep, resolved_listen, socket_name
from odfabric_engine_spark.process.sandbox.walls import Sandbox
from odfabric_engine_spark.process.settings_page import descriptions
from odfabric_engine_spark.serve.crash_points import CRASH_POINTS
from odfabric_engine_spark.spark.cluster.cluster_settings import check_cluster
from odfabric_engine_spark.spark.settings import EngineSettings

DEFAULT_PORT = 5544

LISTEN = (
    "host:port, port 0 for a free one; unix:PATH; unix: for a socket in the exchange folder, told by the ready file"
)
_EXPLAINED = {"exchange", "cache", "crash_at", "spark_master", "spark_secret"}


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="odfabric_engine_spark", description="The Spark engine of odfabric (gRPC).")
    parser.add_argument("--listen", default=f"127.0.0.1:{DEFAULT_PORT}", help=LISTEN)
    parser.add_argument(
        "--sandbox", choices=list(Sandbox), type=Sandbox, default=Sandbox.AUTO, help="how it is shut in, default auto"
    )
    parser.add_argument("--token-file", type=Path, required=True, help="file with the token that callers must send")
    parser.add_argument("--ready-file", type=Path, help="JSON file (address, pid) written once calls are taken")
    parser.add_argument("--exchange", type=Path, required=True, help="folder shared with the coordinator")
    parser.add_argument("--cache", type=Path, help="folder for the archive of Spark's classes")
    parser.add_argument(
        "--crash-at", choices=CRASH_POINTS, default=_armed(), help="crash point that kills the process (ODF_CRASH_AT)"
    )
    parser.add_argument(
        "--spark-master",
        default=os.environ.get("ODF_SPARK_MASTER", ""),
        help="spark://host:port of a cluster that runs the tasks (ODF_SPARK_MASTER); default: the engine itself",
    )
    parser.add_argument("--spark-secret-file", type=Path, help="file with the secret of that cluster")
    told = descriptions()
    for setting in fields(EngineSettings):
        if setting.name not in _EXPLAINED:
            default = setting.default
            option = "--" + setting.name.replace("_", "-")
            said = f"{told[setting.name]} Default {default}".replace("%", "%%")
            if isinstance(default, bool):
                parser.add_argument(option, action=argparse.BooleanOptionalAction, default=default, help=said)
                continue
            parser.add_argument(option, type=type(default), default=default, help=said)
    return parser


def _armed() -> str | None:
    # The drill arms one point in one process of many: names of other processes' points are not ours to judge.
    name = os.environ.get("ODF_CRASH_AT")
    return name if name in CRASH_POINTS else None


def _allow_files(count: int) -> None:
    """Raises what the system allows this process and its children, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> int:
    """Reads the arguments and serves; the exit code."""
    arguments = vars(argument_parser().parse_args())
    listen, ready_file, sandbox = (arguments.pop(name) for name in ("listen", "ready_file", "sandbox"))
    token = arguments.pop("token_file").read_text().strip()
    if not token:
        sys.stderr.write("the token file is empty\n")
        return 2
    secret_file = arguments.pop("spark_secret_file")
    secret = secret_file.read_text().strip() if secret_file else ""
    settings = EngineSettings(**arguments, spark_secret=secret)
    _allow_files(settings.open_files)
    try:
        check_cluster(settings)
        if sandbox is not Sandbox.UNSEALED:
            code = keep(Kept(settings=settings, sandbox=sandbox, listen=listen, token=token, ready_file=ready_file))
            if code is not None:
                return code
        sys.stderr.write("the engine is not in a sandbox of its own\n")
        # Loaded late: a keeper does without Spark.
        from odfabric_engine_spark.process.server import serve

        listen = resolved_listen(listen, settings.exchange.resolve() / socket_name(os.getpid()))
        return serve(settings, listen=listen, token=token, ready_file=ready_file)
    except OdfError as error:
        sys.stderr.write(f"the engine does not start: {error}\n")
        return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    end_as(code)
    # Threads that hang must not keep a process that has decided to end.
    os._exit(code)
