"""The request of a job that explains records, as its row keeps it.

The job is of no dataset, so that those who write to it do not wait; its request names the one that is asked about.
"""

from __future__ import annotations

import json

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.formats.provenance.question import question_value
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Envelope, WhyJobRequest
from odfabric.model.why_request import WhyRequest


def write_why_request(request: WhyJobRequest, envelope: Envelope) -> str:
    """The text of a request."""
    return json.dumps({**why_members(request), **envelope_members(envelope)}, sort_keys=True)


def why_members(request: WhyJobRequest) -> dict[str, object]:
    """The question alone, without who asks.

    Requests with the same question are one job.
    """
    return {"dataset": str(request.dataset), **question_value(request.asked)}


def read_why_request(job: Job) -> WhyJobRequest:
    """The request of a job that explains records. Raises Corrupt."""
    members = RequestMembers.of(job)
    asked = WhyRequest(
        offsets=tuple(members.many("offsets", int)),
        columns=tuple(members.many("columns", str)),
        kinds=tuple(members.many("kinds", str)),
        depth=members.text("depth"),
        effort=members.text("effort"),
        limit=members.number("limit"),
        after=members.text_or_none("after"),
        values=members.flag("values"),
        whole=members.flag("whole"),
        peers=members.text_or_none("ask") == "peers",
        hops=members.number("hops") if members.has("hops") else 0,
    )
    return WhyJobRequest(dataset=members.parsed("dataset", parse_dataset_id), asked=asked)
