"""Who has asked for a job, as the audit names them.

Owns the member `by` of a job's request: name, token and address of the asker at that time. The account itself is a column of the job, by
which its rights are looked up when the job is done (`usecases.access`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odfabric.domain.access import Subject
from odfabric.model.audit import THE_NODE, Actor
from odfabric.model.job import Job


def account_of(subject: Subject) -> str:
    """What a job stores as its account: the id. Raises ValueError for a stranger, who cannot ask for jobs."""
    if subject.account is None:
        raise ValueError("a stranger has no jobs")
    return str(subject.account.id)


def by_member(subject: Subject) -> dict[str, str]:
    """The member `by` of a request; what is not known is left out."""
    actor = subject.actor
    members = {"name": actor.name, "token": actor.token, "address": actor.address}
    return {name: value for name, value in members.items() if value is not None}


def actor_of(job: Job) -> Actor:
    """Who has asked. Jobs of older releases tell the account's name alone; those that nobody asked for are the node's."""
    request: Mapping[str, Any] = json.loads(job.request)
    by = request.get("by")
    if by is None:
        return THE_NODE
    account = job.account if job.account.startswith("did:") else None
    return Actor(account=account, name=by.get("name"), token=by.get("token"), address=by.get("address"))
