"""Two nodes: one has copies, asks the other why, and checks what it said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.why_request import WhyRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.provenance.ask_why import ask_why
from odfabric_api.bodies.answer_in_time import LongQuestions
from tests.services.api.datasets.test_jobs import finished
from tests.services.api.serving import TOKEN, Served, serving, working
from tests.services.api.smart_peer import reaching
from tests.services.api.test_why import derived, filled
from tests.usecases.test_ask_why import copy_of
from tests.usecases.transfer.sharing import ended

__all__ = ["derived", "filled"]

SEEDS = count(700)


class Copies:
    """A node with copies of datasets of the one that is served."""

    def __init__(self, node: MemoryNode, url: str) -> None:
        self.node, self.url = node, url

    def pull(self, *names: str) -> CatalogEntry:
        for name in names:
            alias = DatasetAlias(Name("local"), Name(name))
            request = PullRequest(dataset=None, alias=alias, url=f"{self.url}/local/{name}")
            ended(self.node, self.node.node.requests.pull(request))
        return self.node.node.repository.resolve(DatasetAlias(Name("local"), Name(names[-1])))

    def why(self, entry: CatalogEntry, **asked: Any) -> dict[str, Any]:
        request = WhyRequest(offsets=(1,), values=True, **{"peers": True, **asked})
        answer: dict[str, Any] = json.loads(json.dumps(self.node.node.provenance.why(entry, request)))
        return answer


@pytest.fixture
def origin(served: Served, memory: MemoryNode, client: httpx.Client, filled: str) -> str:
    if client.get("/local/again").status_code == 404:
        memory.add(copy_of("copied", "again"))
        answer = client.post("/local/again/pull", json={})
        if answer.status_code == 202:
            finished(client, answer)
    return served.url


@pytest.fixture
def copies(origin: str, tmp_path: Path) -> Iterator[Copies]:
    with reaching(origin, tmp_path, token=TOKEN, seed=next(SEEDS)) as node:
        yield Copies(node, origin)


def test_a_claim_of_the_other_node_is_checked_once_its_datasets_are_here(copies: Copies) -> None:
    again = copies.pull("others", "copied", "again")
    without = copies.why(again, peers=False)
    assert [one.get("end", {}).get("reason") for one in without["records"]] == [None, "not-here"]

    claimed = copies.why(again)
    assert [one.get("claimedBy") for one in claimed["records"]] == [None, [copies.url], [copies.url]]
    assert [one["values"]["city"] for one in claimed["records"]] == ["B", "B", "B"]
    root = claimed["records"][2]
    assert root["end"]["reason"] == "root"
    assert claimed["datasets"][root["dataset"]] == {
        "alias": "local/readings",
        "remote": None,
        "claimedBy": [copies.url],
    }

    copies.pull("readings")
    derived_here = copies.why(again)
    assert all("claimedBy" not in one for one in derived_here["records"])

    def bare(answer: dict[str, Any]) -> list[dict[str, Any]]:
        left = [{name: value for name, value in one.items() if name != "claimedBy"} for one in answer["records"]]
        for one in left:
            if "why" in one:
                one["why"] = {**one["why"], "replay": None}
        return left

    assert bare(claimed) == bare(derived_here)


def test_the_first_record_may_be_the_claim(copies: Copies) -> None:
    answer = copies.why(copies.pull("again"), columns=("city",))
    assert [(one["depth"], one.get("claimedBy")) for one in answer["records"]] == [(n, [copies.url]) for n in range(3)]
    assert {cell["of"] for cell in answer["records"][0]["why"]["cells"]} == {"city"}


def test_a_job_of_the_other_node_is_waited_for(
    copies: Copies, memory: MemoryNode, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other node waits for no answer, so each question becomes a job there."""
    again = copies.pull("others", "copied", "again")
    monkeypatch.setitem(memory.node.settings.__dict__, "provenance_wait_s_max", 1e-9)
    served.app.state.long_questions = LongQuestions(0.0)
    claimed = copies.why(again)["records"]
    assert [one.get("claimedBy") for one in claimed] == [None, [copies.url], [copies.url]]


def test_what_the_key_may_not_see_there_is_no_answer(copies: Copies, origin: str, tmp_path: Path) -> None:
    """The other node hides its datasets from those without a key."""
    entry = copies.pull("again")
    with reaching(origin, tmp_path / "keyless", token=None, seed=next(SEEDS)) as keyless:
        answer: Any = ask_why(
            entry,
            WhyRequest(offsets=(1,), peers=True),
            ports=copies.node.node.provenance.ports(copies.node.node.operator),
            progress=lambda _: None,
            peers=keyless.node.provenance.peers(keyless.node.operator),
        )
    (only,) = answer["records"]
    assert (only["end"]["reason"], only["end"]["peer"]) == ("peer-refused", origin)
    assert "does not show" in only["end"]["message"]


def test_over_http_and_through_a_chain_of_nodes(copies: Copies, tmp_path: Path) -> None:
    """A third node asks the second, which has to ask the first."""
    copies.pull("again")
    with serving(copies.node.node) as second, working(copies.node.node):
        with second.client() as client:
            body = {"offsets": [1], "ask": "peers", "values": True}
            answer = client.post("/local/again/why", json=body).json()
            assert answer["records"][0]["claimedBy"] == [copies.url]
            assert client.post("/local/again/why", json={**body, "ask": "all"}).status_code == 400
            tree = client.get("/local/again/why", params={"offset": "1", "ask": "peers", "format": "prov"}).json()
            assert copies.url in json.dumps(tree["entity"])
            page = client.get("/local/again/-/why", params={"offset": "1", "wait": "true"}).text
            assert "Ask the node that it came from" in page
            page = client.get("/local/again/-/why", params={"offset": "1", "wait": "true", "peers": "true"}).text
            assert f"{copies.url} says so." in page
            assert f'href="{copies.url}/local/copied/-/why?offset=1"' in page
        with reaching(second.url, tmp_path / "third", token=TOKEN, seed=next(SEEDS)) as node:
            third = Copies(node, second.url)
            answer = third.why(third.pull("again"))
            assert answer["records"][0]["claimedBy"] == [second.url, copies.url]
            assert answer["records"][2]["end"]["reason"] == "root"
            far = third.why(third.node.node.repository.resolve(DatasetAlias(Name("local"), Name("again"))), hops=2)
            assert [one["end"]["reason"] for one in far["records"]] == ["not-here"], "the last node asks nobody"
