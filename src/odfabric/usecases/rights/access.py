"""Rights of a subject, read where they are kept and decided by the one policy.

Owns how a subject comes from an account, and the check before every verb that is done for somebody. Invariant: rights are read when they
are asked for, never remembered, so what is withdrawn is withdrawn at once; a dataset that may not be read costs the same look-ups as one
that does not exist. Not here: the rules (`domain.people.access`), credentials (`usecases.authenticate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from odfabric.domain.people.access import (
    AccessPolicy,
    Action,
    Subject,
    Verdict,
    hidden,
    owner_of,
    refusal,
)
from odfabric.domain.people.dataset_search import EVERYTHING, Facets, Narrowing, Order
from odfabric.errors import AccountSuspended, InvalidName, NotFound
from odfabric.formats.identifiers.did import parse_account_id, parse_dataset_id
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import AccountName, DatasetAlias, DatasetId, DatasetRef, Name
from odfabric.model.instant import Instant
from odfabric.model.people.account import Account, AccountKind, Grant, OrganisationRole
from odfabric.model.people.credential import Scope
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.people.accounts import Accounts, Relations

_NO_DATASET = DatasetId(bytes(32))
"""Asked about where there is no dataset, so that a missing one takes as long as one that is hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The policy over the relations of a node."""

    policy: AccessPolicy
    accounts: Accounts
    relations: Relations
    catalog: Catalog

    def subject(self, account: Account) -> Subject:
        """An account with its memberships and all scopes. Raises AccountSuspended."""
        if account.suspended_at is not None:
            raise AccountSuspended(
                f"the account {account.name} is suspended", hint="an admin of the node can resume it"
            )
        organisations: list[tuple[Account, OrganisationRole]] = []
        if account.kind is AccountKind.USER:
            for membership in self.relations.memberships(account.id):
                found = self.accounts.by_id(membership.organisation)
                if found is not None and found.suspended_at is None:
                    organisations.append((found, membership.role))
        return Subject(account=account, organisations=tuple(organisations))

    def subject_later(self, account: str) -> Subject:
        """The subject whose rights count for earlier requests.

        An account by its id, or by its name in rows of old releases.

        Raises NotFound for an account that is gone, AccountSuspended.
        """
        found = self.accounts.by_id(parse_account_id(account)) if ":" in account else None
        if found is None and ":" not in account:
            found = self.accounts.by_name(Name(account))
        if found is None:
            raise NotFound("account", account, hint="it was deleted after it had asked for this")
        return self.subject(found)

    def grants(self, dataset: DatasetId, subject: Subject) -> Sequence[Grant]:
        """Grants on a dataset that this subject has."""
        return self.relations.granted([dataset], subject.grantees).get(dataset, ())

    def verdict(self, subject: Subject, action: Action, entry: CatalogEntry) -> Verdict:
        """Whether the subject may do this to the dataset."""
        return self.policy.decide(subject, action, entry.id, owner_of(entry.alias), self.grants(entry.id, subject))

    def allows(self, subject: Subject, action: Action, entry: CatalogEntry) -> bool:
        """Whether the subject may do this to the dataset."""
        return self.verdict(subject, action, entry) is Verdict.ALLOWED

    def allowed(self, subject: Subject, entry: CatalogEntry, actions: Iterable[Action]) -> frozenset[Action]:
        """Those actions that the subject may do to the dataset, by one look at grants."""
        owner, grants = owner_of(entry.alias), self.grants(entry.id, subject)
        verdicts = {action: self.policy.decide(subject, action, entry.id, owner, grants) for action in actions}
        return frozenset(action for action, verdict in verdicts.items() if verdict is Verdict.ALLOWED)

    def require(self, subject: Subject, action: Action, entry: CatalogEntry, *, shown: str | None = None) -> None:
        """Raises NotFound, Unauthenticated or AccessDenied unless the subject may.

        NotFound if it may not read the dataset, the others if it may, but not do this.

        `shown` is the reference as the caller has written it.
        """
        verdict = self.verdict(subject, action, entry)
        if verdict is not Verdict.ALLOWED:
            raise refusal(verdict, action, subject, shown=shown or str(entry.alias))

    def require_here(self, subject: Subject, action: Action, *, under: AccountName | None = None, shown: str) -> None:
        """Raises Unauthenticated or AccessDenied unless the subject may do this here.

        To the node, or to the account `under`.
        """
        verdict = self.policy.decide_here(subject, action, under=under)
        if verdict is not Verdict.ALLOWED:
            raise refusal(verdict, action, subject, shown=shown, what="node")

    def require_reader(self, subject: Subject, *, shown: str) -> None:
        """For what every account may read of others.

        Raises Unauthenticated, AccessDenied for a token that goes less far.
        """
        self.require_here(subject, Action.SIGN_IN, shown=shown)
        if not subject.has_scope(Scope.READ) or subject.datasets is not None:
            raise refusal(Verdict.OUT_OF_SCOPE, Action.READ, subject, shown=shown, what="node")

    def find_by_id(self, subject: Subject, action: Action, dataset_id: str) -> CatalogEntry:
        """The dataset of an identity, if the subject may do this to it. Raises as `find`."""
        try:
            identity = parse_dataset_id(dataset_id)
        except InvalidName:
            if subject.account is None:
                raise hidden(subject, dataset_id) from None
            raise
        return self.visible(subject, action, identity, shown=dataset_id)

    def find(self, subject: Subject, action: Action, account: str, name: str) -> CatalogEntry:
        """The dataset of a path, if the subject may do this to it.

        Raises NotFound in the same words, after the same look-ups, whether there is no such dataset, its name could not be one, or the
        subject may not read it; InvalidName only where the subject has an account: it says nothing but the grammar of names.
        """
        shown = f"{account}/{name}"
        try:
            alias = DatasetAlias(parse_name(account, type_name="AccountName"), parse_name(name))
        except InvalidName:
            if subject.account is None:
                raise hidden(subject, shown) from None
            raise
        return self.visible(subject, action, alias, shown=shown)

    def visible(self, subject: Subject, action: Action, ref: DatasetRef, *, shown: str) -> CatalogEntry:
        """The dataset of a reference that names its account or is an id. Raises as `find`."""
        entry = self.catalog.by_id(ref) if isinstance(ref, DatasetId) else self.catalog.by_alias(ref)
        if entry is None:
            self.look_in_vain(subject)
            raise hidden(subject, shown)
        self.require(subject, action, entry, shown=shown)
        return entry

    def look_in_vain(self, subject: Subject) -> None:
        """The look-ups that a hidden dataset costs, for one that does not exist."""
        self.relations.granted([_NO_DATASET], subject.grantees)

    def seen_by(self, subject: Subject) -> VisibleCatalog:
        """The catalog as the subject sees it."""
        return VisibleCatalog(self.catalog, self, subject)

    def owner(self, entry: CatalogEntry) -> Account | None:
        """The account that a dataset is named under, None if it is gone."""
        return self.accounts.by_name(owner_of(entry.alias))

    def as_owner(self, entry: CatalogEntry) -> Subject:
        """The subject for a dataset's updates: the account that it is named under.

        Its rights count for what the dataset reads.

        Raises NotFound if that account is gone, AccountSuspended.
        """
        found = self.owner(entry)
        if found is None:
            name = str(owner_of(entry.alias))
            raise NotFound("account", name, hint=f"it owns {entry.alias}: an admin of the node can make it again")
        return self.subject(found)


@dataclass(frozen=True, slots=True)
class VisibleCatalog:
    """A Catalog in which only those datasets are that a subject may read."""

    _all: Catalog
    _access: Access
    _subject: Subject

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        """See the port."""
        return self._if_visible(self._all.by_id(dataset))

    def by_alias(self, alias: DatasetAlias) -> CatalogEntry | None:
        """See the port."""
        return self._if_visible(self._all.by_alias(alias))

    def page(
        self, narrowed: Narrowing = EVERYTHING, *, after: DatasetAlias | None = None, limit: int
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        return self._all.page(self._seen(narrowed), after=after, limit=limit)

    def found(
        self, narrowed: Narrowing = EVERYTHING, *, order: Order, skip: int = 0, limit: int
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        return self._all.found(self._seen(narrowed), order=order, skip=skip, limit=limit)

    def facets(self, narrowed: Narrowing, *, since: Sequence[Instant], limit: int) -> Facets:
        """See the port."""
        return self._all.facets(self._seen(narrowed), since=since, limit=limit)

    def _seen(self, narrowed: Narrowing) -> Narrowing:
        """Always as the subject sees it."""
        return replace(narrowed, viewer=self._access.policy.viewer(self._subject))

    def _if_visible(self, entry: CatalogEntry | None) -> CatalogEntry | None:
        if entry is None:
            self._access.look_in_vain(self._subject)
            return None
        return entry if self._access.allows(self._subject, Action.READ, entry) else None
