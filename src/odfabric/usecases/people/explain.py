"""What an account may do with a dataset, and why: the policy asked by an admin."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import LEAST_ROLES, STRANGER, Action, Subject, Verdict, owner_of
from odfabric.model.commit import CatalogEntry
from odfabric.model.people.account import EVERYONE, DatasetRole, Grant
from odfabric.usecases.people.accounts import named_account
from odfabric.usecases.people.ports import PeoplePorts


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """`account` None: a stranger.

    `reasons` are sentences; `allowed` the actions that a credential with all scopes may.
    """

    account: str | None
    dataset: str
    role: DatasetRole | None
    reasons: tuple[str, ...]
    allowed: tuple[str, ...]

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "account": self.account or "a stranger",
            "dataset": self.dataset,
            "role": self.role.value if self.role else None,
            "reasons": list(self.reasons),
            "allowed": list(self.allowed),
        }


def explain(entry: CatalogEntry, name: str | None, *, subject: Subject, ports: PeoplePorts) -> Explained:
    """For admins of the node.

    Raises NotFound for an account that is not there, AccountSuspended, AccessDenied.
    """
    ports.access.require_here(subject, Action.ADMINISTER, shown="this node")
    whose = STRANGER if name is None else ports.access.subject(named_account(name, ports=ports))
    grants = ports.access.grants(entry.id, whose)
    policy = ports.access.policy
    return Explained(
        account=name,
        dataset=str(entry.alias),
        role=policy.role(whose, entry.id, owner_of(entry.alias), grants),
        reasons=(*_by_name(whose, entry, policy.anonymous_read), *(_by_grant(grant, whose) for grant in grants)),
        allowed=tuple(
            action.name.lower()
            for action in LEAST_ROLES
            if policy.decide(whose, action, entry.id, owner_of(entry.alias), grants) is Verdict.ALLOWED
        ),
    )


def _by_name(whose: Subject, entry: CatalogEntry, is_open: bool) -> list[str]:
    reasons, owner = [], owner_of(entry.alias)
    if is_open:
        reasons.append("the node lets everybody read (ODF_ANONYMOUS_READ)")
    if whose.account is not None and whose.account.name == owner:
        reasons.append(f"{owner} owns it")
    if (role := whose.role_in(owner)) is not None:
        reasons.append(f"it belongs to the organisation {owner}, of which they are {role.value}")
    if whose.is_admin:
        reasons.append("they are an admin of the node")
    return reasons


def _by_grant(grant: Grant, whose: Subject) -> str:
    if grant.grantee == EVERYONE:
        return "it is public"
    organisation = next((found.name for found, _ in whose.organisations if found.id == grant.grantee), None)
    via = f"the organisation {organisation} was" if organisation else "they were"
    return f"{via} given the role {grant.role.value}"
