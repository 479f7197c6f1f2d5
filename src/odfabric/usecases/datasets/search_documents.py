"""Derive what datasets are searched by from their chains, and keep it up to date.

Invariant: a document is only a faster way to what the chain says at its head. Whatever is missed - a relay that died, a database taken back
from the objects, a newer release that finds more words - is found by `catch_up`. A chain that cannot be read keeps its old document.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.people.dataset_search import (
    DOCUMENT_VERSION,
    DOCUMENT_WORDS_MAX,
    SearchDocument,
    asked_label,
    words_of,
)
from odfabric.errors import OdfError
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import (
    DataField,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.search_documents import SearchDocuments
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.derivatives import inputs_of_state
from odfabric.usecases.datasets.describe_dataset import column_description, readme_of

_log = logging.getLogger(__name__)

README_CHARACTERS_MAX = 100_000
KEYWORDS_MAX = 50
PAGE_DATASETS = 100


def search_document(entry: CatalogEntry, *, repository: Repository) -> SearchDocument:
    """What a dataset is searched by at its head. Raises NotFound, Corrupt."""
    head, state = repository.current(entry.id)
    info = state.info.event if state.info else None
    keywords = (info.keywords or ()) if info else ()
    name = list(islice(words_of(str(entry.alias)), DOCUMENT_WORDS_MAX))
    about = _limited(chain(name, *map(words_of, [(info.description or "") if info else "", *keywords])))
    labels = (asked_label(word) for word in keywords)
    return SearchDocument(
        dataset=entry.id,
        head=head.hash,
        name_words=frozenset(name),
        about_words=about,
        words=_limited(chain(sorted(about), *map(words_of, _texts(state)))),
        keywords=tuple(islice(dict.fromkeys(label for label in labels if label), KEYWORDS_MAX)),
        license=_license(state),
        inputs=frozenset(inputs_of_state(state)),
        rows=state.next_offset,
    )


def follow_dataset(dataset: DatasetId, *, repository: Repository, documents: SearchDocuments) -> bool:
    """Store the document of a dataset at its head; whether that was done.

    Never raises: what fails is tried by `catch_up` again.
    """
    try:
        entry = repository.find(dataset)
        return entry is not None and documents.put(search_document(entry, repository=repository))
    except OdfError as error:
        _log.warning("dataset %s cannot be searched by what it says now: %s", dataset, error)
    except Exception:  # noqa: BLE001  # a bug in what only makes datasets found must not stop the relay
        _log.exception("dataset %s cannot be searched by what it says now", dataset)
    return False


def catch_up(*, repository: Repository, documents: SearchDocuments) -> int:
    """Store documents of all datasets with moved heads or without one; how many."""
    stored, after = 0, None
    while behind := documents.behind(version=DOCUMENT_VERSION, after=after, limit=PAGE_DATASETS):
        stored += sum(follow_dataset(each, repository=repository, documents=documents) for each in behind)
        after = behind[-1]
    return stored


def _limited(words: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for word in words:
        if len(found) >= DOCUMENT_WORDS_MAX:
            break
        found.add(word)
    return frozenset(found)


def _texts(state: ChainState) -> Iterator[str]:
    """What else can be searched, the shorter texts first."""
    if state.license is not None:
        told = state.license.event
        yield from (told.short_name, told.name, told.spdx_id or "")
    schema = current_schema(state)
    yield from _columns(schema.fields if schema else ())
    readme = readme_of(state)
    yield (readme or "")[:README_CHARACTERS_MAX]


def _columns(fields: Iterable[DataField]) -> Iterator[str]:
    """Names and descriptions, of members of columns too."""
    for field in fields:
        yield field.name
        yield column_description(field) or ""
        yield from _columns(_members(field.type))


def _members(of: DataType) -> Iterator[DataField]:
    match of:
        case DataTypeStruct(fields=fields):
            yield from fields
        case DataTypeOption(inner=inner) | DataTypeList(item_type=inner):
            yield from _members(inner)
        case DataTypeMap(key_type=key, value_type=value):
            yield from chain(_members(key), _members(value))
        case _:
            pass


def _license(state: ChainState) -> str | None:
    if state.license is None:
        return None
    told = state.license.event
    return asked_label(told.spdx_id or told.short_name) or None
