"""The requester of a job: as the audit names them, with their present rights.

Owns what becomes of the member `by` of a request. The account itself is a column of the job.
Invariant: a job is done with the rights that its account has at that moment, within the bounds of the token by which it was asked for.
"""

from __future__ import annotations

from dataclasses import replace

from odfabric.domain.people.access import Subject, signed_in
from odfabric.errors import Corrupt, TokenRevoked
from odfabric.formats.jobs.envelope import read_envelope
from odfabric.formats.operations.trace_context import TraceContext, parse_traceparent
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import Asker, Envelope
from odfabric.model.people.audit import THE_NODE, Actor
from odfabric.model.people.credential import OPERATOR_TOKEN_ID
from odfabric.ports.people.credentials import Tokens
from odfabric.usecases.rights.access import Access


def account_of(subject: Subject) -> str:
    """What a job stores as its account: the id.

    Raises Unauthenticated for a stranger, who cannot ask for jobs.
    """
    return str(signed_in(subject).id)


def envelope_of(subject: Subject) -> Envelope:
    """The envelope of a request that a person makes."""
    actor, trace = subject.actor, subject.trace
    asker = Asker(
        name=actor.name,
        token=actor.token,
        address=actor.address,
        trace=str(trace) if trace is not None else None,
    )
    return Envelope(by=asker)


def actor_of(job: Job) -> Actor:
    """Who has asked; the node itself for jobs that no person asked for.

    Raises Corrupt.
    """
    by = read_envelope(job).by
    if by is None:
        return THE_NODE
    account = job.account if job.account.startswith("did:") else None
    return Actor(account=account, name=by.name, token=by.token, address=by.address)


def trace_of_job(job: Job) -> TraceContext | None:
    """The trace of the request by which the job was asked for.

    None also if that is damaged, which running the job reports.
    """
    try:
        by = read_envelope(job).by
    except Corrupt:
        return None
    return parse_traceparent(by.trace) if by is not None and by.trace is not None else None


def asker_of(job: Job, *, access: Access, tokens: Tokens) -> Subject:
    """Whose rights count when the job is done.

    A token that has expired since then does not stop what was asked for in time. Raises TokenRevoked, AccountSuspended, NotFound for an
    account that is gone, Corrupt.
    """
    subject, token_id = access.subject_later(job.account), actor_of(job).token
    if token_id is None or token_id == OPERATOR_TOKEN_ID:
        return subject
    token = tokens.get(token_id)
    if token is None or token.revoked_at is not None:
        raise TokenRevoked("the token by which this was asked for was revoked", hint="ask again with another one")
    return replace(subject, scopes=token.scopes, datasets=token.datasets, token=token.id)
