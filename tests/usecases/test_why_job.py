"""Questions as jobs: their answers, and who may read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.domain.people.access import Subject
from odfabric.errors import InvalidRequest, NotFound, Unauthenticated
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.people.account import DatasetRole
from odfabric.model.why_request import WhyRequest
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.people import People
from tests.usecases.test_ask_why import copy_of

LINE = b'{"event_time": "2026-01-01T00:00:00Z", "city": "Hidden"}'


@pytest.fixture
def people(tmp_path: Path) -> People:
    return of_ann(tmp_path)


def of_ann(folder: Path, **settings: Any) -> People:
    """`ann/copied`, read by all, is made of `ann/readings`, which pia may read."""
    found = People(folder, **settings)
    node, by = found.memory.node, found.subject("ann")
    secret, others = found.add("ann", "readings"), found.add("ann", "others")
    derived = found.add("ann", "copied", manifest=copy_of("ann/readings", "copied", second="ann/others"))
    found.grant(derived, "*", DatasetRole.READER)
    found.grant(secret, "pia", DatasetRole.READER)
    for work in (
        node.requests.push(PushData(dataset=others.id, body=iter([LINE])), by=by),
        node.requests.push(PushData(dataset=secret.id, body=iter([LINE])), by=by),
        node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias), by=by),
    ):
        assert isinstance(work, Job)
        assert found.memory.finish(work).status is JobStatus.SUCCEEDED
    return found


def entry(people: People, name: str) -> CatalogEntry:
    return people.memory.node.repository.resolve(DatasetAlias(Name("ann"), Name(name)))


ASKED = WhyRequest(offsets=(0,), columns=("city",), values=True)


def asked(people: People, name: str, request: WhyRequest = ASKED) -> Job:
    node = people.memory.node
    return node.requests.why(entry(people, "copied"), request, by=people.subject(name))


def kept(people: People, job: Job, name: str) -> Any:
    return people.memory.node.provenance.kept(job.id, "json", by=people.subject(name), namespace="http://n")


def test_the_answer_of_a_job_is_that_of_the_question(people: People) -> None:
    job = asked(people, "pia")
    assert asked(people, "pia").id == job.id, "an unfinished question is one job"
    assert asked(people, "pia", replace(ASKED, depth="1")).id != job.id
    assert asked(people, "ann").id != job.id
    with pytest.raises(NotFound, match="answer of job"):
        kept(people, job, "pia")
    ended = people.memory.finish(job)
    assert ended.status is JobStatus.SUCCEEDED, ended.error
    direct = people.memory.node.provenance.why(entry(people, "copied"), ASKED, by=people.subject("pia"))
    assert kept(people, job, "pia") == json.loads(json.dumps(direct))
    shown = people.memory.node.jobs.get(job.id, by=people.subject("pia"))
    assert json.loads(shown.result or "") == {"answer": f"/jobs/{job.id}/answer"}
    with pytest.raises(NotFound, match="job"):
        people.memory.node.jobs.get(job.id, by=Subject())


def test_rights_are_judged_when_the_answer_is_read(people: People) -> None:
    job = people.memory.finish(asked(people, "pia"))
    assert "Hidden" in str(kept(people, job, "pia"))
    people.grant(entry(people, "readings"), "pia", None)
    with pytest.raises(NotFound) as refused:
        kept(people, job, "pia")
    assert "ask the question again" in str(refused.value.hint)
    again = people.memory.finish(asked(people, "pia"))
    (record,) = kept(people, again, "pia")["records"]
    assert record["why"]["witnesses"][0]["end"]["reason"] == "not-readable"


def test_rights_are_judged_when_the_job_runs(people: People) -> None:
    job = asked(people, "pia")
    people.grant(entry(people, "copied"), "*", None)
    assert people.memory.finish(job).status is JobStatus.FAILED


def test_what_is_wrong_with_a_question_is_said_before_it_is_queued(people: People) -> None:
    with pytest.raises(InvalidRequest, match="no column"):
        asked(people, "pia", replace(ASKED, columns=("citi",)))
    with pytest.raises(Unauthenticated):
        people.memory.node.requests.why(entry(people, "copied"), ASKED, by=Subject())


def test_too_large_an_answer_is_not_kept(tmp_path: Path) -> None:
    people = of_ann(tmp_path, provenance_answer_bytes_max=10)
    job = people.memory.finish(asked(people, "pia"))
    assert job.status is JobStatus.FAILED
    assert "provenance_answer_bytes_max" in str(job.error)
