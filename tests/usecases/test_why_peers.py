"""Branches whose inputs are on another node: what it is asked and may say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.memory.transfer.nodes import MemoryRemoteNodes
from odfabric.domain.people.access import Subject
from odfabric.errors import CorruptedSource, Determinate
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.why_request import WhyRequest
from odfabric.ports.engine import ProgressListener
from odfabric.ports.transfer.nodes import QueuedAnswer
from odfabric.usecases.provenance.ask_why import ask_why
from odfabric.usecases.provenance.peer_answer import read_peer_answer
from tests.usecases.test_ask_why import Story, WithoutOne, limit, story

__all__ = ["story"]

PEER = "http://b.test/local/copied/"
Answer = dict[str, Any]


@dataclass
class Copies:
    """A node with copies of derivatives, and the node that they came from."""

    story: Story
    absent: set[DatasetId]
    hidden: frozenset[DatasetId] = frozenset()
    subject: Subject | None = None

    def __post_init__(self) -> None:
        self.questions: list[Mapping[str, Any]] = []
        self.tamper: Callable[[Answer], object] = lambda answer: None
        self.listener: ProgressListener = lambda _: None
        self.story.memory.peers.answers_why = self._answer

    def _answer(self, url: str, question: Mapping[str, Any], with_key: bool) -> object:
        self.questions.append({**question, "url": url, "key": with_key})
        wish = WhyRequest(
            **{name: question[name] for name in ("effort", "depth", "limit", "values")},
            **{name: tuple(question[name]) for name in ("offsets", "columns", "kinds")},
        )
        answer: Answer = json.loads(json.dumps(self.story.memory.node.provenance.why(self.story.copied, wish)))
        changed = self.tamper(answer)
        return answer if changed is None else changed

    def why(self, entry: CatalogEntry, *offsets: int, **asked: Any) -> Answer:
        node = self.story.memory.node
        subject = self.subject or node.operator
        catalog: Any = node.repository.catalog
        for each in self.absent:
            catalog = WithoutOne(catalog, each)
        catalog = PulledFrom(catalog, self.story.copied.id, PEER)
        repository = node.repository.seen_through(catalog, node.account)
        seen = repository
        for each in self.hidden:
            seen = repository.seen_through(WithoutOne(catalog, each), node.account)  # type: ignore[arg-type]
        ports = replace(node.provenance.ports(subject), repository=repository, seen=seen)
        request = WhyRequest(offsets=offsets, values=True, **{"peers": True, **asked})
        peers = node.provenance.peers(subject)
        answer: Answer = ask_why(entry, request, ports=ports, progress=self.listener, peers=peers)
        json.dumps(answer)
        return answer


@dataclass(frozen=True)
class PulledFrom:
    """A catalog in which a dataset is a copy of one elsewhere."""

    all: Any
    dataset: DatasetId
    url: str

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        found: CatalogEntry | None = self.all.by_id(dataset)
        return replace(found, remote_url=self.url) if found is not None and dataset == self.dataset else found


@pytest.fixture
def copies(story: Story) -> Copies:
    return Copies(story, {story.readings.id})


def test_a_branch_goes_on_with_what_the_other_node_says(copies: Copies, story: Story) -> None:
    first, second, root = copies.why(story.again, 2)["records"]
    assert "claimedBy" not in first
    assert (second["claimedBy"], second["why"]["verified"], "end" in second) == (["http://b.test"], True, False)
    assert (root["depth"], root["claimedBy"], root["end"]["reason"]) == (2, ["http://b.test"], "root")
    assert root["values"]["city"] == "Odesa"
    (question,) = copies.questions
    assert (question["url"], question["offsets"], question["columns"], question["hops"]) == (
        PEER,
        [2],
        ["city", "event_time", "value"],
        1,
    )


def test_without_the_wish_nobody_is_asked(copies: Copies, story: Story) -> None:
    answer = copies.why(story.again, 2, peers=False)
    assert answer["records"][1]["end"]["reason"] == "not-here"
    assert copies.questions == []


def test_what_is_here_and_may_not_be_read_is_not_shown_by_another_node(copies: Copies, story: Story) -> None:
    copies.absent, copies.hidden = {story.others.id}, frozenset({story.readings.id})
    (only,) = copies.why(story.copied, 2)["records"]
    why = only["why"]
    assert (why["witnesses"][0]["ranges"], why["witnesses"][0]["end"]["reason"]) == ([], "not-readable")
    assert (why["cells"], why["how"], why["replay"]) == ([], None, None)


def other_block(answer: Answer) -> None:
    answer["records"][0]["block"]["hash"] = answer["records"][1]["block"]["hash"]


def other_row(answer: Answer) -> None:
    answer["records"][0]["values"]["city"] = "Paris"


def other_query(answer: Answer) -> None:
    answer["records"][0]["why"]["queries"] = ["SELECT 1"]


def other_input(answer: Answer) -> None:
    answer["records"][0]["why"]["witnesses"][0]["input"] = 1


def records_not_read(answer: Answer) -> None:
    answer["records"][0]["why"]["witnesses"][0]["ranges"] = [[2, 900]]


def other_record(answer: Answer) -> None:
    answer["records"][0]["offset"] = 1


def unreached(answer: Answer) -> None:
    answer["records"][1]["offset"] = 0


def too_deep(answer: Answer) -> None:
    answer["records"][1]["depth"] = 99


def no_row(answer: Answer) -> None:
    del answer["records"][1]["values"]


def twice(answer: Answer) -> None:
    answer["records"].append(answer["records"][1])


def no_object(answer: Answer) -> object:
    return [answer]


def script(answer: Answer) -> None:
    answer["records"][1]["claimedBy"] = ["javascript:alert(1)"]


def away(answer: Answer) -> None:
    raise Determinate("b.test did not answer")


def no_cursor(answer: Answer) -> None:
    answer["next"] = "../../x"


def huge(answer: Answer) -> None:
    answer["padding"] = "x" * (5 << 20)


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (other_block, "peer-differs"),
        (other_row, "peer-differs"),
        (other_query, "peer-differs"),
        (other_input, "peer-differs"),
        (records_not_read, "peer-differs"),
        (other_record, "peer-invalid"),
        (unreached, "peer-invalid"),
        (too_deep, "peer-invalid"),
        (twice, "peer-invalid"),
        (no_row, "peer-invalid"),
        (no_object, "peer-invalid"),
        (script, "peer-invalid"),
        (no_cursor, "peer-invalid"),
        (away, "peer-away"),
        (huge, "peer-limit"),
    ],
)
def test_a_node_that_lies_or_fails_ends_its_branch_alone(
    tamper: Callable[[Answer], object], reason: str, copies: Copies, story: Story
) -> None:
    copies.tamper = tamper
    first, second = copies.why(story.again, 2)["records"]
    assert first["why"]["verified"]
    assert (second["end"]["reason"], second["end"]["peer"]) == (reason, "http://b.test")
    assert second["end"]["inputs"][0]["dataset"] == str(story.readings.id)
    assert "claimedBy" not in second


def test_a_node_that_shows_nothing_is_named(copies: Copies, story: Story) -> None:
    story.memory.peers.answers_why = MemoryRemoteNodes().answers_why
    assert copies.why(story.again, 2)["records"][1]["end"]["reason"] == "peer-refused"


def test_a_job_of_the_other_node_is_waited_for(copies: Copies, story: Story) -> None:
    found: list[object] = []

    def queue(answer: Answer) -> object:
        found.append(answer)
        return QueuedAnswer(job="j1")

    copies.tamper = queue
    second = copies.why(story.again, 2)["records"][1]
    assert (second["end"]["reason"], second["end"]["peer"]) == ("peer-works", "http://b.test")
    assert "provenance_peer_job_s_max" in second["end"]["message"]

    story.memory.peers.finds_why = lambda url, job: found[-1] if (url, job) == (PEER, "j1") else None
    _, second, root = copies.why(story.again, 2)["records"]
    assert (second["claimedBy"], root["end"]["reason"]) == (["http://b.test"], "root")


def test_waiting_for_another_node_ends_when_nobody_listens(copies: Copies, story: Story) -> None:
    """The listener's error is no end of a branch."""
    copies.tamper = lambda answer: QueuedAnswer(job="j1")
    steps: list[str] = []

    def listen(progress: EngineProgress) -> None:
        steps.append(progress.stage)
        if steps.count("peers") == 2:
            raise Determinate("nobody waits")

    copies.listener = listen
    with pytest.raises(Determinate, match="nobody waits"):
        copies.why(story.again, 2)


