"""Remote repositories: names for prefixes of URLs, of an account or of the node.

Owns who may change which: an account its own, an admin those of the node, which every account uses. No network is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
from odfabric.domain.transfer.addressing import checked_repository_url
from odfabric.errors import NotFound
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import AccountId
from odfabric.model.people.audit import AuditEntry, AuditKind
from odfabric.model.transfer.repository import AliasKind, RemoteAlias, RemoteRepository
from odfabric.ports.node.clock import Clock
from odfabric.ports.transfer.repositories import RemoteRepositories
from odfabric.usecases.rights.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryVerbs:
    """Verbs for one subject each. `shared` repositories are the node's."""

    repositories: RemoteRepositories
    access: Access
    clock: Clock
    maximum: int

    def add(self, name: str, url: str, *, shared: bool, by: Subject) -> RemoteRepository:
        """Make a repository known.

        Raises InvalidName, InvalidRequest, UnsupportedProtocol, AlreadyExists, LimitExceeded, AccessDenied.
        """
        account = self._account(by, shared=shared)
        repository = RemoteRepository(
            name=parse_name(name, type_name="RepoName"),
            url=checked_repository_url(url),
            account=account,
            created_at=self.clock.now(),
        )
        audit = [self._entry(AuditKind.REPOSITORY_ADDED, repository.name.text, by, shared=shared, url=repository.url)]
        self.repositories.add(repository, maximum=self.maximum, audit=audit)
        return repository

    def listed(self, *, by: Subject) -> Sequence[RemoteRepository]:
        """The subject's own, then the node's. Raises Unauthenticated, AccessDenied."""
        own = self._account(by, shared=False)
        return [*self.repositories.of(own), *self.repositories.of(None)]

    def shared(self, *, by: Subject) -> Sequence[RemoteRepository]:
        """Those of the node, for its admins. Raises Unauthenticated, AccessDenied."""
        return self.repositories.of(self._account(by, shared=True))

    def remove(self, name: str, *, shared: bool, by: Subject) -> None:
        """Forget a repository; what was pulled or pushed stays.

        Raises NotFound, AccessDenied.
        """
        account, parsed = self._account(by, shared=shared), parse_name(name, type_name="RepoName")
        audit = [self._entry(AuditKind.REPOSITORY_REMOVED, parsed.text, by, shared=shared)]
        if not self.repositories.remove(account, parsed, audit=audit):
            where = "node" if shared else "account"
            raise NotFound("repository", name, hint=f"`odf repo list` shows those of this {where}")

    def aliases(self, entry: CatalogEntry, *, by: Subject) -> list[RemoteAlias]:
        """Where a dataset is pulled from and pushed to. Raises NotFound, AccessDenied."""
        self.access.require(by, Action.WRITE, entry)
        pulled = [] if entry.remote_url is None else [_copy_of(entry, entry.remote_url)]
        pulled += self.repositories.aliases(entry.id, AliasKind.PULL)
        return [*pulled, *self.repositories.aliases(entry.id, AliasKind.PUSH)]

    def forget_alias(self, entry: CatalogEntry, target: str, *, by: Subject) -> None:
        """Forget where a dataset was pushed to. Raises NotFound, AccessDenied."""
        self.access.require(by, Action.WRITE, entry)
        if not self.repositories.remove_alias(RemoteAlias(dataset=entry.id, kind=AliasKind.PUSH, target=target)):
            raise NotFound("push alias", target, hint=f"`odf repo aliases {entry.alias}` shows those that there are")

    def _account(self, by: Subject, *, shared: bool) -> AccountId | None:
        if shared:
            self.access.require_here(by, Action.ADMINISTER, shown="repositories of the node")
            return None
        if by.account is None:
            self.access.require_here(by, Action.SIGN_IN, shown="this node")
            raise AssertionError("a stranger may not sign in")
        self.access.require_here(by, Action.MANAGE, under=by.account.name, shown="repositories")
        return by.account.id

    def _entry(self, kind: AuditKind, name: str, by: Subject, *, shared: bool, **detail: str) -> AuditEntry:
        whose = {"of": "node"} if shared else {}
        return AuditEntry(kind=kind, actor=by.actor, at=self.clock.now(), target=name, detail={**whose, **detail})


def _copy_of(entry: CatalogEntry, url: str) -> RemoteAlias:
    return RemoteAlias(dataset=entry.id, kind=AliasKind.PULL, target=url)


def repository_value(repository: RemoteRepository) -> dict[str, object]:
    """As JSON."""
    return {
        "name": str(repository.name),
        "url": repository.url,
        "shared": repository.account is None,
        "createdAt": str(repository.created_at),
    }
