"""Search in SQL: narrowing, order and counts of the catalog, and its documents.

Owns the statements behind `domain.people.dataset_search`. Invariant: what somebody may read is a condition of the same statement, so that what is
hidden is neither counted nor found; a document is stored only while its head is the head of its dataset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    String,
    case,
    collate,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.full_text import has_words
from odfabric.adapters.sql.people.relations import visible_to
from odfabric.adapters.sql.tables.datasets import datasets, heads, search_documents, search_inputs, search_keywords
from odfabric.domain.people.access import LOCAL_ACCOUNT
from odfabric.domain.people.dataset_search import Facets, Narrowing, Order, SearchDocument
from odfabric.model.identity import DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind

NAMES = (datasets.c.account_folded, datasets.c.name_folded)
"""The order of names."""

_SECONDS = len("2026-01-01T00:00:00")


class SearchStatements:
    """The statements of one dialect."""

    def __init__(self, *, is_sqlite: bool) -> None:
        self._is_sqlite = is_sqlite

    def narrowed(self, wanted: Select[Any], narrowed: Narrowing, order: Order = Order.NAME) -> Select[Any]:
        """Rows of `datasets` that fulfil the conditions, with the joins they need."""
        by_time = narrowed.changed_since or narrowed.may_read
        if by_time is not None or order in (Order.NEWEST, Order.BEST, Order.SIZE):
            wanted = wanted.join(heads, heads.c.dataset_id == datasets.c.id)
        by_document = narrowed.words or narrowed.license is not None or narrowed.may_read is not None
        if by_document or order is Order.ROWS:
            wanted = _with_documents(wanted, narrowed)
        return wanted.where(*self._conditions(narrowed))

    def ordered(self, wanted: Select[Any], narrowed: Narrowing, order: Order) -> Select[Any]:
        """Rows in an order, of a statement that was narrowed for it."""
        newest = self._time().desc()
        match order:
            case Order.NAME:
                return wanted.order_by(*NAMES)
            case Order.ROWS:
                return wanted.order_by(func.coalesce(search_documents.c.rows, -1).desc(), *NAMES)
            case Order.SIZE:
                return wanted.order_by(func.coalesce(heads.c.stored_bytes, -1).desc(), *NAMES)
            case Order.BEST if narrowed.words:
                in_name = self._has_words(search_documents.c.name_words, narrowed)
                about = self._has_words(search_documents.c.about_words, narrowed)
                return wanted.order_by(case((in_name, 0), (about, 1), else_=2), newest, *NAMES)
            case _:
                return wanted.order_by(newest, *NAMES)

    def facets(self, connection: Connection, narrowed: Narrowing, since: Sequence[Instant], limit: int) -> Facets:
        """Counts of the rows that fulfil the conditions: two statements, one transaction.

        What a dataset has one of is counted in one pass, by all combinations; `ages` says how many of the moments a head is as young as.
        """
        moments = sorted({_seconds(moment) for moment in since})
        young = [(self._time_text() >= moment, place) for place, moment in enumerate(moments, start=1)]
        ages = case(*reversed(young), else_=0) if young else literal(0)
        account = func.coalesce(func.nullif(datasets.c.account_folded, ""), LOCAL_ACCOUNT.folded).label("owner")
        rows = select(
            datasets.c.kind, account, search_documents.c.license, ages.label("ages"), func.count().label("number")
        )
        rows = rows.join(heads, heads.c.dataset_id == datasets.c.id)
        rows = (
            _with_documents(rows, narrowed)
            .where(*self._conditions(narrowed))
            .group_by(datasets.c.kind, "owner", "license", "ages")
        )
        kinds, accounts, licenses, younger = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
        for kind, owner, license, age, number in connection.execute(rows):
            kinds[kind] += number
            accounts[owner] += number
            if license is not None:
                licenses[license] += number
            younger.update(dict.fromkeys(moments[:age], number))
        return Facets(
            total=kinds.total(),
            kinds=[(DatasetKind[kind.upper()], number) for kind, number in _frequent(kinds, len(DatasetKind))],
            accounts=[(Name(name), number) for name, number in _frequent(accounts, limit)],
            keywords=self._keywords(connection, narrowed, limit),
            licenses=_frequent(licenses, limit),
            changed=[younger[_seconds(moment)] for moment in since],
        )

    def _keywords(self, connection: Connection, narrowed: Narrowing, limit: int) -> list[tuple[str, int]]:
        rows = select(search_keywords.c.keyword, func.count().label("number")).select_from(datasets)
        counts = (
            self.narrowed(rows, narrowed)
            .join(search_keywords, search_keywords.c.dataset_id == datasets.c.id)
            .group_by(search_keywords.c.keyword)
            .order_by(func.count().desc(), search_keywords.c.keyword)
            .limit(limit)
        )
        return [(keyword, int(number)) for keyword, number in connection.execute(counts)]

    def _conditions(self, narrowed: Narrowing) -> Iterator[ColumnElement[bool]]:
        if narrowed.account is not None:
            folded = narrowed.account.folded
            yield datasets.c.account_folded.in_([folded, ""] if narrowed.account == LOCAL_ACCOUNT else [folded])
        if narrowed.kind is not None:
            yield datasets.c.kind == narrowed.kind.name.lower()
        if narrowed.words:
            yield self._has_words(search_documents.c.words, narrowed)
        if narrowed.keyword is not None:
            having = select(search_keywords.c.dataset_id).where(search_keywords.c.keyword == narrowed.keyword)
            yield datasets.c.id.in_(having)
        if narrowed.license is not None:
            yield search_documents.c.license == narrowed.license
        if narrowed.changed_since is not None:
            yield self._time_text() >= _seconds(narrowed.changed_since)
        if narrowed.may_read is not None:
            yield datasets.c.kind == DatasetKind.DERIVATIVE.name.lower()
            yield _may_read(narrowed.may_read)
        if narrowed.viewer is not None:
            yield visible_to(narrowed.viewer)

    def _has_words(self, place: Any, narrowed: Narrowing) -> ColumnElement[bool]:
        return has_words(place, narrowed.words, is_sqlite=self._is_sqlite)

    def _time(self) -> ColumnElement[str]:
        """The time of the head as a text that goes in the order of time, byte by byte."""
        return func.rtrim(self._time_text(), "Z")

    def _time_text(self) -> ColumnElement[str]:
        """The text of a time with its last sign.

        Enough to be compared with a whole second that has none.
        """
        moment = type_coerce(heads.c.system_time, String)
        return moment if self._is_sqlite else collate(moment, "C")


class SqlSearchDocuments:
    """A SearchDocuments."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, document: SearchDocument) -> bool:
        """See the port."""
        dataset = document.dataset
        is_head = select(literal(1)).where(heads.c.dataset_id == dataset, heads.c.hash == document.head)
        with self._database.write() as connection:
            # Shared with other readers: the head stays until the document is stored.
            if connection.execute(is_head.with_for_update(read=True)).one_or_none() is None:
                return False
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            values = _values(document)
            stored = dialect.insert(search_documents).values(dataset_id=dataset, **values)
            connection.execute(stored.on_conflict_do_update(index_elements=["dataset_id"], set_=values))
            connection.execute(delete(search_keywords).where(search_keywords.c.dataset_id == dataset))
            connection.execute(delete(search_inputs).where(search_inputs.c.dataset_id == dataset))
            keywords = [{"keyword": word, "dataset_id": dataset} for word in sorted(set(document.keywords))]
            if keywords:
                connection.execute(insert(search_keywords), keywords)
            inputs = [
                {"input_id": each, "dataset_id": dataset}
                for each in sorted(document.inputs, key=lambda each: each.multibase)
            ]
            if inputs:
                connection.execute(insert(search_inputs), inputs)
        return True

    def behind(self, *, version: int, after: DatasetId | None = None, limit: int) -> Sequence[DatasetId]:
        """See the port."""
        wanted = (
            select(heads.c.dataset_id)
            .outerjoin(search_documents, search_documents.c.dataset_id == heads.c.dataset_id)
            .where(or_(_is_behind(), search_documents.c.version < version))
            .order_by(heads.c.dataset_id)
            .limit(limit)
        )
        if after is not None:
            wanted = wanted.where(heads.c.dataset_id > after)
        with self._database.read() as connection:
            return list(connection.execute(wanted).scalars())


def _with_documents(wanted: Select[Any], narrowed: Narrowing) -> Select[Any]:
    """Joined with documents.

    An outer join fixes the order in which SQLite joins, so it is one only where datasets without one count.
    """
    needs_one = bool(narrowed.words) or narrowed.license is not None
    return wanted.join(search_documents, search_documents.c.dataset_id == datasets.c.id, isouter=not needs_one)


def _values(document: SearchDocument) -> Mapping[str, object]:
    return {
        "head": document.head,
        "version": document.version,
        "name_words": document.name_words,
        "about_words": document.about_words,
        "words": document.words,
        "license": document.license,
        "rows": document.rows,
    }


def _is_behind() -> ColumnElement[bool]:
    return or_(search_documents.c.head.is_(None), search_documents.c.head != heads.c.hash)


def _may_read(dataset: DatasetId) -> ColumnElement[bool]:
    readers = select(search_inputs.c.dataset_id).where(search_inputs.c.input_id == dataset)
    return or_(datasets.c.id.in_(readers), _is_behind())


def _seconds(moment: Instant) -> str:
    return str(moment)[:_SECONDS]


def _frequent(counts: Counter[str], limit: int) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))[:limit]
