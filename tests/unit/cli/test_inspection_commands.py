"""`odf doctor` on a healthy workspace, and on an unhealthy one."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from odfabric.adapters.sql.tables.schema import SCHEMA_REVISION
from odfabric.cli.app import main
from odfabric.settings import Settings
from odfabric.wiring.embedded import engine_launcher
from tests.support.waiting import free_port
from tests.usecases.manifests import ROOT

NAMES = [
    *("versions", "workspace", "disk", "inodes", "secret-files", "database", "clock", "sealing-key"),
    *("engine", "engine-walls", "workers"),
]


class Command:
    """`odf` on one workspace with a dataset."""

    def __init__(self, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace = workspace
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        assert main(["--workspace", str(self.workspace), *arguments]) == code
        out, self.err = self._capsys.readouterr()
        return out

    def findings(self, *, code: int) -> dict[str, dict[str, Any]]:
        told = json.loads(self("doctor", "--json", code=code))
        assert told["ok"] == (code == 0)
        return {finding["name"]: finding for finding in told["findings"]}

    def one(self, name: str, *, code: int = 1) -> tuple[str, str, str | None]:
        found = self.findings(code=code)[name]
        return found["outcome"], found["seen"], found["remedy"]

    @property
    def database(self) -> Path:
        return self.workspace / "odf.sqlite3"


@pytest.fixture
def odf(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    # A disk of the machine that runs tests may be nearly full, its memory and its namespaces taken.
    monkeypatch.setenv("ODF_DOCTOR_FREE_MIB_MIN", "1")
    monkeypatch.setenv("ODF_DOCTOR_FREE_SHARE_MIN", "0")
    monkeypatch.setenv("ODF_DOCTOR_CHECK_S_MAX", "60")
    command = Command(tmp_path / "workspace", capsys)
    command("init")
    (tmp_path / "root.yaml").write_text(ROOT)
    command("add", str(tmp_path / "root.yaml"))
    return command


def test_a_workspace_that_is_well(odf: Command) -> None:
    before = sorted(path.name for path in odf.workspace.iterdir())
    found = odf.findings(code=0)
    assert list(found) == NAMES
    assert {found[name]["outcome"] for name in NAMES if not name.startswith("engine")} == {"ok"}
    assert found["engine"]["seen"].startswith("none runs; one can be started: Java ")
    assert found["sealing-key"]["seen"] == "dataset-keys.key opens secrets of the database"
    assert sorted(path.name for path in odf.workspace.iterdir()) == before
    lines = odf("doctor").splitlines()
    assert [line.split()[1] for line in lines if "->" not in line] == [f"{name}:" for name in NAMES]


def test_what_is_broken_is_told_with_a_remedy(odf: Command) -> None:
    (odf.workspace / "node.token").chmod(0o644)
    remedy = f"chmod 600 {odf.workspace}/node.token"
    assert odf.one("secret-files") == ("broken", "others may read node.token (mode 644)", remedy)
    text = odf("doctor", code=1)
    assert "BROKEN  secret-files:" in text
    assert f"-> {remedy}\n" in text


def test_a_folder_that_others_write(odf: Command) -> None:
    odf.workspace.chmod(0o777)
    assert odf.one("workspace") == ("broken", "others may write to it (mode 777)", f"chmod 700 {odf.workspace}")


@pytest.mark.parametrize("folder", ["/sys", "/proc"])
def test_a_folder_that_cannot_be_written(odf: Command, folder: str) -> None:
    odf.workspace = Path(folder)  # nobody may make files there, not even root
    outcome, seen, remedy = odf.one("workspace")
    assert (outcome, seen.partition(":")[0]) == ("broken", "the folder cannot be written")
    assert remedy is not None
    assert odf.one("database") == ("broken", "there is no database file", "odf init")


def test_no_workspace_at_all(odf: Command, tmp_path: Path) -> None:
    odf.workspace = tmp_path / "absent"
    found = odf.findings(code=1)
    assert [found[name]["outcome"] for name in ("workspace", "disk", "database")] == ["broken"] * 3
    assert [found[name]["outcome"] for name in ("clock", "sealing-key", "workers")] == ["warning"] * 3
    assert not odf.workspace.exists()


def test_a_full_disk(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_DOCTOR_FREE_MIB_MIN", str(1 << 40))
    outcome, seen, remedy = odf.one("disk")
    assert (outcome, "MiB free" in seen, remedy is not None) == ("broken", True, True)


def test_a_damaged_database(odf: Command) -> None:
    for path in odf.workspace.glob("odf.sqlite3-*"):
        path.unlink()
    odf.database.write_bytes(b"\0" * odf.database.stat().st_size)
    found = odf.findings(code=1)
    assert (found["database"]["outcome"], found["database"]["seen"]) == ("broken", "the database file is damaged")
    assert found["workspace"]["outcome"] == "ok"
    assert "odf system rebuild" in found["database"]["remedy"]


@pytest.mark.parametrize(
    ("revision", "outcome", "code", "says"),
    [("9999", "warning", 0, "newer than this release's"), ("0001", "broken", 1, "this release needs")],
)
def test_the_schema_of_another_release(odf: Command, revision: str, outcome: str, code: int, says: str) -> None:
    with sqlite3.connect(odf.database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()
    found = odf.one("database", code=code)
    assert (found[0], f"revision {revision}, {says}" in found[1]) == (outcome, True)
    assert SCHEMA_REVISION in found[1]


def test_a_key_that_is_lost(odf: Command) -> None:
    (odf.workspace / "dataset-keys.key").unlink()
    outcome, seen, _ = odf.one("sealing-key")
    assert (outcome, seen.partition(":")[0]) == ("broken", "dataset-keys.key does not open secrets of the database")
    assert not (odf.workspace / "dataset-keys.key").exists()


def test_a_clock_that_was_ahead(odf: Command) -> None:
    with sqlite3.connect(odf.database) as connection:
        connection.execute("UPDATE heads SET system_time = '9999-01-01T00:00:00.000000000Z'")
    connection.close()
    outcome, seen, _ = odf.one("clock", code=0)
    assert (outcome, "in the future" in seen) == ("warning", True)


def test_an_engine_that_is_not_there(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    outcome, seen, remedy = odf.one("engine")
    assert (outcome, seen, remedy is not None) == ("broken", "JAVA_HOME names no Java runtime", True)
    monkeypatch.setenv("ODF_ENGINE_ADDRESS", f"127.0.0.1:{free_port()}")
    monkeypatch.setenv("ODF_ENGINE_TOKEN", "engine-secret")
    outcome, _, remedy = odf.one("engine")
    assert (outcome, remedy) == ("broken", "start the engine, or correct ODF_ENGINE_ADDRESS and ODF_ENGINE_TOKEN")
    assert engine_launcher(Settings(workspace=odf.workspace)).running() is None


def test_settings_that_cannot_be_read(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_LEASE_S", "soon")
    found = odf.findings(code=1)
    assert list(found) == ["settings"]
    assert "ODF_LEASE_S" in found["settings"]["seen"]


def test_it_is_not_asked_over_http(odf: Command) -> None:
    odf("--node", "http://127.0.0.1:1", "doctor", code=1)
    assert "looks at the machine that it runs on" in odf.err
    odf("--node", "http://127.0.0.1:1", "support-bundle", code=1)
