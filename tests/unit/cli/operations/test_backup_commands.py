"""`odf backup` and `odf restore`: what returns, and messages if not all does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.cli.app import main
from odfabric.cli.backends.backend import PushFile, VerifyWish
from odfabric.cli.backends.workspace import WorkspaceBackend
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.settings import read_settings
from odfabric.wiring import Node, open_node
from tests.support.servers.s3 import S3Server
from tests.usecases.manifests import ROOT


class Command:
    """`odf` on workspaces below one folder, without an engine of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, workspace: str, *arguments: str, code: int = 0) -> str:
        assert main(["--workspace", str(self.folder / workspace), *arguments]) == code
        out, self.err = self._capsys.readouterr()
        return out

    def json(self, workspace: str, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(workspace, *arguments, "-o", "json", code=code))

    @contextmanager
    def opened(self, workspace: str) -> Iterator[Node]:
        settings = read_settings(workspace=self.folder / workspace)
        with open_node(settings, engine=MemoryEngine(settings.workspace / "exchange")) as node:
            yield node

    def push(self, workspace: str, city: str) -> None:
        path = self.folder / "rows.ndjson"
        path.write_text(json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": city, "value": 1}) + "\n")
        push = PushFile(
            path=str(path), name=str(path), source_name=None, media_type=None, event_time=None, idempotency_key=None
        )
        with self.opened(workspace) as node:
            WorkspaceBackend(node, listener=lambda _: None).push("readings", push)

    def seen(self, workspace: str) -> dict[str, Any]:
        """What a backup must restore: datasets, chains, webhooks with secrets, accounts."""
        with self.opened(workspace) as node:
            backend = WorkspaceBackend(node, listener=lambda _: None)
            entry = node.datasets.resolve(parse_dataset_ref("readings"))
            (webhook,) = node.webhooks.seen(entry, by=node.operator)
            return {
                "datasets": backend.datasets(),
                "log": backend.log("readings", limit=100),
                "webhook": webhook,
                "secrets": node.ports.subscriptions.secrets(webhook.id, now=node.ports.clock.now()),
                "accounts": [account.name for account in node.ports.accounts.page(limit=100)],
                "verified": backend.verify("readings", VerifyWish(replay=False)),
            }


@pytest.fixture
def odf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    command = Command(tmp_path, capsys)
    command("node", "init")
    (tmp_path / "root.yaml").write_text(ROOT + "---\n" + ROOT.replace("readings", "others"))
    command("node", "add", str(tmp_path / "root.yaml"))
    command.push("node", "Delft")
    with command.opened("node") as node:
        node.webhooks.subscribe(
            node.datasets.resolve(parse_dataset_ref("readings")),
            url="https://hooks.example/x",
            secret=None,
            by=node.operator,
        )
    return command


def objects_in(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in (place / "objects").rglob("*") if path.is_file()}


def test_a_node_comes_back_on_an_empty_machine(odf: Command) -> None:
    before = odf.seen("node")
    said = odf("node", "backup", str(odf.folder / "backups"))
    assert said.startswith("made the backup 20")
    odf("elsewhere", "restore", str(odf.folder / "backups"))
    assert odf.seen("elsewhere") == before
    odf.push("elsewhere", "Utrecht")
    assert odf.seen("elsewhere")["verified"]["ok"]
    for name in ("node.token", "dataset-keys.key"):
        assert (odf.folder / "elsewhere" / name).read_bytes() == (odf.folder / "node" / name).read_bytes()
        assert (odf.folder / "elsewhere" / name).stat().st_mode & 0o077 == 0
    assert (odf.folder / "backups").stat().st_mode & 0o077 == 0


def test_later_backups_copy_what_is_new_and_each_can_be_restored(odf: Command) -> None:
    place = odf.folder / "backups"
    odf("node", "backup", str(place))
    first, before = objects_in(place), odf.json("node", "log", "readings")
    written = {path: path.stat().st_mtime_ns for path in (place / "objects").rglob("*") if path.is_file()}
    odf.push("node", "Utrecht")
    odf("node", "backup", str(place))
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert len(objects_in(place) - first) == 2, "one block and one slice"

    listed = odf.json("node", "backup", str(place), "--list")
    odf("early", "restore", str(place), "--backup", listed[0]["id"])
    odf("late", "restore", str(place))
    assert odf.json("early", "log", "readings") == before
    assert odf.json("late", "log", "readings") == odf.json("node", "log", "readings")


def test_what_was_published_while_the_backup_was_made_comes_back_too(odf: Command) -> None:
    """Publications during a backup return too.

    Objects and refs are read after the rows: a head that moved meanwhile is taken from there.
    """
    place = odf.folder / "backups"
    odf("node", "backup", str(place))
    odf.push("node", "Utrecht")
    with odf.opened("node") as node:
        while node.background.relay_outbox():
            pass
    newer = odf.folder / "newer"
    odf("node", "backup", str(newer))
    rows_of_the_first(place, newer)
    odf("back", "restore", str(newer))
    assert odf.json("back", "log", "readings") == odf.json("node", "log", "readings")


def rows_of_the_first(old: Path, new: Path) -> None:
    """Make the backup in `new` one whose rows were read when that in `old` was made."""
    (before,), (after,) = (list(place.glob("backups/*")) for place in (old, new))
    manifests = [json.loads((folder / "manifest.json").read_text()) for folder in (before, after)]
    for name in [part for part in manifests[0]["parts"] if part.startswith("tables/")]:
        (after / name).chmod(0o600)
        (after / name).write_bytes((before / name).read_bytes())
        manifests[1]["parts"][name] = manifests[0]["parts"][name]
    manifests[1]["sequences"] = manifests[0]["sequences"]
    (after / "manifest.json").chmod(0o600)
    (after / "manifest.json").write_text(json.dumps(manifests[1]))


def test_a_place_that_others_read_shows_them_nothing(odf: Command) -> None:
    place = odf.folder / "shared"
    place.mkdir(mode=0o755)
    odf("node", "backup", str(place))
    assert place.stat().st_mode & 0o777 == 0o755
    assert {path.name: path.stat().st_mode & 0o077 for path in place.iterdir()} == {"backups": 0, "objects": 0}


def test_a_damaged_object_is_left_out_and_named(odf: Command) -> None:
    (data,) = (odf.folder / "node" / "objects").glob("*/data/*")
    damaged = bytearray(data.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    data.chmod(0o600)
    data.write_bytes(damaged)
    made = odf.json("node", "backup", str(odf.folder / "backups"), code=1)
    (key,) = made["damaged"]
    assert key.endswith(f"data/{data.name}")
    odf("back", "restore", str(odf.folder / "backups"), code=1)
    assert key in odf.err
    assert odf.json("back", "list") == odf.json("node", "list")


def test_a_backup_that_is_damaged_changes_nothing(odf: Command) -> None:
    place = odf.folder / "backups"
    odf("node", "backup", str(place))
    (table,) = place.glob("backups/*/tables/subscriptions.gz")
    table.chmod(0o600)
    table.write_bytes(table.read_bytes()[:-3] + b"xyz")
    odf("back", "restore", str(place), code=1)
    assert "tables/subscriptions.gz" in odf.err
    assert not (odf.folder / "back" / "odf.sqlite3").exists()
    assert not (odf.folder / "back" / "node.token").exists()


def test_an_interrupted_restore_is_run_again(odf: Command) -> None:
    place = odf.folder / "backups"
    odf("node", "backup", str(place))
    (data,) = (place / "objects").glob("*/data/*")
    data.rename(hidden := odf.folder / "hidden")
    odf("back", "restore", str(place), code=1)
    hidden.rename(data)
    odf("again", "restore", str(place))
    assert odf.seen("again") == odf.seen("node")


def test_a_node_that_is_there_is_not_overwritten(odf: Command) -> None:
    place = odf.folder / "backups"
    odf("node", "backup", str(place))
    before = odf.seen("node")
    odf("node", "restore", str(place), code=1)
    assert "restore into a new folder" in odf.err
    odf("other", "init")
    odf("other", "list")
    odf("other", "restore", str(place), code=1)
    assert odf.seen("node") == before


def test_places_that_are_none_are_refused(odf: Command) -> None:
    odf("node", "backup", str(odf.folder / "node" / "backups"), code=1)
    assert "lost with it" in odf.err
    odf("back", "restore", str(odf.folder / "nowhere"), code=1)
    assert "folder not found" in odf.err
    (odf.folder / "empty").mkdir()
    odf("back", "restore", str(odf.folder / "empty"), code=1)
    assert "`odf backup` makes one" in odf.err
    odf("nothing", "backup", str(odf.folder / "backups"), code=1)
    assert not (odf.folder / "backups").exists()


def test_an_unfinished_backup_is_not_taken_for_one(odf: Command) -> None:
    place = odf.folder / "backups"
    odf("node", "backup", str(place))
    (manifest,) = place.glob("backups/*/manifest.json")
    manifest.unlink()
    assert odf.json("node", "backup", str(place), "--list") == []
    odf("back", "restore", str(place), code=1)


def test_a_workspace_moves_to_servers_and_back(
    odf: Command, postgres_url: str, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = odf.seen("node")
    odf("node", "backup", str(odf.folder / "backups"))
    servers = {
        "ODF_DATABASE_URL": postgres_url,
        "ODF_OBJECTS_URL": f"s3://{bucket}/node",
        "ODF_S3_ENDPOINT_URL": s3.endpoint,
        "ODF_S3_ACCESS_KEY": s3.access_key,
        "ODF_S3_SECRET_KEY": s3.secret_key,
    }
    with monkeypatch.context() as there:
        set_all(there, servers)
        odf("served", "restore", str(odf.folder / "backups"))
        assert odf.seen("served") == before
        odf.push("served", "Utrecht")
        after = odf.seen("served")
        odf("served", "backup", f"s3://{bucket}/backups")
    with monkeypatch.context() as here:
        set_all(here, {name: value for name, value in servers.items() if "S3" in name})
        odf("back", "restore", f"s3://{bucket}/backups")
        assert odf.seen("back") == after
        odf.push("back", "Leiden")
        assert odf.seen("back")["verified"]["ok"]


def set_all(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