def with_two_rows(answer: Answer) -> None:
    """As if the record were made of two rows, of which one is followed."""
    rows = answer["records"][0]["why"]["witnesses"][0]
    answer["records"][0]["why"]["witnesses"][0] = {**rows, "count": 2, "ranges": [[1, 3]], "leftOut": 1}
    answer["next"] = f"{'a' * 16}-1"


def test_pages_of_another_node_are_pages_of_the_answer(copies: Copies, story: Story) -> None:
    copies.tamper = with_two_rows
    page = copies.why(story.copied, 2, limit=1)
    assert page["next"] == f"{'a' * 16}-1"
    assert "further" not in page["records"][0]
    copies.why(story.copied, 2, limit=1, after=page["next"])
    assert copies.questions[-1]["after"] == page["next"]


def test_rows_left_out_behind_an_own_record_are_linked_to_where_they_are(copies: Copies, story: Story) -> None:
    copies.tamper = with_two_rows
    answer = copies.why(story.again, 2, limit=1)
    assert (answer["next"], copies.questions[-1]["after"]) == (None, None)
    assert answer["records"][1]["further"] == "http://b.test/local/copied/-/why?offset=2"


def test_questions_end_at_limits(copies: Copies, story: Story) -> None:
    far = copies.why(story.again, 2, hops=3)["records"][1]["end"]
    assert (far["reason"], copies.questions) == ("peer-limit", [])
    limit(story, provenance_peers_max=0)
    assert "provenance_peers_max" in copies.why(story.again, 2)["records"][1]["end"]["message"]
    assert copies.questions == []


