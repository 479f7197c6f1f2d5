"""Who may do what: the one policy function, deny by default.

Owns the decision and how a refusal looks: who may not know that a dataset exists is told that it does not. On the embedded
node there is one account and one token; whoever holds the token may do everything, a stranger nothing, or only read where
the node is opened for that. Not here: proving who somebody is (the edge).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.errors import AccessDenied, NotFound, Unauthenticated
from odfabric.model.identity import AccountName, Name

LOCAL_ACCOUNT: AccountName = Name("local")


class Action(Enum):
    """What is asked for. MAINTAIN is moving a head back or deleting; CREATE is a new dataset under an account."""

    READ = "read"
    WRITE = "write"
    MAINTAIN = "maintain"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Subject:
    """Who asks; `account` None is a stranger."""

    account: AccountName | None = None


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The rule of a node with the one account `local`. `anonymous_read` opens all its datasets for reading."""

    anonymous_read: bool = False

    def allows(self, subject: Subject, action: Action) -> bool:
        """Whether `subject` may do `action` to the datasets of this node."""
        return subject.account == LOCAL_ACCOUNT or (action is Action.READ and self.anonymous_read)

    def require(self, subject: Subject, action: Action, *, dataset: str) -> None:
        """Refuse what is not allowed. `dataset` is the reference as the caller gave it.

        Raises NotFound if the subject may not even read, as if there were no such dataset; Unauthenticated or AccessDenied
        if it may read but not do this, or may not create.
        """
        if self.allows(subject, action):
            return
        if action is not Action.CREATE and not self.allows(subject, Action.READ):
            raise NotFound("dataset", dataset)
        if subject.account is None:
            raise Unauthenticated(f"A token is needed to {action.value} {dataset}")
        raise AccessDenied(f"{subject.account} may not {action.value} {dataset}")
