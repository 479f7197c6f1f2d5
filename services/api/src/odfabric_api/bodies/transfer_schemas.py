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
