"""The request of a job that pushes a dataset elsewhere, as its row keeps it.

The job is of no dataset, so that those who write to it do not wait; its request names the one that is pushed.
"""

from __future__ import annotations

import json

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Envelope, SendRequest
from odfabric.model.people.account import Visibility


def write_send_request(dataset: DatasetId, request: SendRequest, envelope: Envelope) -> str:
    """The text of a request."""
    return json.dumps({**send_members(dataset, request), **envelope_members(envelope)}, sort_keys=True)


def send_members(dataset: DatasetId, request: SendRequest) -> dict[str, object]:
    """The wishes alone, without who has them: two requests with the same wishes are one job."""
    wishes: dict[str, object] = {"dataset": str(dataset), "to": request.to, "force": request.force}
    if request.visibility is not Visibility.PRIVATE:
        wishes["visibility"] = request.visibility.value
    return wishes


def read_send_request(job: Job) -> tuple[DatasetId, SendRequest]:
    """Which dataset, and the request. Raises Corrupt."""
    members = RequestMembers.of(job)
    request = SendRequest(
        to=members.text_or_none("to"),
        force=members.flag("force"),
        visibility=members.parsed_or_none("visibility", Visibility) or Visibility.PRIVATE,
    )
    return members.parsed("dataset", parse_dataset_id), request
