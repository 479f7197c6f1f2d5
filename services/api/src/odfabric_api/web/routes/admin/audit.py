"""The audit: what was done and refused, newest first, with filters, and as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from odfabric.errors import NotFound, OdfError
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.people.audit import AuditKind, AuditOutcome, StoredAuditEntry
from odfabric.usecases.people.values import audit_value
from odfabric_api.auth import Admin, node_of
from odfabric_api.page_route import PageRoute
from odfabric_api.preconditions import instant_of
from odfabric_api.web.pages import page
from odfabric_api.web.submitted import answered

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE_ENTRIES = 50
FILE_ENTRIES = 1000
"""Entries that are read at once for a file."""
INT64_MAX = 2**63 - 1
COLUMNS = ("id", "at", "lastAt", "count", "kind", "outcome", "actor", "account", "token", "address", "target")
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")

Kind = Annotated[str, Query(max_length=40, description="One of AuditKind, or what its group begins with: `token.`")]
Actor = Annotated[str, Query(max_length=200, description="Name or identity of the account that did it")]
Target = Annotated[str, Query(max_length=250, description="To what it was done")]
Outcome = Annotated[Literal["", "done", "refused"], Query()]
Day = Annotated[str, Query(max_length=10, pattern="^([0-9]{4}-[0-9]{2}-[0-9]{2})?$", description="A day in UTC")]
Before = Annotated[int, Query(ge=0, le=INT64_MAX, description="Id under which the page begins; 0: the newest")]

Pages = Callable[[int | None, int], Sequence[StoredAuditEntry]]


@router.get("/-/admin/audit")
def get_audit(
    request: Request,
    caller: Admin,
    kind: Kind = "",
    actor: Actor = "",
    target: Target = "",
    outcome: Outcome = "",
    since: Day = "",
    until: Day = "",
    before: Before = 0,
) -> Response:
    """A page, newest first; the address is its whole state."""
    asked = {"kind": kind, "actor": actor, "target": target, "outcome": outcome, "since": since, "until": until}

    def shown(entries: Sequence[StoredAuditEntry], refusal: OdfError | None = None, status: int = 200) -> Response:
        values: dict[str, Any] = {
            "asked": asked,
            "kinds": sorted(each.value for each in AuditKind),
            "entries": entries[:PAGE_ENTRIES],
            "before": before,
            "following": entries[PAGE_ENTRIES - 1].id if len(entries) > PAGE_ENTRIES else None,
            "same": urlencode({name: value for name, value in asked.items() if value}),
            "refusal": refusal,
            "tab": "audit",
        }
        return page(request, "admin/audit.html", values, status=status)

    return answered(
        request,
        lambda: shown(_pages(request, asked)(before or None, PAGE_ENTRIES + 1)),
        lambda error, status: shown([], error, status),
    )


@router.get("/-/admin/audit.csv")
def get_file(
    request: Request,
    caller: Admin,
    kind: Kind = "",
    actor: Actor = "",
    target: Target = "",
    outcome: Outcome = "",
    since: Day = "",
    until: Day = "",
) -> Response:
    """All entries that fit, newest first."""
    asked = {"kind": kind, "actor": actor, "target": target, "outcome": outcome, "since": since, "until": until}
    headers = {"content-disposition": 'attachment; filename="audit.csv"'}
    return StreamingResponse(_lines(_pages(request, asked)), media_type="text/csv; charset=utf-8", headers=headers)


def _pages(request: Request, asked: dict[str, str]) -> Pages:
    """What fits.

    Raises NotFound for an actor who is not there, InvalidName, InvalidRequest for a day that is none.
    """
    people = node_of(request).people
    account = asked["actor"].strip() or None
    if account is not None and not account.startswith("did:"):
        found = people.accounts.by_name(parse_name(account, type_name="AccountName"))
        if found is None:
            raise NotFound("account", account, hint="of one that was deleted, give the identity, did:odf:…")
        account = str(found.id)
    kinds = (
        frozenset(each.value for each in AuditKind if each.value.startswith(asked["kind"])) if asked["kind"] else None
    )
    since = instant_of("since", f"{asked['since']}T00:00:00Z") if asked["since"] else None
    until = instant_of("until", f"{asked['until']}T00:00:00Z") if asked["until"] else None

    def read(before: int | None, limit: int) -> Sequence[StoredAuditEntry]:
        return people.audit.page(
            kinds=kinds,
            account=account,
            target=asked["target"].strip() or None,
            outcome=AuditOutcome(asked["outcome"]) if asked["outcome"] else None,
            since=since,
            until=until,
            before=before,
            newest_first=True,
            limit=limit,
        )

    return read


def _lines(read: Pages) -> Iterator[str]:
    yield _line((*COLUMNS, "dataset", "detail"))
    before = None
    while found := read(before, FILE_ENTRIES):
        for stored in found:
            value: dict[str, Any] = audit_value(stored)
            did = value["actor"]
            known = {**value, "actor": did["name"], **{name: did[name] for name in ("account", "token", "address")}}
            detail = "; ".join(f"{name}={text}" for name, text in sorted(value["detail"].items()))
            yield _line((*(known[name] for name in COLUMNS), value["dataset"], detail))
        before = found[-1].id


def _line(cells: Sequence[object]) -> str:
    written = io.StringIO()
    csv.writer(written).writerow([_cell(each) for each in cells])
    return written.getvalue()


def _cell(value: object) -> str:
    """A text that a spreadsheet would take for a formula stays a text there."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text
