"""The verbs about people and rights on a node elsewhere, over its REST interface."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from odfabric.cli.backends.cursor_backends import PathOf
from odfabric.cli.backends.node_connection import NodeConnection
from odfabric.cli.backends.people_backend import AuditQuery, TokenWish, Value
from odfabric.errors import InvalidName, InvalidRequest, Place

AUDIT_PAGE_ROWS = 1000


class NodePeople:
    """A `PeopleBackend` on a node reached by HTTP."""

    def __init__(self, connection: NodeConnection, path_of: PathOf) -> None:
        self._connection = connection
        self._path_of = path_of

    def myself(self) -> Value:
        """Whose token it is."""
        return self._connection.json("GET", "/accounts/me")

    def account(self, name: str | None) -> Value:
        """An account, or one's own."""
        if name is not None:
            return self._connection.json("GET", f"/accounts/{_part(name)}")
        found = self.myself()["account"]
        assert isinstance(found, dict)
        return found

    def accounts(self, *, kind: str | None) -> list[Value]:
        """All accounts."""
        return self._connection.pages("/admin/accounts", "accounts", {"kind": kind} if kind else {})

    def change_account(self, name: str | None, *, display_name: str | None, email: str | None) -> Value:
        """Change what is given."""
        body = {"displayName": display_name, "email": email}
        given = {member: value for member, value in body.items() if value is not None}
        return self._connection.json("PATCH", f"/accounts/{_part(name or self._own_name())}", json=given)

    def change_password(self, old: str | None, new: str) -> None:
        """Replace one's own password."""
        self._connection.send("PUT", "/accounts/me/password", json={"oldPassword": old, "password": new})

    def set_suspended(self, name: str, is_suspended: bool) -> Value:
        """Suspend an account or resume it."""
        return self._connection.json("PATCH", f"/admin/accounts/{_part(name)}", json={"isSuspended": is_suspended})

    def set_admin(self, name: str, is_admin: bool) -> Value:
        """Make an account an admin of the node, or no admin any more."""
        return self._connection.json("PATCH", f"/admin/accounts/{_part(name)}", json={"isAdmin": is_admin})

    def change_limits(self, name: str, changes: Mapping[str, int | None]) -> Value:
        """Change some limits; refused if somebody else changes the account meanwhile."""
        account = self.account(name)
        limits, version = account.get("limits"), account.get("version")
        if not isinstance(limits, dict) or not changes:
            return account
        return self._connection.json(
            "PUT",
            f"/admin/accounts/{_part(name)}/limits",
            json={**limits, **changes},
            headers={"if-match": f'"v{version}"'},
        )

    def delete_account(self, name: str) -> None:
        """Delete an account."""
        self._connection.send("DELETE", f"/accounts/{_part(name)}")

    def create_organisation(self, name: str, *, display_name: str | None, email: str | None) -> Value:
        """Make an organisation."""
        body = {"name": name, "displayName": display_name, "email": email}
        return self._connection.json("POST", "/orgs", json=body)

    def members(self, organisation: str) -> list[Value]:
        """Members by name."""
        return _list(self._connection.json("GET", f"/orgs/{_part(organisation)}/members"), "members")

    def set_member(self, organisation: str, member: str, role: str) -> Value:
        """Give somebody a role in an organisation."""
        path = f"/orgs/{_part(organisation)}/members/{_part(member)}"
        return self._connection.json("PUT", path, json={"role": role})

    def remove_member(self, organisation: str, member: str) -> None:
        """Take somebody out of an organisation."""
        self._connection.send("DELETE", f"/orgs/{_part(organisation)}/members/{_part(member)}")

    def create_token(self, wish: TokenWish) -> Value:
        """Make a token."""
        body = {
            "name": wish.name,
            "kind": wish.kind,
            "scopes": list(wish.scopes),
            "datasets": None if wish.datasets is None else list(wish.datasets),
            "expiresAt": wish.expires_at,
            "account": wish.account,
        }
        return self._connection.json("POST", "/tokens", json=body)

    def tokens(self, *, account: str | None, sessions: bool) -> list[Value]:
        """Tokens, or browser sessions."""
        params = {"kind": "session" if sessions else "token"} | ({"account": account} if account else {})
        return self._connection.pages("/tokens", "tokens", params)

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token."""
        self._connection.send("DELETE", f"/tokens/{_part(token_id)}")

    def inspect_token(self, text: str) -> Value:
        """Whose token it is."""
        return self._connection.json("POST", "/tokens/inspect", json={"token": text})

    def collaborators(self, ref: str) -> Value:
        """Who may do what with a dataset."""
        return self._connection.json("GET", f"{self._path_of(ref)}/collaborators")

    def set_role(self, ref: str, name: str, role: str) -> Value:
        """Give an account a role on a dataset."""
        return self._connection.json("PUT", f"{self._path_of(ref)}/collaborators/{_part(name)}", json={"role": role})

    def remove_role(self, ref: str, name: str) -> None:
        """Take a role on a dataset away."""
        self._connection.send("DELETE", f"{self._path_of(ref)}/collaborators/{_part(name)}")

    def set_visibility(self, ref: str, visibility: str) -> Value:
        """Let everybody read a dataset, or not any more."""
        return self._connection.json("PUT", f"{self._path_of(ref)}/visibility", json={"visibility": visibility})

    def invite(self, *, name: str | None, email: str | None, is_admin: bool, url: str | None) -> Value:
        """Make a link for a new account."""
        _check_no_url(url)
        return self._connection.json(
            "POST", "/admin/invitations", json={"name": name, "email": email, "isAdmin": is_admin}
        )

    def reset_password(self, name: str, *, url: str | None) -> Value:
        """Make a link for a new password."""
        _check_no_url(url)
        return self._connection.json("POST", "/admin/invitations", json={"resetOf": name})

    def invitations(self) -> list[Value]:
        """Links that can still be used."""
        return _list(self._connection.json("GET", "/admin/invitations"), "invitations")

    def withdraw_invitation(self, invitation_id: str) -> None:
        """Make a link worthless."""
        self._connection.send("DELETE", f"/admin/invitations/{_part(invitation_id)}")

    def audit(self, query: AuditQuery) -> list[Value]:
        """Entries of the audit, as many as were asked for."""
        given = {
            "kind": ",".join(query.kinds) or None,
            "account": self._id_of(query.account) if query.account else None,
            "target": query.target,
            "outcome": query.outcome,
            "since": query.since,
            "until": query.until,
        }
        params = {name: value for name, value in given.items() if value is not None}
        found: list[Value] = []
        after, wanted = query.after, query.limit
        while len(found) < wanted:
            rows = min(AUDIT_PAGE_ROWS, wanted - len(found))
            asked = {**params, "after": str(after), "limit": str(rows)}
            page = _list(self._connection.json("GET", "/admin/audit", params=asked), "entries")
            found += page
            if len(page) < rows:
                break
            after = int(str(page[-1]["id"]))
        return found

    def explain(self, ref: str, account: str | None) -> Value:
        """What an account may do with a dataset, and why."""
        named = ref if ref.startswith("did:") or "/" in ref else f"{self._own_name()}/{ref}"
        params = {"dataset": named} | ({"account": account} if account else {})
        return self._connection.json("GET", "/admin/explain", params=params)

    def _own_name(self) -> str:
        return str(self.myself()["accountName"])

    def _id_of(self, name: str) -> str:
        """The identity by which the audit knows an account.

        One that was deleted is known by it alone.
        """
        return name if name.startswith("did:") else str(self.account(name)["id"])


def _part(name: str) -> str:
    if name in ("", ".", ".."):
        raise InvalidName(f"not a name: {name!r}", hint="letters, digits, and single hyphens or dots between them")
    return quote(name, safe="")


def _list(document: Value, member: str) -> list[Value]:
    found = document[member]
    assert isinstance(found, list)
    return found


def _check_no_url(url: str | None) -> None:
    if url is not None:
        raise InvalidRequest(
            "a node knows its own address", place=Place(field="--url"), hint="leave it out; ODF_PUBLIC_URL changes it"
        )
