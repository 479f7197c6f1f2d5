"""Folders may have any name: a workspace's parts are in its own folder only."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from odfabric.adapters.engine_process.launcher import EngineProcess
from odfabric.cli.app import main
from odfabric.settings import Settings
from odfabric.wiring.embedded import engine_launcher

DATASET = """\
kind: DatasetSnapshot
version: 1
content: {name: readings, kind: Root, metadata: []}
"""


@pytest.mark.parametrize("name", ["w?a", "w%61", "w?mode=ro#a", "w a,b;c", "w\\a[b]{c}*'\"", "w:a", "ẃ"])
def test_a_workspace_lies_in_its_own_folder_whatever_that_is_called(tmp_path: Path, name: str) -> None:
    workspace, other = tmp_path / name / "w", tmp_path / f"{name}b" / "w"
    manifest = tmp_path / "m.yaml"
    manifest.write_text(DATASET)
    for folder in (workspace, other):
        assert main(["--workspace", str(folder), "init"]) == 0
        assert main(["--workspace", str(folder), "add", str(manifest)]) == 0, "datasets of the other are not seen"
        assert (folder / "odf.sqlite3").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, f"{name}b", "m.yaml"])


def test_a_path_that_no_engine_could_read_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--workspace", str(tmp_path / "a[b" / "c:d"), "init"]) == 1
    assert "with `:` and `[` in its path" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_engine_of_a_workspace_is_known_by_its_real_path(tmp_path: Path) -> None:
    """Anyone who comes by a link finds the engine that runs, and starts no other."""
    (tmp_path / "real/w").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    runs = "print(flush=True); input()"
    looks_like_one = [sys.executable, "-c", runs, "odfabric_engine_spark", str(tmp_path / "real/w/exchange")]
    pipe = subprocess.PIPE
    with subprocess.Popen(looks_like_one, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()  # until it runs, its command line is not to be seen
        known = EngineProcess("unix:", "token", engine.pid)
        (tmp_path / "real/w/engine.json").write_text(json.dumps(asdict(known)))
        (tmp_path / "real/w/engine.ready").write_text(json.dumps({"address": known.address}))
        found = [engine_launcher(Settings(workspace=tmp_path / way / "w")).running() for way in ("real", "link")]
    assert found == [known, known]
