"""Saved queries: questions that a person keeps by name.

Invariant: nobody but their account sees them, admins neither.

They are text: anyone who runs one is asked for rights as for any other query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.domain.people.access import Action, Subject, Verdict, signed_in
from odfabric.errors import InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.model.identity import AccountId
from odfabric.model.people.saved_query import SavedQuery
from odfabric.usecases.people.ports import PeoplePorts

NAME_CHARACTERS_MAX = 100
_ID_BYTES = 16


def may_keep_queries(subject: Subject, *, ports: PeoplePorts) -> bool:
    """Whether the subject has saved queries; strangers and narrow tokens have none."""
    if subject.account is None:
        return False
    verdict = ports.access.policy.decide_here(subject, Action.MANAGE, under=subject.account.name)
    return verdict is Verdict.ALLOWED


def list_queries(*, subject: Subject, ports: PeoplePorts) -> Sequence[SavedQuery]:
    """The subject's own in order of names. Raises Unauthenticated, AccessDenied."""
    found = ports.saved_queries.of_account(_account(subject, ports))
    return sorted(found, key=lambda query: (query.name.casefold(), query.name))


def get_query(query_id: str, *, subject: Subject, ports: PeoplePorts) -> SavedQuery:
    """One of the subject's own. Raises NotFound, Unauthenticated, AccessDenied."""
    found = ports.saved_queries.get(_account(subject, ports), query_id)
    if found is None:
        raise NotFound("saved query", query_id, hint="it may have been deleted")
    return found


def save_query(name: str, sql: str, *, subject: Subject, ports: PeoplePorts) -> SavedQuery:
    """Keep a new query.

    Raises InvalidRequest, AlreadyExists, LimitExceeded, Unauthenticated, AccessDenied.
    """
    account, now = _account(subject, ports), ports.clock.now()
    query = SavedQuery(
        id=ports.entropy.random_bytes(_ID_BYTES).hex(),
        account=account,
        name=_checked_name(name),
        sql=_checked_sql(sql, ports),
        created_at=now,
        changed_at=now,
    )
    ports.saved_queries.create(query, maximum=ports.limits.saved_queries_per_account_max)
    return query


def change_query(
    query_id: str, *, name: str | None = None, sql: str | None = None, subject: Subject, ports: PeoplePorts
) -> SavedQuery:
    """Rename a query or replace its text; None leaves what it is.

    Raises as `save_query`, NotFound.
    """
    known = get_query(query_id, subject=subject, ports=ports)
    changed = replace(
        known,
        name=known.name if name is None else _checked_name(name),
        sql=known.sql if sql is None else _checked_sql(sql, ports),
        changed_at=ports.clock.now(),
    )
    ports.saved_queries.change(changed)
    return changed


def delete_query(query_id: str, *, subject: Subject, ports: PeoplePorts) -> None:
    """Forget a query. Raises NotFound, Unauthenticated, AccessDenied."""
    if not ports.saved_queries.delete(_account(subject, ports), query_id):
        raise NotFound("saved query", query_id, hint="it may have been deleted already")


def _account(subject: Subject, ports: PeoplePorts) -> AccountId:
    account = signed_in(subject)
    ports.access.require_here(subject, Action.MANAGE, under=account.name, shown="saved queries")
    return account.id


def _checked_name(text: str) -> str:
    name = text.strip()
    if not 1 <= len(name) <= NAME_CHARACTERS_MAX or not name.isprintable():
        raise InvalidRequest(
            "not a name of a saved query",
            place=Place(field="name"),
            hint=f"1 to {NAME_CHARACTERS_MAX} printable characters",
        )
    return name


def _checked_sql(text: str, ports: PeoplePorts) -> str:
    maximum = ports.limits.query_text_bytes_max
    if not text.strip() or "\0" in text:
        raise InvalidRequest("there is no query to save", place=Place(field="sql"), hint="write one first")
    if len(text.encode()) > maximum:
        raise LimitExceeded("the query is too long", limit="query_text_bytes_max", maximum=maximum)
    return text
