"""What the commands about people and rights ask of a workspace or a node.

Owns the protocol between them and their two implementations: `node_people`, over HTTP as the account that the token belongs to, and
`workspace_people`, as the operator. Results are the JSON values of `usecases.people.values`, the same on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Value = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWish:
    """A token to be made.

    `datasets` None: all of the account's; `expires_at` None: never; `account` None: one's own.
    """

    name: str
    kind: str
    scopes: Sequence[str]
    datasets: Sequence[str] | None
    expires_at: str | None
    account: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which entries of the audit, oldest first.

    `account` is the name of who did it; times are RFC 3339.
    """

    after: int
    limit: int
    kinds: Sequence[str]
    account: str | None
    target: str | None
    outcome: str | None
    since: str | None
    until: str | None


class PeopleBackend(Protocol):
    """Verbs of accounts and rights. A name of None is one's own account."""

    def myself(self) -> Value:
        """`{accountName, account, organisations, scopes, token}`."""

    def account(self, name: str | None) -> Value:
        """An account; with e-mail, limits and version for those who manage it."""

    def accounts(self, *, kind: str | None) -> list[Value]:
        """All accounts, for admins of the node."""

    def change_account(self, name: str | None, *, display_name: str | None, email: str | None) -> Value:
        """The account as it is now.

        None leaves a member as it is, an empty e-mail removes it.
        """

    def change_password(self, old: str | None, new: str) -> None:
        """Replace one's own password."""

    def set_suspended(self, name: str, is_suspended: bool) -> Value:
        """The account as it is now."""

    def set_admin(self, name: str, is_admin: bool) -> Value:
        """The account as it is now."""

    def change_limits(self, name: str, changes: Mapping[str, int | None]) -> Value:
        """The account as it is now.

        Limits that are not among the changes stay, None leaves one to the node's settings.
        """

    def delete_account(self, name: str) -> None:
        """Delete an account or an organisation that owns no datasets."""

    def create_organisation(self, name: str, *, display_name: str | None, email: str | None) -> Value:
        """The organisation, of which one is the first admin."""

    def members(self, organisation: str) -> list[Value]:
        """`{account, role, version}` by name."""

    def set_member(self, organisation: str, member: str, role: str) -> Value:
        """The role as it is now."""

    def remove_member(self, organisation: str, member: str) -> None:
        """Take somebody out of an organisation."""

    def create_token(self, wish: TokenWish) -> Value:
        """The token, with its text in `token`, which nobody can tell again."""

    def tokens(self, *, account: str | None, sessions: bool) -> list[Value]:
        """Those that are not revoked."""

    def revoke_token(self, token_id: str) -> None:
        """It stops to count at once."""

    def inspect_token(self, text: str) -> Value:
        """The token without its secret, and its `state`."""

    def collaborators(self, ref: str) -> Value:
        """`{visibility, collaborators}` of a dataset."""

    def set_role(self, ref: str, name: str, role: str) -> Value:
        """The role as it is now."""

    def remove_role(self, ref: str, name: str) -> None:
        """Take a role on a dataset away."""

    def set_visibility(self, ref: str, visibility: str) -> Value:
        """`{visibility}`."""

    def invite(self, *, name: str | None, email: str | None, is_admin: bool, url: str | None) -> Value:
        """An invitation with its link in `url`.

        The `url` that is given is the node's address, where it does not know it itself.
        """

    def reset_password(self, name: str, *, url: str | None) -> Value:
        """A link by which an account chooses a new password, like an invitation."""

    def invitations(self) -> list[Value]:
        """Links that can still be used, newest first."""

    def withdraw_invitation(self, invitation_id: str) -> None:
        """Make a link worthless."""

    def audit(self, query: AuditQuery) -> list[Value]:
        """Entries of the audit."""

    def explain(self, ref: str, account: str | None) -> Value:
        """`{account, dataset, role, reasons, allowed}`; an account of None is a stranger."""
