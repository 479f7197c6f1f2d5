"""Identities and names: datasets, accounts, aliases, references.

Owns the values and how they compare: names compare ASCII case-insensitively and keep the case they were written with.
Parsing texts is `formats.identifiers.did` and `formats.identifiers.references`. Source: specification, section "Identity"; grammar of names there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

ED25519_PUB = b"\xed\x01"


@dataclass(frozen=True, slots=True, order=True)
class DatasetId:
    """Identity of a dataset: the 32-byte Ed25519 public key behind its `did:odf`."""

    key: bytes

    def to_bytes(self) -> bytes:
        """Binary DID as blocks carry it: `ed 01` and the key, 34 bytes."""
        return ED25519_PUB + self.key

    @property
    def multibase(self) -> str:
        """Canonical text without prefix, `fed01...`, 69 characters: the folder's name."""
        return "f" + self.to_bytes().hex()

    def __str__(self) -> str:
        return f"did:odf:{self.multibase}"


@dataclass(frozen=True, slots=True, order=True)
class KeyAccountId:
    """Identity of an account with an Ed25519 key: its 32 bytes, as `did:odf`."""

    key: bytes

    def __str__(self) -> str:
        return f"did:odf:f{(ED25519_PUB + self.key).hex()}"


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class WalletAccountId:
    """Identity of a wallet's account, `did:pkh` over CAIP-10; it has no binary form."""

    namespace: str
    reference: str
    address: str

    def __str__(self) -> str:
        return f"did:pkh:{self.namespace}:{self.reference}:{self.address}"


AccountId: TypeAlias = KeyAccountId | WalletAccountId


@dataclass(frozen=True, slots=True)
class Name:
    """An account, dataset or repository name.

    Equality ignores ASCII case; `text` is kept as written.
    """

    text: str = field(compare=False)
    folded: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded", self.text.lower())

    def __str__(self) -> str:
        return self.text


AccountName: TypeAlias = Name


@dataclass(frozen=True, slots=True)
class DatasetAlias:
    """`[account/]dataset`."""

    account: Name | None
    name: Name

    def __str__(self) -> str:
        return f"{self.account}/{self.name}" if self.account else str(self.name)


DatasetRef: TypeAlias = DatasetId | DatasetAlias


@dataclass(frozen=True, slots=True)
class DatasetAliasRemote:
    """`repository/[account/]dataset`."""

    repo: Name
    account: Name | None
    name: Name

    def __str__(self) -> str:
        parts = (self.repo, self.account, self.name) if self.account else (self.repo, self.name)
        return "/".join(str(part) for part in parts)


@dataclass(frozen=True, slots=True)
class DatasetIdRemote:
    """`repository/did:odf:...`: an identity, and the repository to look it up in."""

    repo: Name
    id: DatasetId

    def __str__(self) -> str:
        return f"{self.repo}/{self.id}"


@dataclass(frozen=True, slots=True)
class DatasetUrl:
    """Where a dataset is published.

    `text` is normalised by `formats.identifiers.references`.
    """

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class AmbiguousAlias:
    """`x/dataset`, where `x` may be a known repository or an account.

    Only the known repositories tell which.
    """

    first: Name
    name: Name

    def __str__(self) -> str:
        return f"{self.first}/{self.name}"

    def as_local(self) -> DatasetAlias:
        """Read as an account's dataset."""
        return DatasetAlias(self.first, self.name)

    def as_remote(self) -> DatasetAliasRemote:
        """Read as a dataset of a repository."""
        return DatasetAliasRemote(self.first, None, self.name)


DatasetRefRemote: TypeAlias = DatasetId | DatasetIdRemote | DatasetAliasRemote | DatasetUrl
DatasetRefAny: TypeAlias = DatasetRefRemote | DatasetAlias | AmbiguousAlias
DatasetPushTarget: TypeAlias = DatasetAliasRemote | Name | DatasetUrl


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A dataset name with `%` for any run of characters, none included.

    ASCII case does not count.
    """

    text: str

    def matches(self, name: Name) -> bool:
        """Whether the whole name fits.

        Linear: each middle piece is taken at its first place.
        """
        first, *middle, last = self.text.lower().split("%")
        rest = name.folded
        if len(rest) < len(first) + len(last) or not rest.startswith(first) or not rest.endswith(last):
            return False
        rest = rest[len(first) : len(rest) - len(last)]
        for piece in middle:
            at = rest.find(piece)
            if at < 0:
                return False
            rest = rest[at + len(piece) :]
        return True

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class DatasetPattern:
    """`[account/]pattern` over the datasets of this node.

    No account means all accounts.
    """

    account: Name | None
    name: NamePattern

    def matches(self, alias: DatasetAlias) -> bool:
        """Whether the alias fits; an alias without account fits no pattern that has one."""
        return (self.account is None or self.account == alias.account) and self.name.matches(alias.name)

    def __str__(self) -> str:
        return f"{self.account}/{self.name}" if self.account else str(self.name)


@dataclass(frozen=True, slots=True)
class DatasetPatternRemote:
    """`repository/[account/]pattern` over the datasets of a repository.

    No account means all accounts.
    """

    repo: Name
    account: Name | None
    name: NamePattern

    def matches(self, alias: DatasetAliasRemote) -> bool:
        """Whether the alias fits."""
        if self.repo != alias.repo or (self.account is not None and self.account != alias.account):
            return False
        return self.name.matches(alias.name)

    def __str__(self) -> str:
        parts = (self.repo, self.account, self.name) if self.account else (self.repo, self.name)
        return "/".join(str(part) for part in parts)


@dataclass(frozen=True, slots=True)
class DatasetHandle:
    """A dataset that exists here: identity, and the alias it has now."""

    id: DatasetId
    alias: DatasetAlias
