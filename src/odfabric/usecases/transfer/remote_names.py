"""Find a remote dataset: from a name, repository or alias to a URL.

Owns the questions that are asked of nodes on the way (the account of a token, the name a dataset has there). Not here: the choice itself
(`domain.transfer.addressing`). Source: RFC-007.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.domain.transfer.addressing import (
    dataset_url,
    find_repository,
    named_repository,
    single_push_target,
    single_repository,
)
from odfabric.domain.transfer.direction import SMART_SCHEMES, scheme_of, without_smart_prefix
from odfabric.errors import InvalidRequest, Place
from odfabric.formats.identifiers.references import parse_dataset_push_target, parse_dataset_ref_any
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import (
    AmbiguousAlias,
    DatasetAlias,
    DatasetAliasRemote,
    DatasetId,
    DatasetIdRemote,
    DatasetUrl,
    Name,
)
from odfabric.model.transfer.repository import AliasKind, RemoteRepository
from odfabric.ports.transfer.nodes import RemoteNodes
from odfabric.ports.transfer.repositories import RemoteRepositories


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTarget:
    """Where a push goes, and the alias that is remembered of it."""

    url: str
    alias: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteNames:
    """Names of datasets elsewhere, as a subject of this node knows them."""

    repositories: RemoteRepositories
    nodes: RemoteNodes

    def known(self, subject: Subject) -> list[RemoteRepository]:
        """The repositories of the subject's account, then the node's."""
        own = self.repositories.of(subject.account.id) if subject.account is not None else ()
        return [*own, *self.repositories.of(None)]

    def source_url(self, text: str, subject: Subject) -> str:
        """URL of the dataset that `text` names: a URL, or `repository/[account/]dataset`.

        Raises InvalidName, InvalidRequest for a name of this node, NotFound for an unknown repository, UnsupportedProtocol.
        """
        match parse_dataset_ref_any(text):
            case DatasetUrl(text=url):
                scheme_of(url)
                return url
            case DatasetAliasRemote(repo=repo, account=account, name=name):
                return self._url(named_repository(repo, self.known(subject)), account, name)
            case AmbiguousAlias(first=repo, name=name):
                return self._url(named_repository(repo, self.known(subject)), None, name)
            case DatasetId() | DatasetIdRemote():
                raise InvalidRequest(
                    "a remote dataset is not pulled by its id",
                    place=Place(field="url"),
                    hint="name it repository/account/dataset; `odf search REPOSITORY` shows them",
                )
            case DatasetAlias():
                raise InvalidRequest(
                    f"{text} names a dataset here", place=Place(field="url"), hint="write repository/[account/]dataset"
                )

    def is_remote(self, text: str, subject: Subject) -> bool:
        """Whether `text` names a dataset elsewhere. Raises InvalidName.

        `x/dataset` does if `x` is a known repository.
        """
        match parse_dataset_ref_any(text):
            case DatasetUrl() | DatasetAliasRemote() | DatasetIdRemote():
                return True
            case AmbiguousAlias(first=first):
                return find_repository(first, self.known(subject)) is not None
            case _:
                return False

    def push_target(self, entry: CatalogEntry, text: str | None, subject: Subject) -> PushTarget:
        """Where a dataset is pushed to: `text`, or the only place that is known.

        If `text` is not given, its only push alias, else the only repository.

        Raises AmbiguousRepository, EmptyRepositoryList, NotFound, InvalidName, UnsupportedProtocol.
        """
        chosen = text or single_push_target(self.repositories.aliases(entry.id, AliasKind.PUSH))
        known = self.known(subject)
        if chosen is None:
            return self._in_repository(entry, single_repository(known))
        match parse_dataset_push_target(chosen):
            case DatasetUrl(text=url):
                scheme_of(url)
                return PushTarget(url=url, alias=url)
            case DatasetAliasRemote(repo=repo, account=account, name=name):
                found = named_repository(repo, known)
                alias = str(DatasetAliasRemote(found.name, account, name))
                return PushTarget(url=self._url(found, account, name), alias=alias)
            case Name() as repo:
                return self._in_repository(entry, named_repository(repo, known))

    def _in_repository(self, entry: CatalogEntry, repository: RemoteRepository) -> PushTarget:
        """The name that the dataset has there already, else the one it has here."""
        account, name = entry.alias.account, entry.alias.name
        if scheme_of(repository.url) in SMART_SCHEMES:
            account = self._account(repository, name)
            name = self.nodes.name_of(repository.url, entry.id) or name
        alias = str(DatasetAliasRemote(repository.name, account, name))
        return PushTarget(url=dataset_url(repository.url, account, name), alias=alias)

    def _url(self, repository: RemoteRepository, account: Name | None, name: Name) -> str:
        if account is None and scheme_of(repository.url) in SMART_SCHEMES:
            account = self._account(repository, name)
        return dataset_url(repository.url, account, name)

    def _account(self, repository: RemoteRepository, name: Name) -> Name | None:
        """The account of our token there, None on a node that has no accounts.

        Raises InvalidRequest.
        """
        if not self.nodes.has_accounts(repository.url):
            return None
        account = self.nodes.own_account(repository.url)
        if account is None:
            node = without_smart_prefix(repository.url).rstrip("/")
            raise InvalidRequest(
                f"{repository.name} is a node with accounts, and nobody is logged in there",
                hint=f"`odf login {node}` does so; a dataset of another account is {repository.name}/ACCOUNT/{name}",
            )
        return account
