"""Shapes of answers about repositories and datasets elsewhere."""

from __future__ import annotations

from typing import Literal

from odfabric_api.bodies.schemas import Answer


class RepositoryView(Answer):
    """A repository elsewhere: a name for a prefix of URLs. `shared`: it is the node's."""

    name: str
    url: str
    shared: bool
    createdAt: str


class RepositoryList(Answer):
    """Repositories that the caller knows."""

    repositories: list[RepositoryView]


class RemoteAliasView(Answer):
    """Where a dataset is pulled from or pushed to."""

    kind: Literal["pull", "push"]
    target: str


class RemoteAliasList(Answer):
    """Aliases of a dataset."""

    aliases: list[RemoteAliasView]


class DatasetElsewhere(Answer):
    """A dataset of a repository, as it is named here.

    Its id and kind where the repository says so.
    """

    alias: str
    id: str | None
    kind: str | None


class FoundElsewhere(Answer):
    """Datasets of a repository."""

    datasets: list[DatasetElsewhere]


class HeadMoveView(Answer):
    """An entry of a head log. `nextSigner` is there in a hand-over of the key."""

    sequence: int
    kind: str
    systemTime: str
    oldHead: str | None
    newHead: str
    signer: str
    nextSigner: str | None = None


class SeenHeadView(Answer):
    """The newest entry that this node has seen elsewhere, where, and when."""

    sequence: int
    head: str
    signedAt: str
    seenAt: str
    place: str


class SignerAnswer(Answer):
    """The key that signs a dataset from now on, as `did:key`."""

    signer: str


class KeyDocument(Answer):
    """A private key sealed by a passphrase.

    Further members are for programs that open it.
    """

    format: str
    dataset: str
    signer: str
    kdf: str
    salt: str
    nonce: str
    sealed: str


class HeadsAnswer(Answer):
    """Who signs a dataset's heads, and the moves, newest first. Signers are `did:key`."""

    signer: str
    signedSince: str
    entries: int
    keyIsHere: bool
    lastSeen: SeenHeadView | None
    handOvers: list[HeadMoveView]
    moves: list[HeadMoveView]
