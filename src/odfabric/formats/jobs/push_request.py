"""The request of a push job as its row keeps it."""

from __future__ import annotations

import json

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Envelope, PushRequest


def write_push_request(request: PushRequest, envelope: Envelope) -> str:
    """The text of a request."""
    members: dict[str, object] = {
        "dataset": str(request.dataset),
        "staged": request.staged,
        "digest": request.digest.hex(),
        "size": request.size,
        "fileName": request.file_name,
        "sourceName": request.source_name,
        "mediaType": request.media_type,
        "eventTime": str(request.event_time) if request.event_time is not None else None,
        "keyHash": request.key_hash.hex() if request.key_hash is not None else None,
        **envelope_members(envelope),
    }
    if request.if_match is not None:
        members["ifMatch"] = str(request.if_match)
    if request.allow_shrink:
        members["allowShrink"] = True
    return json.dumps(members)


def read_push_request(job: Job) -> PushRequest:
    """The request of a push job. Raises Corrupt."""
    members = RequestMembers.of(job)
    return PushRequest(
        dataset=members.parsed("dataset", parse_dataset_id),
        staged=members.text_or_none("staged"),
        digest=members.parsed("digest", bytes.fromhex),
        size=members.number("size"),
        file_name=members.text("fileName"),
        source_name=members.text_or_none("sourceName"),
        media_type=members.text_or_none("mediaType"),
        event_time=members.parsed_or_none("eventTime", Instant.parse),
        key_hash=members.parsed_or_none("keyHash", bytes.fromhex),
        if_match=members.parsed_or_none("ifMatch", parse_multihash),
        allow_shrink=members.flag_or_false("allowShrink"),
    )
