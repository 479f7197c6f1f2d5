"""`odf system rotate-key` and `rotate-signing-key`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.cli.app import main
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.settings import Settings
from odfabric.wiring import open_node
from odfabric.wiring.places.keys import node_sealing
from tests.usecases.manifests import ROOT

KINDS = (
    "dataset keys",
    "webhook secrets",
    "old webhook secrets",
    "dataset keys of commits under way",
    "signing keys",
    "secrets of sources",
)


class Command:
    """`odf` on one workspace with a dataset and a subscription."""

    def __init__(self, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace = workspace
        self.settings = Settings(workspace=workspace)
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        assert main(["--workspace", str(self.workspace), *arguments]) == code
        out, self.err = self._capsys.readouterr()
        return out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "-o", "json", code=code))

    def subscribe(self) -> str:
        with open_node(self.settings, engine=MemoryEngine(self.workspace / "exchange")) as node:
            entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
            return node.webhooks.subscribe(
                entry, url="https://1.1.1.1/hook", secret=None, by=node.operator
            ).subscription.id


@pytest.fixture
def odf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    command = Command(tmp_path / "workspace", capsys)
    command("init")
    (tmp_path / "root.yaml").write_text(ROOT)
    command("add", str(tmp_path / "root.yaml"))
    return command


def test_it_says_what_was_sealed_and_that_the_old_key_is_gone(odf: Command) -> None:
    key_file = odf.workspace / "dataset-keys.key"
    before = key_file.read_bytes()
    assert odf("system", "rotate-key").splitlines() == [
        "dataset keys: 1 sealed with the new key",
        "webhook secrets: up to date",
        "old webhook secrets: up to date",
        "dataset keys of commits under way: up to date",
        "signing keys: up to date",
        "secrets of sources: up to date",
        "old keys removed: 1",
    ]
    odf.subscribe()
    assert odf.json("system", "rotate-key") == {
        "ok": True,
        "resumed": False,
        "sealed": dict(zip(KINDS, (1, 1, 0, 0, 0, 0), strict=True)),
        "keysDropped": 1,
        "unopened": [],
    }
    assert len(key_file.read_bytes()) == 32
    assert key_file.read_bytes() != before
    assert odf.err == ""


def test_an_interrupted_one_goes_on(odf: Command) -> None:
    node_sealing(odf.settings).begin()
    assert "old keys removed: 1" in odf("system", "rotate-key")
    assert "an interrupted rotation goes on" in odf.err
    odf("system", "rotate-key")
    assert "interrupted" not in odf.err


def test_a_secret_that_no_key_opens_is_named_with_what_to_do(odf: Command) -> None:
    subscription = odf.subscribe()
    (odf.workspace / "dataset-keys.key").write_bytes(bytes(range(32)))
    told = odf("system", "rotate-key", code=1)
    assert "webhook secrets: 0 sealed with the new key" in told
    assert f"webhook secrets, {subscription}: a secret is sealed with key " in told
    assert "a backup of the database needs the key file of its time" in told
    document = odf.json("system", "rotate-key", code=1)
    assert document["ok"] is False
    assert [(one["kind"], "does not have" in one["message"]) for one in document["unopened"]] == [
        ("dataset keys", True),
        ("webhook secrets", True),
    ]
    assert document["unopened"][1]["of"] == subscription


def test_a_key_file_that_others_may_read_is_refused(odf: Command) -> None:
    (odf.workspace / "dataset-keys.key").chmod(0o644)
    odf("system", "rotate-key", code=1)
    assert "chmod 600 dataset-keys.key" in odf.err


def test_it_is_refused_where_it_cannot_work(odf: Command, tmp_path: Path) -> None:
    odf("--node", "http://127.0.0.1:9", "system", "rotate-key", code=1)
    assert "not over HTTP" in odf.err
    odf("--workspace", str(tmp_path / "nothing"), "system", "rotate-key", code=1)
    assert "workspace not found" in odf.err
    assert not (tmp_path / "nothing").exists()


def test_a_new_key_signs_and_is_sealed_with_the_others(odf: Command) -> None:
    first = odf.json("system", "rotate-signing-key")
    second = odf("system", "rotate-signing-key")
    assert first["keyId"] not in second
    with open_node(odf.settings, engine=MemoryEngine(odf.workspace / "exchange")) as node:
        ids = [key.id for key in node.webhooks.signature.published()]
    assert ids == [second.strip().removeprefix("signing key: "), first["keyId"]]
    # Of the retired key nothing is left that could be sealed.
    assert odf.json("system", "rotate-key")["sealed"]["signing keys"] == 1
    with open_node(odf.settings, engine=MemoryEngine(odf.workspace / "exchange")) as node:
        current = node.ports.signing_keys.current()
    assert current is not None
    assert current[0].id == ids[0]


def test_a_signing_key_belongs_to_a_workspace(odf: Command, tmp_path: Path) -> None:
    odf("--workspace", str(tmp_path / "nothing"), "system", "rotate-signing-key", code=1)
    assert "workspace not found" in odf.err


def test_a_key_file_in_use_is_an_outside_failure(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_KEY_FILE_WAIT_S_MAX", "0")
    with node_sealing(odf.settings).kept():
        odf("system", "rotate-key", code=3)
    assert "the key file is in use" in odf.err
    odf("system", "rotate-key")


@pytest.mark.parametrize("portion", [1, 2, 500])
def test_portions_of_any_size(odf: Command, monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    monkeypatch.setenv("ODF_SEAL_PORTION_MAX", str(portion))
    for _ in range(3):
        odf.subscribe()
    assert odf.json("system", "rotate-key")["sealed"] == dict(zip(KINDS, (1, 3, 0, 0, 0, 0), strict=True))


def test_a_copy_of_the_key_file_is_rotated_for_a_node_that_is_stopped(
    odf: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copied key file is rotated for a stopped node.

    Where the file is mounted and cannot be replaced: a folder with the copy is workspace enough.
    """
    odf.subscribe()
    copied = tmp_path / "rotated"
    copied.mkdir()
    key_file = odf.workspace / "dataset-keys.key"
    (copied / key_file.name).write_bytes(key_file.read_bytes())
    (copied / key_file.name).chmod(0o600)
    monkeypatch.setenv("ODF_DATABASE_URL", f"sqlite:///{odf.workspace}/odf.sqlite3")
    told = odf("--workspace", str(copied), "system", "rotate-key")
    assert "webhook secrets: 1 sealed with the new key" in told
    monkeypatch.delenv("ODF_DATABASE_URL")
    key_file.write_bytes((copied / key_file.name).read_bytes())
    assert odf.json("system", "rotate-key")["ok"] is True
