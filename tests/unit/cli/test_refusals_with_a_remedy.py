"""Refusals at the command say what to write instead, before work begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.cli.app import main
from tests.usecases.manifests import ROOT


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "root.yaml").write_text(ROOT)
    for verb in (["init"], ["add", str(tmp_path / "root.yaml")]):
        assert main(["--workspace", str(tmp_path / "w"), *verb]) == 0
    return tmp_path / "w"


@pytest.mark.parametrize(
    ("verb", "field"),
    [(("verify", "readings", "--report"), "--report"), (("key", "export", "readings", "--plain"), "FILE")],
    ids=["report", "key"],
)
@pytest.mark.parametrize("place", ["nowhere/file", "."], ids=["no-folder", "a-folder"])
def test_a_place_that_takes_no_file_is_refused(
    verb: tuple[str, ...], field: str, place: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["-o", "json", "--workspace", str(workspace), *verb, str(workspace / place)]) == 1
    problem = json.loads(capsys.readouterr().out)["error"]
    assert problem["code"] in ("invalid-request", "already-exists")
    assert problem["code"] == "already-exists" or problem["field"] == field


def test_a_report_takes_the_place_of_an_older_one_at_once(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out" / "report.json"
    report.parent.mkdir()
    report.write_text("old")
    assert main(["--workspace", str(workspace), "verify", "readings", "--report", str(report)]) == 0
    assert [path.name for path in report.parent.iterdir()] == ["report.json"]
    assert main(["verify-report", str(report)]) == 0
    assert "verified" in capsys.readouterr().out


def test_a_passphrase_is_not_asked_for_in_a_pipe(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--workspace", str(workspace), "key", "export", "readings", str(tmp_path / "k")]) == 1
    assert "--passphrase-file" in capsys.readouterr().err
    assert not (tmp_path / "k").exists()


@pytest.mark.parametrize("block", ["1", "#1"])
def test_a_reset_takes_the_number_of_a_block(block: str, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, remedy in (("99", "numbered 0 to"), ("abc", "write 12 or f1620..")):
        assert main(["--workspace", str(workspace), "reset", "readings", wrong, "--yes"]) == 1
        assert remedy in capsys.readouterr().err
    assert main(["--workspace", str(workspace), "reset", "readings", block, "--yes"]) == 0


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("./nothing", "there is no refs/head"),
        ("nowhere/local/readings", "repository not found: nowhere"),
        ("shelf/local/nothing", "dataset not found: file://"),
        ("a/b/c/d", "expected [[repository/]account/]dataset"),
    ],
)
def test_a_dataset_elsewhere_is_named_as_for_a_pull(
    ref: str, said: str, workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on = ["--workspace", str(workspace)]
    assert main([*on, "repo", "add", "shelf", (tmp_path / "shelf").as_uri()]) == 0
    assert main([*on, "push", "readings"]) == 0
    assert main([*on, "verify", "shelf/local/readings"]) == 0
    assert "signed by did:key:" in capsys.readouterr().out
    assert main([*on, "verify", ref]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("url", ["https://node.example/", "https://node.example/not_a_name"])
def test_a_copy_needs_a_name(url: str, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workspace", str(workspace), "pull", url]) == 1
    assert "--as" in capsys.readouterr().err
