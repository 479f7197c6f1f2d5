"""Push a dataset to the requested place, as a job: find it, send, remember it.

Invariant: it is done with the rights that the asker has at that moment. Replacing what is there takes the right to rewrite the dataset's
history, and the audit names who did it. The job is about the dataset and not in its queue: those who write to it do not wait for a slow network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
from odfabric.domain.transfer.direction import LOCAL, TransferProtocol, choose_protocol, scheme_of
from odfabric.formats.jobs.send_request import read_send_request, send_members, write_send_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobKind, NewJob
from odfabric.model.jobs.requests import SendRequest, SendWish
from odfabric.model.people.audit import AuditEntry, AuditKind
from odfabric.model.transfer.repository import AliasKind, RemoteAlias
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.people.audit import AuditLog
from odfabric.ports.transfer.destinations import Destinations
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.rights.access import Access
from odfabric.usecases.transfer.push_remote import SendPorts, Sent, push_remote
from odfabric.usecases.transfer.remote_names import PushTarget, RemoteNames

SendSmart = Callable[[CatalogEntry, PushTarget, SendWish, JobRun], Sent]
"""Pushes by the Smart protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendVerbs:
    """Both protocols, bound to their ports, and what finds the place."""

    names: RemoteNames
    destinations: Destinations
    sending: SendPorts
    access: Access
    audit: AuditLog
    clock: Clock
    aliases_max: int
    smart: SendSmart


def enqueue_send(
    entry: CatalogEntry,
    request: SendWish,
    *,
    subject: Subject,
    access: Access,
    jobs: Jobs,
    clock: Clock,
    entropy: Entropy,
) -> Job:
    """Queue the push; an unfinished one of the same wishes is that job.

    Raises NotFound, AccessDenied.
    """
    _check(entry, request, subject, access)
    account = account_of(subject)
    wanted = SendRequest(entry.id, request)
    wishes = [account, subject.token, send_members(wanted)]
    digest = hashlib.sha256(json.dumps(wishes, sort_keys=True).encode()).hexdigest()
    new = NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.SEND,
        account=account,
        dataset_id=None,
        about=entry.id,
        request=write_send_request(wanted, envelope_of(subject)),
        dedup_key=f"send/{digest}",
    )
    return jobs.enqueue(new, now=clock.now())


def run_send(job: Job, run: JobRun, *, subject: Subject, verbs: SendVerbs) -> dict[str, object]:
    """Run a queued push and give its result.

    `{id, alias, to, head, blocks, objects, bytes, replacedBlocks, upToDate}`. Raises as `push_remote`, AccessDenied.
    """
    asked = read_send_request(job)
    entry, request = verbs.sending.repository.resolve(asked.dataset), asked.wish
    _check(entry, request, subject, verbs.access)
    target = verbs.names.push_target(entry, request.to, subject)
    protocol = choose_protocol(LOCAL, scheme_of(target.url))
    if protocol is TransferProtocol.SMART:
        sent = verbs.smart(entry, target, request, run)
    else:
        destination = verbs.destinations.open(target.url)
        sent = push_remote(entry, destination, force=request.force, run=run, ports=verbs.sending)
    _record(entry, target, sent, subject, verbs)
    return {"id": str(entry.id), "alias": str(entry.alias), "to": target.alias, **sent.to_value()}


def _check(entry: CatalogEntry, request: SendWish, subject: Subject, access: Access) -> None:
    access.require(subject, Action.WRITE, entry)
    if request.force:
        access.require(subject, Action.REWRITE, entry)


def _record(entry: CatalogEntry, target: PushTarget, sent: Sent, subject: Subject, verbs: SendVerbs) -> None:
    alias = RemoteAlias(dataset=entry.id, kind=AliasKind.PUSH, target=target.alias)
    verbs.names.repositories.add_alias(alias, maximum=verbs.aliases_max)
    if sent.blocks or sent.replaced:
        kind = AuditKind.HISTORY_REPLACED if sent.replaced else AuditKind.DATASET_SENT
        detail = {"to": target.alias, "newHead": str(sent.head), "blocks": str(sent.blocks)}
        if sent.replaced:
            detail["replacedBlocks"] = str(sent.replaced)
        verbs.audit.add(
            AuditEntry(
                kind=kind,
                actor=subject.actor,
                at=verbs.clock.now(),
                target=str(entry.alias),
                dataset=entry.id,
                detail=detail,
            )
        )
