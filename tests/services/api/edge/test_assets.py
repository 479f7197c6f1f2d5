"""Console scripts: found by logical name, served by exact name, optional."""

import json
import socket
from pathlib import Path

import pytest

from odfabric_api.web.assets import Assets, built_folder
from services.api.web import make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built = tmp_path / "built"
    built.mkdir()
    (built / "console-AB12.js").write_text("import './chunk-CD34.js'")
    (built / "chunk-CD34.js").write_text("1")
    (built / "manifest.json").write_text(json.dumps({"console": "console-AB12.js"}))
    (built / "key.pem").write_text("secret")
    (tmp_path / "outside.js").write_text("2")
    return built


def test_an_entry_has_an_address_and_each_script_its_bytes(folder: Path) -> None:
    assets = Assets.load(folder)
    assert assets.url("console") == "/-/assets/console-AB12.js"
    assert assets.url("editor") is None
    assert assets.read("chunk-CD34.js") == (b"1", "text/javascript; charset=utf-8")


@pytest.mark.parametrize(
    "name", ["../outside.js", "..%2Foutside.js", "/etc/passwd", "", ".", "key.pem", "built/chunk-CD34.js", "\0"]
)
def test_no_other_name_leads_to_a_file(folder: Path, name: str) -> None:
    assert Assets.load(folder).read(name) is None


def test_scripts_that_are_replaced_meanwhile_still_fit(folder: Path) -> None:
    assets = Assets.load(folder)
    (folder / "console-AB12.js").unlink()
    assert assets.read("console-AB12.js") is not None


def test_a_manifest_without_its_files_is_refused(folder: Path) -> None:
    (folder / "console-AB12.js").unlink()
    with pytest.raises(ValueError, match=r"not there: console-AB12\.js"):
        Assets.load(folder)


def test_without_a_build_there_are_no_addresses() -> None:
    assets = Assets({}, {})
    assert (assets.url("console"), assets.read("manifest.json")) == (None, None)


def test_this_installation_has_every_entry_with_the_licences() -> None:
    assert built_folder() is not None, "the environment was made without npm's packages"
    assets = Assets.load()
    for entry in ("console", "editor", "theme"):
        url = assets.url(entry)
        assert url is not None, entry
        assert assets.read(url.rpartition("/")[2]) is not None
    licences = assets.read("licences.txt")
    assert licences is not None
    assert b"htmx.org" in licences[0]
    assert b"@codemirror/view" in licences[0]


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    assert make.main(tmp_path / "web") == 0
    current = built_folder()
    assert current is not None
    assert contents(tmp_path / "web") == contents(current)


def test_without_packages_the_older_build_is_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(folder)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{nobody}/")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    assert make.main(folder) == make.NO_PACKAGES
    assert contents(folder) == before
    assert sorted(path.name for path in folder.parent.iterdir()) == ["built", "cache", "outside.js"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
