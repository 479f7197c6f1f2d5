"""`./odf demo` from beginning to end, as a new user sees it."""

from __future__ import annotations

import html
import io
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from tests.support.node_process import ODF, clean_environment, node_process
from tests.support.process_tree import alive, descendants, end_at_last, marked
from tests.support.waiting import wait_until

DEMO_S_MAX = 600
"""About a minute and a half on two idle cores; the rest is for a machine that does other things too."""
FLIGHTS = 336_776
SNIPPET = re.compile(r"<details><summary>([^<]*)</summary><pre><code>(.*?)</code></pre>", re.DOTALL)


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
            end_at_last(process)
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
    """The kept workspace shows the demo's datasets, signed in by the link alone."""
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
        overview = browser.get("/local/planes").text
        assert_snippets_run(overview, token=node.token)
        asked = {"query": "SELECT * FROM `local/planes`", "export": "parquet"}
        exported = browser.post("/-/sql", data=asked, headers={"origin": node.url, "sec-fetch-site": "same-origin"})
        assert pq.read_table(io.BytesIO(exported.content)).num_rows == 3_427


def assert_snippets_run(overview: str, *, token: str) -> None:
    """The page's Python code runs as written, with a token filled in."""
    code = {name: html.unescape(text) for name, text in SNIPPET.findall(overview)}
    namespace: dict[str, Any] = {"token": token}
    exec(code["Python"], namespace)
    assert len(namespace["rows"]) == 1_000
    frames = {part.splitlines()[0]: part for part in code["pandas, Polars, DuckDB, Spark"].split("\n\n")}
    exec(next(part for line, part in frames.items() if line.startswith("#")), namespace)
    exec(frames["import duckdb"].replace("duckdb.sql(", "counted = duckdb.sql(", 1), namespace)
    assert namespace["counted"].fetchall() == [(1_000,)]
