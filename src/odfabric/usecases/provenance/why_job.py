"""Explain records as a job, and give the answer that it keeps.

Invariants: the job does what its asker may do at that moment. Its answer is given only to readers of every dataset that the answer shows,
judged when it is read: rights may have changed since it was made. The job names no dataset, so that nobody who writes to one waits for it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from odfabric.domain.people.access import Action, Subject
from odfabric.errors import LimitExceeded, NotFound
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.jobs.why_request import read_why_request, why_members, write_why_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobKind, JobStatus, NewJob
from odfabric.model.jobs.requests import WhyJobRequest
from odfabric.model.why_request import WhyRequest
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.provenance.ask_peers import PeerPorts
from odfabric.usecases.provenance.ask_why import ask_why, question_of
from odfabric.usecases.provenance.trace_records import TracePorts
from odfabric.usecases.rights.access import Access


def enqueue_why(
    entry: CatalogEntry,
    request: WhyRequest,
    *,
    subject: Subject,
    ports: TracePorts,
    jobs: Jobs,
    clock: Clock,
    entropy: Entropy,
) -> Job:
    """Queue the question, or find the unfinished job of the same asker for it.

    Raises InvalidRequest, LimitExceeded, Unauthenticated for a stranger.
    """
    question_of(entry, request, ports=ports)
    account = account_of(subject)
    wanted = WhyJobRequest(dataset=entry.id, asked=request)
    wishes = [account, subject.token, why_members(wanted)]
    digest = hashlib.sha256(json.dumps(wishes, sort_keys=True).encode()).hexdigest()
    new = NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.WHY,
        account=account,
        dataset_id=None,
        request=write_why_request(wanted, envelope_of(subject)),
        dedup_key=f"why/{digest}",
    )
    return jobs.enqueue(new, now=clock.now())


def run_why(
    job: Job,
    run: JobRun,
    *,
    subject: Subject,
    access: Access,
    ports: TracePorts,
    peers: PeerPorts,
    answer_bytes_max: int,
) -> dict[str, object]:
    """Answer a queued question.

    Raises as `ask_why`, AccessDenied, LimitExceeded for too large an answer.
    """
    asked = read_why_request(job)
    entry = ports.repository.resolve(asked.dataset)
    access.require(subject, Action.READ, entry)
    answer = ask_why(entry, asked.asked, ports=ports, progress=run.report, peers=peers)
    if len(json.dumps(answer)) > answer_bytes_max:
        raise LimitExceeded(
            "the answer is too large to be kept: ask for fewer records, columns or datasets at once",
            limit="provenance_answer_bytes_max",
            maximum=answer_bytes_max,
        )
    return answer


def kept_answer(job: Job, *, seen: Repository, repository: Repository) -> dict[str, object]:
    """The answer of a job that has succeeded, for a reader.

    `seen` is the repository as they see it.

    Raises NotFound for another kind of job, one that has not succeeded, and a reader who may not, or no longer, read a dataset that the
    answer shows.
    """
    if job.kind is not JobKind.WHY or job.status is not JobStatus.SUCCEEDED or job.result is None:
        hint = f"it is a {job.kind.value} job and {job.status.value}: GET /jobs/{job.id} says more"
        raise NotFound("answer of job", job.id, hint=hint)
    answer: dict[str, Any] = json.loads(job.result)
    shown = [parse_dataset_id(text) for text in {answer["dataset"], *answer["datasets"], *_claimed(answer)}]
    # What other nodes have shown of datasets that are not here is no right of this node's to give.
    elsewhere = {dataset for dataset in map(parse_dataset_id, _claimed(answer)) if repository.find(dataset) is None}
    if any(seen.find(dataset) is None and dataset not in elsewhere for dataset in shown):
        hint = "rights or datasets have changed since it was made: ask the question again"
        raise NotFound("answer of job", job.id, hint=hint)
    return answer


def _claimed(answer: dict[str, Any]) -> set[str]:
    """Datasets of which the answer has what other nodes say."""
    return {one["dataset"] for one in answer["records"] if one.get("claimedBy") and one["dataset"] != answer["dataset"]}
