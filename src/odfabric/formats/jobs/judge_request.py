"""The request of a judging job as its row keeps it."""

from __future__ import annotations

import json

from odfabric.formats.files.file_shape_value import shape_value
from odfabric.formats.jobs.envelope import envelope_members
from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Envelope, FileToFetch, JudgeRequest, ReceivedFile


def write_judge_request(request: JudgeRequest, envelope: Envelope) -> str:
    """The text of a request."""
    members: dict[str, object] = {"upload": request.upload, "fileName": request.file_name}
    file = request.file
    if isinstance(file, ReceivedFile):
        members |= {"size": file.size, "digest": file.digest.hex()}
    if file.url is not None:
        members["url"] = file.url
    if request.shape is not None:
        members["shape"] = shape_value(request.shape)
    return json.dumps({**members, **envelope_members(envelope)})


def read_judge_request(job: Job) -> JudgeRequest:
    """The request of a judging job. Raises Corrupt."""
    members = RequestMembers.of(job)
    file: ReceivedFile | FileToFetch
    if members.has("digest"):
        digest = members.parsed("digest", bytes.fromhex)
        file = ReceivedFile(size=members.number("size"), digest=digest, url=members.text_or_none("url"))
    else:
        file = FileToFetch(url=members.text("url"))
    return JudgeRequest(
        upload=members.text("upload"),
        file_name=members.text("fileName"),
        file=file,
        shape=_shape(members.inner("shape")) if members.has("shape") else None,
    )


def _shape(members: RequestMembers) -> FileShape:
    return FileShape(
        format=members.parsed("format", FileFormat),
        separator=members.text("separator"),
        header=members.flag("header"),
    )
