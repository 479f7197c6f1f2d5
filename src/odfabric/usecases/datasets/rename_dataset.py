"""Rename a dataset: its alias changes, its id, chain, rights and jobs stay.

Invariant: it stays with its account. Derivative datasets, subscriptions and cursors refer to it by id and go on; SQL that names it must be
written again. The old address leads nowhere, and the old name is free.
"""

from __future__ import annotations

from odfabric.domain.people.access import Action, Subject
from odfabric.errors import AlreadyExists
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.rights.access import Access


def rename_dataset(
    entry: CatalogEntry, name: str, *, subject: Subject, access: Access, repository: Repository, commits: Commits
) -> CatalogEntry:
    """The entry with its new name.

    `repository` is the node's own: names of datasets that the subject may not see are taken too.

    Raises InvalidName, AlreadyExists, AccessDenied, NotFound, InvalidRequest on nodes that share heads, Determinate, Indeterminate.
    """
    access.require(subject, Action.DELETE, entry)
    alias = DatasetAlias(entry.alias.account, parse_name(name))
    there = repository.find(alias)
    if there is not None and there.id != entry.id:
        raise AlreadyExists(f"the name {alias} is taken", hint="choose another name, or delete that dataset first")
    commits.rename(entry, alias, by=subject.actor)
    return repository.resolve(entry.id)
