"""Folders may have any name: what a workspace consists of lies in it, and in no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.cli.app import main

DATASET = """\
kind: DatasetSnapshot
version: 1
content: {name: readings, kind: Root, metadata: []}
"""


@pytest.mark.parametrize("name", ["w?a", "w%61", "w?mode=ro#a", "w a,b;c", "w\\a[b]{c}*:'\"", "ẃ"])
def test_a_workspace_lies_in_its_own_folder_whatever_that_is_called(tmp_path: Path, name: str) -> None:
    workspace, other = tmp_path / name / "w", tmp_path / f"{name}b" / "w"
    manifest = tmp_path / "m.yaml"
    manifest.write_text(DATASET)
    for folder in (workspace, other):
        assert main(["--workspace", str(folder), "init"]) == 0
        assert main(["--workspace", str(folder), "add", str(manifest)]) == 0, "datasets of the other are not seen"
        assert (folder / "odf.sqlite3").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, f"{name}b", "m.yaml"])
