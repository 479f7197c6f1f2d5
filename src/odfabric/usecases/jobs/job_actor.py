"""Who has asked for a job: as the audit names them, and with the rights that they have now.

Owns the member `by` of a job's request: name, token and address of the asker at that time, and the trace of the request. The account itself is a column of the job.
Invariant: a job is done with the rights that its account has at that moment, within the bounds of the token by which it was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odfabric.domain.people.access import Subject
from odfabric.errors import TokenRevoked
from odfabric.formats.operations.trace_context import TraceContext, parse_traceparent
from odfabric.model.jobs.job import Job
from odfabric.model.people.audit import THE_NODE, Actor
from odfabric.model.people.credential import OPERATOR_TOKEN_ID
from odfabric.ports.people.credentials import Tokens
from odfabric.usecases.rights.access import Access


def account_of(subject: Subject) -> str:
    """What a job stores as its account: the id. Raises ValueError for a stranger, who cannot ask for jobs."""
    if subject.account is None:
        raise ValueError("a stranger has no jobs")
    return str(subject.account.id)


def by_member(subject: Subject) -> dict[str, str]:
    """The member `by` of a request; what is not known is left out."""
    actor = subject.actor
    members = {"name": actor.name, "token": actor.token, "address": actor.address}
    if subject.trace is not None:
        members["trace"] = str(subject.trace)
    return {name: value for name, value in members.items() if value is not None}


def actor_of(job: Job) -> Actor:
    """Who has asked. Jobs of older releases tell the account's name alone; those that nobody asked for are the node's."""
    request: Mapping[str, Any] = json.loads(job.request)
    by = request.get("by")
    if by is None:
        return THE_NODE
    account = job.account if job.account.startswith("did:") else None
    return Actor(account=account, name=by.get("name"), token=by.get("token"), address=by.get("address"))


def trace_of_job(job: Job) -> TraceContext | None:
    """The trace of the request by which the job was asked for."""
    by = json.loads(job.request).get("by")
    trace = by.get("trace") if isinstance(by, Mapping) else None
    return parse_traceparent(trace) if isinstance(trace, str) else None


def asker_of(job: Job, *, access: Access, tokens: Tokens) -> Subject:
    """Whose rights count when the job is done.

    A token that has expired since then does not stop what was asked for in time. Raises TokenRevoked, AccountSuspended, NotFound for an
    account that is gone.
    """
    subject, token_id = access.subject_later(job.account), actor_of(job).token
    if token_id is None or token_id == OPERATOR_TOKEN_ID:
        return subject
    token = tokens.get(token_id)
    if token is None or token.revoked_at is not None:
        raise TokenRevoked("the token by which this was asked for was revoked", hint="ask again with another one")
    return replace(subject, scopes=token.scopes, datasets=token.datasets, token=token.id)
