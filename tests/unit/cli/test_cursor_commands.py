"""`odf cursor` on a workspace: what a consumer at the command line sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.operations.test_recovery_commands import Command
from tests.usecases.manifests import ROOT


@pytest.fixture
def odf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    command = Command(tmp_path / "workspace", capsys)
    command("init")
    (tmp_path / "root.yaml").write_text(ROOT)
    command("add", str(tmp_path / "root.yaml"))
    command.push()
    return command


def test_a_consumer_reads_what_is_there_and_is_then_up_to_date(odf: Command) -> None:
    made: dict[str, Any] = odf.json("cursor", "create", "readings", "warehouse")
    fence = ("--fence", made["fence"])
    fetched = odf.json("cursor", "fetch", "readings", "warehouse", *fence)
    assert [row["city"] for row in fetched["event"]["rows"]] == ["Delft"]
    shown = odf("cursor", "fetch", "readings", "warehouse", *fence)
    assert "baseline at block" in shown
    assert "Delft" in shown
    assert f"position {fetched['position']}" in shown
    said = odf("cursor", "ack", "readings", "warehouse", fetched["position"], *fence)
    assert said == f"warehouse is at {fetched['position']}\n"
    assert odf("cursor", "fetch", "readings", "warehouse", *fence).startswith("up to date\n")
    (listed,) = odf.json("cursor", "list", "readings")
    assert (listed["consumer"], listed["mode"], listed["position"]) == ("warehouse", "listen", fetched["position"])
    assert "fence" not in listed


def test_changes_have_their_operation_in_words(odf: Command) -> None:
    made = odf.json("cursor", "create", "readings", "warehouse", "--from", "start")
    shown = odf("cursor", "fetch", "readings", "warehouse", "--fence", made["fence"], "--limit", "1")
    assert "changes at block" in shown
    assert "append" in shown


def test_a_stale_fence_is_refused_with_what_to_do(odf: Command) -> None:
    made = odf.json("cursor", "create", "readings", "warehouse")
    assert "held until" in odf("cursor", "claim", "readings", "warehouse", "--fence", made["fence"])
    problem = json.loads(
        odf("cursor", "fetch", "readings", "warehouse", "--fence", made["fence"], "-o", "json", code=1)
    )
    assert problem["error"]["code"] == "lease-lost"
    assert "claim it" in odf.err
    odf("cursor", "claim", "readings", "warehouse", code=1)
    assert odf("cursor", "delete", "readings", "warehouse") == "deleted warehouse\n"
    odf("cursor", "delete", "readings", "warehouse", code=1)
    assert "cursor not found" in odf.err
