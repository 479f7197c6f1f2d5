"""`odf support-bundle`: it helps, and holds none of the node's secrets."""

from __future__ import annotations

import base64
import json
import stat
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.jobs.jobs import SqlJobs
from odfabric.cli.app import main
from odfabric.errors import Determinate
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.webhooks.webhook_signature import secret_text
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import JobKind, NewJob
from odfabric.settings import read_settings
from odfabric.usecases.jobs.problem import problem_document
from odfabric.wiring import open_node
from tests.usecases.manifests import ROOT

PLANTED = {
    "Redis password": "redis-hunter2",
    "S3 secret key": "s3-hunter2-secret",
    "S3 access key": "s3-hunter2-access",
    "engine token": "engine-hunter2",
    "remote token": "remote-hunter2",
    "client secret": "oidc-hunter2",
    "account password": "account-hunter2-long-enough",
    "webhook address": "T0HOOK/B1HOOK/hookpath",
    "source credentials": "source-hunter2",
    "row value": "Ada Lovelace",
}
DATABASE_PASSWORD = "db-hunter2/p@ss"
ROW_MESSAGE = f"not a number: {PLANTED['row value']}"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with one of everything, and logs with forbidden contents.

    A dataset, an account, a token, a webhook, a failed job.
    """
    folder = tmp_path / "workspace"
    monkeypatch.setenv("ODF_WORKSPACE", str(folder))
    monkeypatch.setenv("ODF_DOCTOR_CHECK_S_MAX", "30")
    assert main(["init"]) == 0
    (tmp_path / "root.yaml").write_text(ROOT)
    assert main(["add", str(tmp_path / "root.yaml")]) == 0
    return folder


@pytest.fixture
def secrets(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Everything secret that the node has, by what it is.

    Settings with secrets are set.
    """
    with open_node(read_settings(), engine=MemoryEngine(workspace / "exchange")) as node:
        entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
        made = node.webhooks.subscribe(
            entry, url=f"https://1.1.1.1/{PLANTED['webhook address']}", secret=None, by=node.operator
        )
    capsys.readouterr()
    assert main(["token", "create", "ci"]) == 0
    token = capsys.readouterr().out.strip()
    key = (workspace / "dataset-keys.key").read_bytes()
    found = {
        **PLANTED,
        "node token": (workspace / "node.token").read_text(),
        "access token": token,
        "webhook secret": secret_text(made.secret).removeprefix("whsec_"),
        "sealing key": key.hex(),
        "sealing key in base64": base64.b64encode(key).decode(),
    }
    for name, value in {
        "ODF_REDIS_URL": f"redis://odf:{PLANTED['Redis password']}@127.0.0.1:1/0",
        "ODF_OBJECTS_URL": "s3://bucket/node",
        "ODF_S3_ENDPOINT_URL": "http://127.0.0.1:1",
        "ODF_S3_ACCESS_KEY": PLANTED["S3 access key"],
        "ODF_S3_SECRET_KEY": PLANTED["S3 secret key"],
        "ODF_S3_ATTEMPTS_MAX": "1",
        "ODF_ENGINE_ADDRESS": "127.0.0.1:1",
        "ODF_ENGINE_TOKEN": PLANTED["engine token"],
        "ODF_REMOTE_TOKENS": json.dumps({"https://u:origin-hunter2@example.org": PLANTED["remote token"]}),
        "ODF_PUBLIC_URL": "https://odf.example.org",
        "ODF_OIDC_PROVIDERS": json.dumps(
            {"corp": {"issuer": "https://i.example.org", "client_id": "c", "client_secret": PLANTED["client secret"]}}
        ),
    }.items():
        monkeypatch.setenv(name, value)
    return {**found, "origin": "origin-hunter2"}


def fail_jobs(workspace: Path) -> None:
    """One whose error quotes a row, and one that gives a URL with credentials."""
    database = Database(workspace / "odf.sqlite3")
    jobs, now = SqlJobs(database), Instant.parse("2026-01-01T00:00:00Z")
    outside = Determinate(f"https://u:{PLANTED['source credentials']}@example.org/a?key=b does not answer")
    for number, error in enumerate(
        [json.dumps({"code": "invalid-data", "message": ROW_MESSAGE}), json.dumps(problem_document(outside))]
    ):
        request = json.dumps({"body": PLANTED["row value"]})
        jobs.enqueue(
            NewJob(id=f"job-{number}", kind=JobKind.PUSH, account="local", dataset_id=None, request=request), now=now
        )
        lease = jobs.lease_one(f"job-{number}", "w", now=now, lease_ms=10_000)
        assert lease is not None
        jobs.fail(lease, now=now, error=error)
    database.close()


