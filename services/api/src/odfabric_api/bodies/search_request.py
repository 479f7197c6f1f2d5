"""Search conditions as query parameters, the same for REST, pages and feeds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query

from odfabric.domain.people.dataset_search import Narrowing, asked_label, asked_words
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.instant import NANOS_PER_SECOND, SECONDS_PER_DAY, Instant
from odfabric.model.metadata import DatasetKind


class KindAsked(Enum):
    """A kind of datasets."""

    ROOT = "root"
    DERIVATIVE = "derivative"


class ChangedWithin(Enum):
    """A span of time before now; a month has 30 days, a year 365."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    def since(self, now: Instant) -> Instant:
        """Where the span begins."""
        days = {"day": 1, "week": 7, "month": 30, "year": 365}[self.value]
        return Instant(now.epoch_ns - days * SECONDS_PER_DAY * NANOS_PER_SECOND)


Words = Annotated[
    str, Query(max_length=200, description="Words that begin words of name, description, readme, columns")
]
Account = Annotated[str, Query(max_length=100, description="Account under which datasets are named")]
Keyword = Annotated[str, Query(max_length=400, description="Keyword that datasets have, whole; case does not count")]
License = Annotated[str, Query(max_length=400, description="SPDX id of the licence, or its short name without one")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSearch:
    """Words and facets as texts; what is empty is not asked for."""

    q: str = ""
    kind: KindAsked | None = None
    account: str = ""
    keyword: str = ""
    license: str = ""
    changed: ChangedWithin | None = None

    def narrowing(self, now: Instant) -> Narrowing:
        """As the catalog takes it. Raises InvalidName."""
        return Narrowing(
            words=asked_words(self.q),
            kind=DatasetKind[self.kind.name] if self.kind else None,
            account=parse_name(self.account, type_name="AccountName") if self.account else None,
            keyword=asked_label(self.keyword) or None,
            license=asked_label(self.license) or None,
            changed_since=self.changed.since(now) if self.changed else None,
        )

    def parameters(self) -> dict[str, str]:
        """As they stand in an address, without those that are not asked for."""
        values = {
            "q": self.q,
            "kind": self.kind.value if self.kind else "",
            "account": self.account,
            "keyword": self.keyword,
            "license": self.license,
            "changed": self.changed.value if self.changed else "",
        }
        return {name: value for name, value in values.items() if value}

    def address(self, path: str, **more: str | int) -> str:
        """An address of the same search."""
        query = urlencode({**self.parameters(), **more})
        return f"{path}?{query}" if query else path
