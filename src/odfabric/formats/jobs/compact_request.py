"""The request of a compacting job as its row keeps it."""

from __future__ import annotations

import json

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import CompactRequest, Envelope


def write_compact_request(request: CompactRequest, envelope: Envelope) -> str:
    """The text of a request."""
    return json.dumps({**compact_members(request), **envelope_members(envelope)}, sort_keys=True)


def compact_members(request: CompactRequest) -> dict[str, object]:
    """The wishes alone, without who asks: requests with the same wishes are one job."""
    return {
        "dataset": str(request.dataset),
        "metadataOnly": request.metadata_only,
        "sliceBytesMax": request.slice_bytes_max,
        "sliceRecordsMax": request.slice_records_max,
    }


def read_compact_request(job: Job) -> CompactRequest:
    """The request of a compacting job. Raises Corrupt."""
    members = RequestMembers.of(job)
    return CompactRequest(
        dataset=members.parsed("dataset", parse_dataset_id),
        metadata_only=members.flag("metadataOnly"),
        slice_bytes_max=members.number("sliceBytesMax") if members.has("sliceBytesMax") else None,
        slice_records_max=members.number("sliceRecordsMax") if members.has("sliceRecordsMax") else None,
    )
