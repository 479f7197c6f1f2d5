"""What each route needs: the one table that tests hold the routes against, and the answers that follow from it.

A rule names needs in the order in which they are asked for. The first is what the route declares as its policy; those after it are the
verb's. Its request would change nothing, or only what changes nothing of rights, so that every actor can make it on the same dataset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from odfabric.domain.access import AccessPolicy, Action, Subject, Verdict, owner_of
from odfabric.model.account import EVERYONE
from odfabric.model.credential import Scope
from odfabric.model.identity import Name
from odfabric_api.auth import RequiresDataset, RequiresDatasetById, RequiresNode, RequiresPullable
from tests.services.api.people import PASSWORD, Scene
from tests.usecases.manifests import DERIVED, ROOT

ANY_HASH = "f1620" + "ab" * 32
ANY_ID = "0" * 32
FENCE = {"fence": "0" * 32}
JSON = "application/json"
CHANGED = {"if-match": '"v9"'}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer to somebody who may not: status, code, and what its message begins with."""

    status: int
    code: str
    message: str = ""


class Need(ABC):
    """Something that a request must be allowed."""

    policy: object | None = None
    """What the route declares for it, None for what only the verb asks for."""

    @abstractmethod
    def verdict(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Verdict:
        """By the pure policy."""

    def refused(self, verdict: Verdict, subject: Subject, scene: Scene) -> Refused:
        """How the refusal looks."""
        if verdict is Verdict.STRANGER:
            return Refused(401, "unauthenticated", "A token is needed to ")
        return Refused(403, "access-denied")


class OnDataset(Need):
    """An action on the dataset of the path, by its name or its id."""

    def __init__(self, action: Action, *, by_id: bool = False, is_declared: bool = True) -> None:
        self.action, self.by_id = action, by_id
        kind = RequiresDatasetById if by_id else RequiresDataset
        self.policy = kind(action) if is_declared else None

    def verdict(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Verdict:
        seen = [grant for grant in scene.grants if grant.grantee in subject.grantees or grant.grantee == EVERYONE]
        return policy.decide(subject, self.action, scene.entry.id, owner_of(scene.entry.alias), seen)

    def refused(self, verdict: Verdict, subject: Subject, scene: Scene) -> Refused:
        if verdict is Verdict.HIDDEN:
            return Refused(404, "not-found", f"dataset not found: {scene.entry.id if self.by_id else scene.shown}")
        return super().refused(verdict, subject, scene)


class OnNode(Need):
    """An action on the node as a whole. What only admins know of does not exist for others."""

    def __init__(self, action: Action) -> None:
        self.action = action
        self.policy = RequiresNode(action)

    def verdict(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Verdict:
        return policy.decide_here(subject, self.action)

    def refused(self, verdict: Verdict, subject: Subject, scene: Scene) -> Refused:
        if verdict is Verdict.DENIED:
            return Refused(404, "not-found", "route not found: ")
        return super().refused(verdict, subject, scene)


class Under(Need):
    """An action on an account: the owner of the dataset, or whoever asks."""

    def __init__(self, action: Action, *, own: bool = False) -> None:
        self.action, self.own = action, own

    def verdict(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Verdict:
        name = Name(scene.account)
        if self.own:
            name = subject.account.name if subject.account is not None else name
        return policy.decide_here(subject, self.action, under=name)


class Pulled(OnDataset):
    """A pull changes the dataset; a name that is free can be taken by those who may create it."""

    def __init__(self) -> None:
        super().__init__(Action.WRITE)
        self.policy = RequiresPullable()

    def verdict(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Verdict:
        found = super().verdict(policy, subject, scene)
        if found is not Verdict.HIDDEN or subject.account is None:
            return found
        here = policy.decide_here(subject, Action.CREATE, under=Name(scene.account))
        return Verdict.HIDDEN if here is Verdict.DENIED else here


class Member(Need):
    """Whoever belongs to the organisation that owns the dataset, and admins of the node; it does not exist for others."""

    def verdict(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Verdict:
        belongs = subject.role_in(Name(scene.account)) is not None or subject.administers
        return Verdict.ALLOWED if scene.owner == "organisation" and belongs else Verdict.HIDDEN

    def refused(self, verdict: Verdict, subject: Subject, scene: Scene) -> Refused:
        return Refused(404, "not-found", f"organisation not found: {scene.account}")


class Reader(Need):
    """A credential that reads, and not certain datasets only."""

    def verdict(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Verdict:
        reads = subject.has_scope(Scope.READ) and subject.datasets is None
        return Verdict.ALLOWED if reads else Verdict.OUT_OF_SCOPE


Value: TypeAlias = str | Callable[[Scene], str]
Values: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`needs` is empty for what is everybody's. `allowed` are the answers to those who may, as status and code ("" for none).

    `path` fills the route's template; values may depend on the scene.
    """

    needs: tuple[Need, ...]
    allowed: tuple[tuple[int, str], ...] = ((200, ""),)
    path: Values = field(default_factory=dict)
    params: Values = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    body: Value | None = None

    def url(self, template: str, scene: Scene) -> str:
        """The path of a request."""
        values: dict[str, Value] = {
            "account": scene.account,
            "dataset": str(scene.entry.alias.name),
            "dataset_id": str(scene.entry.id),
            **self.path,
        }
        for name, value in values.items():
            template = template.replace(f"{{{name}}}", quote(_text(value, scene), safe=":"))
        assert "{" not in template
        return template

    def request(self, scene: Scene) -> dict[str, Any]:
        """Parameters, headers and body, as httpx takes them."""
        asked: dict[str, Any] = {
            "params": {name: _text(value, scene) for name, value in self.params.items()},
            "headers": dict(self.headers),
        }
        if self.json is not None:
            asked["json"] = self.json
        if self.body is not None:
            asked["content"] = _text(self.body, scene)
        return asked

    def expected(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Refused | None:
        """The refusal, None for whoever may."""
        for need in self.needs:
            verdict = need.verdict(policy, subject, scene)
            if verdict is not Verdict.ALLOWED:
                return need.refused(verdict, subject, scene)
        return None


def _text(value: Value, scene: Scene) -> str:
    return value if isinstance(value, str) else value(scene)


def rule(*needs: Need, status: int = 200, code: str = "", **given: Any) -> Rule:
    """A rule with one answer to those who may."""
    return Rule(needs=needs, allowed=((status, code),), **given)


def _manifest(template: str) -> Callable[[Scene], str]:
    def text(scene: Scene) -> str:
        named = template.replace("name: readings", f"name: {scene.shown}")
        return named.replace("name: copied", f"name: {scene.shown}")

    return text


def form(**fields: str) -> dict[str, Any]:
    """Body and headers of a web form."""
    return {"body": urlencode(fields), "headers": FORM}


EMPTY_FILE: dict[str, Any] = {
    "body": '--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n\r\n--x--\r\n',
    "headers": {"content-type": "multipart/form-data; boundary=x"},
}


def _owner(scene: Scene) -> str:
    return scene.account


PUBLIC = Rule(needs=())
READ, FOLLOW = OnDataset(Action.READ), OnDataset(Action.FOLLOW)
PUSH, WRITE, SHARE = OnDataset(Action.PUSH), OnDataset(Action.WRITE), OnDataset(Action.SHARE)
ANYBODY, SIGNED_IN, ADMIN = OnNode(Action.READ), OnNode(Action.SIGN_IN), OnNode(Action.ADMINISTER)
MANAGE, MANAGE_OWN, CREATE = Under(Action.MANAGE), Under(Action.MANAGE, own=True), Under(Action.CREATE)
MEMBER, READER = Member(), Reader()

INVALID, MISSING, NAME = (400, "invalid-request"), (404, "not-found"), (400, "invalid-name")
TYPES = {"content-type": "application/yaml"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
STALE = (409, "changed")

RULES: Mapping[tuple[str, str], Rule] = {
    # Everybody's: they tell nothing of anybody, or are the way in.
    ("GET", "/system/health"): PUBLIC,
    ("GET", "/info"): PUBLIC,
    ("GET", "/docs"): PUBLIC,
    ("GET", "/assets/runtime-config.json"): PUBLIC,
    ("GET", "/login"): PUBLIC,
    ("GET", "/setup"): Rule(needs=(), allowed=((404, ""),)),
    ("GET", "/device"): PUBLIC,
    # There is no provider of the name in the request, and no browser that has been sent to one.
    ("GET", "/oidc/{provider}/start"): Rule(needs=(), allowed=((404, ""),), path={"provider": "nobody"}),
    ("GET", "/oidc/{provider}/callback"): Rule(needs=(), allowed=((400, ""),), path={"provider": "nobody"}),
    ("GET", "/platform/token/validate"): Rule(
        needs=(), allowed=((200, ""), (400, "invalid-request"), (401, "token-expired"))
    ),
    ("POST", "/platform/login"): Rule(needs=(), allowed=(INVALID,), json={}),
    ("POST", "/platform/token/device/authorization"): Rule(
        needs=(), allowed=((415, "unsupported-media-type"),), json={}
    ),
    ("POST", "/platform/token/device"): Rule(needs=(), allowed=((415, "unsupported-media-type"),), json={}),
    ("POST", "/session"): Rule(needs=(), allowed=(INVALID, (403, "access-denied")), json={}),
    ("POST", "/login"): Rule(needs=(), allowed=((415, "unsupported-media-type"), (403, "access-denied")), json={}),
    ("POST", "/setup"): Rule(needs=(), allowed=((415, "unsupported-media-type"), (403, "access-denied")), json={}),
    ("POST", "/device"): Rule(needs=(), allowed=((415, "unsupported-media-type"),), json={}),
    # Whoever one is.
    ("GET", "/session"): Rule(needs=(SIGNED_IN,), allowed=((200, ""), MISSING)),
    ("DELETE", "/session"): Rule(needs=(SIGNED_IN,), allowed=((204, ""), MISSING)),
    ("GET", "/accounts/me"): rule(SIGNED_IN),
    ("PUT", "/accounts/me/password"): Rule(
        needs=(SIGNED_IN, MANAGE_OWN),
        allowed=(INVALID, (403, "access-denied")),
        json={"oldPassword": PASSWORD, "password": "short"},
    ),
    ("GET", "/accounts/{name}"): rule(SIGNED_IN, READER, path={"name": _owner}),
    ("PATCH", "/accounts/{name}"): rule(SIGNED_IN, MANAGE, path={"name": _owner}, json={}),
    ("DELETE", "/accounts/{name}"): rule(SIGNED_IN, MANAGE, status=409, code="in-use", path={"name": _owner}),
    ("POST", "/orgs"): Rule(needs=(SIGNED_IN, MANAGE_OWN), allowed=(NAME, INVALID), json={"name": "jobs"}),
    ("GET", "/orgs/{name}/members"): rule(SIGNED_IN, MEMBER, READER, path={"name": _owner}),
    ("PUT", "/orgs/{name}/members/{member}"): rule(
        *(SIGNED_IN, MEMBER, MANAGE),
        status=412,
        code="changed",
        path={"name": _owner, "member": "spare"},
        headers=CHANGED,
        json={"role": "admin"},
    ),
    ("DELETE", "/orgs/{name}/members/{member}"): rule(
        *(SIGNED_IN, MEMBER, MANAGE),
        status=412,
        code="changed",
        path={"name": _owner, "member": "spare"},
        headers=CHANGED,
    ),
    ("GET", "/accounts/me/queries"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/accounts/me/queries"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=400, code="invalid-request", json={"name": "x", "sql": ""}
    ),
    **{
        (method, "/accounts/me/queries/{query_id}"): rule(
            *(SIGNED_IN, MANAGE_OWN), status=404, code="not-found", path={"query_id": ANY_ID}, **given
        )
        for method, given in (("GET", {}), ("PATCH", {"json": {"name": "x"}}), ("DELETE", {}))
    },
    ("POST", "/tokens"): Rule(needs=(SIGNED_IN, MANAGE_OWN), allowed=(INVALID,), json={"name": "x", "scopes": []}),
    ("GET", "/tokens"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/tokens/inspect"): rule(SIGNED_IN, status=400, code="invalid-request", json={"token": "nonsense"}),
    ("DELETE", "/tokens/{token_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"token_id": ANY_ID}),
    ("GET", "/jobs/{job_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("DELETE", "/jobs/{job_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("GET", "/flows"): rule(SIGNED_IN),
    ("GET", "/runs/{run_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"run_id": ANY_ID}),
    ("DELETE", "/runs/{run_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"run_id": ANY_ID}),
    # Admins of the node.
    ("GET", "/system/metrics"): rule(ADMIN),
    ("GET", "/admin/accounts"): rule(ADMIN),
    ("POST", "/admin/accounts"): rule(ADMIN, status=400, code="invalid-name", json={"name": "jobs"}),
    ("PATCH", "/admin/accounts/{name}"): rule(ADMIN, path={"name": "spare"}, json={}),
    ("PUT", "/admin/accounts/{name}/limits"): rule(ADMIN, path={"name": "spare"}, json={}),
    ("POST", "/admin/invitations"): rule(ADMIN, status=400, code="invalid-name", json={"name": "jobs"}),
    ("GET", "/admin/invitations"): rule(ADMIN),
    ("DELETE", "/admin/invitations/{invitation_id}"): rule(
        ADMIN, status=404, code="not-found", path={"invitation_id": ANY_ID}
    ),
    ("GET", "/admin/explain"): rule(ADMIN, params={"dataset": lambda scene: scene.shown}),
    ("GET", "/admin/audit"): rule(ADMIN),
    # The catalog.
    ("GET", "/datasets"): rule(ANYBODY),
    ("POST", "/datasets"): rule(
        SIGNED_IN, CREATE, status=409, code="already-exists", body=_manifest(ROOT), headers=TYPES
    ),
    ("GET", "/datasets/{dataset_id}"): rule(OnDataset(Action.READ, by_id=True)),
    ("DELETE", "/datasets/{dataset_id}"): rule(
        OnDataset(Action.DELETE, by_id=True), status=409, code="head-moved", headers={"if-match": ANY_HASH}
    ),
    ("GET", "/query"): rule(ANYBODY, status=400, code="invalid-query", params={"query": "select nothing"}),
    ("POST", "/query"): rule(ANYBODY, status=400, code="invalid-query", json={"query": "select nothing"}),
    # Datasets, by their names.
    ("PUT", "/{account}/{dataset}/name"): rule(
        OnDataset(Action.DELETE), status=400, code="invalid-name", json={"name": "no such name!"}
    ),
    ("PUT", "/{account}/{dataset}/transform"): rule(
        WRITE, status=422, code="invalid-manifest", body=_manifest(DERIVED), headers=TYPES
    ),
    ("PUT", "/{account}/{dataset}/sources"): rule(WRITE, body=_manifest(ROOT), headers=TYPES),
    ("PUT", "/{account}/{dataset}/info"): rule(
        WRITE, status=422, code="invalid-manifest", body=_manifest(ROOT), headers=TYPES
    ),
    ("POST", "/{account}/{dataset}/pull"): rule(Pulled(), status=202, json={}),
    ("GET", "/{account}/{dataset}/flows"): rule(WRITE),
    ("PUT", "/{account}/{dataset}/flows/{kind}"): rule(
        WRITE, status=400, code="invalid-request", path={"kind": "poll"}, json={"trigger": {"every": "1s"}}
    ),
    ("DELETE", "/{account}/{dataset}/flows/{kind}"): rule(WRITE, status=404, code="not-found", path={"kind": "verify"}),
    ("PATCH", "/{account}/{dataset}/flows/{kind}"): rule(
        WRITE, status=404, code="not-found", path={"kind": "verify"}, json={"paused": True}
    ),
    ("POST", "/{account}/{dataset}/flows/{kind}/runs"): rule(
        WRITE, status=404, code="not-found", path={"kind": "verify"}, json={}
    ),
    ("POST", "/{account}/{dataset}/verify"): rule(FOLLOW, status=202, json={}),
    ("POST", "/{account}/{dataset}/ingest"): rule(
        PUSH, status=415, code="unsupported-media-type", body="x", headers={"content-type": "image/png"}
    ),
    ("GET", "/{account}/{dataset}/tail"): rule(READ),
    ("GET", "/{account}/{dataset}/metadata"): rule(READ),
    ("GET", "/{account}/{dataset}/state"): rule(READ),
    **{
        (method, f"/{{account}}/{{dataset}}/{folder}/{{name}}"): rule(
            READ, status=404, code="not-found", path={"name": ANY_HASH}
        )
        for method in ("GET", "HEAD")
        for folder in ("blocks", "data", "checkpoints")
    },
    ("GET", "/{account}/{dataset}/refs/{name}"): rule(READ, path={"name": "head"}),
    ("HEAD", "/{account}/{dataset}/refs/{name}"): rule(READ, path={"name": "head"}),
    ("POST", "/{account}/{dataset}/subscriptions"): rule(
        FOLLOW, status=400, code="invalid-request", json={"url": "https://a.example/x", "secret": "weak"}
    ),
    ("GET", "/{account}/{dataset}/subscriptions"): rule(FOLLOW),
    ("GET", "/{account}/{dataset}/subscriptions/{subscription_id}/deliveries"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("GET", "/{account}/{dataset}/subscriptions/{subscription_id}"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/pause"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/resume"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/rotate-secret"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, json={}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/test"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/replay"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, json={"failed": True}
    ),
    ("GET", "/{account}/{dataset}/subscriptions/{subscription_id}/deliveries/{delivery_id}"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID, "delivery_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/subscriptions/{subscription_id}/deliveries/{delivery_id}/replay"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID, "delivery_id": ANY_ID}
    ),
    ("DELETE", "/{account}/{dataset}/subscriptions/{subscription_id}"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("GET", "/{account}/{dataset}/changes"): rule(FOLLOW),
    ("POST", "/{account}/{dataset}/cursors"): rule(
        FOLLOW, status=400, code="invalid-name", json={"consumer": "no such name!"}
    ),
    ("GET", "/{account}/{dataset}/cursors"): rule(FOLLOW),
    ("GET", "/{account}/{dataset}/cursors/{consumer}"): rule(
        FOLLOW, status=404, code="not-found", path={"consumer": "none"}
    ),
    ("POST", "/{account}/{dataset}/cursors/{consumer}/claim"): rule(
        FOLLOW, status=404, code="not-found", path={"consumer": "none"}, json={}
    ),
    ("POST", "/{account}/{dataset}/cursors/{consumer}/fetch"): rule(
        FOLLOW, status=404, code="not-found", path={"consumer": "none"}, json=FENCE
    ),
    ("POST", "/{account}/{dataset}/cursors/{consumer}/ack"): rule(
        FOLLOW, status=400, code="invalid-request", path={"consumer": "none"}, json={**FENCE, "position": "nowhere"}
    ),
    ("DELETE", "/{account}/{dataset}/cursors/{consumer}"): rule(
        FOLLOW, status=404, code="not-found", path={"consumer": "none"}
    ),
    ("GET", "/{account}/{dataset}/collaborators"): rule(SHARE),
    ("PUT", "/{account}/{dataset}/collaborators/{name}"): rule(
        SHARE, status=412, code="changed", path={"name": "spare"}, headers=CHANGED, json={"role": "reader"}
    ),
    # Whoever may read it may give their own role back; taking another's takes the right to share.
    ("DELETE", "/{account}/{dataset}/collaborators/{name}"): rule(
        *(READ, OnDataset(Action.SHARE, is_declared=False)),
        status=412,
        code="changed",
        path={"name": "spare"},
        headers=CHANGED,
    ),
    ("GET", "/{account}/{dataset}/visibility"): rule(READ),
    ("PUT", "/{account}/{dataset}/visibility"): rule(
        SHARE, status=400, code="invalid-request", json={"visibility": "secret"}
    ),
    # Pages.
    ("GET", "/-/assets/{name}"): Rule(needs=(), allowed=((404, "not-found"),), path={"name": "none.js"}),
    ("GET", "/-/open"): Rule(needs=(), allowed=(MISSING,)),
    ("GET", "/"): rule(ANYBODY),
    ("GET", "/-/datasets.atom"): rule(ANYBODY),
    ("GET", "/-/sql"): rule(ANYBODY),
    ("POST", "/-/sql"): rule(ANYBODY, status=400, code="invalid-query", **form(query="select nothing")),
    ("POST", "/-/sql/saved"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=400, code="invalid-request", **form(name="x", query="")
    ),
    ("POST", "/-/sql/saved/{query_id}"): rule(
        *(SIGNED_IN, MANAGE_OWN), status=404, code="not-found", path={"query_id": ANY_ID}, **form(action="delete")
    ),
    ("GET", "/{account}"): Rule(needs=(ANYBODY,), allowed=((200, ""), MISSING)),
    ("GET", "/{account}/{dataset}"): rule(READ),
    ("GET", "/{account}/{dataset}/-/rows"): rule(READ),
    ("GET", "/{account}/{dataset}/-/profile"): rule(READ),
    ("GET", "/{account}/{dataset}/-/history"): rule(READ),
    ("GET", "/{account}/{dataset}/-/blocks/{block}"): rule(
        READ, status=404, code="not-found", path={"block": ANY_HASH}
    ),
    ("POST", "/{account}/{dataset}/-/blocks/{block}/verify"): rule(
        FOLLOW, status=404, code="not-found", path={"block": ANY_HASH}, **form()
    ),
    ("GET", "/{account}/{dataset}/-/compare"): rule(
        READ, status=404, code="not-found", params={"older": ANY_HASH, "newer": ANY_HASH}
    ),
    ("GET", "/{account}/{dataset}/-/lineage"): rule(READ),
    # Pages of flows.
    ("GET", "/-/flows"): rule(SIGNED_IN),
    ("GET", "/{account}/{dataset}/-/flows"): rule(WRITE),
    ("POST", "/{account}/{dataset}/-/flows/{kind}"): rule(
        WRITE, status=400, code="invalid-request", path={"kind": "poll"}, **form(trigger="every", every="1s")
    ),
    **{
        ("POST", f"/{{account}}/{{dataset}}/-/flows/{{kind}}/{verb}"): rule(
            WRITE, status=404, code="not-found", path={"kind": "verify"}, headers=FORM
        )
        for verb in ("pause", "resume", "run", "remove")
    },
    ("POST", "/-/runs/{run_id}/cancel"): rule(
        SIGNED_IN, status=404, code="not-found", path={"run_id": ANY_ID}, headers=FORM
    ),
    # Pages of one's own account and of organisations.
    ("POST", "/-/sign-out"): rule(ANYBODY, status=303, headers=FORM),
    ("GET", "/-/account"): rule(SIGNED_IN),
    ("POST", "/-/account"): Rule(needs=(SIGNED_IN, MANAGE_OWN), allowed=(STALE,), body="version=999", headers=FORM),
    ("POST", "/-/account/password"): Rule(
        needs=(SIGNED_IN, MANAGE_OWN),
        allowed=(INVALID, (403, "access-denied")),
        body=f"old={PASSWORD.replace(' ', '+')}&new=short",
        headers=FORM,
    ),
    ("GET", "/-/account/sessions"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/-/account/sessions"): Rule(needs=(SIGNED_IN,), allowed=(MISSING,), body=f"id={ANY_ID}", headers=FORM),
    ("GET", "/-/account/tokens"): rule(SIGNED_IN, MANAGE_OWN),
    ("POST", "/-/account/tokens"): Rule(
        needs=(SIGNED_IN, MANAGE_OWN), allowed=(INVALID,), body="name=without+scopes", headers=FORM
    ),
    ("POST", "/-/account/tokens/revoke"): Rule(
        needs=(SIGNED_IN,), allowed=(MISSING,), body=f"id={ANY_ID}", headers=FORM
    ),
    ("GET", "/-/account/organisations"): rule(SIGNED_IN),
    ("POST", "/-/account/organisations"): Rule(
        needs=(SIGNED_IN, MANAGE_OWN), allowed=(NAME, INVALID), body="name=jobs", headers=FORM
    ),
    ("GET", "/-/orgs/{name}"): rule(SIGNED_IN, MEMBER, READER, path={"name": _owner}),
    ("POST", "/-/orgs/{name}"): Rule(
        needs=(SIGNED_IN, MEMBER, MANAGE), allowed=(STALE,), path={"name": _owner}, body="version=999", headers=FORM
    ),
    ("POST", "/-/orgs/{name}/members"): Rule(
        needs=(SIGNED_IN, MEMBER, MANAGE),
        allowed=(STALE,),
        path={"name": _owner},
        body="member=spare&role=admin&version=9",
        headers=FORM,
    ),
    ("POST", "/-/orgs/{name}/delete"): Rule(
        needs=(SIGNED_IN, MEMBER, MANAGE),
        allowed=((409, "in-use"),),
        path={"name": _owner},
        body=lambda scene: f"confirm={scene.account}",
        headers=FORM,
    ),
    ("GET", "/{account}/{dataset}/-/sharing"): rule(SHARE),
    ("POST", "/{account}/{dataset}/-/sharing/visibility"): Rule(
        needs=(SHARE,), allowed=(INVALID,), body="visibility=secret", headers=FORM
    ),
    ("POST", "/{account}/{dataset}/-/sharing/collaborators"): Rule(
        needs=(SHARE,), allowed=(STALE,), body="name=spare&role=reader&version=9", headers=FORM
    ),
    # Pages of the node's admins.
    ("GET", "/-/admin"): rule(ADMIN),
    ("GET", "/-/admin/settings"): rule(ADMIN),
    ("GET", "/-/admin/storage"): rule(ADMIN),
    ("GET", "/-/admin/rights"): rule(ADMIN, params={"dataset": lambda scene: scene.shown}),
    ("GET", "/-/admin/tokens"): rule(ADMIN),
    ("POST", "/-/admin/tokens"): Rule(needs=(ADMIN,), allowed=(INVALID,), body="token=nonsense", headers=FORM),
    ("POST", "/-/admin/tokens/revoke"): Rule(needs=(ADMIN,), allowed=(MISSING,), body=f"id={ANY_ID}", headers=FORM),
    ("GET", "/-/admin/audit"): rule(ADMIN),
    ("GET", "/-/admin/audit.csv"): rule(ADMIN, params={"target": "nothing"}),
    ("GET", "/-/admin/accounts"): rule(ADMIN),
    ("POST", "/-/admin/invitations"): Rule(needs=(ADMIN,), allowed=(NAME,), body="name=jobs", headers=FORM),
    ("POST", "/-/admin/invitations/revoke"): Rule(
        needs=(ADMIN,), allowed=(MISSING,), body=f"id={ANY_ID}", headers=FORM
    ),
    ("GET", "/-/admin/accounts/{name}"): rule(ADMIN, path={"name": "spare"}),
    **{
        ("POST", f"/-/admin/accounts/{{name}}/{what}"): Rule(
            needs=(ADMIN,), allowed=allowed, path={"name": name}, body=body, headers=FORM
        )
        for what, name, body, allowed in (
            ("standing", "spare", "change=suspend&version=999", (STALE,)),
            ("limits", "spare", "version=999", (STALE,)),
            ("reset", "acme", "", (INVALID,)),
            ("delete", "spare", "confirm=another", (INVALID,)),
        )
    },
    ("GET", "/-/new"): rule(SIGNED_IN),
    ("GET", "/-/new/manifest"): rule(SIGNED_IN),
    ("GET", "/-/new/file"): rule(SIGNED_IN),
    ("POST", "/-/new/file"): rule(SIGNED_IN, status=400, code="invalid-request", **EMPTY_FILE),
    ("POST", "/-/new/file/url"): rule(SIGNED_IN, status=400, code="invalid-request", **form(url="ftp://a.example")),
    ("GET", "/-/new/file/{job_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("POST", "/-/new/file/{job_id}"): rule(
        SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}, **form(action="discard")
    ),
    ("GET", "/-/new/sql"): rule(SIGNED_IN),
    ("POST", "/-/new/sql"): rule(SIGNED_IN, status=400, code="invalid-request", **form(name="x", sql="SELECT 1")),
    # Whoever may not make it is told so on the form.
    ("POST", "/-/new/manifest"): Rule(
        needs=(SIGNED_IN,),
        allowed=((409, "already-exists"), (403, "access-denied")),
        body=lambda scene: urlencode({"manifest": _manifest(ROOT)(scene)}),
        headers=FORM,
    ),
    ("GET", "/-/jobs"): rule(SIGNED_IN),
    ("GET", "/-/jobs/{job_id}"): rule(SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}),
    ("POST", "/-/jobs/{job_id}/cancel"): rule(
        SIGNED_IN, status=404, code="not-found", path={"job_id": ANY_ID}, **form()
    ),
    ("GET", "/{account}/{dataset}/-/jobs"): rule(FOLLOW),
    ("POST", "/{account}/{dataset}/-/pull"): rule(WRITE, status=303, **form()),
    ("POST", "/{account}/{dataset}/-/verify"): rule(FOLLOW, status=303, **form()),
    ("GET", "/{account}/{dataset}/-/push"): rule(PUSH),
    ("POST", "/{account}/{dataset}/-/push"): rule(
        PUSH, status=415, code="unsupported-media-type", **form(rows="x", media_type="image/png")
    ),
    ("POST", "/{account}/{dataset}/-/push/try"): rule(PUSH, status=400, code="invalid-request", **EMPTY_FILE),
    ("POST", "/{account}/{dataset}/-/push/tried"): rule(PUSH, status=404, code="not-found", **form(job=ANY_ID)),
    ("GET", "/{account}/{dataset}/-/subscriptions"): rule(FOLLOW),
    ("POST", "/{account}/{dataset}/-/subscriptions"): rule(
        FOLLOW, status=400, code="invalid-request", **form(url="https://a.example/x", secret="weak")
    ),
    ("GET", "/{account}/{dataset}/-/subscriptions/{subscription_id}"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/-/subscriptions/{subscription_id}/state"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, **form(state="paused")
    ),
    ("POST", "/{account}/{dataset}/-/subscriptions/{subscription_id}/secret"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, **form(secret="")
    ),
    ("POST", "/{account}/{dataset}/-/subscriptions/{subscription_id}/test"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, **form()
    ),
    ("POST", "/{account}/{dataset}/-/subscriptions/{subscription_id}/replay"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, **form(which="failed")
    ),
    ("GET", "/{account}/{dataset}/-/subscriptions/{subscription_id}/{delivery_id}"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID, "delivery_id": ANY_ID}
    ),
    ("POST", "/{account}/{dataset}/-/subscriptions/{subscription_id}/{delivery_id}/replay"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID, "delivery_id": ANY_ID}, **form()
    ),
    ("POST", "/{account}/{dataset}/-/subscriptions/{subscription_id}/remove"): rule(
        FOLLOW, status=404, code="not-found", path={"subscription_id": ANY_ID}, **form()
    ),
    ("GET", "/{account}/{dataset}/-/settings"): rule(WRITE),
    ("POST", "/{account}/{dataset}/-/settings"): rule(
        WRITE, status=422, code="invalid-manifest", **form(manifest="kind: Other")
    ),
    ("POST", "/{account}/{dataset}/-/info"): rule(
        WRITE, status=400, code="invalid-request", **form(license_short="X", license_url="none")
    ),
    ("POST", "/{account}/{dataset}/-/name"): rule(
        OnDataset(Action.DELETE), status=400, code="invalid-name", **form(name="no such name!")
    ),
    ("POST", "/{account}/{dataset}/-/delete"): rule(
        OnDataset(Action.DELETE), status=400, code="invalid-request", **form(confirm="another/name")
    ),
}
"""By method and path template. A route without an entry fails `test_matrix`."""
