"""Audit of refused requests, written after the answer.

So nobody waits for it or learns from the time that it takes.

Owns what such an entry says. Invariant: one caller cannot fill the audit - refusals that repeat are counted, and where anything can stand in
a path, the entry names the route in its place.
"""

from __future__ import annotations

import logging

from fastapi import Request
from starlette.background import BackgroundTask

from odfabric.errors import AccessDenied, CredentialRefused, OdfError, WrongCredentials
from odfabric.model.people.audit import Actor, AuditEntry, AuditKind, AuditOutcome
from odfabric_api.auth import Subject, node_of

_log = logging.getLogger(__name__)

PATH_CHARACTERS_MAX = 300


def audit_task(request: Request, error: OdfError) -> BackgroundTask | None:
    """What is to be done after the answer to a refused request.

    None for other failures, and for sign-ins, which count themselves.
    """
    if isinstance(error, WrongCredentials) or not isinstance(error, AccessDenied | CredentialRefused):
        return None
    entry = _entry(request, error)

    def write() -> None:
        people = node_of(request).people
        try:
            people.audit.refused(entry, window_s=people.limits.refusals_window_s)
        except OdfError as failed:
            _log.error("a refusal is not in the audit: %s", failed)

    return BackgroundTask(write)


def _entry(request: Request, error: OdfError) -> AuditEntry:
    subject: Subject | None = getattr(request.state, "subject", None)
    address = request.client.host if request.client else None
    actor = subject.actor if subject is not None else Actor(address=address)
    is_token = isinstance(error, CredentialRefused)
    route = getattr(request.scope.get("route"), "path", "")
    path = request.url.path[:PATH_CHARACTERS_MAX] if "{dataset}" in route else route
    return AuditEntry(
        kind=AuditKind.TOKEN_REFUSED if is_token else AuditKind.ACCESS_REFUSED,
        actor=actor,
        at=node_of(request).ports.clock.now(),
        target=None if is_token else f"{request.method} {path}",
        outcome=AuditOutcome.REFUSED,
        detail={"reason": error.code},
    )