def unpacked(file: Path) -> dict[str, str]:
    with zipfile.ZipFile(file) as archive:
        return {
            name.removeprefix("odf-support/"): archive.read(name).decode("utf-8", "strict")
            for name in archive.namelist()
        }


def value_of(files: dict[str, str], variable: str) -> Any:
    (found,) = [one["value"] for one in json.loads(files["settings.json"]) if one["variable"] == variable]
    return found


def test_no_secret_is_in_it(workspace: Path, secrets: dict[str, str], tmp_path: Path) -> None:
    fail_jobs(workspace)
    # Of these the node knows nothing outside its database: they are hidden where they are quoted, named or in a URL.
    stored = {"account password", "row value", "webhook address", "source credentials", "webhook secret", "origin"}
    lines = [
        f"2026-01-01 worker WARNING odfabric: {name} '{secret}'"
        if name in stored
        else f"2026-01-01 api: it is {secret}."
        for name, secret in secrets.items()
    ]
    lines += [
        f"2026-01-01 worker WARNING odfabric: password={PLANTED['account password']}",
        f"2026-01-01 worker WARNING odfabric: https://u:{PLANTED['source credentials']}@e.org/{PLANTED['webhook address']}",
        f"2026-01-01 worker WARNING odfabric: engine says {PLANTED['engine token']} and {secrets['access token']}",
        "2026-01-01 worker WARNING odfabric: the disk is full",
    ]
    (workspace / "worker.log").write_text("\n".join(lines) + "\n")
    (workspace / "engine.log").write_text(PLANTED["row value"])
    out = tmp_path / "bundle.zip"
    assert main(["support-bundle", "--out", str(out)]) == 0

    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    files = unpacked(out)
    assert set(files) == {
        *("README.txt", "doctor.json", "versions.json", "settings.json", "tables.json", "jobs.json", "flows.json"),
        *("duties.json", "metrics.txt", "worker.log"),
    }
    told = "\n".join([*files, *files.values()])
    forms = {
        f"{name}, {form}": text
        for name, secret in secrets.items()
        for form, text in {
            "as it is": secret,
            "in a URL": quote(secret, safe=""),
            "in JSON": json.dumps(secret)[1:-1],
            "in base64": base64.b64encode(secret.encode()).decode().rstrip("="),
        }.items()
    }
    assert [name for name, text in forms.items() if text in told] == []
    assert "the disk is full" in files["worker.log"]
    jobs = {job["id"]: job["error"] for job in json.loads(files["jobs.json"])}
    assert jobs["job-0"] == {"code": "invalid-data"}
    assert jobs["job-1"]["message"] == "https://example.org does not answer"
    assert json.loads(files["tables.json"])["subscriptions"]["rows"] == 1
    assert value_of(files, "ODF_S3_SECRET_KEY") == value_of(files, "ODF_ENGINE_TOKEN") == "set"
    assert 'odf_duty_failing{duty="relay"}' not in files["metrics.txt"]
    assert "process_resident_memory_bytes" in files["metrics.txt"]


def test_a_password_of_the_database_is_not_in_it(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    password = DATABASE_PASSWORD
    monkeypatch.setenv("ODF_DATABASE_URL", f"postgresql://odf:{quote(password, safe='')}@127.0.0.1:1/odf")
    (workspace / "api.log").write_text(f"2026-01-01 api ERROR cannot connect with {password}\n")
    out = tmp_path / "bundle.zip"
    assert main(["support-bundle", "--out", str(out)]) == 0
    files = unpacked(out)
    assert [name for name, text in files.items() if password in text or quote(password, safe="") in text] == []
    assert json.loads(files["jobs.json"])["notGathered"].startswith("the database failed")
    doctor = {one["name"]: one["outcome"] for one in json.loads(files["doctor.json"])}
    assert doctor["database"] == "broken"


def test_it_is_bounded_and_replaces_no_file(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ODF_SUPPORT_FILE_BYTES_MAX", "2048")
    (workspace / "api.log").write_text("begin\n" + "a line of a log\n" * 10_000)
    (workspace / "engine.log").write_text("engine\n")
    out = tmp_path / "bundle.zip"
    capsys.readouterr()
    assert main(["-o", "json", "support-bundle", "--out", str(out), "--engine-log"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(out), "bytes": out.stat().st_size}
    files = unpacked(out)
    assert max(len(text.encode()) for text in files.values()) <= 2048
    assert set(files["api.log"].splitlines()) == {"a line of a log"}
    assert files["engine.log"] == "engine\n"
    assert main(["support-bundle", "--out", str(out)]) == 1
    assert "is there already" in capsys.readouterr().err
