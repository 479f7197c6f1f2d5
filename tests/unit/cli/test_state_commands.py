"""`odf state` and `odf system index`: what a person at the command sees."""

from __future__ import annotations

import json
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

LEDGER = ROOT.replace("merge: {kind: Append}", "merge: {kind: Ledger, primaryKey: [city]}")
ROWS = 5000


class Command:
    """`odf` on one workspace with a dataset that has an index and one that has none."""

    def __init__(self, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace = workspace
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        assert main(["--workspace", str(self.workspace), *arguments]) == code
        out, self.err = self._capsys.readouterr()
        return out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "-o", "json", code=code))

    def push(self, *cities: str, **given: Any) -> None:
        path = self.workspace.parent / "rows.ndjson"
        rows = [{"event_time": "2026-01-01T00:00:00Z", "city": city, "value": 1} for city in cities]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        engine = MemoryEngine(self.workspace / "exchange")
        with open_node(Settings(workspace=self.workspace, **given), engine=engine) as node:
            push = PushFile(
                path=str(path), name=str(path), source_name=None, media_type=None, event_time=None, idempotency_key=None
            )
            WorkspaceBackend(node, listener=lambda _: None).push("readings", push)

    def parts(self) -> list[Path]:
        return [path for path in self.workspace.glob("persist/**/*") if path.is_file() and "rollup" not in path.name]

    def index(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        (found,) = [
            one for one in self.json("system", "index", *arguments, code=code) if one["alias"] == "local/readings"
        ]
        return dict(found)


@pytest.fixture
def odf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    command = Command(tmp_path / "workspace", capsys)
    command("init")
    (tmp_path / "root.yaml").write_text(LEDGER + "---\n" + ROOT.replace("readings", "others"))
    command("add", str(tmp_path / "root.yaml"))
    command.push(*(f"c{number:05}" for number in range(ROWS)))
    return command


def test_indexes_are_listed_and_made(odf: Command) -> None:
    listed = odf.json("system", "index")
    assert {one["alias"]: (one["mode"], one["note"]) for one in listed} == {
        "local/others": ("off", "no source merges by key"),
        "local/readings": ("keys", None),
    }
    blocks = odf_blocks(odf)
    assert (odf.index()["upper"], odf.index()["behind"]) == (None, blocks)
    made = odf.index("--rebuild")
    assert (made["upper"], made["behind"], made["rows"]) == (blocks, 0, ROWS)
    assert odf.index("readings", "--verify")["problem"] is None
    odf.push("new", "c00001")
    assert odf.index()["behind"] == 1
    assert odf.index("--drop")["upper"] is None
    assert "local/readings" in odf("system", "index")


def test_a_flipped_byte_is_found_and_healed(odf: Command) -> None:
    odf.index("--rebuild")
    (part,) = odf.parts()
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert "damaged" in odf.index("--verify", code=1)["problem"]
    odf.index("readings", "--rebuild")
    assert odf.index("--verify")["problem"] is None
    odf.push("new", "c00001")
    assert odf.json("state", "readings")["rows"] == ROWS + 1


def test_a_state_is_shown_with_its_block(odf: Command) -> None:
    (head, *_) = [one["hash"] for one in odf.json("log", "readings")]
    odf.push("a new one")
    found = odf.json("state", "readings", "--as-at", head, "-n", "2")
    assert (found["block"], found["rows"]) == (head, ROWS)
    assert [row["city"] for row in found["data"]] == ["c00000", "c00001"]
    again = odf.json("state", "readings", "--as-at", found["systemTime"], "--skip", "1", "-n", "1")
    assert [row["city"] for row in again["data"]] == ["c00001"]
    held = odf.json("state", "readings", "--as-of", "2025-12-31T23:59:59Z")
    assert (held["rows"], held["asOf"]) == (0, "2025-12-31T23:59:59Z")
    tail = odf.json("tail", "readings", "--as-at", head, "-n", "1")
    assert [row["city"] for row in tail] == [f"c{ROWS - 1:05}"]
    shown = odf("state", "readings", "-n", "1")
    assert "a new one" in shown
    assert f"1 of {ROWS + 1} rows after block" in odf.err


def test_a_worker_brings_an_index_forward_and_merges_read_it(odf: Command) -> None:
    odf.push("new", index="off")
    settings = Settings(workspace=odf.workspace, index_tail_blocks_max=1)
    engine = MemoryEngine(odf.workspace / "exchange")
    with open_node(settings, engine=engine) as node:
        entry = node.datasets.page(after=None, limit=2)[1]
        node.indexes.follow(entry.id)
        run = node.jobs.lease("worker")
        assert run is not None
        node.jobs.run(run)
        assert node.jobs.get(run.job_id).result == json.dumps({"dataset": str(entry.id), "upper": odf_blocks(odf)})
    assert odf.index()["behind"] == 0


def odf_blocks(odf: Command) -> int:
    return len(odf.json("log", "readings", "-n", "100"))


def test_a_command_brings_an_index_forward_by_itself(odf: Command) -> None:
    odf.push("new", index_tail_blocks_max=1)
    assert odf.index()["behind"] == 0
    with open_node(Settings(workspace=odf.workspace)) as node:
        assert node.ports.jobs.page(unfinished_only=True, limit=10) == []


WRONG: tuple[tuple[str, ...], ...] = (
    ("state", "readings", "--as-at", "yesterday"),
    ("state", "readings", "--as-at", "f1620"),
    ("state", "readings", "--as-of", "nothing"),
    ("tail", "readings", "--as-at", "nothing"),
    ("state", "missing"),
    ("system", "index", "missing"),
    ("system", "index", "--verify", "--drop"),
    ("--node", "http://127.0.0.1:9", "system", "index"),
)


def test_what_cannot_be_done_is_refused(odf: Command) -> None:
    for arguments in WRONG:
        odf(*arguments, code=1)
        assert odf.err.startswith("odf: "), arguments
