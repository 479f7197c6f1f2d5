"""Overview of a dataset: its current metadata as one value, and a short form.

Invariant: only blocks are read, never rows, so that it takes as long for ten rows as for ten millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState, last_offset_of, state_of_block
from odfabric.errors import NotFound
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.formats.json_values.canonical_json import parse_json_object
from odfabric.formats.slices.type_names import type_name
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.data_schema import DataField, DataTypeOption
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    AttachmentEmbedded,
    ExecuteTransform,
    SetDataSchema,
    SetInfo,
    SetLicense,
    TransformInput,
)
from odfabric.model.node.remembered import Remembered
from odfabric.model.people.account import EVERYONE
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.rights.access import Access

_DATA_EVENTS = frozenset({AddData.__name__, ExecuteTransform.__name__})
_SCHEMA_EVENTS = frozenset({SetDataSchema.__name__})
_INFO_EVENTS = frozenset({SetInfo.__name__})
README = "readme.md"
DESCRIPTION_ATTRIBUTE = "opendatafabric.org/description"
"""Attribute of a column in which its publisher describes it. Source: the specification, DataField."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: type in words, whether the node fills it, its publisher's remarks."""

    name: str
    type: str
    is_optional: bool
    is_system: bool
    description: str | None


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a transform: its SQL name, and its dataset if the reader may know."""

    alias: str
    entry: CatalogEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDescription:
    """A dataset at its head.

    `rows` counts records of the changelog, of which retractions and corrections are some.
    """

    entry: CatalogEntry
    head: Head
    state: ChainState
    columns: tuple[Column, ...]
    rows: int
    is_public: bool
    inputs: tuple[Input, ...] = ()

    @property
    def description(self) -> str | None:
        """One sentence of the publisher's."""
        return self.state.info.event.description if self.state.info else None

    @property
    def keywords(self) -> tuple[str, ...]:
        """Of the publisher's."""
        return (self.state.info.event.keywords or ()) if self.state.info else ()

    @property
    def license(self) -> SetLicense | None:
        """Under which the data is."""
        return self.state.license.event if self.state.license else None

    @property
    def watermark(self) -> Instant | None:
        """Up to which event time the data is complete."""
        return self.state.watermark

    @property
    def attachments(self) -> tuple[AttachmentEmbedded, ...]:
        """Documents of the publisher's."""
        return _attachments(self.state)

    @property
    def readme(self) -> str | None:
        """The text of the attachment README.md."""
        return readme_of(self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSummary:
    """A dataset in a listing."""

    entry: CatalogEntry
    head: Head
    rows: int
    watermark: Instant | None
    description: str | None
    keywords: tuple[str, ...]
    is_public: bool


@dataclass(frozen=True, slots=True)
class SummarisedHead:
    """What a listing says of a dataset, as of a head."""

    head: Head
    rows: int
    watermark: Instant | None
    description: str | None
    keywords: tuple[str, ...]


def describe_dataset(entry: CatalogEntry, *, repository: Repository, access: Access) -> DatasetDescription:
    """Everything at the head.

    `repository` is as the reader sees it. Raises NotFound, Corrupt.
    """
    head, state = repository.current(entry.id)
    return DatasetDescription(
        entry=entry,
        head=head,
        state=state,
        columns=tuple(_columns(state)),
        rows=state.next_offset,
        is_public=entry.id in _public([entry.id], access),
        inputs=tuple(_input(declared, repository) for declared in declared_inputs(state)),
    )


def summarise_datasets(
    entries: Sequence[CatalogEntry],
    *,
    repository: Repository,
    access: Access,
    known: Remembered[DatasetId, SummarisedHead],
) -> Iterator[DatasetSummary]:
    """A few words of each, in order; one that was deleted since is left out.

    Reads at most two blocks of each, and none of those whose head is `known`.
    """
    public = _public([entry.id for entry in entries], access)
    for entry in entries:
        try:
            found = _summarised(entry, repository, known)
        except NotFound:
            continue
        yield DatasetSummary(
            entry=entry,
            head=found.head,
            rows=found.rows,
            watermark=found.watermark,
            description=found.description,
            keywords=found.keywords,
            is_public=entry.id in public,
        )


def _summarised(
    entry: CatalogEntry, repository: Repository, known: Remembered[DatasetId, SummarisedHead]
) -> SummarisedHead:
    head = repository.head(entry.id)
    remembered = known.get(entry.id)
    if remembered is not None and remembered.head == head:
        return remembered
    rows, watermark = _data(entry.id, repository)
    info = _info(entry.id, repository)
    description, keywords = (info.description, info.keywords or ()) if info else (None, ())
    found = SummarisedHead(head, rows, watermark, description, keywords)
    known.put(entry.id, found)
    return found


def readme_of(state: ChainState) -> str | None:
    """The text of the attachment README.md."""
    return next((each.content for each in _attachments(state) if is_readme(each)), None)


def is_readme(attachment: AttachmentEmbedded) -> bool:
    """Whether a document is called README.md, in any folder and any case of letters.

    The first one is shown.
    """
    return attachment.path.rpartition("/")[2].lower() == README


def column_description(field: DataField) -> str | None:
    """What its publisher says of a column."""
    attributes = parse_json_object(field.extra.entries) if field.extra else {}
    found = attributes.get(DESCRIPTION_ATTRIBUTE)
    return found if isinstance(found, str) else None


def column_names(entry: CatalogEntry, *, repository: Repository) -> list[str]:
    """Names of the columns in force, none before data came.

    Reads one block, however long the chain is. Raises Corrupt.
    """
    row = next(iter(repository.rows_down(entry.id, event_types=_SCHEMA_EVENTS)), None)
    if row is None:
        return []
    schema = current_schema(state_of_block(row.hash, repository.blocks(entry.id).get(row.hash)))
    return [field.name for field in schema.fields] if schema else []


def declared_inputs(state: ChainState) -> tuple[TransformInput, ...]:
    """Inputs of the transform in force, none for a root dataset."""
    return state.transform.event.inputs if state.transform else ()


def _input(declared: TransformInput, repository: Repository) -> Input:
    entry = repository.find(parse_dataset_ref(declared.dataset_ref))
    return Input(alias=declared.alias or (str(entry.alias) if entry else declared.dataset_ref), entry=entry)


def _public(datasets: Sequence[DatasetId], access: Access) -> frozenset[DatasetId]:
    return frozenset(access.relations.granted(datasets, [EVERYONE]))


def _columns(state: ChainState) -> Iterable[Column]:
    schema = current_schema(state)
    system = _system_columns(state.vocabulary)
    for field in schema.fields if schema else ():
        is_optional = isinstance(field.type, DataTypeOption)
        yield Column(field.name, type_name(field.type), is_optional, field.name in system, column_description(field))


def _attachments(state: ChainState) -> tuple[AttachmentEmbedded, ...]:
    return state.attachments.event.attachments.items if state.attachments else ()


def _system_columns(vocabulary: DatasetVocabulary) -> frozenset[str]:
    return frozenset({vocabulary.offset, vocabulary.operation_type, vocabulary.system_time})


def _data(dataset: DatasetId, repository: Repository) -> tuple[int, Instant | None]:
    row = next(iter(repository.rows_down(dataset, event_types=_DATA_EVENTS)), None)
    if row is None:
        return 0, None
    event = repository.blocks(dataset).get(row.hash).event
    assert isinstance(event, AddData | ExecuteTransform)
    last = last_offset_of(event)
    return 0 if last is None else last + 1, event.new_watermark


def _info(dataset: DatasetId, repository: Repository) -> SetInfo | None:
    row = next(iter(repository.rows_down(dataset, event_types=_INFO_EVENTS)), None)
    event = repository.blocks(dataset).get(row.hash).event if row else None
    return event if isinstance(event, SetInfo) else None
