"""The database's disk is lost: the node is rebuilt from its objects.

A repeated push gets the old answer.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.node_process import NDJSON, NodeProcess, Odf, ndjson, node_process
from tests.support.stories import reading, root

KEYS = ("monday", "tuesday", "wednesday")


def push(node: NodeProcess, key: str) -> dict[str, object]:
    rows = [reading(60 * KEYS.index(key) + minute) for minute in range(3)]
    return node.finished(node.post("/local/pushed/ingest", ndjson(rows), content_type=NDJSON, idempotency_key=key))


@pytest.mark.spark
def test_a_node_without_its_database_comes_back(tmp_path: Path, engine_cache: Path) -> None:
    workspace, environment = tmp_path / "workspace", {"ODF_ENGINE_CACHE": str(engine_cache)}
    with node_process(workspace, **environment) as node:
        node.create(root("pushed"))
        answers = [push(node, key) for key in KEYS]
        listed, tail = node.http.get("/datasets").json(), node.tail("pushed")
        assert node.end(signal.SIGINT) == 0
    for file in workspace.glob("odf.sqlite3*"):
        file.unlink()
    rebuilt = Odf(options=("--workspace", str(workspace))).json("system", "rebuild")
    assert [(one["alias"], one["outcome"], one["beyond"]) for one in rebuilt["datasets"]] == [
        ("local/pushed", "rebuilt", [])
    ]
    with node_process(workspace, **environment) as node:
        assert node.http.get("/datasets").json() == listed
        assert node.tail("pushed") == tail
        assert node.verify("pushed") == {"ok": True, "errors": []}
        assert [push(node, key) for key in KEYS] == answers
        assert node.tail("pushed") == tail
