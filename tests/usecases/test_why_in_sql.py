"""The SQL function `why`: its rows, rights, and what is wrong with a call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.domain.people.access import Subject
from odfabric.errors import InvalidQuery, LimitExceeded
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.people.account import DatasetRole
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.queries.query_data import PinnedDataset, QueryData
from odfabric.usecases.queries.query_document import QueryForm
from tests.services.api.people import People
from tests.usecases.test_ask_why import Story, copy_of, story

__all__ = ["story"]


def asked(story: Story, call: str, *, by: Subject | None = None, **given: Any) -> dict[str, Any]:
    form = QueryForm(include=("Input", "Schema"))
    return story.memory.node.rows.query_document(QueryData(sql=f"select * from {call}", **given), form, by=by)


def rows(story: Story, call: str, **given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(story, call, **given)["output"]["data"]
    return found


def test_rows_go_from_the_record_to_its_root(story: Story) -> None:
    found = rows(story, "why('again', 2, 'city')")
    assert [(row["depth"], row["kind"], row["dataset"], row["offset"]) for row in found] == [
        (0, "asked", "local/again", 2),
        (1, "witness", "local/copied", 2),
        (1, "trigger", "local/copied", 2),
        (2, "witness", "local/readings", 2),
        (2, "trigger", "local/readings", 2),
    ]
    assert [row["verified"] for row in found] == [True, True, True, None, None]
    assert [(row["of_dataset"], row["of_offset"]) for row in found[3:]] == [("local/copied", 2)] * 2
    witness = found[3]
    assert (witness["role"], witness["columns"], witness["reason"]) == ("copied", "city (copied)", "root")
    assert witness["block"] == str(story.memory.node.repository.head(story.readings.id).hash)
    assert (witness["op"], witness["records"]) == (0, 1)


def test_the_rows_are_those_of_the_answer(story: Story) -> None:
    answer = story.why(story.again, 0)
    edges = {
        (of["dataset"], of["offset"], each["dataset"], offset)
        for of in answer["records"]
        for each in (of.get("why") or {"witnesses": []})["witnesses"]
        for begin, end in each["ranges"]
        for offset in range(begin, end)
    }
    names = {row["alias"]: dataset for dataset, row in answer["datasets"].items()}
    assert {
        (names[row["of_dataset"]], row["of_offset"], names[row["dataset"]], row["offset"])
        for row in rows(story, "why('again', 0)")
        if row["kind"] == "witness"
    } == edges


def test_depth_and_a_name_without_quotes(story: Story) -> None:
    found = rows(story, "why(again, 0, '', 1)")
    assert [row["depth"] for row in found] == [0, 1, 1]
    assert found[1]["reason"] == "depth"
    assert [row["reason"] for row in rows(story, "why('readings', 0)")] == ["root"]


def test_datasets_that_may_not_be_read_are_counted(tmp_path: Path) -> None:
    people = People(tmp_path)
    secret = people.add("ann", "readings")
    others = people.add("ann", "others")
    derived = people.add("ann", "copied", manifest=copy_of("ann/readings", "copied", second="ann/others"))
    people.grant(derived, "*", DatasetRole.READER)
    node, by = people.memory.node, people.subject("ann")
    line = b'{"event_time": "2026-01-01T00:00:00Z", "city": "Hidden"}'
    for work in (
        node.requests.push(PushData(dataset=others.id, body=iter([line])), by=by),
        node.requests.push(PushData(dataset=secret.id, body=iter([line])), by=by),
        node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias), by=by),
    ):
        assert isinstance(work, Job)
        assert people.memory.finish(work).status is JobStatus.SUCCEEDED
    form, reader = QueryForm(), people.subject("pia")
    document: Any = node.rows.query_document(QueryData(sql="select * from why('ann/copied', 0)"), form, by=reader)
    asked, *behind = document["output"]["data"]
    assert (asked["dataset"], asked["offset"]) == ("ann/copied", 0)
    assert [row["kind"] for row in behind] == ["witness", "trigger"]
    for row in behind:
        assert (row["dataset"], row["offset"], row["records"]) == (str(secret.id), None, 1)
        assert (row["reason"], row["columns"], row["block"]) == ("not-readable", None, None)
    with pytest.raises(InvalidQuery, match="dataset not found: ann/readings"):
        node.rows.query_document(QueryData(sql="select * from why('ann/readings', 0)"), form, by=reader)


def test_a_pinned_dataset_has_the_records_of_its_blocks(story: Story) -> None:
    document = asked(story, "why('copied', 0)")
    (pin,) = document["input"]["datasets"]
    assert pin["alias"] == "copied"
    first = story.why(story.copied, 0)["records"][0]["block"]["hash"]
    repository = story.memory.node.repository
    block = next(row.hash for row in repository.chains.rows_down(story.copied.id) if str(row.hash) == first)
    pins = (PinnedDataset(id=story.copied.id, alias="c", block_hash=block),)
    assert rows(story, "why('c', 1)", datasets=pins)[0]["offset"] == 1
    with pytest.raises(InvalidQuery, match="was written by block"):
        rows(story, "why('c', 2)", datasets=pins)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("why('again')", "why has 2 to 4 arguments, not 1"),
        ("why('again', 'x')", "'x' is no offset"),
        ("why('again', 99)", "its offsets are 0 to 2"),
        ("why('again', 0, 'citi')", "did you mean `city`"),
        ("why('again', 0, '', 'deep')", "Unknown depth"),
        ("why('nothing', 0)", "dataset not found"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(story: Story, call: str, message: str) -> None:
    with pytest.raises(InvalidQuery) as refused:
        rows(story, call)
    assert message in f"{refused.value.message} {refused.value.hint}"


def test_a_query_has_few_traces(story: Story) -> None:
    with pytest.raises(LimitExceeded, match="too many calls of why"):
        rows(story, "why('again', 0) -- " + " ".join(f"why('again', {number})" for number in range(1, 6)))


@pytest.mark.parametrize(
    ("limits", "way"),
    [
        ({"provenance_rows_max": 1}, "`odf why local/again 0 --all` or GET /local/again/why?offset=0&whole=true"),
        ({"provenance_wall_s_max": 0.001}, "`odf why local/again 0` or GET /local/again/why?offset=0"),
    ],
)
def test_what_is_too_much_for_a_query_names_the_ways_that_have_more_time(
    story: Story, limits: dict[str, float], way: str
) -> None:
    verbs = story.memory.node.rows
    settings = verbs.core.settings.model_copy(update=limits)
    story.memory.node.rows = replace(verbs, core=replace(verbs.core, settings=settings))
    with pytest.raises(InvalidQuery) as refused:
        rows(story, "why('again', 0)")
    assert way in refused.value.message
    assert next(iter(limits)) in str(refused.value)
