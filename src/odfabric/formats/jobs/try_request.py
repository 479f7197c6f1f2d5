"""The request of a job that tries a push, as its row keeps it."""

from __future__ import annotations

import json

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import DatasetToTry, Envelope, PushToTry, TryRequest


def write_try_request(request: TryRequest, envelope: Envelope) -> str:
    """The text of a request."""
    members: dict[str, object] = {
        "upload": request.upload,
        "digest": request.digest.hex(),
        "size": request.size,
        "fileName": request.file_name,
        "shown": dict(request.shown),
        **envelope_members(envelope),
    }
    match request.target:
        case DatasetToTry(manifest):
            members["manifest"] = manifest
        case PushToTry() as push:
            members |= {
                "dataset": str(push.dataset),
                "sourceName": push.source_name,
                "mediaType": push.media_type,
            }
    return json.dumps(members)


def read_try_request(job: Job) -> TryRequest:
    """The request of a trial. Raises Corrupt."""
    members = RequestMembers.of(job)
    target: DatasetToTry | PushToTry
    if members.has("manifest"):
        target = DatasetToTry(members.text("manifest"))
    else:
        target = PushToTry(
            dataset=members.parsed("dataset", parse_dataset_id),
            source_name=members.text_or_none("sourceName"),
            media_type=members.text_or_none("mediaType"),
        )
    return TryRequest(
        upload=members.text("upload"),
        digest=members.parsed("digest", bytes.fromhex),
        size=members.number("size"),
        file_name=members.text("fileName"),
        target=target,
        shown=members.inner("shown").values,
    )
