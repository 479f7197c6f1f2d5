"""Verbs about people and rights on a local workspace.

The person at this machine is the node's operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from odfabric.cli.backends.node_connection import origin_of
from odfabric.cli.backends.people_backend import AuditQuery, TokenWish, Value
from odfabric.domain.people.access import Subject
from odfabric.errors import InvalidRequest, Place
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.people.account import Account, AccountKind, DatasetRole, OrganisationRole, Visibility
from odfabric.model.people.audit import AuditOutcome
from odfabric.model.people.credential import AccessToken, Scope, TokenKind
from odfabric.usecases.people import accounts, invitations, organisations, sharing, tokens
from odfabric.usecases.people.explain import explain
from odfabric.usecases.people.sign_in import change_password
from odfabric.usecases.people.values import (
    KINDS_OF_TOKENS,
    audit_value,
    invitation_url,
    invitation_value,
    managed_value,
    myself_value,
    role_value,
    token_value,
)
from odfabric.wiring import Node

_LIMITS = {
    "datasetsMax": "datasets_max",
    "storedBytesMax": "stored_bytes_max",
    "pushesPerMinuteMax": "pushes_per_minute_max",
    "queriesAtOnceMax": "queries_at_once_max",
}


class WorkspacePeople:
    """A `PeopleBackend` on a node of this process."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._ports = node.people

    def myself(self) -> Value:
        """The operator."""
        subject = self._by
        assert subject.account is not None
        return myself_value(subject, subject.account)

    def account(self, name: str | None) -> Value:
        """An account, or the operator's."""
        return managed_value(accounts.find_account(name or self._own_name(), subject=self._by, ports=self._ports))

    def accounts(self, *, kind: str | None) -> list[Value]:
        """All accounts."""
        found: list[Account] = []
        rows = self._node.settings.page_rows_max
        while True:
            page = accounts.list_accounts(
                subject=self._by,
                kind=AccountKind(kind) if kind else None,
                after=str(found[-1].name) if found else None,
                limit=rows,
                ports=self._ports,
            )
            found += page
            if len(page) < rows:
                return [managed_value(each) for each in found]

    def change_account(self, name: str | None, *, display_name: str | None, email: str | None) -> Value:
        """Change what is given."""
        changed = accounts.change_account(
            name or self._own_name(), display_name=display_name, email=email, subject=self._by, ports=self._ports
        )
        return managed_value(changed)

    def change_password(self, old: str | None, new: str) -> None:
        """Replace the operator's password."""
        change_password(old, new, subject=self._by, ports=self._ports)

    def set_suspended(self, name: str, is_suspended: bool) -> Value:
        """Suspend an account or resume it."""
        return managed_value(accounts.set_suspended(name, is_suspended, subject=self._by, ports=self._ports))

    def set_admin(self, name: str, is_admin: bool) -> Value:
        """Make an account an admin of the node, or no admin any more."""
        return managed_value(accounts.set_admin(name, is_admin, subject=self._by, ports=self._ports))

    def change_limits(self, name: str, changes: Mapping[str, int | None]) -> Value:
        """Change some limits."""
        account = accounts.find_account(name, subject=self._by, ports=self._ports)
        if not changes:
            return managed_value(account)
        limits = replace(account.limits, **{_LIMITS[member]: value for member, value in changes.items()})
        changed = accounts.set_limits(name, limits, version=account.version, subject=self._by, ports=self._ports)
        return managed_value(changed)

    def delete_account(self, name: str) -> None:
        """Delete an account."""
        accounts.delete_account(name, subject=self._by, ports=self._ports)

    def create_organisation(self, name: str, *, display_name: str | None, email: str | None) -> Value:
        """Make an organisation."""
        made = organisations.create_organisation(
            name, display_name=display_name, email=email, subject=self._by, ports=self._ports
        )
        return managed_value(made)

    def members(self, organisation: str) -> list[Value]:
        """Members by name."""
        found = organisations.list_members(organisation, subject=self._by, ports=self._ports)
        return [role_value(account, membership) for account, membership in found]

    def set_member(self, organisation: str, member: str, role: str) -> Value:
        """Give somebody a role in an organisation."""
        made = organisations.set_member(
            organisation, member, OrganisationRole(role), subject=self._by, ports=self._ports
        )
        assert made is not None
        return role_value(accounts.named_account(member, ports=self._ports), made)

    def remove_member(self, organisation: str, member: str) -> None:
        """Take somebody out of an organisation."""
        organisations.set_member(organisation, member, None, subject=self._by, ports=self._ports)

    def create_token(self, wish: TokenWish) -> Value:
        """Make a token, which counts on the node that serves this workspace."""
        datasets = None if wish.datasets is None else frozenset(self._resolve(ref).id for ref in wish.datasets)
        wanted = tokens.NewToken(
            name=wish.name,
            kind=KINDS_OF_TOKENS[wish.kind],
            scopes=frozenset(map(Scope, wish.scopes)),
            datasets=datasets,
            expires_at=Instant.parse(wish.expires_at) if wish.expires_at else None,
        )
        issued = tokens.create_token(wanted, of=wish.account, subject=self._by, ports=self._ports)
        return {**self._token(issued.token), "token": issued.text}

    def tokens(self, *, account: str | None, sessions: bool) -> list[Value]:
        """Tokens, or browser sessions."""
        kinds = frozenset({TokenKind.SESSION}) if sessions else tokens.LISTED_KINDS
        found: list[AccessToken] = []
        rows = self._node.settings.page_rows_max
        while True:
            page = tokens.list_tokens(
                of=account,
                kinds=kinds,
                after=found[-1].id if found else None,
                limit=rows,
                subject=self._by,
                ports=self._ports,
            )
            found += page
            if len(page) < rows:
                return [self._token(each) for each in found]

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token."""
        tokens.revoke_token(token_id, subject=self._by, ports=self._ports)

    def inspect_token(self, text: str) -> Value:
        """Whose token it is."""
        token, _ = tokens.inspect_token(text, subject=self._by, ports=self._ports)
        return self._token(token)

    def collaborators(self, ref: str) -> Value:
        """Who may do what with a dataset."""
        entry = self._resolve(ref)
        found = sharing.list_collaborators(entry, subject=self._by, ports=self._ports)
        return {
            "visibility": sharing.visibility_of(entry, ports=self._ports).value,
            "collaborators": [role_value(each.account, each.grant) for each in found],
        }

    def set_role(self, ref: str, name: str, role: str) -> Value:
        """Give an account a role on a dataset."""
        made = sharing.set_role(self._resolve(ref), name, DatasetRole(role), subject=self._by, ports=self._ports)
        assert made is not None
        return role_value(accounts.named_account(name, ports=self._ports), made)

    def remove_role(self, ref: str, name: str) -> None:
        """Take a role on a dataset away."""
        sharing.set_role(self._resolve(ref), name, None, subject=self._by, ports=self._ports)

    def set_visibility(self, ref: str, visibility: str) -> Value:
        """Let everybody read a dataset, or not any more."""
        wanted = Visibility(visibility)
        set_to = sharing.set_visibility(self._resolve(ref), wanted, subject=self._by, ports=self._ports)
        return {"visibility": set_to.value}

    def invite(self, *, name: str | None, email: str | None, is_admin: bool, url: str | None) -> Value:
        """Make a link for a new account."""
        origin = self._origin(url)
        issued = invitations.invite(name=name, email=email, is_admin=is_admin, subject=self._by, ports=self._ports)
        return {**invitation_value(issued.invitation, None), "url": invitation_url(origin, issued.code)}

    def reset_password(self, name: str, *, url: str | None) -> Value:
        """Make a link for a new password."""
        origin = self._origin(url)
        issued = invitations.reset_password(name, subject=self._by, ports=self._ports)
        account = accounts.named_account(name, ports=self._ports)
        return {**invitation_value(issued.invitation, account), "url": invitation_url(origin, issued.code)}

    def invitations(self) -> list[Value]:
        """Links that can still be used."""
        found = invitations.list_invitations(subject=self._by, ports=self._ports)
        return [
            invitation_value(each, self._ports.accounts.by_id(each.account) if each.account else None) for each in found
        ]

    def withdraw_invitation(self, invitation_id: str) -> None:
        """Make a link worthless."""
        invitations.revoke_invitation(invitation_id, subject=self._by, ports=self._ports)

    def audit(self, query: AuditQuery) -> list[Value]:
        """Entries of the audit."""
        account = query.account
        if account is not None and not account.startswith("did:"):
            account = str(accounts.named_account(account, ports=self._ports).id)
        found = self._ports.audit.page(
            after=query.after,
            kinds=frozenset(query.kinds) if query.kinds else None,
            account=account,
            target=query.target,
            outcome=AuditOutcome(query.outcome) if query.outcome else None,
            since=Instant.parse(query.since) if query.since else None,
            until=Instant.parse(query.until) if query.until else None,
            limit=query.limit,
        )
        return [audit_value(each) for each in found]

    def explain(self, ref: str, account: str | None) -> Value:
        """What an account may do with a dataset, and why."""
        return explain(self._resolve(ref), account, subject=self._by, ports=self._ports).to_value()

    @property
    def _by(self) -> Subject:
        return self._node.operator

    def _own_name(self) -> str:
        return str(self._node.account)

    def _resolve(self, ref: str) -> CatalogEntry:
        return self._node.datasets.resolve(parse_dataset_ref(ref))

    def _token(self, token: AccessToken) -> Value:
        owner = self._ports.accounts.by_id(token.account)
        assert owner is not None
        return token_value(token, owner, tokens.state_of(token, self._ports.clock.now()))

    def _origin(self, url: str | None) -> str:
        """By which address people reach the node that serves this workspace."""
        given = url or self._node.settings.public_url
        if given is None:
            raise InvalidRequest(
                "a workspace does not know by which address its node is reached",
                place=Place(field="--url"),
                hint="--url http://127.0.0.1:8080 is where `odf up` listens; or set ODF_PUBLIC_URL",
            )
        return origin_of(given, field="--url")
