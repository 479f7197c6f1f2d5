"""Finding words: FTS5 of SQLite and text search vectors of PostgreSQL.

Owns the index of words on SQLite, which is no table of the schema, and how words become a query of each database. Invariant: triggers keep
that index as `search_documents` is, cascades of deleted datasets included. Words come from `domain.people.dataset_search`: letters, digits
and marks, so they need no escaping; the tokenizer `ascii` takes every character beyond ASCII for a part of a word.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import DDL, Column, ColumnElement, Select, cast, column, event, select, table
from sqlalchemy.dialects.postgresql import TSQUERY

from odfabric.adapters.sql.tables.datasets import search_documents

_COLUMNS = "name_words, about_words, words"
_INDEX = "search_words"


def _trigger(when: str, *, old: bool, new: bool) -> str:
    forget = (
        f"INSERT INTO {_INDEX} ({_INDEX}, rowid, {_COLUMNS}) "
        "VALUES ('delete', old.position, old.name_words, old.about_words, old.words); "
    )
    add = (
        f"INSERT INTO {_INDEX} (rowid, {_COLUMNS}) VALUES (new.position, new.name_words, new.about_words, new.words); "
    )
    body = (forget if old else "") + (add if new else "")
    return f"CREATE TRIGGER search_words_{when.lower()} AFTER {when} ON search_documents BEGIN {body}END"


_MAKE_INDEX = (
    f"CREATE VIRTUAL TABLE {_INDEX} USING fts5({_COLUMNS}, content='search_documents', content_rowid='position', "
    "tokenize='ascii', detail='column', columnsize=0, prefix='1 2 3')",
    _trigger("INSERT", old=False, new=True),
    _trigger("UPDATE", old=True, new=True),
    _trigger("DELETE", old=True, new=False),
)
for _statement in _MAKE_INDEX:
    event.listen(search_documents, "after_create", DDL(_statement).execute_if(dialect="sqlite"))  # type: ignore[no-untyped-call]


def has_words(place: Column[frozenset[str]], words: Sequence[str], *, is_sqlite: bool) -> ColumnElement[bool]:
    """Whether each of `words` begins a word of that column of `search_documents`."""
    if is_sqlite:
        query = " AND ".join(f'"{word}"*' for word in words)
        index: ColumnElement[str] = column(_INDEX)  # the index as a whole goes by the name of a column
        found: Select[int] = select(column("rowid")).select_from(table(_INDEX))
        return search_documents.c.position.in_(found.where(index.bool_op("MATCH")(f"{place.name} : ({query})")))
    return place.bool_op("@@")(cast(" & ".join(f"'{word}':*" for word in words), TSQUERY))
