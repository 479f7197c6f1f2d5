"""What sources of a root dataset may be, and how they may change with data.

Owns the checks of declared columns, which sources of a manifest are other ones than the chain has, and what new columns of a source mean
for the schema. Invariant: after a change every source that declares its columns gives those of the dataset, in its order, so the next push
is not refused for what was said here. Not here: what columns a source gives (the engine), how schemas differ
(`domain.chain.schema_evolution`). Source: specification, "Schema evolution"; specification, "Data Ingestion";
specification, "Metadata Chain".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from odfabric.domain.chain.schema_evolution import check_same_order, current_schema, evolved_schema
from odfabric.domain.chain.snapshot import normalised
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.state_index import keys_of
from odfabric.domain.ingestion.ingest_plan import polling_source, push_source
from odfabric.domain.ingestion.intake_rules import CONTRACT, intake_rules
from odfabric.domain.sources.runnable_sources import PermittedSources, refused_sources
from odfabric.domain.sources.source_templates import template_variables, templated_texts
from odfabric.errors import IncompatibleSchema, InvalidManifest, InvalidRequest, Place
from odfabric.formats.files.text_encodings import check_encoding
from odfabric.formats.files.time_formats import check_date_format, check_timestamp_format
from odfabric.formats.json_values.json_columns import json_members
from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.formats.slices.column_names import name_problems
from odfabric.formats.slices.slice_schema import check_readable, check_storable
from odfabric.model.data_schema import DataSchema
from odfabric.model.intake import FieldContract
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import AddPushSource, MetadataEvent, SetDataSchema, SetPollingSource, SetVocab
from odfabric.model.source import ReadStep, ReadStepCsv, ReadStepJson, ReadStepNdJson
from odfabric.model.vocabulary import DatasetVocabulary

Source: TypeAlias = AddPushSource | SetPollingSource

_KEEP_COLUMNS = (
    "declare the columns that the dataset has as they are, new optional ones behind them; or declare a new dataset"
)


@dataclass(frozen=True, slots=True)
class GivenColumns:
    """The columns of a slice that comes from a source, system columns among them."""

    source: Source
    columns: DataSchema


def sources_of(state: ChainState) -> tuple[Source, ...]:
    """The sources in force."""
    pushed = tuple(each.event for each in state.push_sources)
    return pushed if state.polling_source is None else (*pushed, state.polling_source.event)


def source_title(source: Source) -> str:
    """What people call a source."""
    return f"the source `{source.source_name}`" if isinstance(source, AddPushSource) else "the polling source"


def declared_columns(source: Source) -> DataSchema | None:
    """What the read step declares, None if it finds out from the data."""
    return read_columns(source.read)


def read_columns(read: ReadStep) -> DataSchema | None:
    """The same of a read step."""
    if read.schema is None and read.ddl_schema is not None:
        return ddl_to_schema(read.ddl_schema)
    return read.schema


def check_sources(
    snapshot: DatasetSnapshot, vocabulary: DatasetVocabulary, *, name_bytes_max: int, known: Sequence[str] = ()
) -> None:
    """Refuse declared columns that cannot be stored or read, or lack a key.

    Raises InvalidManifest, IncompatibleSchema, LimitExceeded.

    `known` are columns that the dataset has already; their names are not judged again.
    """
    _check_named(snapshot, vocabulary, name_bytes_max, known)
    for index, source in enumerate(snapshot.metadata):
        if not isinstance(source, AddPushSource | SetPollingSource):
            continue
        declared = declared_columns(source)
        if declared is None:
            continue
        # A preprocess query makes the columns that are stored; the engine judges those.
        (check_storable if source.preprocess is None else check_readable)(declared)
        json_members(declared)
        _check_names(source, declared, f"metadata[{index}].read.schema", vocabulary, name_bytes_max, known)
        names = {vocabulary.event_time, *(field.name for field in declared.fields)}
        missing = next((key for key in keys_of(source.merge) if key not in names), None)
        # A preprocess query may make the column.
        if missing is not None and source.preprocess is None:
            raise InvalidManifest(
                f"The primary key has the column `{missing}`, which the schema of the read step does not declare",
                place=Place(field=f"metadata[{index}].merge"),
            )


def check_runnable(snapshot: DatasetSnapshot, permitted: PermittedSources) -> None:
    """Refuse sources that this node never runs, whatever the data.

    Raises InvalidManifest with the place of the first step.
    """
    for index, source in enumerate(snapshot.metadata):
        place = f"metadata[{index}]"
        if isinstance(source, SetPollingSource):
            for refused in refused_sources(source, permitted):
                raise refused.error(place)
            for field, text in templated_texts(source):
                template_variables(text, field=f"{place}.{field}")
        if isinstance(source, AddPushSource | SetPollingSource):
            _check_rules(source, f"{place}.read")
            _check_text_options(source.read, f"{place}.read")


def _check_rules(source: Source, place: str) -> None:
    try:
        rules = intake_rules(source.read)
        if rules.contract is FieldContract.EVOLVE and source.preprocess is not None:
            raise InvalidManifest(
                f"{CONTRACT}: a preprocess query says itself which columns there are",
                place=Place(field=f"schema.extra.{CONTRACT}"),
                hint="write discard or freeze, or take the query away",
            )
    except InvalidManifest as refused:
        raise InvalidManifest(
            refused.message, place=Place(field=f"{place}.{refused.place.field}"), hint=refused.hint
        ) from None


def _check_text_options(read: ReadStep, place: str) -> None:
    if not isinstance(read, ReadStepCsv | ReadStepJson | ReadStepNdJson):
        return
    for refused in (
        check_encoding(read.encoding, field=f"{place}.encoding"),
        check_date_format(read.date_format, option=f"{place}.dateFormat"),
        check_timestamp_format(read.timestamp_format, option=f"{place}.timestampFormat"),
    ):
        if refused is not None:
            raise refused


def _check_named(
    snapshot: DatasetSnapshot, vocabulary: DatasetVocabulary, bytes_max: int, known: Sequence[str]
) -> None:
    """Names that a manifest gives to system columns, and to columns beside any source."""
    for index, event in enumerate(snapshot.metadata):
        if isinstance(event, SetVocab | SetDataSchema):
            named = event.schema if isinstance(event, SetDataSchema) else None
            for problem in name_problems(named or DataSchema(fields=()), vocabulary, bytes_max=bytes_max, known=known):
                raise problem.error_of_manifest(f"metadata[{index}]", bytes_max=bytes_max)


def _check_names(
    source: Source,
    declared: DataSchema,
    place: str,
    vocabulary: DatasetVocabulary,
    bytes_max: int,
    known: Sequence[str],
) -> None:
    """Judge declared names; a preprocess query may change them.

    Then they are judged as what the query gives (the engine does that).
    """
    if source.preprocess is None:
        for problem in name_problems(declared, vocabulary, bytes_max=bytes_max, known=known):
            raise problem.error_of_manifest(place, bytes_max=bytes_max)


def changed_sources(state: ChainState, snapshot: DatasetSnapshot) -> list[tuple[int, Source]]:
    """A manifest's sources not in force, as a chain holds them, each with its place.

    Of several with one name the last counts. Raises InvalidManifest for a manifest without sources.
    """
    wanted: dict[str | None, tuple[int, Source]] = {}
    for index, event in enumerate(snapshot.metadata):
        found = normalised(event, index)
        if isinstance(found, AddPushSource | SetPollingSource):
            wanted[found.source_name if isinstance(found, AddPushSource) else None] = (index, found)
    if not wanted:
        raise InvalidManifest(
            f"{snapshot.name} has no source", hint="a root dataset has AddPushSource or SetPollingSource"
        )
    there = sources_of(state)
    return [(index, source) for index, source in wanted.values() if source not in there]


def check_origin(state: ChainState, changed: Sequence[Source]) -> None:
    """Refuse to poll another kind of source than before. Raises InvalidRequest.

    The position in the old source says nothing of the new one.
    """
    before = state.polling_source
    if before is None or state.source_state is None:
        return
    for source in changed:
        if isinstance(source, SetPollingSource) and type(source.fetch) is not type(before.event.fetch):
            raise InvalidRequest(
                "a source that was polled stays of its kind: what was read last is told in its own way",
                place=Place(field="fetch"),
                hint="declare a new dataset, and a query over both",
            )


def evolving_events(
    state: ChainState, source_name: str, found: DataSchema, *, name_bytes_max: int
) -> tuple[Source, list[MetadataEvent]]:
    """The source with columns for fields found in its data, and events for them.

    The events give the columns to source and dataset.

    Raises IncompatibleSchema for a dataset of several sources, whose columns are declared in one manifest, and for types that no slice
    holds; InvalidData, LimitExceeded for names that no column can have.
    """
    polled = polling_source(state)
    source = push_source(state, source_name) if polled is None else polled
    if len(sources_of(state)) > 1:
        raise IncompatibleSchema(
            f"The dataset has several sources, so {source_title(source)} alone cannot get the column `{found.fields[0].name}`",
            place=Place(field=found.fields[0].name),
            hint="declare it in all of them by `odf set-source`",
        )
    check_storable(found)
    current, declared = current_schema(state), declared_columns(source)
    known = [field.name for field in (current or declared or found).fields]
    for problem in name_problems(found, state.vocabulary, bytes_max=name_bytes_max, known=known):
        raise problem.error(bytes_max=name_bytes_max)
    columns = replace(declared or found, fields=(*(declared.fields if declared else ()), *found.fields))
    evolved = replace(source, read=replace(source.read, schema=columns))
    events: list[MetadataEvent] = [evolved]
    if current is not None:
        events.append(SetDataSchema(schema=replace(current, fields=(*current.fields, *found.fields))))
    return evolved, events


def schema_of_sources(current: DataSchema, given: Sequence[GivenColumns], vocabulary: DatasetVocabulary) -> DataSchema:
    """The dataset's schema under sources that give these columns.

    What it has, then new optional ones; `current` if none is new.

    Raises IncompatibleSchema naming the source and the first column that does not fit.
    """
    evolved = current
    for each in given:
        own = _evolved(current, each)
        known = {field.name for field in evolved.fields}
        added = tuple(field for field in own.fields if field.name not in known)
        if added:
            evolved = replace(evolved, fields=(*evolved.fields, *added))
    for each in given:
        has = {field.name for field in each.columns.fields}
        missing = next((field.name for field in evolved.fields if field.name not in has), None)
        if missing is not None:
            raise IncompatibleSchema(
                f"{source_title(each.source)} does not give the column `{missing}`",
                place=Place(field=missing),
                hint="all sources of a dataset give the same columns: change them in one manifest",
            )
        _evolved(evolved, each)  # two sources may say different things of a new column
        check_same_order(evolved, each.columns, vocabulary, of=source_title(each.source))
    return evolved


def _evolved(schema: DataSchema, given: GivenColumns) -> DataSchema:
    return evolved_schema(schema, given.columns, of=source_title(given.source), hint=_KEEP_COLUMNS)
