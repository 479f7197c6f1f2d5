"""People and organisations, and what they may do: accounts, memberships, grants.

Owns the values only: who may do what is decided by `domain.people.access`. A dataset is public when everybody has the role of a reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.instant import Instant


class AccountKind(Enum):
    """A user signs in; an organisation has members, owns datasets, never signs in."""

    USER = "user"
    ORGANISATION = "organisation"


class OrganisationRole(Enum):
    """Role of a member.

    A member edits the organisation's datasets, an admin owns them and manages members.
    """

    MEMBER = "member"
    ADMIN = "admin"


class DatasetRole(Enum):
    """Role on a dataset, least first: each may do all that the one before may."""

    READER = "reader"
    CONTRIBUTOR = "contributor"
    EDITOR = "editor"
    MAINTAINER = "maintainer"
    OWNER = "owner"

    @property
    def rank(self) -> int:
        """Position in that order, from 1."""
        return _RANKS[self]


_RANKS = {role: position for position, role in enumerate(DatasetRole, start=1)}


class Visibility(Enum):
    """Who may read a dataset beside those with a role: nobody or everybody."""

    PRIVATE = "private"
    PUBLIC = "public"


EVERYONE: Literal["*"] = "*"
"""Anyone who asks, with or without an account; a grant to it is the visibility `public`."""

Grantee: TypeAlias = AccountId | Literal["*"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """What an admin has set for one account.

    None leaves it to the node's settings of the same names.
    """

    datasets_max: int | None = None
    stored_bytes_max: int | None = None
    pushes_per_minute_max: int | None = None
    queries_at_once_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account of this node. `version` grows by one with each change of it.

    `is_admin` is an admin of the node, which only a user can be. A suspended account may do nothing, and nothing is done for it.
    """

    id: AccountId
    name: Name
    kind: AccountKind
    display_name: str
    created_at: Instant
    email: str | None = None
    is_admin: bool = False
    suspended_at: Instant | None = None
    limits: AccountLimits = AccountLimits()
    version: int = 1

    @property
    def avatar_letter(self) -> str:
        """First letter or digit of display name or name, in upper case, for a picture."""
        letters = (sign for sign in f"{self.display_name}{self.name}" if sign.isalnum())
        return next(letters, "?").upper()[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """An account's role in an organisation.

    `version` grows by one with each change of it.
    """

    organisation: AccountId
    member: AccountId
    role: OrganisationRole
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role on a dataset that an account, an organisation or everybody was given.

    Owning it needs no grant.

    `version` grows by one with each change of it.
    """

    dataset: DatasetId
    grantee: Grantee
    role: DatasetRole
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalIdentity:
    """An account's OpenID Connect identity: `issuer` and `subject` of ID tokens."""

    issuer: str
    subject: str
