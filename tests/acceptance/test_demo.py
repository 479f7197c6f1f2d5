"""`./odf demo` from beginning to end, as a new user sees it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.node_process import ODF, clean_environment, node_process
from tests.support.process_tree import alive, descendants, marked
from tests.support.waiting import wait_until

DEMO_S_MAX = 600
"""About a minute and a half on two idle cores; the rest is for a machine that does other things too."""
FLIGHTS = 336_776


@pytest.mark.timeout(DEMO_S_MAX + 20)
def test_demo_shows_everything_and_leaves_nothing_running(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    process = subprocess.Popen(
        [str(ODF), "-o", "json", "demo", "--keep", "--folder", str(keep)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        cwd=tmp_path,
    )
    try:
        started = wait_until(
            lambda: {seen for seen in descendants(process.pid) if "java" in seen.command} and descendants(process.pid),
            deadline_s=120,
            what="the demo's engine",
        )
        out, err = process.communicate(timeout=DEMO_S_MAX)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()
    assert process.returncode == 0, err.decode()
    summary = json.loads(out)
    assert summary["ok"] is True
    rows = {found["dataset"]: found["rows"] for found in summary["datasets"]}
    assert rows["flights"] == FLIGHTS
    assert set(rows) == {"flights", "weather", "planes", "flights.hourly", "flights.daily"}
    assert all(summary["samples"].values())
    assert [step for step in summary["steps"] if "late" in step["step"]]
    assert not alive(started)
    assert not marked(str(keep))
    assert_seen_in_the_console(keep / "first")


def assert_seen_in_the_console(workspace: Path) -> None:
    """Whoever opens the kept workspace sees the demo's datasets, signed in by the link alone."""
    with (
        node_process(workspace) as node,
        httpx.Client(base_url=node.url, trust_env=False, follow_redirects=True, timeout=60) as browser,
    ):
        first = browser.get(node.console)
        assert first.status_code == 200
        for name in ("flights", "weather", "planes", "flights.hourly", "flights.daily"):
            assert f'href="/local/{name}"' in first.text
        assert "/local/flights.daily" in browser.get("/local/flights.hourly/-/lineage").text
        assert "correct from" in browser.get("/local/planes/-/rows").text
