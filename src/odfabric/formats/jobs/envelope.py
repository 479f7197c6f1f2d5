"""What requests of all jobs share: who asked, which flow, the job's objects."""

from __future__ import annotations

from odfabric.formats.jobs.request_members import RequestMembers
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Asker, Envelope, RequestObjects


def read_envelope(job: Job) -> Envelope:
    """Who or what asked for a job of any kind. Raises Corrupt."""
    members = RequestMembers.of(job)
    return Envelope(by=_asker(members.inner("by")) if members.has("by") else None, flow=members.text_or_none("flow"))


def read_objects(job: Job) -> RequestObjects:
    """The objects that a job of any kind works on. Raises Corrupt."""
    members = RequestMembers.of(job)
    return RequestObjects(staged=members.text_or_none("staged"), upload=members.text_or_none("upload"))


def envelope_members(envelope: Envelope) -> dict[str, object]:
    """The members `by` and `flow`, as far as they are known."""
    found: dict[str, object] = {}
    if envelope.by is not None:
        found["by"] = asker_value(envelope.by)
    if envelope.flow is not None:
        found["flow"] = envelope.flow
    return found


def asker_value(asker: Asker) -> dict[str, str]:
    """The member `by`; what is not known is left out."""
    members = {"name": asker.name, "token": asker.token, "address": asker.address, "trace": asker.trace}
    return {name: value for name, value in members.items() if value is not None}


def _asker(members: RequestMembers) -> Asker:
    return Asker(
        name=members.text_or_none("name"),
        token=members.text_or_none("token"),
        address=members.text_or_none("address"),
        trace=members.text_or_none("trace"),
    )
