"""The package as installed: a wheel in its own environment and folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.engines.class_archive import class_archive
from tests.support.node_process import ROOT, NodeProcess, clean_environment, ndjson
from tests.support.process_tree import marked
from tests.support.stories import reading, root
from tests.support.waiting import wait_until

UV = str(Path(sys.executable).parent / "uv")
INSTALL_S_MAX = 280
DEMO_S_MAX = 280


@dataclass(frozen=True)
class Installed:
    """The command of an installation, and the folder in which it is used."""

    odf: Path
    folder: Path

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self.odf), *arguments],
            input=stdin,
            capture_output=True,
            cwd=self.folder,
            env=_environment(environment),
            timeout=DEMO_S_MAX,
            check=False,
        )

    def done(self, *arguments: str, stdin: bytes = b"") -> str:
        ended = self.run(*arguments, stdin=stdin)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment without the checkout's path, which would hide missing files.

    It would stand in for what the wheel does not have.
    """
    archive = class_archive()
    cache = {"ODF_ENGINE_CACHE": str(archive)} if archive else {}
    return {
        name: value
        for name, value in {**clean_environment(), **cache, **changes}.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [UV, "build", "-q", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=INSTALL_S_MAX)
    (found,) = folder.glob("*.whl")
    return found


def install(wheel: Path, folder: Path, extras: str) -> Installed:
    """Install into a new environment, with the wheel's dependencies as locked."""
    venv, constraints = folder / "venv", folder / "constraints.txt"
    locks = "\n".join(lock.read_text() for lock in sorted((ROOT / "locks").glob("*.lock")))
    constraints.write_text("\n".join(sorted(set(re.findall(r"^[^\s#-][^\\\n]*==[^\\\n]*", locks, re.MULTILINE)))))
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, str(venv)], check=True, timeout=INSTALL_S_MAX)
    wanted = ["--constraint", str(constraints), f"odfabric{extras} @ {wheel.as_uri()}"]
    python = str(venv / "bin/python")
    subprocess.run([UV, "pip", "install", "-q", "--python", python, *wanted], check=True, timeout=INSTALL_S_MAX)
    (folder / "here").mkdir()
    return Installed(venv / "bin/odf", folder / "here")


def test_without_extras_it_is_a_client_of_a_node(wheel: Path, tmp_path: Path, node: NodeProcess) -> None:
    client = install(wheel, tmp_path, "")
    on_node = ("--node", node.url, "--token", node.token)
    (client.folder / "clients.yaml").write_text(root("clients"))
    client.done(*on_node, "add", "clients.yaml")
    client.done(*on_node, "ingest", "clients", "-", stdin=ndjson([reading(0, city="Zug")]))
    assert "Zug" in client.done(*on_node, "tail", "clients")
    assert "Zug" in client.done(*on_node, "sql", "SELECT * FROM clients")
    assert "local/clients" in client.done(*on_node, "list")

    refused = client.run("init")
    assert refused.returncode == 1
    assert 'pip install "odfabric[all]"' in refused.stderr.decode()
    assert list(client.folder.iterdir()) == [client.folder / "clients.yaml"]


@pytest.mark.timeout(INSTALL_S_MAX + 2 * DEMO_S_MAX)
def test_with_all_extras_it_is_a_node_with_its_engine_and_console(wheel: Path, tmp_path: Path) -> None:
    whole = install(wheel, tmp_path, "[all]")
    summary = json.loads(whole.done("-o", "json", "demo", "--short"))
    assert {found["dataset"]: found["commits"] for found in summary["datasets"]} == {
        "flights": 2,
        "flights.hourly": 2,
        "flights.daily": 2,
    }
    assert list(whole.folder.iterdir()) == []

    up = subprocess.Popen(
        [str(whole.odf), "up", "--port", "0", "--ready-file", "node.json"], cwd=whole.folder, env=_environment({})
    )
    try:
        ready = whole.folder / "node.json"
        wait_until(lambda: ready.exists() or up.poll() is not None, deadline_s=120, what="the node")
        node = json.loads(ready.read_text())
        on_node = ("--node", node["url"], "--token", node["token"])
        whole.done(*on_node, "add", "-", stdin=root("readings").encode())
        whole.done(*on_node, "ingest", "readings", "-", stdin=ndjson([reading(0, city="Zug")]))
        assert_console_shows(node["console"], node["url"])
    finally:
        up.terminate()
        up.wait(60)
    wait_until(lambda: not marked(str(whole.folder)), what="the end of everything that `odf up` started")
    assert "the tests are no part of the package" in whole.run("test").stderr.decode()


def assert_console_shows(console: str, url: str) -> None:
    """Pages with the rows, their style and the scripts that were built into the wheel."""
    with httpx.Client(base_url=url, trust_env=False, follow_redirects=True, timeout=60) as browser:
        assert "local/readings" in browser.get(console).text
        page = browser.get("/local/readings/-/rows").text
        assert "Zug" in page
        assets = re.findall(r'(?:src|href)="(/-/(?:static|built|assets)[^"]+)"', page)
        assert any(".js" in path for path in assets), page[:2000]
        assert {browser.get(path).status_code for path in assets} == {200}