def test_strangers_have_nobody_asked_and_keys_go_with_the_right_to_pull(copies: Copies, story: Story) -> None:
    copies.subject = Subject()
    assert copies.why(story.again, 2)["records"][1]["end"]["reason"] == "peer-not-asked"
    copies.subject = None
    copies.why(story.again, 2)
    assert copies.questions[-1]["key"] is False, "there is no key"
    story.memory.peers.keys.add(PEER)
    copies.why(story.again, 2)
    assert copies.questions[-1]["key"] is True
    assert copies.questions[-1]["ask"] == "peers"


def test_the_last_node_in_a_row_asks_nobody(copies: Copies, story: Story) -> None:
    story.memory.peers.keys.add(PEER)
    copies.why(story.again, 2, hops=2)
    assert (copies.questions[-1].get("ask"), copies.questions[-1]["hops"]) == (None, 3)


def test_a_dataset_of_no_node_is_said(copies: Copies, story: Story) -> None:
    copies.absent = {story.copied.id}
    (only,) = copies.why(story.again, 2)["records"]
    assert (only["end"]["reason"], "peer" in only["end"]) == ("peer-not-asked", False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(
    JSON,
    st.sampled_from(["offset", "dataset", "block", "why", "end", "values", "claimedBy", "depth", "op", "corrects"]),
)
def test_whatever_is_said_is_read_or_refused(value: Any, member: str) -> None:
    record = {
        "dataset": "did:odf:fed01" + "0" * 64,
        "offset": 0,
        "op": "append",
        "depth": 0,
        "block": {"hash": "f1620" + "0" * 64, "sequence": 1, "systemTime": "x"},
    }
    for answer in (value, {"records": [{**record, member: value}], "datasets": {}, "leftOut": 0}):
        try:
            read = read_peer_answer(answer, records_max=10)
        except CorruptedSource:
            continue
        assert set(read.records[0]) <= {*record, "why", "end", "values", "claimedBy", "corrects"}
