"""People of a node in memory, and every way in which they may make requests.

ann owns datasets; rita, carl, edda, mats and oona have one role each on them; gus belongs to the guild, which is a contributor; max and ada
are member and admin of acme, which owns datasets too; pia has nothing; root is an admin of the node; sue, a maintainer, is suspended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from odfabric.domain.people.access import LOCAL_ACCOUNT, STRANGER, Subject
from odfabric.formats.secrets.access_token import make
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.people.account import (
    EVERYONE,
    Account,
    AccountKind,
    DatasetRole,
    Grant,
    Grantee,
    Membership,
    OrganisationRole,
)
from odfabric.model.people.audit import THE_NODE, AuditKind
from odfabric.model.people.credential import ALL_SCOPES, AccessToken, Scope, TokenKind
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.people.accounts import create_account
from odfabric.usecases.people.flush_audit import audit_dataset
from odfabric.usecases.people.organisations import create_organisation
from odfabric.usecases.people.ports import PeoplePorts
from odfabric.usecases.people.tokens import NewToken, issue
from odfabric.wiring import Node
from odfabric_api.sessions import PLAIN_COOKIE, csrf_token
from tests.services.api.serving import TOKEN
from tests.usecases.manifests import ROOT

PASSWORD = "correct horse battery staple"
ROLES = {
    "rita": DatasetRole.READER,
    "carl": DatasetRole.CONTRIBUTOR,
    "edda": DatasetRole.EDITOR,
    "mats": DatasetRole.MAINTAINER,
    "oona": DatasetRole.OWNER,
    "sue": DatasetRole.MAINTAINER,
    "guild": DatasetRole.CONTRIBUTOR,
}
USERS = ("ann", "rita", "carl", "edda", "mats", "oona", "sue", "gus", "max", "ada", "pia", "root", "spare")
OWNERS = {"user": "ann", "organisation": "acme", "system": "system"}
STRONGEST = {"user": "ann", "organisation": "ada", "system": "root"}
"""Who has most rights on the datasets of each owner; their credentials are tried in every narrowed form."""

SAFE = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody who asks.

    `subject` is what the policy is asked about; None where the credential does not count.

    `refused` is the answer to anyone who has such a credential, as status and code; `refused_unsafe` to requests that change something.
    """

    name: str
    subject: Subject | None
    headers: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[int, str] | None = None
    refused_unsafe: tuple[int, str] | None = None

    def refusal(self, method: str) -> tuple[int, str] | None:
        """The answer to the credential alone, None if it counts."""
        return self.refused or (self.refused_unsafe if method not in SAFE else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A dataset that somebody owns, private or public.

    `other` is another one of the same owner.
    """

    owner: str
    is_public: bool
    entry: CatalogEntry
    other: CatalogEntry
    grants: tuple[Grant, ...]

    @property
    def account(self) -> str:
        """Name of the owning account."""
        return OWNERS[self.owner]

    @property
    def shown(self) -> str:
        """The dataset as paths name it."""
        return f"{self.account}/{self.entry.alias.name}"


class People:
    """The people of one node in memory, and their credentials."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.memory = MemoryNode(folder)
        self.memory.settings = self.memory.settings.model_copy(
            update={"sign_ins_per_address_max": 10**6, "tokens_per_account_max": 10**6, **settings}
        )
        self.memory.restart()
        ports, operator = self.ports, self.memory.node.operator
        for name in USERS:
            create_account(name, display_name=None, email=f"{name}@example.org", subject=operator, ports=ports)
            entry = ports.entry(AuditKind.PASSWORD_CHANGED, THE_NODE)
            ports.accounts.set_password(self.account(name).id, ports.passwords.hash(PASSWORD), audit=entry)
        for name, admin, member in (("acme", "ada", "max"), ("guild", "oona", "gus")):
            subject = ports.access.subject(self.account(admin))
            create_organisation(name, display_name=None, email=None, subject=subject, ports=ports)
            membership = Membership(
                organisation=self.account(name).id, member=self.account(member).id, role=OrganisationRole.MEMBER
            )
            audit = ports.entry(AuditKind.MEMBER_CHANGED, THE_NODE)
            ports.relations.change_membership(None, membership, audit=audit)
        self._change("root", is_admin=True)
        self._change("sue", suspended_at=self.memory.clock.now())

    @property
    def node(self) -> Node:
        return self.memory.node

    @property
    def ports(self) -> PeoplePorts:
        return self.memory.node.people

    def account(self, name: str) -> Account:
        """The account of a name."""
        found = self.ports.accounts.by_name(Name(name))
        assert found is not None
        return found

    def subject(self, name: str) -> Subject:
        """A subject with all its rights, for the pure policy, not read by tested code."""
        account = self.account(name)
        memberships = self.ports.relations.memberships(account.id) if account.kind is AccountKind.USER else ()
        organisations = [(self.ports.accounts.by_id(each.organisation), each.role) for each in memberships]
        return Subject(
            account=account, organisations=tuple((found, role) for found, role in organisations if found is not None)
        )

    def issue(self, name: str, *, kind: TokenKind = TokenKind.PERSONAL, **given: Any) -> tuple[AccessToken, str]:
        """A new token of an account, and its text; all scopes if none are given."""
        times = {key: given.pop(key) for key in ("revoked_at",) if key in given}
        account = self.account(name)
        wanted = NewToken(name="test", kind=kind, **{"scopes": ALL_SCOPES, **given})
        issued = issue(account, wanted, created_by=account, ports=self.ports)
        token = replace(issued.token, **times)
        self.ports.tokens.create(token, audit=self.ports.entry(AuditKind.TOKEN_CREATED, THE_NODE))
        return token, issued.text

    def bearer(self, name: str, **given: Any) -> dict[str, str]:
        """The header of a new token."""
        return {"authorization": f"Bearer {self.issue(name, **given)[1]}"}

    def add(self, owner: str, name: str, *, manifest: str = ROOT) -> CatalogEntry:
        """A dataset without grants."""
        text = manifest.replace("name: readings", f"name: {owner}/{name}")
        return self.memory.add(text.replace("name: copied", f"name: {owner}/{name}"))

    def grant(self, entry: CatalogEntry, grantee: str, role: DatasetRole | None) -> Grant | None:
        """Give a role, or take it; `*` is everybody."""
        to: Grantee = EVERYONE if grantee == "*" else self.account(grantee).id
        before = self.ports.relations.grant(entry.id, to)
        after = None
        if role is not None:
            after = replace(before, role=role) if before else Grant(dataset=entry.id, grantee=to, role=role)
        audit = self.ports.entry(AuditKind.ROLE_GRANTED, THE_NODE)
        return self.ports.relations.change_grant(before, after, audit=audit)

    def scene(self, owner: str, name: str, *, is_public: bool = False) -> Scene:
        """A dataset on which each of the people has their role."""
        entry = self._audit_dataset() if owner == "system" else self.add(OWNERS[owner], name)
        given = [self.grant(entry, grantee, role) for grantee, role in ROLES.items()]
        given += [self.grant(entry, "*", DatasetRole.READER)] if is_public else []
        other = self.add("root" if owner == "system" else OWNERS[owner], f"{name}-2")
        grants = tuple(grant for grant in given if grant is not None)
        return Scene(owner=owner, is_public=is_public, entry=entry, other=other, grants=grants)

    def actors(self, scene: Scene, *, with_refused: bool = True) -> Iterator[Actor]:
        """Everybody, by fresh credentials; `with_refused` those too that count for nobody."""
        yield Actor(name="stranger", subject=STRANGER)
        for name in ("pia", "rita", "carl", "edda", "mats", "oona", "ann", "max", "ada", "gus", "root"):
            yield Actor(name=name, subject=self.subject(name), headers=self.bearer(name))
        yield from self._narrowed(scene)
        service = self.bearer("acme", kind=TokenKind.SERVICE, scopes=frozenset({Scope.MANAGE}))
        subject = replace(self.subject("acme"), scopes=frozenset({Scope.MANAGE}))
        yield Actor(name="service of acme", subject=subject, headers=service)
        operator = self.subject(str(LOCAL_ACCOUNT))
        yield Actor(name="operator", subject=operator, headers={"authorization": f"Bearer {TOKEN}"})
        yield from self._sessions(scene)
        if with_refused:
            yield from self._refused(scene)

    def _narrowed(self, scene: Scene) -> Iterator[Actor]:
        name = STRONGEST[scene.owner]
        bounds: list[tuple[str, frozenset[Scope], frozenset[DatasetId] | None]] = [
            ("reads", frozenset({Scope.READ}), None),
            ("pushes", frozenset({Scope.PUSH}), None),
            ("manages", frozenset({Scope.MANAGE}), None),
            ("administers only", frozenset({Scope.ADMIN}), None),
            ("this dataset", ALL_SCOPES, frozenset({scene.entry.id})),
            ("another dataset", ALL_SCOPES, frozenset({scene.other.id})),
        ]
        for what, scopes, datasets in bounds:
            subject = replace(self.subject(name), scopes=scopes, datasets=datasets)
            headers = self.bearer(name, scopes=scopes, datasets=datasets)
            yield Actor(name=f"{name}, {what}", subject=subject, headers=headers)
        scopes = frozenset({Scope.MANAGE})
        subject = replace(self.subject("root"), scopes=scopes)
        yield Actor(name="root, no admin", subject=subject, headers=self.bearer("root", scopes=scopes))

    def _sessions(self, scene: Scene) -> Iterator[Actor]:
        name = STRONGEST[scene.owner]
        forged = (403, "access-denied")
        for what, given, refused in (
            ("session", {"x-csrf-token": "right"}, None),
            ("session without CSRF token", {}, forged),
            ("session with another's CSRF token", {"x-csrf-token": csrf_token("other")}, forged),
            ("session from elsewhere", {"x-csrf-token": "right", "origin": "https://elsewhere.example"}, forged),
            ("session from nowhere", {"x-csrf-token": "right", "origin": "null"}, forged),
        ):
            headers = {**given, "cookie": f"{PLAIN_COOKIE}={self.session(name)}"}
            if headers.get("x-csrf-token") == "right":
                headers["x-csrf-token"] = csrf_token(headers["cookie"].partition("=")[2])
            yield Actor(name=what, subject=self.subject(name), headers=headers, refused_unsafe=refused)

    def session(self, name: str) -> str:
        """The text of a new browser session."""
        return self.issue(name, kind=TokenKind.SESSION)[1]

    def _refused(self, scene: Scene) -> Iterator[Actor]:
        name, past = STRONGEST[scene.owner], Instant.parse("2020-01-01T00:00:00Z")
        _, text = self.issue(name)
        mistyped = text[:-1] + ("0" if text[-1] != "0" else "1")
        elsewhere = make(TokenKind.PERSONAL, bytes(range(16)), bytes(range(32)))
        for what, headers, code in (
            ("suspended", self.bearer("sue"), "account-suspended"),
            ("revoked", self.bearer(name, revoked_at=past), "token-revoked"),
            ("expired", self.bearer(name, expires_at=past), "token-expired"),
            ("malformed", {"authorization": f"Bearer {text[:-1]}"}, "token-malformed"),
            ("mistyped", {"authorization": f"Bearer {mistyped}"}, "token-checksum"),
            ("of another node", {"authorization": f"Bearer {elsewhere}"}, "token-unknown"),
            ("revoked session", {"cookie": f"{PLAIN_COOKIE}={self._revoked_session(name)}"}, "token-revoked"),
            ("a token as a session", {"cookie": f"{PLAIN_COOKIE}={text}"}, "token-malformed"),
        ):
            if "cookie" in headers:
                headers["x-csrf-token"] = csrf_token(headers["cookie"].partition("=")[2])
            yield Actor(name=what, subject=None, headers=headers, refused=(401, code))

    def _revoked_session(self, name: str) -> str:
        return self.issue(name, kind=TokenKind.SESSION, revoked_at=Instant.parse("2020-01-01T00:00:00Z"))[1]

    def _audit_dataset(self) -> CatalogEntry:
        node = self.memory.node
        ports = node.ports
        return audit_dataset(repository=node.repository, commits=node.commits, keys=ports.keys, clock=ports.clock)

    def _change(self, name: str, **given: Any) -> None:
        changed = replace(self.account(name), **given)
        self.ports.accounts.change(changed, audit=self.ports.entry(AuditKind.ACCOUNT_CHANGED, THE_NODE))
