"""Withdrawals lead to their records: on the page of a block, and in the tail."""

from __future__ import annotations

import httpx
import pytest

from odfabric.cli.backends.backend import linked_rows
from odfabric.model.identity import DatasetAlias, Name
from odfabric.testing.memory_node import MemoryNode
from tests.services.api.datasets.test_jobs import finished
from tests.services.api.test_why import derived, filled
from tests.usecases.test_ask_why import copy_of

__all__ = ["derived", "filled"]


@pytest.fixture
def withdrawn(client: httpx.Client, memory: MemoryNode, filled: str) -> str:
    """The head of a copy that was computed again from another root."""
    changed = copy_of("readings", "copied").replace("FROM a", "FROM b")
    put = client.put("/local/copied/transform", content=changed, headers={"content-type": "application/yaml"})
    assert put.status_code == 200, put.text
    job = finished(client, client.post("/local/copied/pull", json={}))
    assert job["status"] == "succeeded"
    return str(memory.node.repository.head(memory.node.repository.resolve(DatasetAlias(None, Name("copied"))).id).hash)


def test_a_block_links_its_withdrawals(client: httpx.Client, withdrawn: str) -> None:
    page = f"/local/copied/-/blocks/{withdrawn}"
    assert f'hx-get="{page}?links=true"' in client.get(page).text
    found = client.get(page, params={"links": "true"}).text
    assert 'href="/local/copied/-/why?offset=3">3</a>' in found
    assert 'withdraws record <a href="/local/copied/-/why?offset=0">0</a>' in found
    assert "links=true" not in client.get("/local/readings/-/history").text
    answer = client.get("/local/copied/tail", params={"corrects": "true"}).json()
    assert answer["corrects"] == {"3": 0, "4": 1, "5": 2}
    assert [row["(corrects)"] for row in linked_rows(answer)] == [None] * 3 + [0, 1, 2] + [None] * 3
    assert "corrects" not in client.get("/local/copied/tail").json()
