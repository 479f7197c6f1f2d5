"""`odf verify-report`: a report is checked with its file and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odfabric.cli.app import main
from odfabric.formats.operations.verification_report import report_text, signed_report

BLOCK = "f1620" + "ab" * 32
MEMBERS: dict[str, Any] = {
    "dataset": "did:odf:fed01" + "01" * 32,
    "checkedAfter": None,
    "checkedTo": BLOCK,
    "mode": "recompute",
    "blocks": 7,
    "objects": 4,
    "transactions": 1,
    "engine": {"name": "spark", "version": "1", "digest": "0123456789abcdef01"},
    "startedAt": "2026-01-01T00:00:00Z",
    "endedAt": "2026-01-01T00:01:00Z",
    "ok": True,
    "problems": 0,
    "errors": [],
    "skipped": [],
}


def written(folder: Path, **changed: Any) -> Path:
    path = folder / "report.json"
    path.write_text(report_text(signed_report({**MEMBERS, **changed}, private=bytes([7]) * 32)))
    return path


def test_the_signer_and_what_was_checked_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-report", str(written(tmp_path))]) == 0
    shown = capsys.readouterr().out
    assert "signed by did:key:z6Mk" in shown
    assert "checked recompute with spark 1 0123456789abcdef at 2026-01-01T00:01:00Z: 7 blocks, 4 objects" in shown
    assert "result  verified" in shown
    assert main(["-o", "json", "verify-report", str(tmp_path / "report.json")]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["checkedTo"] == BLOCK


def test_problems_and_changed_reports_end_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-report", str(written(tmp_path, ok=False, problems=2))]) == 1
    assert "result  2 problems" in capsys.readouterr().out
    path = written(tmp_path, ok=False, problems=2)
    path.write_text(path.read_text().replace('"ok":false', '"ok":true'))
    assert main(["verify-report", str(path)]) == 1
    assert "the signature of did:key:z6Mk" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": {}},
        {"engine": "spark"},
        {"engine": {"name": "a", "version": "b", "digest": 1}},
        {"signed": {}},
        {"signed": 1},
        {"blocks": None},
        {"blocks": {}},
        {"skipped": 1},
        {"problems": None, "ok": False},
    ],
    ids=str,
)
def test_a_signed_report_of_another_shape_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any]
) -> None:
    assert main(["verify-report", str(written(tmp_path, **changed))]) == 1
    shown = capsys.readouterr()
    assert (shown.out, "a member of the report is missing or wrong" in shown.err) == ("", True)


def test_a_signed_report_does_not_add_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, ok=False, problems=2, mode="data\nresult  verified\x1b[2J")
    assert main(["verify-report", str(path)]) == 1
    shown = capsys.readouterr().out
    assert "result  2 problems" in shown.splitlines()
    assert "result  verified" not in shown.splitlines()
    assert "\x1b" not in shown


def test_a_file_of_any_size_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert main(["verify-report", str(path)]) == 1
    assert "at most 65536 bytes" in capsys.readouterr().err
