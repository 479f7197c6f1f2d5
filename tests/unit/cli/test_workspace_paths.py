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
