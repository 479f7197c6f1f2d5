"""A page of found datasets, facets that narrow it, and addresses of next states.

Invariant: the address is the whole state. A facet that is chosen shows what was chosen and the way back; every other one leads on to the
first page of a narrower search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from fastapi import Request

from odfabric.domain.people.dataset_search import Facets, Order
from odfabric.model.people.account import Account
from odfabric.usecases.datasets.describe_dataset import DatasetSummary
from odfabric_api.auth import Subject, node_of
from odfabric_api.bodies.search_request import AskedSearch, ChangedWithin, KindAsked

PAGE_DATASETS = 25
PAGES_MAX = 400
FACET_VALUES = 12
FEED_PATH = "/-/datasets.atom"

Sort: TypeAlias = Literal["", "best", "updated", "name", "rows", "size"]
_ORDERS = {
    "best": Order.BEST,
    "updated": Order.NEWEST,
    "name": Order.NAME,
    "rows": Order.ROWS,
    "size": Order.SIZE,
}


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value with its count, and where choosing it leads.

    Of a chosen one, where giving it up leads.
    """

    text: str
    count: int
    href: str


@dataclass(frozen=True, slots=True)
class Facet:
    """A facet with something to choose, or with what is `chosen`."""

    name: str
    values: tuple[FacetValue, ...] = ()
    chosen: FacetValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """What somebody asked of a page. `owner` is the account whose page it is."""

    path: str
    asked: AskedSearch
    sort: Sort = ""
    number: int = 1
    owner: Account | None = None

    @property
    def order(self) -> str:
        """The name of the order: best match where words are given, else last change."""
        return self.sort or ("best" if self.asked.q.strip() else "updated")

    def values(self, request: Request, caller: Subject) -> Mapping[str, Any]:
        """What the templates show. Raises InvalidName."""
        node = node_of(request)
        now = node.ports.clock.now()
        narrowed = self._within_owner().narrowing(now)
        skip = (self.number - 1) * PAGE_DATASETS
        found = node.browsing.search(narrowed, order=_ORDERS[self.order], skip=skip, limit=PAGE_DATASETS + 1, by=caller)
        since = [each.since(now) for each in ChangedWithin]
        counts = node.browsing.facets(narrowed, since=since, limit=FACET_VALUES, by=caller)
        return {
            "search": self,
            "datasets": found[:PAGE_DATASETS],
            "total": counts.total,
            "facets": list(self._facets(counts)),
            "previous": self._page(self.number - 1) if self.number > 1 else None,
            "following": self._page(self.number + 1) if self._has_more(found) else None,
            "feed": self._within_owner().address(FEED_PATH),
        }

    def _has_more(self, found: Iterable[DatasetSummary]) -> bool:
        return len(list(found)) > PAGE_DATASETS and self.number < PAGES_MAX

    def _within_owner(self) -> AskedSearch:
        return replace(self.asked, account=str(self.owner.name)) if self.owner else self.asked

    def _page(self, number: int) -> str:
        return self._address(self.asked, **({"page": number} if number > 1 else {}))

    def _address(self, asked: AskedSearch, **more: int) -> str:
        return asked.address(self.path, **({"sort": self.sort} if self.sort else {}), **more)

    def _facets(self, counts: Facets) -> Iterator[Facet]:
        asked = self.asked
        kinds = {KindAsked[kind.name]: count for kind, count in counts.kinds}
        yield self._facet("kind", {kind.value: (kind, count) for kind, count in kinds.items()}, counts.total)
        if self.owner is None:
            yield self._facet(
                "account", {str(name): (str(name), count) for name, count in counts.accounts}, counts.total
            )
        yield self._facet("keyword", {word: (word, count) for word, count in counts.keywords}, counts.total)
        yield self._facet("license", {name: (name, count) for name, count in counts.licenses}, counts.total)
        changed = {
            each.value: (each, count) for each, count in zip(ChangedWithin, counts.changed, strict=True) if count
        }
        yield self._facet("changed", changed, counts.total if asked.changed else 0)

    def _facet(self, name: str, values: Mapping[str, tuple[Any, int]], total: int) -> Facet:
        chosen = self.asked.parameters().get(name)
        if chosen is not None:
            nothing: Any = None if name in ("kind", "changed") else ""
            return Facet(name, chosen=FacetValue(chosen, total, self._narrower(name, nothing)))
        links = (FacetValue(text, count, self._narrower(name, value)) for text, (value, count) in values.items())
        return Facet(name, tuple(links))

    def _narrower(self, name: str, value: Any) -> str:
        changes: dict[str, Any] = {name: value}
        return self._address(replace(self.asked, **changes))
