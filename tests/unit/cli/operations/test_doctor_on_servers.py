"""`odf doctor` on real servers: PostgreSQL, S3 and Redis, each down in turn."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.cli.app import main
from odfabric.model.jobs.duty import Duty
from odfabric.settings import read_settings
from odfabric.wiring import open_node
from tests.support.servers.s3 import S3Server
from tests.support.servers.valkey import RedisServer
from tests.support.waiting import free_port, wait_until

PASSWORDS = ("s3-secret-hunter2", "redis-hunter2", "database-hunter2")

Findings = dict[str, dict[str, Any]]


@pytest.fixture
def findings(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    postgres_url: str,
    redis_of_tests: RedisServer,
    s3: S3Server,
    bucket: str,
) -> Callable[..., Findings]:
    """Prepares the node once; what is found with other settings."""
    workspace = tmp_path / "workspace"
    environment = {
        "ODF_WORKSPACE": str(workspace),
        "ODF_DATABASE_URL": postgres_url,
        "ODF_OBJECTS_URL": f"s3://{bucket}/node",
        "ODF_S3_ENDPOINT_URL": s3.endpoint,
        "ODF_S3_ACCESS_KEY": s3.access_key,
        "ODF_S3_SECRET_KEY": s3.secret_key,
        "ODF_REDIS_URL": redis_of_tests.url,
        "ODF_DOCTOR_FREE_MIB_MIN": "1",
        "ODF_DOCTOR_FREE_SHARE_MIN": "0",
        "ODF_DOCTOR_CHECK_S_MAX": "30",
        "ODF_S3_ATTEMPTS_MAX": "1",
        "ODF_S3_CONNECT_S_MAX": "5",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["init"]) == 0

    def look(*, code: int, **changes: str) -> Findings:
        for name, value in changes.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        assert main(["doctor", "--json"]) == code
        out = capsys.readouterr().out
        assert not any(password in out for password in PASSWORDS)
        return {finding["name"]: finding for finding in json.loads(out)["findings"]}

    return look


def broken(found: Findings) -> set[str]:
    return {name for name, finding in found.items() if finding["outcome"] == "broken"}


def test_servers_that_are_well(findings: Callable[..., Findings], s3: S3Server, bucket: str) -> None:
    assert broken(findings(code=1)) == {"workers"}
    settings = read_settings()
    with open_node(settings, engine=MemoryEngine(settings.workspace / "exchange")) as node:
        for duty in Duty:
            node.duties.ended(duty, "machine/7", error=None)
    found = findings(code=0)
    assert found["workers"]["seen"] == "all duties are reported, by machine/7"
    assert found["database"]["seen"].startswith("PostgreSQL, 127.0.0.1/")
    assert "the database's clock is" in found["clock"]["seen"]
    assert found["objects"]["seen"] == f"S3, {bucket}/node: reachable, conditional writes are refused"
    assert found["redis"]["seen"].endswith("eviction policy noeviction")


def test_servers_that_are_away(findings: Callable[..., Findings]) -> None:
    away = f"127.0.0.1:{free_port()}"
    found = findings(
        code=1,
        ODF_DATABASE_URL=f"postgresql://odf:database-hunter2@{away}/odf",
        ODF_S3_ENDPOINT_URL=f"http://{away}",
        ODF_S3_SECRET_KEY="s3-secret-hunter2",
        ODF_REDIS_URL=f"redis://odf:redis-hunter2@{away}/0",
        ODF_ENGINE_ADDRESS=away,
        ODF_ENGINE_TOKEN="engine-token",
    )
    assert broken(found) == {"database", "objects", "redis", "engine", "engine-walls"}
    assert {found[name]["outcome"] for name in ("clock", "workers", "sealing-key")} == {"warning"}
    assert all(finding["remedy"] for finding in found.values() if finding["outcome"] != "ok")


def test_a_bucket_that_is_not_there(findings: Callable[..., Findings]) -> None:
    found = findings(code=1, ODF_OBJECTS_URL="s3://no-such-bucket/node")
    assert found["objects"]["outcome"] == "broken"
    assert found["objects"]["remedy"] == "make the bucket, or correct ODF_OBJECTS_URL"


def test_a_redis_that_forgets(findings: Callable[..., Findings], redis_of_tests: RedisServer) -> None:
    client = redis.Redis.from_url(redis_of_tests.url)
    before = client.config_get("maxmemory-policy")["maxmemory-policy"]
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        found = findings(code=1)["redis"]
    finally:
        client.config_set("maxmemory-policy", before)
        client.close()
    assert (found["outcome"], "allkeys-lru" in found["seen"]) == ("warning", True)


def test_servers_that_accept_and_say_nothing(findings: Callable[..., Findings]) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        found = findings(
            code=1,
            ODF_DOCTOR_CHECK_S_MAX="2",
            ODF_DATABASE_URL=f"postgresql://odf:database-hunter2@{place}/odf",
            ODF_S3_ENDPOINT_URL=f"http://{place}",
            ODF_REDIS_URL=f"redis://odf:redis-hunter2@{place}/0",
            ODF_ENGINE_ADDRESS=place,
            ODF_ENGINE_TOKEN="engine-token",
        )
    assert broken(found) >= {"database", "objects", "redis", "engine"}
    assert found["objects"]["seen"] == "no answer within 2 s"
    assert found["workspace"]["outcome"] == "ok"
    # What was left behind ends with its connection.
    wait_until(lambda: not any(one.name == "bounded" for one in threading.enumerate()), what="the last check")
