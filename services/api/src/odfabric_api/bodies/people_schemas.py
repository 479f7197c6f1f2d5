"""Shapes of answers about people, for the OpenAPI document; see `schemas`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from odfabric_api.bodies.schemas import Answer


class AccountView(Answer):
    """An account as others see it."""

    id: str
    name: str
    kind: Literal["user", "organisation"]
    display_name: str
    avatar_letter: str
    created_at: str


class AccountLimitsView(Answer):
    """Limits that an admin has set for an account.

    Null leaves it to the node's settings.
    """

    datasets_max: int | None
    stored_bytes_max: int | None
    pushes_per_minute_max: int | None
    queries_at_once_max: int | None


class ManagedAccountView(AccountView):
    """An account as it sees itself, and as its admins see it."""

    email: str | None
    is_admin: bool
    suspended_at: str | None
    limits: AccountLimitsView
    version: int


class AccountPage(Answer):
    """A page in order of names; the Link header leads to the next one."""

    accounts: list[ManagedAccountView]


class OrganisationOfAccount(Answer):
    """An organisation, and one's role in it."""

    name: str
    role: Literal["member", "admin"]


class Myself(Answer):
    """Who asks. `id` and `accountName` are what clients of the reference read."""

    id: str
    account_name: str
    account: ManagedAccountView
    organisations: list[OrganisationOfAccount]
    scopes: list[str]
    token: str | None


class MemberView(Answer):
    """A member of an organisation."""

    account: AccountView
    role: Literal["member", "admin"]
    version: int


class MemberList(Answer):
    """Members by name."""

    members: list[MemberView]


class CollaboratorView(Answer):
    """An account with a role on a dataset."""

    account: AccountView
    role: Literal["reader", "contributor", "editor", "maintainer", "owner"]
    version: int


class CollaboratorList(Answer):
    """Who may do what with a dataset, beside its owner."""

    visibility: Literal["private", "public"]
    collaborators: list[CollaboratorView]


class VisibilityView(Answer):
    """Whether everybody may read a dataset."""

    visibility: Literal["private", "public"]


class TokenView(Answer):
    """An access token without its secret. `datasets` null: all that the account may."""

    id: str
    account: str
    kind: Literal["personal", "service", "session", "reference"]
    name: str
    scopes: list[str]
    datasets: list[str] | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    state: Literal["valid", "expired", "revoked"]


class TokenMade(TokenView):
    """A new token; `token` is shown in this answer and never again."""

    token: str


class TokenPage(Answer):
    """A page in order of ids; the Link header leads to the next one."""

    tokens: list[TokenView]


class InvitationView(Answer):
    """A link that works once."""

    id: str
    name: str | None
    account: str | None
    email: str | None
    is_admin: bool
    created_at: str
    expires_at: str


class InvitationMade(InvitationView):
    """A new link; it is shown in this answer and never again."""

    url: str


class InvitationList(Answer):
    """Links that can still be used, newest first."""

    invitations: list[InvitationView]


class AuditActor(Answer):
    """Who it was."""

    account: str | None
    name: str | None
    token: str | None
    address: str | None


class AuditEntryView(Answer):
    """One entry of the audit; refusals that repeat are counted."""

    id: int
    kind: str
    at: str
    last_at: str
    count: int
    outcome: Literal["done", "refused"]
    actor: AuditActor
    target: str | None
    dataset: str | None
    detail: dict[str, str]


class AuditPage(Answer):
    """A page, oldest first; the Link header leads to the next one."""

    entries: list[AuditEntryView]


class Explanation(Answer):
    """What an account may do with a dataset, and why."""

    account: str
    dataset: str
    role: Literal["reader", "contributor", "editor", "maintainer", "owner"] | None
    reasons: list[str]
    allowed: list[str]


class SessionView(Answer):
    """A browser session."""

    account: ManagedAccountView
    csrf_token: str


class LoginAnswer(Answer):
    """A new access token."""

    access_token: str


class TokenValid(Answer):
    """Whose token it is."""

    account_name: str
    scopes: list[str]


class DeviceStarted(BaseModel):
    """RFC 8628, section 3.2."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    interval: int
    expires_in: int


class DeviceToken(BaseModel):
    """RFC 8628, section 3.5; `score` is how the reference spells `scope`."""

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: int
    refresh_token: None
    score: None


class RuntimeConfig(Answer):
    """Where the API is."""

    api_server_http_url: str


class SavedQueryView(Answer):
    """A saved query."""

    id: str
    name: str
    sql: str
    created_at: str
    changed_at: str


class SavedQueryList(Answer):
    """The caller's saved queries in order of names."""

    queries: list[SavedQueryView]
