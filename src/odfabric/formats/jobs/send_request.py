"""The request of a job that pushes a dataset elsewhere, as its row keeps it.

The job is of no dataset's queue, so that writers do not wait for it; its request names the one that is pushed, and so does its row.
"""

from __future__ import annotations

import json

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Envelope, SendRequest, SendWish
from odfabric.model.people.account import Visibility


def write_send_request(request: SendRequest, envelope: Envelope) -> str:
    """The text of a request."""
    return json.dumps({**send_members(request), **envelope_members(envelope)}, sort_keys=True)


def send_members(request: SendRequest) -> dict[str, object]:
    """The wishes alone, without who asks: requests with the same wishes are one job."""
    wish = request.wish
    members: dict[str, object] = {"dataset": str(request.dataset), "to": wish.to, "force": wish.force}
    if wish.visibility is not Visibility.PRIVATE:
        members["visibility"] = wish.visibility.value
    return members


def read_send_request(job: Job) -> SendRequest:
    """The request of a job that pushes elsewhere. Raises Corrupt."""
    members = RequestMembers.of(job)
    wish = SendWish(
        to=members.text_or_none("to"),
        force=members.flag("force"),
        visibility=members.parsed_or_none("visibility", Visibility) or Visibility.PRIVATE,
    )
    return SendRequest(members.parsed("dataset", parse_dataset_id), wish)
