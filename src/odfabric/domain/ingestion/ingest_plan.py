"""Deciding an ingest: which source, and what is committed.

Owns the choice of a source and the events of a finished ingest. Invariant: every AddData
repeats what is still relevant of the last one (offset, checkpoint, watermark, source state), so the newest block is enough to
go on from (RFC-014). Not here: reading and merging rows (the engine), fetching (`usecases.polling.poll_source`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from odfabric.domain.chain.block_attributes import as_extra
from odfabric.domain.chain.schema_evolution import check_slice_schema, current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.ingestion.idempotency import IdempotencyEntry, sealed_attributes, sealed_state
from odfabric.domain.ingestion.media_types import best_effort_read_step
from odfabric.domain.ingestion.renamed_columns import renamed_attributes
from odfabric.domain.ingestion.watermark import ingest_watermark
from odfabric.errors import SourceNotFound
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import RenamedColumn
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DataSlice,
    MetadataEvent,
    SetDataSchema,
    SetPollingSource,
    SourceState,
)
from odfabric.model.source import MergeStrategyAppend

DEFAULT_SOURCE_NAME = "default"
AUTO_SOURCE_NAME = "auto"


def polling_source(state: ChainState) -> SetPollingSource | None:
    """The source that a dataset polls, None if it has none: it is up to date then."""
    return None if state.polling_source is None else state.polling_source.event


def push_source(state: ChainState, source_name: str | None) -> AddPushSource:
    """The source that pushed data goes to: the named one, or the single one.

    Raises SourceNotFound.
    """
    if state.polling_source is not None:
        raise SourceNotFound(
            "Expected a named push source, but found polling source", hint="the dataset fetches its data by itself"
        )
    names = [source.event.source_name for source in state.push_sources]
    if source_name is not None:
        found = state.push_source(source_name)
        if found is None:
            known = f"the dataset has: {', '.join(names)}" if names else "the dataset has no push source"
            raise SourceNotFound(f"Source '{source_name}' not found", hint=known)
        return found.event
    match state.push_sources:
        case ():
            raise SourceNotFound("The dataset has no push source", hint="add an AddPushSource event")
        case (single,):
            return single.event
        case _:
            raise SourceNotFound(
                "Explicit source name is required to pick between several active push sources",
                hint=f"name one of: {', '.join(names)}",
            )


def auto_push_source(media_type: str) -> AddPushSource:
    """The source that is created for a file which is pushed to a dataset without any.

    Raises UnsupportedMediaType.
    """
    return AddPushSource(
        source_name=AUTO_SOURCE_NAME, read=best_effort_read_step(media_type), merge=MergeStrategyAppend()
    )


def plan_add_data(
    state: ChainState,
    *,
    data_schema: DataSchema | None,
    new_data: DataSlice | None,
    max_event_time: Instant | None,
    explicit_watermark: Instant | None = None,
    source_state: SourceState | None = None,
    source_name: str = DEFAULT_SOURCE_NAME,
    idempotency: Sequence[IdempotencyEntry] = (),
    renamed: Sequence[RenamedColumn] = (),
    attributes: Mapping[str, object] = MappingProxyType({}),
) -> list[MetadataEvent]:
    """Events of a finished ingest, oldest first; none if there is nothing new.

    `data_schema` is that of the result (None if there was nothing to read), `source_state` where the source has got to (None
    repeats the last). `attributes` are those that the block has besides. With `idempotency` there always is an AddData, even if no rows came: the keys must be in the chain.
    Raises IncompatibleSchema if the result does not fit the dataset.
    """
    events = schema_events(state, data_schema)
    if idempotency:
        source_state = sealed_state(idempotency, source_name=source_name)
    last = state.add_data.event if state.add_data else None
    checkpoint = last.new_checkpoint if last else None
    add_data = AddData(
        prev_checkpoint=checkpoint.physical_hash if checkpoint else None,
        prev_offset=state.last_offset,
        new_data=new_data,
        new_checkpoint=checkpoint,
        new_watermark=ingest_watermark(state.watermark, max_event_time=max_event_time, explicit=explicit_watermark),
        new_source_state=source_state or state.source_state,
        extra=as_extra({**sealed_attributes(idempotency), **renamed_attributes(renamed), **attributes}),
    )
    advances = (
        new_data is not None
        or add_data.new_watermark != state.watermark
        or add_data.new_source_state != state.source_state
    )
    return [*events, add_data] if advances else events


def schema_events(state: ChainState, data_schema: DataSchema | None) -> list[MetadataEvent]:
    """SetDataSchema if the dataset has no schema yet.

    Otherwise nothing, provided the new data fits.

    Raises IncompatibleSchema.
    """
    if data_schema is None:
        return []
    current = current_schema(state)
    if current is None:
        return [SetDataSchema(schema=data_schema)]
    check_slice_schema(current, data_schema)
    return []
