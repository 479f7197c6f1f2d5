"""What a route can need, and the answers that follow from it.

The table of routes is in `rules` and `page_rules`.

A rule names needs in the order in which they are asked for. The first is what the route declares as its policy; those after it are the
verb's. Its request would change nothing, or only what changes nothing of rights, so that every actor can make it on the same dataset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from odfabric.domain.people.access import AccessPolicy, Action, Subject, Verdict, owner_of
from odfabric.model.identity import Name
from odfabric.model.people.account import EVERYONE
from odfabric.model.people.credential import Scope
from odfabric_api.auth import RequiresDataset, RequiresDatasetById, RequiresNode, RequiresPullable
from tests.services.api.people import Scene

ANY_HASH = "f1620" + "ab" * 32
ANY_ID = "0" * 32
FENCE = {"fence": "0" * 32}
JSON = "application/json"
CHANGED = {"if-match": '"v9"'}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer to somebody without the right: status, code, start of the message."""

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
    """An action on the node as a whole.

    What only admins know of does not exist for others.
    """

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
    """An action on an account: the owner of the dataset, or anyone who asks."""

    def __init__(self, action: Action, *, own: bool = False) -> None:
        self.action, self.own = action, own

    def verdict(self, policy: AccessPolicy, subject: Subject, scene: Scene) -> Verdict:
        name = Name(scene.account)
        if self.own:
            name = subject.account.name if subject.account is not None else name
        return policy.decide_here(subject, self.action, under=name)


class Pulled(OnDataset):
    """A pull changes the dataset.

    A name that is free can be taken by those who may create it.
    """

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
    """Members of the owning organisation and node admins; it is hidden from others."""

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
    """`needs` is empty for what is everybody's.

    `allowed` are the answers to those who may, as status and code ("" for none).

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
        """The refusal, None for anyone who may."""
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


def manifest_of(template: str) -> Callable[[Scene], str]:
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


def owner_in(scene: Scene) -> str:
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
