"""Verification on pages: one block, and the last one of the whole dataset.

One block by those who may follow the dataset, the last one on its overview.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.model.metadata import AddData
from odfabric.model.people.account import DatasetRole
from tests.services.api.browsing import Browsers, alert_of, browsing, job_done, text_of
from tests.services.api.people import People
from tests.services.api.serving import working


@pytest.fixture
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    cities = people.add("ann", "cities")
    people.grant(cities, "*", DatasetRole.READER)
    with browsing(people) as found, working(people.node):
        token = people.bearer("ann")["authorization"].removeprefix("Bearer ")
        with found.served.client(token) as client:
            row = '{"event_time":"2026-01-01T00:00:00Z","city":"Ulm"}'
            assert client.post("/ann/cities/ingest", content=row).status_code == 200
        yield found


@pytest.fixture
def ann(browsers: Browsers) -> Iterator[httpx.Client]:
    with browsers.open("ann") as found:
        yield found


def test_a_block_is_verified_on_its_page(browsers: Browsers, ann: httpx.Client) -> None:
    node = browsers.people.node
    (entry,) = node.datasets.page(by=browsers.people.subject("ann"), after=None, limit=1)
    link = next(node.datasets.log(entry, limit=1))
    path = f"/ann/cities/-/blocks/{link.hash}"
    assert "Verify this block" in text_of(ann.get(path))
    fits = ann.post(f"{path}/verify", data={})
    assert "All hashes were computed again and fit." in text_of(fits)
    assert "Rows: bytes, size, physical and logical hash, offsets" in text_of(fits)
    assert isinstance(link.block.event, AddData)
    assert link.block.event.new_data is not None
    name = link.block.event.new_data.physical_hash
    browsers.people.memory.objects.delete(data_key(entry.id, name))
    wrong = ann.post(f"{path}/verify", data={})
    assert "This block is not what it claims to be." in alert_of(wrong)
    assert "wrong: the data slice is missing" in text_of(wrong)
    assert str(name) in wrong.text
    with browsers.open(None) as stranger:
        assert "Verify this block" not in text_of(
            stranger.get(f"/ann/cities/-/blocks/{node.datasets.head(entry).hash}")
        )
        assert stranger.post(f"{path}/verify", data={}).status_code in {303, 401}


def test_the_overview_says_when_the_dataset_was_verified(browsers: Browsers, ann: httpx.Client) -> None:
    assert "Verified never, or before the last" in text_of(ann.get("/ann/cities"))
    job_done(ann, ann.post("/ann/cities/-/verify", data={}))
    with browsers.open(None) as stranger:
        shown = text_of(stranger.get("/ann/cities"))
    assert "everything was computed again" in shown
    assert "at block 3" in shown
    assert "came since" not in shown
    assert "Report" in text_of(ann.get("/ann/cities"))
