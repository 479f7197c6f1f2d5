"""Two nodes in real processes exchange datasets by the Smart protocol.

They push, pull, evolve, refuse.
"""

from __future__ import annotations

import httpx
import pytest

from tests.acceptance.conftest import LocalWorkspace
from tests.support.node_process import NodeProcess, Odf, ndjson
from tests.support.stories import reading, root


@pytest.fixture
def pushed(node: NodeProcess, local: LocalWorkspace, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of the workspace that was pushed to the node, public there; its name."""
    name = "smart"
    manifest = tmp_path_factory.mktemp("smart") / "smart.yaml"
    manifest.write_text(root(name))
    local.odf.json("add", str(manifest))
    local.odf.json("ingest", name, "-", stdin=ndjson([reading(0)]))
    sent = local.odf.json("push", name, "--public", "--to", f"odf+{node.url}/local/{name}")
    assert (sent["objects"], sent["upToDate"]) == (1, False)
    return name


def test_push_to_a_node_evolve_and_pull_back(node: NodeProcess, local: LocalWorkspace, pushed: str) -> None:
    head = local.odf.json("log", pushed)[0]["hash"]
    assert node.head(pushed) == head
    assert len(node.tail(pushed)) == 1
    assert node.verify(pushed)["ok"] is True
    anonymous = httpx.get(f"{node.url}/local/{pushed}/refs/head", trust_env=False)
    assert (anonymous.status_code, anonymous.text) == (200, head)

    local.odf.json("ingest", pushed, "-", stdin=ndjson([reading(1)]))
    again = local.odf.json("push", pushed)
    assert (again["blocks"], again["objects"]) == (1, 1)
    assert local.odf.json("push", pushed)["upToDate"] is True

    node.create(root("smart-there"))
    node.push("smart-there", [reading(0), reading(1, "B")])
    url = f"odf+{node.url}/local/smart-there"
    pulled = local.odf.json("pull", url, "--as", "smart-here")
    assert (pulled["upToDate"], pulled["head"]) == (False, node.head("smart-there"))
    node.push("smart-there", [reading(2)])
    assert local.odf.json("pull", "smart-here")["rows"] == 1
    assert local.odf.json("pull", "smart-here")["upToDate"] is True
    assert local.odf.json("verify", "smart-here")["ok"] is True

    # Without a token: refused by name, before anything is sent.
    stranger = Odf(options=local.odf.options, environment={**local.odf.environment, "ODF_REMOTE_TOKENS": "{}"})
    assert stranger.refused("push", pushed, "--to", f"odf+{node.url}/local/other")["code"] == "unauthenticated"
    assert stranger.refused("pull", url, "--as", "hidden")["code"] == "not-found"
