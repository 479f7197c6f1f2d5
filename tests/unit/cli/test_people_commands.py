"""Commands about people and rights on a workspace, whose user is its operator."""

from __future__ import annotations

import io
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from odfabric.cli.commands.node_commands import first_admin_link
from odfabric.errors import NotFound
from odfabric.settings import Settings, read_settings
from odfabric.usecases.people.invitations import accept
from odfabric.wiring import open_node
from tests.support.people_contract import PASSWORD, Command, Enrol, PeopleCommandsContract
from tests.usecases.manifests import ROOT


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def odf(workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("ODF_CREDENTIALS", str(workspace.parent / "credentials.json"))
    monkeypatch.setenv("ODF_PUBLIC_URL", "https://odf.example.org/")
    monkeypatch.setenv("ODF_PASSWORD_MEMORY_MIB", "19")
    command = Command(capsys, "--workspace", str(workspace))
    command("init")
    (workspace.parent / "root.yaml").write_text(ROOT)
    command("add", str(workspace.parent / "root.yaml"))
    return command


@pytest.fixture
def enrol(workspace: Path) -> Enrol:
    def follow(url: str) -> None:
        found = re.fullmatch(r"https://odf\.example\.org/setup\?code=([\w%=-]+)", url)
        assert found is not None, url
        with open_node(Settings(workspace=workspace)) as node:
            code = unquote(found[1])
            accept(code, name=None, display_name=None, password=PASSWORD, address=None, ports=node.people)

    return follow


class TestOnAWorkspace(PeopleCommandsContract):
    pass


def test_a_link_needs_an_address(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODF_PUBLIC_URL")
    odf("admin", "invite", code=1)
    assert "--url http://127.0.0.1:8080" in odf.err
    assert odf("admin", "invite", "--url", "http://127.0.0.1:8080").startswith("http://127.0.0.1:8080/setup?code=")
    odf("admin", "reset-password", "local", "--url", "ftp://host", code=1)
    assert "field --url: not a node's address" in odf.err
    assert odf.json("admin", "invitations")[0]["account"] is None, "a wrong address makes no link"


def test_the_operator_chooses_a_password(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*lines: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    said("", PASSWORD)
    assert odf("account", "password") == "changed the password of local\n"
    said("wrong", f"{PASSWORD} again")
    odf("account", "password", code=1)
    assert "the old password is wrong" in odf.err
    said(PASSWORD, "short")
    odf("account", "password", code=1)
    assert "short" not in odf.err.replace("too short", "")
    said(PASSWORD)
    odf("account", "password", code=1)
    assert "standard input has no line" in odf.err
    said(PASSWORD, f"{PASSWORD} again")
    odf("account", "password")


def test_a_token_to_be_inspected_comes_from_standard_input(odf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    text = odf("token", "create", "ci")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert odf.json("token", "inspect")["name"] == "ci"


def test_datasets_are_made_public_or_private(odf: Command, tmp_path: Path) -> None:
    for name, option, visibility in (("a", "--public", "public"), ("b", "--private", "private")):
        path = tmp_path / f"{name}.yaml"
        path.write_text(ROOT.replace("name: readings", f"name: {name}"))
        odf("add", option, str(path))
        assert odf.json("share", name)["visibility"] == visibility
    assert odf.json("share", "readings")["visibility"] == "private"


def test_up_shows_a_link_until_there_is_an_admin(
    odf: Command, enrol: Enrol, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> str | None:
        with open_node(read_settings(workspace=workspace)) as node:
            return first_admin_link(node, "http://127.0.0.1:8080")

    first, second = shown(), shown()
    assert first is not None
    assert second is not None
    assert second.startswith("https://odf.example.org/setup?code="), "people come by the public address"
    with pytest.raises(NotFound):
        enrol(first)  # only the link of the last start counts
    monkeypatch.delenv("ODF_PUBLIC_URL")
    assert str(shown()).startswith("http://127.0.0.1:8080/setup?code=")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\n{PASSWORD}\n"))
    odf("account", "password")
    assert shown() is None


def test_init_says_how_the_first_admin_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(capsys, "--workspace", str(tmp_path / "new"))
    assert "odf admin invite --admin --url URL" in command("init")
    assert "admin" not in command("init")
