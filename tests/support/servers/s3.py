"""An S3 server that checks signatures, conditions, checksums, presigned expiry."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.servers.process import ServerProcess, container, owner, reachable, running, server_folder
from tests.support.waiting import wait_until

REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "odfaccess", "odfsecret123"
_PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "admin.port",
    "admin.port.grpc",
    "s3.port",
    "s3.port.grpc",
)
_VOLUMES_MAX = 100_000
_ACTIONS = ["Admin", "Read", "Write", "List", "Tagging"]


@dataclass(frozen=True)
class S3Server:
    """A server and the keys to it."""

    endpoint: str
    access_key: str
    secret_key: str
    process: ServerProcess | None = None
    buckets: list[str] = field(default_factory=list, repr=False)

    def client(self) -> Any:
        """A client that does not try again by itself."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=REGION,
            config=Config(
                signature_version="s3v4",
                s3={"addressing_style": "path"},
                retries={"total_max_attempts": 1},
                connect_timeout=2,
                read_timeout=30,
            ),
        )

    def create_bucket(self) -> str:
        """Name of a new empty bucket."""
        name = f"odf-{uuid.uuid4().hex[:20]}"
        self.client().create_bucket(Bucket=name)
        self.buckets.append(name)
        return name

    def create_public_bucket(self) -> str:
        """Name of a new empty bucket that everybody may list and read."""
        name = self.create_bucket()
        everybody = {
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject", "s3:ListBucket"],
            "Resource": [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"],
        }
        policy = {"Version": "2012-10-17", "Statement": [everybody]}
        self.client().put_bucket_policy(Bucket=name, Policy=json.dumps(policy))
        return name


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server for tests.

    A given one is named `http://ACCESS_KEY:SECRET_KEY@host:port`.
    """
    given = os.environ.get("ODF_TEST_S3_URL")
    if given:
        parts = urlsplit(given)
        yield S3Server(f"{parts.scheme}://{parts.hostname}:{parts.port}", parts.username or "", parts.password or "")
        return
    program = shutil.which("weed") or str(Path(sys.executable).parent / "weed")
    if not Path(program).exists():
        yield from _in_container()
        return
    with server_folder("s3") as folder:
        ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        keys = folder / "s3.json"
        keys.write_text(json.dumps(_identities()))
        keys.chmod(0o644)
        (folder / "data").mkdir()
        os.chown(folder / "data", owner().uid, owner().gid)
        options = [f"-{name}={port}" for name, port in ports.items()]
        options += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}/data", f"-s3.config={keys}"]
        options += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.allowDeleteBucketNotEmpty=true", "-webdav=false"]
        # Each bucket takes volumes of its own; without a number there are as many as fit on the disk.
        options.append(f"-volume.max={_VOLUMES_MAX}")
        server = S3Server(f"http://127.0.0.1:{ports['s3.port']}", ACCESS_KEY, SECRET_KEY)
        command = [str(reachable(Path(program), folder)), "mini", *options]
        # It answers before it can write, and takes its time to end in order: nothing of it is needed afterwards.
        process = ServerProcess(command, folder, end=signal.SIGKILL, answers=lambda: _answers(server))
        with running(process):
            yield S3Server(server.endpoint, ACCESS_KEY, SECRET_KEY, process)


def _in_container() -> Iterator[S3Server]:
    environment = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    for place in container("chrislusf/seaweedfs:latest", 8333, environment, command="server -s3"):
        server = S3Server(f"http://{place}", ACCESS_KEY, SECRET_KEY)
        wait_until(partial(_answers, server), deadline_s=60, what="the container of SeaweedFS")
        yield server


def _identities() -> dict[str, object]:
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    return {"identities": [{"name": "odf", "credentials": credentials, "actions": _ACTIONS}]}


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all at once, so that no two are the same."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in sockets]


def _answers(server: S3Server) -> bool:
    client = server.client()
    try:
        client.create_bucket(Bucket="ready")
    except (client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
        pass
    except (BotoCoreError, ClientError):
        return False
    try:
        client.put_object(Bucket="ready", Key="ready", Body=b"1")
    except (BotoCoreError, ClientError):
        return False
    return True
