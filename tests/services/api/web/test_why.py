"""The page that explains a cell, on a node in memory."""

from __future__ import annotations

import httpx
import pytest

from odfabric.testing.memory_node import MemoryNode
from tests.services.api.test_why import derived, filled

__all__ = ["derived", "filled"]


@pytest.fixture
def page(filled: str) -> str:
    return filled.replace("/why", "/-/why")


def test_the_page_comes_before_the_answer(client: httpx.Client, page: str) -> None:
    first = client.get(page, params={"offset": "1", "column": "city"})
    assert first.status_code == 200
    assert "Why this cell?" in first.text
    assert f'hx-get="{page}?offset=1&amp;column=city&amp;wait=true"' in first.text
    assert "<noscript><meta" in first.text


def test_a_cell_shows_its_source_rows(client: httpx.Client, page: str) -> None:
    answer = client.get(page, params={"offset": "1", "column": "city", "wait": "true"}).text
    assert "<strong>B</strong>" in answer
    assert "verified" in answer
    assert 'href="/local/readings/-/why?offset=1&amp;column=city"' in answer
    assert "This row was added" in answer
    assert "/-/sql?query=WITH" in answer


def test_a_cell_of_a_root_leads_to_its_block(client: httpx.Client, memory: MemoryNode, page: str) -> None:
    answer = client.get("/local/readings/-/why", params={"offset": "0", "column": "city"}).text
    assert "It was ingested by block" in answer
    assert "/local/readings/-/blocks/" in answer


def test_cells_of_the_rows_page_are_links(client: httpx.Client, page: str) -> None:
    rows = client.get(page.replace("/-/why", "/-/rows")).text
    assert 'href="/local/copied/-/why?offset=2&amp;column=city"' in rows


def test_what_is_not_there_is_said(client: httpx.Client, page: str) -> None:
    answer = client.get(page, params={"offset": "9", "wait": "true"})
    assert (answer.status_code, "its offsets are 0 to 2" in answer.text) == (200, True)
