"""The request of a verifying job as its row keeps it."""

from __future__ import annotations

import json

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Envelope, VerifyRequest


def write_verify_request(request: VerifyRequest, envelope: Envelope) -> str:
    """The text of a request."""
    head = {"head": str(request.head)} if request.head is not None else {}
    return json.dumps({**verify_members(request), **envelope_members(envelope), **head}, sort_keys=True)


def verify_members(request: VerifyRequest) -> dict[str, object]:
    """The wishes alone, without who asks and the head at that time.

    Two requests with the same wishes are one job.
    """
    members: dict[str, object] = {"dataset": str(request.dataset), "data": request.data, "replay": request.replay}
    if request.after is not None:
        members["after"] = str(request.after)
    if request.until is not None:
        members["until"] = str(request.until)
    if request.report:
        members["report"] = True
    if request.fetch:
        members["fetch"] = True
    return members


def read_verify_request(job: Job) -> VerifyRequest:
    """The request of a verifying job. Raises Corrupt."""
    members = RequestMembers.of(job)
    return VerifyRequest(
        dataset=members.parsed("dataset", parse_dataset_id),
        data=members.flag("data"),
        replay=members.flag("replay"),
        head=members.parsed_or_none("head", parse_multihash),
        after=members.parsed_or_none("after", parse_multihash),
        until=members.parsed_or_none("until", parse_multihash),
        report=members.flag_or_false("report"),
        fetch=members.flag_or_false("fetch"),
    )
