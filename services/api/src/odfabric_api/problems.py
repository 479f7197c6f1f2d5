"""Errors of the closed tree as HTTP answers (RFC 9457).

Owns the one table from a leaf's code to a status. Invariant: every leaf has a status, nothing a client can send gives 5xx, and no
answer holds a stack trace or a path of this machine. Clients of the reference read `message`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from odfabric.errors import Changed, LimitExceeded, OdfError
from odfabric.usecases.jobs.problem import PROBLEM_TYPE_PREFIX, problem_document

PROBLEM_MEDIA_TYPE = "application/problem+json"

HTTP_STATUS: Mapping[str, int] = {
    "invalid-request": 400,
    "invalid-name": 400,
    "invalid-query": 400,
    "source-not-found": 400,
    "unsupported-protocol": 400,
    "ambiguous-repository": 400,
    "empty-repository-list": 400,
    "invalid-manifest": 422,
    "invalid-block": 422,
    "invalid-data": 422,
    "incompatible-schema": 422,
    "corrupted-source": 422,
    "idempotency-key-reused": 422,
    "unsupported-media-type": 415,
    "unauthenticated": 401,
    "token-malformed": 401,
    "token-checksum": 401,
    "token-unknown": 401,
    "token-expired": 401,
    "token-revoked": 401,
    "account-suspended": 401,
    "wrong-credentials": 401,
    "access-denied": 403,
    "not-found": 404,
    "head-moved": 409,
    "already-exists": 409,
    "in-use": 409,
    "changed": 409,
    "last-admin": 409,
    "chains-diverged": 409,
    "destination-ahead": 409,
    "lease-lost": 409,
    "limit-exceeded": 413,
    "corrupt": 500,
    "unavailable": 503,
    "outcome-unknown": 503,
}

LIMIT_STATUS: Mapping[str, int] = {
    "body_bytes_per_s_min": 408,
    "body_wait_s_max": 408,
    "account_datasets_max": 429,
    "account_pushes_per_minute_max": 429,
    "account_queries_at_once_max": 429,
    "account_stored_bytes_max": 429,
    "collaborators_max": 429,
    "device_authorisations_max": 429,
    "members_max": 429,
    "organisations_per_account_max": 429,
    "password_hashes_waiting_max": 429,
    "sign_ins_per_account_max": 429,
    "sign_ins_per_address_max": 429,
    "tokens_per_account_max": 429,
    "connections_at_once_max": 429,
    "pushes_at_once_max": 429,
    "pushes_queued_per_account_max": 429,
    "pushes_queued_per_dataset_max": 429,
    "queries_at_once_max": 429,
    "smart_transfers_anonymous_max": 429,
    "smart_transfers_at_once_max": 429,
    "smart_transfers_per_account_max": 429,
    "streams_at_once_max": 429,
    "account_streams_at_once_max": 429,
    "requests_at_once_max": 429,
    "subscriptions_per_dataset_max": 429,
    "cursors_per_dataset_max": 429,
    # The request was received whole; it is its work that takes too long.
    "call_s_max": 422,
    "engine_call_s_max": 422,
    "engine_validate_s_max": 422,
    "query_wall_s_max": 422,
}
"""Limits that are not about a size; every other one is 413."""

RETRY_AFTER_S = 1

SECURITY_HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Of every answer that does not say otherwise: it is data, never a page, and nobody else's to keep."""


def problem_response(error: OdfError, *, has_condition: bool = False) -> Response:
    """The answer to a request that failed with `error`.

    `has_condition`: it had an `If-Match`.
    """
    headers: dict[str, str] = {}
    if isinstance(error, LimitExceeded) and error.retry_after_s is not None:
        headers["retry-after"] = str(error.retry_after_s)
    status = 412 if has_condition and isinstance(error, Changed) else None
    return document_response(problem_document(error), headers, status=status)


def document_response(
    document: Mapping[str, object], headers: Mapping[str, str] | None = None, *, status: int | None = None
) -> Response:
    """The answer for a problem document, as it also stands in job rows.

    `status` if it is not that of the code.
    """
    status = status or status_of(document)
    sent = dict(headers or {})
    if status == 401:
        sent["www-authenticate"] = "Bearer"
    if status == 503:
        sent.setdefault("retry-after", str(RETRY_AFTER_S))
    body = _bytes({**document, "status": status})
    return Response(body, status_code=status, headers=sent, media_type=PROBLEM_MEDIA_TYPE)


def status_of(document: Mapping[str, object]) -> int:
    """Status of a problem document. A code that is not in the table is a bug of ours."""
    code = str(document.get("code"))
    if code == LimitExceeded.code:
        return LIMIT_STATUS.get(str(document.get("limit")), HTTP_STATUS[code])
    return HTTP_STATUS.get(code, 500)


def problem_status(error: OdfError) -> int:
    """Status of the answer to a request that failed with `error`."""
    return status_of(problem_document(error))


def plain_problem(
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    *,
    limit: tuple[str, float] | None = None,
) -> Response:
    """A problem of the HTTP layer itself, which is no leaf of the tree.

    `limit` is the name and value of one that was hit.
    """
    document: dict[str, object] = {
        "type": PROBLEM_TYPE_PREFIX + code,
        "code": code,
        "title": code.replace("-", " "),
        "status": status,
        "detail": message,
        "message": message,
    }
    if limit is not None:
        document.update(limit=limit[0], maximum=limit[1], hint=f"limit {limit[0]} = {limit[1]}")
    return Response(_bytes(document), status_code=status, headers=dict(headers or {}), media_type=PROBLEM_MEDIA_TYPE)


def _bytes(document: Mapping[str, object]) -> bytes:
    # In ASCII, for a message may quote half of a character, which UTF-8 has not.
    return json.dumps(document).encode("ascii") + b"\n"
