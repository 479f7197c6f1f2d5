"""`odf system rebuild` and `odf system collect`: their reports."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.cli.app import main
from odfabric.cli.backends.backend import PushFile
from odfabric.cli.backends.workspace import WorkspaceBackend
from odfabric.settings import Settings
from odfabric.wiring import open_node
from tests.usecases.manifests import ROOT

ROWS = '{"event_time": "2026-01-01T00:00:00Z", "city": "Delft", "value": 1}\n'


class Command:
    """`odf` on one workspace with two datasets."""

    def __init__(self, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace = workspace
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        assert main(["--workspace", str(self.workspace), *arguments]) == code
        out, self.err = self._capsys.readouterr()
        return out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "-o", "json", code=code))

    def push(self) -> None:
        path = self.workspace.parent / "rows.ndjson"
        path.write_text(ROWS)
        engine = MemoryEngine(self.workspace / "exchange")
        with open_node(Settings(workspace=self.workspace), engine=engine) as node:
            push = PushFile(
                path=str(path), name=str(path), source_name=None, media_type=None, event_time=None, idempotency_key="k"
            )
            WorkspaceBackend(node, listener=lambda _: None).push("readings", push)

    def lose_database(self) -> None:
        for file in self.workspace.glob("odf.sqlite3*"):
            file.unlink()

    def folder(self, name: str) -> Path:
        (found,) = [
            path.parent.parent for path in self.workspace.glob("objects/*/info/alias") if path.read_text() == name
        ]
        return found


@pytest.fixture
def odf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    command = Command(tmp_path / "workspace", capsys)
    command("init")
    (tmp_path / "root.yaml").write_text(ROOT + "---\n" + ROOT.replace("readings", "others"))
    command("add", str(tmp_path / "root.yaml"))
    command.push()
    return command


def test_a_lost_database_is_made_anew(odf: Command) -> None:
    listed, log = odf.json("list"), odf.json("log", "readings")
    odf.lose_database()
    odf("list", code=1)
    assert sorted(odf("system", "rebuild").splitlines()) == [
        "local/others: rebuilt, 2 blocks",
        f"local/readings: rebuilt, {len(log)} blocks",
    ]
    assert odf.json("list") == listed
    assert odf.json("log", "readings") == log
    again = odf.json("system", "rebuild")
    assert again["ok"] is True
    assert {one["outcome"] for one in again["datasets"]} == {"up to date"}


def test_what_is_damaged_is_named_and_the_rest_comes_back(odf: Command) -> None:
    (damaged, *_) = [one["hash"] for one in odf.json("log", "readings")]
    block = odf.folder("local/readings") / "blocks" / damaged
    block.write_bytes(block.read_bytes()[:-1] + b"!")
    odf.lose_database()
    told = odf("system", "rebuild", code=1)
    assert "local/others: rebuilt, 2 blocks" in told
    assert "local/readings: refused" in told
    assert f"object {damaged}" in told
    assert [one["alias"] for one in odf.json("list")] == ["local/others"]
    (problem,) = [one["problem"] for one in odf.json("system", "rebuild", code=1)["datasets"] if "problem" in one]
    assert (problem["code"], problem["object"]) == ("corrupt", damaged)


def test_unpublished_blocks_are_shown_and_taken_on_request(odf: Command) -> None:
    head, older = [one["hash"] for one in odf.json("log", "readings")][:2]
    (odf.folder("local/readings") / "refs" / "head").write_text(older)
    odf.lose_database()
    told = odf("system", "rebuild")
    assert "1 block beyond refs/head, not published, left out; --adopt takes them" in told
    assert head in told
    assert odf.json("log", "readings")[0]["hash"] == older
    assert "taken" in odf("system", "rebuild", "--adopt")
    assert odf.json("log", "readings")[0]["hash"] == head


def test_it_is_refused_where_it_cannot_work(odf: Command, tmp_path: Path) -> None:
    odf("--node", "http://127.0.0.1:9", "system", "rebuild", code=1)
    assert "not over HTTP" in odf.err
    odf("--workspace", str(tmp_path / "nothing"), "system", "rebuild", code=1)
    assert "workspace not found" in odf.err
    assert not (tmp_path / "nothing").exists()


def test_an_empty_workspace_has_nothing_to_rebuild(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odf = Command(tmp_path / "empty", capsys)
    odf("init")
    assert odf("system", "rebuild") == ""
    assert "no datasets" in odf.err


def test_litter_is_listed_and_then_deleted(odf: Command) -> None:
    folder = odf.folder("local/readings")
    lost = folder / "data" / f"f1620{'0' * 64}"
    lost.write_bytes(b"x" * 100)
    nothing = {"dryRun": False, "objects": [], "bytes": 0, "leftAlone": {}, "leftovers": 0}
    assert odf.json("system", "collect") == nothing
    two_days_ago = time.time() - 48 * 3600
    for path in folder.glob("*/*"):
        os.utime(path, (two_days_ago, two_days_ago))
    key = f"{folder.name}/data/{lost.name}"
    told = odf("system", "collect", "--dry-run")
    assert f"         100  {key}\n" in told
    assert "1 of " in told
    assert "would be deleted, 100 bytes" in told
    assert lost.exists()
    assert odf.json("system", "collect")["objects"] == [{"key": key, "bytes": 100}]
    assert not lost.exists()
    assert len(list(folder.glob("blocks/*"))) == len(odf.json("log", "readings"))


def test_uploads_and_writes_that_nobody_will_finish_go_with_it(odf: Command) -> None:
    folder = odf.folder("local/readings")
    upload, write = odf.workspace / "objects/staging" / ("0" * 32), folder / "data/.pending-0123456789abcdef"
    upload.parent.mkdir(exist_ok=True)
    for path in (upload, write):
        path.write_bytes(b"x")
    assert odf.json("system", "collect")["leftovers"] == 0, "they may be under way"
    two_days_ago = time.time() - 48 * 3600
    for path in (upload, write):
        os.utime(path, (two_days_ago, two_days_ago))
    assert odf.json("system", "collect", "--dry-run")["leftovers"] is None
    assert upload.exists()
    assert "; 2 leftovers removed" in odf("system", "collect")
    assert not upload.exists()
    assert not write.exists()


def test_what_the_database_does_not_know_is_told_and_left_alone(odf: Command) -> None:
    odf.lose_database()
    odf("system", "collect", code=1)
    assert "workspace not found" in odf.err
    odf("init")
    odf("system", "collect")
    assert odf.err.count("`odf system rebuild` takes it back") == 2
    assert len(odf.json("system", "collect")["leftAlone"]) == 2
    assert len(odf.json("system", "rebuild")["datasets"]) == 2


def test_objects_that_are_shared_are_collected_only_alone(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_HEADS", "objects")
    odf("system", "collect", code=1)
    assert "--alone" in odf.err
    assert "0 of" in odf("system", "collect", "--dry-run")
    assert "0 of" in odf("system", "collect", "--alone")
